// The times at which operations were posted, for observers from outside, without a look at a clock for each post. This
// rank's detector thread advances the heartbeat, and the first post after that takes the time. Later posts of the same
// heartbeat get that time, too, which is off by a heartbeat at most.
#pragma once

#include <atomic>
#include <cstdint>

namespace ucft::detail {

class HeartbeatClock {
 public:
  explicit HeartbeatClock(const std::atomic<std::uint64_t>& heartbeat) : heartbeat_(heartbeat) {}
  // Since the last call.
  bool has_ticked() {
    const std::uint64_t now = heartbeat_.load(std::memory_order_relaxed);
    if (now == seen_) [[likely]]
      return false;
    seen_ = now;
    return true;
  }

 private:
  const std::atomic<std::uint64_t>& heartbeat_;
  std::uint64_t seen_ = ~std::uint64_t{0};  // so the first call, too, says that it has ticked
};

}  // namespace ucft::detail
