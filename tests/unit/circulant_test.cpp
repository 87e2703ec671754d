// The optimistic ballot's schedule for long data with hand-fed messages (collectives/among/phases/circulant.hpp;
// docs/algorithms.md): what it sends, its bits, and what a death makes of it.
#include <bit>
#include <cmath>
#include <numeric>

#include "collectives/core/deferred_steps.hpp"
#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;

// Everything goes in blocks, and these in pieces of so many bytes.
Optimism in_blocks(std::uint64_t piece_bytes) {
  Optimism optimism = true;
  optimism.whole_bytes = 8;
  optimism.piece_bytes = piece_bytes;
  return optimism;
}

Arguments sum_of(DataType type, std::uint64_t count, std::int32_t f = 1) {
  Arguments arguments = sum_of_words(f);
  arguments.reduction = {type, Operator::sum, nullptr, nullptr};
  arguments.count = count;
  return arguments;
}

// A packet's place among those to another process travels in 16 bits (process_replica.hpp).
TEST(Circulant, TheLongestDataAreNoMorePiecesThanPacketsHavePlaces) {
  const Optimism optimism = true;
  EXPECT_EQ(optimism.piece_of(64 * 1024 * 1024), optimism.piece_bytes);
  for (const std::uint64_t bytes : {std::uint64_t{1} << 30, (std::uint64_t{1} << 32) - 8}) {
    const std::uint64_t piece = optimism.piece_of(bytes), of_a_block = (bytes / 2 + piece - 1) / piece;
    EXPECT_LT(2 * of_a_block + 64, UINT16_MAX - 2) << bytes;  // to the other one of two: a sum, and a result
    EXPECT_LT((bytes + piece - 1) / piece + 64, UINT16_MAX - 2) << bytes;  // of a broadcast
  }
}

// Magnitudes far apart, so that another order of additions shows.
std::vector<double> doubles_of(Rank rank, std::uint64_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 7919 + 1);
  std::vector<double> values(count);
  for (double& value : values)
    value = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 40) - 20);
  return values;
}

std::vector<std::uint64_t> flags_of(Rank rank, std::uint64_t count) {
  return std::vector<std::uint64_t>(count, std::uint64_t{1} << rank);
}

std::vector<std::uint64_t> words_of(const Ended& ended) { return elements_of<std::uint64_t>(ended.value); }

// ---- without a death ------------------------------------------------------------------------------------------------

// 2m(p-1)/p bytes from each member and to each, whatever f and p; and as many messages as blocks and their pieces make.
TEST(Circulant, EachMemberSendsAndGetsNoMoreThanItMust) {
  for (Rank n = 2; n <= 33; ++n)
    for (std::int32_t f : {0, 3}) {
      HandFedWorld world(n, 2, in_blocks(1 << 20));
      const auto block = std::uint64_t{3}, count = block * static_cast<std::uint64_t>(n);
      std::map<Rank, std::uint64_t> sent, got;
      world.on_arrival = [&](const Letter& letter) {
        sent[letter.from] += letter.value.size();
        got[letter.to] += letter.value.size();
      };
      world.post_all(sum_of(DataType::uint64, count, f),
                     [&](Rank rank) { return bytes_of(flags_of(rank % 60, count)); });
      world.run();
      for (Rank rank = 0; rank < n; ++rank) {
        EXPECT_EQ(sent[rank], 2 * block * 8 * static_cast<std::uint64_t>(n - 1));
        EXPECT_EQ(got[rank], sent[rank]);
        EXPECT_EQ(world[rank].ended(0).times, 1);
        EXPECT_EQ(world[rank].ended(0).contributors, static_cast<std::uint32_t>(n));
      }
      const std::int64_t steps = std::bit_width(static_cast<unsigned>(n - 1));
      EXPECT_EQ(world.counted[Phase::closing], n * steps);
      EXPECT_GE(world.counted[Phase::reduce_scatter], n * steps);
      EXPECT_LE(world.counted[Phase::reduce_scatter], n * steps + n * steps) << "at most two runs of blocks a step";
      EXPECT_EQ(world.counted[Phase::allgather], world.counted[Phase::reduce_scatter]);
      EXPECT_EQ(world.counted[Phase::group] + world.counted[Phase::up] + world.counted[Phase::broadcast], 0);
    }
}

// A replica of a host keeps them all for later, also where the first step begins with a copy (3 members).
TEST(Circulant, ShortPiecesOfALongSumAreStepsOfALongValue) {
  for (Rank n = 2; n <= 3; ++n) {
    HandFedWorld world(n, 2, in_blocks(8));
    DeferredSteps steps(64);
    HandFedRank& replica = world[0];
    replica.buffers.defer_to(&steps);
    world.post_all(sum_of(DataType::uint64, 12), [](Rank rank) { return bytes_of(flags_of(rank, 12)); });
    world.run();
    replica.buffers.defer_to(nullptr);
    EXPECT_EQ(replica.ended(0).times, 1);
    EXPECT_EQ(words_of(replica.ended(0)), std::vector<std::uint64_t>(12)) << "nothing is written to memory yet";
    EXPECT_FALSE(steps.empty());
    steps.clear(replica.buffers);
  }
}

// The additions of Träff's Algorithm 1, with powers of two for skips, all members in step.
std::vector<double> added_in_blocks(const std::vector<std::vector<double>>& inputs) {
  const std::size_t n = inputs.size(), count = inputs[0].size();
  std::vector<double> sum(count);
  for (std::size_t element = 0; element < count; ++element) {
    std::size_t block = 0;
    while ((block + 1) * count / n <= element) ++block;
    std::vector<double> partial(n);  // of that block's element, by member
    for (std::size_t member = 0; member < n; ++member) partial[member] = inputs[member][element];
    for (std::size_t blocks = n, skip = 0; blocks > 1; blocks = skip) {
      skip = std::bit_floor(blocks - 1);
      std::vector<double> next = partial;
      for (std::size_t member = 0; member < n; ++member)
        if ((block + n - member) % n < blocks - skip) next[member] = partial[member] + partial[(member + n - skip) % n];
      partial = next;
    }
    sum[element] = partial[block];
  }
  return sum;
}

TEST(Circulant, AllHaveTheSameBitsWhateverTheOrderOfArrival) {
  for (Rank n = 2; n <= 17; ++n)
    for (std::uint64_t count : {static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(5 * n - 2)}) {
      std::vector<std::vector<double>> inputs;
      for (Rank rank = 0; rank < n; ++rank) inputs.push_back(doubles_of(rank, count));
      const Bytes expected = bytes_of(added_in_blocks(inputs));
      for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        std::mt19937_64 random(seed);
        HandFedWorld world(n, 2, in_blocks(8 * (1 + seed % 3)));
        world.post_all(sum_of(DataType::float64, count), [&](Rank rank) { return bytes_of(doubles_of(rank, count)); });
        world.run_shuffled(random);
        for (Rank rank = 0; rank < n; ++rank) ASSERT_EQ(world[rank].ended(0).value, expected) << "n " << n;
      }
    }
}

// Elements are not cut, however short pieces shall be.
TEST(Circulant, PiecesAreWholeElements) {
  Arguments arguments = sum_of(DataType::uint64, 12);
  arguments.reduction = {DataType::double_int32, Operator::maxloc, nullptr, nullptr};
  const auto bytes = arguments.reduction.carrier_bytes();
  ASSERT_EQ(bytes, 16u);
  for (std::uint64_t piece : {1, 15, 16, 31, 40}) {
    HandFedWorld world(5, 2, in_blocks(piece));
    world.on_arrival = [&](const Letter& letter) {
      if (letter.message.phase == Phase::exchange || letter.message.phase == Phase::closing) return;
      EXPECT_EQ(letter.value.size() % bytes, 0u);
      EXPECT_EQ(letter.message.offset % bytes, 0u);
      EXPECT_LE(letter.value.size(), std::max<std::uint64_t>(piece, bytes));
    };
    struct Pair {
      double value;
      std::int32_t at, padding;
    };
    world.post_all(arguments, [](Rank rank) {
      std::vector<Pair> pairs(12);
      for (std::int32_t i = 0; i < 12; ++i)
        pairs[static_cast<std::size_t>(i)] = {i % 5 == rank ? 7.0 : double(rank), rank, 0};
      return bytes_of(pairs);
    });
    world.run();
    for (Rank rank = 0; rank < 5; ++rank)
      for (std::int32_t i = 0; i < 12; ++i) {
        const Pair pair = elements_of<Pair>(world[rank].ended(0).value).at(static_cast<std::size_t>(i));
        EXPECT_EQ(pair.value, 7.0);
        EXPECT_EQ(pair.at, i % 5);
      }
  }
}

TEST(Circulant, WhatIsShortOrHasFewerElementsThanMembersGoesWhole) {
  HandFedWorld world(4, 2, in_blocks(64));
  world.post_all(sum_of(DataType::uint64, 3), [](Rank rank) { return bytes_of(flags_of(rank, 3)); });
  world.run();
  EXPECT_EQ(world.counted[Phase::reduce_scatter], 0);
  HandFedWorld usual(4, 2, true);
  const std::uint64_t most = 256 * 1024 / 2 / 8;  // two steps
  for (std::uint64_t count : {most, most + 1}) {
    usual.post_all(sum_of(DataType::uint64, count), [&](Rank rank) { return bytes_of(flags_of(rank, count)); });
    usual.run();
    EXPECT_EQ(usual.counted[Phase::reduce_scatter] > 0, count > most);
  }
}

// The same signature, by chance: what is where tells them apart.
TEST(Circulant, AnotherCountIsAMismatchOnAll) {
  const Arguments longer = sum_of(DataType::uint64, 12);
  Arguments shorter = longer;
  while (shorter.count == 12 || shorter.signature() != longer.signature()) ++shorter.count;
  HandFedWorld world(3, 2, in_blocks(16));
  for (Rank rank = 0; rank < 3; ++rank) {
    const Arguments& mine = rank == 1 ? shorter : longer;
    world.post(rank, mine, bytes_of(flags_of(rank, mine.count)));
  }
  world.run();
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(world[rank].ended(0).outcome, Outcome::mismatch);
}

// What one rank takes for short goes without a value with the others' blocks.
TEST(Circulant, LongAndShortAreAMismatchOnAll) {
  Optimism optimism = true;
  optimism.whole_bytes = optimism.segment_bytes = 2 << 20;
  const Arguments longer = sum_of(DataType::uint64, 1 << 18);
  Arguments shorter = sum_of(DataType::uint64, 3);
  while (shorter.signature() != longer.signature()) ++shorter.count;
  ASSERT_TRUE(optimism.goes_whole(shorter.bytes(), 3));
  ASSERT_FALSE(optimism.goes_whole(longer.bytes(), 3));
  for (Rank who_is_short = 0; who_is_short < 3; ++who_is_short) {
    HandFedWorld world(3, 2, optimism);
    for (Rank rank = 0; rank < 3; ++rank) {
      const Arguments& mine = rank == who_is_short ? shorter : longer;
      world.post(rank, mine, bytes_of(flags_of(rank, mine.count)));
    }
    world.run();
    for (Rank rank = 0; rank < 3; ++rank)
      EXPECT_EQ(world[rank].ended(0).outcome, Outcome::mismatch) << rank << " of " << who_is_short;
  }
}

// Of 4 members' 12 words rank 0 gets words 0 .. 5 from rank 2, in pieces of two.
TEST(Circulant, APieceIsAtItsPlaceOrAMismatch) {
  const Arguments arguments = sum_of(DataType::uint64, 12);
  struct Case {
    Rank from;
    std::uint32_t offset;
    std::size_t words;
    bool fits;
  };
  for (const Case& each : {Case{2, 0, 2, true},
                           {2, 32, 2, true},
                           {2, 8, 2, false},
                           {2, 0, 1, false},
                           {2, 0, 3, false},
                           {2, 48, 2, false},
                           {2, 960, 2, false},
                           {1, 0, 2, false}}) {
    HandFedRank rank(0, 4, 2, in_blocks(16));
    rank.post(arguments, bytes_of(flags_of(0, 12)));
    rank.feed(piece_letter(arguments, Phase::reduce_scatter, each.from, 0, each.offset,
                           bytes_of(flags_of(each.from, each.words))));
    EXPECT_EQ(rank.has_ended(0), !each.fits) << each.from << " " << each.offset << " " << each.words;
    if (!each.fits) {
      EXPECT_EQ(rank.ended(0).culprit, each.from);
    }
  }
}

TEST(Circulant, PiecesThatComeBeforeTheOperationIsPostedWait) {
  HandFedWorld world(2, 2, in_blocks(8));
  world.post(0, sum_of(DataType::uint64, 5), bytes_of(flags_of(0, 5)));
  world.run();
  EXPECT_FALSE(world[0].has_ended(0));
  world.post(1, sum_of(DataType::uint64, 5), bytes_of(flags_of(1, 5)));
  world.run();
  for (Rank rank : {0, 1}) EXPECT_EQ(words_of(world[rank].ended(0)), std::vector<std::uint64_t>(5, 3));
}

// ---- closing, and deaths --------------------------------------------------------------------------------------------

bool is_data(const Letter& letter) { return letter.message.phase != Phase::closing; }

TEST(Circulant, NobodyIsThroughBeforeAllHaveTheResult) {
  HandFedWorld world(4, 2, in_blocks(16));
  world.post_all(sum_of(DataType::uint64, 8), [](Rank rank) { return bytes_of(flags_of(rank, 8)); });
  // All but the last piece that 2 needs, and every word of the others.
  while (
      world.deliver([&](const Letter& letter) { return letter.to != 2 || letter.message.phase != Phase::allgather; })) {
  }
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_FALSE(world[rank].has_ended(0)) << rank;
  world.run();
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(words_of(world[rank].ended(0)), std::vector<std::uint64_t>(8, 15));
}

// All have it, so nobody needs those that know it; who doesn't know it yet delivers what it has, and tells the others.
TEST(Circulant, WhoKnowsThatAllHaveTheResultHasNothingToDoAfterADeath) {
  HandFedWorld world(3, 4, in_blocks(1 << 20));
  world.post_all(sum_of(DataType::uint64, 6), [](Rank rank) { return bytes_of(flags_of(rank, 6)); });
  world.deliver_all(is_data);
  while (!world[0].has_ended(0)) ASSERT_TRUE(world.deliver([](const Letter& letter) { return letter.to != 1; }));
  EXPECT_FALSE(world[1].has_ended(0)) << "waits for the words of the others";
  world.kill(2);
  world.lose([](const Letter&) { return true; });
  std::map<Rank, std::int64_t> sent;
  world.on_arrival = [&](const Letter& letter) { ++sent[letter.from]; };
  world.tell_all(2);
  EXPECT_EQ(words_of(world[1].ended(0)), std::vector<std::uint64_t>(6, 7)) << "at once";
  EXPECT_TRUE(world[1].ended(0).list.empty());
  world.run();
  EXPECT_EQ(sent[0], 0);
  EXPECT_GT(sent[1], 0) << "it can't know whether 0 has it";
  EXPECT_EQ(words_of(world[0].ended(0)), std::vector<std::uint64_t>(6, 7));
  for (Rank rank : {0, 1}) EXPECT_EQ(world[rank].ended(0).times, 1);
}

TEST(Circulant, MemoryOfResultsComesBackAtOnce) {
  HandFedWorld world(4, 8, in_blocks(1 << 20));
  const std::uint64_t count = 8192;
  std::vector<std::size_t> chunks;
  for (int i = 0; i < 20; ++i) {
    world.post_all(sum_of(DataType::uint64, count), [&](Rank rank) { return bytes_of(flags_of(rank, count)); });
    world.run();
    chunks.push_back(world[0].chunks.size());
    EXPECT_EQ(world[3].ended(static_cast<OperationNumber>(i)).value.size(), count * 8);
  }
  EXPECT_EQ(chunks[19], chunks[1]) << "no more memory after the second operation";
}

TEST(Circulant, ADeathMidwayEndsInASumOfTheSurvivors) {
  for (Rank n = 2; n <= 9; ++n)
    for (int delivered = 0; delivered < 60; delivered += 3) {
      HandFedWorld world(n, 2, in_blocks(16));
      const auto count = static_cast<std::uint64_t>(2 * n);
      world.post_all(sum_of(DataType::uint64, count, 2), [&](Rank rank) { return bytes_of(flags_of(rank, count)); });
      for (int i = 0; i < delivered; ++i) world.deliver([](const Letter&) { return true; });
      const Rank dead = n / 2;
      world.kill(dead);
      world.tell_all(dead);
      world.run();
      const std::uint64_t all = (std::uint64_t{1} << n) - 1, without = all & ~(std::uint64_t{1} << dead);
      const Rank first = dead == 0 ? 1 : 0;
      const auto words = words_of(world[first].ended(0));
      ASSERT_EQ(words.size(), count);
      EXPECT_TRUE(words[0] == all || words[0] == without);
      for (Rank rank = 0; rank < n; ++rank) {
        if (rank == dead) continue;
        EXPECT_EQ(words_of(world[rank].ended(0)), std::vector<std::uint64_t>(count, words[0]));
      }
    }
}

}  // namespace
}  // namespace ucft::detail
