// What Casas, Gansterer, Wimmer 2018 say of the number of iterations (section 5.1: acceleration) and of the cost of one
// (5.2: hops).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulator/gossip_run.hpp"

namespace ucft::detail::simulator {
namespace {

GossipRun run_of(GossipAlgorithm algorithm, const Neighbourhood& neighbourhood, double eps) {
  GossipRun run;
  run.plan.algorithm = algorithm;
  run.plan.neighbourhood = neighbourhood;
  run.plan.tau = algorithm == GossipAlgorithm::pflc ? 0.5 : 1e-10;
  run.eps = eps;
  return run;
}

struct Medians {
  double rounds, messages, hops;
};
Medians medians_of(GossipRun run, int runs) {
  std::vector<double> all[3];
  for (int number = 1; number <= runs; ++number) {
    run.seed = run.plan.seed = static_cast<std::uint64_t>(number);
    const GossipResult result = simulate(run);
    EXPECT_TRUE(result.reached);
    all[0].push_back(result.rounds);
    all[1].push_back(static_cast<double>(result.messages));
    all[2].push_back(static_cast<double>(result.hops));
  }
  for (auto& each : all) std::sort(each.begin(), each.end());
  const auto middle = static_cast<std::size_t>(runs / 2);
  return {all[0][middle], all[1][middle], all[2][middle]};
}

// "The convergence speed of gossip-based algorithms can be improved using various acceleration strategies" (5.1): on
// weakly connected networks, without any additional communication cost (Janecek, Gansterer 2016).
TEST(Acceleration, ConvergesInFewerRoundsAndMessagesWhereRanksAreFarApart) {
  for (const Neighbourhood& where :
       {Neighbourhood{GossipTopology::bus, 16}, Neighbourhood{GossipTopology::ring, 32},
        Neighbourhood{GossipTopology::tree, 31}, Neighbourhood{GossipTopology::torus_2d, 256}})
    for (GossipAlgorithm algorithm : {GossipAlgorithm::push_sum, GossipAlgorithm::push_flow, GossipAlgorithm::pflc,
                                      GossipAlgorithm::pfcc, GossipAlgorithm::pcf, GossipAlgorithm::pcf_flip}) {
      GossipRun run = run_of(algorithm, where, 1e-6);
      const Medians plain = medians_of(run, 5);
      run.plan.accelerated = true;
      const Medians accelerated = medians_of(run, 5);
      EXPECT_LT(accelerated.rounds, 0.9 * plain.rounds)
          << gossip_algorithm_name(algorithm) << " " << gossip_topology_name(where.topology);
      EXPECT_LT(accelerated.messages, 0.9 * plain.messages);
    }
}

// Whom a rank chooses changes nothing in what flows make good for.
TEST(Acceleration, LossesAndDeathsAreMadeGoodForAsBefore) {
  for (GossipAlgorithm algorithm : {GossipAlgorithm::push_flow, GossipAlgorithm::pflc, GossipAlgorithm::pfcc}) {
    GossipRun run = run_of(algorithm, {GossipTopology::torus_2d, 36}, 1e-9);
    run.plan.accelerated = true;
    run.faults.loss = 0.1;
    run.faults.deaths = {{7, 20}};
    run.rounds = 4000;
    const GossipResult result = simulate(run);
    EXPECT_TRUE(result.reached) << gossip_algorithm_name(algorithm) << ": " << result.error;
    EXPECT_GT(result.lost, 0);
    EXPECT_GT(result.error_all, 1e-4);  // the survivors' mean, that is, not that of all
  }
}

// "The communication cost per iteration can be made independent of the physical topology by restricting all the
// communication to single-hop communication."
TEST(Hops, OfNeighboursAreOne) {
  for (GossipTopology topology : {GossipTopology::torus_2d, GossipTopology::hypercube, GossipTopology::tree}) {
    GossipRun run = run_of(GossipAlgorithm::push_flow, {topology, 64}, 1e-3);
    run.physical = run.plan.neighbourhood;
    const GossipResult result = simulate(run);
    EXPECT_EQ(result.hops, result.messages);
    EXPECT_EQ(result.longest_way, 1);
  }
}

// "The maximum number of hops between any two communicating processes can be as large as the diameter": 2^k in round k.
TEST(Hops, OfRecursiveDoublingHangOnTheMachine) {
  GossipRun run = run_of(GossipAlgorithm::recursive_doubling, {GossipTopology::complete, 64}, 1e-15);
  run.all_rounds = true;
  run.physical = Neighbourhood{GossipTopology::ring, 64};
  GossipResult result = simulate(run);
  EXPECT_EQ(result.hops, 64 * (1 + 2 + 4 + 8 + 16 + 32));
  EXPECT_EQ(result.longest_way, 32);
  run.physical = Neighbourhood{GossipTopology::torus_2d, 64};
  result = simulate(run);
  EXPECT_EQ(result.hops, 64 * 2 * (1 + 2 + 4));
  EXPECT_EQ(result.longest_way, 4);
  run.physical = Neighbourhood{GossipTopology::hypercube, 64};
  result = simulate(run);
  EXPECT_EQ(result.hops, result.messages);
}

// Gossip "supports a trade-off between number of iterations and cost per iteration via the choice of the communication
// topology".
TEST(Hops, MoreOfThemMakeFewerIterations) {
  double rounds = 1e9, each = 0;
  for (int reach : {1, 2, 4, 8}) {
    GossipRun run = run_of(GossipAlgorithm::push_sum, {GossipTopology::torus_2d, 256, 2, 4, 1, reach}, 1e-4);
    run.physical = Neighbourhood{GossipTopology::torus_2d, 256};
    run.lock_step = true;
    EXPECT_EQ(simulate(run).longest_way, reach);
    const Medians now = medians_of(run, 3);
    EXPECT_LT(now.rounds, 0.7 * rounds) << reach;
    EXPECT_GT(now.hops / now.messages, each) << reach;
    rounds = now.rounds;
    each = now.hops / now.messages;
  }
}

// Dimakis, Sarwate, Wainwright 2008 (cited in 5.1): messages that are routed to ranks anywhere take fewer hops in all
// than those to the next ranks, and on a ring by a factor that grows as n.
TEST(Hops, RoutedToAnyRankAreFewerInAllThanToTheNext) {
  const auto gain = [](Rank ranks) {
    const auto hops_on = [&](GossipTopology topology) {
      GossipRun run = run_of(GossipAlgorithm::push_sum, {topology, ranks}, 1e-3);
      run.physical = Neighbourhood{GossipTopology::ring, ranks};
      run.lock_step = true;
      return medians_of(run, 5).hops;
    };
    return hops_on(GossipTopology::ring) / hops_on(GossipTopology::complete);
  };
  const double few = gain(32), many = gain(128);
  EXPECT_GT(few, 1);
  EXPECT_GT(many, 2.5 * few);
}

TEST(Hops, EachOfThemTakesItsTime) {
  GossipRun run = run_of(GossipAlgorithm::pcf, {GossipTopology::hypercube, 64}, 1e-6);
  run.physical = Neighbourhood{GossipTopology::hypercube, 64};
  const double next = medians_of(run, 5).rounds;
  run.physical.reset();
  EXPECT_EQ(medians_of(run, 5).rounds, next);
  run.physical = Neighbourhood{GossipTopology::bus, 64};  // 32 hops for the highest bit
  EXPECT_GT(medians_of(run, 5).rounds, 1.5 * next);
}

TEST(Hops, AreCountedOfEveryRanksObject) {
  GossipRun run = run_of(GossipAlgorithm::hps, {GossipTopology::complete, 256}, 1e-3);
  EXPECT_TRUE(can_run_large(run));
  run.physical = Neighbourhood{GossipTopology::ring, 256};
  EXPECT_FALSE(can_run_large(run));
  const GossipResult result = simulate(run);
  EXPECT_NEAR(static_cast<double>(result.hops) / static_cast<double>(result.messages), 64, 5);  // of a ring a quarter
  run.physical->topology = GossipTopology::torus_3d;
  run.physical->ranks = 7;
  EXPECT_NE(problem_with(run).find("physical"), std::string::npos);
}

}  // namespace
}  // namespace ucft::detail::simulator
