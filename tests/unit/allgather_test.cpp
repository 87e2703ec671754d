// Sets of blocks: what an allgather's messages carry, and what a sum of them is. Then whole operations, fed by hand.
#include "collectives/catalogue/blocks.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;

Arguments gather_bytes(std::uint64_t own, std::uint64_t all, std::int32_t f = 1) {
  Arguments arguments;
  arguments.kind = Kind::allgather;
  arguments.reduction = DataType::float32;  // 4 bytes
  arguments.own_count = own;
  arguments.count = all;
  arguments.f = f;
  return arguments;
}

// Rank r gives r elements, each of them r.
Bytes block_of(Rank rank) {
  return bytes_of(std::vector<std::uint32_t>(static_cast<std::size_t>(rank), static_cast<std::uint32_t>(rank)));
}
Bytes packed(Rank rank, std::uint64_t all) {
  const Arguments arguments = gather_bytes(static_cast<std::uint64_t>(rank), all);
  Bytes input(Blocks::input_bytes(arguments));
  Blocks::pack(arguments, rank, block_of(rank).data(), input.data());
  return input;
}
std::map<Rank, Bytes> blocks_in(const Bytes& set) {
  std::map<Rank, Bytes> blocks;
  EXPECT_TRUE(Blocks::for_each(set, [&](Rank rank, std::span<const std::byte> block) {
    EXPECT_TRUE(blocks.emplace(rank, Bytes(block.begin(), block.end())).second) << "rank " << rank << " twice";
  }));
  return blocks;
}

TEST(SetOfBlocks, IsRecordsAtMultiplesOfEightBytes) {
  EXPECT_EQ(packed(0, 6).size(), 8u);
  EXPECT_EQ(packed(1, 6).size(), 16u);
  EXPECT_EQ(packed(2, 6).size(), 16u);
  EXPECT_EQ(packed(3, 6).size(), 24u);
  EXPECT_EQ(blocks_in(packed(3, 6)), (std::map<Rank, Bytes>{{3, block_of(3)}}));
}

TEST(SetOfBlocks, CutOffAnywhereButBetweenRecordsItIsNone) {
  Bytes set = packed(1, 6);
  const Bytes other = packed(3, 6);
  set.insert(set.end(), other.begin(), other.end());
  for (std::size_t bytes = 0; bytes <= set.size(); ++bytes) {
    const bool between = bytes == 0 || bytes == 16 || bytes == set.size();
    EXPECT_EQ(Blocks::for_each(std::span(set).first(bytes), [](Rank, std::span<const std::byte>) {}), between) << bytes;
  }
}

TEST(SetOfBlocks, AddsUpInMemoryOfItsOwnAndOnce) {
  HandFedRank rank(0, 4);
  Buffers& buffers = rank.buffers;
  const Bytes first = packed(2, 6), second = packed(3, 6), third = packed(0, 6);
  // Each in memory with room for all: it is not the sum's for that.
  const auto kept = [&](const Bytes& bytes) {
    const Slice slice{buffers.allocate(4096), 0, static_cast<std::uint32_t>(bytes.size())};
    std::memcpy(buffers.data(slice), bytes.data(), bytes.size());
    return slice;
  };
  const Slice a = kept(first), b = kept(second), c = kept(third);
  Slice sum = a;
  bool fresh = false;
  ASSERT_TRUE(Blocks::add(gather_bytes(2, 6), sum, fresh, b, 4, buffers));
  EXPECT_TRUE(fresh);
  EXPECT_NE(sum.buffer, a.buffer);
  const BufferId made = sum.buffer;
  ASSERT_TRUE(Blocks::add(gather_bytes(2, 6), sum, fresh, c, 4, buffers));
  EXPECT_EQ(sum.buffer, made) << "it grows in place";
  EXPECT_EQ(sum.bytes, first.size() + second.size() + third.size());
  EXPECT_EQ(blocks_in(Bytes(buffers.data(sum), buffers.data(sum) + sum.bytes)),
            (std::map<Rank, Bytes>{{0, {}}, {2, block_of(2)}, {3, block_of(3)}}));
  EXPECT_EQ(std::memcmp(buffers.data(a), first.data(), first.size()), 0);
  for (Slice each : {a, b, c, sum}) buffers.release(each);
}

TEST(SetOfBlocks, WhatIsTooLongIsLeftOut) {
  HandFedRank rank(0, 2);
  Buffers& buffers = rank.buffers;
  const Bytes first = packed(1, 1);
  const Bytes second(4096, std::byte{0});
  const Slice a = buffers.whole(buffers.copy_in(first.data(), first.size())),
              b = buffers.whole(buffers.copy_in(second.data(), second.size()));
  Slice sum = a;
  bool fresh = false;
  ASSERT_TRUE(Blocks::add(gather_bytes(1, 1), sum, fresh, b, 2, buffers));
  EXPECT_EQ(sum.bytes, first.size());
  for (Slice each : {a, b, sum}) buffers.release(each);
}

// The first operand is longer than all blocks together: from a rank with other counts, whose signature was the same by
// chance.
TEST(SetOfBlocks, TheFirstOperandMayBeTheOneThatIsTooLong) {
  HandFedRank rank(0, 2);
  Buffers& buffers = rank.buffers;
  const Bytes first(8192, std::byte{0}), second = packed(1, 1);
  const Slice a = buffers.whole(buffers.copy_in(first.data(), first.size())),
              b = buffers.whole(buffers.copy_in(second.data(), second.size()));
  Slice sum = a;
  bool fresh = false;
  ASSERT_TRUE(Blocks::add(gather_bytes(1, 1), sum, fresh, b, 2, buffers));
  EXPECT_GE(buffers.bytes(sum.buffer), sum.bytes);
  EXPECT_EQ(sum.bytes, first.size());
  for (Slice each : {a, b, sum}) buffers.release(each);
}

TEST(SetOfBlocks, HasAtLeastOneRecord) {
  EXPECT_FALSE(Blocks::accepts(gather_bytes(1, 1), 0));
  EXPECT_TRUE(Blocks::accepts(gather_bytes(1, 1), 8));
  EXPECT_FALSE(Blocks::accepts(gather_bytes(1, 1), 12));
}

TEST(AllgatherOperation, GivesEveryBlockToEveryRankForAnyRoot) {
  for (Rank n = 1; n <= 9; ++n)
    for (std::int32_t f : {0, 1, 2})
      for (Rank root : {0, n - 1}) {
        HandFedWorld world(n);
        Arguments arguments = gather_bytes(0, static_cast<std::uint64_t>(n * (n - 1) / 2), f);
        arguments.root = root;
        world.post_all(arguments, [&](Rank rank) { return packed(rank, arguments.count); });
        world.run();
        for (Rank rank = 0; rank < n; ++rank) {
          const std::map<Rank, Bytes> blocks = blocks_in(world[rank].ended(0).value);
          ASSERT_EQ(blocks.size(), static_cast<std::size_t>(n));
          for (const auto& [from, block] : blocks) ASSERT_EQ(block, block_of(from));
          EXPECT_EQ(world[rank].ended(0).contributors, static_cast<std::uint32_t>(n));
        }
      }
}

// Rank 1 dies when one of its group has its block: whoever decides has it, or nobody has.
TEST(AllgatherOperation, ADeadRanksBlockIsThereOnAllOrOnNone) {
  for (bool arrives : {false, true}) {
    HandFedWorld world(5);
    const Arguments arguments = gather_bytes(0, 10);
    world.post_all(arguments, [&](Rank rank) { return packed(rank, arguments.count); });
    const auto to_its_group = HandFedWorld::is(1, 2, Phase::group);
    arrives ? static_cast<void>(world.deliver(to_its_group)) : static_cast<void>(world.lose(to_its_group));
    world.kill(1);
    world.tell_all(1);
    world.run();
    for (Rank rank : {0, 2, 3, 4}) {
      const std::map<Rank, Bytes> blocks = blocks_in(world[rank].ended(0).value);
      EXPECT_EQ(blocks.count(1), arrives ? 1u : 0u) << "rank " << rank;
      EXPECT_EQ(blocks.size(), arrives ? 5u : 4u);
      EXPECT_EQ(world[rank].ended(0).missing(), arrives ? std::vector<Rank>{} : std::vector<Rank>{1});
    }
  }
}

}  // namespace
}  // namespace ucft::detail
