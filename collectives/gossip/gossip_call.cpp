#include "collectives/gossip/gossip_call.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

namespace ucft::detail {

// A flow that was zeroed, or not taken in, is made good for when its cycle comes again. A new cycle in each round never
// does. The fewer there are the sooner a flow is repaired; but of fewer than 16 some hardly mix (docs/gossip_api.md).
// Each comes twice at least. So after a flip in the last ones the ranks still differ by more than eps, and go on.
// Without checksums cycles that come again repair nothing.
std::string GossipCall::choose_repair(int cycles, int repair_initial) {
  const char* name = gossip_algorithm_name(plan.algorithm);
  const bool repairs_by_rounds = uses_cycles(plan.algorithm) && has_checksums(plan.algorithm);
  if (cycles < new_cycles || cycles > most_cycles)
    return fmt::format("cycles is {}: must be {} .. {}", cycles, new_cycles, most_cycles);
  if (cycles != 0 && !uses_cycles(plan.algorithm)) return fmt::format("cycles is {}: {} has none", cycles, name);
  if (repair_initial < -1 || repair_initial > 1)
    return fmt::format("repair_initial is {}: must be -1, 0 or 1", repair_initial);
  if (repair_initial == 1 && !has_checksums(plan.algorithm))
    return fmt::format("repair_initial is 1: {} has no checksums", name);
  plan.cycles = cycles == new_cycles               ? 0
                : cycles == 0 && repairs_by_rounds ? std::clamp(iterations / 2, 1, usual_cycles)
                                                   : cycles;
  plan.repairs_initial = repair_initial == 0 ? repairs_by_rounds : repair_initial == 1;
  return "";
}

std::uint64_t GossipCall::signature() const {
  std::uint64_t hash = 0;
  const auto add = [&](std::uint64_t word) { hash = mixed(hash, word); };
  add(static_cast<std::uint64_t>(plan.algorithm));
  add(static_cast<std::uint64_t>(plan.neighbourhood.topology));
  add(static_cast<std::uint64_t>(plan.neighbourhood.arity));
  add(static_cast<std::uint64_t>(plan.neighbourhood.degree));
  add(plan.seed);
  add(static_cast<std::uint64_t>(plan.cycles));
  add(std::bit_cast<std::uint64_t>(plan.tau));
  add(std::bit_cast<std::uint64_t>(eps));
  add(static_cast<std::uint64_t>(iterations));
  add(count);
  add(static_cast<std::uint64_t>(adaptive) | static_cast<std::uint64_t>(sum) << 1 |
      static_cast<std::uint64_t>(is_float) << 2 | static_cast<std::uint64_t>(path) << 3 |
      static_cast<std::uint64_t>(plan.repairs_initial) << 8 | static_cast<std::uint64_t>(plan.extremum) << 9 |
      static_cast<std::uint64_t>(half) << 11);
  return hash >> 16;
}

}  // namespace ucft::detail
