#include "tests/ucx/job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

namespace ucft::detail::test {

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

// Open MPI 5 refuses to run over the loopback interface alone.
std::vector<std::string> mpirun(const std::string& ranks) {
  std::vector<std::string> command = {"timeout",         "-k",        "5",    "400",          "mpirun", "-n", ranks,
                                      "--oversubscribe", "--bind-to", "none", "--tag-output", "--mca",  "btl"};
  command.push_back("self," + std::string(mpirun_is_version_4() ? "vader" : "sm"));
  if (mpirun_is_version_4()) command.insert(command.end(), {"--mca", "oob_tcp_if_include", "lo"});
  return command;
}

std::vector<std::string> launcher_of(const JobPlan& plan) {
  const std::string ranks = std::to_string(plan.ranks);
  switch (plan.started_by) {
    case Launcher::UcftRun: return {UCFT_RUN, "-n", ranks, "--timeout", "400s"};
    case Launcher::Mpirun: return mpirun(ranks);
    case Launcher::Srun:
      return {"timeout",
              "-k",
              "5",
              "400",
              "srun",
              "--mpi=pmix",
              "--ntasks=" + ranks,
              "--nodes=" + std::string(std::getenv("UCFT_SLURM_NODES")),
              "--overcommit",
              "--label",
              "--no-kill",
              "--kill-on-bad-exit=0",
              "--wait=0"};
    case Launcher::Nobody: return {"timeout", "-k", "5", "400"};
  }
  return {};
}

std::vector<std::string> command_of(const JobPlan& plan) {
  std::vector<std::string> command = launcher_of(plan);
  command.insert(command.end(), plan.launcher.begin(), plan.launcher.end());
  if (plan.program.empty()) {
    command.insert(command.end(), {RANK_PROGRAM, plan.scenario});
  } else {
    command.push_back(plan.program);
  }
  command.insert(command.end(), plan.arguments.begin(), plan.arguments.end());
  return command;
}

[[noreturn]] void become(const JobPlan& plan, int out, int err) {
  dup2(out, 1);
  dup2(err, 2);
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) setenv(name, "1", 1);
  for (const auto& [name, value] : plan.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> command = command_of(plan);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

// Which rank has written the line: "[2] text" (ucft_run), "[1,2]<stdout>:text" (mpirun; of Open MPI 5 with a space
// before the text), "2: text" (srun); -1: none.
int rank_of(const std::string& line, Launcher launcher, std::string& text) {
  if (launcher == Launcher::Srun) {
    const auto digits = line.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string::npos || line.compare(digits, 2, ": ") != 0) return -1;
    text = line.substr(digits + 2);
    return std::atoi(line.c_str());
  }
  const bool is_ours = launcher == Launcher::UcftRun;
  const auto end = line.find(is_ours ? "] " : ">:");
  const auto number = is_ours ? 1 : line.find(',') + 1;
  if (line.empty() || line[0] != '[' || end == std::string::npos || number == 0 || number > end) return -1;
  text = line.substr(end + 2);
  if (!is_ours && !mpirun_is_version_4()) text.erase(0, 1);
  return std::atoi(line.c_str() + number);
}

// Carries out the plan's kills, by what the ranks say.
class Killer {
 public:
  explicit Killer(const JobPlan& plan) : plan_(plan) {}

  void heard(const std::string& output) {
    for (auto end = output.find('\n', seen_); end != std::string::npos; end = output.find('\n', seen_)) {
      take_line(output.substr(seen_, end - seen_));
      seen_ = end + 1;
    }
  }
  // Those that are due. How long until the next one, for poll().
  int kill_now() {
    const auto now = Clock::now();
    std::erase_if(targets_, [&](const Target& each) { return each.due <= now && (kill(each.pid, SIGKILL), true); });
    auto next = Clock::time_point::max();
    for (const Target& each : targets_) next = std::min(next, each.due);
    return targets_.empty() ? -1 : static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Target {
    pid_t pid;
    Clock::time_point due;
  };
  void take_line(const std::string& line) {
    std::string text;
    const int rank = rank_of(line, plan_.started_by, text);
    if (rank < 0 || !text.starts_with("STARTED ")) return;
    for (const Kill& each : plan_.kills)
      if (each.rank == rank) targets_.push_back({std::atoi(text.c_str() + 8), Clock::now() + each.after});
  }

  const JobPlan& plan_;
  std::size_t seen_ = 0;  // of the output
  std::vector<Target> targets_;
};

void read_both(int out, int err, std::string& out_text, std::string& err_text, Killer& killer) {
  pollfd ends[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* texts[2] = {&out_text, &err_text};
  char bytes[65536];
  for (int open = 2; open > 0;) {
    poll(ends, 2, killer.kill_now());
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
    killer.heard(out_text);
  }
}

bool is_from_launcher(const std::string& line, Launcher launcher) {
  std::string text;
  if (launcher == Launcher::UcftRun) return line.rfind("ucft_run: ", 0) == 0;
  return (launcher == Launcher::Mpirun || launcher == Launcher::Srun) && rank_of(line, launcher, text) < 0;
}

}  // namespace

std::vector<const char*> all_transports() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {"shm", "tcp", "two_level"};
#else
  return {"shm", "corrected", "tcp", "hosts", "two_level"};
#endif
}

std::map<std::string, std::string> over(const std::string& transport) {
  if (transport == "corrected") return {{"UCFT_ALGORITHM", "corrected"}};
  if (transport == "tcp") return {{"UCX_TLS", "tcp"}};
  // UCFT_SPIN: its default where a few ranks share cores.
  if (!spans_hosts(transport)) return {};
  std::map<std::string, std::string> settings{
      {"UCX_TLS", "tcp,sm"}, {"UCX_NET_DEVICES", "lo"}, {"UCFT_TEST_RANKS_PER_HOST", "2"}, {"UCFT_SPIN", "6"}};
  if (transport == "hosts") settings["UCFT_FENCE"] = "0";
  return settings;
}

bool mpirun_is_version_4() {
  static const bool is = std::system("mpirun --version | grep -q '(Open MPI) 4'") == 0;
  return is;
}

std::string words_of(const JobPlan& plan) {
  std::string words;
  for (const auto& [name, value] : plan.environment) words += name + "=" + value + " ";
  words += "build/bin/ucft_run -n " + std::to_string(plan.ranks);
  for (const std::string& word : plan.launcher) words += " " + word;
  words += " build/bin/ucx_scenario_test " + plan.scenario;
  for (const std::string& word : plan.arguments) words += " " + word;
  return words;
}

int runs(int normally) {
  const char* factor = std::getenv("UCFT_KILL_RUNS");
  return factor == nullptr ? normally : static_cast<int>(normally * std::atof(factor));
}

// LeakSanitizer stops a process at its end, and traces it: a rank that has not read yet that it leaves sees that.
bool is_of_leak_sanitizer([[maybe_unused]] const std::string& line) {
#ifdef __SANITIZE_ADDRESS__
  return line.find(" traces it: it is waited for") != std::string::npos;
#else
  return false;
#endif
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
  Killer killer(plan);
  std::string out_text, err_text;
  read_both(out[0], err[0], out_text, err_text, killer);
  close(out[0]);
  close(err[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = out_text + err_text;

  std::istringstream lines(out_text);
  for (std::string line; std::getline(lines, line);) {
    std::string text;
    const int rank = rank_of(line, plan.started_by, text);
    if (rank >= 0 && text.rfind("VERDICT ", 0) == 0) result.verdicts[rank] = text.substr(8);
  }
  std::istringstream noise(err_text);
  for (std::string line; std::getline(noise, line);)
    if (!is_from_launcher(line, plan.started_by) && !is_of_leak_sanitizer(line))
      (line.find(": killed (SIGKILL)") == std::string::npos ? result.errors : result.killed).push_back(line);
  result.left_behind = new_since(before);
  for (int looks = 0; !result.left_behind.empty() && looks < 50; ++looks) {  // other jobs come and go beside this one
    usleep(100000);
    std::vector<std::string> still, now = new_since(before);
    std::set_intersection(now.begin(), now.end(), result.left_behind.begin(), result.left_behind.end(),
                          std::back_inserter(still));
    result.left_behind = still;
  }
  return result;
}

namespace {

// UCX 1.13 logs errors, and what its assertions say, while a peer dies that it is connecting to (docs/failure_model.md,
// "Start-up"). That alone is excused: the victim died before the job had started, and all the others say so.
bool is_of_start_up(const std::string& line) {
  for (const char* source : {"wireup_ep.c:", "tcp_ep.c:", "ucp_request.c:"})
    if (line.find(source) != std::string::npos) return true;
  return false;
}

bool all_say_who_died_in_start_up(const JobPlan& plan, const JobResult& result, const std::vector<int>& may_be_dead) {
  if (plan.environment.count("UCFT_TEST_MAY_DIE_IN_STARTUP") == 0 || may_be_dead.size() != 1) return false;
  const std::string victim = "rank " + std::to_string(may_be_dead[0]) + " ";
  if (result.output.find("ucft_run: start-up failed: " + victim) == std::string::npos) return false;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    if (rank == may_be_dead[0]) continue;
    const auto found = result.verdicts.find(rank);
    if (found == result.verdicts.end() || found->second.find(victim) == std::string::npos ||
        found->second.find("died during start-up") == std::string::npos)
      return false;
  }
  for (const std::string& line : result.errors)
    if (line.find(" UCX  ERROR ") == std::string::npos && !is_of_start_up(line) &&
        line.find("libuc") == std::string::npos && line.find("====") == std::string::npos &&
        line.find("ucx_scenario_test(+") == std::string::npos && line.find("libc.so") == std::string::npos)
      return false;
  return true;
}

}  // namespace

std::string what_is_wrong(const JobPlan& plan, const JobResult& result, const std::vector<int>& may_be_dead) {
  if (result.exit_code == 124) return "hang: " + result.output;
  if (all_say_who_died_in_start_up(plan, result, may_be_dead) && result.left_behind.empty()) return {};
  if (result.exit_code != 0 &&
      ((plan.started_by != Launcher::Mpirun && plan.started_by != Launcher::Srun) || may_be_dead.empty()))
    return "exit code " + std::to_string(result.exit_code) + ": " + result.output;
  if (!result.errors.empty()) return "noise on stderr: " + result.errors.front();
  for (const std::string& line : result.killed) {  // "[0] ucft: rank 0: rank 1 (host, pid 17) gave no sign of life .."
    const std::size_t who = line.find(": rank ", line.find("ucft: rank ") + 6);
    const int rank = who == std::string::npos ? -1 : std::atoi(line.c_str() + who + 7);
    if (std::find(may_be_dead.begin(), may_be_dead.end(), rank) == may_be_dead.end()) return "a live rank: " + line;
  }
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

}  // namespace ucft::detail::test
