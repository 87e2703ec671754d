// Keeps an abort() inside UCX from ending the process. UCX 1.13 with assertions, as Debian 12 builds it, calls abort()
// in a process that connects to a peer as the peer dies (wireup_ep.c, tcp_ep.c: docs/failure_model.md, "Start-up").
#pragma once

#include <csetjmp>

namespace ucft::detail {

// While one exists the process has a handler of SIGABRT. It works in calls of `run` only: an abort outside them ends
// the process, or goes to the handler that was there before.
class AbortsKept {
 public:
  AbortsKept();
  ~AbortsKept();
  AbortsKept(const AbortsKept&) = delete;
  AbortsKept& operator=(const AbortsKept&) = delete;

  // In functions of ours that `call` calls back: an abort() in there is our own, and ends the process.
  class Outside {
   public:
    Outside() : back_(take_way_back()) {}
    ~Outside() { set_way_back(back_); }
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

   private:
    sigjmp_buf* back_;
  };

  // False: there was an abort() in `call`, which has not come to its end. No destructor of its frames has run, and what
  // it works on may be in any state: the worker of UCX must never be used again, nor be destroyed. Not nested.
  template <class Call>
  static bool run(Call&& call) {
    sigjmp_buf back;
    if (sigsetjmp(back, 1) != 0) return false;
    set_way_back(&back);
    call();
    set_way_back(nullptr);
    return true;
  }

 private:
  static void set_way_back(sigjmp_buf* back);  // of this thread
  static sigjmp_buf* take_way_back();
};

}  // namespace ucft::detail
