// See helper_thread.hpp.
#include "ucx_layer/runtime/helper_thread.hpp"

#include <pthread.h>
#include <unistd.h>

#include "timeout_detector/signals_blocked.hpp"

namespace ucft::detail {

HelperThread::HelperThread(Turn turn, void* arg) : turn_(turn), arg_(arg), creator_pid_(static_cast<int>(::getpid())) {
  const AllSignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

HelperThread::~HelperThread() {
  if (static_cast<int>(::getpid()) != creator_pid_) {
    thread_.detach();
    return;
  }
  stopping_ = true;
  wake();
  thread_.join();
}

void HelperThread::wake() {
  wakes_.fetch_add(1);
  wakes_.notify_one();
}

void HelperThread::run() {
  pthread_setname_np(pthread_self(), "ucft-helper");
  for (std::uint32_t seen = 0; !stopping_;) {
    wakes_.wait(seen);
    seen = wakes_.load();
    if (!stopping_) turn_(arg_);
  }
}

}  // namespace ucft::detail
