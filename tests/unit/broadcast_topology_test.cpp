// Broadcast trees: parents and children agree, everybody is reached once, and the numbering is what it is called.
#include "collectives/topology/broadcast_topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

namespace ucft {
namespace {

using Processes = std::vector<std::int32_t>;

constexpr BroadcastShape binomial{Tree::binomial, Numbering::interleaved, 4};
constexpr BroadcastShape binomial_in_order{Tree::binomial, Numbering::in_order, 4};
constexpr BroadcastShape kary(std::int32_t arity) { return {Tree::kary, Numbering::interleaved, arity}; }
constexpr BroadcastShape kary_in_order(std::int32_t arity) { return {Tree::kary, Numbering::in_order, arity}; }

Processes children_of(BroadcastShape shape, std::int32_t size, std::int32_t process) {
  Processes children;
  BroadcastTopology(shape, size).children(process, children);
  return children;
}
Processes sorted(Processes processes) {
  std::sort(processes.begin(), processes.end());
  return processes;
}

// The process and everything below it.
void collect_subtree(BroadcastShape shape, std::int32_t size, std::int32_t process, Processes& subtree) {
  subtree.push_back(process);
  for (std::int32_t child : children_of(shape, size, process)) collect_subtree(shape, size, child, subtree);
}

template <class Check>
void for_all_shapes_and_sizes(Check check) {
  std::vector<BroadcastShape> shapes = {binomial, binomial_in_order};
  for (std::int32_t arity = 1; arity <= 6; ++arity) {
    shapes.push_back(kary(arity));
    shapes.push_back(kary_in_order(arity));
  }
  for (BroadcastShape shape : shapes)
    for (std::int32_t size = 1; size <= 200; ++size) {
      SCOPED_TRACE("tree " + std::to_string(int(shape.tree)) + " numbering " + std::to_string(int(shape.numbering)) +
                   " arity " + std::to_string(shape.arity) + " size " + std::to_string(size));
      check(shape, size);
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(BroadcastTopology, EightProcessesByHand) {
  EXPECT_EQ(sorted(children_of(binomial, 8, 0)), (Processes{1, 2, 4}));
  EXPECT_EQ(sorted(children_of(binomial, 8, 1)), (Processes{3, 5}));
  EXPECT_EQ(children_of(binomial, 8, 2), (Processes{6}));
  EXPECT_EQ(children_of(binomial, 8, 3), (Processes{7}));
  EXPECT_EQ(children_of(binomial_in_order, 8, 0), (Processes{4, 2, 1}));
  EXPECT_EQ(children_of(binomial_in_order, 8, 4), (Processes{6, 5}));
  EXPECT_EQ(children_of(binomial_in_order, 8, 2), (Processes{3}));
  EXPECT_EQ(children_of(binomial_in_order, 8, 6), (Processes{7}));
  EXPECT_EQ(children_of(kary(2), 8, 0), (Processes{1, 2}));
  EXPECT_EQ(children_of(kary(2), 8, 1), (Processes{3, 5}));
  EXPECT_EQ(children_of(kary(2), 8, 2), (Processes{4, 6}));
  EXPECT_EQ(children_of(kary(2), 8, 3), (Processes{7}));
  EXPECT_EQ(children_of(kary(1), 4, 2), (Processes{3})) << "one child each: a chain";
}

TEST(BroadcastTopology, EveryProcessHasOneParentWhichListsItAsAChild) {
  for_all_shapes_and_sizes([](BroadcastShape shape, std::int32_t size) {
    const BroadcastTopology tree(shape, size);
    std::vector<int> listed(static_cast<std::size_t>(size), 0);
    for (std::int32_t process = 0; process < size; ++process)
      for (std::int32_t child : children_of(shape, size, process)) {
        ASSERT_TRUE(child > 0 && child < size) << "child " << child << " of " << process;
        ASSERT_EQ(tree.parent(child), process) << "child " << child;
        ++listed[static_cast<std::size_t>(child)];
      }
    ASSERT_EQ(listed[0], 0);
    for (std::int32_t process = 1; process < size; ++process) {
      ASSERT_EQ(listed[static_cast<std::size_t>(process)], 1) << "process " << process;
      ASSERT_LT(tree.parent(process), process) << "so the way up ends at the root";
    }
  });
}

TEST(BroadcastTopology, TheRootReachesEverybodyOnce) {
  for_all_shapes_and_sizes([](BroadcastShape shape, std::int32_t size) {
    Processes reached;
    collect_subtree(shape, size, 0, reached);
    std::sort(reached.begin(), reached.end());
    ASSERT_EQ(reached.size(), static_cast<std::size_t>(size));
    for (std::int32_t process = 0; process < size; ++process) ASSERT_EQ(reached[static_cast<std::size_t>(process)], process);
  });
}

TEST(BroadcastTopology, InterleavedBinomialParentIsTheProcessWithoutItsHighestBit) {
  const BroadcastTopology tree(binomial, 200);
  for (std::int32_t process = 1; process < 200; ++process)
    ASSERT_EQ(tree.parent(process), process - static_cast<std::int32_t>(std::bit_floor(static_cast<unsigned>(process))));
}

TEST(BroadcastTopology, InterleavedKaryChildrenAreItsMultiplesOfTheLevelWidth) {
  for (std::int32_t arity = 1; arity <= 6; ++arity)
    for (std::int32_t size : {1, 2, 17, 200}) {
      std::int64_t first = 0, width = 1;
      for (std::int32_t process = 0; process < size; ++process) {
        if (process == first + width) first += width, width *= arity;
        Processes expected;
        for (std::int32_t i = 1; i <= arity; ++i)
          if (process + i * width < size) expected.push_back(static_cast<std::int32_t>(process + i * width));
        ASSERT_EQ(sorted(children_of(kary(arity), size, process)), expected) << "arity " << arity << " process " << process;
      }
    }
}

TEST(BroadcastTopology, AnInOrderSubtreeIsOneContiguousBlock) {
  for_all_shapes_and_sizes([](BroadcastShape shape, std::int32_t size) {
    if (shape.numbering != Numbering::in_order) return;
    for (std::int32_t process = 0; process < size; ++process) {
      Processes subtree;
      collect_subtree(shape, size, process, subtree);
      ASSERT_EQ(*std::min_element(subtree.begin(), subtree.end()), process);
      ASSERT_EQ(*std::max_element(subtree.begin(), subtree.end()), process + static_cast<std::int32_t>(subtree.size()) - 1);
    }
  });
}

// What interleaving is for: a death isolates processes, never two neighbours on the ring (PPoPP '19, arity >= 2).
TEST(BroadcastTopology, AnInterleavedSubtreeHoldsNoTwoNeighbours) {
  for_all_shapes_and_sizes([](BroadcastShape shape, std::int32_t size) {
    if (shape.numbering != Numbering::interleaved || (shape.tree == Tree::kary && shape.arity == 1)) return;
    for (std::int32_t process = 1; process < size; ++process) {
      Processes subtree;
      collect_subtree(shape, size, process, subtree);
      std::sort(subtree.begin(), subtree.end());
      for (std::size_t i = 1; i < subtree.size(); ++i) ASSERT_GE(subtree[i] - subtree[i - 1], 2);
    }
  });
}

TEST(BroadcastTopology, NoProcessHasMoreChildrenThanTheArity) {
  for_all_shapes_and_sizes([](BroadcastShape shape, std::int32_t size) {
    if (shape.tree != Tree::kary) return;
    for (std::int32_t process = 0; process < size; ++process)
      ASSERT_LE(children_of(shape, size, process).size(), static_cast<std::size_t>(shape.arity));
  });
}

TEST(BroadcastTopology, TheChildWithTheLargestSubtreeIsServedFirstInTheBinomialInOrderTree) {
  for (std::int32_t size : {8, 16, 64}) {
    const Processes children = children_of(binomial_in_order, size, 0);
    EXPECT_TRUE(std::is_sorted(children.rbegin(), children.rend()));
  }
}

TEST(BroadcastTopology, HasNoOverflowAtAMillionProcesses) {
  for (BroadcastShape shape : {binomial, binomial_in_order, kary(2), kary(6), kary_in_order(2)}) {
    const BroadcastTopology tree(shape, 1'000'000);
    for (std::int32_t process : {999'999, 500'000, 1}) {
      int depth = 0;
      for (std::int32_t p = process; p != 0; p = tree.parent(p)) ASSERT_LT(++depth, 64);
      for (std::int32_t child : children_of(shape, 1'000'000, process)) ASSERT_EQ(tree.parent(child), process);
    }
  }
}

}  // namespace
}  // namespace ucft
