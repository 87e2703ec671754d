#include "mpi/watch.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <ucontext.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace ucft::mpi {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto patience = 800ms;     // after a death, for the things that MPI does by itself
constexpr auto caution = 1s;         // after that, for a moment in which no lock of the allocator can be held
constexpr auto long_patience = 10s;  // where a living rank may be the reason
constexpr auto between_looks = 1ms;
constexpr int idle_looks = 1000;  // without a call, before the thread sleeps

// ---- how the waiting thread gets out --------------------------------------------------------------------------------
// By a jump out of a signal's handler. The frames that it leaves are MPI's, in C. Only the allocator's lock would be
// missed afterwards. A thread that holds it is in the allocator's code, or in what that calls: the same library.

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool has(std::uintptr_t address) const { return begin <= address && address < end; }
};

struct WatchedCall {
  sigjmp_buf way_out;
  pthread_t thread = pthread_self();
  const Needed* needed = nullptr;
  const std::atomic<bool>* begins_at = nullptr;
  std::chrono::milliseconds patience{0};
  Clock::time_point limit = Clock::time_point::max();
  bool has_inner = false;  // guarded: another one, by a callback of the program's inside it
  volatile std::sig_atomic_t is_inside = 0;
};
thread_local WatchedCall* watched __attribute__((tls_model("initial-exec"))) = nullptr;

Range allocator;
std::atomic<bool> anywhere = false;
std::atomic<const WatchedCall*> leaving = nullptr;  // the call that is to be left

std::uintptr_t program_counter(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return machine.pc;
#else
#error "Where does this processor keep its program counter?"
#endif
}

void get_out(int, siginfo_t*, void* context) {
  if (watched == nullptr || watched != leaving || watched->is_inside == 0) return;
  if (!anywhere && allocator.has(program_counter(context))) return;
  watched->is_inside = 0;
  siglongjmp(watched->way_out, 1);
}

int find_allocator(dl_phdr_info* object, std::size_t, void* malloc_at) {
  const auto address = reinterpret_cast<std::uintptr_t>(malloc_at);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    const Range range{object->dlpi_addr + segment.p_vaddr, object->dlpi_addr + segment.p_vaddr + segment.p_memsz};
    if (segment.p_type == PT_LOAD && range.has(address)) return allocator = range, 1;
  }
  return 0;
}

// By a signal that is ignored by default, and hardly used.
void call_out(const WatchedCall& call) {
  struct sigaction ours {
  }, before{};
  ours.sa_sigaction = get_out;
  ours.sa_flags = SA_SIGINFO | SA_RESTART;
  dl_iterate_phdr(find_allocator, dlsym(RTLD_DEFAULT, "malloc"));
  if (sigaction(SIGURG, &ours, &before) != 0) return;
  leaving = &call;
  for (const auto limit = Clock::now() + caution; call.is_inside != 0; std::this_thread::sleep_for(1ms)) {
    anywhere = Clock::now() > limit;
    pthread_kill(call.thread, SIGURG);
  }
  leaving = nullptr;
  sigaction(SIGURG, &before, nullptr);
}

void let_it_come() {
  sigset_t urgent;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  pthread_sigmask(SIG_UNBLOCK, &urgent, nullptr);
}

// ---- who watches ----------------------------------------------------------------------------------------------------

// One thread of the process, from the first such call on.
class Watcher {
 public:
  void add(WatchedCall* call, WatchedCall* around) {
    const std::lock_guard lock(mutex_);
    if (around != nullptr) around->has_inner = true;
    if (!has_begun_) begin();
    calls_.push_back(call);
    if (is_asleep_) comes_.notify_one();
  }
  void stay_awake(bool awake) {
    const std::lock_guard lock(mutex_);
    if (awake && !has_begun_) begin();
    stays_awake_ = awake;
  }
  void remove(WatchedCall* call, WatchedCall* around) {
    const std::lock_guard lock(mutex_);
    if (around != nullptr) around->has_inner = false;
    std::erase(calls_, call);
  }

 private:
  // The program's signals are for its own threads. Where no thread is left nobody watches.
  void begin() {
    has_begun_ = true;
    world.is_shared = true;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    try {
      std::thread([this] { run(); }).detach();
    } catch (const std::system_error&) {}
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  [[noreturn]] void run() {
    std::unique_lock lock(mutex_);
    for (int idle = 0;; ++idle) {
      if (!calls_.empty() || stays_awake_) idle = 0;
      is_asleep_ = idle >= idle_looks;
      if (is_asleep_)
        comes_.wait(lock);
      else
        comes_.wait_for(lock, between_looks);
      if (calls_.empty() && !stays_awake_) continue;
      look_for_deaths();
      if (!nobody_is_dead()) look_at_all();
    }
  }

  void look_at_all() {
    const auto now = Clock::now();
    for (WatchedCall* call : calls_) {
      if (call->is_inside == 0 || call->has_inner || (call->begins_at != nullptr && !*call->begins_at)) continue;
      if (call->limit == Clock::time_point::max() && first_dead(*call->needed) >= 0) call->limit = now + call->patience;
      if (now >= call->limit) call_out(*call);
    }
  }

  std::mutex mutex_;
  std::condition_variable comes_;
  std::vector<WatchedCall*> calls_;
  bool has_begun_ = false, is_asleep_ = false, stays_awake_ = false;
};

// It outlives main, as its thread does.
Watcher& watcher() {
  static auto* const one = new Watcher;
  return *one;
}

// No frame of this has anything to destroy.
[[gnu::noinline]] bool call_inside(WatchedCall& call, int (*pmpi)(const void*), const void* arguments, int* error) {
  if (sigsetjmp(call.way_out, 0) != 0) return false;
  call.is_inside = 1;
  *error = pmpi(arguments);
  call.is_inside = 0;
  return true;
}

}  // namespace

void watch_always() { watcher().stay_awake(true); }
void stop_watching() { watcher().stay_awake(false); }

bool call_watched(int (*pmpi)(const void*), const void* arguments, const Needed& needed,
                  const std::atomic<bool>* begins_at, bool is_patient, int& error) {
  WatchedCall call;
  call.needed = &needed;
  call.begins_at = begins_at;
  call.patience = is_patient ? long_patience : patience;
  WatchedCall* const around = watched;  // a callback of the program's may be inside another one
  let_it_come();
  watcher().add(&call, around);
  watched = &call;
  const bool has_ended = call_inside(call, pmpi, arguments, &error);
  watcher().remove(&call, around);
  watched = around;
  if (!has_ended) let_it_come();  // the handler's
  return has_ended;
}

}  // namespace ucft::mpi
