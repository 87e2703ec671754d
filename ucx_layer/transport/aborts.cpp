#include "ucx_layer/transport/aborts.hpp"

#include <unistd.h>

#include <csignal>
#include <mutex>

namespace ucft::detail {

namespace {

std::mutex changing;
int kept = 0;
struct sigaction before;
thread_local sigjmp_buf* volatile way_back = nullptr;

// abort() raises the signal in the thread that calls it, and holds no lock of its own meanwhile: it may be left. A
// signal that somebody else has sent is for the process.
void on_abort(int signal, siginfo_t* info, void* context) {
  sigjmp_buf* const back = way_back;
  if (back != nullptr && info->si_code == SI_TKILL && info->si_pid == getpid()) {
    way_back = nullptr;
    siglongjmp(*back, 1);
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler == SIG_DFL) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // is blocked until this returns
  } else if (before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

}  // namespace

AbortsKept::AbortsKept() {
  const std::lock_guard lock(changing);
  if (kept++ > 0) return;
  struct sigaction ours {};
  ours.sa_sigaction = &on_abort;
  ours.sa_flags = SA_SIGINFO;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGABRT, &ours, &before);
}

// A handler that the program has set meanwhile stays.
AbortsKept::~AbortsKept() {
  const std::lock_guard lock(changing);
  if (--kept > 0) return;
  struct sigaction now {};
  sigaction(SIGABRT, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_abort) sigaction(SIGABRT, &before, nullptr);
}

void AbortsKept::set_way_back(sigjmp_buf* back) { way_back = back; }

sigjmp_buf* AbortsKept::take_way_back() {
  sigjmp_buf* const back = way_back;
  way_back = nullptr;
  return back;
}

}  // namespace ucft::detail
