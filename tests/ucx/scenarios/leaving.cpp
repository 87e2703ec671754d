// Ranks that leave a job in which others stay.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

// Ranks leave at different times without a word to each other but that they leave. Nobody has failed.
RANKS(leave) {
  allreduce(0, 1);
  usleep(static_cast<useconds_t>(20000 * rank_));
}

TEST_P(Scenario, LeavingIsNotFailing) {
  JobPlan made = plan(4, leave);
  made.environment["UCFT_LOG"] = "y";  // a failure would be said on stderr
  expect_right(made);
}

std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }

// The ranks that take part in round i: rank r leaves after `each` * (r + 1) of them, the last one stays for some more.
std::uint64_t present_in(int i, int each) {
  std::uint64_t present = 0;
  for (int rank = 0; rank < size_; ++rank)
    if (i < each * (rank + 1)) present |= bit(rank);
  return present;
}

void expect_those(const ucft_result_t& result, std::uint64_t present, const char* what, int i) {
  if (result.contributors != static_cast<std::uint32_t>(std::popcount(present)))
    wrong("{} {}: {} contributors", what, i, result.contributors);
  if (result.missing_count != size_ - std::popcount(present)) wrong("{} {}: {} missing", what, i, result.missing_count);
  for (int k = 0; k < result.missing_count; ++k)
    if ((present & bit(result.missing[k])) != 0) wrong("{} {}: rank {} is missing", what, i, result.missing[k]);
}

// leave_one_by_one EACH [PAUSE_US]: all operations of those that have not left complete, with all that have not.
RANKS(leave_one_by_one) {
  const int each = std::stoi(arguments.at(0)), last = size_ - 1;
  for (int i = 0; i < each * (rank_ + 1); ++i) {
    const std::uint64_t present = present_in(i, each), mine = bit(rank_);
    std::uint64_t sum = 0, data = rank_ == last ? 1000 + static_cast<std::uint64_t>(i) : 0;
    std::vector<std::uint64_t> blocks(static_cast<std::size_t>(size_));
    std::int32_t missing[64], failed = 0;
    ucft_result_t result = UCFT_RESULT_INIT;
    ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
    options.failure_info = UCFT_FAILURE_INFO_LIST;
    result.missing = missing;
    result.missing_capacity = 64;
    check(ucft_allreduce(comm, &mine, &sum, 1, UCFT_UINT64, UCFT_SUM, &options, &result), "allreduce");
    if (sum != present) wrong("allreduce {}: {:x}, not {:x}", i, sum, present);
    expect_those(result, present, "allreduce", i);
    check(ucft_broadcast(comm, &data, 1, UCFT_UINT64, last, nullptr, nullptr), "broadcast");
    if (data != 1000 + static_cast<std::uint64_t>(i)) wrong("broadcast {}: {}", i, data);
    sum = 0;
    check(ucft_reduce(comm, &mine, &sum, 1, UCFT_UINT64, UCFT_SUM, last, &options, &result), "reduce");
    if (rank_ == last && sum != present) wrong("reduce {}: {:x}, not {:x}", i, sum, present);
    check(ucft_allgather(comm, &mine, blocks.data(), 1, UCFT_UINT64, nullptr, &result), "allgather");
    for (int rank = 0; rank < size_; ++rank)
      if (blocks[static_cast<std::size_t>(rank)] != ((present & bit(rank)) != 0 ? bit(rank) : 0))
        wrong("allgather {}: the block of rank {} is {:x}", i, rank, blocks[static_cast<std::size_t>(rank)]);
    check(ucft_barrier(comm, nullptr, &result), "barrier");
    expect_those(result, present, "barrier", i);
    check(ucft_comm_failed(comm, nullptr, &failed), "failed");
    if (failed != 0) wrong("{} ranks have failed", failed);
  }
}

TEST_P(Scenario, TheOthersGoOnWithoutThoseThatLeave) {
  for (const char* each : {"1", "7"})
    for (int ranks : {2, 5}) {
      JobPlan made = plan(ranks, leave_one_by_one, {each});
      made.environment["UCFT_F"] = "0";  // it counts failures
      made.environment["UCFT_LOG"] = "y";
      expect_right(made);
    }
}

// A rank that leaves in the middle of others' operations, and one that dies in them.
RANKS(leave_with_death) {
  for (int i = 0; i < (rank_ == 1 ? 5 : 25); ++i) {
    const std::uint64_t mine = bit(rank_);
    std::uint64_t sum = 0;
    check(ucft_allreduce(comm, &mine, &sum, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "allreduce");
    if ((sum | bit(0) | bit(1)) != bit(size_) - 1) wrong("sum {}: {:x}", i, sum);
  }
}

TEST_P(Scenario, TheOthersGoOnWithoutALeaverAndTheDead) {
  for (int send : {0, 3, 11, 30, 60}) {
    JobPlan made = plan(5, leave_with_death);
    made.launcher = {"--expect-kill", "0"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    expect_right(made, {0});
  }
}

// Communicators that are closed in another order on each rank, while a rank that has closed one goes on in another.
RANKS(close_in_any_order) {
  ucft_comm_h all[4] = {};
  for (int round = 0; round < 20; ++round) {
    for (ucft_comm_h& each : all) check(ucft_comm_dup(comm, &each), "dup");
    for (int k = 0; k < 4; ++k) {
      check(ucft_comm_destroy(all[(k + rank_ + round) % 4]), "destroy");
      if (k == 1) allreduce(round, 1);
    }
  }
}

TEST_P(Scenario, CommunicatorsAreClosedInAnyOrder) { expect_right(plan(4, close_in_any_order)); }

// A rank needs no other to be there when it closes one.
RANKS(close_while_others_are_elsewhere) {
  ucft_comm_h copy = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &copy), "dup");
  if (rank_ == 0) {
    std::uint64_t word = 7;
    check(ucft_comm_destroy(copy), "destroy");
    check(ucft_broadcast(comm, &word, 1, UCFT_UINT64, 0, nullptr, nullptr), "broadcast");
    return;
  }
  std::uint64_t word = 0;
  check(ucft_broadcast(comm, &word, 1, UCFT_UINT64, 0, nullptr, nullptr), "broadcast");
  if (word != 7) wrong("broadcast {}", word);
  check(ucft_comm_destroy(copy), "destroy");
}

TEST_P(Scenario, ClosingACommunicatorWaitsForNobody) { expect_right(plan(4, close_while_others_are_elsewhere)); }

// The value that a rank has given to a reduce counts, also if it has left before the root comes.
RANKS(give_and_leave) {
  constexpr std::uint64_t count = 3000;
  const std::vector<std::uint64_t> mine(count, bit(rank_));
  std::vector<std::uint64_t> sum(count);
  if (rank_ == size_ - 1) usleep(300000);
  check(ucft_reduce(comm, mine.data(), sum.data(), count, UCFT_UINT64, UCFT_SUM, size_ - 1, nullptr, nullptr),
        "reduce");
  for (std::uint64_t each : sum)
    if (rank_ == size_ - 1 && each != bit(size_) - 1) wrong("sum {:x}", each);
}

TEST_P(Scenario, WhatALeaverHasGivenCounts) { expect_right(plan(4, give_and_leave)); }

// Gossip on a communicator that a rank has left, which lives on elsewhere.
RANKS(gossip_without_a_leaver) {
  ucft_comm_h copy = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &copy), "dup");
  for (int i = 0; i < 2 && rank_ != 0; ++i) {
    const double mine = rank_;
    double mean = 0;
    ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
    check(ucft_gossip_allreduce(copy, &mine, &mean, 1, UCFT_DOUBLE, nullptr, &result), "gossip");
    if (std::abs(mean - 0.5 * size_) > 1e-3) wrong("mean {}, not {}", mean, 0.5 * size_);
  }
  check(ucft_comm_destroy(copy), "destroy");
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");
}

TEST_P(Scenario, GossipGoesOnWithoutALeaver) { expect_right(plan(4, gossip_without_a_leaver)); }

// The ranks of host 0 die; a reduce to rank 3 of host 1 has lost a whole host, and f is 0. Its root alone is told.
RANKS(reduce_beyond_f) {
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  if (rank_ < 2) raise(SIGKILL);
  std::uint64_t mine = bit(rank_), sum = 0;
  const ucft_status_t status = ucft_reduce(comm, &mine, &sum, 1, UCFT_UINT64, UCFT_SUM, 3, nullptr, nullptr);
  if (rank_ == 3)
    expect(status, UCFT_ERR_TOO_MANY_FAILURES, "reduce at its root");
  else
    check(status, "reduce on the root's host");
}

TEST(Leaving, AReduceReportsTooManyFailuresAtItsRootOnly) {
  JobPlan made{4, reduce_beyond_f, {}, {"--expect-kill", "0", "--expect-kill", "1"}, over("two_level")};
  made.environment["UCFT_F"] = "0";
  EXPECT_EQ(what_is_wrong(made, run_job(made), {0, 1}), "");
}

// Rank 1 has left a communicator, and is through with it. It waits with rank 2 for rank 0, which stays away; then with
// rank 0, which has left, too, for rank 2. Their words to each other must come to an end meanwhile.
RANKS(leaves_after_another) {
  ucft_comm_h copy = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &copy), "dup");
  check(ucft_barrier(copy, nullptr, nullptr), "barrier");
  if (rank_ == 1) check(ucft_comm_destroy(copy), "destroy");
  for (int i = 0; i < 20; ++i) {
    allreduce(i, 1);
    usleep(1000);
  }
  if (rank_ == 0) usleep(500'000);
  allreduce(20, 1);
  if (rank_ == 2) usleep(500'000);
  if (rank_ == 0) check(ucft_comm_destroy(copy), "destroy");
  allreduce(21, 1);
  if (rank_ == 2) check(ucft_comm_destroy(copy), "destroy");
}

TEST(Leaving, AWordToARankThatIsThroughIsAnsweredOnce) {
  JobPlan made{3, leaves_after_another, {}, {}, over("tcp")};
  made.environment["UCFT_TEST_KILL"] = "0:send:300,2:send:300";  // more than they have to say
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// The job is split; two thirds of it leave at once, and the others go on. Lifelines are few, and all pairs are
// connected.
RANKS(two_thirds_leave) {
  ucft_comm_h part = UCFT_COMM_NULL;
  for (int i = 0; i < 10; ++i) allreduce(i, 1);
  check(ucft_comm_split(comm, rank_ % 3 != 0, rank_, &part), "split");
  check(ucft_comm_destroy(comm), "destroy");
  std::int32_t members = 0, failed = 0;
  check(ucft_comm_size(part, &members), "size");
  for (int i = 0; i < 300 && rank_ % 3 == 0; ++i) {
    const std::uint64_t one = 1;
    std::uint64_t sum = 0;
    check(ucft_allreduce(part, &one, &sum, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "allreduce");
    if (sum != static_cast<std::uint64_t>(members)) wrong("sum {} of {}", sum, members);
    usleep(5000);
  }
  check(ucft_comm_failed(part, nullptr, &failed), "failed");
  if (failed != 0) wrong("{} have failed", failed);
}

TEST(Leaving, TwoThirdsOfAJobThatLeaveHarmNobody) {
  JobPlan made{44, two_thirds_leave, {}, {}, over("two_level")};
  made.environment["UCFT_TEST_RANKS_PER_HOST"] = "4";
  made.environment["UCFT_SUSPECT_AFTER"] = patience("two_level");
  made.environment["UCFT_LOG"] = "y";
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// leave_and_live MILLISECONDS: rank 0 leaves and lives on for so long, which is much longer than suspect_after; the
// others stay in the job meanwhile. Nobody may kill it.
RANKS(leave_and_live) {
  const auto life_us = static_cast<useconds_t>(1000 * std::stol(arguments.at(0)));
  ucft_comm_h others = UCFT_COMM_NULL;
  check(ucft_comm_split(comm, rank_ == 0 ? -1 : 1, 0, &others), "split");
  check(ucft_comm_destroy(comm), "destroy");
  if (rank_ == 0) {
    check(ucft_context_destroy(context), "destroy");
    context = nullptr;
    usleep(life_us);
    return;
  }
  for (int i = 0; i < 20; ++i) {
    check(ucft_barrier(others, nullptr, nullptr), "barrier of those who stay");
    usleep(life_us / 25);
  }
}

TEST_P(Scenario, WhoHasLeftAndLivesOnIsNotKilled) {
  JobPlan made = plan(3, leave_and_live, {spans_hosts(GetParam()) ? "4000" : "1500"});
  made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
  made.environment["UCFT_LOG"] = "y";
  expect_right(made);
}

// leave_cut MILLISECONDS: rank 0 cuts its node off for so long, and leaves at once. The others have begun to leave
// already and wait for it. As root, in a virtual machine of ci/rdma-cluster: tests/rdma/fault_test.cpp expects that
// nobody fails.
RANKS(leave_cut) {
  for (int i = 0; i < 20; ++i) allreduce(i, 1);
  say_started();
  if (rank_ != 0) return;
  usleep(1000000);
  const std::string cut = fmt::format(
      "tc qdisc add dev eth0 root netem loss 100% && {{ (sleep {}; tc qdisc del dev eth0 root) > /dev/null 2>&1 & }}",
      std::stod(arguments.at(0)) / 1000);
  if (std::system(cut.c_str()) != 0) wrong("tc: the link can't be cut");
}

}  // namespace
}  // namespace ucft::detail::test
