// Invariants of simulated gossip, asserted after every event. In debug builds only: they cost as much as the rest.
#pragma once

#include <cassert>
#include <cmath>
#include <limits>

#include "simulator/gossip_ranks.hpp"

namespace ucft::detail::simulator {

#ifdef UCFT_CHECK_EVENTS
inline constexpr bool are_events_checked = true;
#else
inline constexpr bool are_events_checked = false;
#endif

}  // namespace ucft::detail::simulator
