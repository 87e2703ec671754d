// The thread that works for a rank whose program is not calling (docs/failure_model.md, "Ranks that are not calling").
//
// It may run user operators, for as long as they like. That is why it is not the detector's thread: heartbeats must go
// out meanwhile, or a rank that computes would be taken for dead.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace ucft::detail {

class HelperThread {
 public:
  using Turn = void (*)(void* arg);

  // Starts it ("ucft-helper"; all signals blocked); it sleeps until it is woken. Throws std::system_error.
  HelperThread(Turn turn, void* arg);
  // Waits for the end of its turn. In a fork of the creating process there is nothing to wait for.
  ~HelperThread();
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  // One turn from now on; another one if it is in a turn already. Any thread.
  void wake();

 private:
  void run();

  Turn turn_;
  void* arg_;
  int creator_pid_;
  std::atomic<std::uint32_t> wakes_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace ucft::detail
