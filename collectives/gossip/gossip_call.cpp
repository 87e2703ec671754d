#include "collectives/gossip/gossip_call.hpp"

#include <bit>

namespace ucft::detail {

std::uint64_t GossipCall::signature() const {
  std::uint64_t hash = 0;
  const auto add = [&](std::uint64_t word) { hash = mixed(hash, word); };
  add(static_cast<std::uint64_t>(plan.algorithm));
  add(static_cast<std::uint64_t>(plan.neighbourhood.topology));
  add(static_cast<std::uint64_t>(plan.neighbourhood.arity));
  add(static_cast<std::uint64_t>(plan.neighbourhood.degree));
  add(plan.seed);
  add(std::bit_cast<std::uint64_t>(plan.tau));
  add(std::bit_cast<std::uint64_t>(eps));
  add(static_cast<std::uint64_t>(iterations));
  add(count);
  add(static_cast<std::uint64_t>(adaptive) | static_cast<std::uint64_t>(sum) << 1 |
      static_cast<std::uint64_t>(is_float) << 2 | static_cast<std::uint64_t>(path) << 3);
  return hash >> 16;
}

}  // namespace ucft::detail
