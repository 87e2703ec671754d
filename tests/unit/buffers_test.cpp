// Buffers: references, reuse without new memory, lent memory, exhaustion.
#include "collectives/core/buffers.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "collectives/core/deferred_steps.hpp"

namespace ucft::detail {
namespace {

// The heap, with a limit and a record of what was asked for.
struct Heap {
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<std::size_t> asked;
  std::size_t left = ~std::size_t{0};

  ChunkSource source(std::size_t chunk_bytes = 4096) {
    return {[](void* arg, std::size_t bytes) -> std::byte* {
              auto& heap = *static_cast<Heap*>(arg);
              if (bytes > heap.left) return nullptr;
              heap.left -= bytes;
              heap.asked.push_back(bytes);
              heap.memory.push_back(std::make_unique<std::byte[]>(bytes));
              return heap.memory.back().get();
            },
            this, chunk_bytes};
  }
};

TEST(Buffers, ABlockHoldsWhatWasCopiedIn) {
  Heap heap;
  Buffers buffers(heap.source());
  const char text[] = "seventeen letters";
  const BufferId id = buffers.copy_in(text, sizeof(text));
  ASSERT_NE(id, no_buffer);
  EXPECT_EQ(buffers.bytes(id), sizeof(text));
  EXPECT_STREQ(reinterpret_cast<const char*>(buffers.data(id)), text);
  EXPECT_FALSE(buffers.is_adopted(id));
  buffers.release(id);
}

TEST(Buffers, TheLastReferenceFreesABlock) {
  Heap heap;
  Buffers buffers(heap.source());
  const BufferId id = buffers.allocate(100);
  EXPECT_EQ(buffers.references(id), 1u);
  EXPECT_EQ(buffers.in_use(), 1u);
  buffers.retain(id);
  buffers.release(id);
  EXPECT_EQ(buffers.in_use(), 1u);
  buffers.release(id);
  EXPECT_EQ(buffers.in_use(), 0u);
}

TEST(Buffers, NoBufferCanBeRetainedAndReleasedAtWill) {
  Heap heap;
  Buffers buffers(heap.source());
  buffers.retain(no_buffer);
  buffers.release(no_buffer);
  buffers.release(no_buffer);
  EXPECT_FALSE(buffers.localize(Slice{}));
  EXPECT_EQ(buffers.bytes(no_buffer), 0u);
  EXPECT_EQ(buffers.in_use(), 0u);
}

// A slice of lent memory becomes a whole block; of its own memory it stays what it is.
TEST(Buffers, LocalizeTakesASliceOnly) {
  Heap heap;
  Buffers buffers(heap.source());
  std::byte users[16];
  for (int i = 0; i < 16; ++i) users[i] = static_cast<std::byte>(i);
  const BufferId lent = buffers.adopt(users, sizeof(users), 9);
  const Slice copy = buffers.localize(Slice{lent, 4, 3});
  EXPECT_EQ(copy.offset, 0u);
  EXPECT_EQ(copy.bytes, 3u);
  EXPECT_EQ(buffers.bytes(copy.buffer), 3u);
  EXPECT_EQ(std::memcmp(buffers.data(copy), users + 4, 3), 0);
  const Slice part{copy.buffer, 1, 2};
  EXPECT_EQ(buffers.localize(part), part);
  EXPECT_EQ(buffers.references(copy.buffer), 2u);
  EXPECT_EQ(buffers.data(part), buffers.data(copy) + 1);
  for (Slice each : {copy, part, buffers.whole(lent)}) buffers.release(each);
  EXPECT_EQ(buffers.in_use(), 0u);
}

TEST(Buffers, TheBlockFreedLastIsUsedFirst) {
  Heap heap;
  Buffers buffers(heap.source());
  const BufferId a = buffers.allocate(64), b = buffers.allocate(64);
  buffers.release(a);
  buffers.release(b);
  EXPECT_EQ(buffers.allocate(33), b);
  EXPECT_EQ(buffers.allocate(1), a);
  EXPECT_EQ(buffers.bytes(a), 1u) << "the length is that of the present use";
}

// A quarter too much at most; a source that has nothing is asked for as many bytes as a block would have.
TEST(Buffers, LongBlocksAreNotMuchLongerThanWhatIsWanted) {
  std::uint64_t asked = 0;
  Buffers buffers({[](void* arg, std::size_t bytes) -> std::byte* {
                     *static_cast<std::uint64_t*>(arg) = bytes;
                     return nullptr;
                   },
                   &asked, 4096});
  for (std::uint64_t power = std::uint64_t{1} << 20; power < std::uint64_t{1} << 45; power *= 2)
    for (const std::uint64_t eighths : {8, 9, 10, 11, 12, 13, 14, 15})
      for (const std::uint64_t more : {0, 1, 4096}) {
        const std::uint64_t bytes = power / 8 * eighths + more;
        EXPECT_EQ(buffers.allocate(bytes), no_buffer);
        EXPECT_TRUE(asked >= bytes && asked <= bytes / 4 * 5 + 4096 && asked % 4096 == 0) << bytes << ": " << asked;
      }
}

TEST(Buffers, AShorterLongBlockTakesTheMemoryOfALongerOne) {
  Heap heap;
  Buffers buffers(heap.source());
  const BufferId longer = buffers.allocate(15 << 18);
  const std::byte* const memory = buffers.data(longer);
  buffers.release(longer);
  const BufferId shorter = buffers.allocate(9 << 18);
  EXPECT_EQ(buffers.data(shorter), memory);
  EXPECT_EQ(buffers.bytes(shorter), std::uint64_t{9 << 18});
  EXPECT_NE(buffers.data(buffers.allocate(9 << 18)), memory);
  buffers.release(shorter);
  EXPECT_EQ(buffers.data(buffers.allocate(15 << 18)), memory) << "it is as long as before";
}

TEST(Buffers, SteadyStateAsksForNoNewMemory) {
  Heap heap;
  Buffers buffers(heap.source());
  const std::uint64_t sizes[] = {0, 1, 64, 65, 100, 1000, 1024, 1025, 5000, 70000, 1 << 20, 5 << 18, (5 << 18) + 1};
  const auto round = [&] {
    std::vector<BufferId> held;
    for (std::uint64_t size : sizes) held.push_back(buffers.allocate(size));
    for (BufferId id : held) buffers.release(id);
  };
  round();
  const std::size_t asked = heap.asked.size();
  for (int i = 0; i < 1000; ++i) round();
  EXPECT_EQ(heap.asked.size(), asked);
  EXPECT_EQ(buffers.in_use(), 0u);
}

TEST(Buffers, BlocksOfAllSizesNeverOverlap) {
  Heap heap;
  Buffers buffers(heap.source());
  std::mt19937 random(3);
  std::vector<std::pair<BufferId, unsigned char>> held;
  for (int step = 0; step < 20000; ++step) {
    if (held.size() < 50 && random() % 2 == 0) {
      const std::size_t size = random() % (random() % 10 == 0 ? 9000 : 200);
      const BufferId id = buffers.allocate(size);
      const auto fill = static_cast<unsigned char>(random());
      if (size > 0) std::memset(buffers.data(id), fill, size);
      held.push_back({id, fill});
    } else if (!held.empty()) {
      const std::size_t index = random() % held.size();
      const auto [id, fill] = held[index];
      for (std::uint64_t i = 0; i < buffers.bytes(id); ++i)
        ASSERT_EQ(std::to_integer<unsigned char>(buffers.data(id)[i]), fill);
      buffers.release(id);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(index));
    }
    ASSERT_EQ(buffers.in_use(), held.size());
  }
}

TEST(Buffers, ALargeBlockGetsAChunkOfItsOwn) {
  Heap heap;
  Buffers buffers(heap.source(4096));
  const BufferId small = buffers.allocate(1024), large = buffers.allocate(1025);
  EXPECT_EQ(heap.asked, (std::vector<std::size_t>{4096, 2048}));
  buffers.release(small);
  buffers.release(large);
}

TEST(Buffers, LentMemoryIsUsedInPlaceAndItsTagComesBack) {
  Heap heap;
  Buffers buffers(heap.source());
  std::byte users[24] = {};
  const BufferId id = buffers.adopt(users, sizeof(users), 77);
  EXPECT_EQ(buffers.data(id), users);
  EXPECT_TRUE(buffers.is_adopted(id));
  EXPECT_EQ(buffers.tag(id), 77u);
  buffers.retain(id);
  buffers.release(id);
  EXPECT_TRUE(buffers.released().empty()) << "somebody still uses it";
  buffers.release(id);
  EXPECT_EQ(buffers.released(), (std::vector<std::uint64_t>{77}));
  EXPECT_EQ(buffers.in_use(), 0u);
  EXPECT_TRUE(heap.asked.empty()) << "lent memory needs no memory";
}

TEST(Buffers, EntriesOfLentMemoryAreReusedAndNeverHandedOutAsBlocks) {
  Heap heap;
  Buffers buffers(heap.source());
  std::byte users[64] = {};
  const BufferId first = buffers.adopt(users, 64, 1);
  buffers.release(first);
  const BufferId block = buffers.allocate(64);
  EXPECT_NE(buffers.data(block), users);
  const BufferId second = buffers.adopt(users, 64, 2);
  EXPECT_EQ(second, first);
  buffers.release(second);
  buffers.release(block);
  EXPECT_EQ(buffers.released(), (std::vector<std::uint64_t>{1, 2}));
}

TEST(Buffers, LocalizeCopiesLentMemoryAndSharesItsOwn) {
  Heap heap;
  Buffers buffers(heap.source());
  std::byte users[16];
  std::memset(users, 5, sizeof(users));
  const BufferId lent = buffers.adopt(users, sizeof(users), 9);
  const BufferId copy = buffers.localize(buffers.whole(lent)).buffer;
  EXPECT_NE(copy, lent);
  EXPECT_EQ(buffers.references(lent), 1u);
  EXPECT_EQ(std::memcmp(buffers.data(copy), users, sizeof(users)), 0);
  std::memset(users, 6, sizeof(users));
  EXPECT_EQ(std::to_integer<int>(buffers.data(copy)[0]), 5);
  const BufferId same = buffers.localize(buffers.whole(copy)).buffer;
  EXPECT_EQ(same, copy);
  EXPECT_EQ(buffers.references(copy), 2u);
  buffers.release(copy);
  buffers.release(copy);
  buffers.release(lent);
  EXPECT_EQ(buffers.in_use(), 0u);
}

TEST(Buffers, ExhaustionIsNoBufferAndLeavesEverythingElseUsable) {
  Heap heap;
  heap.left = 4 * 4096;
  Buffers buffers(heap.source());
  constexpr std::uint64_t bytes = 2 * Buffers::private_limit;
  std::vector<BufferId> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(buffers.allocate(bytes));
    ASSERT_NE(held.back(), no_buffer);
  }
  EXPECT_EQ(buffers.allocate(bytes), no_buffer);
  EXPECT_EQ(buffers.allocate(Buffers::private_limit + 1), no_buffer);
  EXPECT_EQ(buffers.allocate(100000), no_buffer);
  EXPECT_EQ(buffers.in_use(), 4u);
  buffers.release(held.back());
  EXPECT_EQ(buffers.allocate(bytes), held.back());
  heap.left = 1 << 20;
  EXPECT_NE(buffers.allocate(bytes), no_buffer) << "memory came back";
}

// What travels inline must always find a place.
TEST(Buffers, SmallBlocksComeFromTheHeapWhenTheDriverHasNoMemory) {
  Heap heap;
  heap.left = 0;
  Buffers buffers(heap.source());
  std::vector<BufferId> held;
  for (std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{1000}, Buffers::private_limit})
    for (int i = 0; i < 100; ++i) {
      held.push_back(buffers.allocate(bytes));
      ASSERT_NE(held.back(), no_buffer);
      EXPECT_FALSE(buffers.is_adopted(held.back()));
      std::memset(buffers.data(held.back()), i, bytes);
    }
  for (std::size_t i = 0; i < held.size(); ++i)
    if (buffers.bytes(held[i]) > 0) {
      EXPECT_EQ(std::to_integer<std::size_t>(buffers.data(held[i])[buffers.bytes(held[i]) - 1]), i % 100);
    }
  for (BufferId id : held) buffers.release(id);
  EXPECT_EQ(buffers.in_use(), 0u);
  EXPECT_EQ(buffers.allocate(1000), held[399]) << "and are used again";
}

TEST(Buffers, PrivateBlocksCountAsLentAndGoWithTheirLastReference) {
  Heap heap;
  heap.left = 1 << 20;
  Buffers buffers(heap.source());
  const BufferId id = buffers.allocate_private(100000);
  ASSERT_NE(id, no_buffer);
  std::memset(buffers.data(id), 3, 100000);
  EXPECT_TRUE(buffers.is_adopted(id));
  const BufferId copy = buffers.localize(buffers.whole(id)).buffer;
  EXPECT_NE(copy, id);
  EXPECT_EQ(std::to_integer<int>(buffers.data(copy)[99999]), 3);
  buffers.release(id);
  EXPECT_TRUE(buffers.released().empty()) << "nobody has to be told";
  EXPECT_EQ(buffers.in_use(), 1u);
  EXPECT_NE(buffers.allocate_private(10),
            no_buffer);  // never released: the sanitizer sees that it goes with its Buffers
}

TEST(Buffers, AnAbsurdSizeIsRefused) {
  Heap heap;
  heap.left = 1 << 20;
  Buffers buffers(heap.source());
  EXPECT_EQ(buffers.allocate(std::uint64_t{1} << 47), no_buffer);
  EXPECT_EQ(buffers.allocate((std::uint64_t{1} << 48) + 1), no_buffer);
  EXPECT_EQ(buffers.allocate(~std::uint64_t{0}), no_buffer);
  EXPECT_EQ(buffers.in_use(), 0u);
}

// ---- deferred steps -------------------------------------------------------------------------------------------------

// A random program of copies and sums, of short and long slices of a few blocks that overlap.
TEST(DeferredSteps, GiveWhatStepsAtOnceGive) {
  constexpr std::uint32_t words = 64, word_bytes = sizeof(std::uint64_t);
  const Reduction sum{DataType::uint64, Operator::sum};
  std::mt19937_64 random(7);
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  for (int program = 0; program < 300; ++program) {
    Heap heaps[2];
    Buffers at_once(heaps[0].source()), later(heaps[1].source());
    DeferredSteps steps(16 * word_bytes);
    later.defer_to(&steps);
    std::vector<BufferId> blocks;
    for (int block = 0; block < 4; ++block) {
      std::uint64_t data[words];
      for (std::uint64_t& each : data) each = random();
      blocks.push_back(at_once.copy_in(data, sizeof data));
      ASSERT_EQ(later.copy_in(data, sizeof data), blocks.back());
    }
    for (int step = 0; step < 12; ++step) {
      const std::uint32_t length = 1 + below(24);
      const auto slice = [&](BufferId block) {
        return Slice{block, below(words - length + 1) * word_bytes, length * word_bytes};
      };
      const std::uint32_t to_block = below(4), other = (to_block + 1 + below(3)) % 4;
      const Slice to = slice(blocks[to_block]), from = slice(blocks[other]);
      for (Buffers* each : {&at_once, &later}) {
        if (step % 2 == 0)
          each->copy(to, from);
        else
          each->combine(sum, to, to, from);
      }
    }
    steps.take_all(later);
    for (BufferId block : blocks) {
      EXPECT_EQ(std::memcmp(at_once.data(block), later.data(block), words * word_bytes), 0) << program;
      EXPECT_EQ(later.references(block), 1U);
    }
  }
}

// Else each replica would compute a long value that comes in short pieces.
TEST(DeferredSteps, APartOfALongValueWaitsWithTheOthers) {
  Heap heap;
  Buffers buffers(heap.source());
  DeferredSteps steps(16);
  buffers.defer_to(&steps);
  const std::uint64_t words[] = {0, 0}, piece = 7;
  const Slice whole = buffers.whole(buffers.copy_in(words, sizeof words));
  const Slice part = buffers.whole(buffers.copy_in(&piece, sizeof piece));
  buffers.combine_part({DataType::uint64, Operator::sum, nullptr, nullptr}, whole.part(8, 8), whole.part(8, 8), part,
                       whole.bytes);
  EXPECT_TRUE(steps.lead_to(whole.buffer));
  steps.take_all(buffers);
  buffers.copy_part(whole.part(0, 8), part, whole.bytes);
  EXPECT_TRUE(steps.lead_to(whole.buffer));
  steps.take_all(buffers);
  EXPECT_EQ(reinterpret_cast<const std::uint64_t*>(buffers.data(whole))[1], 7U);
  buffers.copy(whole.part(0, 8), part);
  EXPECT_TRUE(steps.empty()) << "a short value of its own";
  buffers.release(whole);
  buffers.release(part);
  EXPECT_EQ(buffers.in_use(), 0U);
}

TEST(DeferredSteps, OnesThatLeadToNothingAreForgottenAndThoseBeforeThem) {
  Heap heap;
  Buffers buffers(heap.source());
  DeferredSteps steps(8);
  buffers.defer_to(&steps);
  const auto word = [&](std::uint64_t value) { return buffers.whole(buffers.copy_in(&value, sizeof value)); };
  const Slice input = word(1), middle = word(2), result = word(3), other = word(4);
  buffers.copy(middle, input);
  buffers.copy(result, middle);
  buffers.copy(other, input);
  EXPECT_TRUE(steps.lead_to(result.buffer));
  EXPECT_FALSE(steps.lead_to(input.buffer));
  buffers.release(input);
  buffers.release(middle);
  buffers.release(other);
  steps.forget_unneeded(buffers);
  EXPECT_TRUE(steps.lead_to(middle.buffer)) << "the result is made of it";
  EXPECT_FALSE(steps.lead_to(other.buffer));
  EXPECT_EQ(buffers.in_use(), 3U);
  buffers.retain(result);
  buffers.release(result);
  steps.take_all(buffers);
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(buffers.data(result)), 1U);
  EXPECT_EQ(buffers.in_use(), 1U);

  buffers.copy(result, word(5));
  buffers.release(result);
  steps.forget_unneeded(buffers);
  EXPECT_TRUE(steps.empty());
  EXPECT_EQ(buffers.in_use(), 1U) << "the test's own reference to the last word";
}

TEST(Buffers, LentMemoryThatGoesIsCopiedForThoseThatReferToIt) {
  Heap heap;
  Buffers buffers(heap.source());
  std::byte users[100];
  std::memset(users, 3, sizeof users);
  const BufferId lent = buffers.adopt(users, sizeof users, 9);
  buffers.retain(lent);
  buffers.move_to(buffers.allocate(sizeof users), lent);
  EXPECT_EQ(buffers.released(), std::vector<std::uint64_t>{9});
  std::memset(users, 4, sizeof users);
  EXPECT_FALSE(buffers.is_adopted(lent));
  EXPECT_EQ(buffers.references(lent), 2u);
  EXPECT_EQ(buffers.data(lent)[99], std::byte{3});
  buffers.release(lent);
  buffers.release(lent);
  EXPECT_EQ(buffers.in_use(), 0u);
  const BufferId again = buffers.allocate(sizeof users);
  EXPECT_EQ(again, lent);
  buffers.release(again);
}

}  // namespace
}  // namespace ucft::detail
