// SIGKILL at random moments and between chosen sends, roots preferred, single and double, over shared memory and tcp.
// Every survivor gets right results, all the same; no hang, no abort, no noise, nothing left in /dev/shm.
//
// UCFT_KILL_RUNS multiplies the number of runs (ci/soak); UCFT_KILL_SEED replays a series.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/ucx/job.hpp"

namespace ucft::test {
namespace {

int runs(int normally) {
  const char* factor = std::getenv("UCFT_KILL_RUNS");
  return factor == nullptr ? normally : static_cast<int>(normally * std::atof(factor));
}

unsigned seed() {
  const char* given = std::getenv("UCFT_KILL_SEED");
  return given == nullptr ? 20261121u : static_cast<unsigned>(std::atol(given));
}

void expect_right(const JobPlan& plan, const std::vector<int>& may_be_dead, int run) {
  const JobResult result = run_job(plan);
  std::string how;
  for (const std::string& word : plan.launcher) how += " " + word;
  for (const auto& [name, value] : plan.environment) how += " " + name + "=" + value;
  EXPECT_EQ(what_is_wrong(plan, result, may_be_dead), "") << "run " << run << ": n=" << plan.ranks << " " << plan.scenario << how;
}

class Kill : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, Kill, testing::Values("shm", "tcp", "hosts"), [](const auto& each) { return std::string(each.param); });

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
    plan.environment["UCFT_TEST_MAY_DIE_IN_STARTUP"] = "y";   // then all survivors name it
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
    JobPlan plan{ranks, "loop", {"60", "5000"}, {"--expect-kill", std::to_string(first), "--expect-kill", std::to_string(second)}, over(GetParam())};
    plan.environment["UCFT_F"] = "2";   // both may fall into the same operation
    plan.environment["UCFT_TEST_KILL"] = std::to_string(first) + ":send:" + std::to_string(random() % 150) + "," +
                                         std::to_string(second) + ":send:" + std::to_string(random() % 300);
    expect_right(plan, {first, second}, run);
  }
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
}  // namespace ucft::test
