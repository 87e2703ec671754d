// Broadcasts by gossip under the clock, the product's own objects: what the model says of them, whom they reach, and
// what they are compared with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "collectives/models/gossip_model.hpp"
#include "collectives/core/random.hpp"
#include "simulator/broadcast_comparators.hpp"

namespace ucft::detail::simulator {
namespace {

struct Question {
  Rank ranks = 1024;
  double latency = 2;
  Correction correction = Correction::checked;
  std::int32_t distance = 0, f = 1;
  double time = 0;        // T; 0: by the model
  std::int32_t dead = 0;  // before, unknown to all
  std::int64_t ask_after_ns = never_asks;
};

struct Answer {
  double end = 0, gap = 0;  // means
  std::int64_t missed = 0, wrong = 0, asked = 0, messages = 0;
};

CollectiveRun run_of(const Question& question, std::uint64_t seed) {
  CollectiveRun run;
  run.setting.ranks = question.ranks;
  run.setting.costs.latency = question.latency;
  run.setting.seed = seed;
  run.arguments.kind = Kind::broadcast;
  run.arguments.f = question.f;
  run.arguments.correction = question.correction;
  run.arguments.correction_distance = question.distance;
  set_gossip(run.setting.costs, 8, question.ranks, std::llround(question.time * 1000), run.arguments);
  run.arguments.gossip.seed = seed;
  run.arguments.gossip.ask_after_ns = question.ask_after_ns;
  Random random(seed);
  while (static_cast<std::int32_t>(run.setting.dead.size()) < question.dead) {
    const auto rank = static_cast<Rank>(1 + random.below(static_cast<std::uint64_t>(question.ranks) - 1));
    if (std::ranges::find(run.setting.dead, rank) == run.setting.dead.end()) run.setting.dead.push_back(rank);
  }
  return run;
}

Answer ask(const Question& question, int runs) {
  Answer answer;
  for (int run = 0; run < runs; ++run) {
    CollectiveRun one = run_of(question, static_cast<std::uint64_t>(run) + 1);
    const std::unique_ptr<Network> network = make_network({}, one.setting.costs);
    one.setting.network = network.get();
    const CollectiveResult result = simulate(one);
    answer.end += result.end / runs;
    answer.gap += static_cast<double>(result.largest_gap) / runs;
    answer.missed += result.missed;
    answer.wrong += result.wrong;
    answer.asked += result.by_phase[static_cast<int>(Phase::ask)];
    answer.messages += result.messages;
  }
  return answer;
}

// ---- model and simulation -------------------------------------------------------------------------------------------

TEST(GossipModelAgainstTheClock, ItsTIsAsGoodAsTheBestAround) {
  for (Rank ranks : {256, 1024, 4096})
    for (double latency : {1.0, 4.0}) {
      Question question{.ranks = ranks, .latency = latency};
      GossipCase given;
      given.size = ranks;
      given.costs.latency = latency;
      const GossipForecast best = best_gossip(given);
      const int runs = 20000 / ranks + 5;
      const double chosen = ask(question, runs).end;
      double least = chosen;
      for (double away : {-4, -3, -2, -1, 1, 2, 3, 4}) {
        question.time = best.time + away;
        least = std::min(least, ask(question, runs).end);
      }
      EXPECT_LE(chosen, 1.04 * least) << ranks << " ranks, L " << latency << ", T " << best.time;
      EXPECT_NEAR(best.end, chosen, 0.08 * chosen) << ranks << " ranks, L " << latency;
    }
}

// Whichever of a tree and gossip the model prefers is over earlier under the clock, or not much later; both are
// preferred somewhere.
TEST(GossipModelAgainstTheClock, ItPrefersWhatIsFaster) {
  int trees = 0, gossips = 0;
  for (Rank ranks : {16, 64, 1024})
    for (double latency : {0.1, 1.0, 4.0, 40.0}) {
      Question question{.ranks = ranks, .latency = latency};
      CollectiveRun tree = run_of(question, 1);
      tree.arguments.gossip = {};
      tree.arguments.shape = best_shape(tree.setting.costs, 8);
      const std::unique_ptr<Network> network = make_network({}, tree.setting.costs);
      tree.setting.network = network.get();
      GossipCase given;
      given.size = ranks;
      given.costs = tree.setting.costs;
      const bool gossip = forecast_spread(given, tree.arguments.shape).gossip_is_faster();
      ++(gossip ? gossips : trees);
      const double tree_end = simulate(tree).end, gossip_end = ask(question, 20).end;
      EXPECT_LE(gossip ? gossip_end : tree_end, 1.1 * (gossip ? tree_end : gossip_end))
          << ranks << " ranks, L " << latency << ", tree " << tree_end << ", gossip " << gossip_end;
    }
  EXPECT_GT(trees, 0);
  EXPECT_GT(gossips, 0);
}

// In flight at T, and the longest run: at 1024 ranks, L = 2, T = 26 a run of 3 at most, not of 11.
TEST(GossipModelAgainstTheClock, LongestRunsAreThoseThatAreExpected) {
  for (double time : {22.0, 24.0, 26.0}) {
    GossipCase given;
    given.size = 1024;
    const double expected = forecast_gossip(given, time).longest_gap;
    const double seen = ask({.time = time}, 60).gap;
    EXPECT_NEAR(seen, expected, 0.15 * expected + 0.2) << "T " << time;
  }
}

// ---- whom they reach ------------------------------------------------------------------------------------------------

TEST(CorrectedGossipUnderTheClock, CcgAndFcgReachAllAndTheirValueIsRight) {
  for (Correction correction : {Correction::checked, Correction::failure_proof})
    for (std::int32_t dead : {0, 1, 10, 100}) {
      const Answer answer = ask({.ranks = 1000, .correction = correction, .dead = dead}, 10);
      EXPECT_EQ(answer.missed, 0) << dead;
      EXPECT_EQ(answer.wrong, 0);
    }
}

TEST(CorrectedGossipUnderTheClock, OcgWithAShortTMissesSomeAndTheyAskTheRoot) {
  Question question{.ranks = 1000, .correction = Correction::opportunistic, .distance = 2, .time = 22};
  EXPECT_GT(ask(question, 10).missed, 0);
  EXPECT_EQ(ask({.ranks = 1000, .correction = Correction::opportunistic}, 10).missed, 0) << "T and C by the model";
  question.ask_after_ns = 100000;
  const Answer answer = ask(question, 10);
  EXPECT_EQ(answer.missed, 0);
  EXPECT_GT(answer.asked, 0);
  EXPECT_LT(answer.asked, 10 * 100) << "only who was passed by";
}

TEST(CorrectedGossipUnderTheClock, NobodyAsksWhereAllAreReachedInTime) {
  EXPECT_EQ(ask({.ask_after_ns = 100000}, 5).asked, 0);
}

// ---- comparators ----------------------------------------------------------------------------------------------------

CollectiveResult compare(Comparator algorithm, Rank ranks, std::vector<Rank> dead = {},
                         std::vector<Death> deaths = {}) {
  ComparatorRun run;
  run.algorithm = algorithm;
  run.kind = Kind::broadcast;
  run.setting.ranks = ranks;
  run.setting.detection_delay = 40;
  run.setting.dead = std::move(dead);
  run.setting.deaths = std::move(deaths);
  const std::unique_ptr<Network> network = make_network({}, run.setting.costs);
  run.setting.network = network.get();
  return simulate(run);
}

TEST(BinomialGraph, EachRankSendsToAllItsNeighboursButOne) {
  for (Comparator algorithm : {Comparator::big, Comparator::big_both_ways})
    for (Rank ranks : {2, 3, 8, 100, 1024}) {
      const CollectiveResult result = compare(algorithm, ranks);
      EXPECT_EQ(result.missed, 0);
      EXPECT_EQ(result.wrong, 0);
    }
  // 8 ranks: +1, +2, +4; the source is the neighbour that is 4 away, if any. Both ways +-1, +-2, 4: five neighbours.
  EXPECT_EQ(compare(Comparator::big, 8).messages, 8 * 3 - 1);
  EXPECT_EQ(compare(Comparator::big, 1024).messages, 1024 * 10 - 1);
  EXPECT_EQ(compare(Comparator::big_both_ways, 8).messages, 8 * 5 - 7);
  EXPECT_EQ(compare(Comparator::big_both_ways, 1024).messages, 1024 * 19 - 1023);
}

TEST(BinomialGraph, ReachesAllThatTheDeadDoNotCutOff) {
  // 32 ranks: the neighbours of 3.
  const std::vector<Rank> neighbours{1, 2, 4, 5, 7, 11, 19, 27, 31};
  EXPECT_EQ(compare(Comparator::big_both_ways, 32, neighbours).missed, 1);
  for (std::size_t one = 0; one < neighbours.size(); ++one) {
    std::vector<Rank> dead = neighbours;
    dead.erase(dead.begin() + static_cast<std::ptrdiff_t>(one));
    EXPECT_EQ(compare(Comparator::big_both_ways, 32, dead).missed, 0) << "rank " << neighbours[one] << " lives";
  }
}

TEST(BuntinasTree, IsAsDeepUpAsDownAndTheRootKnows) {
  for (Rank ranks : {2, 3, 7, 8, 100, 1024}) {
    const CollectiveResult result = compare(Comparator::buntinas, ranks);
    EXPECT_EQ(result.missed, 0);
    EXPECT_EQ(result.wrong, 0);
    EXPECT_EQ(result.messages, 2 * (ranks - 1)) << "each is sent to, and answers";
    const double depth = std::floor(std::log2(ranks));
    EXPECT_GE(result.end, 2 * depth * 4) << "2 log2 n flights";
  }
}

TEST(BuntinasTree, IsRebuiltAroundTheDead) {
  for (Rank victim = 1; victim < 16; ++victim) {
    const CollectiveResult before = compare(Comparator::buntinas, 16, {victim});
    EXPECT_EQ(before.missed, 0) << victim;
    EXPECT_EQ(before.wrong, 0);
    for (std::int64_t send = 0; send < 4; ++send) {
      const CollectiveResult during = compare(Comparator::buntinas, 16, {}, {{victim, send, never}});
      EXPECT_EQ(during.missed, 0) << victim << " before send " << send;
    }
  }
  EXPECT_EQ(compare(Comparator::buntinas, 64, {32, 33, 34, 48, 5, 6, 7}).missed, 0);
}

TEST(BuntinasTree, OfADeadRootIsNeverDelivered) {
  EXPECT_EQ(compare(Comparator::buntinas, 16, {0}).missed, 15);
  EXPECT_GT(compare(Comparator::buntinas, 16, {}, {{0, 1, never}}).missed, 0)
      << "only who is below its first child has it";
}

}  // namespace
}  // namespace ucft::detail::simulator
