// A watch on processes of this host through pidfds. A death is seen within 0.1 ms, without a signal, a poll loop or a
// parent's help. A pid that is used again can't be taken for the old process.
//
// Source: pidfd_open(2), epoll(7), proc_pid_stat(5). Linux 5.3 or newer. Where pidfd_open is missing (an older kernel,
// some sandboxes, valgrind) /proc is read instead. Then a death is seen when poll() is called, and no process can be
// killed safely.
// Invariants
//  - A rank is reported dead only upon proof: its process has ended (a zombie has), or its pid belongs to a process
//    with another start time. Each rank is reported at most once per ProcessWatch, even if several threads poll at the
//    same time.
//  - A signal goes to the process that was added, or to none. Without pidfds it goes to none, since a pid may be used
//    again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ucft::detail {

// When the process began, in clock ticks since boot (field 22 of /proc/PID/stat): with the pid, it names a process.
// 0: there is no such process, or /proc doesn't show it. Throws std::system_error if /proc can't be read for another
// reason, e.g. no descriptor is left.
std::uint64_t process_start_time(int pid);

// The pid of its parent; 0: there is no such process, or /proc can't be read.
int process_parent(int pid);

// Its pid in its own namespace, which may be that of a container. The same, where the kernel does not say.
int process_own_pid(int pid);

enum class ProcessState : std::uint8_t {
  runnable,  // a thread runs, or waits for a processor: 'R'
  blocked,   // none of that, but a thread is in an uninterruptible wait, e.g. for a page: 'D'
  sleeping,  // all threads wait for an event
  stopped,   // a thread is stopped, by a signal or a debugger: 'T', 't'
  dead,      // ended; maybe a zombie
  unseen,    // this process has no descriptor or memory left to look at it
  unknown    // /proc can't be read
};

// add() before anything else, by one thread; then any thread may call the rest, without a lock.
// In a fork of the creating process only the destructor may be called: the descriptors are shared with the parent.
class ProcessWatch {
 public:
  // Throws std::system_error: no descriptor left.
  ProcessWatch();
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // start_time: process_start_time() as the process itself had it. Gone already, or replaced: the next poll reports it.
  // Throws std::system_error: no descriptor left. A rank is added once.
  void add(std::int32_t rank, int pid, std::uint64_t start_time);

  // The ranks that were found dead since the last call, in no order. Waits up to timeout for the first. A signal may
  // end the wait early. Allocates only if somebody died; without a wait it is one system call.
  std::vector<std::int32_t> poll(std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

  // Readable while poll() has something to report. For ppoll(2) only.
  int epoll_descriptor() const { return epoll_; }

  // Whether this system has pidfds, as this process sees it.
  static bool has_pidfds();

  // SIGKILL. True: sent, or the process has ended already; poll() reports its death. False: not permitted, or no pidfd.
  bool kill(std::int32_t rank);

  // Not 0: the process is ending, and no thread of it runs its program any more. Its pidfd shows that only when its
  // memory has been torn down (0.1 s for a GiB) or written to a core file. The value is a number for its set of
  // threads. Only two equal ones, one after the other, are a proof: a thread could have been made while the others were
  // looked at. Cost as of state().
  std::uint64_t ending(std::int32_t rank) const;

  // The process that traces it (a debugger), or 0. Reads /proc: not for every turn.
  int tracer(std::int32_t rank) const;

  // Reads /proc, several microseconds per thread of that process: not for every turn.
  ProcessState state(std::int32_t rank) const;

 private:
  struct Process {
    std::int32_t rank;
    int pid;
    std::uint64_t start_time;
    int descriptor;  // a pidfd; if there is no such process, an eventfd that is readable from the start; -1: no pidfds
    bool gone;
    std::unique_ptr<std::atomic<bool>> reported;  // without a pidfd
  };
  static bool has_ended(const Process& process);

  const Process& process_of(std::int32_t rank) const;

  int epoll_ = -1;
  std::vector<Process> processes_;
};

}  // namespace ucft::detail
