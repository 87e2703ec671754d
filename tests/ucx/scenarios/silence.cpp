// Ranks that are silent and live: stopped, suspended, cut off, or at work.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

std::vector<pid_t> pids_of_all() {
  std::vector<std::uint64_t> mine(static_cast<std::size_t>(size_)), pids(mine.size());
  mine[static_cast<std::size_t>(rank_)] = static_cast<std::uint64_t>(getpid());
  check(ucft_allreduce(comm, mine.data(), pids.data(), pids.size(), UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "pids");
  return {pids.begin(), pids.end()};
}

// struck stop|kill FIRST COUNT: so many ranks, which must be on one host, are stopped or killed at the same moment, by
// the first of them, between two operations. It says when, and each survivor says when it had a sum without them (a
// line of JSON, for bench/studies/detection; by CLOCK_MONOTONIC). ucft_run ends who is stopped.
RANKS(struck) {
  const int signal = arguments.at(0) == "stop" ? SIGSTOP : SIGKILL;
  const int first = std::stoi(arguments.at(1)), count = std::stoi(arguments.at(2));
  const std::vector<pid_t> pids = pids_of_all();
  const auto say_now = [](const char* what) {
    fmt::print("{{\"{}\":{:.6f}}}\n", what,
               std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
    std::fflush(stdout);
  };
  for (int i = 0, left = 20; left > 0; ++i) {
    if (rank_ == first && i == 30) {
      say_now("struck");
      for (int rank = first + count - 1; rank >= first; --rank) kill(pids[static_cast<std::size_t>(rank)], signal);
    }
    const int missing = allreduce(i, 1);
    if (missing > count || (signal == SIGSTOP && missing % count != 0))
      wrong("operation {}: {} are missing", i, missing);
    if (missing == count && left-- == 20) say_now("survived");
  }
}

// More than 32 ranks elsewhere: lifelines are few. f = 1.
TEST(FewLifelines, AHostThatFreezesIsOneFailure) {
  for (const int host : {1, 11}) {
    JobPlan made{36, struck, {"stop", std::to_string(3 * host), "3"}, {}, over("two_level")};
    made.environment["UCFT_TEST_RANKS_PER_HOST"] = "3";
    for (int rank = 3 * host; rank < 3 * host + 3; ++rank)
      made.launcher.insert(made.launcher.end(), {"--expect-kill", std::to_string(rank)});
    EXPECT_EQ(what_is_wrong(made, run_job(made), {3 * host, 3 * host + 1, 3 * host + 2}), "") << host;
  }
}

// suspended TIMES MILLISECONDS APART: as a batch system does it, the whole job is stopped for so long, and its ranks
// are woken one after the other, APART milliseconds between two. Nobody is missing afterwards.
RANKS(suspended) {
  const int times = std::stoi(arguments.at(0));
  const auto stop_us = static_cast<useconds_t>(1000 * std::stol(arguments.at(1))),
             apart_us = static_cast<useconds_t>(1000 * std::stol(arguments.at(2)));
  const std::vector<pid_t> pids = pids_of_all();
  pid_t batch_system = 0;
  if (rank_ == 0) batch_system = fork();
  if (rank_ == 0 && batch_system == 0) {
    for (int i = 0; i < times; ++i) {
      usleep(100000);
      for (pid_t pid : pids) kill(pid, SIGSTOP);
      usleep(stop_us);
      for (pid_t pid : pids) {
        kill(pid, SIGCONT);
        usleep(apart_us);
      }
    }
    _exit(0);
  }
  std::uint64_t over = 0;  // rank 0: the batch system has had its way
  for (int i = 0, left = 2000; left > 0; ++i) {
    std::uint64_t in[2] = {std::uint64_t{1} << rank_, 0}, out[2];
    if (rank_ == 0 && over == 0) over = waitpid(batch_system, nullptr, WNOHANG) == batch_system;
    in[1] = over;
    ucft_result_t result = UCFT_RESULT_INIT;
    check(ucft_allreduce(comm, in, out, 2, UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce");
    if (result.contributors != static_cast<std::uint32_t>(size_))
      wrong("iteration {}: {} contributors", i, result.contributors);
    if (out[1] != 0) --left;
    if (left % 20 == 0) usleep(1000);
  }
}

TEST_P(Scenario, AJobThatIsSuspendedAndResumedRankByRankLosesNobody) {
  expect_right(plan(8, suspended, {"2", "1500", "30"}));
}

// Without fencing a stopped rank is only suspected. When it wakes up it is told that it is out.
RANKS(excluded) {
  if (rank_ == 1) {
    allreduce(0, 1);
    stop_for(6000);  // until long after the others have given us up, starved though they may be
    expect(go_on(100000), UCFT_ERR_EXCLUDED, "a rank that the others gave up");
    context = nullptr;  // ends without leaving
    return;
  }
  for (int i = 0; i < 50; ++i) allreduce(i, 1);
}

// The excluded rank writes into nobody's memory any more and is told so in its own.
TEST(ScenarioWithoutFence, AWronglySuspectedRankIsExcluded) {
  JobPlan made{4, excluded, {}, {}, {{"UCFT_FENCE", "n"}, {"UCFT_SUSPECT_AFTER", "300ms"}}};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {1}), "");
}

// What it has lent is its own again: memory that the others, who have not looked, have not taken yet.
RANKS(excluded_while_it_gives) {
  constexpr std::size_t count = std::size_t{8} << 20;
  allreduce(0, 1);
  if (rank_ == 0) usleep(12000000);  // does not look meanwhile
  constexpr std::size_t bytes = count * sizeof(std::uint64_t);
  void* const memory = mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) wrong("no memory");
  void* const out = static_cast<std::byte*>(memory) + bytes;
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  ucft_request_h request = UCFT_REQUEST_NULL;
  check(ucft_allreduce_init(comm, memory, out, count, UCFT_UINT64, &sum, nullptr, &request), "init");
  check(ucft_post(request), "post");
  if (rank_ != 1) return check(ucft_wait(request, UINT64_MAX), "wait");
  for (int polls = 0; polls < 1000; ++polls) ucft_test(request);
  stop_for(8000);  // until long after the others have given us up, starved though they may be
  expect(ucft_wait(request, UINT64_MAX), UCFT_ERR_EXCLUDED, "a rank that the others gave up");
  munmap(memory, 2 * bytes);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(6);
  while (std::chrono::steady_clock::now() < until) check(ucft_progress(context), "progress");
  context = nullptr;  // ends without leaving
}

TEST(ScenarioWithoutFence, AnExcludedRankMayFreeWhatItGave) {
  JobPlan made{3, excluded_while_it_gives, {}, {}, over("tcp")};
  made.environment["UCFT_FENCE"] = "n";
  made.environment["UCFT_SUSPECT_AFTER"] = "500ms";
  const JobResult result = run_job(made);
  EXPECT_EQ(what_is_wrong(made, result, {1}), "");
  EXPECT_EQ(result.output.find("UCX  ERROR"), std::string::npos) << result.output;  // of a send from where nothing is
}

// Deaths are seen by /proc then, and who is silent is only suspected.
TEST_P(Scenario, RanksWithoutPidfdsSurviveDeathsAllTheSame) {
  for (int victim : {0, 2}) {
    JobPlan made = plan(4, "loop", {"200", "5000", "10"});
    made.launcher = {"--kill", std::to_string(victim) + "@start+150ms"};
    made.environment["UCFT_TEST_MAY_DIE_IN_STARTUP"] = "y";
    made.environment["UCFT_TEST_NO_PIDFD"] = "y";
    expect_right(made, {victim});
  }
  JobPlan made = plan(4, excluded);
  made.environment["UCFT_TEST_NO_PIDFD"] = "y";
  made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
  if (!needs_ucx(GetParam())) expect_right(made, {1});  // without UCFT_FENCE=n: there is nothing to fence with
}

// Ranks a to b-1 are cut off for 12 s, ten times their patience: they stop, and a child of the first one wakes all of
// them at once, or those of one host would take each other for silent. (From the others' side that is a host that
// hangs; from its own, one that has lost all others.)
void vanish(int a, int b) {
  const std::vector<pid_t> pids = pids_of_all();
  if (rank_ < a || rank_ >= b) return;
  if (rank_ == a && fork() == 0) {
    usleep(12000000);
    for (int rank = a; rank < b; ++rank) kill(pids[static_cast<std::size_t>(rank)], SIGCONT);
    _exit(0);
  }
  std::raise(SIGSTOP);
}

// Ranks a to b-1 vanish at once and come back. What becomes of them, and of the others: "ok", "excluded", "partition".
RANKS(cut_off) {
  const int a = std::stoi(arguments.at(0)), b = std::stoi(arguments.at(1));
  const bool cut = a <= rank_ && rank_ < b;
  const std::string& fate = arguments.at(cut ? 2 : 3);
  for (int i = 0; i < 20; ++i) allreduce(i, 1);
  vanish(a, b);
  if (fate == "ok") {
    std::uint64_t in = std::uint64_t{1} << rank_, out = 0;
    for (int i = 0; i < 50; ++i) {
      ucft_result_t result = UCFT_RESULT_INIT;
      check(ucft_allreduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce");
      if (static_cast<std::uint32_t>(__builtin_popcountll(out)) != result.contributors)
        wrong("sum {:x} of {}", out, result.contributors);
    }
    std::uint64_t expected = 0;
    for (int rank = 0; rank < size_; ++rank)
      if ((a <= rank && rank < b) == cut) expected |= std::uint64_t{1} << rank;
    if (out != expected) wrong("{:x} took part, expected {:x}", out, expected);
  } else {
    expect(go_on(100000), fate == "excluded" ? UCFT_ERR_EXCLUDED : UCFT_ERR_PARTITION, fate.c_str());
    if (fate == "partition" && std::strstr(ucft_last_error(), "majority") == nullptr)
      wrong("text: {}", ucft_last_error());
  }
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
  std::vector<const char*> transports{"two_level"};
  if (cut.ranks == 4) transports.push_back("hosts");
  for (const char* transport : transports) {
    JobPlan made{cut.ranks,
                 cut_off,
                 {std::to_string(cut.first), std::to_string(cut.last), cut.fate, cut.fate_of_others},
                 {},
                 over(transport)};
    made.environment["UCFT_SUSPECT_AFTER"] = patience(transport);
    made.environment["UCFT_F"] = "2";
    // Else those of one host, which stop together, would kill each other on their return.
    made.environment["UCFT_FENCE"] = "n";
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << transport;
  }
}

// slow_operator MILLISECONDS: only rank 0 is calling while an allreduce goes on, so ucft's own thread runs the user's
// operator on the others, each time for so long. They live and compute, and must not be taken for dead. (The last rank
// has died before: only then does that thread take part.)
RANKS(slow_operator) {
  using Clock = std::chrono::steady_clock;
  static std::chrono::milliseconds cost{0};
  cost = std::chrono::milliseconds(std::stol(arguments.at(0)));
  for (int i = 0; i < 20; ++i) allreduce(i, 1);
  if (rank_ == size_ - 1) std::raise(SIGKILL);
  ucft_result_t result = UCFT_RESULT_INIT;
  std::uint64_t in = std::uint64_t{1} << rank_, out = 0;
  for (int i = 0; i < 20 || result.contributors == static_cast<std::uint32_t>(size_); ++i)
    check(ucft_allreduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce");
  ucft_operator_t slow_sum = UCFT_OPERATOR_INIT(UCFT_USER);
  slow_sum.function = [](const void* from, void* to, std::uint64_t count, ucft_dtype_t, void*) {
    for (const auto end = Clock::now() + cost; Clock::now() < end;) {}
    for (std::uint64_t i = 0; i < count; ++i)
      static_cast<std::uint64_t*>(to)[i] += static_cast<const std::uint64_t*>(from)[i];
  };
  ucft_request_h request;
  check(ucft_allreduce_init(comm, &in, &out, 1, UCFT_UINT64, &slow_sum, nullptr, &request), "init");
  check(ucft_post(request), "post");
  if (rank_ != 0) usleep(static_cast<useconds_t>(4000 * std::stol(arguments.at(0))));
  check(ucft_wait(request, UINT64_MAX), "wait");
  if (out != (std::uint64_t{1} << (size_ - 1)) - 1) wrong("sum {:x}", out);
  note(out);
  check(ucft_request_free(request), "free");
}

TEST_P(Scenario, ASlowOperatorOnUcftsOwnThreadIsNotSilence) {
  JobPlan made = plan(6, slow_operator, {spans_hosts(GetParam()) ? "2500" : "1000"});
  made.launcher = {"--expect-kill", "5"};
  made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
  if (made.environment.count("UCFT_TEST_RANKS_PER_HOST") > 0) made.environment["UCFT_TEST_RANKS_PER_HOST"] = "1";
  expect_right(made, {5});
}

}  // namespace
}  // namespace ucft::detail::test
