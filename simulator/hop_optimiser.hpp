// With whom gossip should go on a machine, and at which reach, so that its messages travel the fewest hops in all:
// Casas et al. 2018, section 5.2, states the problem and leaves it open.
//
// A rank's cost is its messages until the worst error is eps, each at per_message + per_hop times its hops. The
// defaults, 0 and 1, count hops. Messages are counted by simulation: Push-Sum in lock step, medians over runs.
//
// Candidates: all ranks within so many hops of the machine, and topologies that know nothing of it. The reach is found
// by a coarse search and finer ones around its best, as the cost falls and then rises with the reach: tests/simulator
// compares with all reaches of small machines.
#pragma once

#include <string>
#include <vector>

#include "simulator/gossip_run.hpp"

namespace ucft::detail::simulator {

struct HopQuestion {
  Neighbourhood machine;  // reach 1
  double eps = 1e-6;
  double per_message = 0, per_hop = 1;
  int runs = 9, threads = 1;
  std::uint64_t seed = 1;
};

struct HopCandidate {
  Neighbourhood where;
  double rounds = 0, hops_per_message = 0;
  double cost = 0;      // of a rank
  int longest = 0;      // hops of one message
  bool reached = true;  // false: it was given up at four times the lowest cost so far; rounds and cost are of that
};

// "" or what is wrong with it.
std::string problem_with(const HopQuestion& question);
// Requires no problem.
HopCandidate measure(const HopQuestion& question, const Neighbourhood& where, double most_cost);
int diameter_of(const Neighbourhood& machine);

struct HopAnswer {
  std::vector<HopCandidate> reaches;  // of the machine's own topology, ascending
  std::vector<HopCandidate> others;   // that know nothing of the machine
  HopCandidate best;
};
HopAnswer optimise(const HopQuestion& question);

}  // namespace ucft::detail::simulator
