// Gossip operations of small worlds: every algorithm, by messages and one-sided, events in many orders, and each rank's
// death at each of its sends. All survivors end, with the same bits, within the bound that they give
// (GossipWorld::check).
//
// A failure prints the plan: UCFT_GOSSIP_WORLD="ALGORITHM TOPOLOGY RANKS PATH SEED RANK:SEND,.." gossip_explorer_test
// --gtest_filter=*Replay* runs it again.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "simulator/gossip_world.hpp"

namespace ucft::detail::simulator {
namespace {

#ifdef UCFT_SMALL
constexpr std::int64_t stride = 20;  // every so many sends
#else
constexpr std::int64_t stride = 1;
#endif

constexpr GossipAlgorithm asynchronous[] = {GossipAlgorithm::push_sum, GossipAlgorithm::push_flow,
                                            GossipAlgorithm::pflc,     GossipAlgorithm::pfcc,
                                            GossipAlgorithm::pcf,      GossipAlgorithm::pcf_flip};
constexpr GossipAlgorithm by_rounds[] = {GossipAlgorithm::hps, GossipAlgorithm::hpflc, GossipAlgorithm::hpfcc,
                                         GossipAlgorithm::ardb, GossipAlgorithm::recursive_doubling};

GossipWorldPlan plan_of(GossipAlgorithm algorithm, Rank ranks, GossipTopology topology, GossipPath path,
                        std::uint64_t seed) {
  GossipWorldPlan plan;
  GossipCall& call = plan.call;
  call.plan.algorithm = algorithm;
  call.plan.neighbourhood.topology = topology;
  call.plan.neighbourhood.ranks = ranks;
  call.plan.seed = 1;
  call.eps = 1e-3;
  call.adaptive = true;
  call.sum = seed % 2 == 0;
  call.path = path;
  call.count = 2;
  call.iterations = goes_by_rounds(algorithm) ? rounds_for(call.plan, call.eps) : 12;  // so few that there are stages
  call.choose_repair(0, 0);
  plan.seed = seed;
  return plan;
}

std::string describe(const GossipWorldPlan& plan) {
  std::string text = fmt::format("{} {} {} {} {} ", gossip_algorithm_name(plan.call.plan.algorithm),
                                 gossip_topology_name(plan.call.plan.neighbourhood.topology),
                                 plan.call.plan.neighbourhood.ranks, static_cast<int>(plan.call.path), plan.seed);
  for (const GossipCrash& crash : plan.crashes) text += fmt::format("{}:{},", crash.rank, crash.after_sends);
  if (!plan.hosts.empty()) text += fmt::format(" hosts {}", fmt::join(plan.hosts, ","));
  if (!plan.late.empty()) text += fmt::format(" late {} by {}", fmt::join(plan.late, ","), plan.late_by);
  if (plan.refuses != no_rank) text += fmt::format(" (rank {} can't map windows)", plan.refuses);
  if (plan.objects != no_rank) text += fmt::format(" (rank {} has no memory for windows)", plan.objects);
  return text;
}

std::string problem_of(const GossipWorldPlan& plan) {
  GossipWorld world(plan);
  if (!world.run()) return "it does not end";
  return world.check();
}

struct Volume {
  std::int64_t plans = 0, violations = 0;
};

// Without a death, then with each rank's at each of its sends.
void explore(GossipWorldPlan plan, Volume& volume, std::int64_t every = stride) {
  const auto run = [&] {
    ++volume.plans;
    const std::string problem = problem_of(plan);
    if (problem.empty() || ++volume.violations > 3) return;
    ADD_FAILURE() << problem << "\n  " << describe(plan);
  };
  run();
  GossipWorld whole(plan);
  ASSERT_TRUE(whole.run());
  for (Rank victim = 0; victim < whole.ranks(); ++victim)
    for (std::int64_t send = 0; send <= whole.sends(victim); send += every) {
      plan.crashes = {{victim, send}};
      run();
    }
}

class GossipExplorer : public testing::TestWithParam<GossipPath> {
 protected:
  std::vector<GossipAlgorithm> algorithms() const {
    std::vector<GossipAlgorithm> all(std::begin(asynchronous), std::end(asynchronous));
    if (GetParam() == GossipPath::messages) all.insert(all.end(), std::begin(by_rounds), std::end(by_rounds));
    return all;
  }
  void TearDown() override { std::printf("  %lld plans\n", static_cast<long long>(volume_.plans)); }
  Volume volume_;
};
INSTANTIATE_TEST_SUITE_P(By, GossipExplorer, testing::Values(GossipPath::messages, GossipPath::windows),
                         [](const auto& each) { return each.param == GossipPath::messages ? "messages" : "windows"; });

TEST_P(GossipExplorer, AnyOrderOfEventsEndsWithinTheBound) {
  for (GossipAlgorithm algorithm : algorithms())
    for (Rank ranks = 1; ranks <= 5; ++ranks)
      for (GossipTopology topology :
           {GossipTopology::complete, GossipTopology::ring, GossipTopology::bus, GossipTopology::tree})
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
          ++volume_.plans;
          const GossipWorldPlan plan = plan_of(algorithm, ranks, topology, GetParam(), seed);
          ASSERT_EQ(problem_of(plan), "") << describe(plan);
        }
}

TEST_P(GossipExplorer, EachRankDiesAtEachOfItsSends) {
  for (GossipAlgorithm algorithm : algorithms())
    for (Rank ranks = 2; ranks <= 5; ++ranks)
      for (std::uint64_t seed = 1; seed <= 2; ++seed)
        explore(plan_of(algorithm, ranks, GossipTopology::complete, GetParam(), seed), volume_);
  EXPECT_EQ(volume_.violations, 0);
}

// Of those that have come, whoever that is, and whoever dies before, while and after another one comes.
TEST_P(GossipExplorer, RanksThatComeLateAtAnyMoment) {
  const std::vector<std::vector<Rank>> late = {{0}, {2}, {3}, {0, 1}, {1, 3}, {0, 1, 2, 3}};
  for (GossipAlgorithm algorithm : algorithms())
    for (GossipTopology topology : {GossipTopology::complete, GossipTopology::bus})
      for (std::size_t which = 0; which < late.size(); ++which)
        for (std::int64_t by : {0, 40, 400}) {
          if (late[which].size() == 4 && by > 0) continue;  // no event would ever come
          GossipWorldPlan plan = plan_of(algorithm, 4, topology, GetParam(), 1 + which);
          plan.late = late[which];
          plan.late_by = by;
          explore(plan, volume_, topology == GossipTopology::bus ? 7 * stride : stride);
        }
  EXPECT_EQ(volume_.violations, 0);
}

TEST_P(GossipExplorer, RanksOfHostsThatComeLateAtAnyMoment) {
  const std::vector<Rank> hosts = {0, 0, 1, 1, 2};
  for (GossipAlgorithm algorithm : algorithms())
    for (const std::vector<Rank>& late : std::vector<std::vector<Rank>>{{0}, {1}, {4}, {1, 2}, {0, 3, 4}})
      for (std::int64_t by : {0, 60}) {
        GossipWorldPlan plan = plan_of(algorithm, 5, GossipTopology::complete, GetParam(), 3);
        plan.hosts = hosts;
        plan.late = late;
        plan.late_by = by;
        explore(plan, volume_, 3 * stride);
      }
  EXPECT_EQ(volume_.violations, 0);
}

// No rank waits at the entrance: the ranks that have come have the aggregate of these, and say so. Those of
// plan.late come one after the other.
void expect_estimates_of_those_that_have_come(GossipWorldPlan plan, double tolerance) {
  constexpr std::int64_t apart = 20000;
  plan.call.iterations = 40;
  plan.late_by = apart;
  GossipWorld world(plan);
  const std::vector<Rank>& late = plan.late;
  const auto ranks = static_cast<std::size_t>(world.ranks());
  for (std::size_t come = ranks - late.size(); come < ranks; ++come) {
    ASSERT_FALSE(world.run(apart)) << describe(plan);
    const auto is_there = [&](Rank rank) {
      const auto place = std::ranges::find(late, rank) - late.begin();
      return static_cast<std::size_t>(place) < late.size() - (ranks - come) || place == std::ssize(late);
    };
    double truth = 0;
    for (Rank rank = 0; rank < world.ranks(); ++rank) truth += is_there(rank) ? GossipWorld::given(rank, 0) : 0;
    if (!plan.call.sum) truth /= static_cast<double>(come);
    for (Rank rank = 0; rank < world.ranks(); ++rank) {
      std::vector<double> now(2);
      if (!is_there(rank)) continue;
      world.operation(rank).estimate(now);
      EXPECT_NEAR(now[0], truth, truth * tolerance) << describe(plan) << " rank " << rank << " of " << come;
      EXPECT_EQ(world.operation(rank).contributors(), come) << describe(plan) << " rank " << rank;
    }
  }
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.check(), "");
  EXPECT_EQ(world.operation(1).contributors(), ranks);
}

TEST_P(GossipExplorer, ThoseThatHaveComeGossipWithoutThoseThatHaveNot) {
  const std::vector<std::vector<Rank>> orders = {{3}, {0}, {2, 3}, {1, 0}, {1, 2, 3}, {2, 1, 0}, {3, 0, 2}};
  for (GossipAlgorithm algorithm : asynchronous)
    for (const std::vector<Rank>& late : orders) {
      GossipWorldPlan plan = plan_of(algorithm, 4, GossipTopology::complete, GetParam(), 1 + late.size());
      plan.late = late;
      expect_estimates_of_those_that_have_come(plan, 1e-3);
    }
}

// A rank that speaks for its host does not wait for the others of it. They are told what it has.
TEST_P(GossipExplorer, HostsGossipWithoutTheirRanksThatHaveNotCome) {
  const std::vector<Rank> hosts = {0, 0, 1, 1, 2};
  for (GossipAlgorithm algorithm : asynchronous)
    for (const std::vector<Rank>& late : std::vector<std::vector<Rank>>{{1}, {3}, {4}, {1, 3}, {4, 1, 3}, {2, 3}}) {
      GossipWorldPlan plan = plan_of(algorithm, 5, GossipTopology::complete, GetParam(), 1 + late.size());
      plan.call.path = GossipPath::any;
      plan.only_messages = GetParam() == GossipPath::messages;
      plan.hosts = hosts;
      plan.late = late;
      expect_estimates_of_those_that_have_come(plan, 1e-2);
    }
}

TEST_P(GossipExplorer, ZerosHaveABoundOfZero) {
  for (GossipAlgorithm algorithm : algorithms()) {
    GossipWorldPlan plan = plan_of(algorithm, 5, GossipTopology::complete, GetParam(), 1);
    plan.call.adaptive = false;
    plan.call.iterations = rounds_for(plan.call.plan, 1e-6);
    plan.inputs = {0, 0, 0, 0, 0};
    GossipWorld world(plan);
    ASSERT_TRUE(world.run()) << describe(plan);
    EXPECT_EQ(world.operation(0).outcome().error_bound, 0) << describe(plan);
    EXPECT_EQ(world.operation(0).result()[0], 0) << describe(plan);
  }
}

// The maximum, or the minimum, of the survivors, with a bound of 0, whichever rank dies. In one stage, where none does.
TEST_P(GossipExplorer, ExtremaAreExact) {
  for (GossipAlgorithm algorithm : algorithms()) {
    if (!takes_extrema(algorithm)) continue;
    for (GossipExtremum extremum : {GossipExtremum::minimum, GossipExtremum::maximum})
      for (Rank ranks = 1; ranks <= 5; ++ranks)
        for (GossipTopology topology : {GossipTopology::complete, GossipTopology::bus})
          for (const std::vector<Rank>& late : std::vector<std::vector<Rank>>{{}, {ranks - 1}}) {
            if (ranks <= 2 && !late.empty()) continue;  // if the other one dies no event would ever come
            GossipWorldPlan plan = plan_of(algorithm, ranks, topology, GetParam(), 2 + late.size());
            plan.call.sum = false;
            plan.call.plan.extremum = extremum;
            plan.inputs = {3, -7, 1e300, -1e-310, 2};
            plan.inputs.resize(static_cast<std::size_t>(ranks));
            plan.late = late;
            plan.late_by = 30;
            GossipWorld world(plan);
            ASSERT_TRUE(world.run()) << describe(plan);
            const GossipOutcome& outcome = world.operation(0).outcome();
            EXPECT_EQ(outcome.error_bound, 0) << describe(plan);
            EXPECT_EQ(outcome.stages, 1u) << describe(plan);
            EXPECT_TRUE(outcome.reached) << describe(plan);
            explore(plan, volume_, (topology == GossipTopology::bus ? 5 : 2) * stride);
          }
  }
  EXPECT_EQ(volume_.violations, 0);
}

// One iteration each on a bus of five: they have not all heard of the extreme value, but one of them has it.
TEST_P(GossipExplorer, ExtremaAreExactHoweverFewIterationsThereAre) {
  for (GossipAlgorithm algorithm : asynchronous) {
    if (!takes_extrema(algorithm)) continue;
    for (GossipExtremum extremum : {GossipExtremum::minimum, GossipExtremum::maximum})
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        GossipWorldPlan plan = plan_of(algorithm, 5, GossipTopology::bus, GetParam(), seed);
        plan.call.sum = false;
        plan.call.adaptive = false;
        plan.call.iterations = 1;
        plan.call.plan.extremum = extremum;
        GossipWorld world(plan);
        ASSERT_TRUE(world.run()) << describe(plan);
        EXPECT_EQ(world.check(), "") << describe(plan);
        const Rank extreme = extremum == GossipExtremum::maximum ? 4 : 0;
        EXPECT_EQ(world.operation(2).result()[0], GossipWorld::given(extreme, 0)) << describe(plan);
        EXPECT_EQ(world.operation(2).outcome().error_bound, 0) << describe(plan);
      }
  }
}

// Estimates of extrema are right as soon as all have heard, before the end.
TEST_P(GossipExplorer, EstimatesOfExtremaAreThoseOfAllThatHaveCome) {
  for (GossipAlgorithm algorithm : asynchronous) {
    if (!takes_extrema(algorithm)) continue;
    for (GossipExtremum extremum : {GossipExtremum::minimum, GossipExtremum::maximum}) {
      GossipWorldPlan plan = plan_of(algorithm, 4, GossipTopology::ring, GetParam(), 3);
      plan.call.sum = false;
      plan.call.plan.extremum = extremum;
      plan.late = {extremum == GossipExtremum::maximum ? 3 : 0};  // the extreme one
      plan.late_by = 20000;
      GossipWorld world(plan);
      ASSERT_FALSE(world.run(20000)) << describe(plan);
      std::vector<double> now(2);
      world.operation(1).estimate(now);
      EXPECT_EQ(now[0], GossipWorld::given(extremum == GossipExtremum::maximum ? 2 : 1, 0)) << describe(plan);
      ASSERT_TRUE(world.run()) << describe(plan);
      EXPECT_EQ(world.check(), "");
      EXPECT_EQ(world.operation(1).result()[0], GossipWorld::given(plan.late[0], 0)) << describe(plan);
    }
  }
}

// Each host's is that of all of its ranks.
TEST_P(GossipExplorer, ExtremaOfHosts) {
  const std::vector<Rank> hosts = {0, 0, 1, 1, 2};
  for (GossipAlgorithm algorithm : algorithms()) {
    if (!takes_extrema(algorithm)) continue;
    for (GossipExtremum extremum : {GossipExtremum::minimum, GossipExtremum::maximum}) {
      GossipWorldPlan plan = plan_of(algorithm, 5, GossipTopology::complete, GetParam(), 4);
      plan.call.sum = false;
      plan.call.plan.extremum = extremum;
      plan.inputs = {-3, -7, 5, 6, 2};
      plan.hosts = hosts;
      GossipWorld world(plan);
      ASSERT_TRUE(world.run()) << describe(plan);
      EXPECT_EQ(world.operation(0).result()[0], extremum == GossipExtremum::maximum ? 6 : -7) << describe(plan);
      explore(plan, volume_, 2 * stride);
    }
  }
  EXPECT_EQ(volume_.violations, 0);
}

// Sums in which nearly all cancels, or that overflow, or are tiny: a bound holds, with all that rounding does.
TEST_P(GossipExplorer, BoundsHoldForInputsThatCancelOverflowOrAreTiny) {
  constexpr double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
  const std::vector<std::vector<double>> inputs = {{1, -1, 1, -1, 1e-12},        {1e16, -1e16, 1, 1, -1},
                                                   {3, -1, -1, -1, 1e-9},        {most, most, most, most, most},
                                                   {most, -most, most, 0, 1},    {least, least, 0, 0, 0},
                                                   {least, 2 * least, 0, 0, 1},  {0, 0, 0, 0, 0},
                                                   {1e-310, 3e-310, 0, 0, 0},    {1e300, 1e-300, 1, 1, -1},
                                                   {1e300, -1e300, 1e-20, 0, 0}, {1e300, 1e-20, -1e300, 0, 0}};
  for (GossipAlgorithm algorithm : algorithms())
    for (const std::vector<double>& input : inputs)
      for (bool sum : {false, true})
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          const double eps = seed % 2 == 0 ? 1e-6 : 1e-12;
          GossipWorldPlan plan = plan_of(algorithm, 5, GossipTopology::complete, GetParam(), seed);
          plan.call.sum = sum;
          plan.call.eps = eps;
          plan.call.iterations = rounds_for(plan.call.plan, eps);
          plan.inputs = input;
          ++volume_.plans;
          GossipWorld world(plan);
          ASSERT_TRUE(world.run(4000000)) << describe(plan);
          ASSERT_EQ(world.check(), "") << describe(plan) << " inputs " << fmt::format("{}", fmt::join(input, " "));
          const GossipOutcome& outcome = world.operation(0).outcome();
          const bool is_finite = std::isfinite(world.operation(0).result()[0]);
          EXPECT_TRUE(is_finite || sum) << describe(plan);
          if (input[4] == 1e-12) {
            EXPECT_LT(outcome.error_bound, 0.5) << describe(plan);  // it says something, though nearly all cancels
          }
          EXPECT_FALSE(is_finite && sum && input[1] == most) << describe(plan);
          EXPECT_TRUE(is_finite || (std::isinf(outcome.error_bound) && !outcome.reached)) << describe(plan);
        }
}

// A bus of 5 is cut by whoever dies but for its ends, a tree by its root.
TEST_P(GossipExplorer, EachDeathThatCutsTheTopology) {
  for (GossipAlgorithm algorithm : asynchronous)
    for (const auto& [topology, ranks] : {std::pair(GossipTopology::bus, 5), std::pair(GossipTopology::tree, 4),
                                          std::pair(GossipTopology::hypercube, 4)})
      explore(plan_of(algorithm, ranks, topology, GetParam(), 3), volume_);
  EXPECT_EQ(volume_.violations, 0);
}

TEST_P(GossipExplorer, TwoDieAnywhere) {
  for (GossipAlgorithm algorithm : algorithms())
    for (GossipTopology topology : {GossipTopology::complete, GossipTopology::ring, GossipTopology::bus})
      for (std::uint64_t seed = 1; seed <= 200 / stride; ++seed) {
        GossipWorldPlan plan = plan_of(algorithm, 5, topology, GetParam(), seed);
        GossipWorld whole(plan);
        ASSERT_TRUE(whole.run());
        Random random(seed);
        const auto first = static_cast<Rank>(random.below(5)),
                   second = static_cast<Rank>((first + 1 + random.below(4)) % 5);
        for (Rank victim : {first, second})
          plan.crashes.push_back(
              {victim, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(whole.sends(victim)) + 1))});
        ++volume_.plans;
        ASSERT_EQ(problem_of(plan), "") << describe(plan);
      }
}

// ---- several ranks of a host: one speaks for it

constexpr Rank two_by_two[] = {0, 0, 2, 2}, in_turns[] = {0, 1, 0, 1, 0}, three_hosts[] = {0, 0, 2, 2, 4},
               one_alone[] = {0, 1, 1, 1}, one_host[] = {0, 0, 0};

GossipWorldPlan plan_of(GossipAlgorithm algorithm, std::span<const Rank> hosts, GossipTopology topology,
                        GossipPath path, std::uint64_t seed) {
  GossipWorldPlan plan = plan_of(algorithm, static_cast<Rank>(hosts.size()), topology, path, seed);
  plan.hosts = hosts;
  return plan;
}

TEST_P(GossipExplorer, OneOfAHostGossipsForAllOfIt) {
  for (GossipAlgorithm algorithm : algorithms())
    for (std::span<const Rank> hosts :
         {std::span<const Rank>(two_by_two), std::span<const Rank>(in_turns), std::span<const Rank>(three_hosts),
          std::span<const Rank>(one_alone), std::span<const Rank>(one_host)})
      for (GossipTopology topology : {GossipTopology::complete, GossipTopology::ring, GossipTopology::bus})
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
          ++volume_.plans;
          const GossipWorldPlan plan = plan_of(algorithm, hosts, topology, GetParam(), seed);
          GossipWorld world(plan);
          ASSERT_TRUE(world.run()) << describe(plan);
          ASSERT_EQ(world.check(), "") << describe(plan);
          for (Rank rank = 0; rank < world.ranks(); ++rank) {
            const bool speaks = hosts[static_cast<std::size_t>(rank)] == rank;
            const GossipOutcome& outcome = world.operation(rank).outcome();
            ASSERT_EQ(outcome.iterations > 0, speaks && hosts.size() > 3) << describe(plan);
            if (!speaks) {  // what it gives, by rounds in each again, and the agreements: one to meet, one a stage
              const std::int64_t gives = goes_by_rounds(algorithm) ? outcome.stages : 1;
              ASSERT_LE(world.sends(rank), gives + 1 + outcome.stages) << describe(plan);
            }
          }
        }
}

TEST_P(GossipExplorer, EachRankOfAHostDiesAtEachOfItsSends) {
  for (GossipAlgorithm algorithm : algorithms())
    for (std::span<const Rank> hosts :
         {std::span<const Rank>(two_by_two), std::span<const Rank>(in_turns), std::span<const Rank>(three_hosts),
          std::span<const Rank>(one_alone), std::span<const Rank>(one_host)})
      for (std::uint64_t seed = 1; seed <= 2; ++seed)
        explore(plan_of(algorithm, hosts, GossipTopology::complete, GetParam(), seed), volume_, 1);
  EXPECT_EQ(volume_.violations, 0);
}

TEST_P(GossipExplorer, TwoRanksOfHostsDieAnywhere) {
  for (GossipAlgorithm algorithm : algorithms())
    for (std::span<const Rank> hosts :
         {std::span<const Rank>(two_by_two), std::span<const Rank>(in_turns), std::span<const Rank>(three_hosts)})
      for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        GossipWorldPlan plan = plan_of(algorithm, hosts, GossipTopology::ring, GetParam(), seed);
        GossipWorld whole(plan);
        ASSERT_TRUE(whole.run());
        Random random(seed);
        const auto ranks = static_cast<std::uint64_t>(hosts.size());
        const std::uint64_t first = random.below(ranks), second = (first + 1 + random.below(ranks - 1)) % ranks;
        for (const std::uint64_t each : {first, second}) {
          const auto victim = static_cast<Rank>(each);
          plan.crashes.push_back(
              {victim, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(whole.sends(victim)) + 1))});
        }
        ++volume_.plans;
        ASSERT_EQ(problem_of(plan), "") << describe(plan);
      }
}

// Before all have come no rank can tell a flipped bit: how large a rounding error may be is found when they meet.
TEST_P(GossipExplorer, BitsThatFlipBeforeTheMeetingAreRepaired) {
  for (GossipAlgorithm algorithm : {GossipAlgorithm::pflc, GossipAlgorithm::pfcc})
    for (FlipTarget target : {FlipTarget::flow, FlipTarget::message})
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        GossipWorldPlan plan = plan_of(algorithm, 4, GossipTopology::complete, GetParam(), seed);
        plan.call.eps = 1e-9;
        plan.call.iterations = 60;
        plan.late = {3};
        plan.late_by = 1000;
        plan.faults.target = target;
        plan.faults.flips.push_back({20, no_rank, 47});
        plan.faults.seed = seed;
        GossipWorld world(plan);
        ASSERT_TRUE(world.run()) << describe(plan);
        EXPECT_EQ(world.check(), "") << describe(plan);
        EXPECT_TRUE(world.operation(0).outcome().reached) << describe(plan);
      }
}

// A rank that has asked for a flow dies, or one that was asked, or any other; and a rank comes late that is asked.
TEST(GossipExplorerRepairs, EachRankDiesAtEachOfItsSendsWhileFlowsAreAskedFor) {
  Volume volume;
  for (FlipTarget target : {FlipTarget::flow, FlipTarget::message, FlipTarget::data})
    for (Rank ranks : {2, 3, 5})
      for (double time : {2, 9, 18})
        for (const std::vector<Rank>& late : std::vector<std::vector<Rank>>{{}, {1}}) {
          GossipWorldPlan plan = plan_of(GossipAlgorithm::hpfcc, ranks, GossipTopology::complete, GossipPath::messages,
                                         static_cast<std::uint64_t>(time));
          if (ranks == 2 && !late.empty()) continue;  // if the other one dies no event would ever come
          plan.faults.target = target;
          for (int bit : {61, 55}) plan.faults.flips.push_back({time, no_rank, bit});
          plan.late = late;
          plan.late_by = 30;
          GossipWorld world(plan);
          ASSERT_TRUE(world.run());
          // No rounds are lost. A message that is flipped may be an answer, which is not asked for again.
          if (target != FlipTarget::message) {
            EXPECT_EQ(world.operation(0).outcome().stages, 1u) << describe(plan);
          }
          explore(plan, volume, 2 * stride - 1);
        }
  EXPECT_EQ(volume.violations, 0);
}

// Who can't map an RMA window tells all others: they begin again by messages, whoever dies meanwhile.
TEST(GossipExplorerWindows, OneThatCantBeMappedIsAMatterOfAll) {
  Volume volume;
  for (GossipAlgorithm algorithm : asynchronous)
    for (GossipPath path : {GossipPath::any, GossipPath::windows})
      for (const auto& [refuses, hosts] :
           {std::pair<Rank, std::span<const Rank>>(0, {}), {2, {}}, {0, two_by_two}, {2, two_by_two}}) {
        GossipWorldPlan plan = plan_of(algorithm, 4, GossipTopology::ring, path, 5);
        plan.hosts = hosts;
        plan.refuses = refuses;
        explore(plan, volume, hosts.empty() ? stride : 1);
        plan.crashes.clear();
        GossipWorld world(plan);
        ASSERT_TRUE(world.run());
        EXPECT_EQ(world.operation(1).outcome().end,
                  path == GossipPath::any ? GossipEnd::success : GossipEnd::no_memory);
        EXPECT_EQ(world.operation(1).outcome().one_sided, path == GossipPath::windows);
        EXPECT_EQ(world.operation(1).outcome().culprit, path == GossipPath::windows ? refuses : no_rank);
        plan.refuses = no_rank;
        plan.objects = refuses;
        explore(plan, volume);
      }
  EXPECT_EQ(volume.violations, 0);
}

TEST(GossipExplorerWorld, ACopyGoesOnInTheSameWay) {
  for (GossipPath path : {GossipPath::messages, GossipPath::windows}) {
    GossipWorld world(plan_of(GossipAlgorithm::pcf, 4, GossipTopology::complete, path, 7));
    ASSERT_FALSE(world.run(200));
    GossipWorld copy = world;
    ASSERT_TRUE(world.run());
    ASSERT_TRUE(copy.run());
    EXPECT_EQ(copy.events(), world.events());
    for (Rank rank = 0; rank < 4; ++rank)
      EXPECT_TRUE(std::ranges::equal(copy.operation(rank).result(), world.operation(rank).result()));
    EXPECT_EQ(copy.check(), "");
  }
}

TEST(GossipExplorerWorld, Replay) {
  const char* text = std::getenv("UCFT_GOSSIP_WORLD");
  if (text == nullptr) GTEST_SKIP() << "UCFT_GOSSIP_WORLD is not set";
  std::istringstream words(text);
  std::string algorithm_name, topology_name, crashes;
  Rank ranks = 0;
  int path = 0;
  std::uint64_t seed = 0;
  words >> algorithm_name >> topology_name >> ranks >> path >> seed >> crashes;
  GossipAlgorithm algorithm{};
  GossipTopology topology{};
  ASSERT_TRUE(parse_gossip_algorithm(algorithm_name, algorithm) && parse_gossip_topology(topology_name, topology))
      << text;
  GossipWorldPlan plan = plan_of(algorithm, ranks, topology, static_cast<GossipPath>(path), seed);
  std::istringstream list(crashes);
  for (std::string one; std::getline(list, one, ',');)
    plan.crashes.push_back({std::stoi(one), std::stoll(one.substr(one.find(':') + 1))});
  EXPECT_EQ(problem_of(plan), "") << describe(plan);
}

}  // namespace
}  // namespace ucft::detail::simulator
