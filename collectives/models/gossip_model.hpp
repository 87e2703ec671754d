// A model of a broadcast by gossip and ring correction in LogP, and the T that is chosen from it. The library's
// default, ucft_sim's default and ucft_sim's advice use it. Hoefler et al., "Corrected gossip algorithms" (IPDPS '17),
// bound the longest run of processes that gossip has not reached at T. Here the messages on their way at T count as
// well, and expectations stand in the place of bounds. docs/algorithms.md has the formulas, docs/studies.md compares
// them with simulation.
#pragma once

#include <cstdint>

#include "collectives/models/cost_model.hpp"

namespace ucft::detail {

// The unit of times is that of the costs.
struct GossipCase {
  std::int32_t size = 1;
  LogGP costs;
  std::uint64_t bytes = 8;
  Correction correction = Correction::checked;
  std::int32_t distance = 0;  // of the opportunistic forms; 0: as many as the longest run asks for
  std::int32_t f = 1;         // of failure-proof correction
  double dead = 0;            // a fraction of the processes, not the root; nobody knows of it
};

struct GossipForecast {
  double time = 0;            // T, at most some thousand messages' time
  double reached = 1;         // of the processes, when the last message of gossip has come, at T + L + 2o: a fraction
  double longest_gap = 0;     // on the ring: expected length of the longest run that gossip has not reached
  std::int32_t distance = 0;  // no run is longer than that, but with a probability of gossip_risk
  double longest_queue = 0;   // expected, at a receiver's port at T + L + 2o, in messages' intervals
  double end = 0;             // expected, of the last message of the correction
};
// The risk that gossip alone, or with opportunistic correction, passes some process by. Such a process asks the root.
inline constexpr double gossip_risk = 1e-6;

// The expected longest run on a ring of processes that are not reached. Each is reached independently of the others.
double expected_longest_gap(std::int32_t size, double reached);
// From the beginning of checked correction to its last message, in intervals; flight: L + 2o, in intervals.
double checked_correction_time(double flight, double longest_gap);

GossipForecast forecast_gossip(const GossipCase& given, double time);
// The forecast for the T that ends earliest.
GossipForecast best_gossip(const GossipCase& given);

// The ends of checked correction in a broadcast along a tree, and by gossip: the mean over draws of partners, and of
// those that are dead. Message by message (correction_clock.hpp) among up to most_clocked processes. Of more the
// formulas say how much later it ends: correction is between neighbours on the ring.
struct SpreadForecast {
  double tree_end = 0, gossip_end = 0;
  GossipForecast gossip;  // by the formulas alone; T is from there
  bool gossip_is_faster() const { return gossip_end < tree_end; }
};
inline constexpr std::int32_t most_clocked = 512;
// given.correction counts as checked.
SpreadForecast forecast_spread(const GossipCase& given, const BroadcastShape& shape);

// Sets the operation's T (0: the best), and how far opportunistic correction goes (0: so that it reaches all). With
// failure-proof correction: when a process panics that no process has let go.
// The unit of the costs is 1 us, as the library's.
void set_gossip(const LogGP& costs, std::uint64_t bytes, std::int32_t size, std::int64_t time_ns, Arguments& arguments);

}  // namespace ucft::detail
