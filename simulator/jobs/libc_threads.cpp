// libc's names for time, threads and processes, as ucft_world has them. See kernel.hpp.
#include <cxxabi.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "simulator/jobs/files.hpp"
#include "simulator/jobs/kernel.hpp"
#include "simulator/jobs/memory.hpp"
#include "simulator/jobs/real.hpp"

using namespace ucft::jobs;

namespace {

Time in_ns(const timespec& time) { return time.tv_sec * second + time.tv_nsec; }

// ---- futexes --------------------------------------------------------------------------------------------------------

struct Sleepers {
  std::map<MemoryName, std::vector<Fiber*>> at;
};
std::map<MemoryName, std::vector<Fiber*>>& sleepers() { return Kernel::instance()->own<Sleepers>().at; }

long futex_wait(Kernel& kernel, const std::uint32_t* word, std::uint32_t expected, Time until) {
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != expected) return errno = EAGAIN, -1;
  const MemoryName name = name_of_memory(word);
  Fiber* const self = Kernel::current();
  sleepers()[name].push_back(self);
  const bool was_woken = kernel.wait(until);
  std::vector<Fiber*>& others = sleepers()[name];
  std::erase(others, self);
  if (others.empty()) sleepers().erase(name);
  return was_woken ? 0 : (errno = ETIMEDOUT, -1);
}

long futex_wake(Kernel& kernel, const std::uint32_t* word, int most) {
  const auto found = sleepers().find(name_of_memory(word));
  if (found == sleepers().end()) return 0;
  long woken = 0;
  for (Fiber* each : std::vector<Fiber*>(found->second)) {
    if (woken >= most) break;
    std::erase(found->second, each);
    if (each->process().life != Life::lives) continue;
    kernel.wake(*each);
    ++woken;
  }
  return woken;
}

long futex(Kernel& kernel, const std::uint32_t* word, int operation, std::uint32_t value, const timespec* time) {
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT: return futex_wait(kernel, word, value, time == nullptr ? never : kernel.after(in_ns(*time)));
    case FUTEX_WAIT_BITSET:
      return futex_wait(kernel, word, value, time == nullptr ? never : kernel.when_clock_says(in_ns(*time)));
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: return futex_wake(kernel, word, static_cast<int>(value));
    default: not_simulated("futex", operation);
  }
}

// ---- conditions -----------------------------------------------------------------------------------------------------

struct Waiters {
  std::map<const pthread_cond_t*, std::vector<Fiber*>> at;
};

// A wake-up that comes between unlocking and waiting would be lost: nobody runs there.
int wait_for_condition(const pthread_cond_t* condition, pthread_mutex_t* mutex, Time until) {
  Kernel& kernel = *Kernel::running();
  auto& waiters = kernel.own<Waiters>().at;
  Fiber* const self = Kernel::current();
  waiters[condition].push_back(self);
  pthread_mutex_unlock(mutex);
  const bool was_woken = kernel.wait(until);
  if (const auto found = waiters.find(condition); found != waiters.end()) {
    std::erase(found->second, self);
    if (found->second.empty()) waiters.erase(found);
  }
  pthread_mutex_lock(mutex);
  return was_woken ? 0 : ETIMEDOUT;
}

int wake_by_condition(const pthread_cond_t* condition, int most) {
  Kernel& kernel = *Kernel::running();
  kernel.pass();
  const auto found = kernel.own<Waiters>().at.find(condition);
  if (found == kernel.own<Waiters>().at.end()) return 0;
  for (Fiber* each : std::vector<Fiber*>(found->second)) {
    if (most-- == 0) break;
    std::erase(found->second, each);
    if (each->process().life == Life::lives) kernel.wake(*each);
  }
  if (found->second.empty()) kernel.own<Waiters>().at.erase(found);
  return 0;
}

// ---- pidfds ---------------------------------------------------------------------------------------------------------

long pidfd_open(Kernel& kernel, int pid) {
  Process* const process = kernel.process_of(pid);
  if (process == nullptr || process->host != Kernel::process().host || process->life == Life::has_ended)
    return errno = ESRCH, -1;
  const auto made = std::make_shared<PidFd>(*process);
  process->at_end.push_back([made] { made->changed(); });
  return new_descriptor(made);
}

long pidfd_send_signal(Kernel& kernel, int descriptor, int signal) {
  const auto file = file_as<PidFd>(descriptor);
  if (file == nullptr) return errno = EBADF, -1;
  if (file->process.life == Life::has_ended) return errno = ESRCH, -1;
  if (signal == SIGKILL) kernel.kill(file->process);
  return 0;
}

}  // namespace

namespace ucft::jobs {

void not_simulated(const char* function, long what) {
  std::fprintf(stderr, "ucft_world: %s(%ld) is not simulated\n", function, what);
  std::abort();
}

}  // namespace ucft::jobs

extern "C" {

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) {
    UCFT_REAL(syscall);
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  kernel->pass();
  switch (number) {
    case SYS_futex:
      return futex(*kernel, reinterpret_cast<const std::uint32_t*>(a[0]), static_cast<int>(a[1]),
                   static_cast<std::uint32_t>(a[2]), reinterpret_cast<const timespec*>(a[3]));
    case SYS_membarrier: return 0;
    case SYS_pidfd_open: return pidfd_open(*kernel, static_cast<int>(a[0]));
    case SYS_pidfd_send_signal: return pidfd_send_signal(*kernel, static_cast<int>(a[0]), static_cast<int>(a[1]));
    case SYS_gettid: return static_cast<long>(Kernel::current()->id());
    default: not_simulated("syscall", number);
  }
}

// ---- time -----------------------------------------------------------------------------------------------------------

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) {
    UCFT_REAL(clock_gettime);
    return real_clock_gettime(clock, time);
  }
  kernel->pass();
  time->tv_sec = kernel->clock() / second;
  time->tv_nsec = kernel->clock() % second;
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) {
    UCFT_REAL(nanosleep);
    return real_nanosleep(time, left);
  }
  return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) {
    UCFT_REAL(clock_nanosleep);
    return real_clock_nanosleep(clock, flags, time, left);
  }
  const Time until = (flags & TIMER_ABSTIME) != 0 ? kernel->when_clock_says(in_ns(*time)) : kernel->after(in_ns(*time));
  kernel->wait(until + kernel->some(kernel->temper.wake));
  return 0;
}

int sched_yield() noexcept {
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) {
    UCFT_REAL(sched_yield);
    return real_sched_yield();
  }
  kernel->idle();
  return 0;
}

// ---- threads --------------------------------------------------------------------------------------------------------

int pthread_create(pthread_t* made, const pthread_attr_t* attributes, void* (*routine)(void*), void* arg) noexcept {
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) {
    UCFT_REAL(pthread_create);
    return real_pthread_create(made, attributes, routine, arg);
  }
  Fiber& thread = kernel->start_thread(Kernel::process(), [routine, arg] { routine(arg); });
  *made = reinterpret_cast<pthread_t>(&thread);
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) {
    UCFT_REAL(pthread_join);
    return real_pthread_join(thread, result);
  }
  auto& joined = *reinterpret_cast<Fiber*>(thread);
  while (!joined.is_over()) {
    joined.joiners.push_back(Kernel::current());
    kernel->wait(never);
  }
  return 0;
}

int pthread_detach(pthread_t thread) noexcept {
  if (Kernel::running() != nullptr) return 0;
  UCFT_REAL(pthread_detach);
  return real_pthread_detach(thread);
}

pthread_t pthread_self() noexcept {
  if (Kernel::running() != nullptr) return reinterpret_cast<pthread_t>(Kernel::current());
  UCFT_REAL(pthread_self);
  return real_pthread_self();
}

int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  if (Kernel::running() != nullptr) return 0;
  UCFT_REAL(pthread_setname_np);
  return real_pthread_setname_np(thread, name);
}

// All threads are one here: what another one holds would never come back.
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) {
    UCFT_REAL(pthread_mutex_lock);
    return real_pthread_mutex_lock(mutex);
  }
  UCFT_REAL(pthread_mutex_trylock);
  int status;
  while ((status = real_pthread_mutex_trylock(mutex)) == EBUSY) kernel->yield(kernel->temper.yield);
  if (status != 0) return status;
  Kernel::process().locked.insert(mutex);
  ++Kernel::current()->uncut;
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  UCFT_REAL(pthread_mutex_unlock);
  if (Kernel::running() != nullptr && Kernel::process().locked.erase(mutex) > 0) --Kernel::current()->uncut;
  return real_pthread_mutex_unlock(mutex);
}

// ---- conditions -----------------------------------------------------------------------------------------------------

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(pthread_cond_clockwait);
    return real_pthread_cond_clockwait(condition, mutex, clock, until);
  }
  return wait_for_condition(condition, mutex, Kernel::running()->when_clock_says(in_ns(*until)));
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(pthread_cond_timedwait);
    return real_pthread_cond_timedwait(condition, mutex, until);
  }
  return wait_for_condition(condition, mutex, Kernel::running()->when_clock_says(in_ns(*until)));
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(pthread_cond_wait);
    return real_pthread_cond_wait(condition, mutex);
  }
  return wait_for_condition(condition, mutex, never);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(pthread_cond_signal);
    return real_pthread_cond_signal(condition);
  }
  return wake_by_condition(condition, 1);
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(pthread_cond_broadcast);
    return real_pthread_cond_broadcast(condition);
  }
  return wake_by_condition(condition, INT_MAX);
}

// Ranks share this program's variables. One that is killed while it initialises one would leave it so for all.
int pthread_once(pthread_once_t* control, void (*routine)()) {
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) {
    UCFT_REAL(pthread_once);
    return real_pthread_once(control, routine);
  }
  constexpr pthread_once_t done = 2;  // glibc's
  if (*control == done) return 0;
  ++Kernel::current()->uncut;
  routine();
  *control = done;
  --Kernel::current()->uncut;
  return 0;
}

// ---- processes ------------------------------------------------------------------------------------------------------

pid_t getpid() noexcept {
  if (Kernel::running() != nullptr) return Kernel::process().pid;
  UCFT_REAL(getpid);
  return real_getpid();
}

char* getenv(const char* name) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(getenv);
    return real_getenv(name);
  }
  auto& environment = Kernel::process().environment;
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : found->second.data();
}

// Nothing runs at the end of a job's process. A list of what would grows somewhere, and moves all memory behind it.
int __cxa_atexit(void (*function)(void*), void* arg, void* library) noexcept {
  if (Kernel::instance() != nullptr) return 0;
  using Function = int(void (*)(void*), void*, void*);
  static Function* const real = function_behind<Function>("__cxa_atexit");
  return real(function, arg, library);
}

int __cxa_thread_atexit(void (*function)(void*), void* arg, void* library) noexcept {
  if (Kernel::instance() != nullptr) return 0;
  using Function = int(void (*)(void*), void*, void*);
  static Function* const real = function_behind<Function>("__cxa_thread_atexit");
  return real(function, arg, library);
}

int gethostname(char* name, size_t bytes) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(gethostname);
    return real_gethostname(name, bytes);
  }
  std::strncpy(name, ("host" + std::to_string(Kernel::process().host)).c_str(), bytes);
  return 0;
}

long sysconf(int what) noexcept {
  if (Kernel::running() != nullptr) {
    if (what == _SC_NPROCESSORS_ONLN || what == _SC_NPROCESSORS_CONF) return Kernel::running()->processors_of_a_host;
    if (what == _SC_PHYS_PAGES) return (1l << 33) / 4096;
  }
  UCFT_REAL(sysconf);
  return real_sysconf(what);
}

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t* set) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(sched_getaffinity);
    return real_sched_getaffinity(pid, bytes, set);
  }
  CPU_ZERO_S(bytes, set);
  for (int cpu = 0; cpu < Kernel::running()->processors_of_a_host; ++cpu)
    CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  return 0;
}

ssize_t getrandom(void* buffer, size_t bytes, unsigned flags) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(getrandom);
    return real_getrandom(buffer, bytes, flags);
  }
  for (size_t i = 0; i < bytes; ++i)
    static_cast<unsigned char*>(buffer)[i] = static_cast<unsigned char>(Kernel::running()->draw());
  return static_cast<ssize_t>(bytes);
}

// The library's own code calls it at the begin of each of its basic blocks (-fsanitize-coverage=trace-pc).
void __sanitizer_cov_trace_pc() {
  if (--Kernel::budget <= 0) {
    if (Kernel::running() == nullptr)
      Kernel::budget = INT64_MAX;
    else
      Kernel::running()->cut_in();
  }
}
}

namespace __cxxabiv1 {
extern "C" {

// Of a variable in a function; by the C++ ABI the guard's first byte says that it is initialised.
int __cxa_guard_acquire(__guard* guard) {
  if (*reinterpret_cast<const char*>(guard) != 0) return 0;
  if (Kernel::running() != nullptr) ++Kernel::current()->uncut;
  return 1;
}
void __cxa_guard_release(__guard* guard) noexcept {
  *reinterpret_cast<char*>(guard) = 1;
  if (Kernel::running() != nullptr) --Kernel::current()->uncut;
}
void __cxa_guard_abort(__guard*) noexcept {
  if (Kernel::running() != nullptr) --Kernel::current()->uncut;
}
}
}  // namespace __cxxabiv1
