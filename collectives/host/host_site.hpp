// Where on its host a rank runs, as far as it is confined.
#pragma once

#include <compare>
#include <cstdint>

namespace ucft::detail {

// The package, the NUMA node and the last-level cache (L3) in which all cores are that a rank may run on, by their
// numbers on the host. -1: it may run on several, or that is not known.
struct HostSite {
  std::int16_t package = -1, numa = -1, cache = -1;
  auto operator<=>(const HostSite&) const = default;
};

}  // namespace ucft::detail
