// The optimistic ballot with hand-fed messages (collectives/among/phases/optimistic.hpp; docs/algorithms.md): its
// schedule, its bits, and what a death makes of it.
#include <bit>
#include <cmath>
#include <numeric>

#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;

constexpr Kind optimistic_kinds[] = {Kind::allreduce, Kind::barrier, Kind::reduce};
Bytes flag_of(Rank rank) { return word(std::uint64_t{1} << rank); }

Arguments sum_of_doubles(std::uint64_t count, Kind kind = Kind::allreduce, Rank root = 0) {
  Arguments arguments = sum_of_words(1, root, kind);
  arguments.reduction = {DataType::float64, Operator::sum};
  arguments.count = count;
  return arguments;
}

// Magnitudes far apart, so that another order of additions shows.
Bytes doubles_of(Rank rank, std::uint64_t count = 8) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 7919 + 1);
  std::vector<double> values(count);
  for (double& value : values)
    value = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 40) - 20);
  return bytes_of(values);
}

// ---- without a death ------------------------------------------------------------------------------------------------

TEST(Optimistic, SendsWhatAPlainScheduleSendsWhateverF) {
  for (Rank n = 1; n <= 33; ++n)
    for (std::int32_t f : {0, 1, 3})
      for (Kind kind : optimistic_kinds) {
        HandFedWorld world(n, 2, true);
        const Arguments arguments = sum_of_words(f, n / 2, kind);
        world.post_all(arguments, [&](Rank rank) { return kind == Kind::barrier ? Bytes{} : flag_of(rank % 60); });
        world.run();
        const std::int64_t doubled = std::bit_floor(static_cast<std::uint32_t>(n)), folded = n - doubled;
        const std::int64_t expected =
            kind == Kind::reduce ? n - 1 : doubled * std::countr_zero(static_cast<std::uint64_t>(doubled)) + 2 * folded;
        std::int64_t all = 0;
        for (const auto& [phase, count] : world.counted) all += count;
        EXPECT_EQ(world.counted[Phase::exchange], expected) << "n " << n;
        EXPECT_EQ(all, expected) << "and nothing else, n " << n;
        for (Rank rank = 0; rank < n; ++rank) {
          EXPECT_EQ(world[rank].ended(0).times, 1);
          EXPECT_EQ(world[rank].ended(0).attempts, 1u);
          if (kind == Kind::reduce && rank != arguments.root) continue;
          EXPECT_EQ(world[rank].ended(0).contributors, static_cast<std::uint32_t>(n));
          EXPECT_TRUE(world[rank].ended(0).list.empty());
        }
      }
}

// The same tree of additions, written down again: pairs of neighbours, then pairs of pairs.
std::vector<double> added_by_doubling(std::vector<std::vector<double>> parts) {
  const auto add = [](std::vector<double> lower, const std::vector<double>& higher) {
    for (std::size_t i = 0; i < lower.size(); ++i) lower[i] += higher[i];
    return lower;
  };
  const std::size_t doubled = std::bit_floor(parts.size()), folded = parts.size() - doubled;
  std::vector<std::vector<double>> next;
  for (std::size_t i = 0; i < folded; ++i) next.push_back(add(parts[2 * i], parts[2 * i + 1]));
  next.insert(next.end(), parts.begin() + static_cast<std::ptrdiff_t>(2 * folded), parts.end());
  for (parts = next; parts.size() > 1; parts = next) {
    next.clear();
    for (std::size_t i = 0; i < parts.size(); i += 2) next.push_back(add(parts[i], parts[i + 1]));
  }
  return parts[0];
}

TEST(Optimistic, AddsInTheOrderOfRanksWhateverTheOrderOfArrival) {
  for (Rank n = 2; n <= 17; ++n) {
    std::vector<std::vector<double>> parts;
    for (Rank rank = 0; rank < n; ++rank) parts.push_back(elements_of<double>(doubles_of(rank)));
    const Bytes expected = bytes_of(added_by_doubling(parts));
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      std::mt19937_64 random(seed);
      HandFedWorld world(n, 2, true);
      world.post_all(sum_of_doubles(8), [](Rank rank) { return doubles_of(rank); });
      world.run_shuffled(random);
      for (Rank rank = 0; rank < n; ++rank) ASSERT_EQ(world[rank].ended(0).value, expected) << "n " << n;
    }
  }
}

// An operator whose operands are not alike (the lower one is the result) shows who was taken for the lower one: rank 0,
// on all.
TEST(Optimistic, OperandsAreInTheOrderOfRanks) {
  const auto lower = [](const void* in, void* inout, std::uint64_t count, int, void*) {
    std::memcpy(inout, in, count * sizeof(std::uint64_t));
  };
  for (Kind kind : {Kind::allreduce, Kind::reduce})
    for (Rank n = 2; n <= 17; ++n) {
      HandFedWorld world(n, 2, true);
      Arguments arguments = sum_of_words(1, 0, kind);
      arguments.reduction = {DataType::uint64, Operator::user, lower, nullptr};
      world.post_all(arguments, [](Rank rank) { return word(100 + static_cast<std::uint64_t>(rank)); });
      world.run();
      for (Rank rank = 0; rank < (kind == Kind::reduce ? 1 : n); ++rank)
        ASSERT_EQ(word_of(world[rank].ended(0).value), 100u) << "n " << n << " rank " << rank;
    }
}

TEST(Optimistic, ABroadcastGoesAsBefore) {
  HandFedWorld world(4, 4, true);
  world.post_all(sum_of_words(1, 2, Kind::broadcast), [](Rank rank) { return rank == 2 ? word(7) : Bytes{}; });
  world.run();
  EXPECT_EQ(world.counted[Phase::exchange], 0);
  EXPECT_EQ(word_of(world[0].ended(0).value), 7u);
}

TEST(Optimistic, AReduceOfAnyLengthGoesAlongAPlainTree) {
  const std::uint64_t count = 100'000;
  HandFedWorld world(8, 4, true);
  world.post_all(sum_of_doubles(count, Kind::reduce), [&](Rank rank) { return doubles_of(rank, count); });
  world.run();
  EXPECT_EQ(world.counted[Phase::exchange], 7);
  EXPECT_EQ(world.counted.size(), 1u);
  std::vector<std::vector<double>> parts;
  for (Rank rank = 0; rank < 8; ++rank) parts.push_back(elements_of<double>(doubles_of(rank, count)));
  EXPECT_EQ(world[0].ended(0).value, bytes_of(added_by_doubling(parts)));
}

// As long as there is room for the sets that grow from step to step.
TEST(Optimistic, BlocksOfAnAllgatherGoWholeAsLongAsThereIsRoomForThem) {
  Arguments arguments = sum_of_words(1, 0, Kind::allgather);
  arguments.count = 4 * 11;
  arguments.own_count = 11;
  const std::vector<std::uint64_t> block(11, 5);
  for (bool is_optimistic : {true, false}) {
    Optimism optimism = true;
    optimism.whole_bytes = 0;
    optimism.set_bytes = 2 * Blocks::result_bytes(arguments, 4) - (is_optimistic ? 0 : 1);
    HandFedWorld world(4, 4, optimism);
    world.post_all(arguments, [&](Rank rank) {
      Bytes input(Blocks::input_bytes(arguments));
      Blocks::pack(arguments, rank, block.data(), input.data());
      return input;
    });
    world.run();
    EXPECT_EQ(world.counted[Phase::exchange] > 0, is_optimistic);
    EXPECT_EQ(world[3].ended(0).contributors, 4u);
  }
}

TEST(Optimistic, MessagesThatComeBeforeTheOperationIsPostedWait) {
  HandFedWorld world(2, 2, true);
  world.post(0, sum_of_words(1), flag_of(0));
  world.run();
  EXPECT_FALSE(world[0].has_ended(0));
  world.post(1, sum_of_words(1), flag_of(1));
  EXPECT_EQ(word_of(world[1].ended(0).value), 3u) << "at once, with what was there";
  world.run();
  EXPECT_EQ(word_of(world[0].ended(0).value), 3u);
}

TEST(Optimistic, AMismatchIsNamedOnAll) {
  HandFedWorld world(3, 2, true);
  world.post(0, sum_of_words(1), flag_of(0));
  world.post(1, sum_of_words(1, 0, Kind::barrier));
  world.post(2, sum_of_words(1), flag_of(2));
  world.run();
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(world[rank].ended(0).outcome, Outcome::mismatch);
}

// ---- deaths ---------------------------------------------------------------------------------------------------------

// Rule 1: rank 1 has delivered, 2 is dead, 0 asks nobody but waits for 1.
TEST(Optimistic, WhoHasDeliveredJoinsTheNextBallotWithWhatItHas) {
  HandFedWorld world(3, 2, true);
  world.post_all(sum_of_words(1), flag_of);
  while (!world[1].has_ended(0))
    ASSERT_TRUE(world.deliver([](const Letter& letter) { return letter.to != 0 || letter.from != 1; }))
        << "0 folds into 1, so it is the last to know";
  world.kill(2);
  world.lose([](const Letter& letter) { return letter.to == 0; });
  world.tell_all(2);
  world.run();
  for (Rank rank : {0, 1}) {
    EXPECT_EQ(word_of(world[rank].ended(0).value), 7u) << "the sum of all three: it has been delivered";
    EXPECT_TRUE(world[rank].ended(0).list.empty()) << "rule 3: no failures, for ever";
    EXPECT_EQ(world[rank].ended(0).first_decided, optimistic_ballot);
  }
  EXPECT_EQ(world[0].ended(0).attempts, 2u);
}

// Rule 2: a promise. The late messages of the ballot that was left change nothing.
TEST(Optimistic, WhoHasJoinedAnotherBallotDeliversNoMoreFromThisOne) {
  HandFedWorld world(2, 2, true);
  world.post(1, sum_of_words(1), flag_of(1));
  world.kill(1);
  world.post(0, sum_of_words(1), flag_of(0));
  world.tell(0, 1);
  EXPECT_EQ(word_of(world[0].ended(0).value), 1u);
  world.run();
  EXPECT_EQ(word_of(world[0].ended(0).value), 1u);
  EXPECT_EQ(world[0].ended(0).times, 1);
  EXPECT_EQ(world[0].ended(0).missing(), std::vector<Rank>{1});
}

TEST(Optimistic, AnOperationThatStartsWithAKnownDeathSkipsIt) {
  HandFedWorld world(4, 2, true);
  world.kill(3);
  world.tell_all(3);
  world.post_all(sum_of_words(1), flag_of);
  world.run();
  EXPECT_EQ(world.counted[Phase::exchange], 0);
  for (Rank rank : {0, 1, 2}) EXPECT_EQ(word_of(world[rank].ended(0).value), 7u);
}

// The dead are in no plan any more W operations later: no penalty lasts.
TEST(Optimistic, OperationsAreOptimisticAgainOnceADeathIsInTheMembership) {
  for (int window : {2, 3, 8}) {
    HandFedWorld world(5, window, true);
    world.kill(2);
    world.tell_all(2);
    for (int i = 0; i < window; ++i) {
      world.post_all(sum_of_words(1), flag_of);
      world.run();
    }
    EXPECT_EQ(world.counted[Phase::exchange], 0);
    world.counted.clear();
    world.post_all(sum_of_words(1), flag_of);
    world.run();
    EXPECT_EQ(world.counted[Phase::exchange], 8) << "four members";
    EXPECT_EQ(world.counted.size(), 1u) << "and nothing else";
    const OperationNumber last = static_cast<OperationNumber>(window);
    for (Rank rank : {0, 1, 3, 4}) EXPECT_EQ(word_of(world[rank].ended(last).value), 27u);
  }
}

// Rule 4: an orphan. x delivers V_0 by itself and gives to operation 2 because of it; what the survivors decide is
// another V_0.
TEST(Optimistic, AMessageThatFollowsAnotherResultIsIgnored) {
  HandFedRank rank(0, 2, 2, true);
  const Arguments arguments = sum_of_words(1);
  Letter letter;
  letter.from = 1;
  letter.message.phase = Phase::exchange;
  letter.message.attempt = optimistic_ballot;
  letter.message.signature = arguments.signature();
  letter.message.flags = has_value;
  letter.message.contributors = 1;
  letter.value = word(2);
  for (OperationNumber number = 0; number < 2; ++number) {
    rank.post(arguments, word(1));
    letter.message.operation = number;
    rank.feed(letter);
    ASSERT_EQ(rank.ended(number).first_decided, optimistic_ballot);
  }
  rank.post(arguments, word(1));
  letter.message.operation = 2;
  letter.message.prev = 0;  // ballot 0 decided that sender's V_0
  rank.feed(letter);
  EXPECT_FALSE(rank.has_ended(2));
  letter.message.prev = optimistic_ballot;
  rank.feed(letter);
  EXPECT_EQ(word_of(rank.ended(2).value), 3u);
}

TEST(Optimistic, AReduceWhoseRootDiesIsOver) {
  HandFedWorld world(4, 2, true);
  world.post_all(sum_of_words(1, 1, Kind::reduce), flag_of);
  world.kill(1);
  world.tell_all(1);
  world.run();
  for (Rank rank : {0, 2, 3}) EXPECT_EQ(world[rank].ended(0).times, 1);
}

// Who has passed its sum up and is through gives its own value again when somebody above it dies.
TEST(Optimistic, AReduceHasTheValuesThatADeadInnerRankHadTakenIn) {
  HandFedWorld world(4, 2, true);
  world.post_all(sum_of_words(1, 0, Kind::reduce), flag_of);
  ASSERT_TRUE(world.deliver(HandFedWorld::is(3, 2, Phase::exchange)));
  ASSERT_TRUE(world[3].has_ended(0));
  world.kill(2);
  world.lose([](const Letter& letter) { return letter.from == 2; });
  world.tell_all(2);
  world.run();
  EXPECT_EQ(word_of(world[0].ended(0).value), 11u);
}

}  // namespace
}  // namespace ucft::detail
