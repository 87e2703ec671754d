// The processes of a job: starts them, and keeps what is known of each.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace ucft::detail::run {

struct RankProcess {
  pid_t pid = 0;  // also its process group
  bool ended = false;
  int wait_status = 0;      // once ended
  bool is_stopped = false;  // by any signal, until continued
  bool killed_on_purpose = false;
  bool stopped_on_purpose = false;
  bool may_be_killed = false;  // --expect-kill any, all

  // Does its end count for the exit code? If it ended by itself before the planned SIGKILL arrived, it does.
  bool excused() const;
  bool was_killed() const;  // by SIGKILL
  // Its exit code, or 128 + signal.
  int exit_code() const;
  // "exit code 1", "signal 9 (Killed)"
  std::string how_it_ended() const;
};

struct StartOrder {
  int rank = 0;
  std::string program;                                           // path
  std::vector<std::string> command;                              // argv
  std::vector<std::pair<std::string, std::string>> environment;  // in addition to ours
  std::vector<int> cpus;                                         // ascending; none: wherever this process may
  int purpose = -1, address = -1;  // writing ends: see Job::take_announcements and Job::addresses,
  int number = 0;                  // the name of this process there
  int input = -1;                  // becomes stdin; -1: there is nothing to read
  bool wants_terminal = true;      // as stdout
  sigset_t signal_mask{};
  rlimit open_files{};
};

struct StartedRank {
  RankProcess process;
  int output = -1;  // reading ends of stdout and stderr, non-blocking; the caller's
  int errors = -1;
  bool has_terminal = false;     // stdout is one: a program's C library and Python write there line by line
  int error_number = 0;          // 0: the program runs
  bool program_refused = false;  // it is exec() that failed
};

// Returns once the program runs, or has been refused. Its stderr is a pipe. Its stdout is a pseudo-terminal that passes
// all bytes unchanged; or a pipe, if none is wanted or to be had.
StartedRank start_rank(const StartOrder& order);

}  // namespace ucft::detail::run
