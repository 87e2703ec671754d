// Gossip under simulated time: the rules of collectives/gossip, with their faults.
//
// Time is counted in iterations. By rounds all ranks make one together. Otherwise each rank makes one per unit of time,
// from a phase and with a jitter of its own, and a message takes `delay` units; messages of a link stay in order.
//
// Only the rules are run here: ranks push when they like, and pushes cross, as in the papers. The library puts a
// protocol around them, GossipOperation: links whose ends take turns so that no pushes cross, agreements, deaths, RMA
// windows. gossip_operation_run.hpp runs that under the LogGP clock, and GossipWorld runs it in any order of events.
// Under its turns the figures of this simulation would be others. All of them share the code for a rank's iteration and
// its estimate of the aggregate (GossipRank), and for the error of that (ErrorBound).
//
// The same seed gives the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "collectives/gossip/faults.hpp"
#include "simulator/slowness.hpp"

namespace ucft::detail::simulator {

enum class GossipData : std::uint8_t { uniform, normal, bus, ranks };  // bus: Niederbrucker et al. 2012, section II-B
enum class GossipAggregate : std::uint8_t {
  average,
  sum,         // weights 1, times the number of ranks
  sum_one_hot  // rank 0 has weight 1 and all others 0: the papers' way. It dies with rank 0
};
enum class GossipStop : std::uint8_t {
  truth,    // when the worst error is eps: what only a simulator can see
  model,    // after rounds_for() rounds
  adaptive  // when the ranks' smallest and largest estimate are no further apart than eps, looked at now and then
};
struct RankDeath {
  Rank rank;
  double time;
};

struct GossipFaults : ucft::detail::GossipFaults {
  std::vector<RankDeath> deaths;
  double detection_delay = 1;  // from a death until the neighbours are told

  bool any() const { return ucft::detail::GossipFaults::any() || !deaths.empty(); }
};

struct GossipRun {
  GossipPlan plan;
  bool single_precision = false;
  int values = 1;
  GossipData data = GossipData::uniform;
  std::function<double(Rank rank, int index)> data_function;  // instead of data, if there is one
  GossipAggregate aggregate = GossipAggregate::average;
  double eps = 1e-6;
  bool root_only = false;  // the error is that of rank 0, not the worst
  GossipStop stop = GossipStop::truth;
  int rounds = 0;                         // at most; 0: from the model, with room. Not of recursive_doubling
  bool all_rounds = false;                // go on when eps has been reached
  bool lock_step = false;                 // an asynchronous algorithm by rounds: all push, then all receive
  double delay = 0.3, jitter = 0.2;       // with a physical topology: delay of each hop
  std::vector<SlowRank> slow;             // their iterations take factor times as long; not by rounds, nor in lock step
  std::optional<Neighbourhood> physical;  // what messages travel on: their hops are counted (Casas et al. 2018, 5.2)
  int check_every = 4;                    // adaptive
  std::uint64_t seed = 1;                 // of data and schedule
  GossipFaults faults;
  bool keeps_history = false, keeps_estimates = false;
};

struct GossipResult {
  int rounds = 0;        // iterations per rank until it stopped
  bool reached = false;  // the worst error was eps or less then
  double error =
      0;  // worst relative error of a live rank (root_only: rank 0's) at the end, against the answer after deaths
  double error_all = 0, error_survivors = 0;
  double best = 0;  // smallest worst error of any round
  // adaptive: what the ranks themselves knew of their error when they last looked; infinite: nothing
  double bound = std::numeric_limits<double>::infinity();
  std::int64_t messages = 0, lost = 0, flips = 0, unknown = 0;  // unknown: live ranks without an estimate at the end
  std::int64_t not_a_number = 0;                                // estimates seen that were no finite number
  std::int64_t hops = 0;                                        // of all messages, on the physical topology
  int longest_way = 0;                                          // hops of one of them
  std::int64_t checked_flows = 0;       // times that a link's two ends were compared: checks_events()
  std::vector<double> history, median;  // worst and median error after each round
  std::vector<double> estimates;        // at the end: values of rank 0, of rank 1, ..; none: not a number
};

// Whether this build asserts invariants after every event.
bool checks_events();

// "" or what is wrong with it.
std::string problem_with(const GossipRun& run);

// progress: called now and then with the part that is done. May be empty.
using GossipProgress = std::function<void(double done)>;
GossipResult simulate(const GossipRun& run, const GossipProgress& progress = {});

// Apart from all that, as one value a rank is all that memory has room for: HPS, hpflc's twin in exact arithmetic, and
// ARDB without faults, up to 2^30 ranks: one value each, uniform in [0, 1). Nothing but the values is stored: without
// faults every weight of HPS is 1/2 + 1/2 in each round. Gives the same bits as simulate() where both can run.
// rounds[i]: until the worst error was eps[i] or less; -1: not within the limit.
struct LargeResult {
  std::vector<int> rounds;
  std::vector<double> history;
  std::int64_t messages = 0;
};
struct LargeRun {
  GossipAlgorithm algorithm = GossipAlgorithm::hps;
  std::int64_t ranks = 1;
  bool single_precision = true;
  std::vector<double> eps;
  std::uint64_t seed = 1;
  int rounds = 200;  // at most
  int threads = 1;   // does not change the result
};
bool can_run_large(const GossipRun& run);
LargeResult simulate_large(const LargeRun& run, const GossipProgress& progress = {});

// The value that a rank gives in its place `index`, and its weight.
double value_of(const GossipRun& run, Rank rank, int index);
double weight_of(const GossipRun& run, Rank rank);
// A value of generated data.
double gossip_value(GossipData data, std::uint64_t seed, Rank ranks, Rank rank, int index);
// Uniform in [0, 1).
inline double uniform_value(std::uint64_t seed, std::uint64_t rank) {
  return static_cast<double>(mixed(mixed(seed, 0x76616c7565u), rank) >> 11) * 0x1p-53;
}

}  // namespace ucft::detail::simulator
