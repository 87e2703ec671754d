#include "mpi/ending.hpp"

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

#include "mpi/world.hpp"

namespace ucft::mpi {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto patience = 1s;  // after a death, for the things that MPI does by itself
constexpr auto caution = 1s;   // after that, for a moment in which no lock of the allocator can be held

// ---- how the waiting thread gets out --------------------------------------------------------------------------------
// By a jump out of a signal's handler. The frames that it leaves are MPI's, in C. Only the allocator's lock would be
// missed afterwards. A thread that holds it is in the allocator's code, or in what that calls: the same library.

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool has(std::uintptr_t address) const { return begin <= address && address < end; }
};

sigjmp_buf way_out;
pthread_t who_waits;
Range allocator;
std::atomic<bool> is_inside = false, anywhere = false;

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
  if (pthread_equal(pthread_self(), who_waits) == 0 || !is_inside) return;
  if (!anywhere && allocator.has(program_counter(context))) return;
  is_inside = false;
  siglongjmp(way_out, 1);
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
void call_out() {
  struct sigaction ours {
  }, before{};
  ours.sa_sigaction = get_out;
  ours.sa_flags = SA_SIGINFO | SA_RESTART;
  dl_iterate_phdr(find_allocator, dlsym(RTLD_DEFAULT, "malloc"));
  if (sigaction(SIGURG, &ours, &before) != 0) return;
  for (const auto limit = Clock::now() + caution; is_inside; std::this_thread::sleep_for(1ms)) {
    anywhere = Clock::now() > limit;
    pthread_kill(who_waits, SIGURG);
  }
  sigaction(SIGURG, &before, nullptr);
}

// No frame of this has anything to destroy.
[[gnu::noinline]] bool call_finalize(int* error) {
  if (sigsetjmp(way_out, 1) != 0) return false;
  is_inside = true;
  *error = PMPI_Finalize();
  is_inside = false;
  return true;
}

// ---- who watches ----------------------------------------------------------------------------------------------------

std::atomic<bool> callbacks_are_over = false;

int on_last_callback(MPI_Comm, int, void*, void*) {
  callbacks_are_over = true;
  return MPI_SUCCESS;
}

class Watch {
 public:
  Watch() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);  // the program's signals are for its own threads
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // no thread is left: then nobody watches
    }
    sigset_t urgent;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_sigmask(SIG_UNBLOCK, &urgent, nullptr);
    before_ = before;
  }
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    ends_.notify_one();
    if (thread_.joinable()) thread_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void run() {
    Clock::time_point limit = Clock::time_point::max();
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, 1ms, [&] { return done_; })) {
      look_for_deaths();
      if (nobody_is_dead() || !callbacks_are_over) continue;
      if (limit == Clock::time_point::max()) limit = Clock::now() + patience;
      if (Clock::now() < limit) continue;
      lock.unlock();
      return call_out();
    }
  }

  sigset_t before_{};
  std::mutex mutex_;
  std::condition_variable ends_;
  bool done_ = false;  // guarded
  std::thread thread_;
};

}  // namespace

void prepare_end() {
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_last_callback, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);  // set first, so it is deleted last
  PMPI_Comm_free_keyval(&keyval);
}

bool end_mpi(int& error) {
  who_waits = pthread_self();
  const Watch watch;
  return call_finalize(&error);
}

}  // namespace ucft::mpi
