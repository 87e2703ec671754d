// Every crash plan of small worlds whose operations begin with the optimistic ballot
// (collectives/among/phases/optimistic.hpp), as explorer_test does without it: zero violations of the promises, and as
// many plans as combinatorics says.
#include <gtest/gtest.h>

#include "simulator/explorer.hpp"

namespace ucft::detail::simulator {
namespace {

#ifdef UCFT_SMALL
constexpr std::int64_t thinner = 20;
#else
constexpr std::int64_t thinner = 1;
#endif

constexpr Kind kinds[] = {Kind::allreduce, Kind::barrier, Kind::broadcast,      Kind::reduce,
                          Kind::allgather, Kind::gather,  Kind::reduce_scatter, Kind::scatter};
constexpr BroadcastShape chain{Tree::kary, Numbering::interleaved, 1};

Arguments arguments_of(Kind kind, std::int32_t f, Rank root = 0, BroadcastShape shape = {}) {
  Arguments arguments;
  arguments.kind = kind;
  arguments.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  arguments.count = kind == Kind::barrier ? 0 : 2;
  arguments.f = f;
  arguments.root = root;
  arguments.shape = shape;
  return arguments;
}

Plan plan_of(Rank ranks, const Arguments& arguments, std::size_t operations = 1, int in_flight = 1, int window = 2) {
  Plan plan;
  plan.optimistic = true;
  plan.lends = true;
  plan.ranks = ranks;
  plan.window = window;
  plan.in_flight = in_flight;
  plan.program.assign(operations, arguments);
  return plan;
}

void explore_all(const Plan& plan, int victims, std::int64_t stride) {
  Scope scope;
  scope.max_victims = victims;
  scope.stride = victims < 2 ? 1 : stride * thinner;
  scope.stride_of_one = thinner == 1 ? 1 : 5;
  const Exploration found = explore(plan, scope);
  EXPECT_EQ(found.violations, 0) << found.first_violation;
  EXPECT_EQ(found.plans, plans_expected(plan, scope)) << describe(plan);
}

void walk_many(const Plan& plan, int victims, std::int64_t runs, std::uint64_t seed) {
  const Exploration found = walk(plan, victims, runs / thinner, seed);
  EXPECT_EQ(found.violations, 0) << "seed " << seed << ": " << found.first_violation;
  EXPECT_GT(found.plans, 0);
}

TEST(OptimisticWorlds, OneOperationSurvivesEveryCrashPlanOfUpToSevenRanks) {
  for (Kind kind : kinds)
    for (Rank n = 1; n <= 7; ++n)
      for (std::int32_t f = 0; f <= 2; ++f) explore_all(plan_of(n, arguments_of(kind, f, n - 1)), f, n == 7 ? 5 : 1);
}

TEST(OptimisticWorlds, OperationsInFlightSurviveEveryCrashPlan) {
  for (Kind kind : kinds)
    for (Rank n = 2; n <= 5; ++n)
      for (std::int32_t f = 1; f <= 2; ++f) {
        explore_all(plan_of(n, arguments_of(kind, f), 2, 2), f, n == 5 ? 7 : 1);
        explore_all(plan_of(n, arguments_of(kind, f), 3, 2), f, n == 2 ? 1 : n == 3 ? 3 : 31);
      }
}

// A chain, so that whoever delivers first is the next root's forwarder no more: the shapes in which a missing ballot
// check shows.
TEST(OptimisticWorlds, OneAfterTheOtherOnAChainSurvive) {
  for (Kind kind : kinds)
    for (Rank n = 2; n <= 4; ++n)
      for (std::int32_t f = 1; f <= 2; ++f)
        explore_all(plan_of(n, arguments_of(kind, f, 0, chain), 4, 1), f, n == 4 ? 29 : 5);
}

TEST(OptimisticWorlds, CorrectionsOfTheFallbackSurvive) {
  for (int correction = 1; correction < correction_count; ++correction)
    for (Rank n = 2; n <= 5; ++n) {
      Arguments arguments = arguments_of(Kind::allreduce, 2, n - 1);
      arguments.correction = static_cast<Correction>(correction);
      explore_all(plan_of(n, arguments, 2, 2), 2, 41);
    }
}

TEST(OptimisticWorlds, MoreThanFDeathsNeverHangAndNeverLie) {
  for (Kind kind : kinds)
    for (Rank n = 2; n <= 5; ++n)
      for (std::int32_t f = 0; f <= 1; ++f) explore_all(plan_of(n, arguments_of(kind, f), 2, 2), f + 2, 501);
}

TEST(OptimisticWorlds, CommunicatorsEnd) {
  for (Kind kind : kinds)
    for (Rank n = 2; n <= 5; ++n)
      for (std::int32_t f = 1; f <= 2; ++f) {
        Plan plan = plan_of(n, arguments_of(kind, f, n - 1), 2, 2);
        plan.ends = true;
        explore_all(plan, f, n <= 3 ? 7 : 211);
      }
}

TEST(OptimisticWorlds, LongProgramsOfLargerWorldsSurvive) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const Rank n = 2 + static_cast<Rank>(seed % 14);
    const std::int32_t f = 1 + static_cast<std::int32_t>(seed % 3);
    const int window = 2 + static_cast<int>(seed % 3);
    std::mt19937_64 random(seed);
    Plan plan = plan_of(n, arguments_of(Kind::allreduce, f), 8, 1 + static_cast<int>(random() % 3), window);
    for (Arguments& arguments : plan.program)
      arguments = arguments_of(kinds[random() % 4], f, static_cast<Rank>(random() % static_cast<unsigned>(n)));
    walk_many(plan, std::min(f + static_cast<int>(seed % 2), n - 1), 200, seed);
  }
}

// ---- long data: a reduce-scatter and an allgather (collectives/among/phases/circulant.hpp) --------------------------

// What is more than a word goes in blocks, and these in pieces of so many words.
Plan in_blocks(Plan plan, std::uint64_t words_of_piece = 1) {
  plan.optimistic.whole_bytes = 8;
  plan.optimistic.piece_bytes = 8 * words_of_piece;
  for (Arguments& arguments : plan.program)
    if (arguments.kind == Kind::allreduce)
      arguments.count = std::max(arguments.count, static_cast<std::uint64_t>(plan.ranks) + 1);
  return plan;
}

// The same of broadcasts: so many pieces, the last of which is short (collectives/among/phases/piece_broadcast.hpp).
Plan in_pieces(Plan plan, std::uint64_t pieces) {
  plan.optimistic.whole_bytes = 8;
  plan.optimistic.piece_bytes = 16;
  for (Arguments& arguments : plan.program)
    if (arguments.kind == Kind::broadcast) arguments.count = 2 * pieces - 1;
  return plan;
}

// The same of allgathers: a piece is a word, so a record of a block of no, one or two words is one to three pieces.
Plan all_in_pieces(Plan plan) {
  plan = in_pieces(plan, 3);
  plan.optimistic.piece_bytes = 8;
  plan.optimistic.set_bytes = 0;
  return plan;
}

TEST(WorldsInBlocks, OneOperationSurvivesEveryCrashPlanOfUpToSixRanks) {
  for (Rank n = 2; n <= 6; ++n)
    for (std::int32_t f = 0; f <= 2; ++f)
      explore_all(in_blocks(plan_of(n, arguments_of(Kind::allreduce, f, n - 1)), n < 5 ? 1 : 8), f, n == 6 ? 7 : 1);
}

TEST(WorldsInBlocks, OperationsInFlightSurvive) {
  for (Rank n = 2; n <= 4; ++n)
    for (std::int32_t f = 1; f <= 2; ++f) {
      explore_all(in_blocks(plan_of(n, arguments_of(Kind::allreduce, f), 3, 2)), f, n == 4 ? 17 : 3);
      explore_all(in_blocks(plan_of(n, arguments_of(Kind::allreduce, f, 0, chain), 4, 1)), f, n == 4 ? 17 : 3);
    }
}

TEST(WorldsInBlocks, MoreThanFDeathsNeverHangAndNeverLie) {
  for (Rank n = 2; n <= 5; ++n)
    for (std::int32_t f = 0; f <= 1; ++f)
      explore_all(in_blocks(plan_of(n, arguments_of(Kind::allreduce, f), 2, 2), 2), f + 2, 701);
}

TEST(WorldsInBlocks, LongProgramsOfLargerWorldsSurvive) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Rank n = 2 + static_cast<Rank>(seed % 14);
    const std::int32_t f = 1 + static_cast<std::int32_t>(seed % 3);
    std::mt19937_64 random(seed);
    Plan plan = plan_of(n, arguments_of(Kind::allreduce, f), 8, 1 + static_cast<int>(random() % 3), 2 + seed % 3);
    for (Arguments& arguments : plan.program)
      if (random() % 3 == 0)
        arguments = arguments_of(kinds[random() % 4], f, static_cast<Rank>(random() % static_cast<unsigned>(n)));
    walk_many(in_blocks(plan, 1 + seed % 3), std::min(f + static_cast<int>(seed % 2), n - 1), 200, seed);
  }
}

TEST(WorldsInPieces, OneBroadcastSurvivesEveryCrashPlanOfUpToSevenRanks) {
  for (Rank n = 2; n <= 7; ++n)
    for (std::uint64_t pieces : {2, 3, 5, 8})
      for (std::int32_t f = 0; f <= 2; ++f)
        explore_all(in_pieces(plan_of(n, arguments_of(Kind::broadcast, f, n - 1)), pieces), f,
                    n < 5    ? 1
                    : n == 5 ? 3
                             : 17);
}

TEST(WorldsInPieces, OperationsInFlightSurvive) {
  for (Rank n = 2; n <= 4; ++n)
    for (std::int32_t f = 1; f <= 2; ++f)
      for (int in_flight : {1, 2}) {
        Plan plan = in_pieces(plan_of(n, arguments_of(Kind::broadcast, f), 3, in_flight), 3);
        explore_all(plan, f, n < 4 ? 3 : 17);
        plan.program[1] = arguments_of(Kind::allreduce, f);
        explore_all(plan, f, n < 4 ? 3 : 17);
        plan.program[0].root = plan.program[2].root = n - 1;
        plan.program[2].shape = chain;
        explore_all(plan, f, n < 4 ? 3 : 17);
      }
}

TEST(WorldsInPieces, MoreThanFDeathsNeverHangAndNeverLie) {
  for (Rank n = 2; n <= 5; ++n)
    for (std::int32_t f = 0; f <= 1; ++f)
      explore_all(in_pieces(plan_of(n, arguments_of(Kind::broadcast, f, 1), 2, 2), 3), f + 2, 701);
}

TEST(WorldsInPieces, CorrectionsOfTheFallbackSurvive) {
  for (int correction = 1; correction < correction_count; ++correction)
    for (Rank n = 2; n <= 5; ++n) {
      Arguments arguments = arguments_of(Kind::broadcast, 2, n - 1);
      arguments.correction = static_cast<Correction>(correction);
      explore_all(in_pieces(plan_of(n, arguments, 2, 2), 3), 2, 91);
    }
}

TEST(WorldsInPieces, CommunicatorsEnd) {
  for (Rank n = 2; n <= 5; ++n)
    for (std::int32_t f = 1; f <= 2; ++f) {
      Plan plan = in_pieces(plan_of(n, arguments_of(Kind::broadcast, f, n - 1), 2, 2), 3);
      plan.ends = true;
      explore_all(plan, f, n <= 3 ? 7 : 211);
    }
}

TEST(WorldsInPieces, LongProgramsOfLargerWorldsSurvive) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Rank n = 2 + static_cast<Rank>(seed % 14);
    const std::int32_t f = 1 + static_cast<std::int32_t>(seed % 3);
    std::mt19937_64 random(seed);
    const auto a_root = [&] { return static_cast<Rank>(random() % static_cast<unsigned>(n)); };
    Plan plan = plan_of(n, arguments_of(Kind::broadcast, f), 8, 1 + static_cast<int>(random() % 3), 2 + seed % 3);
    for (Arguments& arguments : plan.program)
      arguments = arguments_of(random() % 3 == 0 ? kinds[random() % 4] : Kind::broadcast, f, a_root());
    walk_many(in_pieces(plan, 2 + seed % 5), std::min(f + static_cast<int>(seed % 2), n - 1), 200, seed);
  }
}

// To all, and straight to a root.
class BlocksInPieces : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, BlocksInPieces, testing::Values(Kind::allgather, Kind::gather),
                         [](const auto& each) { return std::string(kind_name(each.param)); });

TEST_P(BlocksInPieces, OneSurvivesEveryCrashPlanOfUpToSixRanks) {
  for (Rank n = 2; n <= 6; ++n)
    for (std::int32_t f = 0; f <= 2; ++f)
      explore_all(all_in_pieces(plan_of(n, arguments_of(GetParam(), f, n - 1))), f, n < 5 ? 1 : n == 5 ? 7 : 41);
}

TEST_P(BlocksInPieces, OperationsInFlightSurvive) {
  for (Rank n = 2; n <= 4; ++n)
    for (std::int32_t f = 1; f <= 2; ++f)
      for (int in_flight : {1, 2}) {
        Plan plan = all_in_pieces(plan_of(n, arguments_of(GetParam(), f), 3, in_flight));
        explore_all(plan, f, n < 4 ? 5 : 43);
        plan.program[1] = arguments_of(Kind::allreduce, f);
        plan.program[2].shape = chain;
        explore_all(plan, f, n < 4 ? 5 : 43);
      }
}

TEST_P(BlocksInPieces, MoreThanFDeathsNeverHangAndNeverLie) {
  for (Rank n = 2; n <= 5; ++n)
    for (std::int32_t f = 0; f <= 1; ++f)
      explore_all(all_in_pieces(plan_of(n, arguments_of(GetParam(), f, 1), 2, 2)), f + 2, n < 5 ? 1501 : 40009);
}

TEST_P(BlocksInPieces, CommunicatorsEnd) {
  for (Rank n = 2; n <= 4; ++n)
    for (std::int32_t f = 1; f <= 2; ++f) {
      Plan plan = all_in_pieces(plan_of(n, arguments_of(GetParam(), f, n - 1), 2, 2));
      plan.ends = true;
      explore_all(plan, f, n <= 3 ? 11 : 401);
    }
}

TEST_P(BlocksInPieces, LongProgramsOfLargerWorldsSurvive) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Rank n = 2 + static_cast<Rank>(seed % 14);
    const std::int32_t f = 1 + static_cast<std::int32_t>(seed % 3);
    std::mt19937_64 random(seed);
    const auto a_root = [&] { return static_cast<Rank>(random() % static_cast<unsigned>(n)); };
    Plan plan = plan_of(n, arguments_of(GetParam(), f), 8, 1 + static_cast<int>(random() % 3), 2 + seed % 3);
    for (Arguments& arguments : plan.program)
      arguments = arguments_of(random() % 3 == 0 ? kinds[random() % 4] : GetParam(), f, a_root());
    walk_many(all_in_pieces(plan), std::min(f + static_cast<int>(seed % 2), n - 1), 200, seed);
  }
}

// ---- data that go straight to their readers (collectives/among/phases/personal_exchange.hpp) ------------------------

// A stream is a record of none to two words, and goes in pieces of so many.
Plan exchanges_of(Rank ranks, const Arguments& arguments, std::size_t operations = 1, int in_flight = 1,
                  std::uint64_t words_of_piece = 2) {
  Plan plan = plan_of(ranks, arguments, operations, in_flight);
  plan.optimistic.piece_bytes = 8 * words_of_piece;
  return plan;
}

// As explore_all(), at any volume but that of a sanitizer: run_mutants needs it.
void explore_each(const Plan& plan, int victims, std::int64_t stride) {
  Scope scope;
  scope.max_victims = victims;
#ifdef __SANITIZE_ADDRESS__
  stride *= thinner;
  scope.stride_of_one = 5;
#endif
  scope.stride = victims < 2 ? 1 : stride;
  const Exploration found = explore(plan, scope);
  EXPECT_EQ(found.violations, 0) << found.first_violation;
  EXPECT_EQ(found.plans, plans_expected(plan, scope)) << describe(plan);
}

class Exchanges : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Exchanges, testing::Values(Kind::exchange, Kind::exchange_from_root),
                         [](const auto& each) { return std::string(kind_name(each.param)); });

TEST_P(Exchanges, OneSurvivesEveryCrashPlanOfUpToFiveRanks) {
  for (Rank n = 1; n <= 5; ++n)
    for (std::int32_t f = 0; f <= 3; ++f)
      explore_each(exchanges_of(n, arguments_of(GetParam(), f, n - 1), 1, 1, n < 4 ? 1 : 3), std::min(f, n - 1),
                   n < 5 ? 1 : 41);
}

// A rank that has been told the set by a root that died then tells the next one that set, and not what it has itself.
TEST_P(Exchanges, EachRootMayDieInTheMiddleOfTellingTheSet) {
  for (Rank root = 0; root < 5; ++root)
    for (const BroadcastShape& shape : {BroadcastShape{}, BroadcastShape{Tree::flat}})
      explore_each(exchanges_of(5, arguments_of(GetParam(), 2, root, shape), 1, 1, 3), 2, 3);
}

TEST_P(Exchanges, InFlightSurviveEveryCrashPlan) {
  for (Rank n = 2; n <= 4; ++n)
    for (std::int32_t f = 1; f <= 2; ++f)
      for (int in_flight : {1, 2}) {
        Plan plan = exchanges_of(n, arguments_of(GetParam(), f), 3, in_flight, 3);
        explore_each(plan, f, n == 2 ? 1 : n == 3 ? 3 : 43);
        plan.program[1] = arguments_of(Kind::allreduce, f);
        plan.program[2].shape = chain;
        explore_each(plan, f, n == 2 ? 1 : n == 3 ? 3 : 43);
      }
}

TEST_P(Exchanges, MoreThanFDeathsNeverHangAndNeverLie) {
  for (Rank n = 2; n <= 5; ++n)
    for (std::int32_t f = 0; f <= 1; ++f)
      explore_each(exchanges_of(n, arguments_of(GetParam(), f, 1), 2, 2, 3), std::min(f + 2, n - 1),
                   n < 4    ? 1
                   : n == 4 ? 29
                            : 1511);
}

TEST_P(Exchanges, CorrectionsOfTheFallbackSurvive) {
  for (int correction = 1; correction < correction_count; ++correction)
    for (Rank n = 2; n <= 4; ++n) {
      Arguments arguments = arguments_of(GetParam(), 2, n - 1);
      arguments.correction = static_cast<Correction>(correction);
      explore_each(exchanges_of(n, arguments, 2, 2, 3), std::min(2, n - 1), 11);
    }
}

TEST_P(Exchanges, CommunicatorsEnd) {
  for (Rank n = 2; n <= 4; ++n)
    for (std::int32_t f = 1; f <= 2; ++f) {
      Plan plan = exchanges_of(n, arguments_of(GetParam(), f, n - 1), 2, 2, 3);
      plan.ends = true;
      explore_each(plan, std::min(f, n - 1), n <= 3 ? 1 : 23);
    }
}

// After any of its operations, whether it waits until no rank needs it or not.
TEST_P(Exchanges, RanksLeave) {
  for (Rank n = 2; n <= 4; ++n)
    for (std::size_t after = 0; after <= 2; ++after)
      for (bool waits : {true, false}) {
        Plan plan = exchanges_of(n, arguments_of(GetParam(), 1), 3, 2, 3);
        plan.leaves = {{n - 1, after, waits}};
        explore_each(plan, 1, 1);
      }
}

// Every block of memory that a rank asks for may be the first that it doesn't get.
TEST_P(Exchanges, ARankWithoutMemoryIsNamed) {
  for (Rank n = 2; n <= 4; ++n)
    for (Rank lacks = 0; lacks < n; ++lacks)
      for (std::int64_t after = 0; after < 6; ++after)
        for (int deaths : {0, 1}) {
          Plan plan = exchanges_of(n, arguments_of(GetParam(), 1), 2, 1, 3);
          plan.short_of_memory = lacks;
          plan.after_blocks = after;
          explore_each(plan, deaths, 1);
        }
}

TEST_P(Exchanges, LongProgramsOfLargerWorldsSurvive) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Rank n = 2 + static_cast<Rank>(seed % 10);
    const std::int32_t f = 1 + static_cast<std::int32_t>(seed % 3);
    std::mt19937_64 random(seed);
    const auto a_root = [&] { return static_cast<Rank>(random() % static_cast<unsigned>(n)); };
    Plan plan = exchanges_of(n, arguments_of(GetParam(), f), 8, 1 + static_cast<int>(random() % 3), 1 + seed % 3);
    plan.window = 2 + static_cast<int>(seed % 3);
    for (Arguments& arguments : plan.program)
      if (random() % 3 == 0) arguments = arguments_of(kinds[random() % std::size(kinds)], f, a_root());
    walk_many(plan, std::min(f + static_cast<int>(seed % 2), n - 1), 1000, seed);
  }
}

// ---- uniform results ------------------------------------------------------------------------------------------------

Plan with_barriers(Plan plan, std::int32_t f) {
  std::vector<Arguments> program;
  for (const Arguments& arguments : plan.program) {
    program.push_back(arguments);
    program.push_back(arguments_of(Kind::barrier, f));
  }
  plan.program.swap(program);
  plan.uniform = true;
  return plan;
}

// A rank that is through the barrier behind an operation has the result that all survivors have, though it dies then.
TEST(Uniform, WithABarrierBehindItEachResultIs) {
  for (Kind kind : {Kind::allreduce, Kind::broadcast, Kind::allgather})
    for (bool optimistic : {true, false})
      for (Rank n = 2; n <= 5; ++n)
        for (std::int32_t f = 1; f <= 3; ++f) {
          Plan plan = with_barriers(plan_of(n, arguments_of(kind, f, n - 1), 2), f);
          plan.optimistic = optimistic;
          explore_all(plan, std::min(f, n - 1), n <= 3 ? 1 : n == 4 ? 401 : 20011);
        }
}

// Else a root may have a result that dies with it.
TEST(Uniform, WithoutIsNot) {
  Plan plan = plan_of(4, arguments_of(Kind::allreduce, 3), 2);
  plan.program[1] = arguments_of(Kind::barrier, 3);
  plan.in_flight = 2;  // so a rank may give to the barrier before it has the result
  plan.optimistic = false;
  plan.uniform = true;
  Scope scope;
  scope.max_victims = 2;
  EXPECT_NE(explore(plan, scope).first_violation.find("is not uniform"), std::string::npos);
}

// A dead host is one failure, however many ranks it had; and on a host that lives any number of them may die.
TEST(WorldsOfHosts, AFailedHostIsOneFailure) {
  for (bool optimistic : {true, false})
    for (Kind kind : kinds)
      for (Rank per_host : {2, 3}) {
        Plan plan = plan_of(3 * per_host, arguments_of(kind, 1, 1), 2, 2);
        plan.optimistic = optimistic;
        plan.ranks_per_host = per_host;
        explore_all(plan, per_host, per_host == 2 ? 7 : 60001);
        walk_many(plan, per_host + 1, 4000, 11);
      }
}

TEST(WorldsOfHosts, TwoFailedHostsAreTwo) {
  for (Kind kind : kinds) {
    Plan plan = plan_of(8, arguments_of(kind, 2), 3, 2);
    plan.ranks_per_host = 2;
    walk_many(plan, 5, 10000, 12);
    plan.ranks_per_host = 4;
    walk_many(plan, 5, 10000, 13);
  }
}

// So many that it can't be right to go on: the same error on all.
TEST(WorldsOfHosts, MoreThanFHostsAreTooMany) {
  std::int64_t refused = 0;
  for (std::int64_t after = 0; after < 8; ++after) {
    Plan plan = plan_of(8, arguments_of(Kind::allreduce, 1));
    plan.ranks_per_host = 2;
    for (Rank victim = 2; victim < 8; ++victim) plan.crashes.push_back({victim, victim == 2 ? after : 0});
    World world(plan);
    ASSERT_TRUE(world.run());
    ASSERT_EQ(world.check(), "") << describe(plan);
    refused += world.result(0, 0).outcome == Outcome::too_many_failures;
  }
  EXPECT_GT(refused, 0);
}

// A rank that lives has sent no more than the boundaries that are tried for it as one more victim.
void reach_the_last_send(bool is_long, Kind kind) {
  for (Rank n = 2; n <= 6; ++n)
    for (Rank victim = 0; victim < n; ++victim) {
      Plan plan = plan_of(n, arguments_of(kind, 2));
      if (is_long)
        plan = kind == Kind::allreduce   ? in_blocks(plan)
               : kind == Kind::broadcast ? in_pieces(plan, 4)
                                         : all_in_pieces(plan);
      const std::int64_t all = boundaries(victim, plan, 2);
      for (std::int64_t after = 0; after < all; ++after)
        for (int order = 0; order < order_count; ++order) {
          plan.order = static_cast<Order>(order);
          plan.crashes = {{victim, after}};
          World world(plan);
          ASSERT_TRUE(world.run());
          for (Rank rank : world.survivors())
            ASSERT_LT(world.sends(rank), boundaries(rank, plan, 2)) << describe(plan) << " rank " << rank;
        }
    }
}

TEST(OptimisticWorlds, CrashPointsReachTheLastSendOfEveryRank) {
  for (Kind kind : kinds) reach_the_last_send(false, kind);
  for (Kind kind : {Kind::allreduce, Kind::broadcast, Kind::allgather, Kind::gather}) reach_the_last_send(true, kind);
}

// A rank without memory for the sums says so before it sends anything, so nobody is through without it.
TEST(OptimisticWorlds, MemoryThatRunsOutEndsOperationsOnAllByName) {
  for (const auto& [kind, blocks] :
       {std::pair(Kind::allreduce, false), {Kind::allreduce, true}, {Kind::reduce, false}, {Kind::broadcast, true}})
    for (Rank n = 2; n <= 7; ++n)
      for (Rank victim = -1; victim < n; victim += 2) {
        Arguments arguments = arguments_of(kind, 1);
        arguments.count = 512;
        Plan plan = plan_of(n, arguments, 4, 2);
        if (blocks) plan = in_blocks(plan, 100);
        if (victim >= 0) plan.crashes = {{victim, 3}};
        int ends = 0;
        for (plan.short_of_memory = 0; plan.short_of_memory < n; ++plan.short_of_memory)
          for (int order = 0; order < order_count; ++order)
            for (plan.after_blocks = 0; plan.after_blocks < 24; plan.after_blocks += thinner == 1 ? 1 : 7) {
              plan.order = static_cast<Order>(order);
              World world(plan);
              ASSERT_TRUE(world.run()) << describe(plan);
              ASSERT_EQ(world.check(), "") << describe(plan);
              for (Rank rank : world.survivors())
                for (std::size_t i = 0; i < plan.program.size(); ++i)
                  ends += world.result(rank, i).outcome == Outcome::no_memory;
            }
        EXPECT_GT(ends, 0);
      }
}

}  // namespace
}  // namespace ucft::detail::simulator
