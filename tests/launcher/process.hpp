// Runs ucft_run as a process, and looks for what it may have left.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace ucft::detail::test {

struct Finished {
  int exit_code = -1;  // 128 + signal if killed
  std::string output;
  std::string errors;
};

struct Redirections {
  std::string output_file = "";  // stdout goes there; empty: it is read
  std::string input = "";        // what stdin has to read
  bool from_terminal = false;    // stdin is a terminal of its own, where type() types
};

// ucft_run with these arguments, in the background. Its output is read by wait(), or by read_until().
class Launcher {
 public:
  explicit Launcher(const std::vector<std::string>& arguments, const Redirections& redirections = {});
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  pid_t pid() const { return pid_; }
  pid_t supervisor() const;
  void send(int signal) const;
  bool read_until(const std::string& text);  // in output; false after 30 s or at the end
  void close_output();                       // as `| head` does
  void type(const std::string& text) const;
  Finished wait();

 private:
  static void redirect_input(const Redirections& redirections);
  bool read_some(int timeout_ms);
  pid_t pid_ = 0;
  int output_ = -1;
  int errors_ = -1;
  int terminal_ = -1;  // the other side of stdin
  Finished finished_;
};

Finished run(const std::vector<std::string>& arguments, const Redirections& redirections = {});

// Polls for up to 30 s.
bool eventually(const std::function<bool()>& condition);

// A number of seconds that nobody else sleeps for: `sleep MARK` can be found again.
std::string new_mark();
int sleepers(const std::string& mark);
pid_t one_sleeper(const std::string& mark);
pid_t one_stopped_sleeper(const std::string& mark);  // 0: none

}  // namespace ucft::detail::test
