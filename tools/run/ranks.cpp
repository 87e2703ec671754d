// fork and exec of one rank.
#include "tools/run/ranks.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace ucft::detail::run {

namespace {

class Pipe {
 public:
  enum class Kind { pipe, terminal };
  explicit Pipe(Kind wanted = Kind::pipe) {
    if (wanted == Kind::terminal) open_terminal();
    is_terminal_ = is_open();
    if (!is_open() && pipe2(ends_.data(), O_CLOEXEC) != 0) ends_ = {-1, -1};
  }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool is_open() const { return ends_[0] >= 0; }
  bool is_terminal() const { return is_terminal_; }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_reader() { close_end(0); }
  void close_writer() { close_end(1); }
  int take_reader() { return std::exchange(ends_[0], -1); }

 private:
  void close_end(std::size_t i) {
    if (ends_[i] >= 0) close(ends_[i]);
    ends_[i] = -1;
  }
  // In raw mode, so that bytes pass unchanged. It is no process's controlling terminal.
  void open_terminal() {
    const int reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (reader < 0) return;
    const bool unlocked = unlockpt(reader) == 0;
    const int writer = unlocked ? ioctl(reader, TIOCGPTPEER, O_WRONLY | O_NOCTTY | O_CLOEXEC) : -1;
    termios mode{};
    if (writer >= 0 && tcgetattr(writer, &mode) == 0) {
      cfmakeraw(&mode);
      if (tcsetattr(writer, TCSANOW, &mode) == 0) {
        ends_ = {reader, writer};
        return;
      }
    }
    if (writer >= 0) close(writer);
    close(reader);
  }

  std::array<int, 2> ends_{-1, -1};
  bool is_terminal_ = false;
};

void bind_to(const std::vector<int>& cpus) {
  cpu_set_t* set = CPU_ALLOC(cpus.back() + 1);
  const std::size_t bytes = CPU_ALLOC_SIZE(cpus.back() + 1);
  CPU_ZERO_S(bytes, set);
  for (int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  sched_setaffinity(0, bytes, set);
  CPU_FREE(set);
}

struct ChildPipes {
  int output;
  int errors;
  int exec_error;
};

// In the child. Never returns.
[[noreturn]] void become_rank(const StartOrder& order, pid_t supervisor, const ChildPipes& pipes) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);  // it ended before the line above: the guard is sweeping up
  setpgid(0, 0);
  dup2(order.input >= 0 ? order.input : open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(pipes.output, STDOUT_FILENO);
  dup2(pipes.errors, STDERR_FILENO);
  setrlimit(RLIMIT_NOFILE, &order.open_files);
  if (!order.cpus.empty()) bind_to(order.cpus);
  if (order.purpose >= 0) {  // goes on into the program
    fcntl(order.purpose, F_SETFD, 0);
    setenv("UCFT_PURPOSE_FD", std::to_string(order.purpose).c_str(), 1);
  }
  for (const char* name : {"UCFT_JOIN", "UCFT_ADDRESS_FD", "UCFT_RENDEZVOUS", "UCFT_RANK", "UCFT_SIZE"})
    unsetenv(name);  // of a job around
  if (order.address >= 0) {
    fcntl(order.address, F_SETFD, 0);
    setenv("UCFT_ADDRESS_FD", fmt::format("{},{}", order.address, order.number).c_str(), 1);
  }
  for (const auto& [name, value] : order.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const auto& argument : order.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGTTOU, SIG_DFL);
  sigprocmask(SIG_SETMASK, &order.signal_mask, nullptr);
  execvp(order.program.c_str(), arguments.data());
  const int problem = errno;
  [[maybe_unused]] const ssize_t told = write(pipes.exec_error, &problem, sizeof problem);
  _exit(127);
}

int read_exec_error(int descriptor) {
  int problem = 0;
  ssize_t count = 0;
  do {
    count = read(descriptor, &problem, sizeof problem);
  } while (count < 0 && errno == EINTR);
  return count == sizeof problem ? problem : 0;  // exec() closes the pipe: nothing to read is good news
}

}  // namespace

bool RankProcess::excused() const {
  if (stopped_on_purpose) return true;
  return (killed_on_purpose || may_be_killed) && was_killed();
}

bool RankProcess::was_killed() const { return ended && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL; }

int RankProcess::exit_code() const {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string RankProcess::how_it_ended() const {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exit code {}", WEXITSTATUS(wait_status));
  return fmt::format("signal {} ({})", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
}

StartedRank start_rank(const StartOrder& order) {
  StartedRank started;
  Pipe output(order.wants_terminal ? Pipe::Kind::terminal : Pipe::Kind::pipe), errors, exec_error;
  if (!output.is_open() || !errors.is_open() || !exec_error.is_open()) {
    started.error_number = EMFILE;
    return started;
  }
  const pid_t supervisor = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    started.error_number = errno;
    return started;
  }
  if (pid == 0) become_rank(order, supervisor, {output.writer(), errors.writer(), exec_error.writer()});
  exec_error.close_writer();
  started.process.pid = pid;
  started.error_number = read_exec_error(exec_error.reader());
  started.program_refused = started.error_number != 0;
  for (Pipe* pipe : {&output, &errors}) fcntl(pipe->reader(), F_SETFL, O_NONBLOCK);
  started.has_terminal = output.is_terminal();
  started.output = output.take_reader();
  started.errors = errors.take_reader();
  return started;
}

}  // namespace ucft::detail::run
