// Machines that have far too much to do: a rank that gets no processor is alive.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

// Processes that want a processor all the time.
class Spinners {
 public:
  explicit Spinners(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        volatile bool on = true;
        while (on) {}
      }
      if (child > 0) pids_.push_back(child);
    }
  }
  ~Spinners() {
    for (const pid_t each : pids_) kill(each, SIGKILL);
    for (const pid_t each : pids_) waitpid(each, nullptr, 0);
  }
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;
  std::size_t count() const { return pids_.size(); }

 private:
  std::vector<pid_t> pids_;
};

// Default patience. Two jobs; UCFT_TEST_OVERLOAD_JOBS=200 for long runs.
TEST(Overload, NobodyIsExcludedFromAJobOfManyHostsBesideManySpinners) {
  const char* wanted = std::getenv("UCFT_TEST_OVERLOAD_JOBS");
  const int jobs = wanted == nullptr ? 2 : std::atoi(wanted);
  const Spinners spinners(45);
  ASSERT_EQ(spinners.count(), 45u);
  for (int job = 0; job < jobs; ++job) {
    JobPlan made{50, "words", {"40"}, {}, over("two_level")};
    made.environment["UCFT_TEST_RANKS_PER_HOST"] = job % 2 == 0 ? "5" : "1";
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << "job " << job;
    if (wanted != nullptr) {
      fmt::print("job {} has ended\n", job);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace ucft::detail::test
