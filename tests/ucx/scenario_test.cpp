// What callers may do and what may happen to them, over shared memory and tcp.
#include <gtest/gtest.h>

#include "tests/ucx/job.hpp"

namespace ucft::detail::test {
namespace {

class Scenario : public testing::TestWithParam<const char*> {
 protected:
  JobPlan plan(int ranks, const std::string& name, std::vector<std::string> arguments = {}) const {
    return {ranks, name, std::move(arguments), {}, over(GetParam())};
  }
  void expect_right(const JobPlan& made, const std::vector<int>& may_be_dead = {}) {
    EXPECT_EQ(what_is_wrong(made, run_job(made), may_be_dead), "") << made.scenario;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Scenario, testing::Values("shm", "tcp", "hosts"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Scenario, DifferentArgumentsAreAMismatchForAll) {
  for (const char* what : {"count", "type", "operator", "operation", "f", "first_root", "tree"})
    for (int ranks : {2, 5}) {
      if (ranks == 2 && std::string(what) == "f") continue;  // f is at most 1 there, and 0 of -1 is 0
      expect_right(plan(ranks, "mismatch", {what}));
    }
}

TEST_P(Scenario, CommunicatorsSplitAndGoOnSideBySide) { expect_right(plan(5, "split")); }

TEST_P(Scenario, SurvivorsAgreeOnTheMembersOfACopy) {
  for (int send : {0, 7, 33, 61, 100}) {
    JobPlan made = plan(4, "split_with_death");
    made.launcher = {"--expect-kill", "0"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    expect_right(made, {0});
  }
}

TEST_P(Scenario, LeavingIsNotFailing) {
  JobPlan made = plan(4, "leave");
  made.environment["UCFT_LOG"] = "y";  // a failure would be said on stderr
  expect_right(made);
}

TEST_P(Scenario, WhoHasLeftAndLivesOnIsNotKilled) {
  JobPlan made = plan(3, "leave_and_live", {std::string(GetParam()) == "hosts" ? "4000" : "1500"});
  made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
  made.environment["UCFT_LOG"] = "y";
  expect_right(made);
}

TEST_P(Scenario, LentMemoryComesBackWhenTheRootDies) {
  for (int send = 0; send < 10; ++send) {
    JobPlan made = plan(3, "lent");
    made.launcher = {"--expect-kill", "0"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    expect_right(made, {0});
  }
}

TEST_P(Scenario, MorePayloadsThanTicketsGetThrough) {
  for (int ranks : {2, 3}) expect_right(plan(ranks, "many_payloads"));
}

TEST_P(Scenario, ACommunicatorIsDestroyedWhileItsRootDies) {
  for (int send = 0; send < 40; ++send) {
    JobPlan made = plan(4, "destroy_with_death");
    made.launcher = {"--expect-kill", "0"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    expect_right(made, {0});
  }
}

// Each hung the job for ever when ranks mapped each other's memory as it grew.
TEST_P(Scenario, ARankThatRunsShortOfSomethingGoesOnWithItsPeersMemory) {
  std::vector<std::string> kinds = {"file_size"};
  const bool without_ucx = std::string(GetParam()) == "shm";  // over tcp UCX needs all of these, and aborts
  if (without_ucx) kinds.insert(kinds.end(), {"descriptors", "address_space"});
  if (without_ucx && geteuid() == 0) kinds.push_back("proc");  // only root may hide it
  for (const std::string& what : kinds) expect_right(plan(4, "short_of", {what}));
}

TEST_P(Scenario, MemoryThatOneRankLacksIsAnErrorWithItsNameOnAll) {
  for (int ranks : {2, 5})
    for (const char* f : {"1", "2"}) {
      JobPlan made = plan(ranks, "out_of_memory");
      made.environment["UCFT_F"] = f;
      expect_right(made);
    }
}

TEST(Testing, YieldsTheProcessorToWhoeverHasTheNews) {
  JobPlan made{6, "test_loop", {"300"}, {}, over("shm")};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// Deaths are seen by /proc then, and who is silent is only suspected.
TEST_P(Scenario, RanksWithoutPidfdsSurviveDeathsAllTheSame) {
  for (int victim : {0, 2}) {
    JobPlan made = plan(4, "loop", {"200", "5000", "10"});
    made.launcher = {"--kill", std::to_string(victim) + "@150ms"};
    made.environment["UCFT_TEST_MAY_DIE_IN_STARTUP"] = "y";
    made.environment["UCFT_TEST_NO_PIDFD"] = "y";
    expect_right(made, {victim});
  }
  JobPlan made = plan(4, "excluded");
  made.environment["UCFT_TEST_NO_PIDFD"] = "y";
  made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
  if (std::string(GetParam()) == "shm")
    EXPECT_EQ(what_is_wrong(made, run_job(made), {1}), "");  // without UCFT_FENCE=n: there is nothing to fence with
}

// Its pidfd says nothing for half a second.
TEST(Heavy, ARankOfFourGigabytesIsKnownToBeDeadBeforeItsMemoryIsGone) {
  if (sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE) < 6L << 30) GTEST_SKIP() << "less than 6 GiB of memory is free";
  bool early = false;
  for (int attempt = 0; attempt < 5 && !early; ++attempt) {  // a machine that is busy with something else may be late
    JobPlan made{3, "heavy", {"4096"}, {"--expect-kill", "1"}, over("shm")};
    const JobResult result = run_job(made);
    ASSERT_EQ(what_is_wrong(made, result, {1}), "");
    early = result.output.find("EARLY") != std::string::npos;
  }
  EXPECT_TRUE(early);
}

TEST(Startup, ALimitThatIsTooLowIsNamedOnAllRanks) {
  for (const char* what : {"file_size", "address_space"}) {
    JobPlan made{16, "limited", {what}, {}, over("shm")};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << what;
  }
}

// A rank that is late with its part in the last barrier hears from the root, which didn't need it, that the communicator is
// gone: that is no failure of the root.
TEST_P(Scenario, CommunicatorsComeAndGoWithoutAnyFailure) {
  for (const char* f : {"1", "2", "3"})
    for (int ranks : {4, 8}) {
      JobPlan made = plan(ranks, "come_and_go", {std::string(GetParam()) == "shm" ? "1000" : "150"});
      made.environment["UCFT_F"] = f;
      expect_right(made);
    }
}

TEST_P(Scenario, AJobThatIsSuspendedAndResumedRankByRankLosesNobody) {
  expect_right(plan(8, "suspended", {"2", "1500", "30"}));
}

TEST_P(Scenario, AStoppedRankIsFencedAndProvedDead) {
  JobPlan made = plan(4, "stopped");
  made.launcher = {"--expect-kill", "1"};
  // Other hosts suspect it a quarter later than its own kills it: in time for the proof also if that one is late by a second.
  made.environment["UCFT_SUSPECT_AFTER"] = std::string(GetParam()) == "hosts" ? "5s" : "300ms";
  expect_right(made, {1});
}

// What hit ranks by chance when UCX sent to them without copies (see transports_test.cpp, which notices if it does again).
TEST_P(Scenario, AReaderDiesWithItsQueuesFull) {
  for (int delay_us : {2000, 5000, 9000, 14000, 20000}) {
    JobPlan made = plan(3, "stopped_reader", {std::to_string(delay_us)});
    made.launcher = {"--expect-kill", "1"};
    made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
    expect_right(made, {1});
  }
}

TEST_P(Scenario, TheAnswerComesFromRanksThatAreNotCalling) {
  for (int send = 0; send < 24; send += 3) {
    JobPlan made = plan(5, "busy");
    made.launcher = {"--expect-kill", "0"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    expect_right(made, {0});
  }
}

TEST_P(Scenario, ASlowOperatorOnUcftsOwnThreadIsNotSilence) {
  JobPlan made = plan(6, "slow_operator", {std::string(GetParam()) == "hosts" ? "2500" : "1000"});
  made.launcher = {"--expect-kill", "5"};
  made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
  if (made.environment.count("UCFT_TEST_RANKS_PER_HOST") > 0) made.environment["UCFT_TEST_RANKS_PER_HOST"] = "1";
  expect_right(made, {5});
}

TEST_P(Scenario, MoreThanFDeathsAreTheSameErrorForAll) {
  JobPlan made = plan(6, "too_many");
  made.launcher = {"--expect-kill", "1", "--expect-kill", "2"};
  expect_right(made, {1, 2});
}

TEST_P(Scenario, MemoryOfUcftAllocIsReadInPlace) {
  for (const char* count : {"1", "256", "257", "100000"}) expect_right(plan(3, "allocated", {count}));
}

TEST_P(Scenario, WaitsHaveTimeLimitsAndStates) { expect_right(plan(3, "time_limit")); }

TEST_P(Scenario, AFullWindowIsBusyAndLosesNothing) { expect_right(plan(4, "window")); }

TEST_P(Scenario, ARankThatDiesInStartUpIsNamed) {
  JobPlan made = plan(3, "startup_death");
  made.launcher = {"--expect-kill", "1"};
  expect_right(made, {1});
}

// A job whose ranks are not equally patient would split itself.
TEST_P(Scenario, SettingsThatMustBeTheSameAreCompared) {
  for (const auto& [name, value] : std::map<std::string, std::string>{{"UCFT_WINDOW", "16"},
                                                                      {"UCFT_SUSPECT_AFTER", "7s"},
                                                                      {"UCFT_HEARTBEAT_PERIOD", "20ms"},
                                                                      {"UCFT_GOSSIP_FAULTS", "loss=0.1"}})
    expect_right(plan(3, "settings_differ", {name, value}));
}

// The excluded rank writes into nobody's memory any more and is told so in its own.
TEST(ScenarioWithoutFence, AWronglySuspectedRankIsExcluded) {
  JobPlan made{4, "excluded", {}, {}, {{"UCFT_FENCE", "n"}, {"UCFT_SUSPECT_AFTER", "300ms"}}};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {1}), "");
}

// Hosts that hang and come back, as ranks that stop themselves: see cut_off(). Ranks per host: 2.
struct CutOff {
  const char* name;
  int ranks, first, last;  // first .. last-1 are cut off
  const char *fate, *fate_of_others;
};
class AfterSilence : public testing::TestWithParam<CutOff> {};
INSTANTIATE_TEST_SUITE_P(
    Of, AfterSilence,
    testing::Values(CutOff{"TheSmallerPartIsExcluded", 6, 2, 4, "excluded", "ok"},
                    CutOff{"TheSmallerPartIsExcludedAlsoWithRank0", 6, 0, 2, "excluded", "ok"},
                    CutOff{"AHalfWithoutRank0StopsAndTheOtherOneGoesOn", 4, 0, 2, "ok", "partition"},
                    CutOff{"AHalfWithRank0GoesOn", 4, 2, 4, "excluded", "ok"},
                    CutOff{"TheSmallerPartStopsAndTheLargerOneGoesOnOnItsReturn", 6, 0, 4, "ok", "partition"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_P(AfterSilence, NeverTwoAnswers) {
  const CutOff& cut = GetParam();
  JobPlan made{cut.ranks,
               "cut_off",
               {std::to_string(cut.first), std::to_string(cut.last), cut.fate, cut.fate_of_others},
               {},
               over("hosts")};
  made.environment["UCFT_SUSPECT_AFTER"] = patience("hosts");
  made.environment["UCFT_F"] = "2";
  made.environment["UCFT_FENCE"] =
      "n";  // or those of one host, which stop together, would kill each other on their return
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// Stopped while all others make their lifelines with it, for longer than they are patient: it lives, and nobody may have
// "proof" of anything else. UCFT_LOG: a failure, or a missing lifeline, would be said on stderr.
TEST(StartUp, ARankThatIsStoppedWhileLifelinesAreMadeIsNotProvedDead) {
  JobPlan made{4, "words", {"50"}, {}, over("hosts")};
  made.environment["UCFT_TEST_RANKS_PER_HOST"] = "1";
  made.environment["UCFT_TEST_STOP"] = "1:4500";
  made.environment["UCFT_LOG"] = "y";
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

TEST(Paths, SharedMemoryWithinAHostAndMessagesBetweenHosts) {
  for (const auto& [transport, paths] : std::map<std::string, std::vector<std::string>>{
           {"shm", {"3", "0", "0"}}, {"tcp", {"0", "0", "3"}}, {"hosts", {"1", "0", "2"}}}) {
    const JobPlan made{4, "paths", paths, {}, over(transport)};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << transport;
  }
}

}  // namespace
}  // namespace ucft::detail::test
