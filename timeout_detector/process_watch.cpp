// See process_watch.hpp. Each descriptor is in the epoll set with EPOLLONESHOT: the kernel hands every death to exactly
// one caller of poll(). "Once" needs no other bookkeeping.
#include "timeout_detector/process_watch.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace ucft::detail {
namespace {

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The fields of /proc/PID/stat behind the command name, which may itself hold spaces and brackets:
//   "42 (a) b) R 1 ..." -> "R 1 ..."
std::string_view fields_after_name(std::string_view stat) {
  const std::size_t end_of_name = stat.rfind(") ");
  return end_of_name == std::string_view::npos ? std::string_view() : stat.substr(end_of_name + 2);
}

struct StatText {
  char text[1024];
  std::size_t size = 0;
  std::string_view fields() const { return fields_after_name({text, size}); }
};

// Empty with errno set if it can't be read; ENOENT and ESRCH: no such process (any more).
std::optional<StatText> read_stat(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  StatText stat;
  const ssize_t bytes = ::read(file, stat.text, sizeof(stat.text));
  const int error = errno;
  ::close(file);
  errno = error;
  if (bytes < 0) return std::nullopt;
  stat.size = static_cast<std::size_t>(bytes);
  return stat;
}

bool no_such_process(int error) { return error == ENOENT || error == ESRCH; }

// A numeric field by its number in proc_pid_stat(5). The first behind the name is field 3.
std::uint64_t field_in(std::string_view fields, int number) {
  for (int field = 3; field < number; ++field) {
    const std::size_t space = fields.find(' ');
    if (space == std::string_view::npos) return 0;
    fields.remove_prefix(space + 1);
  }
  std::uint64_t value = 0;
  std::from_chars(fields.data(), fields.data() + fields.size(), value);
  return value;
}

std::uint64_t start_time_in(std::string_view fields) { return field_in(fields, 22); }

// The kernel's PF_EXITING: the thread runs no code of its program any more. A zombie has it, too.
bool is_exiting(std::string_view fields) { return (field_in(fields, 9) & 0x4) != 0; }

// The state of a process, from the states of its threads.
struct ThreadStates {
  bool runnable = false, blocked = false, stopped = false, sleeping = false;

  void add(char state) {
    switch (state) {
      case 'R': runnable = true; break;
      case 'D': blocked = true; break;
      case 'T':
      case 't': stopped = true; break;
      case 'Z':
      case 'X':
      case 'x': break;
      default: sleeping = true;
    }
  }
  ProcessState together() const {
    if (stopped) return ProcessState::stopped;
    if (runnable) return ProcessState::runnable;
    if (blocked) return ProcessState::blocked;
    return sleeping ? ProcessState::sleeping : ProcessState::dead;
  }
};

// visit(id, fields) for each thread: stat of a process shows its first thread only. 0, or an errno: they can't all be
// seen.
template <class Visit>
int for_each_thread(int pid, Visit visit) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  DIR* const directory = ::opendir(tasks.c_str());
  if (directory == nullptr) return errno;
  int error = 0;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    const auto stat = read_stat(tasks + "/" + entry->d_name + "/stat");
    if (stat && !stat->fields().empty()) visit(std::string_view(entry->d_name), stat->fields());
    if (!stat && !no_such_process(errno)) error = errno;
  }
  ::closedir(directory);
  return error;
}

// A thread may sleep while the one that makes the heartbeat waits for a processor.
ProcessState state_of_threads(int pid) {
  ThreadStates states;
  const int error =
      for_each_thread(pid, [&](std::string_view, std::string_view fields) { states.add(fields.front()); });
  if (error == EMFILE || error == ENFILE || error == ENOMEM) return ProcessState::unseen;
  if (error != 0) return no_such_process(error) ? ProcessState::dead : ProcessState::unknown;
  return states.together();
}

// A field of /proc/PID/status that is a number, or the last one of several; 0: there is none.
int status_of(int pid, std::string_view field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field)) return std::atoi(line.c_str() + line.find_last_of('\t') + 1);
  return 0;
}

// Its threads have been told to end, and wait until their memory is written to a file.
bool dumps_core(int pid) { return status_of(pid, "CoreDumping:") != 0; }

// -1: there is no such process.
int open_pidfd(int pid) {
  if (pid <= 0) return -1;
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor >= 0) return descriptor;
  // EINVAL and ENOENT: the number now belongs to a thread of another process.
  if (no_such_process(errno) || errno == EINVAL) return -1;
  throw_errno("pidfd_open of process " + std::to_string(pid));
}

bool is_readable(int descriptor) {
  if (descriptor < 0) return false;
  pollfd descriptor_poll{descriptor, POLLIN, 0};
  return ::poll(&descriptor_poll, 1, 0) > 0;
}

// The pidfd of exactly that process, or -1 if it has gone.
//
// The pidfd is opened first and the start time read afterwards. If it is the expected one, that process had the pid all
// the time, so the pidfd is its own. If /proc shows nothing that is no proof, since it may be hidden: then the pidfd
// decides.
int open_process(int pid, std::uint64_t start_time) {
  const int descriptor = open_pidfd(pid);
  if (descriptor < 0) return -1;
  try {
    const std::uint64_t current = process_start_time(pid);
    if (current == 0 || current == start_time) return descriptor;
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
  return -1;
}

}  // namespace

std::uint64_t process_start_time(int pid) {
  const auto stat = read_stat("/proc/" + std::to_string(pid) + "/stat");
  if (stat) return start_time_in(stat->fields());
  if (no_such_process(errno)) return 0;
  throw_errno("reading /proc/" + std::to_string(pid) + "/stat");
}

int process_parent(int pid) {
  const auto stat = read_stat("/proc/" + std::to_string(pid) + "/stat");
  return stat ? static_cast<int>(field_in(stat->fields(), 4)) : 0;
}

int process_own_pid(int pid) {
  const int own = status_of(pid, "NSpid:");
  return own != 0 ? own : pid;
}

ProcessWatch::ProcessWatch() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) throw_errno("epoll_create1");
}

ProcessWatch::~ProcessWatch() {
  ::close(epoll_);
  for (const Process& process : processes_)
    if (process.descriptor >= 0) ::close(process.descriptor);
}

bool ProcessWatch::has_pidfds() {
  static const bool has = [] {
    const int own = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    if (own >= 0) ::close(own);
    return own >= 0 || (errno != ENOSYS && errno != EPERM);  // EPERM: how a sandbox may refuse
  }();
  return has;
}

void ProcessWatch::add(std::int32_t rank, int pid, std::uint64_t start_time) {
  processes_.reserve(processes_.size() + 1);  // so that nothing throws once the descriptor is open
  if (!has_pidfds()) {
    processes_.push_back({rank, pid, start_time, -1, false, std::make_unique<std::atomic<bool>>(false)});
    return;
  }
  int descriptor = open_process(pid, start_time);
  const bool gone = descriptor < 0;
  if (gone) descriptor = ::eventfd(1, EFD_CLOEXEC);
  if (descriptor < 0) throw_errno("eventfd");
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = static_cast<std::uint32_t>(rank);
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) {
    const int error = errno;
    ::close(descriptor);
    errno = error;
    throw_errno("epoll_ctl");
  }
  processes_.push_back({rank, pid, start_time, descriptor, gone, nullptr});
}

std::vector<std::int32_t> ProcessWatch::poll(std::chrono::milliseconds timeout) {
  constexpr int at_once = 64;  // the rest stays in the set: next call
  epoll_event events[at_once];
  const auto limit = std::clamp<std::int64_t>(timeout.count(), 0, std::numeric_limits<int>::max());
  const int count = ::epoll_wait(epoll_, events, at_once, static_cast<int>(limit));
  std::vector<std::int32_t> dead;
  for (int i = 0; i < count; ++i) dead.push_back(static_cast<std::int32_t>(events[i].data.u64));
  for (const Process& process : processes_)
    if (process.descriptor < 0 && !process.reported->load(std::memory_order_relaxed) && has_ended(process) &&
        !process.reported->exchange(true))
      dead.push_back(process.rank);
  return dead;
}

// Without a pidfd: its pid is another's, or none of its threads has anything left to do. /proc that can't be read shows
// nothing.
bool ProcessWatch::has_ended(const Process& process) {
  const auto stat = read_stat("/proc/" + std::to_string(process.pid) + "/stat");
  if (!stat) return no_such_process(errno) && ::access("/proc/self/stat", R_OK) == 0;
  const std::uint64_t start_time = start_time_in(stat->fields());
  if (start_time != 0 && process.start_time != 0 && start_time != process.start_time) return true;
  const char state = stat->fields().empty() ? 'R' : stat->fields().front();
  if (state != 'Z' && state != 'X') return false;
  return state_of_threads(process.pid) == ProcessState::dead;  // its first thread may have ended alone
}

bool ProcessWatch::kill(std::int32_t rank) {
  const Process& process = process_of(rank);
  if (process.gone) return true;
  if (process.descriptor < 0) return false;
  return ::syscall(SYS_pidfd_send_signal, process.descriptor, SIGKILL, nullptr, 0) == 0 || errno == ESRCH;
}

// The pid is looked at first, then the pidfd: if the process still lived afterwards, the pid was its own.
ProcessState ProcessWatch::state(std::int32_t rank) const {
  const Process& process = process_of(rank);
  if (process.gone) return ProcessState::dead;
  const ProcessState by_pid = state_of_threads(process.pid);
  if (is_readable(process.descriptor) || (process.descriptor < 0 && has_ended(process))) return ProcessState::dead;
  return by_pid == ProcessState::dead ? ProcessState::unknown : by_pid;
}

int ProcessWatch::tracer(std::int32_t rank) const {
  const Process& process = process_of(rank);
  const int by = process.gone ? 0 : status_of(process.pid, "TracerPid:");
  return by == 0 || is_readable(process.descriptor) ? 0 : by;
}

// As in state(): the pidfd is looked at last, so the pid was its own.
std::uint64_t ProcessWatch::ending(std::int32_t rank) const {
  const Process& process = process_of(rank);
  if (process.gone) return 0;
  std::uint64_t threads = 14695981039346656037ull;
  bool all = true, any = false;
  const int error = for_each_thread(process.pid, [&](std::string_view id, std::string_view fields) {
    any = true;
    all = all && is_exiting(fields);
    for (char digit : id) threads = (threads ^ static_cast<unsigned char>(digit)) * 1099511628211ull;
    threads = (threads ^ ' ') * 1099511628211ull;
  });
  const bool ends = error == 0 && any && (all || dumps_core(process.pid));
  const bool was_its_own = process.descriptor < 0 ? !has_ended(process) : !is_readable(process.descriptor);
  return ends && was_its_own ? threads | 1 : 0;
}

const ProcessWatch::Process& ProcessWatch::process_of(std::int32_t rank) const {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [rank](const Process& process) { return process.rank == rank; });
  assert(found != processes_.end());
  return *found;
}

}  // namespace ucft::detail
