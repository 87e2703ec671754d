// Walks /proc for descendants. A process that forks while we look leaves children that the next look finds. We are
// their reaper, so they cannot get out of our tree.
#include "tools/run/descendants.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

extern "C" {  // glibc 2.36 has forgotten to say so itself
#include <sys/pidfd.h>
}

namespace ucft::detail::run {

namespace {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = 0;
  unsigned long long start_time = 0;  // tells a process from a later one with the same pid
};

// From /proc/PID/stat: "pid (name) state parent ... start_time ..."; the name may hold anything, ')' included.
std::optional<Process> look_up(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[1024];
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return std::nullopt;
  text[length] = 0;
  const char* after_name = std::strrchr(text, ')');
  Process process;
  process.pid = pid;
  const char* format = " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu";
  if (!after_name || std::sscanf(after_name + 1, format, &process.state, &process.parent, &process.start_time) != 3) {
    return std::nullopt;
  }
  return process;
}

std::vector<Process> all_processes() {
  std::vector<Process> processes;
  DIR* folder = opendir("/proc");
  if (!folder) return processes;
  while (const dirent* entry = readdir(folder)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    if (const auto process = look_up(pid)) processes.push_back(*process);
  }
  closedir(folder);
  return processes;
}

std::vector<Process> descendants_of(pid_t ancestor) {
  std::vector<Process> candidates = all_processes();
  std::vector<Process> found;
  std::vector<pid_t> family = {ancestor};
  // Each member once: its children leave the candidates, so this ends.
  for (std::size_t i = 0; i < family.size(); ++i) {
    const pid_t parent = family[i];
    const auto is_other = [parent](const Process& process) { return process.parent != parent; };
    const auto children = std::stable_partition(candidates.begin(), candidates.end(), is_other);
    for (auto child = children; child != candidates.end(); ++child) {
      family.push_back(child->pid);
      found.push_back(*child);
    }
    candidates.erase(children, candidates.end());
  }
  return found;
}

void kill_process(const Process& process) {
  const int handle = pidfd_open(process.pid, 0);
  if (handle <
      0) {  // gone; or there are no pidfds here, and the moment between the look and the signal has to be short
    const auto now = errno == ENOSYS || errno == EPERM ? look_up(process.pid) : std::nullopt;
    if (now && now->start_time == process.start_time) ::kill(process.pid, SIGKILL);
    return;
  }
  // The handle may be of a later process with that pid: only if it is the one we saw does the signal go out.
  const auto now = look_up(process.pid);
  if (now && now->start_time == process.start_time) pidfd_send_signal(handle, SIGKILL, nullptr, 0);
  close(handle);
}

// False: no children left.
bool reap_children(const std::function<void(pid_t, int)>& reaped) {
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return pid == 0;
    reaped(pid, status);
  }
}

}  // namespace

bool end_descendants(const std::function<void(pid_t, int)>& reaped, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  auto pause = std::chrono::milliseconds(1);
  while (reap_children(reaped)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    for (const Process& process : descendants_of(getpid())) {
      if (process.state != 'Z') kill_process(process);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(16));
  }
  return true;
}

}  // namespace ucft::detail::run
