// SIGKILL at random moments and between chosen sends, roots preferred, single and double, over shared memory and tcp.
// Every survivor gets right results, all the same; no hang, no abort, no noise, nothing left in /dev/shm.
//
// UCFT_KILL_RUNS multiplies the number of runs (ci/soak); UCFT_KILL_SEED replays a series.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/ucx/job.hpp"

namespace ucft::detail::test {
namespace {

int runs(int normally) {
  const char* factor = std::getenv("UCFT_KILL_RUNS");
  return factor == nullptr ? normally : static_cast<int>(normally * std::atof(factor));
}

unsigned seed() {
  const char* given = std::getenv("UCFT_KILL_SEED");
  return given == nullptr ? 20261121u : static_cast<unsigned>(std::atol(given));
}

void expect_right(const JobPlan& plan, const JobResult& result, const std::vector<int>& may_be_dead, int run) {
  std::string how;
  for (const std::string& word : plan.launcher) how += " " + word;
  for (const auto& [name, value] : plan.environment) how += " " + name + "=" + value;
  for (const std::string& word : plan.arguments) how += " " + word;
  EXPECT_EQ(what_is_wrong(plan, result, may_be_dead), "")
      << "run " << run << ": n=" << plan.ranks << " " << plan.scenario << how;
}

void expect_right(const JobPlan& plan, const std::vector<int>& may_be_dead, int run) {
  expect_right(plan, run_job(plan), may_be_dead, run);
}

class Kill : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, Kill, testing::Values("shm", "tcp", "hosts"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Kill, NobodyDiesAndAllAgree) {
  for (int ranks : {1, 2, 3, 5, 8}) {
    JobPlan plan{ranks, "loop", {"24", "40000"}, {}, over(GetParam())};
    expect_right(plan, {}, ranks);
  }
}

TEST_P(Kill, AnyRankAtARandomMoment) {
  std::mt19937 random(seed());
  for (int run = 0; run < runs(50); ++run) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const int victim = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    const std::string when = std::to_string(60 + random() % 150) + "ms";
    JobPlan plan{ranks, "loop", {"400", "5000"}, {"--kill", std::to_string(victim) + "@" + when}, over(GetParam())};
    plan.environment["UCFT_TEST_MAY_DIE_IN_STARTUP"] = "y";  // then all survivors name it
    expect_right(plan, {victim}, run);
  }
}

TEST_P(Kill, AnyRankBetweenTwoOfItsSends) {
  std::mt19937 random(seed() + 1);
  for (int run = 0; run < runs(60); ++run) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const int victim = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    JobPlan plan{ranks, "loop", {"40", "5000"}, {"--expect-kill", std::to_string(victim)}, over(GetParam())};
    plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(random() % 300);
    expect_right(plan, {victim}, run);
  }
}

TEST_P(Kill, TwoRanksInDifferentOperations) {
  std::mt19937 random(seed() + 2);
  for (int run = 0; run < runs(40); ++run) {
    const int ranks = 4 + static_cast<int>(random() % 5);
    const int first = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    const int second = (first + 1 + static_cast<int>(random() % static_cast<unsigned>(ranks - 1))) % ranks;
    JobPlan plan{ranks,
                 "loop",
                 {"60", "5000"},
                 {"--expect-kill", std::to_string(first), "--expect-kill", std::to_string(second)},
                 over(GetParam())};
    plan.environment["UCFT_F"] = "2";  // both may fall into the same operation
    plan.environment["UCFT_TEST_KILL"] = std::to_string(first) + ":send:" + std::to_string(random() % 150) + "," +
                                         std::to_string(second) + ":send:" + std::to_string(random() % 300);
    expect_right(plan, {first, second}, run);
  }
}

// f, windows and communicators that come and go by chance, with stops beside the deaths: "COUNTS operations stops" of each rank
// that lives to the end. Silence is not what is tested here, so patience is long.
TEST_P(Kill, WhileCommunicatorsComeAndGoAndRanksStop) {
  std::mt19937 random(seed() + 4);
  long operations = 0, stops = 0;
  int deaths = 0;
  const int all = runs(12);
  for (int run = 0; run < all; ++run) {
    const int f = 1 + static_cast<int>(random() % 3), ranks = 4 + static_cast<int>(random() % 5);
    const int victims = static_cast<int>(random() % static_cast<unsigned>(std::min(f, 2) + 1));
    const int first = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const int second = (first + 1 + static_cast<int>(random() % static_cast<unsigned>(ranks - 1))) % ranks;
    JobPlan plan{ranks, "mixed", {std::to_string(random() % 1000000), "250"}, {}, over(GetParam())};
    plan.environment["UCFT_F"] = std::to_string(f);
    plan.environment["UCFT_WINDOW"] = std::to_string(2 + random() % 15);
    plan.environment["UCFT_SUSPECT_AFTER"] = "10s";
    std::string kills;
    std::vector<int> may_be_dead;
    for (int i = 0; i < victims; ++i) {
      const int victim = i == 0 ? first : second;
      kills += (i > 0 ? "," : "") + std::to_string(victim) + ":send:" + std::to_string(random() % 1500);
      plan.launcher.insert(plan.launcher.end(), {"--expect-kill", std::to_string(victim)});
      may_be_dead.push_back(victim);
    }
    if (victims > 0) plan.environment["UCFT_TEST_KILL"] = kills;
    const JobResult result = run_job(plan);
    expect_right(plan, result, may_be_dead, run);
    for (std::size_t at = 0; (at = result.output.find("COUNTS ", at)) != std::string::npos; ++at) {
      long checked = 0, stopped = 0;
      ASSERT_EQ(std::sscanf(result.output.c_str() + at, "COUNTS %ld %ld", &checked, &stopped), 2);
      operations += checked;
      stops += stopped;
    }
    deaths += ranks - static_cast<int>(result.verdicts.size());
  }
  EXPECT_GT(operations, 1000L * all);
  if (all >= 10) {
    EXPECT_GT(deaths, 0);
    EXPECT_GT(stops, 0);
  }
  std::printf("SOAK %s: %d jobs, %ld rank-operations checked, %d deaths, %ld stops, seed %u\n", GetParam(), all,
              operations, deaths, stops, seed());
}

// Over shared memory only: the reader must never take a torn message for one.
TEST(KillInAMailbox, AnyRankBetweenTwoLinesOfAMessage) {
  std::mt19937 random(seed() + 3);
  for (int run = 0; run < runs(60); ++run) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const int victim = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    JobPlan plan{ranks, "loop", {"40", "250"}, {"--expect-kill", std::to_string(victim)}, {}};
    plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":line:" + std::to_string(random() % 1500);
    expect_right(plan, {victim}, run);
  }
}

// Every boundary of the first operations, for the root and for one other rank.
TEST(KillSystematically, EverySendOfTheFirstAllreduces) {
  for (int victim : {0, 1, 3})
    for (int send = 0; send < runs(20); ++send) {
      JobPlan plan{4, "words", {"12"}, {"--expect-kill", std::to_string(victim)}, {}};
      plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(send);
      expect_right(plan, {victim}, send);
    }
}

}  // namespace
}  // namespace ucft::detail::test
