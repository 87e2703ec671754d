// The arguments of a gossip all-reduce, and the quality of its result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/gossip/fault_injector.hpp"
#include "collectives/gossip/gossip.hpp"
#include "collectives/reduction/half_values.hpp"

namespace ucft::detail {

enum class GossipPath : std::uint8_t { any, messages, windows };  // as ucft_gossip_path_t

// The same on all ranks.
struct GossipCall {
  GossipPlan plan;  // tau 0: chosen in the first agreement
  double eps = 0;
  bool adaptive = false, sum = false;
  GossipPath path = GossipPath::any;
  bool is_float = false;
  GossipHalf half = GossipHalf::none;  // of what is carried in float
  std::uint64_t count = 0;
  int iterations = 0;  // of the first stage; by rounds: its rounds

  // Options that the caller need not name. cycles: 0: the default; new_cycles: a new one in each round.
  // repair_initial: 0: the default; 1: yes; -1: no. "", or what is wrong with them. The algorithm and the iterations
  // are known before.
  static constexpr int new_cycles = -1, usual_cycles = 16;
  std::string choose_repair(int cycles, int repair_initial);
  // Whether flows outlive a death; and whether the result nearly stands for a rank, too, that dies on the way.
  bool keeps_flows() const { return !is_extremum() && uses_flows(plan.algorithm) && !goes_by_rounds(plan.algorithm); }
  bool keeps_the_dead() const {
    return !is_extremum() && answer_after_death(plan.algorithm) == GossipAnswer::all_ranks;
  }
  bool is_extremum() const { return plan.extremum != GossipExtremum::none; }
  // The whole call, in 48 bits: exact as a double.
  std::uint64_t signature() const;
};

// The ranks whose aggregate the result is. As ucft_gossip_answer_t.
enum class GossipStandsFor : std::uint8_t { all_ranks, survivors, nearly_all_ranks };

// excluded: the others have agreed that this rank is dead. no_answer: it was stopped.
enum class GossipEnd : std::uint8_t { none, success, mismatch, unsupported, no_memory, excluded, no_answer };

struct GossipOutcome {
  GossipEnd end = GossipEnd::none;
  Rank culprit = no_rank;  // of unsupported, no_memory
  double error_bound = 0;
  bool reached = false;
  std::uint64_t iterations = 0, messages = 0;  // of this rank; messages: counted by the driver
  std::uint32_t stages = 0, live = 0, contributors = 0;
  GossipStandsFor answer = GossipStandsFor::all_ranks;
  bool one_sided = false;
  std::vector<bool> missing;             // by rank: true if the result does not stand for it
  GossipFaultInjector::Counts injected;  // at this rank
};

}  // namespace ucft::detail
