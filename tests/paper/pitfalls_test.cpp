// What model checking found wrong in earlier versions of the retry protocol (docs/algorithms.md), one test each.
// Transcripts by hand: who receives what, who dies, who hears of it, in this order.
#include "collectives/topology/reduce_topology.hpp"
#include "simulator/explorer.hpp"
#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;
using namespace simulator;

constexpr BroadcastShape chain{Tree::kary, Numbering::interleaved, 1};  // 0 -> 1 -> 2 -> ...

Bytes bit_of(Rank rank) { return word(1ull << rank); }

Arguments on_a_chain(std::int32_t f) {
  Arguments arguments = sum_of_words(f);
  arguments.shape = chain;
  return arguments;
}

Letter message(const Arguments& arguments, Phase phase, Rank from, OperationNumber operation, Rank attempt) {
  Letter made;
  made.from = from;
  made.message.operation = operation;
  made.message.phase = phase;
  made.message.attempt = attempt;
  made.message.signature = arguments.signature();
  return made;
}
Letter decision(const Arguments& arguments, Phase phase, Rank from, OperationNumber operation, Rank attempt,
                Rank first_decided, std::uint64_t value) {
  Letter made = message(arguments, phase, from, operation, attempt);
  made.message.flags = has_value;
  made.message.first_decided = first_decided;
  made.message.contributors = 1;
  made.value = word(value);
  return made;
}
Letter contribution(const Arguments& arguments, Phase phase, Rank from, OperationNumber operation, Rank attempt,
                    Rank prev, std::uint64_t value) {
  Letter made = message(arguments, phase, from, operation, attempt);
  made.message.flags = has_value;
  made.message.prev = prev;
  made.message.contributors = 1;
  made.value = word(value);
  return made;
}

// ---- the backstop ----

// Rank 2 knows that rank 1, between it and the root, is dead before it starts: nobody will tell it the result unless it
// asks at once. (n = 3, f = 1)
TEST(Pitfalls, BackstopAlsoAtJoin) {
  HandFedWorld world(3);
  world.kill(1);
  world.tell(2, 1);
  world.post(0, on_a_chain(1), bit_of(0));
  world.post(2, on_a_chain(1), bit_of(2));
  EXPECT_TRUE(std::any_of(world.letters.begin(), world.letters.end(), HandFedWorld::is(2, 0, Phase::ask)));
  world.run();
  EXPECT_EQ(word_of(world[2].ended(0).value), 5u);
  EXPECT_EQ(word_of(world[0].ended(0).value), 5u);
}

TEST(Pitfalls, BackstopWhenTheDeathIsHeardAfterTheStart) {
  HandFedWorld world(3);
  world.kill(1);
  world.post(0, on_a_chain(1), bit_of(0));
  world.post(2, on_a_chain(1), bit_of(2));
  EXPECT_EQ(world.counted[Phase::ask], 0);
  world.tell(2, 1);
  EXPECT_EQ(world.counted[Phase::ask], 1);
  world.run();
  EXPECT_EQ(word_of(world[2].ended(0).value), 5u);
}

// The decision was made and sent to the dead forwarder before anybody heard of the death.
TEST(Pitfalls, BackstopFindsADecisionThatWasMadeLongAgo) {
  HandFedWorld world(3);
  world.post_all(on_a_chain(1), bit_of);
  while (world.deliver([](const Letter& letter) { return letter.message.phase != Phase::broadcast; })) {}
  ASSERT_TRUE(world[0].has_ended(0));
  world.kill(1);
  world.run();
  EXPECT_FALSE(world[2].has_ended(0));
  world.tell(2, 1);
  world.run();
  EXPECT_EQ(word_of(world[2].ended(0).value), 7u);
}

TEST(Pitfalls, ACutOffRankAsksOncePerBallot) {
  HandFedRank rank(3, 8);
  Arguments arguments = on_a_chain(3);
  rank.post(arguments, word(1));
  rank.sent();
  rank.hear_of_death(1);
  EXPECT_EQ(rank.sent(Phase::ask).size(), 1u);
  rank.hear_of_death(2);
  EXPECT_EQ(rank.sent(Phase::ask).size(), 0u) << "asked already";
  rank.hear_of_death(0);  // ballot 3 would be its own: the next live candidate after 0, 1, 2
  EXPECT_EQ(rank.sent(Phase::ask).size(), 0u) << "the root asks nobody";
}

TEST(Pitfalls, AnAskerIsRememberedUntilTheDecision) {
  HandFedRank root(0, 3);
  const Arguments arguments = on_a_chain(1);
  root.feed(message(arguments, Phase::ask, 2, 0, 0));  // before the start, even
  root.post(arguments, word(1));
  EXPECT_TRUE(root.sent(Phase::decided).empty());
  root.hear_of_death(1);
  root.feed(contribution(arguments, Phase::up, 2, 0, 0, no_rank, 4));
  const std::vector<Letter> answers = root.sent(Phase::decided);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].to, 2);
  EXPECT_EQ(word_of(answers[0].value), 5u);
  root.feed(message(arguments, Phase::ask, 2, 0, 0));
  EXPECT_EQ(root.sent(Phase::decided).size(), 1u) << "and it answers again when asked again";
}

TEST(Pitfalls, OnlyTheRootOfABallotAnswersForIt) {
  HandFedRank rank(1, 3);
  const Arguments arguments = sum_of_words(1);
  rank.post(arguments, word(1));
  rank.feed(decision(arguments, Phase::broadcast, 0, 0, 0, 0, 7));
  rank.sent();
  rank.feed(message(arguments, Phase::ask, 2, 0, 0));
  EXPECT_TRUE(rank.sent().empty()) << "0 answers for ballot 0";
  rank.feed(message(arguments, Phase::ask, 2, 0, 1));
  EXPECT_EQ(rank.sent(Phase::decided).size(), 1u) << "what it delivered it may say at its own ballot";
}

// ---- ballots ----

// 0 decides with its own value, dies, and its broadcast arrives late: after both survivors have begun anew without 0.
TEST(Pitfalls, ALateBroadcastOfADeadRootIsRefused) {
  HandFedWorld world(3);
  world.post_all(sum_of_words(1), bit_of);
  while (world.deliver([](const Letter& letter) { return letter.message.phase != Phase::broadcast; })) {}
  ASSERT_EQ(word_of(world[0].ended(0).value), 7u);
  world.kill(0);
  world.tell_all(0);
  while (world.deliver([](const Letter& letter) { return letter.message.attempt == 1 && letter.to == 1; })) {}
  ASSERT_EQ(word_of(world[1].ended(0).value), 6u) << "decided again, without 0";
  EXPECT_TRUE(world.deliver(HandFedWorld::is(0, 2, Phase::broadcast)));
  EXPECT_FALSE(world[2].has_ended(0)) << "7 would be a second answer";
  world.run();
  EXPECT_EQ(word_of(world[2].ended(0).value), 6u);
}

TEST(Pitfalls, DecidedAnswersNeedTheBallotCheckToo) {
  HandFedWorld world(4);  // chain 0 1 2 3; 1 is dead, so 3 asks 0
  world.kill(1);
  for (Rank rank : {2, 3}) world.tell(rank, 1);
  world.tell(0, 1);
  for (Rank rank : {0, 2, 3}) world.post(rank, on_a_chain(2), bit_of(rank));
  while (world.deliver([](const Letter& letter) { return letter.message.phase != Phase::decided; })) {}
  ASSERT_EQ(word_of(world[0].ended(0).value), 13u);
  world.kill(0);
  for (Rank rank : {2, 3}) world.tell(rank, 0);
  while (world.deliver([](const Letter& letter) { return letter.message.attempt == 2 && letter.to == 2; })) {}
  ASSERT_EQ(word_of(world[2].ended(0).value), 12u);
  EXPECT_TRUE(world.deliver(HandFedWorld::is(0, 3, Phase::decided)));
  EXPECT_FALSE(world[3].has_ended(0)) << "13 would be a second answer";
  world.run();
  EXPECT_EQ(word_of(world[3].ended(0).value), 12u);
}

// Two ranks that learn of two deaths in different orders must mean the same ballot.
TEST(Pitfalls, ABallotIsARankNotACounter) {
  HandFedWorld world(6);
  world.kill(0);
  world.kill(1);
  for (Rank rank : {2, 3, 4, 5}) world.post(rank, sum_of_words(2), bit_of(rank));
  world.tell(2, 0), world.tell(2, 1);
  world.tell(3, 1), world.tell(3, 0);
  world.tell(4, 1);
  world.tell(5, 0);
  world.run();
  world.tell(4, 0), world.tell(5, 1);
  world.run();
  for (Rank rank : {2, 3, 4, 5}) {
    EXPECT_EQ(word_of(world[rank].ended(0).value), 0b111100u);
    EXPECT_EQ(world[rank].ended(0).first_decided, 2);
  }
}

// A rank that has joined ballot 1 with its value, and learns of a decision from ballot 2, does not call that decision
// its contribution to ballot 1. It says nothing there: the root of ballot 1 is dead, or ballot 2 would not be.
TEST(Pitfalls, TheContributionIsFrozenAtJoin) {
  HandFedRank rank(4, 6);
  const Arguments arguments = sum_of_words(2);
  rank.post(arguments, word(1));
  rank.hear_of_death(0);
  rank.feed(decision(arguments, Phase::broadcast, 2, 0, 2, 2, 99));
  EXPECT_EQ(word_of(rank.ended(0).value), 99u);
  rank.sent();
  rank.feed(message(arguments, Phase::gather, 1, 0, 1));
  EXPECT_EQ(rank.sent(Phase::gather_reply).size(), 0u);
  rank.hear_of_death(1);  // ballot 2: now it joins with what it knows
  rank.feed(message(arguments, Phase::gather, 2, 0, 2));
  const std::vector<Letter> later = rank.sent(Phase::gather_reply);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_TRUE(later[0].message.has(is_decided));
  EXPECT_EQ(later[0].message.first_decided, 2);
}

// ---- decisions ----

// A decision that passes through the reduce of ballot 1 is a contribution: 3 knows V, 2 only carries it.
TEST(Pitfalls, DecidedInsideReduceIsNoDecision) {
  HandFedRank rank(2, 5);  // ballot 1: processes 1 2 3 4 0; group of ranks 2 3 4; f = 2
  const Arguments arguments = sum_of_words(2);
  rank.post(arguments, word(1));
  rank.hear_of_death(0);
  rank.sent();
  Letter decided = contribution(arguments, Phase::group, 3, 0, 1, no_rank, 99);
  decided.message.flags |= is_decided;
  decided.message.first_decided = decided.message.accepted = 0;
  rank.feed(decided);
  EXPECT_FALSE(rank.has_ended(0));
  rank.feed(contribution(arguments, Phase::group, 4, 0, 1, no_rank, 4));
  EXPECT_FALSE(rank.has_ended(0));
  const std::vector<Letter> up = rank.sent(Phase::up);
  ASSERT_EQ(up.size(), 1u);
  EXPECT_TRUE(up[0].message.has(is_decided));
  EXPECT_EQ(word_of(up[0].value), 99u) << "it absorbs the values";
  EXPECT_FALSE(rank.has_ended(0));
  rank.feed(decision(arguments, Phase::broadcast, 1, 0, 1, 0, 99));
  EXPECT_EQ(rank.ended(0).first_decided, 0);
}

// Of two decisions in one reduce the one accepted at the later ballot counts: the later root knew of it.
TEST(Pitfalls, OfTwoDecisionsTheLaterAcceptedOneWins) {
  for (bool earlier_comes_first : {true, false}) {
    HandFedRank rank(3, 6);  // ballot 2: processes 2 3 4 5 0 1; group of ranks 3 4 5
    const Arguments arguments = sum_of_words(2);
    rank.post(arguments, word(1));
    rank.hear_of_death(0);
    rank.hear_of_death(1);
    rank.sent();
    const auto feed = [&](Rank from, Rank accepted, std::uint64_t value) {
      Letter decided = contribution(arguments, Phase::group, from, 0, 2, no_rank, value);
      decided.message.flags |= is_decided;
      decided.message.first_decided = decided.message.accepted = accepted;
      rank.feed(decided);
    };
    feed(4, earlier_comes_first ? 0 : 1, earlier_comes_first ? 100 : 200);
    feed(5, earlier_comes_first ? 1 : 0, earlier_comes_first ? 200 : 100);
    const std::vector<Letter> up = rank.sent(Phase::up);
    ASSERT_EQ(up.size(), 1u);
    EXPECT_EQ(word_of(up[0].value), 200u);
  }
}

// A decision that came again from a later root was accepted at that ballot: this is what the rank says when it joins
// the next one.
TEST(Pitfalls, AcceptingAgainIsRemembered) {
  HandFedRank rank(3, 6);
  const Arguments arguments = sum_of_words(2);
  rank.post(arguments, word(1));
  rank.feed(decision(arguments, Phase::broadcast, 1, 0, 0, 0, 99));
  rank.feed(decision(arguments, Phase::broadcast, 1, 0, 1, 0, 99));
  rank.hear_of_death(1);
  rank.hear_of_death(0);
  const std::vector<Letter> group = rank.sent(Phase::group);
  ASSERT_FALSE(group.empty());
  EXPECT_EQ(group.back().message.attempt, 2);
  EXPECT_TRUE(group.back().message.has(is_decided));
  EXPECT_EQ(group.back().message.first_decided, 0);
  EXPECT_EQ(group.back().message.accepted, 1);
}

TEST(Pitfalls, RetryDoesNotDeliverTwice) {
  HandFedWorld world(5);
  world.post_all(sum_of_words(2), bit_of);
  while (world.deliver([](const Letter& letter) { return letter.message.phase != Phase::broadcast; })) {}
  world.deliver(HandFedWorld::is(0, 1, Phase::broadcast));  // rank 1 has the answer, and is the next root
  world.lose([](const Letter& letter) { return letter.from == 0; });
  world.kill(0);
  world.tell_all(0);
  world.run();
  for (Rank rank = 1; rank < 5; ++rank) {
    EXPECT_EQ(world[rank].ended(0).times, 1);
    EXPECT_EQ(word_of(world[rank].ended(0).value), 31u) << "0 is in it everywhere";
    EXPECT_EQ(world[rank].ended(0).first_decided, 0);
  }
}

TEST(Pitfalls, AnAnswerThatOnlyALeafHasSurvivesTwoRoots) {
  HandFedWorld world(7);  // 0 -> 1 2 4; 1 -> 3 5; 2 -> 6
  world.post_all(sum_of_words(2), bit_of);
  while (world.deliver([](const Letter& letter) { return letter.message.phase != Phase::broadcast; })) {}
  world.deliver(HandFedWorld::is(0, 4, Phase::broadcast));
  world.lose([](const Letter& letter) { return letter.from == 0; });
  world.kill(0);
  world.kill(1);
  world.lose([](const Letter& letter) { return letter.from == 1; });
  for (Rank rank : {3, 5}) world.tell(rank, 1), world.tell(rank, 0);
  for (Rank rank : {2, 4, 6}) world.tell(rank, 0), world.tell(rank, 1);
  world.run();
  for (Rank rank = 2; rank < 7; ++rank) EXPECT_EQ(word_of(world[rank].ended(0).value), 127u) << "rank " << rank;
}

TEST(Pitfalls, TheRootDropsLateChildren) {
  for (Rank first : {1, 2}) {
    HandFedWorld world(7);
    world.post_all(sum_of_words(1), bit_of);
    while (world.deliver([](const Letter& letter) { return letter.to != 0; })) {}
    ASSERT_TRUE(world.deliver(HandFedWorld::is(first, 0, Phase::up)));
    EXPECT_EQ(word_of(world[0].ended(0).value), 127u) << "the first clean child suffices";
    const std::int64_t sent = world.counted[Phase::broadcast];
    ASSERT_TRUE(world.deliver(HandFedWorld::is(3 - first, 0, Phase::up)));
    EXPECT_EQ(world.counted[Phase::broadcast], sent);
    EXPECT_EQ(world[0].ended(0).times, 1);
  }
}

// ---- what rides from one operation to the next ----

// x = 4 delivers V of operation 0, starts operation 2 because of it, and dies. The survivors decide V' without 4, and
// may not count its contribution to operation 2. (n = 5, f = 2, W = 2. The list of failed ranks would exclude 4 from
// operation 2 anyway; one bit does not tell who died.)
TEST(Pitfalls, OrphanIsIgnored) {
  HandFedWorld world(5, 2);
  Arguments arguments = sum_of_words(2), third = sum_of_words(2, 3);
  arguments.failure_info = third.failure_info = FailureInfo::bit;
  world.post_all(arguments, bit_of);
  world.post_all(arguments, bit_of);
  while (world.deliver([](const Letter& letter) {
    return letter.message.operation == 0 && letter.message.phase != Phase::broadcast;
  })) {}
  ASSERT_EQ(word_of(world[0].ended(0).value), 31u);
  ASSERT_TRUE(world.deliver(HandFedWorld::is(0, 4, Phase::broadcast)));
  world.kill(0);
  world.lose([](const Letter& letter) { return letter.from == 0; });
  world.post(4, third, bit_of(4));  // operation 2: its group there is 4 0 1
  ASSERT_TRUE(std::any_of(world.letters.begin(), world.letters.end(), [](const Letter& letter) {
    return letter.from == 4 && letter.to == 1 && letter.message.operation == 2;
  }));
  world.kill(4);
  for (Rank rank : {1, 2, 3}) world.tell(rank, 0);
  for (Rank rank : {2, 3}) world.tell(rank, 4);
  world.run();
  for (Rank rank : {1, 2, 3}) {
    EXPECT_EQ(word_of(world[rank].ended(0).value), 0b01110u) << "0 and 4 are not in V'";
    EXPECT_TRUE(world[rank].window.members().contains(4)) << "nobody told 1";
  }
  for (Rank rank : {1, 2, 3}) world.post(rank, third, bit_of(rank));
  // What 1 has to say would reach the root first.
  while (world.deliver([](const Letter& letter) { return !(letter.to == 3 && letter.from == 2); })) {}
  world.tell(1, 4);
  world.run();
  for (Rank rank : {1, 2, 3}) EXPECT_EQ(word_of(world[rank].ended(2).value), 0b01110u) << "an orphan's value was added";
}

// Each rank has finished operations 0 and 1, but for 2, whose results went down with 0. 1 must still know operation 0.
// (n = 3, f = 1, W = 2)
TEST(Pitfalls, ResultsAreKeptUntilOperationSPlusW) {
  HandFedWorld world(3, 2);
  world.post_all(sum_of_words(1), bit_of);
  world.post_all(sum_of_words(1), bit_of);
  while (world.deliver(
      [](const Letter& letter) { return !(letter.to == 2 && letter.message.phase == Phase::broadcast); })) {}
  ASSERT_TRUE(world[1].has_ended(0));
  ASSERT_TRUE(world[1].has_ended(1));
  EXPECT_EQ(world[1].window.dropped_upto(), 0u);
  world.kill(0);
  world.lose([](const Letter& letter) { return letter.from == 0; });
  world.tell(1, 0);
  world.tell(2, 0);
  world.run();
  EXPECT_EQ(word_of(world[2].ended(0).value), 7u);
  EXPECT_EQ(word_of(world[2].ended(1).value), 7u);
  for (Rank rank : {1, 2}) world.post(rank, sum_of_words(1), bit_of(rank));
  world.run();
  EXPECT_EQ(world[1].window.dropped_upto(), 1u) << "the result of operation s+W proves that all have s";
}

// Rank 5 dies in operation 0. Some ranks never hear of it but through the result; all plan operation W without it.
TEST(Pitfalls, MembershipRidesOnResults) {
  HandFedWorld world(6, 2);
  world.kill(5);
  const Arguments arguments = sum_of_words(1);
  world.post_all(arguments, bit_of);
  world.post_all(arguments, bit_of);
  // Ballot 0: groups {1,2} {3,4} {5,0}; 5 is below 1. So 0 and 1 wait for it; the others are told nothing.
  world.tell(0, 5);
  world.tell(1, 5);
  world.run();
  for (Rank rank = 0; rank < 5; ++rank) EXPECT_EQ(world[rank].ended(0).missing(), (std::vector<Rank>{5}));
  for (Phase phase : {Phase::group, Phase::up, Phase::broadcast}) world.counted[phase] = 0;
  world.post_all(arguments, bit_of);
  world.run();
  for (Rank rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(world[rank].window.members().excluded(), (std::vector<Rank>{5}));
    EXPECT_EQ(world[rank].window.operation(2).members().size(), 5);
    EXPECT_TRUE(world[rank].ended(2).list.empty()) << "it is no member any more, so it is not missing";
  }
  EXPECT_EQ(world.counted[Phase::group] + world.counted[Phase::up], ReduceTopology(5, 1).messages_without_failure());
  EXPECT_EQ(world.counted[Phase::broadcast], 4) << "no penalty for an old death";
  // f counts anew.
  world.kill(4);
  world.post_all(arguments, bit_of);
  world.tell_all(4);
  world.run();
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(word_of(world[rank].ended(3).value), 15u);
}

// A rank that knows of a death before it starts plans like those that don't.
TEST(Pitfalls, PrivateSuspicionDoesNotChangeThePlan) {
  HandFedWorld world(3);
  world.kill(2);
  world.tell(1, 2);
  world.post(0, sum_of_words(1), bit_of(0));
  world.post(1, sum_of_words(1), bit_of(1));
  EXPECT_EQ(world[1].window.operation(0).members().size(), 3);
  world.run();
  EXPECT_TRUE(world[1].has_ended(0)) << "the root needs not know";
  EXPECT_EQ(word_of(world[0].ended(0).value), 3u);
}

// ---- who has what ----

// The root of an allreduce dies between any two of its sends, at any moment of anybody else: one answer.
TEST(Pitfalls, RootDyingHalfWayLeavesOneAnswer) {
  for (Rank n = 2; n <= 9; ++n)
    for (std::int32_t f : {1, 2})
      for (BroadcastShape shape : {BroadcastShape{}, chain, BroadcastShape{Tree::kary, Numbering::in_order, 2}}) {
        Plan plan;
        plan.ranks = n;
        plan.program.assign(2, sum_of_words(f));
        plan.program[0].shape = plan.program[1].shape = shape;
        plan.in_flight = 2;
        for (std::int64_t sends = 0; sends < boundaries(0, plan, 1); ++sends)
          for (int order = 0; order < order_count; ++order)
            for (std::uint64_t seed = 1; seed <= (order == 4 ? 20u : 1u); ++seed) {
              plan.crashes = {{0, sends}};
              plan.order = static_cast<Order>(order);
              plan.seed = seed;
              World world(plan);
              ASSERT_TRUE(world.run()) << describe(plan);
              ASSERT_EQ(world.check(), "") << describe(plan);
            }
      }
}

// A broadcast whose root dies is delivered by all survivors, or all of them return root_failed.
TEST(Pitfalls, BroadcastIsAllOrNone) {
  int all = 0, none = 0;
  for (Rank n = 2; n <= 9; ++n)
    for (Rank root : {0, n - 1}) {
      Plan plan;
      plan.ranks = n;
      plan.program = {sum_of_words(1, root, Kind::broadcast)};
      for (std::int64_t sends = 0; sends < boundaries(root, plan, 1); ++sends)
        for (int order = 0; order < order_count; ++order)
          for (std::uint64_t seed = 1; seed <= (order == 4 ? 50u : 1u); ++seed) {
            plan.crashes = {{root, sends}};
            plan.order = static_cast<Order>(order);
            plan.seed = seed;
            World world(plan);
            ASSERT_TRUE(world.run()) << describe(plan);
            ASSERT_EQ(world.check(), "") << describe(plan);
            std::size_t delivered = 0;
            for (Rank rank : world.survivors()) {
              const Result& result = world.result(rank, 0);
              if (result.outcome == Outcome::success) {
                ASSERT_EQ(result.value.at(0), broadcast_data(root, 0)) << describe(plan);
                ++delivered;
              } else {
                ASSERT_EQ(result.outcome, Outcome::root_failed) << describe(plan);
              }
            }
            ASSERT_TRUE(delivered == 0 || delivered == world.survivors().size()) << describe(plan);
            ++(delivered == 0 ? none : all);
          }
    }
  EXPECT_GT(all, 100);
  EXPECT_GT(none, 100);
}

// Both subtrees are lost: no survivor may make up a sum, and all say the same.
TEST(Pitfalls, TooManyFailuresIsTheSameOnAll) {
  HandFedWorld world(7);
  world.kill(1);
  world.kill(2);
  world.post_all(sum_of_words(1), bit_of);
  for (Rank dead : {1, 2}) world.tell_all(dead);
  world.run();
  for (Rank rank : {0, 3, 4, 5, 6}) {
    EXPECT_EQ(world[rank].ended(0).outcome, Outcome::too_many_failures) << "rank " << rank;
    EXPECT_TRUE(world[rank].ended(0).value.empty());
  }
  world.post_all(sum_of_words(1), bit_of);
  world.run();
  world.post_all(sum_of_words(1), bit_of);
  world.run();
  for (Rank rank : {0, 3, 4, 5, 6})
    EXPECT_EQ(word_of(world[rank].ended(2).value), 0b1111001u) << "planned without them";
}

// More than f failures, and one survivor holds the answer of a dead root: that answer counts.
TEST(Pitfalls, TooManyFailuresIsNotCalledWhileSomebodyHoldsAnAnswer) {
  HandFedWorld world(7);  // 0 -> 1 2 4
  world.post_all(sum_of_words(1), bit_of);
  while (world.deliver([](const Letter& letter) { return letter.message.phase != Phase::broadcast; })) {}
  ASSERT_TRUE(world.deliver(HandFedWorld::is(0, 2, Phase::broadcast)));
  world.lose([](const Letter& letter) { return letter.from == 0; });
  world.lose(HandFedWorld::is(2, 6, Phase::broadcast));  // so 6 must be told by somebody
  world.kill(0);
  world.kill(4);  // ballot 1 has 4 and 0 in different subtrees
  for (Rank dead : {4, 0}) world.tell_all(dead);
  world.run();
  for (Rank rank : {1, 2, 3, 5, 6}) {
    EXPECT_EQ(world[rank].ended(0).outcome, Outcome::success);
    EXPECT_EQ(word_of(world[rank].ended(0).value), 127u);
  }
  EXPECT_GT(world.counted[Phase::gather], 0);
}

// With n-1 <= f some subtrees are empty; an empty subtree is clean.
TEST(Pitfalls, EmptySubtreesAreClean) {
  for (Kind kind : {Kind::allreduce, Kind::barrier, Kind::broadcast, Kind::reduce})
    for (Rank n = 1; n <= 4; ++n)
      for (std::int32_t f = n - 1; f <= n + 1; ++f) {
        Plan plan;
        plan.ranks = n;
        plan.program = {sum_of_words(f, n / 2, kind)};
        Scope scope;
        scope.max_victims = n - 1;
#ifdef UCFT_SMALL
        scope.stride = n == 4 ? 70 : 1;
#else
        scope.stride = n == 4 ? 7 : 1;
#endif
        const Exploration found = explore(plan, scope);
        EXPECT_EQ(found.violations, 0) << found.first_violation;
      }
}

// f is per operation. Ranks 1 and 2 are the heads of both subtrees: with the plan of a time when both lived, none is
// clean. Rank 1 died before the first operation, whose decision names it; rank 2 dies in a later one, one death of one.
TEST(Pitfalls, FailuresOfEarlierOperationsDoNotCountAnew) {
  for (Kind kind : {Kind::allreduce, Kind::barrier, Kind::reduce})
    for (Rank n : {4, 5, 8})
      for (std::int64_t send = 6; send < 16; ++send) {
        Plan plan;
        plan.ranks = n;
        plan.window = 8;
        plan.program.assign(7, sum_of_words(1, 0, Kind::allreduce));
        for (std::size_t i = 2; i < 7; ++i) plan.program[i] = sum_of_words(1, 0, kind);
        plan.crashes = {{1, 0}, {2, send}};
        World world(plan);
        ASSERT_TRUE(world.run());
        EXPECT_EQ(world.check(), "") << describe(plan);
        for (Rank rank : world.survivors())
          for (std::size_t i = 0; i < 7; ++i)
            EXPECT_EQ(world.result(rank, i).outcome, Outcome::success) << describe(plan) << ", operation " << i;
      }
}

}  // namespace
}  // namespace ucft::detail
