// Communicators that are made, used and destroyed, also while a rank dies.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include <unistd.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

// Halves by colour, each in its own reverse order, while the whole goes on.
RANKS(split) {
  const ucft_comm_h whole = comm;
  ucft_comm_h half = UCFT_COMM_NULL, copy = UCFT_COMM_NULL, nothing = UCFT_COMM_NULL;
  check(ucft_comm_split(whole, rank_ % 2, -rank_, &half), "split");
  check(ucft_comm_dup(whole, &copy), "dup");
  check(ucft_comm_split(whole, rank_ == 0 ? -1 : 4, 0, &nothing), "split");
  if ((nothing == UCFT_COMM_NULL) != (rank_ == 0)) wrong("colour -1");
  std::int32_t half_rank = -1, half_size = -1;
  check(ucft_comm_rank(half, &half_rank), "rank");
  check(ucft_comm_size(half, &half_size), "size");
  const int members = (size_ + 1 - rank_ % 2) / 2;
  if (half_size != members || half_rank != members - 1 - rank_ / 2) wrong("half: rank {} of {}", half_rank, half_size);
  for (int i = 0; i < 50; ++i) {
    std::uint64_t mine = static_cast<std::uint64_t>(rank_), sum = 0, all = 0;
    check(ucft_allreduce(half, &mine, &sum, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "half");
    check(ucft_allreduce(copy, &mine, &all, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "copy");
    std::uint64_t expected = 0;
    for (int r = rank_ % 2; r < size_; r += 2) expected += static_cast<std::uint64_t>(r);
    if (sum != expected || all != static_cast<std::uint64_t>(size_) * static_cast<std::uint64_t>(size_ - 1) / 2)
      wrong("sums {} {}", sum, all);
    allreduce(i, 1);
  }
  check(ucft_comm_destroy(half), "destroy");
  expect(ucft_comm_destroy(half), UCFT_ERR_CLOSED, "destroy twice");
  check(ucft_comm_destroy(copy), "destroy");
  if (nothing != UCFT_COMM_NULL) check(ucft_comm_destroy(nothing), "destroy");
}

TEST_P(Scenario, CommunicatorsSplitAndGoOnSideBySide) { expect_right(plan(5, split)); }

// Rank 0 broadcasts in communicators and destroys them before any other rank comes to the first. The others have made
// three of them before, and make the other three when they come. The data are still there for them, however often
// rank 0 has used the memory of one communicator for another.
RANKS(made_later) {
  ucft_comm_h before[3] = {};
  for (ucft_comm_h& each : before) check(ucft_comm_create(context, &each), "comm");
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  if (rank_ != 0) usleep(200000);
  for (std::uint64_t i = 0; i < 6; ++i) {
    ucft_comm_h each = i < 3 ? before[i] : UCFT_COMM_NULL;
    if (i >= 3) check(ucft_comm_create(context, &each), "comm");
    std::uint64_t data = rank_ == 0 ? 700 + i : 5;
    check(ucft_broadcast(each, &data, 1, UCFT_UINT64, 0, nullptr, nullptr), "broadcast");
    if (data != 700 + i) wrong("communicator {}: broadcast left {}", i, data);
    check(ucft_comm_destroy(each), "destroy");
  }
}

TEST_P(Scenario, WhatARootHasBroadcastIsThereAfterItHasLeft) { expect_right(plan(4, made_later)); }

// A split while a rank dies: the survivors agree on who is in.
RANKS(split_with_death) {
  for (int i = 0; i < 60; ++i) {
    ucft_comm_h copy = UCFT_COMM_NULL;
    check(ucft_comm_dup(comm, &copy), "dup");
    std::int32_t members = 0;
    check(ucft_comm_size(copy, &members), "size");
    note(static_cast<std::uint64_t>(members));
    std::uint64_t one = 1, sum = 0;
    check(ucft_allreduce(copy, &one, &sum, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "allreduce");
    note(sum);
    check(ucft_comm_destroy(copy), "destroy");
  }
}

TEST_P(Scenario, SurvivorsAgreeOnTheMembersOfACopy) {
  for (int send : {0, 7, 33, 61, 100}) {
    JobPlan made = plan(4, split_with_death);
    made.launcher = {"--expect-kill", "0"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    expect_right(made, {0});
  }
}

// A communicator is destroyed while its root dies, and the survivors go on in the one of all ranks at once.
RANKS(destroy_with_death) {
  for (int i = 0; i < 20; ++i) {
    ucft_comm_h copy = UCFT_COMM_NULL;
    check(ucft_comm_dup(comm, &copy), "dup");
    check(ucft_comm_destroy(copy), "destroy");
    check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  }
}

TEST_P(Scenario, ACommunicatorIsDestroyedWhileItsRootDies) {
  for (int send = 0; send < 40; ++send) {
    JobPlan made = plan(4, destroy_with_death);
    made.launcher = {"--expect-kill", "0"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    expect_right(made, {0});
  }
}

// come_and_go ITERATIONS: communicators that live for one operation or none, at another pace on each rank.
RANKS(come_and_go) {
  std::minstd_rand random(static_cast<unsigned>(rank_) + 1);
  for (int i = 0, end = std::stoi(arguments.at(0)); i < end; ++i) {
    ucft_comm_h copy = UCFT_COMM_NULL;
    check(ucft_comm_dup(comm, &copy), "dup");
    if (i == 0) say_started();
    if (random() % 4 == 0) usleep(static_cast<useconds_t>(random() % 300));
    if (i % 2 == 0) {
      std::uint64_t in = (std::uint64_t{1} << rank_) + salt(i), out = 0;
      ucft_result_t result = UCFT_RESULT_INIT;
      check(ucft_allreduce(copy, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce on the copy");
      note(decode(out, result, i));
    }
    if (random() % 4 == 0) usleep(static_cast<useconds_t>(random() % 300));
    check(ucft_comm_destroy(copy), "destroy");
  }
}

// A rank that is late with its part in the last barrier hears from the root, which didn't need it, that the
// communicator is gone: that is no failure of the root.
TEST_P(Scenario, CommunicatorsComeAndGoWithoutAnyFailure) {
  for (const char* f : {"1", "2", "3"})
    for (int ranks : {4, 8}) {
      JobPlan made = plan(ranks, come_and_go, {needs_ucx(GetParam()) ? "150" : "1000"});
      made.environment["UCFT_F"] = f;
      expect_right(made);
    }
}

}  // namespace
}  // namespace ucft::detail::test
