// Whom a rank of gossip sends to: hops, reach, spectral gap, and preference for those who think otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "collectives/gossip/gossip.hpp"

namespace ucft::detail {
namespace {

using Row = std::vector<double>;

// Of a search from that rank, by single hops.
std::vector<int> distances(Neighbourhood made, Rank from) {
  made.reach = 1;
  std::vector<int> found(static_cast<std::size_t>(made.ranks), -1);
  std::vector<Rank> open{from};
  found[static_cast<std::size_t>(from)] = 0;
  for (std::size_t i = 0; i < open.size(); ++i)
    for (Rank other : neighbours_of(made, open[i])) {
      if (found[static_cast<std::size_t>(other)] >= 0) continue;
      found[static_cast<std::size_t>(other)] = found[static_cast<std::size_t>(open[i])] + 1;
      open.push_back(other);
    }
  return found;
}

std::vector<Neighbourhood> some_topologies(std::vector<Rank> sizes) {
  std::vector<Neighbourhood> all;
  for (int topology = 0; topology < gossip_topology_count; ++topology)
    for (Rank ranks : sizes)
      for (int arity : {2, 3}) {
        const Neighbourhood made{static_cast<GossipTopology>(topology), ranks, arity, 4, 9};
        if (problem_with(made).empty()) all.push_back(made);
      }
  return all;
}

TEST(Hops, AreThoseOfAShortestWay) {
  for (const Neighbourhood& made : some_topologies({1, 2, 5, 6, 8, 24, 32, 64})) {
    if (made.topology == GossipTopology::random_regular) continue;
    for (Rank from = 0; from < made.ranks; ++from) {
      const std::vector<int> found = distances(made, from);
      for (Rank to = 0; to < made.ranks; ++to)
        EXPECT_EQ(hops(made, from, to), found[static_cast<std::size_t>(to)])
            << gossip_topology_name(made.topology) << " " << made.ranks << ": " << from << " to " << to;
    }
  }
}

TEST(Neighbourhood, AReachTakesInAllWithinSoManyHops) {
  for (Neighbourhood made : some_topologies({2, 6, 24, 32, 64})) {
    if (made.topology == GossipTopology::complete) continue;
    for (made.reach = 1; made.reach <= 7; made.reach += 2)
      for (Rank rank = 0; rank < made.ranks; ++rank) {
        const std::vector<int> found = distances(made, rank);
        std::vector<Rank> within;
        for (Rank other = 0; other < made.ranks; ++other)
          if (other != rank && found[static_cast<std::size_t>(other)] <= made.reach) within.push_back(other);
        EXPECT_EQ(neighbours_of(made, rank), within) << gossip_topology_name(made.topology) << " " << made.ranks;
      }
  }
}

TEST(Neighbourhood, AReachThatDoesNotExistIsRefused) {
  Neighbourhood made{GossipTopology::ring, 8};
  made.reach = 3;
  EXPECT_EQ(problem_with(made), "");
  made.reach = 0;
  EXPECT_NE(problem_with(made).find("reach of 0 hops"), std::string::npos);
  made = {GossipTopology::complete, 8};
  made.reach = 2;
  EXPECT_NE(problem_with(made).find("reach of 2 hops"), std::string::npos);
}

TEST(Neighbourhood, SurvivorsOfAReachThatNobodyHasAnyMoreAreConnected) {
  Neighbourhood made{GossipTopology::hypercube, 16};
  made.reach = 2;
  const Neighbourhood smaller = mended(made, 15);
  EXPECT_EQ(problem_with(smaller), "");
  EXPECT_EQ(smaller.reach, 1);
  EXPECT_GE(neighbours_of(smaller, 0).size(), 8u);  // 4 + 6 before
  EXPECT_EQ(mended({GossipTopology::ring, 16, 2, 4, 1, 3}, 15).reach, 3);
}

// By power iteration: the walk that stays with probability 1/2, of errors that sum up to 0 where all degrees are the
// same.
double second_eigenvalue_by_iteration(const Neighbourhood& made) {
  const auto n = static_cast<std::size_t>(made.ranks);
  std::vector<std::vector<Rank>> next;
  for (Rank rank = 0; rank < made.ranks; ++rank) next.push_back(neighbours_of(made, rank));
  double degrees = 0;
  for (const auto& each : next) degrees += static_cast<double>(each.size());
  Random random(1);
  Row error(n);
  for (double& each : error) each = random.fraction();
  double shrinks = 1;
  for (int i = 0; i < 3000; ++i) {
    double mean = 0, size = 0;  // by degree: what the walk keeps
    for (std::size_t rank = 0; rank < n; ++rank) mean += error[rank] * static_cast<double>(next[rank].size()) / degrees;
    for (double& each : error) each -= mean;
    for (double each : error) size += each * each;
    for (double& each : error) each /= std::sqrt(size);
    Row after(n);
    for (std::size_t rank = 0; rank < n; ++rank) {
      for (Rank other : next[rank]) after[rank] += error[static_cast<std::size_t>(other)];
      after[rank] = error[rank] / 2 + after[rank] / static_cast<double>(next[rank].size()) / 2;
    }
    shrinks = 0;
    for (double each : after) shrinks += each * each;
    shrinks = std::sqrt(shrinks);
    error = after;
  }
  return shrinks;
}

// Casas et al., section 5.2: a topology of more hops has a larger spectral gap.
TEST(SecondEigenvalue, WithAReachIsThatOfTheWalk) {
  for (GossipTopology topology : {GossipTopology::ring, GossipTopology::torus_2d, GossipTopology::torus_3d,
                                  GossipTopology::hypercube, GossipTopology::bus})
    for (double before = 1; int reach : {1, 2, 3}) {
      const Neighbourhood made{topology, 64, 2, 4, 1, reach};
      const double found = second_eigenvalue_by_iteration(made);
      const double off = topology == GossipTopology::bus ? 0.05 : 1e-6;  // its ends are not like the middle
      EXPECT_NEAR((1 - second_eigenvalue(made)) / (1 - found), 1, off)
          << gossip_topology_name(topology) << " " << reach;
      EXPECT_LT(found, before);
      before = found;
    }
}

// Trees and random graphs: a bound and an estimate, neither of which promises more than there is.
TEST(SecondEigenvalue, WithAReachElsewhereIsNoSmallerThanThatOfTheWalk) {
  for (GossipTopology topology : {GossipTopology::tree, GossipTopology::random_regular})
    for (Rank ranks : {32, 64, 128})
      for (int degree : {2, 4, 6})  // of the tree: its arity
        for (int reach : {2, 3}) {
          const Neighbourhood made{topology, ranks, degree, degree, 1, reach};
          EXPECT_GE(second_eigenvalue(made) + 1e-6, second_eigenvalue_by_iteration(made))
              << gossip_topology_name(topology) << " " << ranks << " degree " << degree << " reach " << reach;
        }
}

// ---- acceleration

TEST(Preference, ChancesFollowTheDistance) {
  GossipPreference<double> preference(4, 1);
  const auto learn = [&](int link, double thought) {
    preference.before()[0] = preference.before()[1] = 0;
    preference.after()[0] = thought / 2;
    preference.after()[1] = 0.5;
    preference.learn(link);
  };
  learn(0, 14);
  learn(1, 8);
  learn(2, 10);  // of 3 nothing is known
  const Row mine{10};
  const std::vector<int> links{0, 1, 2, 3};
  std::vector<int> chosen(4, 0);
  Random random(5);
  constexpr int draws = 100000;
  for (int i = 0; i < draws; ++i) ++chosen[static_cast<std::size_t>(preference.choose(links, mine, random))];
  const double chance[] = {1.1, 0.35, 0.1, 1.1};
  for (std::size_t link = 0; link < 4; ++link)
    EXPECT_NEAR(chosen[link], draws * chance[link] / 2.65, 4 * std::sqrt(draws * chance[link] / 2.65)) << link;
}

TEST(Preference, WhatBringsNoWeightOrNoNumberTellsNothing) {
  GossipPreference<double> preference(2, 1);
  const std::vector<int> links{0, 1};
  const Row mine{0};
  const auto learn = [&](int link, double value, double weight) {
    preference.before()[0] = preference.before()[1] = 0;
    preference.after()[0] = value;
    preference.after()[1] = weight;
    preference.learn(link);
  };
  const auto share_of_first = [&] {
    int first = 0;
    Random random(7);
    for (int i = 0; i < 10000; ++i) first += preference.choose(links, mine, random) == 0;
    return first;
  };
  learn(0, 1, 1);
  EXPECT_NEAR(share_of_first(), 5000, 300);  // the other is unknown: as likely
  learn(1, 0, 1);
  EXPECT_NEAR(share_of_first(), 10000 * 1.1 / 1.2, 300);
  learn(1, 100, 0);
  learn(1, 100, -1);
  learn(1, std::numeric_limits<double>::quiet_NaN(), 1);
  learn(1, std::numeric_limits<double>::infinity(), 1);
  EXPECT_NEAR(share_of_first(), 10000 * 1.1 / 1.2, 300);
}

TEST(Preference, OfAVectorTheLargestDistanceCounts) {
  GossipPreference<double> preference(2, 2);
  const auto learn = [&](int link, double x, double y) {
    preference.before()[0] = preference.before()[1] = preference.before()[2] = 0;
    preference.after()[0] = x;
    preference.after()[1] = y;
    preference.after()[2] = 1;
    preference.learn(link);
  };
  learn(0, 0, 3);
  learn(1, 2, 2);
  int first = 0;
  Random random(7);
  const std::vector<int> links{0, 1};
  const Row mine{0, 0};
  for (int i = 0; i < 10000; ++i) first += preference.choose(links, mine, random) == 0;
  EXPECT_NEAR(first, 10000 * 1.1 / (1.1 + 0.1 + 4.0 / 9), 300);
}

// Whatever the rule, a message tells what its sender thought: rank 1 of a bus hears 4 of rank 0, and 1, as it thinks
// itself, of rank 2.
TEST(Preference, IsLearnedFromMessagesOfEveryRule) {
  for (GossipAlgorithm algorithm :
       {GossipAlgorithm::push_sum, GossipAlgorithm::push_flow, GossipAlgorithm::pflc, GossipAlgorithm::pfcc,
        GossipAlgorithm::pcf, GossipAlgorithm::pcf_flip, GossipAlgorithm::pcf_printed}) {
    GossipPlan plan;
    plan.algorithm = algorithm;
    plan.neighbourhood = {GossipTopology::bus, 3};
    plan.tau = 1e-9;
    plan.accelerated = true;
    EXPECT_EQ(problem_with(plan), "");
    std::vector<GossipRank<double>> ranks;
    for (double value : {4.0, 2.0, 3.0}) ranks.emplace_back(plan, static_cast<Rank>(ranks.size()), Row{value}, 1.0);
    const auto push_to_the_middle = [&](int from) {
      GossipOutbox<double> out, answers;
      ranks[static_cast<std::size_t>(from)].push(0, out);
      const auto& send = out.sends().front();
      ranks[1].on_message({ranks[1].link_of(from), send.era, send.ack, out.row(send)}, answers);
    };
    const auto chooses_first = [&] {
      int first = 0;
      for (std::uint64_t i = 0; i < 10000; ++i) first += ranks[1].choose(1, 1, i) == 0;
      return first;
    };
    EXPECT_NEAR(chooses_first(), 5000, 300) << gossip_algorithm_name(algorithm);
    push_to_the_middle(0);  // half of 4, weight 1/2
    push_to_the_middle(2);
    Row now(1);
    ASSERT_TRUE(ranks[1].estimate(now));
    EXPECT_DOUBLE_EQ(now[0], 5.5 / 2);  // 4 is 1.25 away, 3 is 0.25
    EXPECT_NEAR(chooses_first(), 10000 * 1.1 / (1.1 + 0.1 + 0.04), 300) << gossip_algorithm_name(algorithm);
  }
}

TEST(Preference, IsNotForTheDead) {
  GossipPlan plan;
  plan.algorithm = GossipAlgorithm::push_flow;
  plan.neighbourhood = {GossipTopology::ring, 5};
  plan.accelerated = true;
  GossipRank<double> rank(plan, 1, Row{1}, 1);
  rank.on_failure(0);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(rank.choose(1, 1, i), 1);
  rank.on_failure(1);
  EXPECT_EQ(rank.choose(1, 1, 0), -1);
}

TEST(Plan, AccelerationNeedsAChoice) {
  GossipPlan plan;
  plan.accelerated = true;
  plan.neighbourhood = {GossipTopology::complete, 8};
  EXPECT_NE(problem_with(plan).find("complete"), std::string::npos);
  plan.algorithm = GossipAlgorithm::hps;
  EXPECT_NE(problem_with(plan).find("hps"), std::string::npos);
}

}  // namespace
}  // namespace ucft::detail
