// When a broadcast with checked correction is over: every process's RingCorrection under LogGP, sends and receives side
// by side, message by message. The simulator's engine shows the same times. It is for the choice between a tree and
// gossip, which few processes make differently than the formulas of gossip_model.hpp say.
//
// Some processes may be dead; no process knows of it. Times are in the unit of the costs.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/models/cost_model.hpp"

namespace ucft::detail {

struct CorrectedCase {
  std::int32_t size = 1;
  LogGP costs;
  std::uint64_t bytes = 8;
  std::vector<bool> dead{};  // by process; empty: none. Process 0 lives
};

// Of the last send or receive, after a tree: a process corrects as soon as it has sent to its children.
double corrected_tree_end(const CorrectedCase& given, const BroadcastShape& shape);
// The same after gossip until T, whose partners are drawn from the seed.
double corrected_gossip_end(const CorrectedCase& given, double time, std::uint64_t seed);

}  // namespace ucft::detail
