// Ranks that leave a job in which others stay.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

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
