// One-sided gossip: what a rank that dies, or is out, leaves in the memory of others; and where there can be no
// RMA windows.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/ucx/gossip/checked_gossip.hpp"
#include "tests/ucx/gossip/gossip_jobs.hpp"

namespace ucft::detail::test {
namespace {

TEST_F(Windows, EveryAlgorithmWithStampsInEveryLine) {
  for (int ranks : {2, 3, 8}) {
    JobPlan made = plan(ranks, "all");
    made.environment["UCFT_TEST_STAMPS"] = "y";
    expect_right(made);
  }
}

// Before it writes a row, before it stamps it, and in the middle of its lines where each has a stamp, as between hosts:
// rows of 700 doubles are 101 lines, and more.
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

// excluded ALGORITHM: without fencing rank 1, which stops, is only suspected; the others go on without it, in memory
// that it knew. When it wakes up it may still write, which must harm nobody, and is told that it is out. (The others go
// on until it has had its time.)
RANKS(excluded) {
  const int algorithm = algorithm_named(arguments.at(0));
  if (rank_ == 1) {
    CheckedGossip<double> gossip(options_of(algorithm, 1e-8), 500, 0);
    gossip.post();
    for (int polls = 0; polls < 40; ++polls) ucft_test(gossip.request);
    stop_for(1500);
    const ucft_status_t status = ucft_wait(gossip.request, UINT64_MAX);
    expect(status == UCFT_OK ? go_on(100000) : status, UCFT_ERR_EXCLUDED, "a rank that the others gave up");
    return;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  std::uint64_t over = 0;
  for (int i = 0; over == 0; ++i) {
    CheckedGossip<double> gossip(options_of(algorithm, 1e-8), 500, i);
    gossip.post();
    gossip.finish(true);
    const std::uint64_t mine = std::chrono::steady_clock::now() > end;
    check(ucft_allreduce(comm, &mine, &over, 1, UCFT_UINT64, UCFT_MAX, nullptr, nullptr), "allreduce");
  }
}

TEST_F(Windows, WhatAnExcludedRankStillWritesHarmsNobody) {
  for (const char* algorithm : {"push_sum", "push_flow", "pcf"}) {
    JobPlan made = plan(4, excluded, {algorithm});
    made.environment["UCFT_FENCE"] = "n";
    made.environment["UCFT_SUSPECT_AFTER"] = "300ms";
    expect_right(made, {1});
  }
}

// Where windows can't be mapped, and were asked for.
RANKS(no_memory) {
  double in = 1, out = 0;
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  options.path = UCFT_GOSSIP_PATH_RMA;
  expect(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, nullptr), UCFT_ERR_NO_MEMORY, "one-sided");
  if (std::strstr(ucft_last_error(), "rank ") == nullptr) wrong("the message names nobody: {}", ucft_last_error());
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
  JobPlan made = plan(3, no_memory);
  made.environment["UCFT_TEST_REFUSE"] = "1";
  expect_right(made);
}

// unsupported CULPRIT: where some neighbour is out of reach of one-sided writes all are told so, and by messages it
// works. The last rank that gossips is named: between hosts of several ranks the one that speaks for the last host.
RANKS(unsupported) {
  double in = 1, out = 0;
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  for (int i = 0; i < 3; ++i) {
    options.path = UCFT_GOSSIP_PATH_RMA;
    expect(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, nullptr), UCFT_ERR_UNSUPPORTED,
           "one-sided");
    const std::string culprit = fmt::format("rank {} ", arguments.at(0));
    if (std::strstr(ucft_last_error(), "UCFT_GOSSIP_PATH_RMA") == nullptr ||
        std::strstr(ucft_last_error(), culprit.c_str()) == nullptr)
      wrong("the message names nobody: {}", ucft_last_error());
    options.path = UCFT_GOSSIP_PATH_MESSAGE;
    check(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, nullptr), "by messages");
    if (!(std::abs(out - 1) < 1e-6)) wrong("by messages: {}", out);
  }
}

TEST(WindowsBeyondAHost, AreUnsupportedForAllRanksAlike) {
  for (const auto& [transport, culprit] : {std::pair{"tcp", "3"}, {"two_level", "2"}}) {
    JobPlan made{4, "", {unsupported, culprit}, {}, over(transport)};
    made.program = GOSSIP_PROGRAM;
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << transport;
  }
}

}  // namespace
}  // namespace ucft::detail::test
