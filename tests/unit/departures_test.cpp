// Departures: what follows from deaths, silence, words and marks. Each rule once; rank 0..5 on hosts of two unless said
// otherwise. Everything that follows is compared as text: "depart 3 failed proved".
#include "timeout_detector/departures.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <map>
#include <string>
#include <vector>

namespace ucft::detail {
namespace {

using namespace std::chrono_literals;
using Action = Departures::Action;
using Mark = Departures::Mark;
using Texts = std::vector<std::string>;

constexpr Departures::Options options{.suspect_after = 1s, .fence = true};
constexpr Departures::Options without_fence{.suspect_after = 1s, .fence = false};
const std::vector<std::uint64_t> one_host{7, 7, 7, 7}, two_hosts{7, 7, 8, 8}, three_hosts{7, 7, 8, 8, 9, 9};

std::string text_of(const Action& action) {
  const std::string rank = std::to_string(action.rank), certainty = action.proved     ? " proved"
                                                                    : action.has_left ? " left"
                                                                                      : " suspected";
  switch (action.kind) {
    case Action::Kind::hear_out: return "hear_out " + rank;
    case Action::Kind::fence: return "fence " + rank;
    case Action::Kind::tell_out: return "tell_out " + rank;
    case Action::Kind::depart: return "depart " + rank + (action.has_left ? " left" : " failed" + certainty);
    case Action::Kind::announce: return "announce to " + rank + ": " + std::to_string(action.about) + certainty;
    case Action::Kind::exclude_self: return "exclude_self";
  }
  return "?";
}

// Everything that follows now; who is heard out has written marks[rank].
Texts what_follows(Departures& departures, const std::map<Departures::Rank, Mark>& marks = {}) {
  Texts texts;
  while (const auto action = departures.next_action()) {
    texts.push_back(text_of(*action));
    if (action->kind != Action::Kind::hear_out) continue;
    const auto mark = marks.find(action->rank);
    departures.on_heard_out(action->rank, mark == marks.end() ? Mark::none : mark->second);
  }
  return texts;
}

Texts turn(Departures& departures, Departures::Time now = 0s) {
  departures.on_turn(now);
  return what_follows(departures);
}

// ---- deaths ----

TEST(Departures, AProvedDeathOfThisHostIsHeardOutAndDeparts) {
  Departures departures(0, one_host, options);
  departures.on_verdict(2, true);
  EXPECT_EQ(turn(departures), (Texts{"hear_out 2", "depart 2 failed proved"}));
  EXPECT_TRUE(departures.has_failed(2));
  EXPECT_FALSE(departures.has_left(2));
  EXPECT_FALSE(departures.may_live(2));
}

TEST(Departures, NothingFollowsBeforeATurnSoThatWhatComesTogetherIsJudgedTogether) {
  Departures departures(0, three_hosts, options);
  departures.on_verdict(4, false);
  EXPECT_FALSE(departures.next_action());
  for (const Departures::Rank rank : {5, 2, 3}) departures.on_verdict(rank, false);
  EXPECT_EQ(turn(departures).front(), "exclude_self");  // 4 alone would have departed
}

TEST(Departures, EachDepartsOnce) {
  Departures departures(0, one_host, options);
  departures.on_verdict(2, false);
  EXPECT_EQ(turn(departures).size(), 3u);
  departures.on_verdict(2, true);
  departures.on_leave_word(2, true);
  departures.on_mark(2, Mark::left);
  EXPECT_EQ(turn(departures), Texts{});
  EXPECT_TRUE(departures.has_failed(2));
}

TEST(Departures, WhoIsOnlySuspectedIsToldBeforeItIsForgotten) {
  Departures departures(0, one_host, without_fence);
  departures.on_verdict(2, false);
  EXPECT_EQ(turn(departures), (Texts{"hear_out 2", "tell_out 2", "depart 2 failed suspected"}));
}

TEST(Departures, AProofStaysWhateverOthersSuspect) {
  Departures departures(0, three_hosts, options);
  departures.on_word(2, 4, true);
  departures.on_word(3, 4, false);
  departures.on_verdict(4, false);
  EXPECT_TRUE(departures.is_proved(4));
  EXPECT_EQ(turn(departures)[1], "depart 4 failed proved");
}

TEST(Departures, AProofMayFollowASuspicion) {
  Departures departures(0, three_hosts, options);
  departures.on_verdict(4, false);
  turn(departures);
  departures.on_verdict(4, true);
  EXPECT_TRUE(departures.is_proved(4));
  EXPECT_EQ(departures.take_failures(), (std::vector<Departures::Failure>{{4, true}}));
}

TEST(Departures, EachFailureIsReportedOnceInRankOrder) {
  Departures departures(0, one_host, options);
  departures.on_verdict(3, true);
  departures.on_verdict(1, true);
  turn(departures);
  EXPECT_EQ(departures.take_failures(), (std::vector<Departures::Failure>{{1, true}, {3, true}}));
  EXPECT_TRUE(departures.take_failures().empty());
}

// ---- leaving ----

TEST(Departures, LeavingIsNotFailing) {
  Departures departures(0, three_hosts, options);
  departures.on_leave_word(3, true);
  EXPECT_EQ(turn(departures), (Texts{"depart 3 left"}));
  EXPECT_TRUE(departures.has_left(3));
  EXPECT_FALSE(departures.has_failed(3));
  EXPECT_TRUE(departures.take_failures().empty());
}

TEST(Departures, AMarkThatARankHasLeftIsEnough) {
  Departures departures(0, one_host, options);
  departures.on_mark(3, Mark::left);
  EXPECT_EQ(what_follows(departures, {{3, Mark::left}}), (Texts{"hear_out 3", "depart 3 left"}));
}

TEST(Departures, WhoLeftAndThenEndedHasLeft) {
  Departures departures(0, one_host, options);
  departures.on_verdict(3, true);
  departures.on_turn(0s);
  EXPECT_EQ(what_follows(departures, {{3, Mark::left}}), (Texts{"hear_out 3", "depart 3 left"}));
}

TEST(Departures, TheWordThatItLeavesIsFoundWhileItIsHeardOut) {
  Departures departures(0, three_hosts, options);
  departures.on_verdict(3, true);
  departures.on_turn(0s);
  ASSERT_EQ(text_of(*departures.next_action()), "hear_out 3");
  departures.on_leave_word(3, true);
  departures.on_heard_out(3, Mark::none);
  EXPECT_EQ(what_follows(departures), (Texts{"depart 3 left"}));
}

// Else its operations could end without the leaver, for a rank that is out.
TEST(Departures, ARankThatHearsFromALeaverThatItIsOutIsOutBeforeTheLeaverDeparts) {
  Departures departures(0, three_hosts, options);
  departures.on_left_word(3, true, 0s);
  ASSERT_EQ(text_of(*departures.next_action()), "hear_out 3");
  departures.on_excluded_word(3);
  departures.on_heard_out(3, Mark::none);
  const Texts texts = what_follows(departures);
  EXPECT_EQ(texts.front(), "exclude_self");
  EXPECT_EQ(std::ranges::count(texts, "exclude_self"), 1);
  EXPECT_EQ(std::ranges::count(texts, "depart 3 left"), 1);
  EXPECT_EQ(turn(departures), Texts{});
}

TEST(Departures, WhoSaysOnItsLifelineThatItLeavesIsGivenTimeForItsLastMessages) {
  Departures departures(0, three_hosts, options);
  departures.watch_along({{0, 3}});
  departures.on_lifeline_leave(3, true, 5s);
  EXPECT_EQ(turn(departures, 5900ms), Texts{});
  EXPECT_TRUE(departures.is_waiting());
  EXPECT_EQ(turn(departures, 6s), (Texts{"hear_out 3", "depart 3 left", "announce to 1: 3 left",
                                         "announce to 4: 3 left", "announce to 5: 3 left"}));
  turn(departures, 7s);
  EXPECT_FALSE(departures.is_waiting());
}

TEST(Departures, WhoHasSaidThatItLeavesDoesNotFailByItsSilence) {
  Departures departures(0, three_hosts, options);
  departures.on_lifeline_leave(3, true, 5s);
  departures.on_word(2, 3, false);
  EXPECT_EQ(turn(departures, 5s), (Texts{"hear_out 3", "depart 3 left"}));
}

// It has ended its operations in the middle: nobody may conclude that it has been through its last barrier.
TEST(Departures, WhoSaidThatItIsOutHasFailedThoughItLeavesAfterwards) {
  Departures departures(0, three_hosts, options);
  departures.on_word(3, 3, true);
  departures.on_leave_word(3, true);
  EXPECT_EQ(turn(departures), (Texts{"hear_out 3", "depart 3 failed proved"}));
  Departures by_lifeline(0, three_hosts, options);
  by_lifeline.on_verdict(3, true);
  by_lifeline.on_lifeline_leave(3, true, 0s);
  EXPECT_EQ(turn(by_lifeline)[1], "depart 3 failed proved");
}

TEST(Departures, AMarkThatARankIsOutIsAProof) {
  Departures departures(0, one_host, options);
  departures.on_mark(3, Mark::out);
  EXPECT_EQ(what_follows(departures, {{3, Mark::out}}), (Texts{"hear_out 3", "depart 3 failed proved"}));
}

TEST(Departures, AMarkThatIsFoundWhileARankIsHeardOutIsAProofToo) {
  Departures departures(0, one_host, without_fence);
  departures.on_verdict(3, false);
  departures.on_turn(0s);
  EXPECT_EQ(what_follows(departures, {{3, Mark::out}}), (Texts{"hear_out 3", "depart 3 failed proved"}));
}

// ---- who tells whom ----

TEST(Departures, ADeathOnAnotherHostIsToldToAllByWhoSawIt) {
  Departures departures(0, three_hosts, options);
  departures.on_verdict(3, true);
  EXPECT_EQ(turn(departures), (Texts{"hear_out 3", "depart 3 failed proved", "announce to 1: 3 proved",
                                     "announce to 2: 3 proved", "announce to 4: 3 proved", "announce to 5: 3 proved"}));
}

TEST(Departures, WhoWasToldByAnotherTellsNobody) {
  Departures departures(0, three_hosts, options);
  departures.on_word(5, 3, true);
  EXPECT_EQ(turn(departures), (Texts{"hear_out 3", "depart 3 failed proved"}));
}

TEST(Departures, ADeathOnThisHostIsToldToTheOtherHosts) {
  Departures departures(0, two_hosts, options);
  departures.on_verdict(1, true);
  EXPECT_EQ(turn(departures),
            (Texts{"hear_out 1", "depart 1 failed proved", "announce to 2: 1 proved", "announce to 3: 1 proved"}));
}

TEST(Departures, TheTwoLowestThatLiveTellOfADeathOnTheirHost) {
  const std::vector<std::uint64_t> hosts{7, 7, 7, 7, 7, 8};
  for (const Departures::Rank me : {0, 1, 2, 3}) {
    Departures departures(me, hosts, options);
    departures.on_verdict(4, true);
    EXPECT_EQ(turn(departures).size(), me < 2 ? 3u : 2u) << me;
  }
}

TEST(Departures, WhoBecomesOneOfTheTwoLowestTellsWhatItHasKept) {
  const std::vector<std::uint64_t> hosts{7, 7, 7, 7, 7, 8};
  Departures departures(2, hosts, options);
  departures.on_verdict(4, true);
  turn(departures);
  departures.on_verdict(0, true);
  EXPECT_EQ(turn(departures),
            (Texts{"hear_out 0", "depart 0 failed proved", "announce to 5: 0 proved", "announce to 5: 4 proved"}));
}

// Found by the explorer: the first to tell may have died before it told all.
TEST(Departures, WhoWasToldFirstAndThenSeesItTellsAllToo) {
  Departures departures(0, {7, 8, 9}, options);
  departures.on_word(2, 1, true);
  turn(departures);
  departures.on_verdict(1, true);
  EXPECT_EQ(turn(departures), (Texts{"announce to 2: 1 proved"}));
  departures.on_verdict(1, true);
  EXPECT_EQ(turn(departures), Texts{});
}

TEST(Departures, NobodyBelievesWhoHasDeparted) {
  Departures departures(0, three_hosts, options);
  departures.on_verdict(2, false);
  turn(departures);
  departures.on_word(2, 4, true);
  departures.on_excluded_word(2);
  EXPECT_EQ(turn(departures), Texts{});
  EXPECT_FALSE(departures.is_out());
}

// Found by the explorer: hosts 0 | 1 2; 1 hangs, is declared dead by all, comes back, and is out; then the two hosts
// lose each other. Rank 0 has the proof from 1's lifeline, and counts two ranks. If 2 still counted three, both would
// go on.
TEST(Departures, WhoSaysThatItIsOutIsProvedAlsoAfterItHasDeparted) {
  Departures by_word(2, {7, 8, 8}, without_fence), by_mark(2, {7, 8, 8}, without_fence);
  for (Departures* each : {&by_word, &by_mark}) {
    each->on_word(0, 1, false);
    turn(*each);
    EXPECT_TRUE(each->has_failed(1));
    EXPECT_FALSE(each->is_proved(1));
  }
  by_word.on_word(1, 1, true);
  by_mark.on_mark(1, Mark::out);
  for (Departures* each : {&by_word, &by_mark}) {
    EXPECT_TRUE(each->is_proved(1));
    each->on_verdict(0, false);
    EXPECT_EQ(turn(*each).front(), "exclude_self");
  }
}

// ---- majority ----

TEST(Departures, TheSideWithMoreThanHalfGoesOn) {
  Departures departures(2, three_hosts, options);
  departures.on_verdict(0, false);
  departures.on_verdict(1, false);
  turn(departures);
  EXPECT_FALSE(departures.is_out());
  EXPECT_TRUE(departures.has_failed(0) && departures.has_failed(1));
}

TEST(Departures, TheSideWithLessThanHalfIsOutAndSaysSo) {
  Departures departures(0, three_hosts, options);
  for (const Departures::Rank rank : {2, 3, 4, 5}) departures.on_verdict(rank, false);
  EXPECT_EQ(turn(departures), (Texts{"exclude_self", "announce to 1: 0 proved", "announce to 2: 0 proved",
                                     "announce to 3: 0 proved", "announce to 4: 0 proved", "announce to 5: 0 proved"}));
  EXPECT_EQ(departures.exclusion(), Departures::Exclusion::minority);
  EXPECT_EQ(departures.count().counted, 6);
  EXPECT_EQ(departures.count().lost, (std::vector<Departures::Rank>{2, 3, 4, 5}));
}

TEST(Departures, OfTwoHalvesTheOneWithTheLowestRankGoesOn) {
  Departures with_lowest(1, two_hosts, options), other(3, two_hosts, options);
  for (const Departures::Rank rank : {2, 3}) with_lowest.on_verdict(rank, false);
  for (const Departures::Rank rank : {0, 1}) other.on_verdict(rank, false);
  turn(with_lowest);
  turn(other);
  EXPECT_FALSE(with_lowest.is_out());
  EXPECT_TRUE(other.is_out());
}

TEST(Departures, ProvedDeathsAndLeaversDoNotCount) {
  Departures departures(3, two_hosts, options);
  departures.on_leave_word(0, true);
  departures.on_verdict(1, false);
  turn(departures);
  EXPECT_FALSE(departures.is_out());  // two of three
  Departures last(3, two_hosts, options);
  for (const Departures::Rank rank : {0, 1, 2}) last.on_verdict(rank, true);
  turn(last);
  EXPECT_FALSE(last.is_out());
}

TEST(Departures, OfTwoHalvesTheLowestIsTheLowestThatMayLive) {
  Departures departures(2, {7, 7, 8, 8, 9}, options);
  departures.on_verdict(0, true);
  for (const Departures::Rank rank : {1, 4}) departures.on_verdict(rank, false);
  turn(departures);
  EXPECT_TRUE(departures.is_out());  // 1 is the lowest
  Departures other(2, {7, 7, 8, 8, 9, 9}, options);
  for (const Departures::Rank rank : {0, 1}) other.on_verdict(rank, true);
  for (const Departures::Rank rank : {4, 5}) other.on_verdict(rank, false);
  turn(other);
  EXPECT_FALSE(other.is_out());  // 2 is
}

TEST(Departures, SilenceOnOneHostIsNoPartition) {
  Departures departures(3, one_host, without_fence);
  for (const Departures::Rank rank : {0, 1, 2}) departures.on_verdict(rank, false);
  turn(departures);
  EXPECT_FALSE(departures.is_out());
}

TEST(Departures, WhatWasLostOnSuspicionCountsForEver) {
  Departures departures(4, {0, 1, 2, 3, 4}, options);
  departures.on_verdict(0, false);
  departures.on_verdict(1, false);
  turn(departures);
  EXPECT_FALSE(departures.is_out());
  departures.on_verdict(2, false);
  turn(departures);
  EXPECT_TRUE(departures.is_out());
}

// ---- being out ----

TEST(Departures, WhoIsToldThatItWasDeclaredDeadIsOut) {
  Departures by_message(0, three_hosts, options), by_alarm(0, three_hosts, options), by_memory(0, three_hosts, options);
  by_message.on_excluded_word(3);
  by_alarm.on_word(3, 0, false);
  by_memory.on_excluded_mark(3);
  for (Departures* each : {&by_message, &by_alarm, &by_memory}) {
    EXPECT_EQ(turn(*each).front(), "exclude_self");
    EXPECT_EQ(each->exclusion(), Departures::Exclusion::declared_dead);
    EXPECT_EQ(each->excluded_by(), 3);
  }
}

TEST(Departures, TwoThatHaveLostEachOtherDoNotTakeTheOthersWord) {
  Departures departures(0, three_hosts, options);
  departures.on_verdict(3, false);
  departures.on_excluded_word(3);
  turn(departures);
  EXPECT_FALSE(departures.is_out());
}

// Found by the explorer: 0 and 1 hang in turn, without shared memory and without a fence, and each finds the other
// silent. Who is silent on one host is not counted, so no majority decides between them.
TEST(Departures, OfTwoOnOneHostThatHaveLostEachOtherTheLowerGoesOn) {
  Departures lower(0, one_host, without_fence), upper(1, one_host, without_fence);
  lower.on_verdict(1, false);
  upper.on_verdict(0, false);
  turn(lower);
  turn(upper);
  lower.on_excluded_word(1);
  upper.on_excluded_word(0);
  turn(lower);
  turn(upper);
  EXPECT_FALSE(lower.is_out());
  EXPECT_TRUE(upper.is_out());
}

TEST(Departures, WhoIsOutDrawsNoConclusionsFromTheSilenceOfTheOthers) {
  Departures departures(0, three_hosts, options);
  departures.on_lifeline_leave(1, true, 0s);
  departures.on_verdict(4, false);
  departures.on_excluded_word(3);
  EXPECT_EQ(turn(departures, 9s).size(), 6u);  // exclude_self, and five are told
  departures.on_verdict(5, true);
  departures.on_connection_lost(2, 0s);
  departures.on_mark(1, Mark::left);
  EXPECT_EQ(turn(departures, 9s), Texts{});
  EXPECT_EQ(departures.exclusion(), Departures::Exclusion::declared_dead);
  EXPECT_FALSE(departures.may_live(5));  // known all the same
}

// ---- lost connections ----

// A rank that leaves closes its connections, too: others may have heard that.
TEST(Departures, ALostConnectionIsASuspicionIfNothingElseIsHeardForSoLong) {
  Departures departures(0, three_hosts, options);
  departures.on_connection_lost(3, 0s);
  EXPECT_EQ(turn(departures, 999ms), Texts{});
  EXPECT_EQ(turn(departures, 1s)[2], "depart 3 failed suspected");
}

TEST(Departures, ALostConnectionOfARankThatLeavesIsItsEndWhenThatIsHeardOrNothingElseIs) {
  Departures silent(0, three_hosts, options), told(0, three_hosts, options);
  silent.on_leaving(3);
  EXPECT_EQ(turn(silent), Texts{}) << "it is there yet";
  silent.on_connection_lost(3, 5s);
  EXPECT_EQ(turn(silent, 5900ms), Texts{});
  EXPECT_EQ(turn(silent, 6s)[1], "depart 3 left");
  told.on_connection_lost(3, 5s);
  told.on_left_word(2, true, 5s);
  told.on_left_word(3, true, 5s);
  EXPECT_EQ(turn(told, 5s), (Texts{"hear_out 2", "hear_out 3", "depart 2 left", "depart 3 left"}));
}

// Three hosts of two ranks; 4 and 5 leave, and 2 and 3 are silent. The other side may know so, or not.
TEST(Departures, ARankThatLeavesCountsForNoSideAndAgainstTheOneThatHasLostIt) {
  const auto outcome = [](auto prepare) {
    Departures departures(2, three_hosts, options);  // without the lowest rank
    prepare(departures);
    departures.on_verdict(0, false);
    departures.on_verdict(1, false);
    turn(departures);
    return departures.exclusion();
  };
  using Exclusion = Departures::Exclusion;
  EXPECT_EQ(outcome([](Departures&) {}), Exclusion::none);
  EXPECT_EQ(outcome([](Departures& it) { it.on_leaving(4), it.on_leaving(5); }), Exclusion::minority);
  EXPECT_EQ(outcome([](Departures& it) { it.on_leave_word(4, false), it.on_leave_word(5, false); }),
            Exclusion::minority);
  Departures lowest(0, three_hosts, options);
  lowest.on_leave_word(4, true);
  lowest.on_leave_word(5, true);
  lowest.on_verdict(2, false);
  lowest.on_verdict(3, false);
  turn(lowest);
  EXPECT_EQ(lowest.exclusion(), Exclusion::none) << "half, with the lowest rank";
}

// Also when its process ends, or it is silent, before it has said its last word.
TEST(Departures, WhateverEndsARankThatLeavesItIsNoFailure) {
  for (bool proved : {false, true}) {
    Departures departures(0, three_hosts, options);
    departures.on_leaving(3);
    departures.on_verdict(3, proved);
    EXPECT_EQ(turn(departures), (Texts{"hear_out 3", "depart 3 left"}));
    EXPECT_TRUE(departures.take_failures().empty());
  }
}

// Those that have a lifeline with it hear it there; its host sees it; the others hear it from them.
TEST(Departures, WhoWatchesALeaverTellsThoseThatDoNot) {
  Departures watcher(0, three_hosts, options), leaving(0, three_hosts, options);
  for (Departures* each : {&watcher, &leaving}) each->watch_along({{0, 2}, {1, 4}, {2, 4}});
  watcher.on_lifeline_leave(2, true, 5s);
  watcher.on_leave_word(2, true);
  EXPECT_EQ(turn(watcher, 5s), (Texts{"depart 2 left", "announce to 1: 2 left", "announce to 5: 2 left"}));
  leaving.leave();
  leaving.on_leave_word(2, true);
  EXPECT_EQ(turn(leaving, 5s), Texts{"depart 2 left"});
}

TEST(Departures, WithALifelineALostConnectionWaitsForProof) {
  Departures departures(0, three_hosts, options);
  departures.watch_along({{0, 2}, {0, 3}});
  departures.on_connection_lost(3, 5s);
  EXPECT_EQ(turn(departures, 5999ms), Texts{});
  EXPECT_EQ(turn(departures, 6s)[2], "depart 3 failed suspected");
}

TEST(Departures, WhoseLifelineIsLostIsAsOneThatNeverHadOne) {
  Departures departures(0, three_hosts, options);
  departures.watch_along({{0, 2}, {0, 3}});
  departures.on_line_lost(3);
  departures.on_connection_lost(3, 5s);
  EXPECT_EQ(turn(departures, 6s)[2], "depart 3 failed suspected");
}

TEST(Departures, OnThisHostALostConnectionIsFencedAndItsEndIsTheProof) {
  Departures departures(0, one_host, options);
  departures.on_connection_lost(3, 5s);
  EXPECT_EQ(turn(departures, 5500ms), Texts{});
  EXPECT_EQ(turn(departures, 6s), (Texts{"fence 3"}));
  EXPECT_EQ(turn(departures, 6500ms), Texts{});
  EXPECT_EQ(turn(departures, 7s), (Texts{"fence 3"}));  // once more
  departures.on_verdict(3, true);
  EXPECT_EQ(turn(departures, 7s), (Texts{"hear_out 3", "depart 3 failed proved"}));
  EXPECT_EQ(turn(departures, 9s), Texts{});
  EXPECT_FALSE(departures.is_waiting());
}

TEST(Departures, WhoCannotBeFencedIsSuspected) {
  Departures refused(0, one_host, options), off(0, one_host, without_fence);
  refused.on_connection_lost(3, 5s);
  EXPECT_EQ(turn(refused, 6s), (Texts{"fence 3"}));
  refused.on_fence_refused(3);
  EXPECT_EQ(turn(refused, 6s)[2], "depart 3 failed suspected");
  off.on_connection_lost(3, 5s);
  EXPECT_EQ(turn(off, 6s)[2], "depart 3 failed suspected");
}

TEST(Departures, TheConnectionOfALeaverMayBreak) {
  Departures departures(0, three_hosts, options);
  departures.watch_along({{0, 3}});
  departures.on_lifeline_leave(3, true, 5s);
  departures.on_connection_lost(3, 5s);
  EXPECT_EQ(turn(departures, 5s)[1], "depart 3 left");
}

TEST(Departures, ACopyGoesOnAsTheOriginalDoes) {
  Departures departures(0, three_hosts, options);
  departures.on_verdict(3, false);
  Departures copy = departures;
  EXPECT_TRUE(copy == departures);
  EXPECT_EQ(turn(copy), turn(departures));
  EXPECT_TRUE(copy == departures);
}

// ---- few lifelines ----

// Hosts {0, 1}, {2, 3}, {4, 5}; each watches the next host, the first rank its first, the second its second.
const std::vector<LifelineEnds> in_a_ring{{0, 2}, {0, 4}, {1, 3}, {1, 5}, {2, 4}, {3, 5}};

TEST(Departures, AHostOverWhoseOtherLifelinesSomethingIsHeardStays) {
  Departures departures(0, three_hosts, options);
  departures.watch_along(in_a_ring);
  departures.on_verdict(2, false);
  EXPECT_EQ(turn(departures)[2], "depart 2 failed suspected");
  EXPECT_FALSE(departures.has_failed(3));
  departures.on_word(1, 3, false);  // and now both of its ranks are
  turn(departures);
  EXPECT_TRUE(departures.has_failed(3));
  EXPECT_FALSE(departures.has_failed(4) || departures.has_failed(5) || departures.is_out());
}

TEST(Departures, WhomNobodyWatchesIsSilentWithItsHost) {
  Departures departures(0, three_hosts, options);
  departures.watch_along({{0, 2}, {0, 4}, {1, 5}, {2, 4}});  // none of rank 3's
  departures.on_verdict(2, false);
  const Texts what = turn(departures);
  EXPECT_TRUE(departures.has_failed(2) && departures.has_failed(3));
  EXPECT_NE(std::ranges::find(what, "depart 3 failed suspected"), what.end());
}

TEST(Departures, WhoHearsNobodyIsItselfCutOff) {
  const std::vector<std::uint64_t> hosts{0, 1, 2, 3, 4, 5};
  Departures departures(0, hosts, options);
  departures.watch_along({{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {0, 5}});
  departures.on_verdict(1, false);
  turn(departures);
  EXPECT_FALSE(departures.is_out());
  departures.on_verdict(5, false);
  turn(departures);
  EXPECT_EQ(departures.exclusion(), Departures::Exclusion::minority);
  EXPECT_EQ(departures.count().lost, (std::vector<Departures::Rank>{1, 2, 3, 4, 5}));
}

TEST(Departures, WhoseNeighboursSayThatTheyAreOutIsCutOffWithThem) {
  const std::vector<std::uint64_t> hosts{0, 1, 2, 3, 4, 5};
  Departures departures(0, hosts, options);
  departures.watch_along({{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {0, 5}});
  departures.on_lifeline_out(1);
  turn(departures);
  EXPECT_TRUE(departures.is_proved(1) && !departures.is_out());
  departures.on_lifeline_out(5);
  turn(departures);
  EXPECT_EQ(departures.exclusion(), Departures::Exclusion::minority);
  EXPECT_EQ(departures.count().lost, (std::vector<Departures::Rank>{2, 3, 4}));
}

TEST(Departures, DeathsAndFarewellsLeaveHostsUnwatchedAndNotSilent) {
  const std::vector<std::uint64_t> hosts{0, 1, 2, 3, 4};
  Departures departures(0, hosts, options);
  departures.watch_along({{0, 1}, {1, 2}, {2, 3}, {0, 3}, {0, 4}});
  departures.on_verdict(1, true);
  departures.on_leave_word(3, true);
  departures.on_verdict(4, false);  // which has nothing to do with it
  turn(departures);
  EXPECT_TRUE(departures.has_failed(4));
  EXPECT_FALSE(departures.is_out() || departures.has_failed(2));
  departures.on_word(2, 2, true);  // it is out itself
  turn(departures);
  EXPECT_TRUE(departures.has_failed(2));
}

TEST(Departures, SilenceOfARankOfThisHostSaysNothingOfOthers) {
  Departures departures(0, three_hosts, without_fence);
  departures.watch_along({{1, 2}, {1, 4}, {2, 4}});
  departures.on_verdict(1, false);
  turn(departures);
  EXPECT_TRUE(departures.has_failed(1));
  EXPECT_FALSE(departures.is_out() || departures.has_failed(2) || departures.has_failed(4));
}

// ---- ranks that are absent from the start ----

TEST(Departures, AnAbsentRankHasFailedAndNothingFollows) {
  Departures departures(2, three_hosts, options);
  departures.begin_without({true, false, false, false, false, true});
  EXPECT_EQ(turn(departures), Texts{});
  for (const Departures::Rank absent : {0, 5}) {
    EXPECT_TRUE(departures.has_failed(absent) && departures.is_proved(absent) && departures.is_gone(absent));
    EXPECT_FALSE(departures.may_live(absent) || departures.has_left(absent));
  }
  EXPECT_TRUE(departures.may_live(1) && !departures.is_gone(1));
  EXPECT_TRUE(departures.take_failures().empty());
  departures.on_word(1, 5, true);
  departures.on_verdict(0, true);
  departures.on_connection_lost(5, 0s);
  EXPECT_EQ(turn(departures), Texts{});
  EXPECT_EQ(departures.count().counted, 4);
}

TEST(Departures, AnAbsentRankCountsForNoSide) {
  Departures with(2, three_hosts, options), without(2, three_hosts, options);
  without.begin_without({true, true, false, false, false, false});
  for (Departures* each : {&with, &without}) {
    for (const Departures::Rank rank : {4, 5}) each->on_verdict(rank, false);
    turn(*each);
  }
  EXPECT_FALSE(with.is_out());
  EXPECT_FALSE(without.is_out()) << "two of four, and the lowest of them";
  Departures upper(4, three_hosts, options);
  upper.begin_without({true, true, false, false, false, false});
  for (const Departures::Rank rank : {2, 3}) upper.on_verdict(rank, false);
  EXPECT_EQ(turn(upper).front(), "exclude_self");
}

TEST(Departures, TheOthersOfAnAbsentRanksHostSpeakForIt) {
  Departures departures(2, {7, 7, 7, 8}, options);
  departures.begin_without({true, false, false, false});
  departures.on_verdict(1, true);
  EXPECT_EQ(turn(departures), (Texts{"hear_out 1", "depart 1 failed proved", "announce to 3: 1 proved"}));
  EXPECT_EQ(departures.take_failures(), (std::vector<Departures::Failure>{{1, true}}));
}

TEST(Departures, ANewNeighbourIsNotToldOfAbsentRanks) {
  Departures departures(1, {7, 7, 8, 8, 9}, options);
  departures.begin_without({false, false, true, false, false});
  departures.tell_along({{0, 1}, {3}});
  departures.on_word(0, 4, true);
  EXPECT_EQ(turn(departures),
            (Texts{"hear_out 4", "depart 4 failed proved", "announce to 0: 4 proved", "announce to 3: 4 proved"}));
}

// ---- along a graph ----

const std::vector<std::vector<Departures::Rank>> of_rank_0{{0, 1}, {2, 3}};

TEST(Departures, NewsArePassedOnToNeighboursOnceAndAgainWhenProved) {
  Departures departures(0, three_hosts, options);
  departures.tell_along(of_rank_0);
  departures.on_word(2, 4, false);
  EXPECT_EQ(turn(departures),
            (Texts{"hear_out 4", "tell_out 4", "depart 4 failed suspected", "announce to 1: 4 suspected",
                   "announce to 2: 4 suspected", "announce to 3: 4 suspected"}));
  departures.on_word(3, 4, false);
  EXPECT_EQ(turn(departures), Texts{});
  departures.on_word(3, 4, true);
  EXPECT_EQ(turn(departures), (Texts{"announce to 1: 4 proved", "announce to 2: 4 proved", "announce to 3: 4 proved"}));
}

TEST(Departures, OnlyTheFirstTwoOfAHostTellOthersAndOnlyTheFirstTwo) {
  const std::vector<std::uint64_t> hosts{7, 7, 7, 8, 8, 8, 9};
  Departures departures(2, hosts, options);
  departures.tell_along({{0, 1, 2}, {3, 4, 5}});
  EXPECT_EQ(departures.near(), (std::vector<Departures::Rank>{0, 1}));
  departures.on_word(0, 6, true);
  EXPECT_EQ(turn(departures),
            (Texts{"hear_out 6", "depart 6 failed proved", "announce to 0: 6 proved", "announce to 1: 6 proved"}));
  departures.on_verdict(1, true);
  EXPECT_EQ(turn(departures), (Texts{"hear_out 1", "depart 1 failed proved", "announce to 3: 1 proved",
                                     "announce to 4: 1 proved", "announce to 3: 6 proved", "announce to 4: 6 proved"}))
      << "1 may not have said it of 6";
  EXPECT_EQ(departures.near(), (std::vector<Departures::Rank>{0, 3, 4}));
}

TEST(Departures, WhoTakesThePlaceOfADeadNeighbourGetsTheOldNews) {
  Departures departures(0, {7, 7, 8, 8, 8, 9}, options);
  departures.tell_along({{0, 1}, {2, 3, 4}});
  departures.on_word(1, 5, true);
  EXPECT_EQ(turn(departures), (Texts{"hear_out 5", "depart 5 failed proved", "announce to 1: 5 proved",
                                     "announce to 2: 5 proved", "announce to 3: 5 proved"}));
  departures.on_word(1, 2, true);
  EXPECT_EQ(turn(departures), (Texts{"hear_out 2", "depart 2 failed proved", "announce to 1: 2 proved",
                                     "announce to 3: 2 proved", "announce to 4: 2 proved", "announce to 4: 5 proved"}));
}

TEST(Departures, AlongAGraphALostConnectionWaitsForNews) {
  Departures departures(0, three_hosts, options);
  departures.tell_along(of_rank_0);
  departures.on_connection_lost(4, 0s);
  EXPECT_EQ(turn(departures, 900ms), Texts{});
  EXPECT_EQ(turn(departures, 1s).front(), "hear_out 4");
}

}  // namespace
}  // namespace ucft::detail
