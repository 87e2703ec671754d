// Operations with hand-fed messages: past, in-order and future packets straight into an OperationWindow.
#include "collectives/among/process_member.hpp"
#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;

// A value or a decision as some peer would send it.
Letter letter(const Arguments& arguments, Phase phase, Rank from, OperationNumber operation, Rank attempt,
              std::uint64_t value = 0) {
  Letter made;
  made.from = from;
  made.message.operation = operation;
  made.message.phase = phase;
  made.message.attempt = attempt;
  made.message.signature = arguments.signature();
  if (phase == Phase::ask || phase == Phase::gather || phase == Phase::mismatch) return made;
  made.message.flags = has_value;
  made.message.contributors = 1;
  if (phase == Phase::broadcast || phase == Phase::decided || phase == Phase::correction)
    made.message.first_decided = attempt;
  if (arguments.count > 0) made.value = word(value);
  return made;
}

std::vector<Rank> receivers(const std::vector<Letter>& letters) {
  std::vector<Rank> ranks;
  for (const Letter& each : letters) ranks.push_back(each.to);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// ---- small worlds ----

TEST(Operation, AloneARankNeedsNoMessage) {
  for (Kind kind : {Kind::allreduce, Kind::barrier, Kind::broadcast, Kind::reduce})
    for (std::int32_t f : {0, 1, 5}) {
      HandFedRank alone(0, 1);
      const Arguments arguments = sum_of_words(f, 0, kind);
      for (std::uint64_t i = 0; i < 20; ++i) {
        const OperationNumber number = alone.post(arguments, kind == Kind::barrier ? Bytes{} : word(i));
        ASSERT_TRUE(alone.has_ended(number)) << "at once";
        EXPECT_EQ(alone.ended(number).outcome, Outcome::success);
        if (kind != Kind::barrier) {
          EXPECT_EQ(word_of(alone.ended(number).value), i);
        }
      }
      EXPECT_TRUE(alone.sent().empty());
    }
}

TEST(Operation, CountZeroCompletesLikeAnyOther) {
  for (Kind kind : {Kind::allreduce, Kind::broadcast, Kind::reduce}) {
    HandFedWorld world(5, 4);
    Arguments arguments = sum_of_words(1, 2, kind);
    arguments.count = 0;
    world.post_all(arguments, [](Rank) { return Bytes{}; });
    world.run();
    for (Rank rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(world[rank].ended(0).outcome, Outcome::success);
      EXPECT_TRUE(world[rank].ended(0).value.empty());
    }
    EXPECT_EQ(world[2].ended(0).contributors, kind == Kind::broadcast ? 1u : 5u);
  }
}

TEST(Operation, ToleratingAllButOneFailureIsLegal) {
  for (std::int32_t f : {3, 4, 100}) {
    HandFedWorld world(4);
    world.post_all(sum_of_words(f), [](Rank rank) { return word(1ull << rank); });
    world.run();
    for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(word_of(world[rank].ended(0).value), 15u);
  }
}

TEST(Operation, TheLastSurvivorOfFourFinishesAlone) {
  HandFedWorld world(4);
  for (Rank dead : {0, 1, 3}) world.kill(dead);
  world.post(2, sum_of_words(3), word(4));
  for (Rank dead : {3, 0, 1}) world.tell(2, dead);
  world.run();
  EXPECT_EQ(word_of(world[2].ended(0).value), 4u);
  EXPECT_EQ(world[2].ended(0).missing(), (std::vector<Rank>{0, 1, 3}));
}

// ---- past, in order, future ----

TEST(Operation, EarlyMessagesWaitForTheStart) {
  // n = 3, f = 1: groups {1,2}; rank 1 waits for 2 and passes 1+2 up.
  HandFedRank rank(1, 3);
  const Arguments arguments = sum_of_words(1);
  rank.feed(letter(arguments, Phase::group, 2, 0, 0, 20));
  EXPECT_TRUE(rank.sent().empty());
  rank.post(arguments, word(10));
  const std::vector<Letter> up = rank.sent(Phase::up);
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].to, 0);
  EXPECT_EQ(word_of(up[0].value), 30u);
}

TEST(Operation, EvenTheDecisionMayComeBeforeTheStart) {
  HandFedRank rank(1, 3);
  const Arguments arguments = sum_of_words(1);
  rank.feed(letter(arguments, Phase::broadcast, 0, 0, 0, 99));
  EXPECT_FALSE(rank.has_ended(0));
  rank.post(arguments, word(10));
  EXPECT_EQ(word_of(rank.ended(0).value), 99u);
}

TEST(Operation, EarlyMessagesOfLaterOperationsWaitForTheirs) {
  HandFedRank rank(1, 3, 4);
  const Arguments arguments = sum_of_words(1);
  for (OperationNumber number : {2, 1, 0})
    rank.feed(letter(arguments, Phase::group, 2, static_cast<OperationNumber>(number), 0, 100 * number));
  for (std::uint64_t number = 0; number < 3; ++number) {
    rank.post(arguments, word(7));
    const std::vector<Letter> up = rank.sent(Phase::up);
    ASSERT_EQ(up.size(), 1u);
    EXPECT_EQ(up[0].message.operation, number);
    EXPECT_EQ(word_of(up[0].value), 7 + 100 * number);
  }
}

TEST(Operation, AMessageOfAStaleOperationNumberChangesNothing) {
  HandFedRank rank(1, 3, 2);
  const Arguments arguments = sum_of_words(1);
  for (OperationNumber number = 0; number < 4; ++number) {
    rank.post(arguments, word(1));
    rank.feed(letter(arguments, Phase::broadcast, 0, number, 0, 5));
  }
  rank.sent();
  ASSERT_EQ(rank.window.dropped_upto(), 2u);
  const std::size_t held = rank.buffers.in_use();
  for (int phase = 0; phase < phase_count; ++phase)
    for (OperationNumber number : {0, 1}) {
      rank.feed(letter(arguments, static_cast<Phase>(phase), 2, number, 2, 1));
      EXPECT_TRUE(rank.sent().empty()) << "phase " << phase;
    }
  EXPECT_EQ(rank.buffers.in_use(), held);
}

TEST(Operation, DuplicatesAndStrangersChangeNothing) {
  HandFedRank rank(1, 7);  // group peer 2, children 3 and 5
  const Arguments arguments = sum_of_words(1);
  rank.post(arguments, word(1));
  rank.sent();
  for (int twice = 0; twice < 2; ++twice) {
    rank.feed(letter(arguments, Phase::group, 2, 0, 0, 2));
    rank.feed(letter(arguments, Phase::group, 4, 0, 0, 1000));  // not of this group
    rank.feed(letter(arguments, Phase::up, 6, 0, 0, 1000));     // no child
    rank.feed(letter(arguments, Phase::up, 3, 0, 0, 4));
    rank.feed(letter(arguments, Phase::group, -1, 0, 0, 1000));
    rank.feed(letter(arguments, Phase::group, 7, 0, 0, 1000));
    rank.feed(letter(arguments, Phase::group, 2, 0, 7, 1000));  // a ballot that no member can have
  }
  EXPECT_TRUE(rank.sent().empty());
  rank.feed(letter(arguments, Phase::up, 5, 0, 0, 8));
  const std::vector<Letter> up = rank.sent();
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(word_of(up[0].value), 15u);
}

TEST(Operation, AMessageOfAnOldBallotIsDroppedAndNotForwarded) {
  // Rank 1 has a broadcast child (3) in the ballot of rank 0.
  HandFedRank rank(1, 4);
  const Arguments arguments = sum_of_words(1);
  rank.post(arguments, word(1));
  rank.hear_of_death(0);
  rank.sent();
  for (Phase phase : {Phase::broadcast, Phase::correction, Phase::decided}) {
    rank.feed(letter(arguments, phase, 0, 0, 0, 77));
    EXPECT_FALSE(rank.has_ended(0));
    EXPECT_TRUE(rank.sent().empty());
  }
}

TEST(Operation, ABroadcastOfALaterBallotIsLegalAndForwardedOnce) {
  // Rank 2 has not heard of 0's death; 1's decision comes. In the tree of ballot 1 (1 2 3 0 as 0 1 2 3) 2's child is 0;
  // with 8 ranks (1 2 3 4 5 6 7 0): process 1 -> 3, 5, so ranks 4 and 6.
  HandFedRank rank(2, 8);
  const Arguments arguments = sum_of_words(1);
  rank.post(arguments, word(1));
  rank.sent();
  rank.feed(letter(arguments, Phase::broadcast, 1, 0, 1, 77));
  EXPECT_EQ(word_of(rank.ended(0).value), 77u);
  EXPECT_EQ(rank.ended(0).first_decided, 1);
  std::vector<Letter> forwarded = rank.sent(Phase::broadcast);
  EXPECT_EQ(receivers(forwarded), (std::vector<Rank>{4, 6}));
  for (const Letter& each : forwarded) EXPECT_EQ(each.message.attempt, 1);
  rank.feed(letter(arguments, Phase::broadcast, 1, 0, 1, 77));
  EXPECT_TRUE(rank.sent().empty()) << "once per ballot";
  rank.hear_of_death(0);  // now the rank itself joins ballot 1
  rank.sent();
  rank.feed(letter(arguments, Phase::broadcast, 1, 0, 1, 77));
  EXPECT_TRUE(rank.sent(Phase::broadcast).empty()) << "still once per ballot";
  rank.feed(letter(arguments, Phase::broadcast, 0, 0, 7, 77));  // 7 0 1 2 ...: this rank is process 3
  EXPECT_FALSE(rank.sent(Phase::broadcast).empty()) << "another ballot is forwarded for itself";
  EXPECT_EQ(rank.ended(0).times, 1);
}

TEST(Operation, DecidedAnswersAreNotForwarded) {
  HandFedRank rank(1, 8);
  const Arguments arguments = sum_of_words(1);
  rank.post(arguments, word(1));
  rank.sent();
  rank.feed(letter(arguments, Phase::decided, 0, 0, 0, 5));
  EXPECT_EQ(word_of(rank.ended(0).value), 5u);
  EXPECT_TRUE(rank.sent(Phase::broadcast).empty());
  rank.feed(letter(arguments, Phase::broadcast, 0, 0, 0, 5));
  EXPECT_EQ(receivers(rank.sent(Phase::broadcast)), (std::vector<Rank>{3, 5})) << "the tree still counts on it";
}

TEST(Operation, AContributionOfALaterBallotWaitsForIt) {
  // Ballot 1: processes 1 2 3 0; ranks 2 and 3 are one group, 0 the child of 2.
  HandFedRank rank(2, 4);
  const Arguments arguments = sum_of_words(1);
  rank.post(arguments, word(4));
  rank.feed(letter(arguments, Phase::group, 3, 0, 1, 8));
  EXPECT_TRUE(rank.sent(Phase::up).empty());
  rank.hear_of_death(0);
  const std::vector<Letter> up = rank.sent(Phase::up);
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].to, 1);
  EXPECT_EQ(up[0].message.attempt, 1);
  EXPECT_EQ(word_of(up[0].value), 12u);
}

TEST(Operation, DeadPeersAreSentNothing) {
  HandFedRank rank(1, 7);
  rank.hear_of_death(2);
  rank.post(sum_of_words(1), word(1));
  EXPECT_EQ(receivers(rank.sent()), std::vector<Rank>{}) << "2 is the only group peer";
}

TEST(Operation, HearingOfADeathTwiceChangesNothing) {
  HandFedRank rank(1, 5);
  const Arguments arguments = sum_of_words(2);
  rank.post(arguments, word(1));
  rank.hear_of_death(0);
  EXPECT_FALSE(rank.sent().empty());
  rank.hear_of_death(0);
  EXPECT_TRUE(rank.sent().empty());
}

// More failures than a list holds: the list is cut and says so; the count and the sum stay right.
TEST(Operation, ALongListOfFailuresIsCutAndSaysSo) {
  constexpr Rank n = 90, dead = failure_list_limit + 6;
  HandFedWorld world(n);
  for (Rank rank = 1; rank <= dead; ++rank) world.kill(rank);
  world.post_all(sum_of_words(dead), [](Rank) { return word(1); });
  for (Rank rank = 1; rank <= dead; ++rank) world.tell_all(rank);
  world.run();
  for (Rank rank = 0; rank < n; ++rank) {
    if (!world.alive(rank)) continue;
    EXPECT_EQ(word_of(world[rank].ended(0).value), static_cast<std::uint64_t>(n - dead));
    EXPECT_EQ(world[rank].ended(0).failed_count, static_cast<std::uint32_t>(dead));
    EXPECT_EQ(world[rank].ended(0).list.size(), failure_list_limit);
    EXPECT_TRUE(world[rank].ended(0).truncated);
  }
}

// ---- correction ----

Arguments corrected_broadcast(Correction correction, std::int32_t distance = 2, BroadcastShape shape = {}) {
  Arguments arguments = sum_of_words(1, 0, Kind::broadcast);
  arguments.correction = correction;
  arguments.correction_distance = distance;
  arguments.shape = shape;
  return arguments;
}
Bytes data_at_the_root(Rank rank) { return rank == 0 ? word(7) : Bytes{}; }

// Whoever is coloured by the tree sends distance messages; with fewer other processes, one to each.
TEST(Correction, OpportunisticSendsTheDistanceFromEachProcess) {
  for (Rank n = 1; n <= 20; ++n)
    for (std::int32_t distance = 0; distance <= 6; ++distance) {
      HandFedWorld world(n);
      world.post_all(corrected_broadcast(Correction::opportunistic, distance), data_at_the_root);
      world.run();
      EXPECT_EQ(world.counted[Phase::correction], n * std::min<std::int64_t>(distance, n - 1))
          << "n " << n << " d " << distance;
    }
}

// "Reaches all if every gap is at most d": nobody is told of the death, nobody asks.
TEST(Correction, OpportunisticReachesAcrossAGapWithoutAnyVerdict) {
  for (Rank n = 4; n <= 40; ++n)
    for (Rank dead = 1; dead < n; ++dead) {
      HandFedWorld world(n);
      world.kill(dead);  // interleaved: gaps of one process
      world.post_all(corrected_broadcast(Correction::opportunistic, 2), data_at_the_root);
      world.run();
      for (Rank rank = 0; rank < n; ++rank)
        if (world.alive(rank)) {
          ASSERT_TRUE(world[rank].has_ended(0)) << "n " << n << " dead " << dead << " rank " << rank;
        }
    }
}

// "Reaches all if none dies during correction": whoever is dead, in whichever tree.
TEST(Correction, CheckedReachesEverybodyWithoutAnyVerdict) {
  std::mt19937 random(8);
  for (Rank n = 2; n <= 40; ++n)
    for (BroadcastShape shape : {BroadcastShape{}, BroadcastShape{Tree::kary, Numbering::in_order, 2}})
      for (int round = 0; round < 10; ++round) {
        HandFedWorld world(n);
        for (Rank rank = 1; rank < n; ++rank)
          if (random() % 3 == 0) world.kill(rank);
        world.post_all(corrected_broadcast(Correction::checked, 0, shape), data_at_the_root);
        world.run();
        for (Rank rank = 0; rank < n; ++rank)
          if (world.alive(rank)) {
            ASSERT_TRUE(world[rank].has_ended(0)) << "n " << n << " rank " << rank;
          }
        EXPECT_EQ(world.counted[Phase::ask], 0);
      }
}

// A side ends once its offset has reached the nearest process heard from there: two neighbours heard, two sends.
TEST(Correction, CheckedStopsAtTheNearestColouredProcesses) {
  HandFedRank rank(4, 9);
  const Arguments arguments = corrected_broadcast(Correction::checked);
  rank.post(arguments);
  const auto correction = [&](Rank from, bool right) {
    Letter made = letter(arguments, Phase::correction, from, 0, 0, 7);
    if (right) made.message.flags |= moves_right;
    return made;
  };
  rank.feed(letter(arguments, Phase::broadcast, 0, 0, 0, 7));
  rank.sent();
  rank.feed(correction(2, true));   // 2 is the nearest on the left
  rank.feed(correction(1, true));   // farther: changes nothing
  rank.feed(correction(7, false));  // 7 on the right
  while (rank.window.wants_turn()) rank.take_turn();
  EXPECT_EQ(receivers(rank.sent(Phase::correction)), (std::vector<Rank>{2, 3, 5, 6, 7}));
}

// With neighbours heard from as early as possible, each process is done after a few messages.
TEST(Correction, CheckedCostsAFewMessagesPerProcessWithoutFailure) {
  HandFedWorld world(64);
  world.post_all(corrected_broadcast(Correction::checked), data_at_the_root);
  world.run();
  EXPECT_GE(world.counted[Phase::correction], 2 * 64);
  EXPECT_LE(world.counted[Phase::correction], 64 * 63);
}

TEST(Correction, TheOptimisedFormReachesAcrossAGapWithoutAnyVerdict) {
  for (Rank n = 4; n <= 40; ++n)
    for (Rank dead = 1; dead < n; ++dead) {
      HandFedWorld world(n);
      world.kill(dead);
      world.post_all(corrected_broadcast(Correction::opportunistic_optimised, 3), data_at_the_root);
      world.run();
      for (Rank rank = 0; rank < n; ++rank)
        if (world.alive(rank)) {
          ASSERT_TRUE(world[rank].has_ended(0)) << "n " << n << " dead " << dead << " rank " << rank;
        }
      ASSERT_LE(world.counted[Phase::correction], (n - 1) * std::min<std::int64_t>(3, n - 1));
    }
}

// In-order: one death leaves half of the ring without the value. f more die while it is corrected.
TEST(Correction, FailureProofReachesEverybodyWhileUpToFDieInIt) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 2000; ++round) {
    const Rank n = 3 + static_cast<Rank>(random() % 20);
    const auto f = static_cast<std::int32_t>(random() % 4);
    Arguments arguments = corrected_broadcast(Correction::failure_proof, 0, {Tree::binomial, Numbering::in_order});
    arguments.f = std::min(f, n - 1);
    HandFedWorld world(n);
    world.kill(n / 2);
    world.post_all(arguments, data_at_the_root);
    while (world.deliver(HandFedWorld::is(Phase::broadcast))) {}
    for (int deaths = 0; deaths < f; ++deaths) {
      world.turns();
      if (random() % 2 == 0) world.deliver([](const Letter&) { return true; });
      world.kill(1 + static_cast<Rank>(random() % static_cast<unsigned>(n - 1)));  // the root lives
    }
    world.run();
    for (Rank rank = 0; rank < n; ++rank)
      if (world.alive(rank)) {
        ASSERT_TRUE(world[rank].has_ended(0)) << "round " << round << " n " << n << " f " << f << " rank " << rank;
      }
    ASSERT_EQ(world.counted[Phase::ask], 0);
  }
}

// Rank 4 of 6 has the value from 3 alone.
class FailureProof : public testing::Test {
 protected:
  FailureProof() {
    rank_.post(arguments_);
    rank_.sent();
  }
  Letter correction(Rank from, std::uint8_t flags) const {
    Letter made = letter(arguments_, Phase::correction, from, 0, 0, 7);
    made.message.flags |= flags;
    return made;
  }
  std::vector<Letter> turns() {
    while (rank_.window.wants_turn()) rank_.take_turn();
    return rank_.sent(Phase::correction);
  }
  const Arguments arguments_ = corrected_broadcast(Correction::failure_proof);
  HandFedRank rank_{4, 6};
};

TEST_F(FailureProof, WhoeverHasTheValueFromADeadProcessAlonePanics) {
  rank_.feed(correction(3, moves_right));
  EXPECT_TRUE(turns().empty());
  rank_.hear_of_death(2);
  EXPECT_TRUE(turns().empty()) << "not the one it has the value from";
  rank_.hear_of_death(3);
  const std::vector<Letter> sent = turns();
  EXPECT_EQ(receivers(sent), (std::vector<Rank>{0, 1, 5})) << "all that live";
  for (const Letter& each : sent) EXPECT_TRUE(each.message.has(panics));
}

TEST_F(FailureProof, WhoeverHearsOfTheDeathFirstPanics) {
  rank_.hear_of_death(3);
  rank_.feed(correction(3, moves_right));
  EXPECT_EQ(turns().size(), 4u);
}

TEST_F(FailureProof, TheExitSignalEndsTheWatch) {
  rank_.feed(correction(3, moves_right));
  rank_.feed(correction(3, moves_right | lets_go));
  rank_.hear_of_death(3);
  EXPECT_TRUE(turns().empty());
}

TEST_F(FailureProof, APanicIsPassedOnOnceAndIsNoNeighbour) {
  rank_.feed(correction(3, moves_right | panics));
  EXPECT_EQ(word_of(rank_.ended(0).value), 7u);
  const std::vector<Letter> sent = turns();
  EXPECT_EQ(receivers(sent), (std::vector<Rank>{0, 1, 2, 3, 5}));
  rank_.feed(correction(2, moves_right | panics));
  EXPECT_TRUE(turns().empty());
}

TEST_F(FailureProof, NobodyPanicsForADeadRoot) {
  rank_.feed(correction(0, 0));
  rank_.hear_of_death(0);
  EXPECT_TRUE(turns().empty()) << "nobody would take anything of its ballot: the next root asks who has it";
}

// Phased: no turn before the time, counted from the first one that could have been.
TEST(Correction, WithADelayTurnsBeginWhenItHasPassed) {
  Arguments arguments = corrected_broadcast(Correction::checked);
  arguments.correction_delay_us = 50;
  HandFedRank rank(0, 4);
  rank.post(arguments, word(7));
  rank.sent();
  const auto sent_at = [&](std::int64_t now_us) {
    rank.window.on_turn(rank.outbox, 1000 * now_us);
    return rank.sent(Phase::correction).size();
  };
  EXPECT_EQ(sent_at(1000), 0u);
  EXPECT_EQ(sent_at(1049), 0u);
  EXPECT_EQ(sent_at(1050), 1u);
  EXPECT_EQ(sent_at(1051), 1u);
  rank.take_turn();  // a driver that sees to the delay itself
  EXPECT_EQ(rank.sent(Phase::correction).size(), 1u);
}

TEST(Correction, WhoeverIsColouredByCorrectionDeliversAndStaysSilent) {
  for (Correction kind : {Correction::checked, Correction::failure_proof}) {
    HandFedRank rank(1, 8);
    const Arguments arguments = corrected_broadcast(kind);
    rank.post(arguments);
    rank.feed(letter(arguments, Phase::correction, 0, 0, 0, 7));
    EXPECT_EQ(word_of(rank.ended(0).value), 7u);
    EXPECT_FALSE(rank.window.wants_turn());
    EXPECT_TRUE(rank.sent().empty());
  }
}

TEST(Correction, OfTheOpportunisticFormsWhoeverIsColouredSpreadsTheValueOnce) {
  for (Correction kind : {Correction::opportunistic, Correction::opportunistic_optimised}) {
    HandFedRank rank(1, 8);
    const Arguments arguments = corrected_broadcast(kind);
    rank.post(arguments);
    rank.feed(letter(arguments, Phase::correction, 0, 0, 0, 7));
    EXPECT_EQ(word_of(rank.ended(0).value), 7u);
    EXPECT_EQ(rank.sent(Phase::broadcast).size(), 2u) << "1 -> 3, 5";
    EXPECT_TRUE(rank.window.wants_turn());
    rank.feed(letter(arguments, Phase::broadcast, 0, 0, 0, 7));
    rank.feed(letter(arguments, Phase::correction, 2, 0, 0, 7));
    EXPECT_TRUE(rank.sent().empty()) << "once";
  }
}

// The subtree of a dead process: one correction brings the value back to all of it.
TEST(Correction, OpportunisticCorrectionSavesTheSubtreeOfADeadProcess) {
  for (Correction kind : {Correction::opportunistic, Correction::opportunistic_optimised}) {
    HandFedWorld world(64);
    Arguments arguments = corrected_broadcast(kind, 2);
    arguments.shape.numbering = Numbering::in_order;  // below 32: 33 .. 63, one gap that no correction crosses
    world.kill(32);
    world.post_all(arguments, data_at_the_root);
    world.run();
    for (Rank rank = 0; rank < 64; ++rank)
      if (rank != 32) {
        ASSERT_TRUE(world[rank].has_ended(0)) << rank;
      }
  }
}

// ---- different arguments ----

TEST(Operation, AMismatchIsToldToEveryoneOnceAndEndsOnAll) {
  HandFedWorld world(5);
  for (Rank rank = 0; rank < 5; ++rank) {
    Arguments arguments = sum_of_words(1);
    if (rank == 3) arguments.count = 2;
    world.post(rank, arguments, bytes_of(std::vector<std::uint64_t>(arguments.count, 1)));
  }
  world.run();
  for (Rank rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(world[rank].ended(0).outcome, Outcome::mismatch) << "rank " << rank;
    EXPECT_EQ(world[rank].ended(0).times, 1);
    EXPECT_TRUE(world[rank].ended(0).value.empty());
  }
  EXPECT_EQ(world.counted[Phase::mismatch], 5 * 4) << "everyone tells everyone once";
  world.post_all(sum_of_words(1), [](Rank) { return word(1); });
  world.run();
  for (Rank rank = 0; rank < 5; ++rank) EXPECT_EQ(world[rank].ended(1).outcome, Outcome::success) << "the next is fine";
}

// Its end does not say that all have come so far. So what was decided before is kept for those that have not.
TEST(Operation, BehindAMismatchTheResultsBeforeItAreStillGiven) {
  for (const int window : {2, 3, 5, 8}) {
    HandFedWorld world(3, window);
    const auto is_kept_back = [](const Letter& letter) {
      return letter.message.operation == 0 && HandFedWorld::is(0, 2, Phase::broadcast)(letter);
    };
    const auto run = [&] { world.deliver_all([&](const Letter& letter) { return !is_kept_back(letter); }); };
    for (int i = 0; i < window; ++i) {
      world.post_all(sum_of_words(1), [](Rank rank) { return word(1ull << rank); });
      run();
    }
    EXPECT_FALSE(world[2].has_ended(0));
    world.post(0, sum_of_words(1), word(1));
    world.post(1, sum_of_words(1, 0, Kind::barrier));
    run();
    world.say_waiting(0);
    world.say_waiting(1);
    run();
    EXPECT_EQ(world[1].ended(static_cast<OperationNumber>(window)).outcome, Outcome::mismatch);
    EXPECT_EQ(world.lose(is_kept_back), 1U);
    world.kill(0);
    world.tell_all(0);
    run();
    ASSERT_TRUE(world[2].has_ended(0)) << window;
    EXPECT_EQ(word_of(world[2].ended(0).value), 7U);
  }
}

// Roots of reduces send nothing: each waits for the other, until one says that it waits.
TEST(Operation, RootsThatWaitForEachOtherLearnOfTheMismatchWhenOneSaysThatItWaits) {
  for (bool optimistic : {false, true})
    for (bool late : {false, true}) {  // the other root posts when the word is there
      HandFedWorld world(3, 8, optimistic);
      const auto post = [&](Rank rank) { world.post(rank, sum_of_words(1, rank, Kind::reduce), word(1)); };
      post(0);
      if (!late) post(1);
      world.run();
      EXPECT_FALSE(world[0].has_ended(0));
      world.say_waiting(0);
      world.run();
      if (late) post(1);
      world.run();
      post(2);
      world.run();
      for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(world[rank].ended(0).outcome, Outcome::mismatch) << rank;
      EXPECT_EQ(world[0].ended(0).culprit, 1);
      EXPECT_EQ(world[1].ended(0).culprit, 0);
    }
}

TEST(Operation, AWordThatARankWaitsChangesNothingWhereAllHavePostedTheSame) {
  for (bool optimistic : {false, true}) {
    HandFedWorld world(3, 2, optimistic);
    for (Rank rank = 0; rank < 3; ++rank) {
      world.post(rank, sum_of_words(1), word(1));
      world.run();
      for (Rank waits = 0; waits <= rank; ++waits) world.say_waiting(waits);
      world.run();
    }
    EXPECT_GT(world.counted[Phase::waiting], 0);
    EXPECT_EQ(world.counted[Phase::mismatch], 0);
    for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(word_of(world[rank].ended(0).value), 3u);
    for (Rank rank = 0; rank < 3; ++rank) {
      world.say_waiting(rank);
      EXPECT_TRUE(world[rank].sent().empty()) << "it waits for nobody";
    }
  }
}

TEST(Operation, EveryArgumentThatMustAgreeIsInTheSignature) {
  const Arguments base = sum_of_words(1);
  std::vector<Arguments> others(14, base);
  others[0].kind = Kind::reduce;
  others[1].reduction = {DataType::int64, others[1].reduction.op()};
  others[2].reduction = {others[2].reduction.type(), Operator::max};
  others[3].count = 2;
  others[4].root = 1;
  others[5].f = 2;
  others[6].shape.tree = Tree::kary;
  others[7].shape.numbering = Numbering::in_order;
  others[8].shape.arity = 3;
  others[9].correction = Correction::checked;
  others[10].correction_distance = 4;
  others[11].failure_info = FailureInfo::bit;
  others[12].shape.delay_quarters = 17;
  others[13].correction_delay_us = 1;
  for (std::size_t i = 0; i < others.size(); ++i) EXPECT_NE(others[i].signature(), base.signature()) << i;
}

// 16 bits of signature cannot tell all arguments apart: two counts that share one are found below 3,000. Whatever comes
// of it must not read past the end of the shorter contribution (AddressSanitizer sees it) and must not be a success.
TEST(Operation, ContributionsOfAnotherLengthAreAMismatchEvenIfTheirSignaturesAgree) {
  std::map<std::uint16_t, std::uint64_t> seen;
  Arguments shorter = sum_of_words(1), longer = shorter;
  for (std::uint64_t count = 1; count < 100'000; ++count) {
    longer.count = count;
    const auto [found, is_new] = seen.insert({longer.signature(), count});
    if (is_new) continue;
    shorter.count = found->second;
    break;
  }
  ASSERT_EQ(shorter.signature(), longer.signature());
  ASSERT_LT(shorter.count, longer.count);
  HandFedWorld world(3);
  for (Rank rank = 0; rank < 3; ++rank) {
    const Arguments& arguments = rank == 2 ? shorter : longer;
    world.post(rank, arguments, bytes_of(std::vector<std::uint64_t>(arguments.count, 1)));
  }
  world.run();
  for (Rank rank = 0; rank < 3; ++rank) {
    if (!world[rank].has_ended(0)) continue;
    EXPECT_NE(world[rank].ended(0).outcome, Outcome::success)
        << "counts " << shorter.count << " and " << longer.count << " were added";
  }
}

// A contribution that says it has a value and brings no bytes (the wire format lets it through) must not be read. In a
// process of its own: a crash is the failure.
TEST(Operation, AContributionWithoutItsBytesIsNotRead) {
  const auto receive = [] {
    HandFedRank rank(1, 3);
    const Arguments arguments = sum_of_words(1);
    rank.post(arguments, word(1));
    Letter empty = letter(arguments, Phase::group, 2, 0, 0);
    empty.value.clear();
    rank.feed(empty);
    std::_Exit(0);
  };
  EXPECT_EXIT(receive(), testing::ExitedWithCode(0), "");
}

// ---- the operation window ----

TEST(OperationWindow, AcceptsUpToFourWindowsBeyondWhatItHasDropped) {
  for (int size : {2, 4, 8}) {
    HandFedRank rank(1, 3, size);
    const OperationNumber slots = 4 * static_cast<OperationNumber>(size);
    EXPECT_TRUE(rank.window.acceptable(slots - 1));
    EXPECT_FALSE(rank.window.acceptable(slots));
    const Arguments arguments = sum_of_words(1);
    for (OperationNumber number = 0; number <= static_cast<OperationNumber>(size); ++number) {
      rank.post(arguments, word(1));
      rank.feed(letter(arguments, Phase::broadcast, 0, number, 0, 5));
    }
    EXPECT_EQ(rank.window.dropped_upto(), 1u);
    EXPECT_TRUE(rank.window.acceptable(slots));
    EXPECT_FALSE(rank.window.acceptable(slots + 1));
  }
}

TEST(OperationWindow, HasRoomForWOperationsInFlight) {
  for (int size : {2, 4, 8}) {
    HandFedRank rank(1, 3, size);
    const Arguments arguments = sum_of_words(1);
    for (int i = 0; i < size; ++i) rank.post(arguments, word(1));
    EXPECT_FALSE(rank.ready());
    rank.feed(letter(arguments, Phase::broadcast, 0, 1, 0, 5));
    EXPECT_FALSE(rank.ready()) << "operation 0 still decides who takes part in operation W";
    rank.feed(letter(arguments, Phase::broadcast, 0, 0, 0, 5));
    EXPECT_TRUE(rank.ready());
  }
}

TEST(OperationWindow, PostsABarrierOfItsOwnAfterHalfAWindowOfRootedOperations) {
  HandFedWorld world(3, 4);
  Arguments reduce = sum_of_words(1, 0, Kind::reduce);
  for (int i = 0; i < 2; ++i) {
    world.post_all(reduce, [](Rank) { return word(1); });
    world.run();
  }
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(world[rank].window.next(), 2u);
  world.post_all(reduce, [](Rank) { return word(1); });
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(world[rank].window.next(), 4u) << "the barrier is number 2";
  world.run();
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(world[rank].window.operation(2).arguments().kind, Kind::barrier);
    EXPECT_EQ(world[rank].window.operation(2).arguments().f, 1);
    EXPECT_TRUE(world[rank].window.operation(2).finished());
  }
}

TEST(OperationWindow, ToleratesInTheBarrierWhatTheMostTolerantOfItsOperationsTolerates) {
  HandFedRank rank(0, 5, 4);
  rank.post(sum_of_words(3, 0, Kind::reduce), word(1));
  rank.post(sum_of_words(1, 0, Kind::reduce), word(1));
  rank.ready();
  EXPECT_EQ(rank.window.operation(2).arguments().f, 3);
}

TEST(OperationWindow, AnAllreduceInBetweenMakesTheBarrierNeedless) {
  HandFedWorld world(3, 4);
  for (int i = 0; i < 12; ++i) {
    const Arguments arguments = sum_of_words(1, 0, i % 2 == 0 ? Kind::reduce : Kind::allreduce);
    world.post_all(arguments, [](Rank) { return word(1); });
    world.run();
  }
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(world[rank].window.next(), 12u);
}

TEST(OperationWindow, GivesAllBuffersBack) {
  for (Kind kind : {Kind::allreduce, Kind::barrier, Kind::broadcast, Kind::reduce})
    for (Correction correction : {Correction::none, Correction::opportunistic, Correction::checked}) {
      HandFedWorld world(6, 2);
      Arguments arguments = sum_of_words(1, 0, kind);
      arguments.correction = correction;
      const auto round = [&] {
        for (int i = 0; i < 12; ++i) {
          world.post_all(arguments, [&](Rank rank) {
            return kind == Kind::barrier || (kind == Kind::broadcast && rank != 0) ? Bytes{} : word(1ull << rank);
          });
          world.run();
        }
      };
      round();
      std::vector<std::size_t> held, chunks;
      for (Rank rank = 0; rank < 6; ++rank)
        held.push_back(world[rank].buffers.in_use()), chunks.push_back(world[rank].chunks.size());
      for (int i = 0; i < 50; ++i) round();
      for (Rank rank = 0; rank < 6; ++rank) {
        EXPECT_EQ(world[rank].buffers.in_use(), held[static_cast<std::size_t>(rank)]) << "rank " << rank;
        EXPECT_EQ(world[rank].chunks.size(), chunks[static_cast<std::size_t>(rank)]) << "no new memory";
        EXPECT_LE(held[static_cast<std::size_t>(rank)], 8u)
            << "an input and a value of each retained operation at most";
        world[rank].window.release_all();
        EXPECT_EQ(world[rank].buffers.in_use(), 0u) << "kind " << int(kind) << " correction " << int(correction);
      }
    }
}

TEST(OperationWindow, GivesAllBuffersBackAfterDeathsToo) {
  for (Kind kind : {Kind::allreduce, Kind::barrier, Kind::broadcast})
    for (FailureInfo info : {FailureInfo::list, FailureInfo::count, FailureInfo::bit})
      for (Rank victim = 0; victim < 8; ++victim)
        for (std::size_t lost = 0; lost < 6; ++lost) {
          HandFedWorld world(8, 2);
          Arguments arguments = sum_of_words(2, 0, kind);
          arguments.failure_info = info;
          const auto input = [&](Rank rank) {
            return kind == Kind::barrier || (kind == Kind::broadcast && rank != 0) ? Bytes{} : word(1ull << rank);
          };
          world.post_all(arguments, input);
          for (std::size_t i = 0; i < lost; ++i) world.deliver([](const Letter&) { return true; });
          world.kill(victim);
          world.tell_all(victim);
          world.run();
          for (int i = 0; i < 6; ++i) {
            world.post_all(arguments, input);
            world.run();
          }
          for (Rank rank = 0; rank < 8; ++rank) {
            if (!world.alive(rank)) continue;
            ASSERT_TRUE(world[rank].has_ended(world[rank].window.next() - 1));
            world[rank].window.release_all();
            ASSERT_EQ(world[rank].buffers.in_use(), 0u)
                << "rank " << rank << " victim " << victim << " kind " << int(kind);
          }
        }
}

TEST(OperationWindow, LentInputIsNeverAResultAndComesBack) {
  HandFedWorld world(1);
  HandFedRank& rank = world[0];
  std::uint64_t users = 42;
  for (std::uint64_t tag = 1; tag <= 5; ++tag) {
    ASSERT_TRUE(rank.window.ready(rank.outbox));
    const BufferId lent = rank.buffers.adopt(reinterpret_cast<const std::byte*>(&users), 8, tag);
    const OperationNumber number = rank.window.post(sum_of_words(0), {.input = rank.buffers.whole(lent)}, rank.outbox);
    rank.sent();
    users = 0;  // the caller's memory is the caller's again
    EXPECT_EQ(word_of(rank.ended(number).value), 42u);
    EXPECT_NE(rank.buffers.data(rank.window.operation(number).decision().value),
              reinterpret_cast<const std::byte*>(&users));
    EXPECT_EQ(rank.buffers.released().back(), tag);
    users = 42;
  }
}

TEST(OperationWindow, AnswersAreOwedOnlyWhileSomebodyHasFailed) {
  HandFedRank rank(1, 3);
  rank.post(sum_of_words(1), word(1));
  EXPECT_FALSE(rank.window.must_answer());
  EXPECT_FALSE(rank.window.idle());
  rank.hear_of_death(2);
  EXPECT_TRUE(rank.window.must_answer());
}

// ---- leaving, as a process ------------------------------------------------------------------------------------------

// It says so in a packet and in words. An answer to each of them would be answered, too, by a rank that has gone.
// They are no failures of any operation: f is for those that are there.
TEST(OperationWindow, AbsentRanksAreMembersOfNoOperationAndCountForNothing) {
  for (const bool optimistic : {false, true})
    for (const std::vector<Rank>& absent : {std::vector<Rank>{1}, {0}, {0, 2}, {0, 1, 2, 3}}) {
      HandFedWorld world(6, 2, optimistic, absent);
      const auto present = static_cast<std::uint64_t>(6 - absent.size());
      for (OperationNumber number = 0; number < 10; ++number) {
        world.post_all(sum_of_words(0), [](Rank) { return word(1); });
        world.run();
        for (Rank rank = 0; rank < 6; ++rank) {
          if (!world.alive(rank)) continue;
          const Ended& ended = world[rank].ended(number);
          EXPECT_EQ(ended.outcome, Outcome::success);
          EXPECT_EQ(word_of(ended.value), present);
          EXPECT_EQ(ended.contributors, present);
          EXPECT_EQ(ended.attempts, 1u);
          EXPECT_TRUE(ended.list.empty());
          EXPECT_EQ(world[rank].window.members().excluded(), absent);
        }
      }
      world.kill(4);  // f = 1 is for this one
      for (OperationNumber number = 10; number < 14; ++number) {
        world.post_all(sum_of_words(1), [](Rank) { return word(1); });
        world.run();
        if (number == 10) world.tell_all(4);
        world.run();
        EXPECT_EQ(world[5].ended(number).outcome, Outcome::success);
        EXPECT_EQ(word_of(world[5].ended(number).value), present - 1);
      }
    }
}

TEST(ProcessMember, ARankAloneThatLeavesIsAnsweredOnce) {
  struct NoCaller final : ProcessMember::Caller {
    void on_completed(OperationNumber, OperationNumber, std::span<const std::byte>) override {}
    void on_given_up(Rank) override {}
  } caller;
  std::vector<std::unique_ptr<std::byte[]>> chunks;
  Buffers buffers({[](void* arg, std::size_t bytes) {
                     auto& all = *static_cast<decltype(chunks)*>(arg);
                     return all.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
                   },
                   &chunks, 4096});
  const std::vector<Host> hosts{0, 1, 2};
  OwnJournal journal;
  ProcessMember member({0, &hosts}, journal, caller, buffers);
  const auto answers = [&] {
    return std::ranges::count_if(member.outbox(), [](const ProcessMember::Packet& packet) {
      return packet.to == 1 && packet.place == ProcessMember::you_may_go;
    });
  };
  member.on_leave_word(1, 0);
  EXPECT_EQ(answers(), 1);
  member.on_leave_word(1, 0);
  member.on_leave_word(1, 0, true);
  EXPECT_EQ(answers(), 1);
  member.release_all();
}

// Ranks alone, of which the third is dead. They hand each other their messages, with their places, without delay.
class TwoOfThree {
 public:
  TwoOfThree() {
    for (Rank me : {0, 1}) {
      replicas_.push_back(std::make_unique<ProcessReplica>(
          ProcessReplica::Size{.me = me, .hosts = 3, .are_ranks = true, .has_replicas = false}, buffers_));
      replicas_.back()->compute();
      replicas_.back()->apply({.what = JournalEntry::What::failure, .about = 2});
    }
  }
  ~TwoOfThree() {
    for (const auto& each : replicas_) each->release_all();
  }
  void add_all_ones() {
    for (const auto& each : replicas_) {
      const Bytes one = word(1);
      ProcessContribution mine;
      mine.arguments = sum_of_words(1);
      mine.contributors = 1;
      mine.has_value = true;
      mine.value = one;
      JournalEntry call;
      call.what = JournalEntry::What::contribution;
      call.contribution = &mine;
      apply(*each, call);
    }
    while (hand_over(0) || hand_over(1)) {}
  }
  ProcessReplica& operator[](Rank rank) { return *replicas_[static_cast<std::size_t>(rank)]; }
  std::uint32_t last_place() const { return last_place_; }

 private:
  static void apply(ProcessReplica& to, const JournalEntry& entry) {
    to.apply(entry);
    to.clear_completed();
    to.make_ready();
    to.clear_completed();
  }
  bool hand_over(Rank from) {
    ProcessReplica& sender = (*this)[from];
    const std::uint64_t begin = sender.packets_begin(), end = sender.packets_end();
    for (std::uint64_t i = begin; i < end; ++i) {
      const ProcessReplica::Packet& packet = sender.packet(i);
      if (packet.to == 2) continue;
      last_place_ = packet.place;
      JournalEntry entry;
      entry.what = JournalEntry::What::message;
      entry.message = packet.message;
      entry.message.peer = from;
      const Slice value = packet.message.value;
      if (value) entry.value = {buffers_.data(value), value.bytes};
      if (packet.message.list != no_buffer)
        entry.list = {buffers_.data(packet.message.list), packet.message.list_length * sizeof(std::uint32_t)};
      if ((*this)[packet.to].admission(from, packet.place, packet.message.operation) == ProcessReplica::Admission::now)
        apply((*this)[packet.to], entry);
    }
    sender.note_sent();
    return end > begin;
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  Buffers buffers_{{[](void* arg, std::size_t bytes) {
                      auto& all = *static_cast<decltype(chunks_)*>(arg);
                      return all.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
                    },
                    &chunks_, 4096}};
  std::vector<std::unique_ptr<ProcessReplica>> replicas_;
  std::uint32_t last_place_ = 0;
};

// A rank that is dead to the others may have planned an operation with another membership.
TEST(ProcessReplica, AMessageThatWasPlannedWithOtherMembersComesTooLate) {
  using Admission = ProcessReplica::Admission;
  TwoOfThree ranks;
  while (ranks.last_place() == 0 && ranks[0].calls() < 64) ranks.add_all_ones();
  ASSERT_EQ(ranks.last_place(), 1U) << "planned without rank 2, which results have named";
  const OperationNumber last = ranks[0].window().next() - 1;
  ASSERT_EQ(ranks[0].operation(last).members().excluded().size(), 1U);
  EXPECT_EQ(ranks[0].admission(1, 1, last), Admission::now);
  EXPECT_EQ(ranks[0].admission(1, 0, last), Admission::late);
  EXPECT_EQ(ranks[0].admission(1, 2, last), Admission::late);
  EXPECT_EQ(ranks[0].admission(1, 0, last + 1), Admission::now) << "not planned yet";
}

}  // namespace
}  // namespace ucft::detail
