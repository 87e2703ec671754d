// Broadcast trees: parents and children agree, everybody is reached once, and the numbering is what it is called.
#include "collectives/topology/broadcast_topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <queue>
#include <string>
#include <vector>

namespace ucft::detail {
namespace {

using Processes = std::vector<std::int32_t>;

constexpr BroadcastShape binomial{Tree::binomial, Numbering::interleaved, 4};
constexpr BroadcastShape binomial_in_order{Tree::binomial, Numbering::in_order, 4};
constexpr BroadcastShape kary(std::int32_t arity) { return {Tree::kary, Numbering::interleaved, arity}; }
constexpr BroadcastShape kary_in_order(std::int32_t arity) { return {Tree::kary, Numbering::in_order, arity}; }
constexpr BroadcastShape knomial(std::int32_t arity) { return {Tree::knomial, Numbering::interleaved, arity}; }
constexpr BroadcastShape knomial_in_order(std::int32_t arity) { return {Tree::knomial, Numbering::in_order, arity}; }
constexpr BroadcastShape lame(std::int32_t arity) { return {Tree::lame, Numbering::interleaved, arity}; }
constexpr BroadcastShape optimal(std::int32_t delay_quarters) {
  return {Tree::optimal, Numbering::interleaved, 4, delay_quarters};
}
constexpr BroadcastShape chain{Tree::chain}, flat{Tree::flat};

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

#ifdef __SANITIZE_ADDRESS__  // a tenth
constexpr std::int32_t step_of_large = 91;
#else
constexpr std::int32_t step_of_large = 13;
#endif

template <class Check>
void for_all_shapes_and_sizes(Check check) {
  std::vector<BroadcastShape> shapes = {binomial, binomial_in_order};
  for (std::int32_t arity = 1; arity <= 6; ++arity) {
    shapes.push_back(kary(arity));
    shapes.push_back(kary_in_order(arity));
    shapes.push_back(lame(arity));
    if (arity == 1) continue;
    shapes.push_back(knomial(arity));
    shapes.push_back(knomial_in_order(arity));
  }
  for (std::int32_t delay : {4, 5, 7, 8, 10, 16, 17, 30, 100, 4096}) shapes.push_back(optimal(delay));
  for (BroadcastShape shape : shapes)
    for (std::int32_t size = 1; size <= 600; size += size < 70 ? 1 : step_of_large) {
      SCOPED_TRACE("delay " + std::to_string(shape.delay_quarters) + " tree " + std::to_string(int(shape.tree)) +
                   " numbering " + std::to_string(int(shape.numbering)) + " arity " + std::to_string(shape.arity) +
                   " size " + std::to_string(size));
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
    for (std::int32_t process = 0; process < size; ++process)
      ASSERT_EQ(reached[static_cast<std::size_t>(process)], process);
  });
}

TEST(BroadcastTopology, InterleavedBinomialParentIsTheProcessWithoutItsHighestBit) {
  const BroadcastTopology tree(binomial, 200);
  for (std::int32_t process = 1; process < 200; ++process)
    ASSERT_EQ(tree.parent(process),
              process - static_cast<std::int32_t>(std::bit_floor(static_cast<unsigned>(process))));
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
        ASSERT_EQ(sorted(children_of(kary(arity), size, process)), expected)
            << "arity " << arity << " process " << process;
      }
    }
}

TEST(BroadcastTopology, AnInOrderSubtreeIsOneContiguousBlock) {
  for_all_shapes_and_sizes([](BroadcastShape shape, std::int32_t size) {
    if (shape.numbering != Numbering::in_order) return;
    Processes last(static_cast<std::size_t>(size)), count(static_cast<std::size_t>(size));  // of subtrees
    for (std::int32_t process = size - 1; process >= 0; --process) {
      const auto here = static_cast<std::size_t>(process);
      last[here] = process;
      count[here] = 1;
      for (std::int32_t child : children_of(shape, size, process)) {
        ASSERT_GT(child, process);
        last[here] = std::max(last[here], last[static_cast<std::size_t>(child)]);
        count[here] += count[static_cast<std::size_t>(child)];
      }
      ASSERT_EQ(last[here], process + count[here] - 1);
    }
  });
}

// What interleaving is for: a death isolates processes, never two neighbours on the ring (PPoPP '19, arity >= 2).
TEST(BroadcastTopology, AnInterleavedSubtreeHoldsNoTwoNeighbours) {
  for_all_shapes_and_sizes([](BroadcastShape shape, std::int32_t size) {
    if (shape.numbering != Numbering::interleaved || (shape.tree == Tree::kary && shape.arity == 1)) return;
    if (shape.tree == Tree::optimal && shape.delay_quarters % 4 != 0) return;  // two neighbours now and then: see below
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
  for (BroadcastShape shape : {binomial, binomial_in_order, kary(2), kary(6), kary_in_order(2), knomial(2), knomial(7),
                               knomial_in_order(3), lame(1), lame(4), optimal(17)}) {
    const BroadcastTopology tree(shape, 1'000'000);
    for (std::int32_t process : {999'999, 500'000, 1}) {
      int depth = 0;
      for (std::int32_t p = process; p != 0; p = tree.parent(p)) ASSERT_LT(++depth, 64);
      for (std::int32_t child : children_of(shape, 1'000'000, process)) ASSERT_EQ(tree.parent(child), process);
    }
  }
}

TEST(BroadcastTopology, MoreProcessesByHand) {
  EXPECT_EQ(children_of(knomial(3), 9, 0), (Processes{1, 2, 3, 6}));
  EXPECT_EQ(children_of(knomial(3), 9, 1), (Processes{4, 7}));
  EXPECT_EQ(children_of(knomial(3), 9, 2), (Processes{5, 8}));
  EXPECT_EQ(children_of(knomial_in_order(3), 9, 0), (Processes{3, 6, 1, 2}));
  EXPECT_EQ(children_of(knomial_in_order(3), 9, 3), (Processes{4, 5}));
  EXPECT_EQ(children_of(knomial_in_order(3), 9, 6), (Processes{7, 8}));
  EXPECT_EQ(children_of(lame(2), 9, 0), (Processes{1, 2, 3, 5, 8}));
  EXPECT_EQ(children_of(lame(2), 9, 1), (Processes{4, 6}));
  EXPECT_EQ(children_of(lame(2), 9, 2), (Processes{7}));
  EXPECT_EQ(children_of(lame(3), 9, 0), (Processes{1, 2, 3, 4, 6}));
  EXPECT_EQ(children_of(lame(3), 9, 1), (Processes{5, 7}));
  EXPECT_EQ(children_of(lame(3), 9, 2), (Processes{8}));
  // Delay 2.5: 0 informs at 2.5, 3.5, 4.5, 5.5; 1 at 5, 6; 2 at 6; so in between 3 (4.5), 4 (5, of 1), 5 (5.5), 6 (6).
  EXPECT_EQ(children_of(optimal(10), 8, 0), (Processes{1, 2, 3, 5}));
  EXPECT_EQ(children_of(optimal(10), 8, 1), (Processes{4, 6}));
  EXPECT_EQ(children_of(optimal(10), 8, 2), (Processes{7}));
  EXPECT_EQ(children_of(chain, 4, 2), (Processes{3}));
  EXPECT_EQ(children_of(chain, 4, 3), (Processes{}));
  EXPECT_EQ(children_of(flat, 4, 0), (Processes{1, 2, 3}));
  EXPECT_EQ(children_of(flat, 4, 1), (Processes{}));
}

TEST(BroadcastTopology, BinomialIsLameOfOneAndNomialOfTwo) {
  for (std::int32_t size : {1, 2, 3, 8, 100, 511, 600})
    for (std::int32_t process = 0; process < size; ++process) {
      const Processes children = children_of(binomial, size, process);
      ASSERT_EQ(children_of(lame(1), size, process), children);
      ASSERT_EQ(children_of(optimal(4), size, process), children);
      ASSERT_EQ(children_of(knomial(2), size, process), children);
      ASSERT_EQ(children_of(knomial_in_order(2), size, process), children_of(binomial_in_order, size, process));
    }
}

TEST(BroadcastTopology, OptimalWithAWholeDelayIsLame) {
  for (std::int32_t arity = 1; arity <= 9; ++arity)
    for (std::int32_t size : {1, 5, 60, 600})
      for (std::int32_t process = 0; process < size; ++process)
        ASSERT_EQ(children_of(optimal(4 * arity), size, process), children_of(lame(arity), size, process));
}

// R(t) = 1 for t < k, R(t) = R(t-1) + R(t-k); i-th child of r = r + R(start(r) + i + k - 1), start(r) = min{t: R(t) >
// r}.
TEST(BroadcastTopology, LameChildrenFollowTheRecurrence) {
  for (std::int32_t k = 1; k <= 9; ++k) {
    const auto processes = [k](std::int32_t t) {
      std::vector<std::int64_t> table(static_cast<std::size_t>(std::max(t + 1, k)), 1);
      for (std::int32_t i = k; i <= t; ++i)
        table[static_cast<std::size_t>(i)] =
            table[static_cast<std::size_t>(i - 1)] + table[static_cast<std::size_t>(i - k)];
      return table[static_cast<std::size_t>(t)];
    };
    for (std::int32_t process = 0; process < 600; ++process) {
      std::int32_t start = 0;
      while (process > 0 && processes(start) <= process) ++start;
      Processes expected;
      for (std::int32_t i = 0; process + processes(start + i + k - 1) < 600; ++i)
        expected.push_back(static_cast<std::int32_t>(process + processes(start + i + k - 1)));
      ASSERT_EQ(children_of(lame(k), 600, process), expected) << "k " << k << " process " << process;
    }
  }
}

// The times, in quarters, at which processes are informed if each is informed as early as possible.
std::vector<std::int64_t> earliest_times(std::int32_t size, std::int64_t delay) {
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> next;  // when somebody can be informed
  std::vector<std::int64_t> times = {0};
  next.push(delay);
  while (static_cast<std::int32_t>(times.size()) < size) {
    const std::int64_t now = next.top();
    next.pop();
    times.push_back(now);
    next.push(now + 4);      // by the same parent
    next.push(now + delay);  // by the new one
  }
  return times;
}

TEST(BroadcastTopology, OptimalAndLameInformEachProcessAsEarlyAsAGreedySearchDoes) {
  std::vector<BroadcastShape> shapes;
  for (std::int32_t delay = 4; delay <= 40; ++delay) shapes.push_back(optimal(delay));
  for (std::int32_t delay : {77, 400, 4096}) shapes.push_back(optimal(delay));
  for (std::int32_t arity = 1; arity <= 12; ++arity) shapes.push_back(lame(arity));
  for (BroadcastShape shape : shapes) {
    const std::int64_t delay = shape.tree == Tree::lame ? 4 * shape.arity : shape.delay_quarters;
    for (std::int32_t size : {1, 2, 3, 4, 5, 7, 12, 33, 100, 256, 600, 4096}) {
      std::vector<std::int64_t> times(static_cast<std::size_t>(size), 0);
      for (std::int32_t process = 0; process < size; ++process) {  // parents come before their children
        std::int64_t at = times[static_cast<std::size_t>(process)] + delay;
        for (std::int32_t child : children_of(shape, size, process)) {
          ASSERT_GT(child, process);
          times[static_cast<std::size_t>(child)] = at;
          at += 4;
        }
      }
      ASSERT_TRUE(std::is_sorted(times.begin(), times.end())) << "numbered by time";
      ASSERT_EQ(times, earliest_times(size, delay)) << "delay " << delay << " size " << size;
    }
  }
}

// When the last process is informed, in quarters: each child one unit after the one before, `delay` after it is sent.
std::int64_t time_of(BroadcastShape shape, std::int32_t size, std::int64_t delay) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(size), 0);
  for (std::int32_t process = 0; process < size; ++process) {
    std::int64_t at = times[static_cast<std::size_t>(process)] + delay;
    for (std::int32_t child : children_of(shape, size, process)) times[static_cast<std::size_t>(child)] = at, at += 4;
  }
  return *std::max_element(times.begin(), times.end());
}

// docs/algorithms.md
TEST(BroadcastTopology, TimesAreThoseOfTheDocuments) {
  for (std::int64_t delay : {4, 7, 8, 10, 16, 40}) {
    for (std::int32_t size = 2; size <= 600; size += 7) {
      std::int64_t longest = 0;
      for (std::uint32_t r = 1; r < static_cast<std::uint32_t>(size); ++r)
        longest =
            std::max<std::int64_t>(longest, delay * std::popcount(r) + 4 * (std::bit_width(r) - std::popcount(r)));
      ASSERT_EQ(time_of(binomial, size, delay), longest);
      ASSERT_EQ(time_of(chain, size, delay), (size - 1) * delay);
      ASSERT_EQ(time_of(flat, size, delay), 4 * (size - 2) + delay);
      ASSERT_EQ(time_of(optimal(static_cast<std::int32_t>(delay)), size, delay), earliest_times(size, delay).back());
    }
    for (std::int32_t k = 2; k <= 5; ++k) {
      std::int64_t power = k, all_levels = 1 + k, width = k;
      for (std::int64_t digits = 1; power <= 4096; ++digits, power *= k) {
        ASSERT_EQ(time_of(knomial(k), static_cast<std::int32_t>(power), delay), digits * (delay + 4 * (k - 2)));
        ASSERT_EQ(time_of(kary(k), static_cast<std::int32_t>(all_levels), delay), digits * (delay + 4 * (k - 1)));
        width *= k;
        all_levels += width;
      }
      ASSERT_LE(time_of(knomial(k), 600, delay),
                std::ceil(std::log(600) / std::log(k)) * static_cast<double>(delay + 4 * (k - 2)));
    }
  }
  EXPECT_EQ(time_of(binomial, 4096, 16), 4 * 48) << "L = 2, o = g = 1";
  EXPECT_EQ(time_of(optimal(16), 4096, 16), 4 * 28);
}

TEST(BroadcastTopology, NomialParentLosesItsHighestOrLowestDigit) {
  for (std::int32_t k = 2; k <= 6; ++k)
    for (std::int32_t process = 1; process < 600; ++process) {
      Processes digits;  // lowest first
      for (std::int32_t rest = process; rest > 0; rest /= k) digits.push_back(rest % k);
      const auto value = [k](const Processes& of) {
        std::int32_t sum = 0;
        for (std::size_t i = of.size(); i-- > 0;) sum = sum * k + of[i];
        return sum;
      };
      Processes without_highest = digits, without_lowest = digits;
      without_highest.back() = 0;
      *std::find_if(without_lowest.begin(), without_lowest.end(), [](std::int32_t digit) { return digit != 0; }) = 0;
      ASSERT_EQ(BroadcastTopology(knomial(k), 600).parent(process), value(without_highest));
      ASSERT_EQ(BroadcastTopology(knomial_in_order(k), 600).parent(process), value(without_lowest));
    }
}

// With a delay that isn't whole, a few subtrees hold neighbours: two in a row with halves, four with quarters. That
// bounds the gap that one death leaves.
TEST(BroadcastTopology, AnOptimalSubtreeHoldsAtMostFourNeighbours) {
  for (std::int32_t delay = 4; delay <= 40; ++delay)
    for (std::int32_t size : {60, 600}) {
      const int most = delay % 4 == 0 ? 1 : delay % 2 == 0 ? 2 : 4;
      for (std::int32_t process = 1; process < size; ++process) {
        Processes subtree;
        collect_subtree(optimal(delay), size, process, subtree);
        std::sort(subtree.begin(), subtree.end());
        int run = 1;
        for (std::size_t i = 1; i < subtree.size(); ++i) {
          run = subtree[i] == subtree[i - 1] + 1 ? run + 1 : 1;
          ASSERT_LE(run, most) << "delay " << delay << " process " << process << ": " << subtree[i];
        }
      }
    }
}

TEST(BroadcastTopology, AChainAndAFlatTreeAreTheSameInBothNumberings) {
  for (Tree tree : {Tree::chain, Tree::flat})
    for (std::int32_t process = 0; process < 9; ++process)
      EXPECT_EQ(children_of({tree, Numbering::in_order}, 9, process),
                children_of({tree, Numbering::interleaved}, 9, process));
}

}  // namespace
}  // namespace ucft::detail
