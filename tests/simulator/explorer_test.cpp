// Every crash plan of small worlds: each set of victims, each send boundary of each victim, several delivery orders.
// Zero violations of the promises (World::check), and the number of plans is that of combinatorics, so none was left
// out. A failure prints the plan that shows it; `ucft_sim explore` runs the same plans.
#include "simulator/explorer.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

namespace ucft::detail::simulator {
namespace {

#ifdef UCFT_SMALL
constexpr std::int64_t thinner = 20;  // strides grow, walks shrink
#else
constexpr std::int64_t thinner = 1;
#endif
#ifdef __SANITIZE_ADDRESS__                 // beyond that, so that it is a tenth; not for run_mutants, which needs them
constexpr std::int64_t thinner_of_one = 5;  // of single victims
constexpr Rank largest_covered = 5;
constexpr int block_step = 7;
#else
constexpr std::int64_t thinner_of_one = 1;
constexpr Rank largest_covered = 7;
constexpr int block_step = 1;
#endif

constexpr Kind kinds[] = {Kind::allreduce, Kind::barrier, Kind::broadcast,      Kind::reduce,
                          Kind::allgather, Kind::gather,  Kind::reduce_scatter, Kind::scatter};
constexpr BroadcastShape binomial{};
constexpr BroadcastShape binomial_in_order{Tree::binomial, Numbering::in_order, 4};
constexpr BroadcastShape kary{Tree::kary, Numbering::interleaved, 2};
constexpr BroadcastShape kary_in_order{Tree::kary, Numbering::in_order, 2};
constexpr BroadcastShape chain{Tree::kary, Numbering::interleaved, 1};
constexpr BroadcastShape more_shapes[] = {{Tree::knomial, Numbering::interleaved, 3},
                                          {Tree::knomial, Numbering::in_order, 3},
                                          {Tree::lame, Numbering::interleaved, 2},
                                          {Tree::optimal, Numbering::interleaved, 4, 10},
                                          {Tree::chain},
                                          {Tree::flat}};
constexpr Correction corrections[] = {Correction::opportunistic, Correction::checked,
                                      Correction::opportunistic_optimised, Correction::failure_proof};

Arguments arguments_of(Kind kind, std::int32_t f, Rank root = 0, BroadcastShape shape = {}) {
  Arguments arguments;
  arguments.kind = kind;
  arguments.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  arguments.count = kind == Kind::barrier ? 0 : 2;  // of an allgather the world's choice
  arguments.f = f;
  arguments.root = root;
  arguments.shape = shape;
  return arguments;
}

Plan plan_of(Rank ranks, const Arguments& arguments, std::size_t operations = 1, int in_flight = 1, int window = 2) {
  Plan plan;
  plan.ranks = ranks;
  plan.window = window;
  plan.in_flight = in_flight;
  plan.program.assign(operations, arguments);
  return plan;
}

// ---- how many plans there are, counted once more without the product's topology ----

std::int64_t sends_by_formula(std::int64_t process, std::int64_t n, const Arguments& arguments, bool contributes) {
  const std::int64_t f = std::min<std::int64_t>(arguments.f, n - 1);
  const std::int64_t complete = (n - 1) / (f + 1), rest = (n - 1) % (f + 1);  // of the processes beside the root
  std::int64_t sends = 0;
  if (contributes) {
    if (process >= 1) sends += 1;  // to the parent
    if (process >= 1 && process <= complete * (f + 1))
      sends += f;  // a complete group
    else
      sends += rest;  // the short one: root and rest members
  }
  if (arguments.row().to_root()) return sends;
  for (std::int64_t bit = 1; bit < n; bit *= 2)  // binomial, interleaved
    if (bit > process && process + bit < n) ++sends;
  return sends;
}

std::int64_t boundaries_by_formula(Rank rank, const Plan& plan, std::int64_t deaths) {
  // With W = 2 a barrier from rank 0 on comes between any two rooted operations.
  std::vector<Arguments> program = plan.program;
  Arguments barrier = program[0];
  barrier.kind = Kind::barrier;
  barrier.root = 0;
  if (program[0].rooted()) program.insert(program.end(), program.size() - 1, barrier);
  std::int64_t sends = 0;
  for (const Arguments& arguments : program)
    for (std::int64_t ballot = 0; ballot <= (arguments.row().to_root() ? 0 : deaths); ++ballot) {
      const std::int64_t process = (rank - arguments.root - ballot + 2 * plan.ranks) % plan.ranks;
      // Root arguments.root+ballot; ballots wrap around.
      sends +=
          sends_by_formula(process, plan.ranks, arguments, !(arguments.row().from_root() && ballot % plan.ranks == 0)) +
          (ballot > 0 ? 1 : 0);
    }
  return sends + 1 + (plan.ends ? 2 * (plan.ranks - 1) : 0);  // the word that it leaves, and answers to such words
}

std::int64_t plans_by_formula(const Plan& plan, const Scope& scope) {
  std::int64_t total = 0;
  for (std::uint32_t set = 0; set < (1u << plan.ranks); ++set) {
    const int size = __builtin_popcount(set);
    if (size > scope.max_victims) continue;
    std::int64_t product = 1;
    for (Rank rank = 0; rank < plan.ranks; ++rank)
      if (set >> rank & 1) product *= boundaries_by_formula(rank, plan, size);
    total += size < 2 ? product : (product + scope.stride - 1) / scope.stride;
  }
  return total * static_cast<std::int64_t>(scope.orders.size() + static_cast<std::size_t>(scope.seeds));
}

// ---- a table of what was tried ----

class Exploring : public testing::Test {
 protected:
  void explore_all(const Plan& plan, Scope scope) {
    if (scope.max_victims >= 2) scope.stride *= thinner;
    scope.stride_of_one = thinner_of_one;
    const Exploration found = explore(plan, scope);
    EXPECT_EQ(found.violations, 0) << found.first_violation;
    EXPECT_EQ(found.plans, plans_expected(plan, scope)) << describe(plan);
    add(plan, found);
  }
  void walk_many(const Plan& plan, int victims, std::int64_t runs, std::uint64_t seed) {
    const Exploration found = walk(plan, victims, runs / thinner, seed);
    EXPECT_EQ(found.violations, 0) << "seed " << seed << ": " << found.first_violation;
    add(plan, found);
  }
  void TearDown() override {
    std::printf("  %-10s %10s %12s", "algorithm", "plans", "events");
    for (int role = 0; role < role_count; ++role) std::printf(" %10s", role_name(static_cast<Role>(role)));
    std::printf(" %10s\n", "violations");
    for (const auto& [kind, found] : table_) {
      std::printf("  %-10s %10lld %12lld", kind_name(kind), static_cast<long long>(found.plans),
                  static_cast<long long>(found.events));
      for (std::int64_t plans : found.plans_by_role) std::printf(" %10lld", static_cast<long long>(plans));
      std::printf(" %10lld\n", static_cast<long long>(found.violations));
    }
  }

 private:
  void add(const Plan& plan, const Exploration& found) {
    Exploration& sum = table_[plan.program[0].kind];
    sum.plans += found.plans;
    sum.events += found.events;
    sum.violations += found.violations;
    for (std::size_t role = 0; role < role_count; ++role) sum.plans_by_role[role] += found.plans_by_role[role];
  }
  std::map<Kind, Exploration> table_;
};

// ---- the count itself ----

TEST(PlanCount, LiteralNumbersByHand) {
  // Two ranks, f = 1, four orders and one seed. Each rank sends 2 messages in ballot 0, 2 and perhaps a question in
  // ballot 1: 6 boundaries. Nobody 1, rank 0 6, rank 1 6: 13 plans in 5 orders.
  Scope scope;
  EXPECT_EQ(plans_expected(plan_of(2, arguments_of(Kind::allreduce, 1)), scope), 65);
  // Three ranks, f = 0: rank 0 sends 2, then (process 2) 1 + 1; rank 1 sends 1, then (root) 2 + 1; rank 2 sends 1, then
  // 1 + 1: boundaries 5, 5, 4.
  EXPECT_EQ(plans_expected(plan_of(3, arguments_of(Kind::allreduce, 0)), scope), (1 + 5 + 5 + 4) * 5);
  // Reduce of four, f = 1: one ballot. Groups {1,2} {3,0}: sends 1, 2, 2, 2.
  EXPECT_EQ(plans_expected(plan_of(4, arguments_of(Kind::reduce, 1)), scope), (1 + 2 + 3 + 3 + 3) * 5);
  scope.max_victims = 2;
  EXPECT_EQ(plans_expected(plan_of(4, arguments_of(Kind::reduce, 1)), scope), (12 + 3 * (2 * 3) + 3 * (3 * 3)) * 5);
  scope.stride = 4;
  EXPECT_EQ(plans_expected(plan_of(4, arguments_of(Kind::reduce, 1)), scope), (12 + 3 * 2 + 3 * 3) * 5);
}

TEST(PlanCount, AgreesWithAFormulaOfItsOwn) {
  for (Kind kind : kinds)
    for (Rank n = 1; n <= 9; ++n)
      for (std::int32_t f = 0; f <= 3; ++f)
        for (Rank root : {0, n - 1})
          for (std::size_t operations : {1u, 2u})
            for (bool ends : {false, true}) {
              Plan plan = plan_of(n, arguments_of(kind, f, root), operations);
              plan.ends = ends;
              Scope scope;
              scope.max_victims = f;
              scope.stride = 3;
              ASSERT_EQ(plans_expected(plan, scope), plans_by_formula(plan, scope)) << describe(plan);
            }
}

// Plans with a victim that lives on count, but are not run again.
TEST(Plans, ThatAreNotRunAgainWouldHaveRunAsTheirLikes) {
  for (Kind kind : kinds)
    for (Correction correction : {Correction::checked, Correction::failure_proof})
      for (bool ends : {false, true})
        for (Rank n = 2; n <= (thinner_of_one == 1 ? 4 : 3); ++n) {
          Arguments arguments = arguments_of(kind, 2);
          arguments.correction = correction;
          Plan plan = plan_of(n, arguments, 2, 2);
          plan.ends = ends;
          Scope scope;
          scope.max_victims = 2;
          scope.stride = 97 * thinner;
          const Exploration some = explore(plan, scope);
          scope.all_again = true;
          const Exploration all = explore(plan, scope);
          EXPECT_EQ(some.plans, all.plans);
          EXPECT_EQ(some.events, all.events);
          EXPECT_EQ(some.violations, all.violations);
          EXPECT_EQ(some.plans_by_role, all.plans_by_role);
        }
}

// A rank that lives has sent no more than the boundaries that are tried for it as one more victim: the last send of
// everybody is a crash point, too.
class CrashPoints : public testing::Test {
 protected:
  static void expect_covered(const Plan& base, int victims) {
    for (Rank victim = -1; victim < base.ranks; ++victim) {
      const int deaths = victim < 0 ? 0 : 1;
      if (deaths + 1 > victims) return;
      for (std::int64_t after = 0; after < (victim < 0 ? 1 : boundaries(victim, base, victims)); ++after)
        for (int order = 0; order < order_count; ++order) {
          Plan plan = base;
          plan.order = static_cast<Order>(order);
          if (victim >= 0) plan.crashes = {{victim, after}};
          World world(plan);
          ASSERT_TRUE(world.run());
          for (Rank rank : world.survivors())
            ASSERT_LT(world.sends(rank), boundaries(rank, base, deaths + 1)) << describe(plan) << " rank " << rank;
        }
    }
  }
};

TEST_F(CrashPoints, ReachTheLastSendOfEveryRank) {
  for (Kind kind : kinds)
    for (Rank n = 2; n <= largest_covered; ++n)
      for (std::int32_t f : {1, 2})
        for (BroadcastShape shape : {binomial, kary_in_order, chain}) {
          expect_covered(plan_of(n, arguments_of(kind, f, 0, shape)), f);
          if (HasFatalFailure()) return;
        }
}

TEST_F(CrashPoints, ReachTheLastCorrectionOfEveryRank) {
  for (Correction correction : corrections)
    for (Kind kind : {Kind::allreduce, Kind::broadcast})
      for (Rank n = 2; n <= largest_covered; ++n)
        for (std::int32_t f : {1, 2}) {
          Arguments arguments = arguments_of(kind, f);
          arguments.correction = correction;
          expect_covered(plan_of(n, arguments), f);
          if (HasFatalFailure()) return;
        }
}

TEST_F(CrashPoints, ReachTheLastWordOfACommunicatorThatEnds) {
  for (Rank n = 2; n <= largest_covered; ++n)
    for (std::int32_t f : {1, 2})
      for (BroadcastShape shape : {binomial, kary_in_order, chain}) {
        Plan plan = plan_of(n, arguments_of(Kind::allreduce, f, 0, shape));
        plan.ends = true;
        expect_covered(plan, f);
        if (HasFatalFailure()) return;
      }
}

TEST_F(CrashPoints, ReachTheLastSendOfALongRootedProgram) {
  for (Kind kind : {Kind::reduce, Kind::broadcast})
    for (Rank n = 2; n <= 5; ++n) {
      expect_covered(plan_of(n, arguments_of(kind, 1), 6, 2), 1);
      if (HasFatalFailure()) return;
    }
}

// ---- one operation, exhaustively ----

class OneOperation : public Exploring {
 protected:
  void all_up_to_seven(Kind kind) {
    for (Rank n = 1; n <= 7; ++n)
      for (std::int32_t f = 0; f <= 2; ++f)
        for (Rank root : {0, n - 1}) {
          Scope scope;
          scope.max_victims = f;
          explore_all(plan_of(n, arguments_of(kind, f, root)), scope);
        }
  }
};

TEST_F(OneOperation, AllreduceSurvivesEveryCrashPlanOfUpToSevenRanks) { all_up_to_seven(Kind::allreduce); }
TEST_F(OneOperation, BarrierSurvivesEveryCrashPlanOfUpToSevenRanks) { all_up_to_seven(Kind::barrier); }
TEST_F(OneOperation, BroadcastSurvivesEveryCrashPlanOfUpToSevenRanks) { all_up_to_seven(Kind::broadcast); }
TEST_F(OneOperation, AllgatherSurvivesEveryCrashPlanOfUpToSevenRanks) { all_up_to_seven(Kind::allgather); }
TEST_F(OneOperation, GatherSurvivesEveryCrashPlanOfUpToSevenRanks) { all_up_to_seven(Kind::gather); }
TEST_F(OneOperation, ReduceSurvivesEveryCrashPlanOfUpToSevenRanks) { all_up_to_seven(Kind::reduce); }

TEST_F(OneOperation, EveryBroadcastShapeSurvives) {
  for (Kind kind : {Kind::allreduce, Kind::broadcast})
    for (BroadcastShape shape : {binomial_in_order, kary, kary_in_order, chain})
      for (Rank n = 2; n <= 7; ++n)
        for (std::int32_t f = 1; f <= 2; ++f) {
          Scope scope;
          scope.max_victims = f;
          scope.stride = n == 7 ? 3 : 1;
          explore_all(plan_of(n, arguments_of(kind, f, 0, shape)), scope);
        }
}

TEST_F(OneOperation, EveryOtherTreeSurvives) {
  for (Kind kind : {Kind::allreduce, Kind::broadcast})
    for (BroadcastShape shape : more_shapes)
      for (Rank n = 2; n <= 6; ++n)
        for (std::int32_t f = 1; f <= 2; ++f) {
          Scope scope;
          scope.max_victims = f;
          scope.stride = n == 6 ? 3 : 1;
          explore_all(plan_of(n, arguments_of(kind, f, 0, shape)), scope);
        }
}

TEST_F(OneOperation, EveryCorrectionOfEveryTreeSurvives) {
  for (Kind kind : {Kind::allreduce, Kind::broadcast})
    for (Correction correction : corrections)
      for (BroadcastShape shape : more_shapes)
        for (Rank n = 2; n <= 5; ++n)
          for (std::int32_t f = 1; f <= 2; ++f) {
            Arguments arguments = arguments_of(kind, f, 0, shape);
            arguments.correction = correction;
            arguments.correction_distance = 3;
            Scope scope;
            scope.max_victims = f;
            scope.stride = n >= 4 ? 11 : 3;
            explore_all(plan_of(n, arguments), scope);
          }
}

TEST_F(OneOperation, EveryCorrectionSurvives) {
  for (Kind kind : {Kind::allreduce, Kind::broadcast, Kind::barrier})
    for (Correction correction : corrections)
      for (BroadcastShape shape : {binomial, chain})
        for (Rank n = 2; n <= 6; ++n)
          for (std::int32_t f = 1; f <= 2; ++f) {
            Arguments arguments = arguments_of(kind, f, 0, shape);
            arguments.correction = correction;
            arguments.correction_distance = 3;
            Scope scope;
            scope.max_victims = f;
            scope.stride = n >= 5 ? 7 : 1;
            explore_all(plan_of(n, arguments), scope);
          }
}

TEST_F(OneOperation, EveryFailureInformationSchemeSurvives) {
  for (Kind kind : {Kind::allreduce, Kind::reduce, Kind::barrier})
    for (FailureInfo info : {FailureInfo::count, FailureInfo::bit})
      for (Rank n = 2; n <= 7; ++n)
        for (std::int32_t f = 1; f <= 2; ++f) {
          Arguments arguments = arguments_of(kind, f);
          arguments.failure_info = info;
          Scope scope;
          scope.max_victims = f;
          scope.stride = n == 7 ? 3 : 1;
          explore_all(plan_of(n, arguments), scope);
        }
}

TEST_F(OneOperation, EightAndNineRanksSurviveTwoDeaths) {
  for (Kind kind : kinds)
    for (Rank n : {8, 9})
      for (std::int32_t f = 0; f <= 2; ++f) {
        Scope scope;
        scope.max_victims = f;
        scope.stride = 3;
        explore_all(plan_of(n, arguments_of(kind, f)), scope);
      }
}

TEST_F(OneOperation, ThreeDeathsAreSurvivedByUpToNineRanks) {
  for (Kind kind : kinds)
    for (Rank n = 1; n <= 9; ++n) {
      Scope scope;
      scope.max_victims = 3;
      scope.seeds = 1;
      scope.stride = n <= 4 ? 2 : n <= 6 ? 25 : 250;
      explore_all(plan_of(n, arguments_of(kind, 3)), scope);
    }
}

// ---- two operations at once ----

class TwoInFlight : public Exploring {
 protected:
  void all_up_to_five(Kind kind, FailureInfo info = FailureInfo::list) {
    for (Rank n = 1; n <= 5; ++n)
      for (std::int32_t f = 0; f <= 2; ++f) {
        Arguments arguments = arguments_of(kind, f);
        arguments.failure_info = info;
        Scope scope;
        scope.max_victims = f;
        explore_all(plan_of(n, arguments, 2, 2), scope);
      }
  }
};

TEST_F(TwoInFlight, AllreducesSurviveEveryCrashPlanOfUpToFiveRanks) { all_up_to_five(Kind::allreduce); }
TEST_F(TwoInFlight, AllreducesWithABitSurviveEveryCrashPlanOfUpToFiveRanks) {
  all_up_to_five(Kind::allreduce, FailureInfo::bit);
}
TEST_F(TwoInFlight, BarriersSurviveEveryCrashPlanOfUpToFiveRanks) { all_up_to_five(Kind::barrier); }
TEST_F(TwoInFlight, BroadcastsSurviveEveryCrashPlanOfUpToFiveRanks) { all_up_to_five(Kind::broadcast); }
TEST_F(TwoInFlight, AllgathersSurviveEveryCrashPlanOfUpToFiveRanks) { all_up_to_five(Kind::allgather); }
TEST_F(TwoInFlight, ReducesSurviveEveryCrashPlanOfUpToFiveRanks) { all_up_to_five(Kind::reduce); }

TEST_F(TwoInFlight, ShapesAndCorrectionsSurvive) {
  for (BroadcastShape shape : {kary_in_order, chain, BroadcastShape{Tree::lame, Numbering::interleaved, 2}})
    for (int correction = 0; correction < correction_count; ++correction)
      for (Rank n = 2; n <= 6; ++n) {
        Arguments arguments = arguments_of(Kind::allreduce, 2, n - 1, shape);
        arguments.correction = static_cast<Correction>(correction);
        Scope scope;
        scope.max_victims = 2;
        scope.stride = 25;
        explore_all(plan_of(n, arguments, 2, 2), scope);
      }
}

// ---- operations one after the other: ranks start the later ones with knowledge of deaths ----

class OneAfterTheOther : public Exploring {
 protected:
  void all_up_to_five(Kind kind, BroadcastShape shape) {
    for (Rank n = 2; n <= 5; ++n)
      for (std::int32_t f = 1; f <= 2; ++f) {
        Scope scope;
        scope.max_victims = f;
        scope.stride = n == 5 ? 3 : 1;
        explore_all(plan_of(n, arguments_of(kind, f, 0, shape), 2, 1), scope);
        scope.stride = 30;
        explore_all(plan_of(n, arguments_of(kind, f, n - 1, shape), 4, 2), scope);
      }
  }
};

TEST_F(OneAfterTheOther, AllreducesSurvive) { all_up_to_five(Kind::allreduce, binomial); }
TEST_F(OneAfterTheOther, AllreducesOnAChainSurvive) { all_up_to_five(Kind::allreduce, chain); }
TEST_F(OneAfterTheOther, BarriersSurvive) { all_up_to_five(Kind::barrier, kary_in_order); }
TEST_F(OneAfterTheOther, BroadcastsSurvive) { all_up_to_five(Kind::broadcast, chain); }
TEST_F(OneAfterTheOther, AllgathersSurvive) { all_up_to_five(Kind::allgather, binomial); }
TEST_F(OneAfterTheOther, ReducesSurvive) { all_up_to_five(Kind::reduce, binomial); }

// ---- memory that runs out on one rank: a named error on all that are not through, never a hang, never a wrong result

class OutOfMemory : public Exploring {
 protected:
  static constexpr int most_blocks = 24;
  // Plans that were tried, and ranks' operations that ended for lack of memory.
  std::pair<int, int> run_out(Plan plan) {
    int plans = 0, ends = 0;
    for (plan.short_of_memory = 0; plan.short_of_memory < plan.ranks; ++plan.short_of_memory)
      for (int order = 0; order < order_count; ++order)
        for (plan.after_blocks = 0; plan.after_blocks < most_blocks; plan.after_blocks += block_step) {
          plan.order = static_cast<Order>(order);
          World world(plan);
          EXPECT_TRUE(world.run()) << describe(plan);
          EXPECT_EQ(world.check(), "") << describe(plan);
          ++plans;
          for (Rank rank : world.survivors())
            for (std::size_t i = 0; i < plan.program.size(); ++i)
              ends += world.result(rank, i).outcome == Outcome::no_memory;
          if (HasFailure()) return {plans, ends};
        }
    return {plans, ends};
  }
  static Plan large(Kind kind, Rank n, std::int32_t f, std::size_t operations, int in_flight) {
    Arguments arguments = arguments_of(kind, f);
    if (kind != Kind::barrier)
      arguments.count = 512;  // more than what the heap stands in for: a block of its own for every value
    return plan_of(n, arguments, operations, in_flight);
  }
};

TEST_F(OutOfMemory, EndsOperationsOnAllByName) {
  for (Kind kind : {Kind::allreduce, Kind::broadcast, Kind::reduce, Kind::scatter})
    for (Rank n = 2; n <= 7; ++n)
      for (std::int32_t f = 0; f <= 2; ++f)
        for (int in_flight : {1, 2}) {
          const auto [plans, ends] = run_out(large(kind, n, f, 4, in_flight));
          EXPECT_EQ(plans, n * order_count * ((most_blocks + block_step - 1) / block_step));
          EXPECT_GT(ends, 0);
          if (HasFailure()) return;
        }
}

// No block at all for the first operation: nobody can be through without that rank.
TEST_F(OutOfMemory, AnAllreduceThatARankCannotPostFailsOnAll) {
  for (Rank n = 2; n <= 7; ++n)
    for (Rank rank = 0; rank < n; ++rank) {
      Plan plan = large(Kind::allreduce, n, 1, 1, 1);
      plan.short_of_memory = rank;
      World world(plan);
      ASSERT_TRUE(world.run());
      for (Rank each = 0; each < n; ++each) {
        EXPECT_EQ(world.result(each, 0).outcome, Outcome::no_memory);
        EXPECT_EQ(world.result(each, 0).culprit, rank);
      }
    }
}

TEST_F(OutOfMemory, TogetherWithADeath) {
  for (Kind kind : {Kind::allreduce, Kind::broadcast, Kind::reduce})
    for (Rank n = 3; n <= 5; ++n)
      for (Rank victim = 0; victim < n; ++victim)
        for (std::int64_t after = 0; after < 20; after += thinner_of_one == 1 ? 3 : 7) {
          Plan plan = large(kind, n, 1, 5, 2);
          plan.crashes = {{victim, after}};
          run_out(plan);
          if (HasFailure()) return;
        }
}

// ---- communicators that end: a rank that leaves goes when all that live have finished what it has posted ----

class TheEnd : public Exploring {
 protected:
  void explore_ends(Plan plan, Scope scope) {
    plan.ends = true;
    explore_all(plan, scope);
  }
};

TEST_F(TheEnd, IsReachedByAllWithoutAnyFailure) {
  for (Kind kind : kinds)
    for (Rank n = 1; n <= 17; ++n)
      for (std::int32_t f = 0; f <= 4; ++f) {
        Scope scope;
        scope.max_victims = 0;
        scope.seeds = thinner_of_one == 1 ? 40 : 4;
        explore_ends(plan_of(n, arguments_of(kind, f)), scope);
      }
}

TEST_F(TheEnd, IsReachedByAllSurvivorsOfEveryCrashPlan) {
  for (Kind kind : kinds)
    for (Rank n = 2; n <= 6; ++n)
      for (std::int32_t f = 1; f <= 2; ++f) {
        Scope scope;
        scope.max_victims = f;
        scope.seeds = 3;
        scope.stride = n <= 4 ? 3 : n == 5 ? 41 : 179;
        explore_ends(plan_of(n, arguments_of(kind, f, n - 1)), scope);
      }
}

TEST_F(TheEnd, IsReachedWithRootedOperationsInFlight) {
  for (Kind kind : {Kind::broadcast, Kind::reduce})
    for (int window : {2, 4})
      for (Rank n = 2; n <= 6; ++n)
        for (std::int32_t f = 1; f <= 3; ++f) {
          Scope scope;
          scope.max_victims = std::min(f, 2);
          scope.stride = 997;
          explore_ends(plan_of(n, arguments_of(kind, f, 0, chain), 5, window, window), scope);
        }
}

TEST_F(TheEnd, IsReachedByLargerWorldsAndWithMoreDeathsThanF) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Rank n = 3 + static_cast<Rank>(seed % 14);
    const std::int32_t f = 1 + static_cast<std::int32_t>(seed % 3);
    Plan plan = plan_of(n, arguments_of(kinds[seed % std::size(kinds)], f), 3, 2);
    plan.ends = true;
    walk_many(plan, std::min(f + 2, n - 1), 400, seed);
  }
}

// ---- ranks that leave before the others ----

class Leavers : public Exploring {
 protected:
  static std::vector<Arguments> mixed(Kind kind, std::int32_t f, Rank root, std::size_t operations) {
    std::vector<Arguments> program;
    for (std::size_t i = 0; i < operations; ++i)
      program.push_back(arguments_of(i % 2 == 0 ? kind : Kind::allreduce, f, root));
    return program;
  }
};

TEST_F(Leavers, OneAfterAnyOfItsOperationsAndAnyDeath) {
  for (bool optimistic : {false, true})
    for (bool waits : {true, false})
      for (Kind kind : kinds)
        for (Rank n = 2; n <= 4; ++n)
          for (Rank leaver = 0; leaver < n; ++leaver)
            for (std::size_t after = 0; after <= 3; ++after) {
              Plan plan = plan_of(n, arguments_of(kind, 1), 3, 2);
              plan.optimistic = optimistic;
              plan.program = mixed(kind, 1, n - 1, 3);
              plan.leaves = {{leaver, after, waits}};
              plan.ends = after % 2 == 0;
              Scope scope;
              scope.max_victims = 1;
              scope.seeds = 3;
              explore_all(plan, scope);
              if (HasFailure()) return;
            }
}

// f counts none of them.
TEST_F(Leavers, AllButOneInAnyOrderWithoutAFailureAllowed) {
  for (bool optimistic : {false, true})
    for (Kind kind : kinds)
      for (Rank n = 2; n <= 6; ++n)
        for (Rank stays = 0; stays < n; ++stays) {
          Plan plan = plan_of(n, arguments_of(kind, 0), 8, 3, 4);
          plan.optimistic = optimistic;
          plan.program = mixed(kind, 0, stays, 8);
          for (Rank rank = 0; rank < n; ++rank)
            if (rank != stays) plan.leaves.push_back({rank, static_cast<std::size_t>(rank + stays) % 7});
          Scope scope;
          scope.max_victims = 0;
          scope.seeds = 20;
          explore_all(plan, scope);
          if (HasFailure()) return;
        }
}

TEST_F(Leavers, AndDeathsInLargerWorldsInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const Rank n = 3 + static_cast<Rank>(seed % 11);
    const std::int32_t f = static_cast<std::int32_t>(seed % 4);
    Plan plan = plan_of(n, arguments_of(Kind::allreduce, f), 10, 1 + static_cast<int>(seed % 4), seed % 2 == 0 ? 2 : 4);
    plan.optimistic = seed % 3 != 0;
    plan.ranks_per_host = seed % 5 == 0 ? 2 : 0;
    for (Arguments& arguments : plan.program)
      arguments =
          arguments_of(kinds[random() % std::size(kinds)], f, static_cast<Rank>(random() % static_cast<unsigned>(n)));
    plan.ends = random() % 2 == 0;
    for (Rank rank = 1; rank < n; ++rank)
      if (random() % 3 == 0) plan.leaves.push_back({rank, random() % 11, random() % 4 != 0});
    walk_many(plan, std::min(f, n - 1), 60, seed);
    if (HasFailure()) return;
  }
}

// ---- more than f failures: a named error at worst, the same on all, never a hang, never a wrong sum ----

class MoreThanF : public Exploring {
 protected:
  void all(Kind kind) {
    for (Rank n = 2; n <= 7; ++n)
      for (std::int32_t f = 0; f <= 2; ++f)
        for (std::size_t operations : {1u, 2u}) {
          if (operations == 2 && n > 5) continue;
          Scope scope;
          scope.max_victims = std::min(f + 2, n);
          scope.stride = (n <= 4 ? 3 : 20) * (f == 2 ? 40 : f == 1 ? 3 : 1) * (operations == 2 ? 12 : 1);
          explore_all(plan_of(n, arguments_of(kind, f, n / 2), operations, static_cast<int>(operations)), scope);
        }
  }
};

TEST_F(MoreThanF, AllreduceNeverHangsAndNeverLies) { all(Kind::allreduce); }
TEST_F(MoreThanF, AllgatherNeverHangsAndNeverLies) { all(Kind::allgather); }
TEST_F(MoreThanF, BarrierNeverHangsAndNeverLies) { all(Kind::barrier); }
TEST_F(MoreThanF, BroadcastNeverHangsAndNeverLies) { all(Kind::broadcast); }
TEST_F(MoreThanF, GatherNeverHangsAndNeverLies) { all(Kind::gather); }
TEST_F(MoreThanF, ReduceNeverHangsAndNeverLies) { all(Kind::reduce); }

// ---- long programs ----

class LongPrograms : public Exploring {
 protected:
  // Rooted operations need the operation window's own barriers: 14 of them go through many.
  void rooted(Kind kind, int window) {
    for (Rank n : {2, 3, 4, 6})
      for (std::int32_t f : {1, 2})
        for (int in_flight : {1, window}) {
          Scope scope;
          scope.max_victims = n <= 4 ? f : 1;
          scope.stride = 499;
          explore_all(plan_of(n, arguments_of(kind, f), 14, in_flight, window), scope);
        }
  }
};

// Every send boundary that there is, the operation window's own barriers included, whatever boundaries() says.
TEST_F(LongPrograms, RootedOperationsSurviveACrashAtEverySendOfTheProgram) {
  for (Kind kind : {Kind::reduce, Kind::broadcast})
    for (Rank n = 2; n <= 5; ++n)
      for (int window : {2, 4})
        for (Rank victim = 0; victim < n; ++victim)
          for (int order = 0; order < order_count; ++order) {
            Plan plan = plan_of(n, arguments_of(kind, 1), 12, window, window);
            plan.order = static_cast<Order>(order);
            bool died = true;
            for (std::int64_t after = 0; died; after += thinner_of_one) {  // until the victim lives to see the end
              plan.crashes = {{victim, after}};
              plan.seed = static_cast<std::uint64_t>(after) + 1;
              World world(plan);
              ASSERT_TRUE(world.run()) << describe(plan);
              ASSERT_EQ(world.check(), "") << describe(plan);
              died = !world.alive(victim);
            }
          }
}

TEST_F(LongPrograms, FourteenReducesInAWindowOfTwo) { rooted(Kind::reduce, 2); }
TEST_F(LongPrograms, FourteenReducesInAWindowOfFour) { rooted(Kind::reduce, 4); }
TEST_F(LongPrograms, FourteenBroadcastsInAWindowOfTwo) { rooted(Kind::broadcast, 2); }
TEST_F(LongPrograms, FourteenBroadcastsInAWindowOfFour) { rooted(Kind::broadcast, 4); }

Plan mixed_program(Rank n, std::int32_t f, int window, std::uint64_t seed, std::size_t operations = 13) {
  std::mt19937_64 random(seed);
  Plan plan = plan_of(n, arguments_of(Kind::allreduce, f), operations,
                      1 + static_cast<int>(random() % static_cast<unsigned>(window)), window);
  std::vector<BroadcastShape> shapes = {binomial, binomial_in_order, kary, kary_in_order, chain};
  shapes.insert(shapes.end(), std::begin(more_shapes), std::end(more_shapes));
  for (Arguments& arguments : plan.program) {
    arguments = arguments_of(kinds[random() % std::size(kinds)], f,
                             static_cast<Rank>(random() % static_cast<unsigned>(n)), shapes[random() % shapes.size()]);
    arguments.correction = static_cast<Correction>(random() % correction_count);
    arguments.failure_info = static_cast<FailureInfo>(random() % 3);
  }
  return plan;
}

TEST_F(LongPrograms, MixedOperationsInWindowsOfTwoAndFour) {
  for (std::uint64_t seed = 1; seed <= (thinner == 1 ? 12 : 2); ++seed)
    for (int window : {2, 4}) {
      Scope scope;
      scope.max_victims = 1;
      explore_all(mixed_program(2 + static_cast<Rank>(seed % 6), 1, window, seed), scope);
    }
}

// ---- random walks ----

class RandomWalks : public Exploring {};

TEST_F(RandomWalks, OneOperationOfUpToSixteenRanksAndFiveDeaths) {
  for (Kind kind : kinds)
    for (Rank n = 2; n <= 16; n += 2)
      for (std::int32_t f = 1; f <= 5; f += 2)
        walk_many(plan_of(n, arguments_of(kind, f, n / 3, kind == Kind::broadcast ? kary : binomial)), std::min(f, n),
                  1000, static_cast<std::uint64_t>(n) * 100 + static_cast<std::uint64_t>(f));
}

TEST_F(RandomWalks, MixedProgramsWithUpToFDeaths) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Rank n = 2 + static_cast<Rank>(seed % 11);
    const std::int32_t f = 1 + static_cast<std::int32_t>(seed % 4);
    walk_many(mixed_program(n, f, seed % 2 == 0 ? 2 : 4, seed, 8), std::min(f, n), 200, seed);
  }
}

TEST_F(RandomWalks, MixedProgramsWithMoreThanFDeaths) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Rank n = 3 + static_cast<Rank>(seed % 10);
    const std::int32_t f = static_cast<std::int32_t>(seed % 3);
    walk_many(mixed_program(n, f, seed % 2 == 0 ? 2 : 4, seed, 6), std::min(f + 2, n), 200, seed + 1000);
  }
}

TEST_F(RandomWalks, SixtyRanksSurviveFiveDeaths) {
  for (Kind kind : kinds) walk_many(plan_of(60, arguments_of(kind, 5, 7), 3, 2), 5, 200, 60);
}

// The same seed is the same run: that is what replaying a failure needs.
TEST(Replay, TheSamePlanIsTheSameRun) {
  Plan plan = mixed_program(9, 2, 4, 5);
  plan.order = Order::shuffled;
  plan.crashes = {{3, 11}, {7, 20}};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    plan.seed = seed;
    World first(plan), second(plan);
    ASSERT_TRUE(first.run());
    ASSERT_TRUE(second.run());
    EXPECT_EQ(first.events(), second.events());
    for (Rank rank = 0; rank < 9; ++rank) EXPECT_EQ(first.sends(rank), second.sends(rank));
  }
}

// A world that breaks its promises must be found out: the check itself is checked.
TEST(WorldCheck, SeesAWorldThatIsNotDone) {
  World world(plan_of(3, arguments_of(Kind::allreduce, 1)));
  EXPECT_FALSE(world.check().empty()) << "nothing has run yet";
  EXPECT_FALSE(world.run(2)) << "two events are not enough";
  EXPECT_FALSE(world.check().empty());
}

}  // namespace
}  // namespace ucft::detail::simulator
