// Processes for the launcher's tests.
#include "tests/launcher/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/file_text.hpp"

namespace ucft::detail::test {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto bound = std::chrono::seconds(30);

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  DIR* folder = opendir("/proc");
  while (const dirent* entry = readdir(folder)) {
    if (const pid_t pid = std::atoi(entry->d_name); pid > 0) pids.push_back(pid);
  }
  closedir(folder);
  return pids;
}

std::vector<pid_t> pids_of(const std::string& mark) {
  const std::string command = std::string("sleep") + '\0' + mark + '\0';
  std::vector<pid_t> found;
  for (const pid_t pid : all_pids()) {
    if (file_text("/proc/" + std::to_string(pid) + "/cmdline") == command) found.push_back(pid);
  }
  return found;
}

}  // namespace

// In the child: what the redirections say.
void Launcher::redirect_input(const Redirections& redirections) {
  if (redirections.from_terminal) return;  // forkpty() has done it
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const auto size = static_cast<ssize_t>(redirections.input.size());
  if (write(ends[1], redirections.input.data(), redirections.input.size()) != size) std::abort();
  dup2(ends[0], STDIN_FILENO);
}

Launcher::Launcher(const std::vector<std::string>& arguments, const Redirections& redirections) {
  int output[2], errors[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) std::abort();
  pid_ = redirections.from_terminal ? forkpty(&terminal_, nullptr, nullptr, nullptr) : fork();
  if (pid_ == 0) {
    const std::string& file = redirections.output_file;
    redirect_input(redirections);
    dup2(file.empty() ? output[1] : open(file.c_str(), O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    dup2(errors[1], STDERR_FILENO);
    std::vector<char*> pointers = {const_cast<char*>(UCFT_RUN)};
    for (const auto& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    execv(UCFT_RUN, pointers.data());
    _exit(99);
  }
  close(output[1]);
  close(errors[1]);
  output_ = output[0];
  errors_ = errors[0];
}

Launcher::~Launcher() {
  if (pid_ > 0) {
    send(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int descriptor : {output_, errors_, terminal_})
    if (descriptor >= 0) close(descriptor);
}

void Launcher::type(const std::string& text) const {
  if (write(terminal_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
}

pid_t Launcher::supervisor() const {
  pid_t found = 0;
  eventually([&] {
    for (const pid_t pid : all_pids()) {
      const std::string folder = "/proc/" + std::to_string(pid);
      const std::string parent = "\nPPid:\t" + std::to_string(pid_) + "\n";
      if (file_text(folder + "/comm") == "ucft_supervisor\n" &&
          file_text(folder + "/status").find(parent) != std::string::npos) {
        found = pid;
      }
    }
    return found != 0;
  });
  return found;
}

void Launcher::send(int signal) const { kill(pid_, signal); }

// False: both pipes are at their end.
bool Launcher::read_some(int timeout_ms) {
  pollfd entries[] = {{output_, POLLIN, 0}, {errors_, POLLIN, 0}};
  int* const descriptors[] = {&output_, &errors_};
  std::string* const texts[] = {&finished_.output, &finished_.errors};
  poll(entries, 2, timeout_ms);
  for (int i = 0; i < 2; ++i) {
    if (!entries[i].revents) continue;
    char bytes[65536];
    const ssize_t count = read(*descriptors[i], bytes, sizeof bytes);
    if (count > 0) texts[i]->append(bytes, static_cast<std::size_t>(count));
    if (count == 0) close(std::exchange(*descriptors[i], -1));
  }
  return output_ >= 0 || errors_ >= 0;
}

bool Launcher::read_until(const std::string& text) {
  const auto deadline = Clock::now() + bound;
  bool more = true;
  while (finished_.output.find(text) == std::string::npos) {
    if (!more || Clock::now() > deadline) return false;
    more = read_some(100);
  }
  return true;
}

void Launcher::close_output() {
  if (output_ >= 0) close(std::exchange(output_, -1));
}

Finished Launcher::wait() {
  int status = 0;
  const auto deadline = Clock::now() + bound;
  bool ended = false;
  bool more = true;
  while (!ended || more) {
    if (more) more = read_some(50);
    if (!ended) ended = waitpid(pid_, &status, more ? WNOHANG : 0) == pid_;
    if (Clock::now() > deadline) return finished_;  // exit_code -1; the destructor kills it
  }
  pid_ = 0;
  finished_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return finished_;
}

Finished run(const std::vector<std::string>& arguments, const Redirections& redirections) {
  return Launcher(arguments, redirections).wait();
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + bound;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

std::string new_mark() {
  static int count = 0;
  return "1000." + std::to_string(getpid()) + "00" + std::to_string(count++);
}

int sleepers(const std::string& mark) { return static_cast<int>(pids_of(mark).size()); }

pid_t one_stopped_sleeper(const std::string& mark) {
  for (const pid_t pid : pids_of(mark))
    if (file_text("/proc/" + std::to_string(pid) + "/status").find("\nState:\tT") != std::string::npos) return pid;
  return 0;
}

pid_t one_sleeper(const std::string& mark) {
  const auto pids = pids_of(mark);
  return pids.empty() ? 0 : pids[0];
}

}  // namespace ucft::detail::test
