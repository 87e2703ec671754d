// Start-up: a rank that is missing, settings that differ, a rank that stops meanwhile; and what paths it has found.
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

// The others are told which one is missing.
[[noreturn]] void expect_no_start_up_without(int culprit) {
  expect(ucft_context_create(nullptr, &context), UCFT_ERR_STARTUP, "start-up without a rank");
  if (std::strstr(ucft_last_error(), fmt::format("rank {}", culprit).c_str()) == nullptr)
    wrong("the message does not name rank {}: {}", culprit, ucft_last_error());
  end_with_verdict(ucft_last_error());
}

// startup_death [RANK]: it dies before start-up. Also under mpirun (tests/pmix).
RANKS_BEFORE_START_UP(startup_death) {
  const int culprit = arguments.empty() ? 1 : std::stoi(arguments[0]);
  if (rank_before_start_up() == culprit) std::raise(SIGKILL);
  expect_no_start_up_without(culprit);
}

TEST_P(Scenario, ARankThatDiesInStartUpIsNamed) {
  JobPlan made = plan(3, startup_death);
  made.launcher = {"--expect-kill", "1"};
  expect_right(made, {1});
}

// Whether this process could have a user namespace of its own. Asked in a child, which alone gets it.
bool may_have_a_user_namespace() {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// user_namespaces WHICH MANY: all ranks, or the odd ones, in one of its own. Of a rank outside the kernel lets those
// inside open nothing, while it opens theirs. MANY operations: with all ranks that live, and right.
RANKS_BEFORE_START_UP(user_namespaces) {
  const bool all = arguments.at(0) == "all", inside = all || rank_before_start_up() % 2 == 1;
  if (inside && unshare(CLONE_NEWUSER) != 0) wrong("unshare: {}", std::strerror(errno));
  start_up();
  ucft_context_paths_t found = UCFT_CONTEXT_PATHS_INIT;
  check(ucft_context_paths(context, &found), "paths");
  if (const int sharing = inside ? 0 : (size_ + 1) / 2 - 1; found.shared_memory != sharing)
    wrong("{} ranks share its memory, and {} can", found.shared_memory, sharing);
  for (int i = 0; i < std::stoi(arguments.at(1)); ++i) allreduce(i, i % 8 == 7 ? 4000 : 1);
  check(ucft_context_destroy(context), "leaving");
  end_with_verdict("all right");
}

constexpr const char* no_user_namespaces = "this machine gives no user namespaces";

// It failed start-up. The job says so once.
TEST(StartUp, RanksInUserNamespacesOfTheirOwnSendMessages) {
  if (!may_have_a_user_namespace()) GTEST_SKIP() << no_user_namespaces;
  for (const char* which : {"all", "odd"}) {
    const JobPlan made{5, "user_namespaces", {which, "50"}, {}, over("shm")};
    JobResult result = run_job(made);
    ASSERT_EQ(result.errors.size(), 1u) << result.output;
    for (const char* part : {"[0] ucft: rank ", "can't share memory", "user namespace"})
      EXPECT_NE(result.errors[0].find(part), std::string::npos) << part << " in " << result.errors[0];
    result.errors.clear();
    EXPECT_EQ(what_is_wrong(made, result, {}), "") << which;
  }
}

TEST(StartUp, RanksInUserNamespacesOfTheirOwnGoOnAfterADeath) {
  if (!may_have_a_user_namespace()) GTEST_SKIP() << no_user_namespaces;
  for (const char* which : {"all", "odd"})
    for (const int victim : {0, 1}) {
      JobPlan made{4, "user_namespaces", {which, "200"}, {"--expect-kill", std::to_string(victim)}, over("shm")};
      made.environment["UCFT_LOG"] = "off";
      made.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:40";
      EXPECT_EQ(what_is_wrong(made, run_job(made), {victim}), "") << which << " " << victim;
    }
}

// Where no rank asks for shared memory there is nothing to say.
TEST(StartUp, RanksInUserNamespacesOfTheirOwnAreQuietOverTcp) {
  if (!may_have_a_user_namespace()) GTEST_SKIP() << no_user_namespaces;
  const JobPlan made{4, "user_namespaces", {"all", "50"}, {}, over("tcp")};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// startup_late RANK SECONDS: it comes to start-up so late, and is told so itself. tests/pmix expects it.
RANKS_BEFORE_START_UP(startup_late) {
  const int culprit = std::stoi(arguments.at(0));
  if (rank_before_start_up() == culprit) sleep(static_cast<unsigned>(std::stoi(arguments.at(1))));
  expect_no_start_up_without(culprit);
}

// settings_differ NAME VALUE: on the last rank alone. Start-up says so, to all.
RANKS_BEFORE_START_UP(settings_differ) {
  const char* name = arguments.at(0).c_str();
  rank_ = rank_before_start_up();
  if (is_last_before_start_up()) setenv(name, arguments.at(1).c_str(), 1);
  expect(ucft_context_create(nullptr, &context), UCFT_ERR_STARTUP, "start-up with different settings");
  if (std::strstr(ucft_last_error(), name) == nullptr || std::strstr(ucft_last_error(), "on rank ") == nullptr)
    wrong("{}", ucft_last_error());
}

// Once a job, and a job without one says nothing: what_is_wrong() takes any word on stderr for noise.
TEST(StartUp, ANameThatIsNoSettingIsSaidOnceByTheJob) {
  JobPlan made{3, "words", {"50"}, {}, over("shm")};
  made.environment["UCFT_SUSPECTAFTER"] = "3s";
  const JobResult result = run_job(made);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.errors,
            std::vector<std::string>{"[0] ucft: UCFT_SUSPECTAFTER is in the environment, and is no setting; "
                                     "the nearest name is UCFT_SUSPECT_AFTER"})
      << result.output;
}

// A job whose ranks are not equally patient would split itself.
TEST_P(Scenario, SettingsThatMustBeTheSameAreCompared) {
  for (const auto& [name, value] : std::map<std::string, std::string>{{"UCFT_WINDOW", "16"},
                                                                      {"UCFT_SUSPECT_AFTER", "7s"},
                                                                      {"UCFT_HEARTBEAT_PERIOD", "20ms"},
                                                                      {"UCFT_GOSSIP_FAULTS", "loss=0.1"},
                                                                      {"UCFT_TUNING_FILE", table_of_a_tree}})
    expect_right(plan(3, settings_differ, {name, value}));
}

// Stopped while all others make their lifelines with it, for longer than they are patient: it lives, and nobody may
// have "proof" of anything else. UCFT_LOG: a failure, or a missing lifeline, would be said on stderr.
TEST(StartUp, ARankThatIsStoppedWhileLifelinesAreMadeIsNotProvedDead) {
  JobPlan made{4, "words", {"50"}, {}, over("two_level")};
  made.environment["UCFT_TEST_RANKS_PER_HOST"] = "1";
  made.environment["UCFT_TEST_STOP"] = "1:4500";
  made.environment["UCFT_LOG"] = "y";
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// How the others are reached: shared memory, remote mailboxes, messages.
RANKS(paths) {
  allreduce(0, 1);
  allreduce(1, 4000);
  ucft_context_paths_t found = UCFT_CONTEXT_PATHS_INIT;
  check(ucft_context_paths(context, &found), "paths");
  const std::string text = fmt::format("{} {} {}", found.shared_memory, found.remote_mailboxes, found.messages);
  if (text != fmt::format("{} {} {}", arguments.at(0), arguments.at(1), arguments.at(2))) wrong("paths: {}", text);
  ucft_context_paths_t bad{};
  expect(ucft_context_paths(context, &bad), UCFT_ERR_INVALID_PARAM, "no struct_size");
}

TEST(Paths, SharedMemoryWithinAHostAndMessagesBetweenHosts) {
  for (const auto& [transport, counts] : std::map<std::string, std::vector<std::string>>{
           {"shm", {"3", "0", "0"}}, {"tcp", {"0", "0", "3"}}, {"two_level", {"1", "0", "2"}}}) {
    const JobPlan made{4, paths, counts, {}, over(transport)};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << transport;
  }
}

}  // namespace
}  // namespace ucft::detail::test
