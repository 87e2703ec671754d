// The timed simulator: closed forms of plain trees, figures of the literature, determinism, failures.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "collectives/topology/reduce_topology.hpp"
#include "simulator/comparators.hpp"
#include "simulator/event_queue.hpp"
#include "simulator/failures.hpp"
#include "collectives/core/random.hpp"
#include "simulator/trace.hpp"
#include "simulator/world.hpp"

namespace ucft::detail::simulator {
namespace {

#ifdef UCFT_SMALL  // with sanitizers
constexpr Rank most_ranks = 300;
#else
constexpr Rank most_ranks = 4096;
#endif

// Up to a quarter of them each, then every seventh: the others differ by one leaf of one level.
Rank next_size(Rank ranks) { return ranks < most_ranks / 4 ? ranks + 1 : ranks + 7; }

struct Timed {
  explicit Timed(Rank ranks, LogGP costs = {}, NetworkShape shape = {}) : network(make_network(shape, costs)) {
    run.setting.ranks = ranks;
    run.setting.costs = costs;
    run.setting.network = network.get();
    run.arguments.kind = Kind::broadcast;
  }
  Timed& with(Tree tree, std::int32_t arity = 4) {
    run.arguments.shape.tree = tree;
    run.arguments.shape.arity = arity;
    const LogGP& costs = run.setting.costs;
    run.arguments.shape.delay_quarters = static_cast<std::int32_t>(4 * costs.delivery() / costs.per_message());
    return *this;
  }
  Timed& with(Correction correction, bool phased) {
    run.arguments.correction = correction;
    run.phased = phased;
    return *this;
  }
  CollectiveResult result() const { return simulate(run); }

  std::unique_ptr<Network> network;
  CollectiveRun run;
};

LogGP costs_of(double latency, double overhead, double gap) { return {latency, overhead, overhead, gap, 0, false}; }

// ---- closed forms; D = L + 2o, G = max(g, o) ------------------------------------------------------------------------

// Arrival at process p of a k-nomial tree whose children come in ascending order: from each nonzero digit to the next.
double knomial_arrival(std::int64_t process, std::int64_t k, double delivery, double gap) {
  double time = 0;
  std::int64_t skipped = 0;
  for (; process > 0; process /= k) {
    const std::int64_t digit = process % k;
    if (digit == 0) {
      ++skipped;
      continue;
    }
    time += delivery + gap * static_cast<double>(skipped * (k - 1) + digit - 1);
    skipped = 0;
  }
  return time;
}

// Process at place q of level l of a k-ary tree: l deliveries, and a wait for as many siblings as q has units in base
// k.
double kary_arrival(std::int64_t process, std::int64_t k, double delivery, double gap) {
  std::int64_t first = 0, width = 1, level = 0;
  while (process >= first + width) first += width, width *= k, ++level;
  double time = static_cast<double>(level) * delivery;
  for (std::int64_t place = process - first; place > 0 && k > 1; place /= k)
    time += gap * static_cast<double>(place % k);
  return time;
}

// Lamé(k): R(t) = 1 for 0 <= t < k, R(t) = R(t-1) + R(t-k).
std::int64_t lame_steps(std::int64_t processes, std::int64_t k) {
  std::vector<std::int64_t> reached;
  for (std::int64_t t = 0;; ++t) {
    const auto at = static_cast<std::size_t>(t);
    reached.push_back(t < k ? 1 : reached[at - 1] + reached[at - static_cast<std::size_t>(k)]);
    if (reached.back() >= processes) return t;
  }
}

class ClosedForms : public testing::TestWithParam<LogGP> {};
INSTANTIATE_TEST_SUITE_P(Costs, ClosedForms,
                         testing::Values(costs_of(2, 1, 1), costs_of(5, 1, 3), costs_of(0, 2, 0.5),
                                         costs_of(10, 0.25, 0.5)),
                         [](const auto& each) { return "Nr" + std::to_string(each.index); });

TEST_P(ClosedForms, PlainTreesForEveryNumberOfRanks) {
  const LogGP costs = GetParam();
  const double delivery = costs.delivery(), gap = costs.per_message();
  double knomial = 0, kary = 0, binomial = 0;
  for (Rank ranks = 1, added = 0; ranks <= most_ranks; ranks = next_size(ranks)) {
    for (; added < ranks; ++added) {
      binomial = std::max(binomial, knomial_arrival(added, 2, delivery, gap));
      kary = std::max(kary, kary_arrival(added, 3, delivery, gap));
      knomial = std::max(knomial, knomial_arrival(added, 4, delivery, gap));
    }
    ASSERT_DOUBLE_EQ(Timed(ranks, costs).with(Tree::binomial).result().latency, binomial) << ranks;
    ASSERT_DOUBLE_EQ(Timed(ranks, costs).with(Tree::kary, 3).result().latency, kary) << ranks;
    ASSERT_DOUBLE_EQ(Timed(ranks, costs).with(Tree::knomial, 4).result().latency, knomial) << ranks;
    ASSERT_DOUBLE_EQ(Timed(ranks, costs).with(Tree::flat).result().latency,
                     ranks == 1 ? 0 : delivery + (ranks - 2) * gap)
        << ranks;
    ASSERT_DOUBLE_EQ(Timed(ranks, costs).with(Tree::chain).result().latency, (ranks - 1) * delivery) << ranks;
    if (std::has_single_bit(static_cast<unsigned>(ranks))) {
      EXPECT_DOUBLE_EQ(binomial, std::log2(ranks) * delivery);
    }
  }
}

// With L + 2o a multiple of max(g, o) the optimal tree is Lamé's, and its time that of the recurrence.
TEST(ClosedForms, OptimalAndLameTreesForEveryNumberOfRanks) {
  for (Rank ranks = 1; ranks <= most_ranks; ranks = next_size(ranks)) {
    const double steps = static_cast<double>(lame_steps(ranks, 4));
    ASSERT_DOUBLE_EQ(Timed(ranks).with(Tree::optimal).result().latency, steps) << ranks;
    ASSERT_DOUBLE_EQ(Timed(ranks).with(Tree::lame, 4).result().latency, steps) << ranks;
  }
  EXPECT_EQ(lame_steps(4096, 4), 28);
}

TEST(ClosedForms, NoTreeIsFasterThanTheOptimalOne) {
  for (const LogGP& costs : {costs_of(2, 1, 1), costs_of(5, 1, 3), costs_of(3, 1, 2)})
    for (Rank ranks : {2, 7, 64, 100, 1000, 4096}) {
      const double optimal = Timed(ranks, costs).with(Tree::optimal).result().latency;
      for (Tree tree : {Tree::binomial, Tree::kary, Tree::knomial, Tree::lame, Tree::flat, Tree::chain})
        EXPECT_LE(optimal, Timed(ranks, costs).with(tree).result().latency) << static_cast<int>(tree) << " " << ranks;
    }
}

// docs/algorithms.md, "Message counts": d (1 + m), a wait for an equally deep subtree, and the exchange in the groups.
double reduce_time(Rank ranks, std::int32_t f, const LogGP& costs) {
  const int groups = (ranks - 1) / (f + 1), depth = std::bit_width(static_cast<unsigned>(groups)) - 1;
  const bool two_as_deep = 2 * groups >= 3 << depth;
  return costs.delivery() * (1 + depth) + (two_as_deep ? costs.per_receive() : 0) +
         (f >= 1 ? costs.delivery() + (f - 1) * costs.per_message() : 0);
}

TEST_P(ClosedForms, ReduceForEveryNumberOfRanks) {
  for (std::int32_t f : {0, 1, 2, 3, 8})
    for (Rank ranks = 2 * f + 3; ranks <= most_ranks / 2; ranks = next_size(ranks)) {
      Timed timed(ranks, GetParam());
      timed.run.arguments.kind = Kind::reduce;
      timed.run.arguments.f = f;
      const double expected = reduce_time(ranks, f, GetParam());
      ASSERT_NEAR(timed.result().latency, expected, 1e-9 * expected) << "n " << ranks << " f " << f;
    }
}

TEST_P(ClosedForms, AllreduceFollowsLog2) {
  for (std::int32_t f : {0, 1, 2, 8})
    for (int k = 5; k <= (most_ranks > 1000 ? 16 : 8); ++k) {
      Timed timed(Rank{1} << k, GetParam());
      timed.run.arguments.kind = Kind::allreduce;
      timed.run.arguments.f = f;
      const double expected = reduce_time(Rank{1} << k, f, GetParam()) + k * GetParam().delivery();
      EXPECT_NEAR(timed.result().latency, expected, 0.01 * expected) << "n 2^" << k << " f " << f;
    }
}

// LogGP: k bytes take (k - 1) G more, at the sender's port and on the way.
TEST(ClosedForms, BytesTakeTime) {
  LogGP costs;
  costs.gap_per_byte = 0.01;
  Timed chain(5, costs);
  chain.with(Tree::chain);
  chain.run.payload_bytes = 1001;
  EXPECT_DOUBLE_EQ(chain.result().latency, 4 * (4 + 10));
  Timed flat(5, costs);
  flat.with(Tree::flat);
  flat.run.payload_bytes = 1001;
  EXPECT_DOUBLE_EQ(flat.result().latency, 3 * 11 + 4 + 10);
}

// LogP to the letter: one processor. The root of a flat gather receives one after the other in both models.
TEST(ClosedForms, OneProcessorReceivesBetweenItsSends) {
  LogGP costs = costs_of(2, 3, 1);
  ComparatorRun gather;
  Timed world(6, costs);
  gather.setting = world.run.setting;
  gather.kind = Kind::allreduce;
  gather.shape.tree = Tree::flat;
  EXPECT_DOUBLE_EQ(simulate(gather).latency, (3 + 2 + 5 * 3) + (4 * 3) + (3 + 2 + 3));
  gather.setting.costs.one_processor = true;
  EXPECT_DOUBLE_EQ(simulate(gather).latency, (3 + 2 + 5 * 3) + (4 * 3) + (3 + 2 + 3));
  // Two ranks that exchange: side by side 3+2+3; one processor: the message has arrived when the send is over.
  gather.setting.ranks = 2;
  gather.algorithm = Comparator::recursive_doubling;
  EXPECT_DOUBLE_EQ(simulate(gather).latency, 8);
}

TEST(Comparators, RoundsOfPowersOfTwo) {
  for (Rank ranks = 2; ranks <= 1024; ranks *= 2) {
    Timed world(ranks);
    ComparatorRun run;
    run.setting = world.run.setting;
    run.algorithm = Comparator::recursive_doubling;
    const double rounds = std::log2(ranks);
    CollectiveResult result = simulate(run);
    EXPECT_DOUBLE_EQ(result.latency, rounds * 4);
    EXPECT_EQ(result.messages, ranks * static_cast<int>(rounds));
    run.algorithm = Comparator::rabenseifner;
    run.payload_bytes = 1 << 20;
    result = simulate(run);
    EXPECT_DOUBLE_EQ(result.latency, 2 * rounds * 4);
    EXPECT_DOUBLE_EQ(result.bytes, 2.0 * (ranks - 1) * (1 << 20));  // 2 (n-1)/n of the vector per rank
    run.algorithm = Comparator::acknowledged_tree;
    run.kind = Kind::broadcast;
    result = simulate(run);
    EXPECT_EQ(result.messages, 2 * (ranks - 1));
    EXPECT_DOUBLE_EQ(result.latency, 2 * rounds * 4);
  }
}

TEST(Comparators, EveryNumberOfRanksEnds) {
  for (Rank ranks = 1; ranks <= 70; ++ranks)
    for (Comparator algorithm : {Comparator::tree, Comparator::recursive_doubling, Comparator::rabenseifner}) {
      Timed world(ranks);
      ComparatorRun run;
      run.setting = world.run.setting;
      run.algorithm = algorithm;
      EXPECT_EQ(simulate(run).missed, 0) << ranks;
    }
}

TEST(Comparators, NobodyActsBeforeItHasStarted) {
  for (Comparator algorithm : {Comparator::tree, Comparator::recursive_doubling, Comparator::rabenseifner}) {
    Timed timed(64);
    ComparatorRun run;
    run.setting = timed.run.setting;
    run.algorithm = algorithm;
    const CollectiveResult together = simulate(run);
    run.setting.skew = 100;
    double last_start = 0;
    for (Rank rank = 0; rank < 64; ++rank)
      last_start = std::max(last_start, 100 * chance_of(~run.setting.seed, rank, 0));
    const CollectiveResult skewed = simulate(run);
    EXPECT_EQ(skewed.messages, together.messages);
    EXPECT_EQ(skewed.missed, 0);
    EXPECT_GT(skewed.first, last_start);  // nobody has the sum before all have come
  }
}

// ---- corrected trees ------------------------------------------------------------------------------------------------

// Phased, checked, no failure, o = g, L a multiple of o: T_tree + 2L + 4o, and 3 + L/o corrections per rank.
TEST(CorrectedTrees, CheckedCorrectionWithoutFailures) {
  for (double latency : {1.0, 2.0, 4.0})
    for (Tree tree : {Tree::binomial, Tree::optimal, Tree::lame})
      for (Rank ranks : {64, 1000, 4096}) {
        Timed world(ranks, costs_of(latency, 1, 1));
        const double plain = world.with(tree).result().latency;
        const CollectiveResult result = world.with(Correction::checked, true).result();
        EXPECT_DOUBLE_EQ(result.latency, plain);
        EXPECT_DOUBLE_EQ(result.end, plain + 2 * latency + 4);
        EXPECT_EQ(result.messages, ranks - 1 + ranks * (3 + static_cast<int>(latency)));
        EXPECT_EQ(result.largest_gap, 0);
      }
}

TEST(CorrectedTrees, CheckedCorrectionReachesAllAndInOrderIsTheBadCase) {
  double ends[2] = {};
  for (int seed = 0; seed < 40; ++seed)
    for (Numbering numbering : {Numbering::interleaved, Numbering::in_order}) {
      Timed world(1024);
      world.with(Correction::checked, true);
      world.run.arguments.shape.numbering = numbering;
      FailurePlan plan;
      plan.failed = 41;
      std::string error;
      ASSERT_TRUE(
          draw_failures(plan, world.run.arguments, {}, static_cast<std::uint64_t>(seed), world.run.setting, error))
          << error;
      const CollectiveResult result = world.result();
      EXPECT_EQ(result.missed, 0);
      EXPECT_EQ(result.live, 1024 - 41);
      EXPECT_EQ(result.wrong, 0);
      ends[static_cast<int>(numbering)] += result.end / 40;
    }
  EXPECT_LT(ends[0] * 1.5, ends[1]);
}

// ---- fault-tolerant operations --------------------------------------------------------------------------------------

TEST(Failures, AllreduceCompletesOnAllSurvivorsWhoeverDies) {
  for (std::int32_t f : {1, 2, 3})
    for (int seed = 0; seed < 200; ++seed) {
      Timed world(2 + seed % 60);
      if (world.run.setting.ranks <= f + 1) continue;
      world.run.arguments.kind = Kind::allreduce;
      world.run.arguments.f = f;
      world.run.setting.detection_delay = 1 + seed % 90;
      FailurePlan plan;
      plan.failed = seed % 2;
      plan.crashes = f - seed % 2;
      std::string error;
      ASSERT_TRUE(
          draw_failures(plan, world.run.arguments, {}, static_cast<std::uint64_t>(seed), world.run.setting, error))
          << error;
      const CollectiveResult result = world.result();
      EXPECT_EQ(result.missed, 0) << "seed " << seed;
      EXPECT_EQ(result.wrong, 0) << "seed " << seed;
      EXPECT_EQ(result.outcome, Outcome::success);
      EXPECT_GE(result.contributors, result.live);
    }
}

TEST(Failures, TheRootDiesAtAnyOfItsSends) {
  for (std::int64_t send = 0; send < 12; ++send) {
    Timed world(40);
    world.run.arguments.kind = Kind::allreduce;
    world.run.setting.detection_delay = 25;
    world.run.setting.deaths = {{0, send, never}};
    const CollectiveResult result = world.result();
    EXPECT_EQ(result.missed, 0) << send;
    EXPECT_EQ(result.wrong, 0) << send;
  }
}

TEST(Failures, WhoIsDrawnToDieDies) {
  for (Kind kind : {Kind::broadcast, Kind::reduce, Kind::allreduce})
    for (int seed = 0; seed < 50; ++seed) {
      Timed timed(100);
      timed.run.arguments.kind = kind;
      timed.run.arguments.f = 5;
      timed.run.setting.detection_delay = 20;
      FailurePlan plan;
      plan.crashes = 5;
      std::string error;
      ASSERT_TRUE(
          draw_failures(plan, timed.run.arguments, {}, static_cast<std::uint64_t>(seed), timed.run.setting, error))
          << error;
      EXPECT_EQ(timed.result().live, 95) << seed;
    }
}

TEST(Failures, ALateDeathIsOneOfARankThatHasItsResult) {
  Timed timed(8);
  timed.run.arguments.kind = Kind::allreduce;
  timed.run.setting.detection_delay = 20;
  timed.run.setting.deaths = {{3, 3, never}};  // group, up, broadcast to 7: three sends
  const CollectiveResult result = timed.result();
  EXPECT_EQ(result.live, 7);
  EXPECT_EQ(result.missed + result.wrong, 0);
  EXPECT_EQ(result.contributors, 8);
}

TEST(Failures, NobodyGetsAResultIsNotAResultAtTimeZero) {
  Timed timed(8);
  timed.run.setting.dead = {0};
  CollectiveResult result = timed.result();
  EXPECT_EQ(result.missed, 7);
  EXPECT_EQ(result.latency, never);
  timed.run.arguments.kind = Kind::reduce;
  timed.run.setting.detection_delay = 20;
  result = timed.result();
  EXPECT_EQ(result.latency, never);
  EXPECT_EQ(result.outcome, Outcome::root_failed);
}

TEST(Failures, TheLastRankIsSuspectedAndAllOthersAreDead) {
  Timed timed(2);
  timed.run.setting.dead = {0};
  timed.run.setting.detection_delay = 1;
  timed.run.setting.suspicions = {{1, 0}};
  EXPECT_EQ(timed.result().live, 0);
}

TEST(FailurePlans, ARankThatIsNamedTwiceIsRefused) {
  FailurePlan plan;
  plan.failed_ranks = {4};
  plan.deaths = {{4, -1, 100}};
  Setting setting;
  setting.ranks = 8;
  std::string error;
  EXPECT_FALSE(draw_failures(plan, {}, {}, 1, setting, error));
  EXPECT_NE(error.find("rank 4 is named twice"), std::string::npos) << error;
}

TEST(Failures, DeathByTheClock) {
  for (double time : {0.0, 3.5, 11.0, 17.25, 40.0}) {
    Timed world(64);
    world.run.arguments.kind = Kind::allreduce;
    world.run.setting.detection_delay = 30;
    world.run.setting.deaths = {{5, -1, time}};
    const CollectiveResult result = world.result();
    EXPECT_EQ(result.live, 63);
    EXPECT_EQ(result.missed + result.wrong, 0) << time;
  }
}

// The suspected rank lives, and nobody listens to it any more. The others agree without it, or with what it had sent.
TEST(Failures, AWrongSuspicionHurtsNobodyElse) {
  for (Rank suspected : {0, 1, 7, 30})
    for (double time = 0; time < 60; time += 2.5) {
      Timed world(31);
      world.run.arguments.kind = Kind::allreduce;
      world.run.setting.detection_delay = 10;
      world.run.setting.suspicions = {{suspected, time}};
      const CollectiveResult result = world.result();
      EXPECT_EQ(result.live, 30);
      EXPECT_EQ(result.missed + result.wrong, 0) << "rank " << suspected << " at " << time;
    }
}

TEST(Failures, MoreThanFIsOneErrorOnAll) {
  Timed world(16);
  world.run.arguments.kind = Kind::allreduce;
  world.run.arguments.f = 1;
  world.run.setting.detection_delay = 10;
  world.run.setting.dead = {3, 4, 9, 10};
  const CollectiveResult result = world.result();
  EXPECT_EQ(result.missed + result.wrong, 0);
  EXPECT_EQ(result.outcome, Outcome::too_many_failures);
}

// The simulator calls only ranks that can act on a failure. Calling all of them changes nothing.
TEST(Failures, OnlyThoseAreToldForWhomItMatters) {
  for (Kind kind : {Kind::allreduce, Kind::broadcast, Kind::reduce, Kind::barrier})
    for (Correction correction :
         {Correction::none, Correction::checked, Correction::opportunistic, Correction::failure_proof})
      for (int seed = 0; seed < 60; ++seed) {
        Timed world(3 + seed % 47);
        world.run.arguments.kind = kind;
        world.run.arguments.correction = correction;
        world.run.arguments.f = 2;
        world.run.setting.detection_delay = 5 + seed % 31;
        world.run.setting.jitter = 0.3;
        world.run.setting.seed = static_cast<std::uint64_t>(seed);
        FailurePlan plan;
        plan.failed = plan.crashes = 1;
        std::string error;
        ASSERT_TRUE(
            draw_failures(plan, world.run.arguments, {}, static_cast<std::uint64_t>(seed), world.run.setting, error))
            << error;
        if (seed % 3 == 0) world.run.setting.deaths.push_back({0, seed % 5, never});
        const CollectiveResult some = world.result();
        world.run.tell_everybody = true;
        const CollectiveResult all = world.result();
        EXPECT_EQ(some.latency, all.latency) << seed;
        EXPECT_EQ(some.messages, all.messages) << seed;
        EXPECT_EQ(some.missed, all.missed) << seed;
        EXPECT_EQ(some.wrong + all.wrong, 0) << seed;
      }
}

// ---- networks, determinism ------------------------------------------------------------------------------------------

TEST(Networks, Hops) {
  NetworkShape fat;
  fat.kind = NetworkShape::Kind::fat_tree;
  fat.ranks_per_host = 2;
  fat.hosts_per_switch = 4;
  fat.switches_per_group = 3;
  EXPECT_EQ(hops(fat, 0, 7), 0);   // hosts 0 and 3: one switch
  EXPECT_EQ(hops(fat, 0, 8), 2);   // switches 0 and 1
  EXPECT_EQ(hops(fat, 0, 23), 2);  // switch 2
  EXPECT_EQ(hops(fat, 0, 24), 4);  // switch 3: another group
  EXPECT_EQ(hops(fat, 24, 0), 4);
  NetworkShape dragonfly = fat;
  dragonfly.kind = NetworkShape::Kind::dragonfly;  // groups of 3 routers
  EXPECT_EQ(hops(dragonfly, 0, 8), 1);
  // Group 0 to group 1: the link leaves from router 1 of group 0 and ends at router 0 of group 1.
  EXPECT_EQ(hops(dragonfly, 0, 24), 2);
  EXPECT_EQ(hops(dragonfly, 8, 24), 1);
  EXPECT_EQ(hops(dragonfly, 0, 32), 3);
  for (Rank a = 0; a < 200; a += 7)
    for (Rank b = 0; b < 200; b += 3) EXPECT_EQ(hops(dragonfly, a, b), hops(dragonfly, b, a));
}

TEST(Networks, RanksOfOneHostAreNearer) {
  NetworkShape shape;
  shape.kind = NetworkShape::Kind::two_level;
  shape.ranks_per_host = 4;
  shape.local_latency = 0.5;
  Timed world(8, costs_of(10, 1, 1), shape);
  world.with(Tree::chain);
  EXPECT_DOUBLE_EQ(world.result().latency, 6 * 2.5 + 12);
}

TEST(Determinism, TheSeedDecides) {
  Timed world(500);
  world.run.arguments.kind = Kind::allreduce;
  world.run.setting.jitter = 1;
  world.run.setting.skew = 20;
  const CollectiveResult first = world.result();
  const CollectiveResult again = world.result();
  EXPECT_EQ(first.latency, again.latency);
  EXPECT_EQ(first.median, again.median);
  world.run.setting.seed = 2;
  EXPECT_NE(world.result().latency, first.latency);
}

TEST(EventQueue, PopsInOrderWhateverTheBuckets) {
  struct Event {
    double time;
    std::uint64_t order;
    bool before(const Event& other) const { return time != other.time ? time < other.time : order < other.order; }
  };
  for (double width : {0.001, 0.7, 100.0}) {
    EventQueue<Event> queue(width);
    Random random(7);
    std::uint64_t created = 0;
    std::vector<Event> waiting;  // the reference: a list
    Event last{0, 0};
    for (int step = 0; step < 20000; ++step) {
      if (waiting.empty() || (random.below(5) < 3 && waiting.size() < 200)) {
        const double ahead = random.below(10) == 0 ? 50000 * random.fraction() : static_cast<double>(random.below(4));
        const Event event{last.time + ahead, created++};
        queue.push(event);
        waiting.push_back(event);
        continue;
      }
      const auto least =
          std::min_element(waiting.begin(), waiting.end(), [](const Event& a, const Event& b) { return a.before(b); });
      last = queue.pop();
      ASSERT_EQ(last.order, least->order);
      waiting.erase(least);
    }
  }
}

// ---- input and output -----------------------------------------------------------------------------------------------

TEST(Costs, AreRead) {
  LogGP costs;
  std::string error;
  ASSERT_TRUE(parse_costs("# us\nL 0.3\no 0.1   # both\no_receive 0.2\nG 1e-4\n\n", costs, error)) << error;
  EXPECT_EQ(costs.latency, 0.3);
  EXPECT_EQ(costs.send_overhead, 0.1);
  EXPECT_EQ(costs.receive_overhead, 0.2);
  EXPECT_EQ(costs.gap, 1);
  EXPECT_EQ(costs.gap_per_byte, 1e-4);
}

TEST(Costs, MalformedOnesAreRefusedWithLineAndReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"L 1\nq 2\n", "2: 'q' is no parameter"},
      {"L\n", "1: L has no value"},
      {"L 1 2\n", "1: '2' after the value of L"},
      {"\n\ng 1x\n", "3: g: '1x' is no number"},
      {"o -1\n", "1: o: -1 must be 0 or more"},
      {"G nan\n", "1: G: nan must be"},
      {"L 1\nL 2\n", "2: L is given twice"},
      {"# nothing\n", "1: no parameter"},
      {"L 3\no_send ,\n", "2: o_send: ',' is no number"},
  };
  for (const auto& [text, reason] : cases) {
    LogGP costs;
    std::string error;
    EXPECT_FALSE(parse_costs(text, costs, error)) << text;
    EXPECT_EQ(error.rfind(reason, 0), 0u) << error;
    EXPECT_EQ(costs.latency, LogGP{}.latency);  // nothing half-read
  }
}

// The library chooses by this prediction; the clock has the last word.
TEST(Costs, PredictionsAreWhatTheClockShows) {
  for (LogGP costs : {costs_of(2, 1, 1), costs_of(5, 1, 3), costs_of(0.3, 0.12, 0.05), costs_of(1, 2, 0.5)})
    for (std::uint64_t bytes : {8, 4096})
      for (Rank ranks : {1, 2, 3, 4, 5, 8, 13, 64, 100, 257, 1000})
        for (std::int32_t f : {0, 1, 2, 3, 7})
          for (Kind kind : {Kind::broadcast, Kind::reduce, Kind::allreduce, Kind::barrier}) {
            costs.gap_per_byte = 0.003;
            Timed world(ranks, costs);
            world.with(ranks % 2 == 0 ? Tree::optimal : Tree::binomial);
            world.run.arguments.kind = kind;
            world.run.arguments.f = f;
            world.run.payload_bytes = bytes;
            const CollectiveResult result = world.result();
            const double predicted = predict_latency(world.run.arguments, ranks, costs, bytes);
            // All ranks in one group: the root may be done while others still receive what they don't need any more.
            const double tolerance = ReduceTopology(ranks, f).complete_groups() > 0 ? 1e-9 : 0.1;
            EXPECT_NEAR(result.latency, predicted, tolerance * predicted)
                << "n " << ranks << " f " << f << " " << kind_name(kind) << " " << bytes << " bytes";
            EXPECT_EQ(result.messages, predict_messages(world.run.arguments, ranks));
          }
}

TEST(FailurePlans, CorrelatedFailuresTakeWholeHostsAndSwitches) {
  NetworkShape shape;
  shape.ranks_per_host = 4;
  shape.hosts_per_switch = 4;
  Arguments arguments;
  arguments.root = 17;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    FailurePlan plan;
    plan.failed_hosts = 2;
    plan.failed_switches = 1;
    Setting setting;
    setting.ranks = 100;
    std::string error;
    ASSERT_TRUE(draw_failures(plan, arguments, shape, seed, setting, error)) << error;
    EXPECT_GE(setting.dead.size(), 8u);
    EXPECT_LE(setting.dead.size(), 24u);
    for (Rank rank : setting.dead) {
      EXPECT_NE(rank / 4, 17 / 4);  // the root's host
      for (Rank neighbour = rank / 4 * 4; neighbour < rank / 4 * 4 + 4; ++neighbour)
        EXPECT_NE(std::find(setting.dead.begin(), setting.dead.end(), neighbour), setting.dead.end());
    }
  }
}

TEST(FailurePlans, DrawnRanksAreDifferentAndFair) {
  std::vector<int> drawn(10, 0);
  for (std::uint64_t seed = 0; seed < 9000; ++seed) {
    FailurePlan plan;
    plan.failed = 3;
    Setting setting;
    setting.ranks = 10;
    Arguments arguments;
    arguments.root = 4;
    std::string error;
    ASSERT_TRUE(draw_failures(plan, arguments, {}, seed, setting, error));
    ASSERT_EQ(setting.dead.size(), 3u);
    for (Rank rank : setting.dead) ++drawn[static_cast<std::size_t>(rank)];
  }
  EXPECT_EQ(drawn[4], 0);
  drawn.erase(drawn.begin() + 4);
  for (int times : drawn) EXPECT_NEAR(times, 3000, 200);  // 4.5 standard deviations
}

TEST(Trace, HasABarForEverySendAndReceive) {
  const std::string path = testing::TempDir() + "ucft_trace.json";
  Timed world(16);
  world.with(Correction::checked, false);
  world.run.setting.deaths = {{3, -1, 9.0}};
  std::string error;
  CollectiveResult result;
  {
    ChromeTrace trace(16);
    ASSERT_TRUE(trace.open(path, error)) << error;
    result = simulate(world.run, &trace);
    ASSERT_TRUE(trace.close(error)) << error;
  }
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto count = [&](const std::string& part) {
    std::int64_t found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("\"cat\":\"send\""), result.messages);
  EXPECT_EQ(count("\"name\":\"dies\""), 1);
  EXPECT_GE(count("\"name\":\"has the result\""), 15);
  EXPECT_EQ(text.substr(text.size() - 3), "]}\n");
  std::remove(path.c_str());
}

}  // namespace
}  // namespace ucft::detail::simulator
