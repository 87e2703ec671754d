// Ranks that die, or stop and are killed for it. (At random moments: kills.cpp.)
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

// All but rank 0 compute for a while after each operation, outside ucft. Rank 0 dies; those who wait for an answer get
// it although the others do not call.
RANKS(busy) {
  for (int i = 0; i < 6; ++i) {
    allreduce(i, 1);
    if (rank_ == size_ - 1) usleep(50000);
  }
}

TEST_P(Scenario, TheAnswerComesFromRanksThatAreNotCalling) {
  for (int send = 0; send < 24; send += 3) {
    JobPlan made = plan(5, busy);
    made.launcher = {"--expect-kill", "0"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    expect_right(made, {0});
  }
}

// More than f die at once: the same named error everywhere, then it goes on. Who reads the others' memory gets no error
// at all.
RANKS(too_many) {
  for (int i = 0; i < 20; ++i) allreduce(i, 1);
  if (rank_ == 1 || rank_ == 2) std::raise(SIGKILL);
  int errors = 0, right = 0;
  for (int i = 20; i < 60; ++i) {
    std::uint64_t in = std::uint64_t{1} << rank_, out = 0;
    ucft_result_t result = UCFT_RESULT_INIT;
    const ucft_status_t status = ucft_allreduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result);
    note(static_cast<std::uint64_t>(status));
    if (status == UCFT_OK) {
      ++right;
      if ((out & 1u << rank_) == 0 || static_cast<std::uint32_t>(__builtin_popcountll(out)) != result.contributors)
        wrong("sum {:x}", out);
      note(out);
    } else {
      expect(status, UCFT_ERR_TOO_MANY_FAILURES, "two deaths with f = 1");
      ++errors;
    }
  }
  if (reads_memory() && errors > 0) wrong("{} errors", errors);
  if (right < 30) wrong("only {} of 40 operations went right afterwards", right);
}

TEST_P(Scenario, MoreThanFDeathsAreTheSameErrorForAll) {
  JobPlan made = plan(6, too_many);
  made.launcher = {"--expect-kill", "1", "--expect-kill", "2"};
  expect_right(made, {1, 2});
}

// All ranks of a host die at once, with f = 1: one failure, so no operation fails. Two of the ranks of another one are
// too many only if it has no more than these.
RANKS(dead_host) {
  const std::uint64_t all = (std::uint64_t{1} << size_) - 1, host = 0b1100;  // ranks 2 and 3
  for (int i = 0; i < 60; ++i) {
    if (i == 20 && (rank_ == 2 || rank_ == 3)) std::raise(SIGKILL);
    std::uint64_t in = std::uint64_t{1} << rank_, out = 0;
    ucft_result_t result = UCFT_RESULT_INIT;
    const ucft_status_t status = ucft_allreduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result);
    note(static_cast<std::uint64_t>(status));
    note(out);
    expect(status, UCFT_OK, "a dead host is one failure");
    if ((out | host) != all || static_cast<std::uint32_t>(__builtin_popcountll(out)) != result.contributors)
      wrong("sum {:x}", out);
  }
}

TEST(HostsScenario, ADeadHostIsOneFailure) {
  for (const char* transport : {"two_level", "hosts"}) {
    JobPlan made{6, dead_host, {}, {}, over(transport)};
    made.launcher = {"--expect-kill", "2", "--expect-kill", "3"};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {2, 3}), "") << transport;
  }
}

// All but one die, one after the other or together, with f = 1.
RANKS(all_but_one) {
  for (int i = 0; i < 60; ++i) {
    const int missing = allreduce(i, 1 + static_cast<std::size_t>(i) * 700);  // in the slab, beside it, in chunks
    if (rank_ > 0 && i >= 10 + 10 * (rank_ / 2)) std::raise(SIGKILL);         // two, two, one
    if (i >= 40 && missing != size_ - 1) wrong("{} are missing", missing);
    broadcast(i, 0, 3);
    allgather(i, 5);
  }
}

TEST(HostScenario, TheLastOneGoesOnAlone) {
  JobPlan made{6, all_but_one, {}, {}, over("shm")};
  for (int rank = 1; rank < 6; ++rank)
    made.launcher.insert(made.launcher.end(), {"--expect-kill", std::to_string(rank)});
  EXPECT_EQ(what_is_wrong(made, run_job(made), {1, 2, 3, 4, 5}), "");
}

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

int failures_seen = 0;
std::int64_t lived_ns = 0;  // the one that fails did yet
bool seen_early = false;    // the failed process had not quite ended yet
void on_failure(const ucft_failure_t* failure, void*) {
  ++failures_seen;
  if (const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, failure->pid, 0)); descriptor >= 0) {
    pollfd end{descriptor, POLLIN, 0};
    seen_early = poll(&end, 1, 0) == 0;
    close(descriptor);
  }
  if (failure->kind != UCFT_FAILURE_PROVED) wrong("rank {} is only suspected", failure->rank);
  if (failure->known_at_ns <= lived_ns || failure->known_at_ns > now_ns())
    wrong("known at {}: not between {} and {}", failure->known_at_ns, lived_ns, now_ns());
  std::uint64_t word = 0;
  expect(ucft_allreduce(comm, &word, &word, 0, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), UCFT_ERR_THREAD,
         "from a callback");
}

// Rank 1 stops (SIGSTOP): it is killed by the others and counts as dead, with proof, exactly once. The callback is a
// local view: a rank that others spare the waiting may have all its results before its own detector has spoken.
RANKS_BEFORE_START_UP(stopped) {
  start_up(on_failure);
  for (int i = 0; i < 200; ++i) {
    if (rank_ == 1 && i == 100) std::raise(SIGSTOP);
    if (i == 99) lived_ns = now_ns();
    allreduce(i, 1);
  }
  while (failures_seen == 0) check(ucft_progress(context), "progress");
  allreduce(200, 1);
  if (failures_seen != 1) wrong("{} failure callbacks", failures_seen);
  std::int32_t ranks[8], count = 8;
  check(ucft_comm_failed(comm, ranks, &count), "failed");
  if (count != 1 || ranks[0] != 1) wrong("{} failed ranks", count);
}

TEST_P(Scenario, AStoppedRankIsFencedAndProvedDead) {
  JobPlan made = plan(4, stopped);
  if (made.environment.erase("UCFT_FENCE") > 0) made.environment["UCFT_ALGORITHM"] = "corrected";  // by messages, too
  made.launcher = {"--expect-kill", "1"};
  // Other hosts suspect it a quarter later than its own kills it: in time for the proof also if that one is late by a
  // second.
  made.environment["UCFT_SUSPECT_AFTER"] = spans_hosts(GetParam()) ? "5s" : "300ms";
  const JobResult result = run_job(made);
  EXPECT_EQ(what_is_wrong(made, result, {1}), "");
  if (std::string(GetParam()) == "tcp")  // no memory in which the ranks could agree who says it
    ASSERT_GE(result.killed.size(), 1U) << result.output;
  else
    ASSERT_EQ(result.killed.size(), 1U) << result.output;
  for (const char* part : {": rank 1 (", " gave no sign of life for ", "UCFT_SUSPECT_AFTER=10m"})
    EXPECT_NE(result.killed[0].find(part), std::string::npos) << result.killed[0];
}

// heavy MEGABYTES: rank 1 has touched so much memory when it is killed. It takes long to die; the others don't wait for
// that.
RANKS_BEFORE_START_UP(heavy) {
  start_up(on_failure);
  const std::size_t bytes = std::stoul(arguments.at(0)) << 20;
  for (int i = 0; i < 20; ++i) allreduce(i, 1);
  if (rank_ == 1) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) wrong("mmap");
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    std::memset(memory, 1, bytes);
    std::raise(SIGKILL);
  }
  for (int i = 20, left = 50; left > 0; ++i) left -= allreduce(i, 1) > 0;
  while (failures_seen == 0) check(ucft_progress(context), "progress");
  if (seen_early) fmt::print("EARLY\n");
}

// Its pidfd says nothing for half a second.
TEST(Heavy, ARankOfFourGigabytesIsKnownToBeDeadBeforeItsMemoryIsGone) {
  if (sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE) < 6L << 30) GTEST_SKIP() << "less than 6 GiB of memory is free";
  bool early = false;
  for (int attempt = 0; attempt < 5 && !early; ++attempt) {  // a machine that is busy with something else may be late
    JobPlan made{3, heavy, {"4096"}, {"--expect-kill", "1"}, over("shm")};
    const JobResult result = run_job(made);
    ASSERT_EQ(what_is_wrong(made, result, {1}), "");
    early = result.output.find("EARLY") != std::string::npos;
  }
  EXPECT_TRUE(early);
}

// Rank 1 stops so many microseconds after the start, while much is on its way to it: the queues of its connections are
// full when it is killed.
RANKS(stopped_reader) {
  constexpr std::size_t count = 1 << 18;
  const std::size_t delay = std::stoul(arguments.at(0));
  std::vector<std::uint64_t> data(count);
  std::thread stopper;
  if (rank_ == 1)
    stopper = std::thread([delay] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
      std::raise(SIGSTOP);
    });
  for (int i = 0; i < 100; ++i) {
    for (std::size_t k = 0; k < count; ++k) data[k] = rank_ == 0 ? k + static_cast<std::size_t>(i) : 0;
    check(ucft_broadcast(comm, data.data(), count, UCFT_UINT64, 0, nullptr, nullptr), "broadcast");
    for (std::size_t k = 0; k < count; ++k)
      if (data[k] != k + static_cast<std::size_t>(i)) wrong("broadcast {}, element {}: {}", i, k, data[k]);
  }
  if (stopper.joinable()) stopper.join();
}

// What hit ranks by chance when UCX sent to them without copies (see transports_test.cpp, which notices if it does
// again).
TEST_P(Scenario, AReaderDiesWithItsQueuesFull) {
  for (int delay_us : {2000, 5000, 9000, 14000, 20000}) {
    JobPlan made = plan(3, stopped_reader, {std::to_string(delay_us)});
    made.launcher = {"--expect-kill", "1"};
    made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
    expect_right(made, {1});
  }
}

}  // namespace
}  // namespace ucft::detail::test
