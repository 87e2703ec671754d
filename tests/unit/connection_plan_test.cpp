// Whom a rank connects with in start-up: as many as were counted, the same seen from both ends, and all that trees and
// groups need.
#include "ucx_layer/transport/connection_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "collectives/topology/broadcast_topology.hpp"
#include "collectives/topology/reduce_topology.hpp"

namespace ucft::detail {
namespace {

using Ranks = std::vector<std::int32_t>;

std::vector<std::uint64_t> groups_of(std::int32_t groups, std::int32_t ranks) {  // ranks of each
  std::vector<std::uint64_t> all;
  for (std::int32_t rank = 0; rank < groups * ranks; ++rank) all.push_back(static_cast<std::uint64_t>(rank / ranks));
  return all;
}

TEST(ConnectionPlan, AProcessHasFewNeighbours) {
  const auto most = [](std::int32_t size, std::int32_t f) {
    std::size_t found = 0;
    for (std::int32_t me = 0; me < size; me += std::max(1, size / 1000))
      found = std::max(found, process_neighbours(size, me, f).size());
    return found;
  };
  EXPECT_EQ(most(64, 1), 11u);
  EXPECT_EQ(most(64, 3), 13u);
  EXPECT_EQ(most(1024, 1), 19u);
  EXPECT_LE(most(100000, 1), 34u + 17u);  // of recursive doubling, where the number is no power of two
}

// Broadcasts and reduces to every root, as rotations of those to 0.
TEST(ConnectionPlan, TreesAndGroupsOfAllRootsNeedNobodyElse) {
  for (std::int32_t size : {2, 3, 7, 13, 16, 33, 64})
    for (std::int32_t f : {0, 1, 2, 3}) {
      const ReduceTopology reduce(size, f);
      const BroadcastTopology broadcast({}, size);
      for (std::int32_t process = 0; process < size; ++process) {
        Ranks needed, some;
        reduce.group_members(process, some);
        needed.insert(needed.end(), some.begin(), some.end());
        reduce.children(process, some);
        needed.insert(needed.end(), some.begin(), some.end());
        broadcast.children(process, some);
        needed.insert(needed.end(), some.begin(), some.end());
        if (process > 0) needed.push_back(reduce.parent(process));
        if (process > 0) needed.push_back(broadcast.parent(process));
        for (std::int32_t root : {0, size / 3, size - 1}) {
          const Ranks neighbours = process_neighbours(size, (process + root) % size, f);
          for (const std::int32_t other : needed)
            EXPECT_TRUE(other == process || std::ranges::binary_search(neighbours, (other + root) % size))
                << size << " " << f << ": " << process << " and " << other << " from " << root;
        }
      }
    }
}

TEST(ConnectionPlan, BothEndsHaveTheSame) {
  for (const std::int32_t ranks : {1, 2, 3})
    for (const std::int32_t groups : {5, 12, 37}) {
      const std::vector<std::uint64_t> all = groups_of(groups, ranks);
      const auto size = static_cast<std::int32_t>(all.size());
      std::vector<ConnectionPlan> plans;
      for (std::int32_t rank = 0; rank < size; ++rank) plans.emplace_back(all, rank, 1, 0);
      for (std::int32_t a = 0; a < size; ++a)
        for (std::int32_t b = 0; b < size; ++b)
          EXPECT_EQ(plans[static_cast<std::size_t>(a)].includes(b), plans[static_cast<std::size_t>(b)].includes(a));
    }
}

TEST(ConnectionPlan, TwoOfEachGroupAreConnected) {
  const std::vector<std::uint64_t> all = groups_of(64, 4);
  EXPECT_EQ(ConnectionPlan(all, 0, 1, 40).peers().size(), 22u);
  EXPECT_EQ(ConnectionPlan(all, 253, 1, 40).peers().size(), 22u);
  EXPECT_EQ(ConnectionPlan(all, 2, 1, 40).peers(), Ranks{});
  EXPECT_EQ(ConnectionPlan(all, 2, 1, 40).near()[0], (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(ConnectionPlan(all, 2, 1, 40).near().size(), 12u);
}

// A mailbox has the same place seen from both ends, and all have places of their own.
TEST(ConnectionPlan, MailboxesHavePlaces) {
  for (const std::int32_t all_upto : {0, 1000}) {
    const std::vector<std::uint64_t> all = groups_of(13, 3);
    std::vector<MailboxPlaces> places;
    for (std::int32_t rank = 0; rank < 39; ++rank) places.push_back(ConnectionPlan(all, rank, 1, all_upto).mailboxes());
    for (std::size_t a = 0; a < 39; ++a) {
      std::vector<int> used;
      for (std::size_t b = 0; b < 39; ++b) {
        if (a == b) continue;
        EXPECT_EQ(places[a].here[b], places[b].there[a]);
        if (places[a].here[b] >= 0) used.push_back(places[a].here[b]);
        EXPECT_TRUE(a / 3 != b / 3 || places[a].here[b] >= 0);
      }
      std::ranges::sort(used);
      EXPECT_EQ(static_cast<int>(used.size()), places[a].count);
      for (std::size_t i = 0; i < used.size(); ++i) EXPECT_EQ(used[i], static_cast<int>(i));
    }
  }
}

// Of 10^5 ranks, in hosts of 100 or alone: what each sets aside, all of which RDMA registers.
TEST(ConnectionPlan, MailboxesOfManyRanksTakeLessThanFourMegabytes) {
  for (const std::int32_t ranks : {1, 100}) {
    const ConnectionPlan plan(groups_of(100000 / ranks, ranks), 0, 1, 256);
    std::size_t most = 0;
    for (std::int32_t rank = 0; rank < 100000; rank += 777)
      most = std::max(most, FirstSegment(static_cast<int>(plan.mailboxes_of(rank).size()), mailbox_lines).bytes());
    EXPECT_LT(most, 4'000'000u);
    EXPECT_EQ(plan.mailboxes().count, static_cast<int>(plan.mailboxes_of(0).size()));
  }
}

TEST(ConnectionPlan, FewRanksAreAllConnected) {
  const std::vector<std::uint64_t> all{7, 7, 7, 8, 8};
  EXPECT_EQ(ConnectionPlan(all, 2, 1, 3).peers(), (Ranks{3, 4}));
  EXPECT_EQ(ConnectionPlan(all, 3, 1, 3).peers(), (Ranks{0, 1, 2}));
  EXPECT_TRUE(ConnectionPlan(all, 0, 1, 3).connects_all());
  EXPECT_FALSE(ConnectionPlan(all, 0, 1, 2).connects_all());  // rank 3 has three
  EXPECT_EQ(ConnectionPlan(all, 2, 1, 2).peers(), Ranks{});
}

// The others connect as if an absent rank were not there, over both ends alike.
TEST(ConnectionPlan, NoRankConnectsWithAbsentOnes) {
  for (const std::int32_t all_upto : {0, 1000})
    for (const std::int32_t ranks : {1, 3}) {
      const std::vector<std::uint64_t> all = groups_of(12, ranks);
      std::vector<bool> absent(all.size());
      for (const std::size_t rank : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{11}})
        absent[rank] = true;
      std::vector<ConnectionPlan> plans;
      for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (!absent[rank]) plans.emplace_back(all, static_cast<std::int32_t>(rank), 1, all_upto, absent);
      std::size_t at = 0;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (absent[rank]) continue;
        const ConnectionPlan& plan = plans[at++];
        EXPECT_FALSE(plan.peers().empty() && plan.connects_all());
        for (const std::int32_t peer : plan.peers()) EXPECT_FALSE(absent[static_cast<std::size_t>(peer)]) << rank;
        for (const auto& group : plan.near())
          for (const std::int32_t peer : group) EXPECT_FALSE(absent[static_cast<std::size_t>(peer)]) << rank;
        const MailboxPlaces places = plan.mailboxes();
        std::size_t other_at = 0;
        for (std::size_t other = 0; other < all.size(); ++other) {
          if (absent[other]) continue;
          const ConnectionPlan& theirs = plans[other_at++];
          EXPECT_EQ(plan.includes(static_cast<std::int32_t>(other)), theirs.includes(static_cast<std::int32_t>(rank)));
          if (other != rank) EXPECT_EQ(places.there[other], theirs.mailboxes().here[rank]) << rank << ", " << other;
        }
      }
    }
}

}  // namespace
}  // namespace ucft::detail
