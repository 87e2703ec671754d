// Tries every order of the accesses and deaths of a small HostWorld, and random ones of larger worlds.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/host_world.hpp"

namespace ucft::detail::simulator {

struct HostExploration {
  std::int64_t states = 0, transitions = 0, ends = 0;
  std::int64_t ends_of_several = 0;  // at which two ranks or more live
  bool is_complete = true;           // false: max_states were not enough
  // How many different contents of memory there were, and a sum of their hashes. The ranks that live, the results that
  // were delivered, and whether it is an end, belong to the contents. Reduced or not, a plan has the same.
  std::int64_t contents = 0;
  std::uint64_t sum_of_contents = 0;
  std::string violation;  // with the way to it
};

// Every interleaving of every access with up to plan.max_deaths deaths at any of them. From every state that is reached
// an end must be in reach without another death. States are told apart by their fingerprints. compares: fills in the
// contents, too.
HostExploration explore(const HostPlan& plan, std::int64_t max_states, bool compares = false);
// Ways by chance, for worlds that are too large. Up to plan.max_deaths die, when is up to chance, too; some ranks are
// much slower than others, and not always the same.
HostExploration walk(const HostPlan& plan, std::int64_t runs, std::uint64_t seed);

}  // namespace ucft::detail::simulator
