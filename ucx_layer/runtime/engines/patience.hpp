// When a rank that waits asks those that it waits for: after 10 ms of one operation, then each time as long as before.
#pragma once

#include <chrono>

#include "collectives/core/protocol.hpp"

namespace ucft::detail {

class Patience {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // To be called now and then while that operation is the oldest that is awaited.
  bool is_over(OperationNumber number, Time now) {
    if (number != number_) {
      number_ = number;
      since_ = now;
      due_ = now + first;
    }
    if (now < due_) return false;
    due_ = now + (now - since_);
    return true;
  }
  // It could not ask.
  void try_again() { due_ = since_; }

 private:
  static constexpr std::chrono::milliseconds first{10};
  OperationNumber number_ = UINT64_MAX;
  Time since_{}, due_{};
};

}  // namespace ucft::detail
