// Up-correction groups and the I(f)-tree: the paper's example by hand, then the properties that its proofs use.
#include "collectives/topology/reduce_topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace ucft::detail {
namespace {

using Processes = std::vector<std::int32_t>;

Processes group_of(const ReduceTopology& topology, std::int32_t process) {
  Processes members;
  topology.group_members(process, members);
  return members;
}
Processes children_of(const ReduceTopology& topology, std::int32_t process) {
  Processes children;
  topology.children(process, children);
  return children;
}
// Up to the child of the root.
std::int32_t subtree_of(const ReduceTopology& topology, std::int32_t process) {
  while (topology.parent(process) != 0) process = topology.parent(process);
  return process;
}

// Figure 2: seven processes, f = 1. Groups {1,2} {3,4} {5,6}; 1 and 2 below the root; 3 and 5 below 1, 4 and 6 below 2.
TEST(ReduceTopology, IsThatOfFigure2) {
  const ReduceTopology topology(7, 1);
  EXPECT_EQ(group_of(topology, 0), (Processes{0}));
  EXPECT_EQ(group_of(topology, 1), (Processes{1, 2}));
  EXPECT_EQ(group_of(topology, 4), (Processes{3, 4}));
  EXPECT_EQ(group_of(topology, 5), (Processes{5, 6}));
  EXPECT_FALSE(topology.in_short_group(0)) << "n-1 = 6 is divisible by f+1 = 2";
  EXPECT_EQ(children_of(topology, 0), (Processes{1, 2}));
  EXPECT_EQ(children_of(topology, 1), (Processes{3, 5}));
  EXPECT_EQ(children_of(topology, 2), (Processes{4, 6}));
  for (std::int32_t leaf : {3, 4, 5, 6}) EXPECT_EQ(children_of(topology, leaf), Processes{});
}

TEST(ReduceTopology, EightProcessesTakeTheRootIntoTheLastGroup) {
  const ReduceTopology topology(8, 1);
  EXPECT_EQ(group_of(topology, 0), (Processes{0, 7}));
  EXPECT_EQ(group_of(topology, 7), (Processes{0, 7}));
  EXPECT_TRUE(topology.in_short_group(0));
  EXPECT_TRUE(topology.in_short_group(7));
  EXPECT_FALSE(topology.in_short_group(6));
  EXPECT_EQ(children_of(topology, 1), (Processes{3, 5}));
  EXPECT_EQ(children_of(topology, 3), (Processes{7}));
  EXPECT_EQ(topology.messages_without_failure(), 15);
}

TEST(ReduceTopology, SixteenProcessesAndThreeFailuresCost63Messages) {
  EXPECT_EQ(ReduceTopology(16, 3).messages_without_failure(), 63);
}

TEST(ReduceTopology, WithoutFailuresToTolerateEverybodyIsItsOwnGroup) {
  const ReduceTopology topology(6, 0);
  for (std::int32_t p = 0; p < 6; ++p) EXPECT_EQ(group_of(topology, p), (Processes{p}));
  EXPECT_EQ(children_of(topology, 0), (Processes{1}));
  EXPECT_EQ(topology.messages_without_failure(), 5);
}

TEST(ReduceTopology, MoreFailuresThanProcessesAreCutToAllButOne) {
  const ReduceTopology topology(4, 100);
  EXPECT_EQ(topology.f(), 3);
  EXPECT_EQ(topology.complete_groups(), 0);
  EXPECT_EQ(group_of(topology, 2), (Processes{0, 1, 2, 3}));
  EXPECT_EQ(children_of(topology, 0), (Processes{1, 2, 3}));
}

TEST(ReduceTopology, OneProcessHasNobody) {
  const ReduceTopology topology(1, 3);
  EXPECT_EQ(topology.f(), 0);
  EXPECT_EQ(group_of(topology, 0), (Processes{0}));
  EXPECT_EQ(children_of(topology, 0), Processes{});
  EXPECT_EQ(topology.messages_without_failure(), 0);
}

class EveryReduceTopology : public testing::Test {
 protected:
  template <class Check>
  void for_all(Check check) {
    for (std::int32_t n = 1; n <= 40; ++n)
      for (std::int32_t f = 0; f <= 6; ++f) {
        SCOPED_TRACE("n " + std::to_string(n) + " f " + std::to_string(f));
        check(n, std::min(f, n - 1), ReduceTopology(n, f));
        if (HasFatalFailure()) return;
      }
  }
};

TEST_F(EveryReduceTopology, HasOneParentPerProcessWhichListsItAsAChild) {
  for_all([](std::int32_t n, std::int32_t, const ReduceTopology& topology) {
    std::vector<int> listed(static_cast<std::size_t>(n), 0);
    for (std::int32_t p = 0; p < n; ++p)
      for (std::int32_t child : children_of(topology, p)) {
        ASSERT_TRUE(child > 0 && child < n);
        ASSERT_EQ(topology.parent(child), p);
        ++listed[static_cast<std::size_t>(child)];
      }
    ASSERT_EQ(listed[0], 0);
    for (std::int32_t p = 1; p < n; ++p) ASSERT_EQ(listed[static_cast<std::size_t>(p)], 1) << "process " << p;
  });
}

// Definition: an I(f)-tree has f+1 children of the root, whose subtrees differ in size by at most one.
TEST_F(EveryReduceTopology, IsAnIfTree) {
  for_all([](std::int32_t n, std::int32_t f, const ReduceTopology& topology) {
    std::map<std::int32_t, int> sizes;
    for (std::int32_t p = 1; p < n; ++p) ++sizes[subtree_of(topology, p)];
    const Processes children = children_of(topology, 0);
    ASSERT_EQ(children.size(), static_cast<std::size_t>(std::min(f + 1, n - 1)));
    int smallest = n, largest = static_cast<int>(children.size()) < f + 1 ? 0 : -n;
    for (std::int32_t child : children) {
      smallest = std::min(smallest, sizes[child]);
      largest = std::max(largest, sizes[child]);
    }
    if (n > 1) {
      ASSERT_LE(largest - smallest, 1);
    }
  });
}

// Section 4.2: processes p with the same floor((p-1)/(f+1)); the root joins the last group if that is short.
TEST_F(EveryReduceTopology, HasTheGroupsOfSection42) {
  for_all([](std::int32_t n, std::int32_t f, const ReduceTopology& topology) {
    const std::int32_t last = n == 1 ? -1 : (n - 2) / (f + 1);
    for (std::int32_t p = 0; p < n; ++p) {
      Processes expected;
      const bool last_is_short = n > 1 && (n - 1) % (f + 1) != 0;
      const std::int32_t group = p == 0 ? (last_is_short ? last : -1) : (p - 1) / (f + 1);
      if (p == 0 || (group == last && last_is_short)) expected.push_back(0);
      for (std::int32_t q = 1; q < n; ++q)
        if ((q - 1) / (f + 1) == group) expected.push_back(q);
      ASSERT_EQ(group_of(topology, p), expected) << "process " << p;
      ASSERT_EQ(topology.in_short_group(p), last_is_short && (p == 0 || group == last)) << "process " << p;
    }
    ASSERT_EQ(topology.complete_groups(), (n - 1) / (f + 1));
  });
}

// The proof of Theorem 1 needs both.
TEST_F(EveryReduceTopology, HasOneMemberOfEachCompleteGroupInEverySubtreeAndAtMostOneOfAShortGroup) {
  for_all([](std::int32_t n, std::int32_t f, const ReduceTopology& topology) {
    for (std::int32_t p = 1; p < n; ++p) {
      std::map<std::int32_t, int> members;
      for (std::int32_t q : group_of(topology, p))
        if (q != 0) ++members[subtree_of(topology, q)];
      for (const auto& [subtree, count] : members) ASSERT_EQ(count, 1) << "subtree " << subtree;
      if (!topology.in_short_group(p)) {
        ASSERT_EQ(members.size(), static_cast<std::size_t>(f + 1));
      }
    }
  });
}

// Otherwise the same bits could not come out of every subtree.
TEST_F(EveryReduceTopology, HasTheSameShapeOfCompleteGroupsInEverySubtree) {
  for_all([](std::int32_t n, std::int32_t f, const ReduceTopology& topology) {
    for (std::int32_t p = 1; p < n; ++p) {
      if (topology.in_short_group(p) || topology.parent(p) == 0) continue;
      const std::int32_t twin = p - (p - 1) % (f + 1);  // the group's member in the first subtree
      ASSERT_EQ((topology.parent(p) - 1) / (f + 1), (topology.parent(twin) - 1) / (f + 1));
    }
  });
}

TEST_F(EveryReduceTopology, HasOnlyLeavesInAShortGroup) {
  for_all([](std::int32_t n, std::int32_t, const ReduceTopology& topology) {
    for (std::int32_t p = 1; p < n; ++p) {
      if (topology.in_short_group(p)) {
        ASSERT_EQ(children_of(topology, p), Processes{});
      }
    }
  });
}

TEST_F(EveryReduceTopology, CostsWhatItsGroupsAndEdgesCost) {
  for_all([](std::int32_t n, std::int32_t, const ReduceTopology& topology) {
    std::int64_t messages = n - 1;
    for (std::int32_t p = 0; p < n; ++p) messages += static_cast<std::int64_t>(group_of(topology, p).size()) - 1;
    ASSERT_EQ(topology.messages_without_failure(), messages);
  });
}

TEST(ReduceTopology, HasLogarithmicDepthForAMillionProcesses) {
  const ReduceTopology topology(1'000'000, 1);
  for (std::int32_t process : {999'999, 999'998, 524'287, 262'143}) {
    int depth = 0;
    for (std::int32_t p = process; p != 0; p = topology.parent(p)) ++depth;
    EXPECT_LE(depth, 20);
  }
  EXPECT_EQ(children_of(topology, 999'999), Processes{});
}

}  // namespace
}  // namespace ucft::detail
