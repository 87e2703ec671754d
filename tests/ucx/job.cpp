#include "tests/ucx/job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

namespace ucft::test {

namespace {

std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path().filename());
  return names;
}

std::vector<std::string> new_since(const std::set<std::string>& before) {
  const std::set<std::string> now = shared_memory_files();
  std::vector<std::string> names;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::back_inserter(names));
  return names;
}

std::vector<std::string> command_of(const JobPlan& plan) {
  std::vector<std::string> command = {UCFT_RUN, "-n", std::to_string(plan.ranks), "--timeout", "120s"};
  command.insert(command.end(), plan.launcher.begin(), plan.launcher.end());
  command.insert(command.end(), {RANK_PROGRAM, plan.scenario});
  command.insert(command.end(), plan.arguments.begin(), plan.arguments.end());
  return command;
}

[[noreturn]] void become(const JobPlan& plan, int out, int err) {
  dup2(out, 1);
  dup2(err, 2);
  for (const auto& [name, value] : plan.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> command = command_of(plan);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

void read_both(int out, int err, std::string& out_text, std::string& err_text) {
  pollfd ends[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* texts[2] = {&out_text, &err_text};
  char bytes[65536];
  for (int open = 2; open > 0;) {
    poll(ends, 2, -1);
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      const ssize_t count = read(ends[i].fd, bytes, sizeof bytes);
      if (count > 0) {
        texts[i]->append(bytes, static_cast<std::size_t>(count));
      } else {
        ends[i].fd = -1;
        --open;
      }
    }
  }
}

}  // namespace

std::map<std::string, std::string> over(const std::string& transport) {
  if (transport == "tcp") return {{"UCX_TLS", "tcp"}};
  if (transport == "hosts") return {{"UCX_TLS", "tcp,sm"}, {"UCX_NET_DEVICES", "lo"}, {"UCFT_TEST_RANKS_PER_HOST", "2"}};
  return {};
}

JobResult run_job(const JobPlan& plan) {
  JobResult result;
  const std::set<std::string> before = shared_memory_files();
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return result;
  const pid_t pid = fork();
  if (pid == 0) become(plan, out[1], err[1]);
  close(out[1]);
  close(err[1]);
  std::string out_text, err_text;
  read_both(out[0], err[0], out_text, err_text);
  close(out[0]);
  close(err[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = out_text + err_text;

  std::istringstream lines(out_text);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("] VERDICT ");
    if (at != std::string::npos) result.verdicts[std::stoi(line.substr(1))] = line.substr(at + 10);
  }
  std::istringstream noise(err_text);
  for (std::string line; std::getline(noise, line);)
    if (line.rfind("ucft_run: ", 0) != 0) result.errors.push_back(line);
  result.left_behind = new_since(before);
  for (int looks = 0; !result.left_behind.empty() && looks < 50; ++looks) {   // other jobs come and go beside this one
    usleep(100000);
    std::vector<std::string> still, now = new_since(before);
    std::set_intersection(now.begin(), now.end(), result.left_behind.begin(), result.left_behind.end(), std::back_inserter(still));
    result.left_behind = still;
  }
  return result;
}

std::string what_is_wrong(const JobPlan& plan, const JobResult& result, const std::vector<int>& may_be_dead) {
  if (result.exit_code == 124) return "hang: " + result.output;
  if (result.exit_code != 0) return "exit code " + std::to_string(result.exit_code) + ": " + result.output;
  if (!result.errors.empty()) return "noise on stderr: " + result.errors.front();
  if (!result.left_behind.empty()) return "left in /dev/shm: " + result.left_behind.front();
  const std::string* first = nullptr;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto found = result.verdicts.find(rank);
    if (found == result.verdicts.end()) {
      if (std::find(may_be_dead.begin(), may_be_dead.end(), rank) != may_be_dead.end()) continue;
      return "no verdict of rank " + std::to_string(rank) + ": " + result.output;
    }
    // A rank that is killed later than its last operation may have seen another answer to it (docs/failure_model.md).
    if (std::find(may_be_dead.begin(), may_be_dead.end(), rank) != may_be_dead.end()) continue;
    if (first == nullptr) first = &found->second;
    if (*first != found->second) return "ranks disagree: " + result.output;
  }
  return {};
}

}  // namespace ucft::test
