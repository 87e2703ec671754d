// Gossip all-reduces among real processes: every algorithm, beside other operations, while ranks are killed and stopped.
// Nothing here depends on how long anything takes: results are compared with the bound that the library itself gives.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/ucx/job.hpp"

namespace ucft::detail::test {
namespace {

constexpr const char* asynchronous[] = {"push_sum", "push_flow", "pflc", "pfcc", "pcf", "pcf_flip"};
constexpr const char* by_rounds[] = {"hps", "hpflc", "ardb", "recursive_doubling"};

// windows: over shared memory, and one-sided.
class GossipJobs : public testing::Test {
 protected:
  virtual std::string path() const = 0;
  bool one_sided() const { return path() == "windows"; }
  std::vector<std::string> algorithms() const {
    std::vector<std::string> all(std::begin(asynchronous), std::end(asynchronous));
    if (!one_sided()) all.insert(all.end(), std::begin(by_rounds), std::end(by_rounds));
    return all;
  }
  JobPlan plan(int ranks, const std::string& scenario, std::vector<std::string> arguments = {}) const {
    JobPlan made{ranks, "", {scenario}, {}, over(path())};
    if (one_sided())
      made.environment["UCFT_TEST_GOSSIP_PATH"] = "rma";
    else if (path() == "shm")
      made.environment["UCFT_TEST_GOSSIP_PATH"] = "message";  // else the library chooses
    made.arguments.insert(made.arguments.end(), arguments.begin(), arguments.end());
    made.program = GOSSIP_PROGRAM;
    return made;
  }
  JobResult expect_right(const JobPlan& made, const std::vector<int>& may_be_dead = {}) {
    std::string how;
    for (const std::string& word : made.arguments) how += " " + word;
    for (const auto& [name, value] : made.environment) how += " " + name + "=" + value;
    const JobResult result = run_job(made);
    EXPECT_EQ(what_is_wrong(made, result, may_be_dead), "") << made.ranks << " ranks:" << how;
    return result;
  }
  // "2:send:12": rank 2, before its send 12. What is written into windows is counted by lines.
  std::string moment(int victim, int send) const {
    return std::to_string(victim) + (one_sided() ? ":line:" : ":send:") + std::to_string(send);
  }
  // Dies before that send; or never, where it sends less.
  void kill(const std::string& algorithm, int ranks, int victim, int send, const char* count) {
    JobPlan made = plan(ranks, "death", {algorithm, count, "4"});
    made.launcher = {"--expect-kill", std::to_string(victim)};
    made.environment["UCFT_TEST_KILL"] = moment(victim, send);
    expect_right(made, {victim});
  }
};
class Gossip : public GossipJobs, public testing::WithParamInterface<const char*> {
 protected:
  std::string path() const override { return GetParam(); }
};
class Windows : public GossipJobs {
  std::string path() const override { return "windows"; }
};
INSTANTIATE_TEST_SUITE_P(Over, Gossip, testing::Values("shm", "windows", "tcp", "hosts"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Gossip, EveryAlgorithmIsWithinItsBound) {
  for (int ranks : {1, 2, 3, 4, 5, 8}) expect_right(plan(ranks, "all"));
}

TEST_P(Gossip, TheLibraryChoosesWindowsWhereAllCanReachThem) {
  JobPlan made = plan(4, "each");
  made.environment["UCFT_TEST_GOSSIP_PATH"] = "";
  made.environment["UCFT_TEST_GOSSIP_CHOSEN"] = path() == "shm" || one_sided() ? "rma" : "message";
  expect_right(made);
}

TEST_P(Gossip, SeveralAtOnceBesideOtherOperationsAndWithEstimates) {
  for (int ranks : {2, 5}) expect_right(plan(ranks, "several"));
}

TEST_P(Gossip, OperationsOverlapDifferentlyOnEachRank) {
  for (int ranks : {2, 3}) expect_right(plan(ranks, "overlap"));
}

// Ranks that poll for all of their time slices: two that run at the same time could use up all their turns on each other.
TEST_P(Gossip, WhoRunsAtTheSameTimeDoesNotGossipWithNobodyElse) {
  JobPlan made = plan(8, "stages", {"3"});
  made.environment["UCFT_SPIN"] = "1000";
  expect_right(made);
}

TEST_P(Gossip, CommunicatorsComeAndGo) {
  for (int ranks : {1, 3}) expect_right(plan(ranks, "communicators"));
}

TEST_P(Gossip, DifferentOptionsAreAMismatchForAll) {
  for (const char* what : {"algorithm", "eps", "seed", "count", "type", "path"})
    expect_right(plan(3, "mismatch", {what}));
}

TEST_P(Gossip, ZerosAndNoNumbersEnd) { expect_right(plan(3, "awkward")); }

TEST_P(Gossip, ARankDiesBetweenTwoOfItsSends) {
  for (const std::string& algorithm : algorithms())
    for (int send : {0, 3, 9, 20, 45, 80}) kill(algorithm, 4, send % 4, send, send % 2 == 0 ? "3" : "700");
}

// Before it writes a row, before it stamps it, and in the middle of its lines where each has a stamp, as between hosts: rows of
// 700 doubles are 101 lines, and more.
TEST_F(Windows, ARankDiesWhileItWritesARow) {
  for (const bool stamps : {false, true})
    for (const std::string algorithm : asynchronous)
      for (int line : stamps ? std::vector<int>{90, 150, 333, 777, 1500} : std::vector<int>{20, 57, 90, 120}) {
        JobPlan made = plan(4, "death", {algorithm, "700", "4"});
        made.launcher = {"--expect-kill", std::to_string(line % 4)};
        made.environment["UCFT_TEST_KILL"] = moment(line % 4, line);
        if (stamps) made.environment["UCFT_TEST_STAMPS"] = "y";
        EXPECT_EQ(expect_right(made, {line % 4}).verdicts.count(line % 4), 0u)
            << algorithm << " line " << line << ": it has not died";
      }
}

// All begin again by messages, whoever dies meanwhile; or all are told that it can't be, if windows were asked for.
TEST_F(Windows, OneThatCantBeMappedIsAMatterOfAll) {
  for (const char* part : {"0.02", "0.3", "1"}) {
    JobPlan made = plan(5, "each");
    made.environment["UCFT_TEST_GOSSIP_PATH"] = "";
    made.environment["UCFT_TEST_REFUSE"] = part;
    expect_right(made);
  }
  for (const char* algorithm : {"push_sum", "push_flow", "pcf"})
    for (int line : {6, 15, 40, 100}) {
      JobPlan made = plan(4, "death", {algorithm, "3", "4"});
      made.launcher = {"--expect-kill", "1"};
      made.environment["UCFT_TEST_GOSSIP_PATH"] = "";
      made.environment["UCFT_TEST_KILL"] = moment(1, line);
      made.environment["UCFT_TEST_REFUSE"] = "0.3";
      expect_right(made, {1});
    }
  JobPlan made = plan(3, "no_memory");
  made.environment["UCFT_TEST_REFUSE"] = "1";
  expect_right(made);
}

TEST_F(Windows, EveryAlgorithmWithStampsInEveryLine) {
  for (int ranks : {2, 3, 8}) {
    JobPlan made = plan(ranks, "all");
    made.environment["UCFT_TEST_STAMPS"] = "y";
    expect_right(made);
  }
}

TEST_F(Windows, WhatAnExcludedRankStillWritesHarmsNobody) {
  for (const char* algorithm : {"push_sum", "push_flow", "pcf"}) {
    JobPlan made = plan(4, "excluded", {algorithm});
    made.environment["UCFT_FENCE"] = "n";
    made.environment["UCFT_SUSPECT_AFTER"] = "300ms";
    expect_right(made, {1});
  }
}

TEST(WindowsBeyondAHost, AreUnsupportedForAllRanksAlike) {
  for (const char* transport : {"tcp", "hosts"}) {
    JobPlan made{4, "", {"unsupported"}, {}, over(transport)};
    made.program = GOSSIP_PROGRAM;
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << transport;
  }
}

TEST_P(Gossip, OneOfTwoDies) {
  for (const std::string& algorithm : algorithms()) kill(algorithm, 2, 1, 5, "3");
}

// The second one in the same operation, or in a later one, which began without the first.
TEST_P(Gossip, TwoOfSixDie) {
  for (const std::string& algorithm : algorithms())
    for (int send : {30, 500, 800}) {
      JobPlan made = plan(6, "death", {algorithm, "5", "4"});
      made.launcher = {"--expect-kill", "2", "--expect-kill", "5"};
      made.environment["UCFT_TEST_KILL"] = moment(2, 12) + "," + moment(5, send);
      expect_right(made, {2, 5});
    }
}

// What is left of the topology is in parts of different means: left to themselves they repeat their stages (32 times) and never agree.
struct Cut {
  const char* topology;
  int ranks;
  std::vector<int> victims;
};
const Cut cuts[] = {{"bus", 6, {2}}, {"tree", 6, {1}}, {"tree", 5, {0}}, {"ring", 6, {1, 3}}};

class AfterACut : public Gossip {
 protected:
  // polls: of a victim, after the second operation has begun; -1: between two operations.
  void cut(const Cut& cut, const std::string& algorithm, const char* stop, int polls) {
    // Two or three a stage without a death, by chance; and one that a death has made void.
    JobPlan made = plan(cut.ranks, "cut", {algorithm, cut.topology, stop, "10", std::to_string(polls)});
    for (int victim : cut.victims) {
      made.arguments.push_back(std::to_string(victim));
      made.launcher.insert(made.launcher.end(), {"--expect-kill", std::to_string(victim)});
    }
    expect_right(made, cut.victims);
  }
};
INSTANTIATE_TEST_SUITE_P(Over, AfterACut, testing::Values("shm", "windows", "tcp", "hosts"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(AfterACut, LaterOperationsGoOnOverTheSurvivors) {
  for (const Cut& each : cuts)
    for (const std::string algorithm : asynchronous) cut(each, algorithm, "adaptive", -1);
}

TEST_P(AfterACut, TheOperationThatIsCutGoesOnOverTheSurvivors) {
  for (const Cut& each : cuts)
    for (const std::string algorithm : asynchronous)
      for (int polls : {30, 300}) cut(each, algorithm, "adaptive", polls);
}

TEST_P(AfterACut, AFixedNumberOfRoundsIsEnoughForTheSurvivors) {
  for (const std::string algorithm : asynchronous) cut(cuts[0], algorithm, "rounds", 30);
}

// Both parts have it, and take it along to where they are one again.
TEST_P(AfterACut, PushCancelFlowKeepsWhatTheDeadRankHadGiven) {
  for (const char* topology : {"bus", "tree"})
    for (const char* algorithm : {"pcf", "pcf_flip"}) {
      const std::string victim = topology == std::string("bus") ? "4" : "1";
      JobPlan made = plan(6, "late", {algorithm, topology, victim});
      made.launcher = {"--expect-kill", victim};
      expect_right(made, {std::stoi(victim)});
    }
}

// They have no hypercube, and no torus.
TEST_P(AfterACut, SoManySurvivorsAsHaveNoSuchTopologyTakeAnother) {
  for (const std::string algorithm : {"push_flow", "pcf"}) {
    cut({"hypercube", 8, {3}}, algorithm, "adaptive", 30);
    cut({"hypercube", 8, {1, 2, 4}}, algorithm, "adaptive", 30);  // which leaves 0 alone
    cut({"torus_2d", 6, {2}}, algorithm, "adaptive", 30);
  }
}

TEST_P(Gossip, ARankThatStopsIsKilledAndLeftOut) {
  for (const std::string& algorithm : algorithms()) {
    JobPlan made = plan(3, "stopped", {algorithm});
    made.launcher = {"--expect-kill", "1"};
    made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
    expect_right(made, {1});
  }
}

// The examples end with exit code 0 only if all their results were right; both deaths are seen by all survivors.
struct ExampleRun {
  const char* name;
  const char* program;
  std::vector<std::string> arguments;
  const char* kill;
  const char* last_line;  // a part of it, of each survivor
};
class Example : public testing::TestWithParam<ExampleRun> {};
INSTANTIATE_TEST_SUITE_P(Of, Example,
                         testing::Values(ExampleRun{"gossip_average",
                                                    GOSSIP_AVERAGE,
                                                    {"500"},
                                                    "3:send:2000,0:send:5000",
                                                    ": the average of 4 ranks from here on"},
                                         ExampleRun{"gossip_qr",
                                                    GOSSIP_QR,
                                                    {"--repeat", "20"},
                                                    "3:send:2000,0:send:5000",
                                                    " of the rows of 4 ranks in the end"},
                                         ExampleRun{"gossip_qr_hps",
                                                    GOSSIP_QR,
                                                    {"--repeat", "20", "--algorithm", "hps"},
                                                    "3:send:500,0:send:1000",
                                                    " of the rows of 4 ranks in the end"}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(Example, GoesOnWhenTwoRanksDie) {
  JobPlan made{
      6, "", GetParam().arguments, {"--expect-kill", "3", "--expect-kill", "0"}, {{"UCFT_TEST_KILL", GetParam().kill}}};
  made.program = GetParam().program;
  const JobResult result = run_job(made);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.errors, std::vector<std::string>{});
  EXPECT_EQ(result.left_behind, std::vector<std::string>{});
  for (const char* survivor : {"1", "2", "4", "5"}) {
    std::istringstream lines(result.output);
    bool said = false;
    for (std::string line; std::getline(lines, line);)
      said |=
          line.starts_with(std::string("[") + survivor + "] ") && line.find(GetParam().last_line) != std::string::npos;
    EXPECT_TRUE(said) << "rank " << survivor << ":\n" << result.output;
  }
}

}  // namespace
}  // namespace ucft::detail::test
