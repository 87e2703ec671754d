// The host stage in every order of accesses to memory, with deaths between any two of them and news of a death after
// any delay; larger worlds by chance.
#include "simulator/host_explorer.hpp"

#include <gtest/gtest.h>

#include "collectives/catalogue/catalogue.hpp"

namespace ucft::detail::simulator {
namespace {

#ifdef UCFT_SMALL
constexpr std::int64_t most_states = 5000;  // then it stops, and says so
constexpr std::int64_t walks = 8;
#else
constexpr std::int64_t most_states = 100000000;
constexpr std::int64_t walks = 300;
#endif
#ifdef __SANITIZE_ADDRESS__  // which is slow; not for run_mutants, which needs them
constexpr std::int64_t walks_of_large = 1;
#else
constexpr std::int64_t walks_of_large = 3;
#endif

HostCall call(Pattern pattern, Rank root = 0, std::uint64_t count = 1) {
  HostCall it;
  it.pattern = pattern;
  it.root = root;
  it.count = count;
  return it;
}
const HostCall allreduce = call(Allreduce::row.pattern()), barrier = call(Allreduce::row.pattern(), 0, 0),
               allgather = call(Allgather::row.pattern()), scan = call(Scan::row.pattern());
HostCall broadcast(Rank root) { return call(Broadcast::row.pattern(), root); }
HostCall reduce(Rank root) { return call(Reduce::row.pattern(), root); }
HostCall gather(Rank root) { return call(GatherToRoot::row.pattern(), root); }
// Of so many elements each rank takes one, in the order of ranks.
HostCall reduce_scatter(std::uint64_t count = 1, const HostCall& sum = call(ReduceScatter::row.pattern())) {
  HostCall it = sum;
  it.count = count;
  it.share.count = 1;
  return it;
}

HostCall scatter(Rank root, std::uint64_t count = 1) {
  return reduce_scatter(count, call(ScatterFromRoot::row.pattern(), root));
}

// The same plan without the orders that nobody can tell apart from others.
HostPlan reduced(HostPlan plan) {
  plan.reduced = true;
  return plan;
}

// Nothing is broken in any of its orders; and what they lead to is what the reduced ones lead to. Nor where each rank
// runs what it can (HostStage::run).
void explore_all(const HostPlan& plan, std::int64_t at_least) {
  if (plan.degree == 0 && !plan.runs) {
    HostPlan running = reduced(plan);
    running.runs = true;
    const HostExploration same = explore(running, most_states);
    EXPECT_EQ(same.violation, "");
#ifndef UCFT_SMALL
    EXPECT_TRUE(same.is_complete);
    EXPECT_GE(same.ends, 1);
#endif
  }
  const HostExploration found = explore(plan, most_states, true), fewer = explore(reduced(plan), most_states, true);
  EXPECT_EQ(found.violation, "");
  EXPECT_EQ(fewer.violation, "");
#ifdef UCFT_SMALL
  if (!found.is_complete) return;
#endif
  EXPECT_TRUE(found.is_complete);
  EXPECT_GE(found.states, at_least);
  EXPECT_GE(found.ends, 1);
  EXPECT_TRUE(fewer.is_complete);
  EXPECT_LT(fewer.states, found.states);
  EXPECT_EQ(fewer.contents, found.contents);
  EXPECT_EQ(fewer.sum_of_contents, found.sum_of_contents);
  testing::Test::RecordProperty("states", std::to_string(found.states));
}

TEST(HostExplorer, EachCollectiveOfThreeRanksOfWhomTwoDie) {
  for (const HostCall& each :
       {allreduce, barrier, broadcast(0), broadcast(1), reduce(0), reduce(2), gather(0), gather(2), reduce_scatter()}) {
    SCOPED_TRACE(static_cast<int>(each.pattern.gets));
    explore_all({.ranks = 3, .program = {each}, .max_deaths = 2}, 5000);
  }
}

TEST(HostExplorer, RunningAllreducesOfThreeRanksInAllOrders) {
  explore_all({.ranks = 3, .program = {allreduce}, .max_deaths = 2, .runs = true}, 4000);
}

TEST(HostExplorer, AnAllgatherOfThreeRanksOfWhomOneDies) {
  explore_all({.ranks = 3, .program = {allgather}, .max_deaths = 1}, 5000);
}

// The first rank may be far ahead. That it has posted shows nothing of the others.
TEST(HostExplorer, ARankAheadInScansOverwritesNothingThatIsRead) {
  explore_all({.ranks = 2, .window = 1, .banks = 2, .program = {scan, scan, scan}, .max_deaths = 0}, 100);
  explore_all({.ranks = 2, .window = 1, .banks = 2, .program = {scan, scan, scan, scan}}, 1000);
}

TEST(HostExplorer, AScanWaitsForTheRanksUpToItsOwn) {
  explore_all({.ranks = 3, .program = {scan}, .max_deaths = 2}, 2000);
  explore_all({.ranks = 2, .window = 2, .banks = 4, .program = {scan, scan, barrier, scan}}, 1000);
  explore_all({.ranks = 2, .program = {call(Scan::row.pattern(), 0, 2), scan}, .areas = 1}, 1000);
}

// What the others compare with all orders: by themselves they find what is broken, too.
TEST(HostExplorer, ThreeRanksInTheReducedOrdersAlone) {
  for (const HostCall& each : {allreduce, broadcast(0), reduce(2), gather(2)}) {
    SCOPED_TRACE(static_cast<int>(each.pattern.gets));
    const HostExploration found = explore(reduced({.ranks = 3, .program = {each}, .max_deaths = 2}), most_states);
    EXPECT_EQ(found.violation, "");
    EXPECT_GE(found.states, 1000);
  }
}

// With deaths by `ucft_sim explore-host --reduced --ranks 4 --deaths 3 --window 1`.
TEST(HostExplorer, FourRanksInTheReducedOrders) {
  for (const HostCall& each : {barrier, broadcast(0)}) {
    SCOPED_TRACE(static_cast<int>(each.pattern.gets));
    const HostExploration found =
        explore(reduced({.ranks = 4, .window = 1, .banks = 2, .program = {each}, .max_deaths = 0}), most_states);
    EXPECT_EQ(found.violation, "");
#ifdef UCFT_SMALL
    if (!found.is_complete) continue;
#endif
    EXPECT_TRUE(found.is_complete);
    EXPECT_GE(found.states, 100000);
    EXPECT_EQ(found.ends, 1);
  }
}

TEST(HostExplorer, SeveralOperationsInFlightAndBanksThatAreUsedAgain) {
  explore_all({.ranks = 2,
               .window = 2,
               .banks = 4,
               .program = {allreduce, broadcast(0), reduce(1), allgather, barrier, allreduce}},
              20000);
  explore_all(
      {.ranks = 2, .window = 3, .banks = 4, .program = {reduce(0), reduce(1), reduce(0), broadcast(0), broadcast(0)}},
      20000);
  explore_all({.ranks = 2, .window = 1, .banks = 2, .program = std::vector<HostCall>(7, allreduce)}, 4000);
}

// Nobody learns from them that others are through: banks are free when all say that they are through.
TEST(HostExplorer, BroadcastsAndReducesAloneNeverOverwriteWhatIsStillRead) {
  for (const HostCall& each : {broadcast(0), reduce(0), gather(0)})
    for (Rank ranks : {2, 3})
      explore_all({.ranks = ranks,
                   .window = 1,
                   .banks = 2,
                   .program = std::vector<HostCall>(ranks == 2 ? 6 : 3, each),
                   .max_deaths = ranks == 2 ? 1 : 0},
                  2000);
}

TEST(HostExplorer, TheDeadHoldNoBank) {
  explore_all({.ranks = 2, .window = 1, .banks = 2, .program = std::vector<HostCall>(3, broadcast(0)), .max_deaths = 1},
              500);
}

TEST(HostExplorer, WhoHasPostedAnOperationMayReadItYet) {
  explore_all({.ranks = 2,
               .window = 1,
               .banks = 2,
               .program = {broadcast(0), allreduce, broadcast(0), broadcast(0)},
               .max_deaths = 1},
              2000);
}

TEST(HostExplorer, ATreeWhoseBanksAreUsedAgain) {
  explore_all({.ranks = 2, .window = 1, .banks = 2, .degree = 1, .program = std::vector<HostCall>(5, allreduce)}, 5000);
}

TEST(HostExplorer, ATreeWhoseInnerNodesDie) {
  explore_all({.ranks = 3, .degree = 1, .patience = 0, .program = {allreduce}, .max_deaths = 1}, 50000);
  explore_all({.ranks = 3, .degree = 1, .patience = 1, .program = {barrier}, .max_deaths = 1}, 50000);
}

using What = HostWorld::Event::What;

bool may(const HostWorld& world, What what, Rank rank) {
  for (const HostWorld::Event& event : world.events())
    if (event.what == what && event.rank == rank) return true;
  return false;
}
// A whole call, with nobody between its accesses.
void make(HostWorld& world, What call, Rank rank) {
  ASSERT_TRUE(may(world, call, rank));
  world.happen({call, rank});
  while (may(world, What::go_on, rank)) world.happen({What::go_on, rank});
}

// 0 -> 1 -> 2. The dead inner node has given its value but not the sum of what is below it.
TEST(HostWorld, BelowADeadInnerNodeTheLivingAreWaitedFor) {
  HostWorld world({.ranks = 3, .degree = 1, .program = {allreduce}, .max_deaths = 1});
  make(world, What::post, 1);
  world.happen({What::death, 1});
  world.happen({What::news, 0, 1});
  make(world, What::post, 0);
  for (int looks = 0; looks < 3; ++looks) make(world, What::progress, 0);
  EXPECT_FALSE(may(world, What::close, 0));
  make(world, What::post, 2);
  make(world, What::progress, 0);
  EXPECT_TRUE(may(world, What::close, 0));
  EXPECT_EQ(world.violation(), "");
}

// 0 is dead, and has given nothing. 1 and 2 have given, and died before they made the sums of their subtrees.
TEST(HostWorld, SumsThatDeadInnerNodesHaveNotMadeAreKeptApart) {
  HostWorld world({.ranks = 7, .degree = 2, .program = {allreduce}, .max_deaths = 3});
  for (Rank inner : {1, 2}) make(world, What::post, inner);
  for (Rank dead : {0, 1, 2}) world.happen({What::death, dead});
  for (Rank dead : {0, 1, 2}) world.happen({What::news, 3, dead});
  for (Rank leaf : {4, 5, 6, 3}) make(world, What::post, leaf);
  make(world, What::progress, 3);
  EXPECT_TRUE(may(world, What::close, 3));
  EXPECT_EQ(world.violation(), "");
}

// 0 has given something to the first operation, and died before the second.
TEST(HostWorld, WhoIsAbsentFromAnOperationIsInThoseBeforeIt) {
  HostWorld world({.ranks = 3, .program = {allreduce, allreduce}, .max_deaths = 1});
  make(world, What::post, 0);
  world.happen({What::death, 0});
  for (int i = 0; i < 2; ++i) make(world, What::post, 1);
  world.happen({What::news, 1, 0});
  make(world, What::progress, 1);
  for (int i = 0; i < 2; ++i) make(world, What::post, 2);
  make(world, What::progress, 1);
  EXPECT_EQ(world.violation(), "");
  EXPECT_TRUE(may(world, What::close, 1));
}

// 0 gives something and dies between the looks of 1 at its value and at its death.
TEST(HostWorld, WhoDiesAfterItsValueIsNotAbsent) {
  HostWorld world({.ranks = 3, .program = {allreduce}, .max_deaths = 1});
  make(world, What::post, 1);
  world.happen({What::progress, 1});  // the shortcut's look
  world.happen({What::go_on, 1});     // that before a proof is asked for
  make(world, What::post, 0);
  world.happen({What::death, 0});
  world.happen({What::news, 1, 0});
  while (may(world, What::go_on, 1)) world.happen({What::go_on, 1});
  make(world, What::post, 2);
  make(world, What::progress, 1);
  EXPECT_EQ(world.violation(), "");
  EXPECT_TRUE(may(world, What::close, 1));
}

// 0 -> 1 -> 2: 1 gives a sum of something else than 0 has posted.
TEST(HostWorld, APartialResultOfAnotherOperationIsNoResult) {
  HostWorld world({.ranks = 3, .degree = 1, .program = {allreduce}, .max_deaths = 0, .differs = 0});
  for (Rank rank : {2, 1}) make(world, What::post, rank);
  make(world, What::progress, 1);  // gives its P
  make(world, What::post, 0);
  make(world, What::progress, 0);
  EXPECT_TRUE(may(world, What::close, 0));
  EXPECT_EQ(world.violation(), "");
}

HostCall large(Pattern pattern, Rank root = 0) { return call(pattern, root, 2); }

TEST(HostExplorer, DataInAreasThatAreUsedAgain) {
  const HostCall sum = large(Allreduce::row.pattern()), blocks = large(Allgather::row.pattern()),
                 from = large(Broadcast::row.pattern()), to = large(Reduce::row.pattern(), 1);
  for (int patience : {0, 1}) explore_all({.ranks = 2, .patience = patience, .program = {sum, sum}, .areas = 1}, 9000);
  explore_all({.ranks = 2, .window = 3, .banks = 4, .program = {from, to, from, blocks}, .areas = 1}, 5000);
  explore_all({.ranks = 2, .program = {sum, allreduce, blocks, to}, .areas = 2}, 9000);
  explore_all({.ranks = 2, .program = {reduce_scatter(2), sum, reduce_scatter(2)}, .areas = 2}, 5000);
  explore_all({.ranks = 2, .program = {large(GatherToRoot::row.pattern(), 1), sum, blocks}, .areas = 2}, 1000);
}

// A sum that must be divided by the number of those that gave something, once: by who combines a chunk.
HostCall average(std::uint64_t count) {
  HostCall it = call(Allreduce::row.pattern(), 0, count);
  it.reduction = Reduction{DataType::float64, Operator::average};
  return it;
}
// And made of all inputs at once.
HostCall swept(std::uint64_t count, Pattern pattern = Allreduce::row.pattern(),
               Operator op = Operator::average_reproducible) {
  HostCall it = call(pattern, 0, count);
  it.reduction = Reduction{DataType::float64, op}.in_two_sweeps();
  return it;
}
TEST(HostExplorer, SumsInTwoSweepsAreOfWhoHasStamped) {
  const HostCall to = swept(2, Reduce::row.pattern());
  explore_all({.ranks = 2, .patience = 1, .program = {swept(2), swept(1)}, .areas = 1}, 3000);
  explore_all({.ranks = 2, .program = {swept(2), to}, .areas = 1, .has_chunks = false}, 1000);
  const HostCall sum = swept(1, Allreduce::row.pattern(), Operator::sum_reproducible);
  explore_all({.ranks = 3, .program = {sum}, .max_deaths = 2}, 1000);
  for (Rank ranks : {3, 5}) {
    const HostPlan plan{
        .ranks = ranks, .patience = 1, .program = {swept(2), to, swept(1)}, .areas = 2, .max_deaths = ranks - 1};
    EXPECT_EQ(walk(plan, 20 + walks, 11).violation, "") << ranks << " ranks";
  }
}
TEST(HostExplorer, AveragesAreDividedOnce) {
  explore_all({.ranks = 2, .patience = 1, .program = {average(2), average(1)}, .areas = 1}, 3000);
  explore_all({.ranks = 3, .degree = 1, .program = {average(1)}, .max_deaths = 1}, 1000);
}
TEST(HostExplorer, SharesOfSumsInEachWay) {
  explore_all({.ranks = 3, .program = {reduce_scatter(2)}, .areas = 1, .max_deaths = 2}, 5000);
  explore_all({.ranks = 3, .degree = 1, .program = {reduce_scatter()}, .max_deaths = 1}, 5000);
  explore_all({.ranks = 2, .program = {scatter(0, 2), scatter(1, 2), scatter(0, 2)}, .areas = 1}, 500);
  explore_all({.ranks = 3, .program = {scatter(1, 2)}, .areas = 1, .has_chunks = false, .max_deaths = 2}, 500);
  const std::vector<HostCall> sums{reduce_scatter(2), reduce_scatter(2, average(2)), reduce_scatter(2, swept(2)),
                                   reduce_scatter(2, swept(2, Allreduce::row.pattern(), Operator::sum_reproducible))};
  for (const HostCall& each : sums)
    for (bool has_chunks : {true, false})
      explore_all({.ranks = 2, .program = {each, each}, .areas = 1, .has_chunks = has_chunks}, 500);
  for (Rank ranks : {3, 5}) {
    const HostPlan plan{.ranks = ranks, .patience = 1, .program = sums, .areas = 2, .max_deaths = ranks - 1};
    EXPECT_EQ(walk(plan, 20 + walks, 12).violation, "") << ranks << " ranks";
  }
}
TEST(HostExplorer, AveragesOfManyRanksAreDividedOnce) {
  for (Rank ranks : {3, 5}) {
    const HostPlan plan{
        .ranks = ranks, .patience = 1, .program = {average(2), average(2)}, .areas = 1, .max_deaths = ranks - 1};
    EXPECT_EQ(walk(plan, 20 + walks, 11).violation, "") << ranks << " ranks";
  }
}

// Too long for the slab, and not for each to combine, or for the tree.
TEST(HostExplorer, DataInAreasWithoutChunks) {
  const HostCall sum = large(Allreduce::row.pattern());
  for (int degree : {0, 1})
    explore_all({.ranks = 2, .degree = degree, .program = {sum, sum}, .areas = 1, .has_chunks = false}, 5000);
  explore_all({.ranks = 3, .degree = 1, .program = {sum}, .areas = 1, .has_chunks = false, .max_deaths = 0}, 5000);
}

// The same, of ranks that run them: each is in a place that an earlier one was in.
TEST(HostExplorer, PlacesOfDataThatAreUsedAgain) {
  const HostCall sum = large(Allreduce::row.pattern()), blocks = large(Allgather::row.pattern()),
                 from = large(Broadcast::row.pattern()), to = large(Reduce::row.pattern(), 1),
                 at = large(GatherToRoot::row.pattern(), 1);
  for (const std::vector<HostCall>& program : {std::vector{sum, sum},
                                               {from, from, from},
                                               {to, to},
                                               {blocks, from, sum},
                                               {from, allreduce, sum},
                                               {at, at, sum},
                                               {reduce_scatter(2), sum, reduce_scatter(2)},
                                               {scatter(1, 2), scatter(0, 2), sum}})
    for (OperationNumber places : {1, 2})
      explore_all({.ranks = 2,
                   .window = 1,
                   .banks = 4,
                   .program = program,
                   .areas = 1,
                   .has_chunks = false,
                   .runs = true,
                   .places = places},
                  300);
  explore_all({.ranks = 3,
               .window = 1,
               .banks = 2,
               .program = {large(Broadcast::row.pattern(), 1), from},
               .areas = 1,
               .has_chunks = false,
               .max_deaths = 0,
               .runs = true,
               .places = 1},
              300);
}

// Of the chunks of three ranks the third has none; who dies may leave one that it had combined, or not.
TEST(HostExplorer, ChunksOfTheDeadAreCombinedByAll) {
  explore_all({.ranks = 3, .program = {large(Allreduce::row.pattern())}, .areas = 1, .max_deaths = 0}, 50000);
  const HostPlan plan{.ranks = 4,
                      .window = 2,
                      .program = std::vector<HostCall>(6, large(Allreduce::row.pattern())),
                      .areas = 1,
                      .max_deaths = 3};
  const HostExploration found = walk(plan, (walks + 3) / 4, 11);
  EXPECT_EQ(found.violation, "");
  EXPECT_GE(found.ends_of_several * 2, found.ends);
}

// Leaving early: the others' operations complete without it, and its memory stays until all have left.
TEST(HostExplorer, ARankThatLeavesBeforeTheOthers) {
  for (const HostCall& each : {allreduce, allgather, scan, broadcast(0), broadcast(1), reduce(0), reduce(1), gather(1)})
    explore_all({.ranks = 2, .program = {each, each}, .max_deaths = 1, .max_leavers = 1}, 300);
  for (int degree : {0, 1})
    explore_all({.ranks = 2,
                 .degree = degree,
                 .program = {large(Allreduce::row.pattern()), allreduce},
                 .areas = 1,
                 .max_leavers = 2},
                300);
  explore_all({.ranks = 3, .window = 1, .banks = 2, .program = {allreduce}, .max_deaths = 0, .max_leavers = 2}, 300);
  explore_all({.ranks = 3, .window = 1, .banks = 2, .program = {reduce(1)}, .max_deaths = 0, .max_leavers = 1}, 300);
}

// With no barrier at its end: a rank may have left, and begun with the next, before another has begun with this.
TEST(HostExplorer, MemoryThatGoesToAnotherUseWhileOthersAreLate) {
  explore_all({.ranks = 2, .window = 1, .banks = 2, .program = {reduce(0)}, .uses = 2, .max_leavers = 1}, 300);
  explore_all({.ranks = 2, .window = 1, .banks = 2, .program = {broadcast(1)}, .uses = 3, .max_deaths = 0}, 300);
  explore_all({.ranks = 2, .window = 1, .banks = 2, .program = {allreduce}, .uses = 2, .max_leavers = 2}, 300);
}

TEST(HostExplorer, MemoryThatGoesToAnotherUse) {
  explore_all({.ranks = 2, .window = 1, .banks = 2, .program = {allreduce, broadcast(0), barrier}, .uses = 3}, 2000);
  explore_all({.ranks = 2, .window = 2, .banks = 4, .program = {broadcast(1), reduce(0), barrier}, .uses = 2}, 2000);
  explore_all({.ranks = 3, .window = 1, .banks = 2, .program = {barrier}, .uses = 2, .max_deaths = 0}, 2000);
  explore_all({.ranks = 2,
               .window = 1,
               .banks = 2,
               .program = {call(Allreduce::row.pattern(), 0, 2), barrier},
               .areas = 1,
               .uses = 2},
              2000);
}

TEST(HostExplorer, OneWithoutMemoryIsNamedByAll) {
  for (const HostCall& each :
       {allreduce, allgather, scan, broadcast(1), large(Allreduce::row.pattern()), large(Allgather::row.pattern())})
    for (int degree : {0, 1})
      explore_all({.ranks = 2, .degree = degree, .program = {each, barrier}, .areas = 1, .lacks = 1}, 500);
}

TEST(HostExplorer, WhoPostsSomethingElseHoldsNobodyUp) {
  for (const HostCall& each : {allreduce, allgather, scan, broadcast(0), broadcast(1), reduce(0), reduce(1),
                               large(Allreduce::row.pattern()), large(Broadcast::row.pattern())})
    for (int degree : {0, 1})
      for (bool in_length : {false, true}) {
        if (in_length && each.pattern.puts_side_by_side()) continue;  // blocks may differ
        explore_all({.ranks = 2,
                     .degree = degree,
                     .program = {each, each},
                     .areas = 1,
                     .differs = 1,
                     .differs_in_length = in_length},
                    300);
      }
}

// The others' values come one after the other; what was looked at first is not looked at again.
TEST(HostExplorer, TheFirstOfThreePostsSomethingElse) {
  explore_all({.ranks = 3, .program = {allreduce}, .max_deaths = 0, .differs = 0}, 300);
}

TEST(HostExplorer, LargerWorldsByChance) {
  std::vector<HostCall> program;
  for (int i = 0; i < 24; ++i)
    program.push_back(std::vector<HostCall>{allreduce, broadcast(i % 3), reduce(i % 4), gather((i + 1) % 4),
                                            i % 2 == 0 ? allgather : scan, barrier, large(Allreduce::row.pattern()),
                                            large(Reduce::row.pattern(), i % 4),
                                            large(Broadcast::row.pattern(), i % 3)}[i * 7 % 11 % 9]);
  program.push_back(barrier);
  for (Rank ranks : {4, 5, 8})
    for (int degree : {0, 1, 2})
      for (int window : {1, 3}) {
        const HostExploration found = walk({.ranks = ranks,
                                            .window = window,
                                            .banks = window == 1 ? 2 : 4,
                                            .degree = degree,
                                            .patience = degree * window,
                                            .program = program,
                                            .areas = 1,
                                            .uses = 2,
                                            .max_deaths = ranks - 1,
                                            .max_leavers = degree == 2 ? 0 : 1,
                                            .runs = window == 1},
                                           walks_of_large + walks / (8 * ranks), 7);
        EXPECT_EQ(found.violation, "") << ranks << " ranks, degree " << degree << ", window " << window;
        EXPECT_GE(found.ends_of_several * 2, found.ends);
      }
}

// What the conditions are for, and that this explorer sees it.
TEST(HostExplorer, ASuspicionIsNotAProof) {
  for (Rank ranks : {2, 3})
    for (const HostCall& each : {allreduce, barrier, allgather, scan, broadcast(0), reduce(0)}) {
      const HostPlan plan{.ranks = ranks, .program = {each}, .max_deaths = 0, .trusts_suspicions = true};
      EXPECT_NE(explore(plan, most_states).violation, "");
      EXPECT_NE(explore(reduced(plan), most_states).violation, "");
    }
}

}  // namespace
}  // namespace ucft::detail::simulator
