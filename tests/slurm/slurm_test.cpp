// Programs that Slurm's srun has started, with the options that docs/running_on_a_cluster.md names: whoever is killed,
// the others go on. Runs in ci/slurm, on one node or several, which are one machine in truth.
//
// Slurm's PMIx server cancels the step when a rank dies that is in its job, but not at once: survivors must go on for
// longer than that takes. Were it too short, the tests would see less; it never makes them fail.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/ucx/job.hpp"

namespace ucft::detail::test {
namespace {

using namespace std::chrono_literals;

constexpr int killed = 128 + 9;
const char* const seconds_after_death = "3";

JobPlan under_srun(int ranks, const std::string& scenario, const std::vector<std::string>& arguments) {
  JobPlan plan{ranks, scenario, arguments, {}, {}};
  plan.started_by = Launcher::Srun;
  // Deaths are seen at once, by pidfds and lifelines. That the machine is busy must not look like one.
  plan.environment["UCFT_SUSPECT_AFTER"] = "20s";
  return plan;
}

// srun's exit code is that of the rank that died, so it tells whether somebody has.
void expect_survival(const JobPlan& plan, const std::vector<int>& victims, const std::string& what) {
  const JobResult result = run_job(plan);
  EXPECT_EQ(what_is_wrong(plan, result, victims), "") << what;
  for (const int victim : victims) EXPECT_EQ(result.verdicts.count(victim), 0u) << what << ": it has not died";
  EXPECT_EQ(result.exit_code, killed) << what << ": " << result.output;
}

struct Slurm : testing::Test {
  void SetUp() override { ASSERT_NE(std::getenv("UCFT_SLURM_NODES"), nullptr) << "run it by ci/slurm-test"; }
  static bool has_nodes() { return std::string(std::getenv("UCFT_SLURM_NODES")) != "1"; }
};

TEST_F(Slurm, NobodyDiesAndAllAgree) {
  for (int ranks : {2, 5, 8}) {
    const JobPlan plan = under_srun(ranks, "loop", {"24", "40000"});
    EXPECT_EQ(what_is_wrong(plan, run_job(plan), {}), "") << "n=" << ranks;
  }
}

TEST_F(Slurm, AnyRankFromOutside) {
  if (has_nodes()) GTEST_SKIP() << "its ranks have other process numbers here";
  for (int victim : {0, 2}) {
    JobPlan plan = under_srun(4, "outlive", {seconds_after_death});
    plan.kills = {{victim, 50ms}};
    expect_survival(plan, {victim}, "rank " + std::to_string(victim));
  }
}

TEST_F(Slurm, AnyRankBetweenTwoOfItsSends) {
  for (int victim : {0, 5}) {
    JobPlan plan = under_srun(6, "outlive", {seconds_after_death});
    plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:50";
    expect_survival(plan, {victim}, "rank " + std::to_string(victim));
  }
}

TEST_F(Slurm, TwoRanksOneAfterTheOtherInEveryOperation) {
  JobPlan plan = under_srun(8, "loop", {"60", "5000"});
  plan.environment["UCFT_F"] = "2";
  plan.environment["UCFT_TEST_KILL"] = "0:send:60,3:send:120";
  expect_survival(plan, {0, 3}, "");
}

// Each joins Slurm's job again, and leaves it.
TEST_F(Slurm, ContextsInARow) {
  for (int run = 0; run < 5; ++run) {
    const JobPlan plan = under_srun(4, "contexts", {"10"});
    EXPECT_EQ(what_is_wrong(plan, run_job(plan), {}), "") << "run " << run;
  }
}

// The others wait for it: else its leaving would break the step that they have begun. (After an operation, or the end
// of a context, they would have waited anyway.)
TEST_F(Slurm, TwoContextsAtATimeOfWhichOneRankLeavesLate) {
  JobPlan plan = under_srun(4, "two_contexts", {"40"});
  plan.environment["UCFT_TEST_LATE"] = "1:300";
  EXPECT_EQ(what_is_wrong(plan, run_job(plan), {}), "");
}

TEST_F(Slurm, TwoContextsAtATime) {
  JobPlan plan = under_srun(4, "two_contexts", {"40"});
  EXPECT_EQ(what_is_wrong(plan, run_job(plan), {}), "");
  plan.arguments.push_back(seconds_after_death);
  plan.environment["UCFT_TEST_KILL"] = "1:send:200";
  expect_survival(plan, {1}, "a kill after the second one's start-up");
}

TEST_F(Slurm, ASecondContextWithoutARankIsAnErrorThatNamesIt) {
  JobPlan plan = under_srun(4, "context_after_death", {"40"});
  plan.environment["UCFT_TEST_KILL"] = "2:send:20";
  plan.environment["UCFT_STARTUP_TIMEOUT"] = "5s";
  const JobResult result = run_job(plan);
  EXPECT_EQ(what_is_wrong(plan, result, {2}), "");
  for (int rank : {0, 1, 3})
    EXPECT_NE(result.output.find(std::to_string(rank) + ": rank 2"), std::string::npos) << result.output;
}

TEST_F(Slurm, AnExampleProgram) {
  JobPlan plan = under_srun(3, "", {"1000"});
  plan.program = ALLREDUCE_LOOP;
  const JobResult result = run_job(plan);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("3 of 3 ranks have all 1000 sums, 0 wrong"), std::string::npos) << result.output;
}

// MPI_Init after ucft's start-up would fail if we had left.
TEST_F(Slurm, AProgramThatUsesMpiToo) {
#ifdef MPI_PROGRAM
  if (has_nodes()) GTEST_SKIP() << "Open MPI takes these nodes for one, by their name";
  for (const char* order : {"inside", "around"}) {
    JobPlan plan = under_srun(3, "", {order});
    plan.program = MPI_PROGRAM;
    EXPECT_EQ(what_is_wrong(plan, run_job(plan), {}), "") << order;
  }
#else
  GTEST_SKIP() << "no MPI at build time: install libopenmpi-dev";
#endif
}

TEST_F(Slurm, RanksInPython) {
#ifdef PYTHON
  for (const char* what : {"without_numpy", "deaths"}) {
    JobPlan plan = under_srun(3, "", {PYTHON_RANKS, what});
    plan.program = PYTHON;
    plan.environment["PYTHONPATH"] = PYTHON_PACKAGE;
    const JobResult result = run_job(plan);
    const bool has_a_death = what == std::string("deaths");
    EXPECT_EQ(result.exit_code, has_a_death ? killed : 0) << result.output;
    if (!has_a_death) continue;
    const std::size_t first = result.output.find("survived");
    ASSERT_NE(first, std::string::npos) << result.output;
    EXPECT_NE(result.output.find("survived", first + 1), std::string::npos) << result.output;
  }
#else
  GTEST_SKIP() << "no Python package: install what ci/packages-python.txt lists, and build";
#endif
}

}  // namespace
}  // namespace ucft::detail::test
