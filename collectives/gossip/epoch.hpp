// A counter of how often a gossip operation has begun, to sort messages by. Messages from before a restart are of no
// use. A message of a rank that has seen the end of an agreement before us must wait until we have seen it, too. Two
// ranks are never further apart than that.
#pragma once

#include <cstdint>

namespace ucft::detail {

class GossipEpoch {
 public:
  void begin() { ++begun_; }
  std::uint32_t begun() const { return begun_; }  // 0: they have not met
  std::uint16_t restarts() const { return static_cast<std::uint16_t>(begun_ == 0 ? 0 : begun_ - 1); }

  // restarts: how often the sender of a message has begun again, modulo 65536.
  bool is_now(std::uint16_t restarts) const { return begun_ > 0 && restarts == this->restarts(); }
  bool is_ahead(std::uint16_t restarts) const {
    return static_cast<std::uint16_t>(restarts - begun_) == 0 || (begun_ == 0 && restarts == 1);
  }

 private:
  std::uint32_t begun_ = 0;
};

}  // namespace ucft::detail
