// Slow ranks and noise under the clock: closed forms, and a dumb reference that adds up a rank's free time.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "collectives/core/random.hpp"
#include "simulator/comparators.hpp"
#include "simulator/gossip_operation_run.hpp"
#include "simulator/slowness.hpp"

namespace ucft::detail::simulator {
namespace {

TEST(Slowness, ARankOfFactorTwoTakesTwiceAsLongAndOthersDoNot) {
  const SlowRank slow[] = {{1, 2}};
  const Slowness slowness(3, slow, {}, 1);
  EXPECT_EQ(slowness.done_at(1, 10, 3), 16);
  EXPECT_EQ(slowness.done_at(0, 10, 3), 13);
  EXPECT_EQ(slowness.done_at(2, 10, 3), 13);
  EXPECT_EQ(slowness.free_at(1, 10), 10);
  EXPECT_TRUE(slowness.is_slow(1));
  EXPECT_FALSE(slowness.is_slow(2));
  EXPECT_EQ(slowness.longest(3), 6);
}

// The moments at which a noisy rank's detours begin, found without asking for its phase.
double first_detour(const Slowness& slowness, Rank rank, const Noise& noise) {
  for (double time = noise.period;; time += noise.period / 64)
    if (const double free = slowness.free_at(rank, time); free != time) return free - noise.duration;
}

TEST(Slowness, AStepThatMeetsADetourEndsSoMuchLater) {
  const Noise noise{10, 4, 5};
  const Slowness slowness(5, {}, noise, 7);
  for (Rank rank = 0; rank < 5; ++rank) {
    const double detour = first_detour(slowness, rank, noise), free = detour + 4;
    EXPECT_NEAR(slowness.done_at(rank, detour - 1, 1), detour, 1e-9);
    EXPECT_NEAR(slowness.done_at(rank, detour - 1, 5), free + 4, 1e-9);
    EXPECT_NEAR(slowness.done_at(rank, free, 6), free + 6, 1e-9);       // up to the next one
    EXPECT_NEAR(slowness.done_at(rank, free, 6.5), free + 10.5, 1e-9);  // through the next one
    EXPECT_NEAR(slowness.done_at(rank, free, 60), free + 96, 1e-9);     // ten free times with nine detours between
    EXPECT_NEAR(slowness.done_at(rank, free, 600.5), free + 1000.5, 1e-9);
    EXPECT_NEAR(slowness.free_at(rank, detour + 1), free, 1e-9);
    EXPECT_EQ(slowness.free_at(rank, detour - 1), detour - 1);
    EXPECT_EQ(slowness.free_at(rank, slowness.free_at(rank, detour)), slowness.free_at(rank, detour));
  }
}

// A dumb reference: the free part of short slices of time is added up until the work is done.
TEST(Slowness, StepsTakeTheFreeTimeThatTheyNeed) {
  Random random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const double period = 1 + 20 * random.fraction(), duration = period * (0.05 + 0.8 * random.fraction());
    const SlowRank slow[] = {{0, 1 + 3 * random.fraction()}};
    const Slowness slowness(1, slow, {period, duration, 1}, static_cast<std::uint64_t>(trial));
    const double begin = slowness.free_at(0, 30 * random.fraction()), work = 20 * random.fraction();
    const double slice = period / 4096;
    double worked = 0, now = begin;
    for (; worked < work * slow[0].factor; now += slice)
      if (slowness.free_at(0, now) == now) worked += slice;
    EXPECT_NEAR(slowness.done_at(0, begin, work), now, 0.01 * (now - begin) + 4 * slice) << trial;
    EXPECT_LE(slowness.done_at(0, begin, work) - begin, slowness.longest(work) + 1e-9) << trial;
  }
}

TEST(Slowness, AnyRanksAreNoisyEachWithAPhaseOfItsOwn) {
  constexpr Rank ranks = 20, noisy = 5;
  std::vector<int> drawn(ranks);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Slowness slowness(ranks, {}, {10, 1, noisy}, seed);
    int count = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      count += slowness.is_noisy(rank);
      drawn[static_cast<std::size_t>(rank)] += slowness.is_noisy(rank);
    }
    ASSERT_EQ(count, noisy) << seed;
  }
  for (int each : drawn) EXPECT_NEAR(each, 500, 100);  // 5 standard deviations
  const Slowness slowness(ranks, {}, {10, 1, ranks}, 1);
  std::vector<double> detours;
  for (Rank rank = 0; rank < ranks; ++rank) detours.push_back(first_detour(slowness, rank, {10, 1, ranks}));
  std::ranges::sort(detours);
  EXPECT_EQ(std::ranges::adjacent_find(detours), detours.end());
}

// ---- under the clock; D = L + 2o

LogGP costs_of(double latency, double overhead, double gap) { return {latency, overhead, overhead, gap, 0, false}; }

CollectiveResult timed(Comparator algorithm, Kind kind, Rank ranks, const LogGP& costs, std::vector<SlowRank> slow,
                       Tree tree = Tree::binomial) {
  const std::unique_ptr<Network> network = make_network({}, costs);
  ComparatorRun run;
  run.algorithm = algorithm;
  run.kind = kind;
  run.shape.tree = tree;
  run.setting.ranks = ranks;
  run.setting.costs = costs;
  run.setting.network = network.get();
  run.setting.slow = std::move(slow);
  return simulate(run);
}

// A slow rank whose overhead F o is D or more has its k-th message F o after the one before, and the first one at
// o + L + F o. Its partner in the last of m rounds gets what it sent after the last but one.
TEST(SlowRanks, RecursiveDoublingOfAPowerOfTwo) {
  for (const LogGP& costs : {costs_of(2, 1, 1), costs_of(1, 0.25, 0.25), costs_of(5, 3, 2)})
    for (int rounds = 2; rounds <= 6; ++rounds)
      for (double factor : {10.0, 100.0}) {
        const double o = costs.send_overhead, arrival = costs.latency + o;
        if (factor * o < costs.delivery()) continue;
        for (Rank slow : {0, 1, (1 << rounds) - 1}) {
          const CollectiveResult result =
              timed(Comparator::recursive_doubling, Kind::allreduce, 1 << rounds, costs, {{slow, factor}});
          EXPECT_DOUBLE_EQ(result.latency, 2 * arrival + rounds * factor * o) << rounds << ' ' << slow;
          EXPECT_DOUBLE_EQ(result.others, result.latency);
          EXPECT_EQ(result.messages, rounds << rounds);
        }
        const CollectiveResult calm = timed(Comparator::recursive_doubling, Kind::allreduce, 1 << rounds, costs, {});
        EXPECT_DOUBLE_EQ(calm.latency, rounds * costs.delivery());
      }
}

// In a chain each rank receives and sends once, but for the first and the last.
TEST(SlowRanks, AChainIsLongerByTheSlowRanksTwoSteps) {
  const LogGP costs = costs_of(2, 1, 1);
  const auto latency = [&](std::vector<SlowRank> slow) {
    return timed(Comparator::tree, Kind::broadcast, 9, costs, std::move(slow), Tree::chain).latency;
  };
  EXPECT_EQ(latency({}), 8 * 4);
  EXPECT_EQ(latency({{0, 10}}), 8 * 4 + 9);
  EXPECT_EQ(latency({{4, 10}}), 8 * 4 + 18);
  EXPECT_EQ(latency({{8, 10}}), 8 * 4 + 9);
  EXPECT_EQ(latency({{8, 1}}), 8 * 4);
  EXPECT_EQ(latency({{2, 10}, {5, 3}}), 8 * 4 + 18 + 4);
}

TEST(SlowRanks, ALeafHoldsUpNoOtherRankOfABroadcast) {
  const CollectiveResult result =
      timed(Comparator::tree, Kind::broadcast, 9, costs_of(2, 1, 1), {{8, 100}}, Tree::flat);
  EXPECT_EQ(result.others, 4 + 6 * 1);  // ranks 1 .. 7, a gap apart
  EXPECT_EQ(result.latency, 4 + 7 + 99);
}

TEST(SlowRanks, TheGapStaysThatOfTheNetwork) {
  // A flat root sends each max(g, F o).
  const auto latency = [](double factor) {
    return timed(Comparator::tree, Kind::broadcast, 5, costs_of(2, 1, 3), {{0, factor}}, Tree::flat).latency;
  };
  EXPECT_EQ(latency(1), 3 * 3 + 4);
  EXPECT_EQ(latency(2), 3 * 3 + 5);
  EXPECT_EQ(latency(4), 3 * 4 + 7);
}

TEST(SlowRanks, OneProcessorIsSlowForBoth) {
  LogGP costs = costs_of(0, 1, 0);
  costs.one_processor = true;
  // The root of 3 sends twice; rank 1 answers. As the children's answers come, the root receives them one by one.
  const auto latency = [&](std::vector<SlowRank> slow) {
    return timed(Comparator::acknowledged_tree, Kind::broadcast, 3, costs, std::move(slow), Tree::flat).latency;
  };
  EXPECT_EQ(latency({}), 5);
  EXPECT_EQ(latency({{0, 10}}), 40);
  // Rank 0 takes 10 for each step. Before it sends its second message, from 30 to 40, it receives its second one.
  LogGP apart = costs;
  apart.latency = 2;
  EXPECT_EQ(timed(Comparator::recursive_doubling, Kind::allreduce, 4, apart, {{0, 10}}).latency, 43);
  costs.one_processor = apart.one_processor = false;
  EXPECT_EQ(timed(Comparator::recursive_doubling, Kind::allreduce, 4, apart, {{0, 10}}).latency, 26);
  EXPECT_EQ(latency({{0, 10}}), 32);  // the first answer comes at 12, while the second message leaves
}

// ---- noise under the clock

TEST(Noise, ABroadcastToOneRankMeetsItsTwoRanksDetours) {
  const LogGP costs = costs_of(2, 1, 1);
  const std::unique_ptr<Network> network = make_network({}, costs);
  const Noise noise{8, 5, 2};
  bool differ = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ComparatorRun run;
    run.kind = Kind::broadcast;
    run.setting.ranks = 2;
    run.setting.costs = costs;
    run.setting.network = network.get();
    run.setting.noise = noise;
    run.setting.seed = seed;
    const Slowness slowness(2, {}, noise, seed);
    const double sent = slowness.done_at(0, slowness.free_at(0, 0), 1);
    const double received = slowness.done_at(1, slowness.free_at(1, sent + 2), 1);
    EXPECT_DOUBLE_EQ(simulate(run).latency, received) << seed;
    differ |= received > 4;
  }
  EXPECT_TRUE(differ);
}

TEST(Noise, NoRankActsInItsDetour) {
  struct Watcher : Tracer {
    void send(Rank from, double begin, double end, const Message&, std::uint64_t) override { look(from, begin, end); }
    void receive(Rank to, double begin, double end, const Message&, std::uint64_t) override { look(to, begin, end); }
    void finish(Rank, double) override {}
    void die(Rank, double) override {}
    void detect(Rank, double) override {}
    void look(Rank rank, double begin, double end) {
      ++steps;
      outside += slowness->free_at(rank, begin) == begin && slowness->done_at(rank, begin, 1) == end;
    }
    const Slowness* slowness = nullptr;
    int steps = 0, outside = 0;
  };
  const LogGP costs = costs_of(2, 1, 2.5);  // ports get free in detours, too
  const std::unique_ptr<Network> network = make_network({}, costs);
  CollectiveRun run;
  run.arguments.kind = Kind::allreduce;
  run.arguments.f = 1;
  run.setting.ranks = 33;
  run.setting.costs = costs;
  run.setting.network = network.get();
  run.setting.noise = {6, 2.5, 20};
  run.setting.slow = {{3, 2}};
  const Slowness slowness(33, run.setting.slow, run.setting.noise, run.setting.seed);
  Watcher watcher;
  watcher.slowness = &slowness;
  const CollectiveResult result = simulate(run, &watcher);
  EXPECT_EQ(result.wrong, 0);
  EXPECT_EQ(result.missed, 0);
  EXPECT_EQ(watcher.steps, 2 * result.messages);
  EXPECT_EQ(watcher.outside, watcher.steps);
}

// ---- gossip

struct Gossip {
  explicit Gossip(GossipAlgorithm algorithm) {
    run.setting.ranks = 16;
    run.setting.costs = network_costs;
    run.call.plan.algorithm = algorithm;
    run.call.plan.neighbourhood.ranks = 16;
    if (!goes_by_rounds(algorithm)) run.call.plan.neighbourhood.topology = GossipTopology::hypercube;
    run.call.eps = 1e-6;
    run.call.adaptive = true;
    run.call.count = 2;
    run.call.iterations = rounds_for(run.call.plan, run.call.eps);
  }
  GossipOperationResult result() {
    const std::unique_ptr<Network> network = make_network({}, run.setting.costs);
    run.setting.network = network.get();
    return simulate(run);
  }
  GossipOperationRun run;
};

constexpr GossipAlgorithm algorithms[] = {GossipAlgorithm::push_sum,
                                          GossipAlgorithm::push_flow,
                                          GossipAlgorithm::pfcc,
                                          GossipAlgorithm::pcf,
                                          GossipAlgorithm::hps,
                                          GossipAlgorithm::ardb,
                                          GossipAlgorithm::recursive_doubling};

TEST(SlowRanks, AFactorOfOneChangesNothing) {
  for (GossipAlgorithm algorithm : algorithms) {
    Gossip plain(algorithm), one(algorithm);
    one.run.setting.slow = {{3, 1}};
    const GossipOperationResult a = plain.result(), b = one.result();
    EXPECT_EQ(a.latency, b.latency);
    EXPECT_EQ(a.within_eps.last, b.within_eps.last);
    EXPECT_EQ(a.events, b.events);
  }
}

TEST(SlowRanks, GossipEndsWithTheSameOnAll) {
  for (GossipAlgorithm algorithm : algorithms)
    for (bool sum : {false, true})
      for (double factor : {2.0, 100.0}) {
        Gossip gossip(algorithm);
        gossip.run.call.sum = sum;
        gossip.run.setting.slow = {{3, factor}};
        gossip.run.setting.noise = {200, 20, 4};
        const GossipOperationResult result = gossip.result(), again = gossip.result();
        const char* name = gossip_algorithm_name(algorithm);
        EXPECT_EQ(result.end, GossipEnd::success) << name;
        EXPECT_TRUE(result.reached) << name;
        EXPECT_EQ(result.wrong, 0) << name;
        EXPECT_LE(result.error, result.bound) << name;
        EXPECT_EQ(result.latency, again.latency) << name;
        // A rank's own estimate is there before all have agreed on it.
        EXPECT_LT(result.within_eps.last, result.others) << name;
        EXPECT_LE(result.within_eps.first, result.within_eps.median) << name;
        EXPECT_LE(result.within_eps.median, result.within_eps.last) << name;
        EXPECT_LE(result.without_slow.first, result.within_eps.first) << name;
        EXPECT_LT(result.within_eps_slow, result.latency) << name;
      }
}

// Before the slow rank's first row has come, the others can know the aggregate of the others at best.
TEST(SlowRanks, OthersKnowTheAggregateOfTheOthersBefore) {
  Gossip gossip(GossipAlgorithm::push_sum);
  gossip.run.setting.slow = {{3, 10}};
  const GossipOperationResult result = gossip.result();
  EXPECT_LT(result.without_slow.first, result.within_eps.first);
  EXPECT_LT(result.without_slow.median, result.within_eps.median);
}

// Rank 8 of 17 gives their mean, 8. It is not there yet: its estimate moves away with the first message.
TEST(SlowRanks, AnEstimateThatLeavesEpsAgainDoesNotCount) {
  Gossip gossip(GossipAlgorithm::push_sum);
  gossip.run.setting.ranks = gossip.run.call.plan.neighbourhood.ranks = 17;
  gossip.run.call.plan.neighbourhood.topology = GossipTopology::ring;
  gossip.run.data = GossipData::ranks;
  const GossipOperationResult result = gossip.result();
  EXPECT_TRUE(result.reached);
  EXPECT_GT(result.within_eps.first, 0);
}

TEST(SlowRanks, NothingIsWatchedWhereRanksDie) {
  Gossip gossip(GossipAlgorithm::push_sum);
  gossip.run.setting.deaths = {{2, -1, 10.0}};
  gossip.run.setting.detection_delay = 50;
  const GossipOperationResult result = gossip.result();
  EXPECT_EQ(result.missed, 0);
  EXPECT_EQ(result.within_eps.first, never);
}

// By iterations: with one rank of two slow, each waits for its mass.
TEST(SlowRanks, TheRulesAloneMakeIterationsFactorTimesAsLong) {
  const auto messages = [](double factor) {
    GossipRun run;
    run.plan.neighbourhood.ranks = 2;
    run.rounds = 1000;
    run.all_rounds = true;
    run.slow = {{1, factor}};
    return simulate(run).messages;
  };
  EXPECT_NEAR(static_cast<double>(messages(1)), 2000, 20);
  EXPECT_NEAR(static_cast<double>(messages(10)), 1100, 20);
  EXPECT_NEAR(static_cast<double>(messages(100)), 1010, 20);
}

}  // namespace
}  // namespace ucft::detail::simulator
