// The judge of all-reduces by gossip: survivors have the same, of themselves at least, and within its bound.
#pragma once

#include <vector>

#include "simulator/judge/communicators.hpp"
#include "simulator/judge/fates.hpp"

namespace ucft::judge {

// Of one communicator.
void judge_gossips(const Case& judged, const Communicator& on, std::vector<Violation>& violations);

}  // namespace ucft::judge
