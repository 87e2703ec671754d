#include "collectives/among/phases/gossip_spread.hpp"

#include <algorithm>
#include <cassert>

namespace ucft::detail {

void GossipSpread::start(const GossipSetting& setting, Place place, std::uint64_t seed, std::int64_t age_ns) {
  setting_ = setting;
  place_ = place;
  random_ = Random(mixed(seed, static_cast<std::uint64_t>(place.process)));
  began_ns_ = unknown;
  age_ns_ = age_ns;
  active_ = true;
}

std::optional<std::int32_t> GossipSpread::turn(std::int64_t now_ns, bool may_send) {
  assert(active_);
  if (now_ns < 0) now_ns = due_ns();
  if (began_ns_ == unknown) {
    began_ns_ = now_ns - age_ns_;
    due_ns_ = now_ns;
  }
  age_ns_ = now_ns - began_ns_;
  if (age_ns_ >= setting_.time_ns || place_.size == 1) {
    active_ = false;
    return std::nullopt;
  }
  if (now_ns < due_ns_ || !may_send) return std::nullopt;
  due_ns_ = std::min(now_ns + setting_.interval_ns, began_ns_ + setting_.time_ns);
  const auto other = static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(place_.size) - 1));
  return other + (other >= place_.process ? 1 : 0);
}

}  // namespace ucft::detail
