// The costs that the library chooses by and ucft_sim advise states, against the clock: among 2 .. 64 processes, and
// some larger numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "collectives/models/gossip_model.hpp"
#include "collectives/models/plain_model.hpp"
#include "simulator/collective_run.hpp"
#include "simulator/network.hpp"

namespace ucft::detail::simulator {
namespace {

std::vector<Rank> numbers_of_processes(std::vector<Rank> larger) {
  std::vector<Rank> all;
  for (Rank ranks = 2; ranks <= 64; ++ranks) all.push_back(ranks);
  all.insert(all.end(), larger.begin(), larger.end());
  return all;
}

const std::vector<LogGP> several_costs{{2, 1, 1, 1, 0, false},
                                       {1, 0.3, 0.3, 0.3, 0.0001, false},
                                       {5, 1, 1, 3, 0.003, false},
                                       {0.3, 0.12, 0.12, 0.05, 0.001, false},
                                       {1, 2, 2, 0.5, 0, false}};

CollectiveResult timed(CollectiveRun run) {
  const std::unique_ptr<Network> network = make_network({}, run.setting.costs);
  run.setting.network = network.get();
  return simulate(run);
}

CollectiveResult without_deaths(Kind kind, Rank ranks, const LogGP& costs, std::uint64_t bytes) {
  CollectiveRun run;
  run.setting.ranks = ranks;
  run.setting.costs = costs;
  run.arguments.kind = kind;
  run.arguments.f = std::min(1, ranks - 1);
  run.payload_bytes = kind == Kind::barrier ? 0 : bytes;
  run.optimistic = true;
  return timed(run);
}

TEST(PlainSchedules, TakeTheTimeThatIsPredicted) {
  for (const LogGP& costs : several_costs)
    for (std::uint64_t bytes : {8, 4096})
      for (Kind kind : {Kind::allreduce, Kind::reduce, Kind::barrier})
        for (Rank ranks : numbers_of_processes({100, 257, 1000, 1024, 4096})) {
          Arguments arguments;
          arguments.kind = kind;
          const PlainCost predicted = predict_plain(arguments, ranks, costs, bytes);
          const CollectiveResult result = without_deaths(kind, ranks, costs, bytes);
          const double tolerance = kind == Kind::allreduce || kind == Kind::barrier ? costs.per_receive() : 0;
          EXPECT_NEAR(result.latency, predicted.latency, tolerance + 1e-9)
              << kind_name(kind) << " of " << ranks << ", " << bytes << " bytes, L " << costs.latency;
          EXPECT_EQ(result.messages, predicted.messages) << kind_name(kind) << " of " << ranks;
        }
}

// all: bytes of the data; given: of what a rank gives.
void compare_with_clock(Kind kind, PlainSchedule schedule, Rank ranks, const LogGP& costs, std::uint64_t all,
                        std::uint64_t given, double share, double beside = 0) {
  Arguments arguments;
  arguments.kind = kind;
  ASSERT_EQ(plain_schedule_of(arguments, ranks, all), schedule);
  const PlainCost predicted = predict_plain(arguments, ranks, costs, all);
  const CollectiveResult result = without_deaths(kind, ranks, costs, given);
  EXPECT_NEAR(result.latency, predicted.latency, share * predicted.latency + beside)
      << ranks << " ranks, " << given << " bytes, L " << costs.latency;
  EXPECT_EQ(result.messages, predicted.messages) << ranks << " ranks, " << given << " bytes";
}

TEST(PlainSchedules, TakeTheTimeThatIsPredictedInBlocks) {
  for (const LogGP& costs : several_costs)
    for (std::uint64_t bytes : {1 << 20, 10000000})
      for (Rank ranks : numbers_of_processes({100, 257, 1000}))
        compare_with_clock(Kind::allreduce, PlainSchedule::in_blocks, ranks, costs, bytes, bytes, 0.05);
}

// The formula is exact between two processes. It counts a whole flight for each of the first rounds, in which a process
// may wait for less, or for more where pieces are short beside a flight.
TEST(PlainSchedules, TakeTheTimeThatIsPredictedInPieces) {
  for (const LogGP& costs : several_costs)
    for (std::uint64_t bytes : {1 << 20, 10000000})
      for (Rank ranks : numbers_of_processes({100, 257, 1000})) {
        const bool is_slow = costs.gap_per_byte * 60000 > costs.delivery();
        const double share = ranks == 2 ? 0.001 : is_slow ? 0.04 : 0.3;
        compare_with_clock(Kind::broadcast, PlainSchedule::in_pieces, ranks, costs, bytes, bytes, share);
      }
}

TEST(PlainSchedules, ShortBroadcastsHaveNone) {
  Arguments arguments;
  arguments.kind = Kind::broadcast;
  const std::uint64_t piece = Optimism().piece_bytes;
  for (Rank ranks : {2, 4, 1000})
    for (std::uint64_t bytes : {std::uint64_t{8}, piece, piece + 1, std::uint64_t{256 * 1024 - 1}}) {
      const bool is_long = bytes > piece && ranks > 2 && (ranks > 4 || bytes > 128 * 1024);
      EXPECT_EQ(plain_schedule_of(arguments, ranks, bytes), is_long ? PlainSchedule::in_pieces : PlainSchedule::none)
          << ranks << " ranks, " << bytes << " bytes";
      const CollectiveResult result = without_deaths(Kind::broadcast, ranks, {}, bytes);
      EXPECT_EQ(result.by_phase[static_cast<int>(Phase::allgather)] > 0, is_long);
      EXPECT_EQ(result.by_phase[static_cast<int>(Phase::broadcast)] > 0, !is_long);
    }
}

// Of 4 processes that give 256 KiB each, which are 5 pieces, each sends 15 pieces. It sends one
// word of the closing in each of 2 steps, and 2 words of the exchange.
TEST(PlainSchedules, LongAllgathersGoInPieces) {
  Arguments arguments;
  arguments.kind = Kind::allgather;
  const std::uint64_t piece = Optimism().piece_bytes, all = 1 << 20;
  EXPECT_EQ(plain_schedule_of(arguments, 4, 4 * piece), PlainSchedule::doubling);
  EXPECT_EQ(plain_schedule_of(arguments, 4, 4 * piece + 1), PlainSchedule::all_in_pieces);
  for (const LogGP& costs : several_costs) {
    const PlainCost predicted = predict_plain(arguments, 4, costs, all);
    EXPECT_EQ(predicted.messages, 4 * (15 + 2 + 2));
    const double on_the_wire = 0.75 * static_cast<double>(all) * costs.gap_per_byte;
    EXPECT_GT(predicted.latency, on_the_wire);
    EXPECT_LT(predicted.latency, 1.3 * on_the_wire + 16 * costs.per_message() + 3 * costs.delivery());
  }
}

TEST(PlainSchedules, LongAllgathersTakeTheTimeThatIsPredicted) {
  for (const LogGP& costs : several_costs)
    for (std::uint64_t block : {150'000, 1 << 20})
      for (Rank ranks : numbers_of_processes({100})) {
        const bool is_slow = costs.gap_per_byte * 50000 > costs.delivery();
        compare_with_clock(Kind::allgather, PlainSchedule::all_in_pieces, ranks, costs,
                           block * static_cast<std::uint64_t>(ranks), block, is_slow ? 0.2 : 0.3);
      }
}

// The root takes messages of several at a time, whose order costs a little.
TEST(PlainSchedules, LongGathersTakeTheTimeThatIsPredicted) {
  for (const LogGP& costs : several_costs)
    for (std::uint64_t block : {150'000, 1 << 20})
      for (Rank ranks : numbers_of_processes({100, 1000}))
        compare_with_clock(Kind::gather, PlainSchedule::to_root_in_pieces, ranks, costs,
                           block * static_cast<std::uint64_t>(ranks), block, 0.2, 10 * costs.delivery());
}

// A vector of fewer elements than processes goes along trees from the first message on.
TEST(PlainSchedules, ThereIsNoneWhereSomeBlocksWouldBeEmpty) {
  Arguments arguments;
  EXPECT_EQ(plain_schedule_of(arguments, 16384, 65536), PlainSchedule::none);
  const CollectiveResult result = without_deaths(Kind::allreduce, 16384, {}, 65536);
  EXPECT_GT(result.by_phase[static_cast<int>(Phase::up)], 0);
  EXPECT_EQ(result.by_phase[static_cast<int>(Phase::exchange)], 0);
}

CollectiveRun checked_broadcast(Rank ranks, const LogGP& costs) {
  CollectiveRun run;
  run.setting.ranks = ranks;
  run.setting.costs = costs;
  run.arguments.kind = Kind::broadcast;
  run.arguments.correction = Correction::checked;
  run.arguments.shape = best_shape(costs, 8);
  return run;
}

TEST(SpreadForecasts, AreWhenAllIsOverAfterATree) {
  for (const LogGP& costs : several_costs)
    for (Rank ranks : numbers_of_processes({100, 257, 512, 1000, 4096})) {
      GossipCase given{.size = ranks, .costs = costs};
      const CollectiveRun run = checked_broadcast(ranks, costs);
      const double predicted = forecast_spread(given, run.arguments.shape).tree_end, seen = timed(run).end;
      EXPECT_NEAR(seen, predicted, ranks <= most_clocked ? 1e-9 : 0.05 * seen)
          << ranks << " ranks, L " << costs.latency;
    }
}

TEST(SpreadForecasts, AreWhenAllIsOverAfterGossip) {
  for (const LogGP& costs : {several_costs[0], several_costs[1]})
    for (Rank ranks : {2, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64, 256, 1000, 4096}) {
      GossipCase given{.size = ranks, .costs = costs};
      CollectiveRun run = checked_broadcast(ranks, costs);
      const SpreadForecast predicted = forecast_spread(given, run.arguments.shape);
      set_gossip(costs, 8, ranks, 0, run.arguments);
      double mean = 0;
      const int runs = std::clamp(20000 / ranks, 20, 400);
      for (int seed = 0; seed < runs; ++seed) {
        run.arguments.gossip.seed = static_cast<std::uint64_t>(seed);
        mean += timed(run).end / runs;
      }
      EXPECT_NEAR(mean, predicted.gossip_end, 0.06 * mean) << ranks << " ranks, L " << costs.latency;
    }
}

}  // namespace
}  // namespace ucft::detail::simulator
