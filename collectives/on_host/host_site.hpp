// Where on its host a rank runs, as far as it is confined.
#pragma once

#include <compare>
#include <cstdint>

namespace ucft::detail {

// The package, the NUMA node and the last-level cache (L3) that contain all cores on which a rank may run. They are the
// host's own numbers. -1: the rank may run on several, or that is not known.
struct HostSite {
  std::int16_t package = -1, numa = -1, cache = -1;
  auto operator<=>(const HostSite&) const = default;
};

}  // namespace ucft::detail
