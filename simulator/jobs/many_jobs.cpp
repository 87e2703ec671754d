#include "simulator/jobs/many_jobs.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <system_error>

#include "simulator/jobs/real.hpp"
#include "simulator/jobs/situations.hpp"

namespace ucft::jobs {
namespace {

constexpr int longest_job_s = 30;  // of processor time

// A child says this, with the times of situations and the words behind it.
struct Word {
  std::uint64_t calls, faults, situations;
  Time lasted;
  bool is_bad;
};

struct Child {
  pid_t pid = -1;
  int from = -1;
  std::uint64_t seed = 0;
  std::string said;
};

struct Job {
  const std::function<Outcome(std::uint64_t)>& run;
  std::uint64_t seed;
  Outcome outcome;

  static void* begin(void* arg) {
    auto& self = *static_cast<Job*>(arg);
    try {
      self.outcome = self.run(self.seed);
    } catch (const std::exception& error) {
      self.outcome = {0, 0, 0, true, fmt::format("seed {:016x}: {}\n", self.seed, error.what()), {}};
    }
    return nullptr;
  }
};

// Of each job the first descriptors have the same numbers.
int move_away(int descriptor) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int place = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 901)) - 1;
  if (dup2(descriptor, place) != place) _exit(3);
  for (int each = 3; each < place; ++each) ::close(each);
  return place;
}

[[noreturn]] void be(int to, std::uint64_t seed, const std::function<Outcome(std::uint64_t)>& run) {
  const itimerval limit{{0, 0}, {longest_job_s, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
  to = move_away(to);
  // A thread gets a fresh heap: where memory lies depends on nothing that this program has done before. The system's
  // threads, by the functions behind: those of this program's name are the simulated ones while the job runs.
  UCFT_REAL(pthread_create);
  UCFT_REAL(pthread_join);
  Job job{run, seed, {}};
  pthread_t thread{};
  if (real_pthread_create(&thread, nullptr, &Job::begin, &job) != 0) _exit(3);
  real_pthread_join(thread, nullptr);
  const Outcome& outcome = job.outcome;
  const Word word{outcome.calls, outcome.faults, outcome.situations.size(), outcome.lasted, outcome.is_bad};
  std::string text(reinterpret_cast<const char*>(&word), sizeof word);
  text.append(reinterpret_cast<const char*>(outcome.situations.data()),
              outcome.situations.size() * sizeof(std::uint64_t));
  text += outcome.words;
  for (const char* from = text.data(); from < text.data() + text.size();) {
    const ssize_t written = write(to, from, static_cast<std::size_t>(text.data() + text.size() - from));
    if (written <= 0 && errno != EINTR) _exit(3);  // nobody listens any more
    from += std::max<ssize_t>(written, 0);
  }
  _exit(0);
}

Child start(std::uint64_t seed, const std::function<Outcome(std::uint64_t)>& run) {
  int ends[2];
  if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    ::close(ends[0]);
    be(ends[1], seed, run);
  }
  ::close(ends[1]);
  return {pid, ends[0], seed, {}};
}

std::string end_of(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGPROF) return fmt::format("it had not ended after {} s of processor time", longest_job_s);
  return strsignal(WTERMSIG(status));
}

// It has said all.
void count(const Child& child, Totals& totals, const std::function<void(const std::string&)>& say) {
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {}
  Word word{};
  if (status != 0 || child.said.size() < sizeof word) {
    totals.bad.push_back(child.seed);
    totals.crashed.push_back(child.seed);
    return say(fmt::format("seed {:016x}: the process that ran the job ended: {}\n", child.seed, end_of(status)));
  }
  std::memcpy(&word, child.said.data(), sizeof word);
  totals.calls += word.calls;
  totals.faults += word.faults;
  totals.lasted += word.lasted;
  if (word.is_bad) totals.bad.push_back(child.seed);
  std::vector<std::uint64_t> times(word.situations);
  const std::size_t words_from = sizeof word + times.size() * sizeof times[0];
  std::memcpy(times.data(), child.said.data() + sizeof word, words_from - sizeof word);
  totals.jobs_in.resize(std::max(totals.jobs_in.size(), times.size()));
  for (std::size_t i = 0; i < times.size(); ++i) totals.jobs_in[i] += times[i] > 0 ? 1 : 0;
  if (child.said.size() > words_from) say(child.said.substr(words_from));
}

}  // namespace

void stand_still(char** argv) {
  const int now = personality(0xffffffff);
  if (now >= 0 && (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (now >= 0 && personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) >= 0) execv("/proc/self/exe", argv);
  fmt::print(stderr, "ucft_world: the system draws addresses anew each time: a seed is not always the same job\n");
}

Totals run_many(std::uint64_t first, std::uint64_t jobs, int workers, bool until_bad,
                const std::function<Outcome(std::uint64_t)>& run, const std::function<void(const std::string&)>& say) {
  Totals totals;
  situation_count();  // makes its table here: in each child it would lie among the job's memory
  std::vector<Child> children;
  while (totals.begun < jobs || !children.empty()) {
    if (until_bad && !totals.bad.empty()) jobs = totals.begun;
    while (totals.begun < jobs && children.size() < static_cast<std::size_t>(workers))
      children.push_back(start(first + totals.begun++, run));
    if (children.empty()) break;
    std::vector<pollfd> pipes;
    for (const Child& each : children) pipes.push_back({each.from, POLLIN, 0});
    if (poll(pipes.data(), pipes.size(), -1) < 0) continue;
    for (std::size_t i = children.size(); i-- > 0;) {
      if (pipes[i].revents == 0) continue;
      char bytes[65536];
      const ssize_t read_now = read(children[i].from, bytes, sizeof bytes);
      if (read_now > 0) children[i].said.append(bytes, static_cast<std::size_t>(read_now));
      if (read_now > 0 || (read_now < 0 && errno == EINTR)) continue;
      ::close(children[i].from);
      count(children[i], totals, say);
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  std::ranges::sort(totals.bad);
  return totals;
}

}  // namespace ucft::jobs
