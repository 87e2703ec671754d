// A thread of a simulated process: a stack of its own, and thread-local variables of its own, on the one thread of the
// program.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <ucontext.h>

namespace ucft::jobs {

struct Process;

// Runs until it lets the scheduler go on, or ends. One that is never resumed is only forgotten: nothing on its stack is
// destroyed, as in a process that is killed.
class Fiber {
 public:
  // body: called on the fiber's stack. It must not throw.
  Fiber(std::uint64_t id, Process& process, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From the scheduler: returns when the fiber waits, or is over.
  void resume();
  // From the fiber: returns when it is resumed.
  void suspend();
  // The program has its own thread-local variables again.
  static void leave_all();

  std::uint64_t id() const { return id_; }
  Process& process() const { return process_; }
  bool is_over() const { return is_over_; }

  // The scheduler's.
  std::uint64_t waits = 0;  // how often it has waited: a wake-up for an earlier wait does nothing
  bool is_waiting = false, was_woken = false;
  bool is_runnable = false;      // it waits for a processor only
  std::uint32_t idle_looks = 0;  // in a row
  int uncut = 0;                 // locks and initialisations that it is in: it is not cut there
  std::vector<Fiber*> joiners;

 private:
  static void begin();
  void take_own();

  std::uint64_t id_;
  Process& process_;
  std::function<void()> body_;
  void* stack_;
  ucontext_t context_{};
  std::jmp_buf here_{}, scheduler_{};
  bool has_begun_ = false, is_over_ = false;
  std::vector<std::byte> own_;  // what is thread-local, while another thread has run since
};

}  // namespace ucft::jobs
