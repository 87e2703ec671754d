// Gossip under simulated time: what the papers say of convergence, faults and accuracy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulator/gossip_run.hpp"

namespace ucft::detail::simulator {
namespace {

#ifdef UCFT_SMALL  // sanitizers
const std::vector<Rank> sizes = {2, 16};
constexpr int soak = 60, bit_step = 7;
#else
const std::vector<Rank> sizes = {2, 16, 64};
constexpr int soak = 300, bit_step = 1;
#endif

GossipRun run_of(GossipAlgorithm algorithm, GossipTopology topology, Rank ranks, double eps, std::uint64_t seed = 1) {
  GossipRun run;
  run.plan.algorithm = algorithm;
  run.plan.neighbourhood = {topology, ranks};
  run.plan.tau = algorithm == GossipAlgorithm::pflc ? 0.5 : 1e-10;
  run.eps = eps;
  run.seed = run.plan.seed = seed;
  return run;
}

std::vector<GossipAlgorithm> all_of(bool (*wanted)(GossipAlgorithm)) {
  std::vector<GossipAlgorithm> found;
  for (int each = 0; each < gossip_algorithm_count; ++each)
    if (wanted(static_cast<GossipAlgorithm>(each))) found.push_back(static_cast<GossipAlgorithm>(each));
  return found;
}
const auto asynchronous = [](GossipAlgorithm each) { return !goes_by_rounds(each); };
const auto repairs_losses = [](GossipAlgorithm each) {
  return !goes_by_rounds(each) && uses_flows(each) && each != GossipAlgorithm::pcf_printed;
};

double median_rounds(GossipRun run, int runs) {
  std::vector<double> rounds;
  for (int number = 1; number <= runs; ++number) {
    run.seed = run.plan.seed = static_cast<std::uint64_t>(number);
    const GossipResult result = simulate(run);
    EXPECT_TRUE(result.reached);
    rounds.push_back(result.rounds);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

// Reference: an independent simulation, to which the medians must agree within sampling error.
TEST(Rounds, HpsNeedsAsManyAsTheReference) {
  const std::pair<double, double> small[] = {{1e-2, 15}, {1e-4, 29}, {1e-6, 42}, {1e-14, 95}};
  for (const auto& [eps, rounds] : small)
    EXPECT_NEAR(median_rounds(run_of(GossipAlgorithm::hps, GossipTopology::complete, 1 << 10, eps), 25), rounds, 1)
        << eps;
  LargeRun large;
  large.ranks = 1 << 17;
  large.single_precision = false;
  large.eps = {1e-2, 1e-4, 1e-6, 1e-14};
  std::vector<std::vector<int>> all(4);
  for (large.seed = 1; large.seed <= 5; ++large.seed) {
    const LargeResult result = simulate_large(large);
    for (std::size_t i = 0; i < 4; ++i) all[i].push_back(result.rounds[i]);
  }
  const int expected[] = {16, 30, 43, 99};
  for (std::size_t i = 0; i < 4; ++i) {
    std::sort(all[i].begin(), all[i].end());
    EXPECT_NEAR(all[i][2], expected[i], i == 3 ? 3 : 1);  // at 1e-14 rounding has its say
  }
}

TEST(Rounds, ThreadsAndStorageChangeNothing) {
  for (Rank ranks : {2, 3, 17, 1000, 4096, 20000}) {
    LargeRun large;
    large.ranks = ranks;
    large.eps = {1e-5};
    large.seed = 7;
    const LargeResult one = simulate_large(large);
    large.threads = 3;
    EXPECT_EQ(simulate_large(large).history, one.history) << ranks;
    GossipRun run = run_of(GossipAlgorithm::hps, GossipTopology::complete, ranks, 1e-5, 7);
    run.single_precision = run.keeps_history = true;
    const GossipResult objects = simulate(run);
    ASSERT_EQ(objects.history.size(), one.history.size()) << ranks;
    for (std::size_t i = 0; i < one.history.size(); ++i)
      EXPECT_NEAR(objects.history[i], one.history[i], 1e-15);  // the true mean is rounded elsewhere
  }
}

TEST(Rounds, ArdbOfBlocksIsArdbOfRanks) {
  for (Rank ranks : {2, 64, 1024})
    for (double eps : {0.5, 0.1, 0.01}) {
      LargeRun large;
      large.algorithm = GossipAlgorithm::ardb;
      large.ranks = ranks;
      large.eps = {eps};
      large.seed = 5;
      GossipRun run = run_of(GossipAlgorithm::ardb, GossipTopology::complete, ranks, eps, 5);
      run.single_precision = true;
      EXPECT_EQ(simulate_large(large).rounds[0], simulate(run).rounds) << ranks << " " << eps;
    }
}

TEST(Rounds, TheSameSeedGivesTheSameBits) {
  for (GossipAlgorithm algorithm : all_of(asynchronous)) {
    GossipRun run = run_of(algorithm, GossipTopology::hypercube, 16, 1e-9);
    run.faults.loss = 0.05;
    run.keeps_history = true;
    run.rounds = 150;
    EXPECT_EQ(simulate(run).history, simulate(run).history) << gossip_algorithm_name(algorithm);
  }
}

TEST(Rounds, OneRankByRoundsHasNoneToMake) {
  for (GossipAlgorithm algorithm : all_of(goes_by_rounds)) {
    GossipRun run = run_of(algorithm, GossipTopology::complete, 1, 1e-9);
    run.rounds = 5;
    run.all_rounds = true;
    const GossipResult result = simulate(run);
    EXPECT_EQ(result.rounds, 0) << gossip_algorithm_name(algorithm);
    EXPECT_TRUE(result.reached);
  }
}

// Casas et al., section 4.4.1: without faults all forms of Push-Flow show exactly the same results.
TEST(Rounds, TheFormsOfPushFlowAreOneWithoutFaults) {
  GossipRun run = run_of(GossipAlgorithm::push_flow, GossipTopology::hypercube, 32, 1e-12);
  run.keeps_history = true;
  const std::vector<double> history = simulate(run).history;
  for (GossipAlgorithm algorithm : {GossipAlgorithm::pflc, GossipAlgorithm::pfcc}) {
    run.plan.algorithm = algorithm;
    run.plan.tau = 1e-10;
    EXPECT_EQ(simulate(run).history, history);
  }
}

TEST(Rounds, EveryAlgorithmConvergesEverywhere) {
  for (GossipAlgorithm algorithm : all_of(asynchronous))
    for (int topology = 0; topology < gossip_topology_count; ++topology)
      for (bool single : {false, true})
        for (int values : {1, 3}) {
          GossipRun run = run_of(algorithm, static_cast<GossipTopology>(topology), 16, single ? 1e-4 : 1e-9, 3);
          run.single_precision = single;
          run.values = values;
          if (single) run.plan.tau = 1e-4;
          if (algorithm == GossipAlgorithm::pcf_printed) run.delay = 0.01;  // it can't stand messages that cross
          const GossipResult result = simulate(run);
          EXPECT_TRUE(result.reached) << gossip_algorithm_name(algorithm) << " " << topology << " single " << single
                                      << " values " << values << ": " << result.error;
          EXPECT_EQ(result.not_a_number, 0);
        }
}

TEST(Faults, FlowsMakeGoodForLostMessagesAndPushSumDoesNot) {
  for (GossipAlgorithm algorithm : all_of(repairs_losses))
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      GossipRun run = run_of(algorithm, GossipTopology::hypercube, 32, 1e-10, seed);
      run.faults.loss = 0.2;
      run.rounds = 2000;
      const GossipResult result = simulate(run);
      EXPECT_TRUE(result.reached) << gossip_algorithm_name(algorithm) << " " << result.error;
      EXPECT_GT(result.lost, 100);
    }
  GossipRun run = run_of(GossipAlgorithm::push_sum, GossipTopology::hypercube, 32, 1e-10);
  run.faults.loss = 0.02;
  run.rounds = 500;
  EXPECT_GT(simulate(run).error, 1e-6);
}

// The assertion itself is in the simulator; here, that it is asked: with losses, too, and with messages that cross.
TEST(Invariants, FlowsAreComparedAfterEventsInDebugBuilds) {
  for (GossipAlgorithm algorithm : {GossipAlgorithm::push_flow, GossipAlgorithm::pflc, GossipAlgorithm::pfcc})
    for (double loss : {0.0, 0.2}) {
      GossipRun run = run_of(algorithm, GossipTopology::hypercube, 16, 1e-6);
      run.faults.loss = loss;
      const GossipResult result = simulate(run);
      EXPECT_TRUE(result.reached);
      if (checks_events())
        EXPECT_GT(result.checked_flows, result.messages / 4);
      else
        EXPECT_EQ(result.checked_flows, 0);
    }
}

// Which question is answered after a death (answer_after_death).
TEST(Faults, AfterADeathFlowsAnswerForTheSurvivorsAndCancelledFlowsForAll) {
  for (GossipAlgorithm algorithm :
       {GossipAlgorithm::push_flow, GossipAlgorithm::pflc, GossipAlgorithm::pfcc, GossipAlgorithm::pcf,
        GossipAlgorithm::pcf_flip, GossipAlgorithm::hpflc, GossipAlgorithm::hpfcc}) {
    GossipRun run = run_of(algorithm, GossipTopology::hypercube, 64, 1e-9);
    const bool rounds = goes_by_rounds(algorithm);
    run.faults.deaths = {{5, rounds ? 40.0 : 400.0}};
    run.faults.detection_delay = 3;
    run.rounds = rounds ? 200 : 1500;
    run.all_rounds = true;
    const GossipResult result = simulate(run);
    if (answer_after_death(algorithm) == GossipAnswer::survivors) {
      EXPECT_LT(result.error_survivors, 1e-9) << gossip_algorithm_name(algorithm);
      EXPECT_GT(result.error_all, 1e-6);
    } else {
      EXPECT_LT(result.error_all, 1e-9) << gossip_algorithm_name(algorithm);
      EXPECT_GT(result.error_survivors, 1e-6);
    }
  }
}

// Niederbrucker et al., Figures 4 and 7: a link fails at iteration 175 on a 6-D hypercube.
TEST(Faults, PushFlowFallsBackWhenALinkFailsAndPushCancelFlowDoesNot) {
  const auto worst_after = [](GossipAlgorithm algorithm, std::uint64_t seed) {
    GossipRun run = run_of(algorithm, GossipTopology::hypercube, 64, 1e-14, seed);
    run.faults.links = {{0, 1, 175.5}};
    run.rounds = 200;
    run.all_rounds = run.keeps_history = true;
    const GossipResult result = simulate(run);
    return std::pair{result.history[175], *std::max_element(result.history.begin() + 176, result.history.end())};
  };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto [pf_before, pf_after] = worst_after(GossipAlgorithm::push_flow, seed);
    const auto [pcf_before, pcf_after] = worst_after(GossipAlgorithm::pcf, seed);
    EXPECT_GT(pf_after, 1e-3) << seed;
    EXPECT_GT(pf_after, 1e4 * pf_before) << seed;
    EXPECT_LT(pcf_after, 100 * pcf_before) << seed;
  }
}

// Casas et al., Figure 2.
TEST(Faults, ChecksumsRepairEveryBitOfAFlow) {
  for (GossipAlgorithm algorithm : {GossipAlgorithm::pflc, GossipAlgorithm::pfcc, GossipAlgorithm::pcf_flip})
    for (FlipTarget target : {FlipTarget::flow, FlipTarget::message})
      for (int bit = 0; bit < 64; bit += bit_step) {
        GossipRun run = run_of(algorithm, GossipTopology::hypercube, 32, 1e-12, static_cast<std::uint64_t>(bit) + 1);
        run.plan.tau = 1e-11;
        run.faults.target = target;
        run.faults.flips = {{150.5, no_rank, bit}};
        run.rounds = 600;
        const GossipResult result = simulate(run);
        EXPECT_TRUE(result.reached) << gossip_algorithm_name(algorithm) << " bit " << bit << ": " << result.error;
      }
}

TEST(Faults, WithoutThemPushFlowStaysWrongAfterAFlipHighInTheExponent) {
  double worst_flow = 0, worst_sum = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    GossipRun run = run_of(GossipAlgorithm::push_flow, GossipTopology::hypercube, 32, 1e-14, seed);
    run.faults.flips = {{150.5, no_rank, 60}};
    run.rounds = 500;
    worst_flow = std::max(worst_flow, simulate(run).error);
    run.plan.algorithm = GossipAlgorithm::push_sum;
    run.faults.flips = {{50.5, no_rank, 51}};
    worst_sum = std::max(worst_sum, simulate(run).error);
  }
  EXPECT_GT(worst_flow, 1e-9);
  EXPECT_GT(worst_sum, 1e-4);
}

TEST(Faults, TheFlipTolerantFormRepairsLocalDataToo) {
  for (int bit = 0; bit < 64; bit += 3) {
    GossipRun run = run_of(GossipAlgorithm::pcf_flip, GossipTopology::hypercube, 32, 1e-12, 2);
    run.faults.target = FlipTarget::data;
    run.faults.flips = {{20.5, no_rank, bit}};
    EXPECT_TRUE(simulate(run).reached) << bit;
  }
}

// Casas et al., section 6.3: the error at the root.
TEST(Rounds, MayBeCountedUntilTheRootIsRightAlone) {
  for (GossipAlgorithm algorithm : {GossipAlgorithm::hps, GossipAlgorithm::pcf}) {
    GossipRun run = run_of(algorithm, GossipTopology::complete, 64, 1e-2, 3);
    const GossipResult worst = simulate(run);
    run.root_only = run.keeps_history = run.keeps_estimates = true;
    EXPECT_FALSE(can_run_large(run));
    const GossipResult root = simulate(run);
    EXPECT_TRUE(root.reached);
    EXPECT_LT(root.rounds, worst.rounds) << gossip_algorithm_name(algorithm);
    double truth = 0, furthest = 0;
    for (Rank rank = 0; rank < 64; ++rank) truth += gossip_value(run.data, run.seed, 64, rank, 0) / 64;
    for (double each : root.estimates) furthest = std::max(furthest, std::abs(each / truth - 1));
    EXPECT_NEAR(root.error, std::abs(root.estimates[0] / truth - 1), 1e-12);
    EXPECT_GT(furthest, 1e-2);
    EXPECT_EQ(root.history.back(), root.error);
  }
  GossipRun run = run_of(GossipAlgorithm::hps, GossipTopology::complete, 8, 1e-2);
  run.root_only = true;
  run.faults.deaths = {{0, 3}};
  EXPECT_NE(problem_with(run).find("rank 0 dies"), std::string::npos);
}

// Casas et al., section 6.1, future work. Local correction zeroes a flow, and begins again with the rest. Cooperative
// correction has it back at once.
TEST(Faults, CooperativeCorrectionByRoundsCostsNoRounds) {
  for (FlipTarget target : {FlipTarget::flow, FlipTarget::message})
    for (int bit : {40, 52, 61})
      for (double time : {3, 18, 30}) {
        const auto rounds = [&](GossipAlgorithm algorithm, bool flips) {
          GossipRun run = run_of(algorithm, GossipTopology::complete, 16, 1e-6, 3);
          run.plan.cycles = 16;
          run.plan.tau = 1e-11;
          run.rounds = 200;
          run.faults.target = target;
          if (flips) run.faults.flips = {{time, no_rank, bit}};
          const GossipResult result = simulate(run);
          EXPECT_TRUE(result.reached) << gossip_algorithm_name(algorithm) << " bit " << bit << " at " << time;
          EXPECT_EQ(result.flips, flips);
          return result.rounds;
        };
        EXPECT_EQ(rounds(GossipAlgorithm::hpfcc, true), rounds(GossipAlgorithm::hpfcc, false)) << bit << " at " << time;
        EXPECT_GE(rounds(GossipAlgorithm::hpflc, true), rounds(GossipAlgorithm::hpflc, false)) << bit << " at " << time;
      }
}

// Casas et al., section 4.5.
TEST(Faults, WhatARankGaveIsRepaired) {
  for (GossipAlgorithm algorithm :
       {GossipAlgorithm::pflc, GossipAlgorithm::pfcc, GossipAlgorithm::hpflc, GossipAlgorithm::hpfcc})
    for (int bit = 0; bit < 64; bit += 3) {
      GossipRun run = run_of(algorithm, GossipTopology::hypercube, 32, 1e-12, static_cast<std::uint64_t>(bit) + 1);
      run.plan.tau = 1e-11;
      run.faults.target = FlipTarget::data;
      run.faults.flips = {{20.5, no_rank, bit}};
      run.rounds = 300;
      run.plan.repairs_initial = true;
      const GossipResult result = simulate(run);
      EXPECT_TRUE(result.reached) << gossip_algorithm_name(algorithm) << " bit " << bit << ": " << result.error;
      EXPECT_EQ(result.flips, 1);
      run.plan.repairs_initial = false;
      if (bit >= 27 && bit < 60) {
        EXPECT_FALSE(simulate(run).reached) << gossip_algorithm_name(algorithm) << " bit " << bit;
      }
    }
}

// Niederbrucker et al., Figures 3 and 6: the best that is ever reached.
TEST(Accuracy, PushCancelFlowReachesMachinePrecisionWherePushFlowDoesNot) {
  const auto best_of = [](GossipAlgorithm algorithm, GossipTopology topology, Rank ranks, GossipData data, int rounds) {
    GossipRun run = run_of(algorithm, topology, ranks, 1e-16);
    run.data = data;
    run.rounds = rounds;
    run.all_rounds = true;
    return simulate(run).best;
  };
  const auto compare = [&](GossipTopology topology, Rank ranks, GossipData data, int rounds, double reached,
                           double times) {
    const double pcf = best_of(GossipAlgorithm::pcf, topology, ranks, data, rounds);
    EXPECT_LT(pcf, reached) << gossip_topology_name(topology) << " " << ranks;
    EXPECT_GT(best_of(GossipAlgorithm::push_flow, topology, ranks, data, rounds), times * pcf)
        << gossip_topology_name(topology) << " " << ranks;
  };
  compare(GossipTopology::hypercube, 64, GossipData::uniform, 600, 1e-15, 4);
  compare(GossipTopology::hypercube, 512, GossipData::uniform, 900, 4e-15, 8);
  compare(GossipTopology::torus_3d, 512, GossipData::uniform, 1600, 4e-15, 8);
}

TEST(Stopping, TheModelsRoundsAreEnough) {
  int runs = 0;
  for (int algorithm = 0; algorithm < gossip_algorithm_count; ++algorithm)
    for (int topology = 0; topology < gossip_topology_count; ++topology)
      for (Rank ranks : sizes)
        for (double eps : {1e-2, 1e-9}) {
          GossipRun run = run_of(static_cast<GossipAlgorithm>(algorithm), static_cast<GossipTopology>(topology), ranks,
                                 eps, static_cast<std::uint64_t>(ranks));
          if (goes_by_rounds(run.plan.algorithm) && topology > 0) continue;
          if (run.plan.algorithm == GossipAlgorithm::pcf_printed || !problem_with(run).empty()) continue;
          run.stop = GossipStop::model;
          const GossipResult result = simulate(run);
          ++runs;
          if (result.reached) continue;
          ADD_FAILURE() << gossip_algorithm_name(run.plan.algorithm) << " "
                        << gossip_topology_name(run.plan.neighbourhood.topology) << " " << ranks << " eps " << eps
                        << ": " << result.error << " after " << result.rounds;
        }
  EXPECT_GT(runs, static_cast<int>(sizes.size()) * 80);
}

TEST(Stopping, TheRanksOwnBoundHolds) {
  for (int algorithm = 0; algorithm < gossip_algorithm_count; ++algorithm)
    for (GossipTopology topology : {GossipTopology::complete, GossipTopology::hypercube, GossipTopology::ring})
      for (double eps : {1e-2, 1e-8}) {
        GossipRun run = run_of(static_cast<GossipAlgorithm>(algorithm), topology, 16, eps);
        if ((goes_by_rounds(run.plan.algorithm) && topology != GossipTopology::complete) ||
            run.plan.algorithm == GossipAlgorithm::pcf_printed)
          continue;
        run.stop = GossipStop::adaptive;
        run.check_every = 1;
        const GossipResult result = simulate(run);
        EXPECT_TRUE(result.reached) << gossip_algorithm_name(run.plan.algorithm);
        EXPECT_LE(result.error, std::max(result.bound, eps));
        EXPECT_LE(result.bound, eps);
        // After recursive doubling all ranks have the same sum.
        EXPECT_EQ(result.bound > 0, !goes_by_rounds(run.plan.algorithm) || uses_cycles(run.plan.algorithm));
      }
}

// The last round need not be one in which a look is due.
TEST(Stopping, ARunOfFewRoundsLooksAfterItsLast) {
  for (Rank ranks : {8, 32}) {
    GossipRun run = run_of(GossipAlgorithm::recursive_doubling, GossipTopology::complete, ranks, 1e-9);
    run.stop = GossipStop::adaptive;
    EXPECT_EQ(simulate(run).bound, 0) << "all have the same sum";
  }
  GossipRun run = run_of(GossipAlgorithm::hps, GossipTopology::complete, 16, 1e-9);
  run.stop = GossipStop::adaptive;
  run.rounds = 7;
  const GossipResult result = simulate(run);
  EXPECT_EQ(result.rounds, 7);
  EXPECT_LE(result.error, result.bound);
  EXPECT_LT(result.bound, 1) << "measured";
}

// All faults at once, from seeds: no rank ends with something that is no number, and nobody runs for ever.
TEST(Soak, NoMixOfFaultsGivesWhatIsNoNumber) {
  Random random(2026);
  for (int number = 0; number < soak; ++number) {
    GossipRun run = run_of(static_cast<GossipAlgorithm>(random.below(gossip_algorithm_count)),
                           static_cast<GossipTopology>(random.below(gossip_topology_count)), 16, 1e-9, random.next());
    run.single_precision = random.below(2) == 0;
    if (run.single_precision) run.plan.tau = 1e-4;
    run.values = 1 + static_cast<int>(random.below(3));
    run.rounds = 200;
    run.delay = 2 * random.fraction();
    run.lock_step = random.below(3) == 0;
    run.faults.loss = random.below(2) == 0 ? 0 : 0.3 * random.fraction();
    run.faults.flip_rate = random.below(2) == 0 ? 0 : 0.01;
    run.faults.target = static_cast<FlipTarget>(random.below(3));
    if (run.faults.target == FlipTarget::data && run.plan.algorithm != GossipAlgorithm::pcf_flip)
      run.faults.flip_rate = 0;  // what nobody can repair
    for (std::uint64_t deaths = random.below(4); deaths > 0; --deaths)
      run.faults.deaths.push_back({static_cast<Rank>(random.below(16)), 150 * random.fraction()});
    if (!goes_by_rounds(run.plan.algorithm)) {
      const Rank one = static_cast<Rank>(random.below(16));
      run.faults.links.push_back({one, neighbours_of(run.plan.neighbourhood, one)[0], 100});
    }
    const GossipResult result = simulate(run);
    EXPECT_LE(result.rounds, 200);
    if (!uses_flows(run.plan.algorithm) || run.plan.algorithm == GossipAlgorithm::pcf_printed ||
        run.plan.algorithm == GossipAlgorithm::pcf)
      continue;
    EXPECT_EQ(result.not_a_number, 0) << number << " " << gossip_algorithm_name(run.plan.algorithm);
  }
}

}  // namespace
}  // namespace ucft::detail::simulator
