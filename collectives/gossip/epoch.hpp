// How often a gossip operation has begun: what was said before a restart is of no use, and what comes from a rank that
// has seen the end of an agreement before us must wait until we have, too. Ranks are never further apart than that.
#pragma once

#include <cstdint>

namespace ucft::detail {

class GossipEpoch {
 public:
  void begin() { ++begun_; }
  std::uint32_t begun() const { return begun_; }  // 0: they have not met
  std::uint16_t restarts() const { return static_cast<std::uint16_t>(begun_ == 0 ? 0 : begun_ - 1); }

  // Of what somebody says who has begun again so often, modulo 65536.
  bool is_now(std::uint16_t restarts) const { return begun_ > 0 && restarts == this->restarts(); }
  bool is_ahead(std::uint16_t restarts) const {
    return static_cast<std::uint16_t>(restarts - begun_) == 0 || (begun_ == 0 && restarts == 1);
  }

 private:
  std::uint32_t begun_ = 0;
};

}  // namespace ucft::detail
