// The outer process of ucft_run: forwards signals to the supervisor, waits for it, and sweeps up after it.
#include "tools/run/guard.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tools/run/arguments.hpp"
#include "tools/run/descendants.hpp"
#include "tools/run/typed_input.hpp"

namespace ucft::detail::run {

namespace {

constexpr const char* supervisor_name = "ucft_supervisor";
constexpr auto sweep_limit = std::chrono::seconds(10);

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// nohup, and shells that start something in the background, ignore signals on our behalf: leave it so.
SupervisorContext block_signals() {
  SupervisorContext context;
  signal(SIGCHLD, SIG_DFL);  // if it were ignored, there would be no exit codes
  sigemptyset(&context.handled_signals);
  sigaddset(&context.handled_signals, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(signal)) sigaddset(&context.handled_signals, signal);
  }
  sigprocmask(SIG_BLOCK, &context.handled_signals, &context.original_mask);
  return context;
}

// For ps and pkill. The arguments lie one behind the other in memory.
void rename_process(int argument_count, char** argument_values) {
  prctl(PR_SET_NAME, supervisor_name);
  const char* last = argument_values[argument_count - 1];
  const auto room = static_cast<std::size_t>(last + std::strlen(last) + 1 - argument_values[0]);
  std::memset(argument_values[0], 0, room);
  std::strncpy(argument_values[0], supervisor_name, room - 1);
}

void become_supervisor() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_PDEATHSIG, SIGCONT);  // if a signal has stopped us, wake up and see that the guard has gone
  setpgid(0, 0);                     // the terminal's Ctrl-C goes to the guard, which forwards it
  signal(SIGTTOU, SIG_IGN);          // output from there is wanted all the same
  signal(SIGPIPE, SIG_IGN);
}

// The supervisor's wait status.
int forward_signals_until_end(pid_t supervisor, const sigset_t& signals) {
  for (;;) {
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal > 0 && signal != SIGCHLD) kill(supervisor, signal);
    int status = 0;
    const pid_t ended = waitpid(supervisor, &status, WNOHANG);
    if (ended == supervisor) return status;
  }
}

int exit_code_after(pid_t supervisor, int status) {
  const bool swept = end_descendants([](pid_t, int) {}, sweep_limit);
  if (!swept) fmt::print(stderr, "ucft_run: some processes of the job could not be killed\n");
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  fmt::print(stderr, "ucft_run: the supervisor (pid {}) was killed by signal {} ({}); all ranks have been ended\n",
             supervisor, WTERMSIG(status), strsignal(WTERMSIG(status)));
  return 128 + WTERMSIG(status);
}

}  // namespace

int run_guarded(int argument_count, char** argument_values,
                const std::function<int(const SupervisorContext&)>& supervise) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    fmt::print(stderr, "ucft_run: cannot create a pipe: {}\n", std::strerror(errno));
    return exit_internal;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  SupervisorContext context = block_signals();
  TypedInput typed;
  context.input = typed.for_rank_0();
  context.input_is_typed = typed.is_terminal();
  const pid_t supervisor = fork();
  if (supervisor < 0) {
    fmt::print(stderr, "ucft_run: cannot fork: {}\n", std::strerror(errno));
    return exit_internal;
  }
  if (supervisor == 0) {
    close(ends[1]);
    typed.close_writer();
    context.guard_pipe = ends[0];
    rename_process(argument_count, argument_values);
    become_supervisor();
    std::exit(supervise(context));
  }
  close(ends[0]);
  typed.hand_on();
  const int status = forward_signals_until_end(supervisor, context.handled_signals);
  return exit_code_after(supervisor, status);
}

}  // namespace ucft::detail::run
