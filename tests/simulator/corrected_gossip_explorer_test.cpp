// Every crash plan of small worlds whose decisions go to all by gossip: OCG, CCG, FCG, and gossip alone, with the
// promises of all broadcasts (World::check). Time is the number of events; partners are chance, so each world is tried
// with several seeds, and ranks that gossip has passed by ask the root early, before it has anything to say, or late.
#include <gtest/gtest.h>

#include "simulator/explorer.hpp"

namespace ucft::detail::simulator {
namespace {

#ifdef UCFT_SMALL
constexpr std::int64_t thinner = 20;
#else
constexpr std::int64_t thinner = 1;
#endif

constexpr Correction corrections[] = {Correction::none, Correction::opportunistic, Correction::checked,
                                      Correction::opportunistic_optimised, Correction::failure_proof};
constexpr std::int64_t early = 2000, late = 60000;  // ns: when who waits asks the root, and who is not let go panics

Arguments gossip_of(Kind kind, std::int32_t f, Correction correction, std::uint64_t seed, std::int64_t ask_after_ns) {
  Arguments arguments;
  arguments.kind = kind;
  arguments.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  arguments.count = kind == Kind::barrier ? 0 : 2;
  arguments.f = f;
  arguments.correction = correction;
  arguments.gossip = {.time_ns = 5000,
                      .interval_ns = 1000,
                      .flight_ns = 1000,
                      .ask_after_ns = ask_after_ns,
                      .panic_after_ns = ask_after_ns,
                      .seed = seed};
  return arguments;
}

Plan plan_of(Rank ranks, const Arguments& arguments, std::size_t operations = 1) {
  Plan plan;
  plan.ranks = ranks;
  plan.in_flight = operations > 1 ? 2 : 1;
  plan.program.assign(operations, arguments);
  return plan;
}

void explore_all(const Plan& plan, Scope scope) {
  if (scope.max_victims >= 2) scope.stride *= thinner;
  const Exploration found = explore(plan, scope);
  EXPECT_EQ(found.violations, 0) << "gossip seed " << plan.program[0].gossip.seed << ", asks after "
                                 << plan.program[0].gossip.ask_after_ns << ", correction "
                                 << static_cast<int>(plan.program[0].correction) << ": " << found.first_violation;
  EXPECT_EQ(found.plans, plans_expected(plan, scope));
}

class CorrectedGossip : public testing::TestWithParam<Correction> {};
INSTANTIATE_TEST_SUITE_P(With, CorrectedGossip, testing::ValuesIn(corrections), [](const auto& each) {
  return std::string(std::array{"NoCorrection", "Opportunistic", "Checked", "Optimised",
                                "FailureProof"}[static_cast<std::size_t>(each.index)]);
});

TEST_P(CorrectedGossip, BroadcastSurvivesEveryCrashPlanOfUpToFiveRanks) {
  for (Rank n = 1; n <= 5; ++n)
    for (std::int32_t f = 0; f <= 2; ++f)
      for (std::uint64_t seed = 1; seed <= 3; ++seed)
        for (std::int64_t ask_after_ns : {early, late}) {
          Scope scope;
          scope.max_victims = f;
          scope.stride = n <= 4 ? 1 : 101;
          explore_all(plan_of(n, gossip_of(Kind::broadcast, f, GetParam(), seed, ask_after_ns)), scope);
        }
}

TEST_P(CorrectedGossip, OtherOperationsSurviveIt) {
  for (Kind kind : {Kind::allreduce, Kind::barrier, Kind::allgather})
    for (Rank n = 2; n <= 4; ++n)
      for (std::int64_t ask_after_ns : {early, late}) {
        Scope scope;
        scope.max_victims = 2;
        scope.stride = n == 2 ? 1 : n == 3 ? 1 : 211;
        explore_all(plan_of(n, gossip_of(kind, 2, GetParam(), static_cast<std::uint64_t>(n), ask_after_ns)), scope);
      }
}

TEST_P(CorrectedGossip, BroadcastsOneAfterTheOtherSurvive) {
  for (Rank n = 2; n <= 5; ++n) {
    Scope scope;
    scope.max_victims = 1;
    scope.stride_of_one = n >= 4 ? 3 : 1;
    Plan plan = plan_of(n, gossip_of(Kind::broadcast, 1, GetParam(), 4, late), 3);
    plan.ends = true;
    explore_all(plan, scope);
  }
}

TEST_P(CorrectedGossip, LargerWorldsSurviveRandomPlans) {
  for (Rank n : {7, 16, 40})
    for (std::int64_t ask_after_ns : {early, late}) {
      Arguments arguments = gossip_of(Kind::broadcast, 2, GetParam(), static_cast<std::uint64_t>(n), ask_after_ns);
      arguments.gossip.time_ns = 30000;
      const Exploration found = walk(plan_of(n, arguments, 2), 3, (n == 40 ? 40 : 200) / thinner, 7);
      EXPECT_EQ(found.violations, 0) << found.first_violation;
    }
}

// A rank that lives has sent no more than the boundaries that are tried for it.
TEST_P(CorrectedGossip, CrashPointsReachTheLastSendOfEveryRank) {
  for (Rank n = 2; n <= 5; ++n)
    for (std::int64_t ask_after_ns : {early, late}) {
      const Plan base = plan_of(n, gossip_of(Kind::broadcast, 2, GetParam(), 1, ask_after_ns));
      for (Rank victim = 0; victim < n; ++victim)
        for (std::int64_t after = 0; after < boundaries(victim, base, 2); ++after)
          for (int order = 0; order < order_count; ++order) {
            Plan plan = base;
            plan.order = static_cast<Order>(order);
            plan.crashes = {{victim, after}};
            World world(plan);
            ASSERT_TRUE(world.run());
            for (Rank rank : world.survivors())
              ASSERT_LT(world.sends(rank), boundaries(rank, base, 2)) << describe(plan) << " rank " << rank;
          }
    }
}

// Whoever is passed by asks, without any death: that is what a promise of OCG hangs on.
TEST(Gossip, ThatPassesARankByMakesItAskAndNobodyElse) {
  int asked = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    World world(plan_of(6, gossip_of(Kind::broadcast, 1, Correction::none, seed, late)));
    ASSERT_TRUE(world.run());
    EXPECT_EQ(world.check(), "");
    EXPECT_EQ(world.sends(Phase::ask), world.sends(Phase::decided));
    asked += world.sends(Phase::ask) > 0;
  }
  EXPECT_GT(asked, 5);
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    World world(plan_of(6, gossip_of(Kind::broadcast, 1, Correction::checked, seed, late)));
    ASSERT_TRUE(world.run());
    EXPECT_EQ(world.sends(Phase::ask), 0) << "checked correction reaches all where nobody dies";
  }
}

}  // namespace
}  // namespace ucft::detail::simulator
