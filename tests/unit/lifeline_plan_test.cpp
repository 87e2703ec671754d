// Who has a lifeline with whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "timeout_detector/lifeline_plan.hpp"

namespace ucft::detail {
namespace {

std::vector<std::uint64_t> hosts_of(int ranks, int per_host) {
  std::vector<std::uint64_t> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(static_cast<std::uint64_t>(1000 - rank / per_host));
  return hosts;
}

std::vector<std::vector<std::uint64_t>> layouts() {
  std::vector<std::vector<std::uint64_t>> all;
  for (int ranks : {1, 2, 3, 8, 33, 70})
    for (int per_host : {1, 2, 3, 7, 40}) all.push_back(hosts_of(ranks, per_host));
  all.push_back({5, 5, 5, 5, 5, 5, 5, 9});  // one against many
  all.push_back({1, 2, 1, 3, 1, 2, 4, 4, 4, 4, 4, 4});
  return all;
}

std::uint64_t host(const std::vector<std::uint64_t>& hosts, std::int32_t rank) {
  return hosts[static_cast<std::size_t>(rank)];
}

TEST(LifelinePlan, TheExampleInTheHeader) {
  const auto plan = lifeline_plan(hosts_of(32, 4), 2, 0);
  const auto watches = [&](std::int32_t rank, std::vector<int> distances) {
    for (const int distance : distances) {
      const std::int32_t other = (rank + 4 * distance) % 32;
      EXPECT_TRUE(std::ranges::binary_search(plan, LifelineEnds(std::min(rank, other), std::max(rank, other))))
          << rank << " and " << other;
    }
  };
  watches(0, {1, 2});
  watches(1, {4, 1});
  watches(2, {2, 4});
  watches(31, {1, 2});
  EXPECT_EQ(lifelines_of(plan, 0), (std::vector<std::int32_t>{4, 8, 24, 28}));
}

TEST(LifelinePlan, JoinsOtherHostsAloneAndEachRankWithEnough) {
  for (const auto& hosts : layouts())
    for (const std::int32_t reach : {1, 2, 5}) {
      const auto plan = lifeline_plan(hosts, reach, 0);
      EXPECT_TRUE(std::ranges::is_sorted(plan));
      EXPECT_EQ(std::set(plan.begin(), plan.end()).size(), plan.size());
      for (const auto& [a, b] : plan) EXPECT_TRUE(a < b && host(hosts, a) != host(hosts, b));
      for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(hosts.size()); ++rank) {
        const std::size_t others = std::set(hosts.begin(), hosts.end()).size() - 1;
        EXPECT_GE(lifelines_of(plan, rank).size(), std::min(static_cast<std::size_t>(reach), others))
            << rank << " of " << hosts.size();
      }
    }
}

TEST(LifelinePlan, InSmallJobsAllWatchAll) {
  const auto hosts = hosts_of(12, 4);
  EXPECT_EQ(lifeline_plan(hosts, 2, 8).size(), 48u);
  EXPECT_LT(lifeline_plan(hosts, 2, 7).size(), 48u);
  EXPECT_TRUE(lifeline_plan(hosts_of(4, 4), 2, 32).empty());
}

TEST(LifelinePlan, AHostIsJoinedWithThoseAtAllPowersOfTwo) {
  for (const int per_host : {1, 2, 3, 5, 8})
    for (const int count : {8, 13, 64}) {
      const auto hosts = hosts_of(count * per_host, per_host);
      std::map<std::uint64_t, std::set<std::uint64_t>> joined;
      for (const auto& [a, b] : lifeline_plan(hosts, 2, 0)) {
        joined[host(hosts, a)].insert(host(hosts, b));
        joined[host(hosts, b)].insert(host(hosts, a));
      }
      for (int at = 0; at < count; ++at)
        for (int distance = 1; distance < count; distance *= 2)
          for (const int other : {(at + distance) % count, (at + count - distance) % count})
            EXPECT_TRUE(
                joined[static_cast<std::uint64_t>(1000 - at)].contains(static_cast<std::uint64_t>(1000 - other)))
                << at << " and " << other << " of " << count << " x " << per_host;
    }
}

// What is left of the hosts must hear of each other, whichever two of them end.
TEST(LifelinePlan, WithoutAnyTwoHostsTheOthersAreJoined) {
  constexpr int count = 9;
  for (const int per_host : {1, 2, 4}) {
    const auto hosts = hosts_of(count * per_host, per_host);
    const auto plan = lifeline_plan(hosts, 2, 0);
    for (int a = 0; a < count; ++a)
      for (int b = 0; b < a; ++b) {
        std::vector<int> part(count);
        std::iota(part.begin(), part.end(), 0);
        const auto place = [&](std::int32_t rank) { return static_cast<int>(1000 - host(hosts, rank)); };
        for (int turn = 0; turn < count; ++turn)
          for (const auto& [one, other] : plan) {
            const int x = place(one), y = place(other);
            if (x == a || x == b || y == a || y == b) continue;
            part[static_cast<std::size_t>(x)] = part[static_cast<std::size_t>(y)] =
                std::min(part[static_cast<std::size_t>(x)], part[static_cast<std::size_t>(y)]);
          }
        std::set<int> parts;
        for (int each = 0; each < count; ++each)
          if (each != a && each != b) parts.insert(part[static_cast<std::size_t>(each)]);
        EXPECT_EQ(parts.size(), 1u) << "without " << a << " and " << b;
      }
  }
}

// As many as hosts and ranks need, and no more: at 1042 hosts of 96 ranks four of each rank, where each rank once had
// 32.
TEST(LifelinePlan, OfLargeJobsIsSmall) {
  const int ranks = 1042 * 96;
  const auto plan = lifeline_plan(hosts_of(ranks, 96), 2, 32);
  std::vector<int> of(static_cast<std::size_t>(ranks));
  for (const auto& [a, b] : plan) ++of[static_cast<std::size_t>(a)], ++of[static_cast<std::size_t>(b)];
  EXPECT_TRUE(std::ranges::all_of(of, [](int each) { return each == 4; }));
}

// As if they were not there: the same plan among the others, under their numbers.
TEST(LifelinePlan, AbsentRanksHaveNone) {
  for (const auto& hosts : layouts())
    for (const std::int32_t all_upto : {0, 32}) {
      std::vector<bool> absent(hosts.size());
      std::vector<std::int32_t> ranks;
      std::vector<std::uint64_t> others;
      for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
        absent[rank] = rank % 3 == 0 && hosts.size() > 1;
        if (absent[rank]) continue;
        ranks.push_back(static_cast<std::int32_t>(rank));
        others.push_back(hosts[rank]);
      }
      std::vector<LifelineEnds> expected;
      for (const auto& [a, b] : lifeline_plan(others, 2, all_upto))
        expected.emplace_back(ranks[static_cast<std::size_t>(a)], ranks[static_cast<std::size_t>(b)]);
      EXPECT_EQ(lifeline_plan(hosts, 2, all_upto, absent), expected) << hosts.size();
    }
}

}  // namespace
}  // namespace ucft::detail
