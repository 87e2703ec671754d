// Every order of the accesses and deaths of a small HostWorld, and random ones of larger worlds.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/host_world.hpp"

namespace ucft::detail::simulator {

struct HostExploration {
  std::int64_t states = 0, transitions = 0, ends = 0;
  std::int64_t ends_of_several = 0;  // at which two ranks or more live
  bool is_complete = true;           // false: max_states were not enough
  std::string violation;             // with the way to it
};

// Every interleaving of every access with up to plan.max_deaths deaths at any of them. From every state that is reached an end
// must be in reach without another death. States are told apart by their fingerprints.
HostExploration explore(const HostPlan& plan, std::int64_t max_states);
// Ways by chance, for worlds that are too large. Up to plan.max_deaths die, when is up to chance, too; some ranks are much slower
// than others, and not always the same.
HostExploration walk(const HostPlan& plan, std::int64_t runs, std::uint64_t seed);

}  // namespace ucft::detail::simulator
