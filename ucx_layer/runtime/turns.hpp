// Turns in a context: one caller at a time, and the helper thread when no caller is inside.
//
// Dekker's handshake: each side stores its word, then looks at the other's. The caller's store is plain; the helper
// makes it visible before it looks, with membarrier. So the hand-over costs the caller two plain stores and a load.
// (Without membarrier the caller has a fence; then the helper's store and its look must both be sequentially
// consistent, or a processor may look first.)
#pragma once

#include <atomic>

namespace ucft::detail {

class Turns {
 public:
  // The caller's way in and out. False: somebody is inside.
  bool enter() {
    if (inside_.load(std::memory_order_relaxed) != 0) return false;
    inside_.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (caller_fences_) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (helper_inside_.load(std::memory_order_acquire) != 0) wait_for_helper();
    return true;
  }
  void leave() { inside_.store(0, std::memory_order_release); }

  // On the helper thread: false if a caller is inside; else no caller comes in until helper_leave().
  bool helper_enter();
  void helper_leave() { helper_inside_.store(0, std::memory_order_release); }

  // membarriers: this process has registered for them; else enter() has to fence itself. Before the helper is there.
  void use(bool membarriers) { caller_fences_ = !membarriers; }

 private:
  void wait_for_helper();

  alignas(64) std::atomic<int> inside_{0};
  std::atomic<int> helper_inside_{0};
  bool caller_fences_ = true;
};

}  // namespace ucft::detail
