// SIGKILL at random moments and between chosen sends, roots preferred, single and double, over shared memory, over tcp,
// and with ranks that take each other for ranks of other hosts. Every survivor gets right results, all the same; no
// hang, no abort, no noise, nothing left in /dev/shm.
//
// UCFT_KILL_RUNS multiplies the number of runs (ci/soak); UCFT_KILL_SEED replays a series.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/ucx/job.hpp"
#include "tests/ucx/operations.hpp"
#include "tests/ucx/ranks.hpp"

namespace ucft::detail::test {
namespace {

unsigned seed() {
  const char* given = std::getenv("UCFT_KILL_SEED");
  return given == nullptr ? 20261121u : static_cast<unsigned>(std::atol(given));
}

void expect_right(const JobPlan& plan, const JobResult& result, const std::vector<int>& may_be_dead, int run) {
  EXPECT_EQ(what_is_wrong(plan, result, may_be_dead), "")
      << "run " << run << ", UCFT_KILL_SEED=" << seed() << ": " << words_of(plan);
}

void expect_right(const JobPlan& plan, const std::vector<int>& may_be_dead, int run) {
  expect_right(plan, run_job(plan), may_be_dead, run);
}

class Kill : public testing::TestWithParam<const char*> {
 protected:
  // Of the fallbacks half as many.
  int runs(int normally) const {
    const int all = test::runs(normally);
    return is_fallback(GetParam()) ? (all + 1) / 2 : all;
  }
  // Between hosts two to four ranks on each, by chance.
  JobPlan plan(std::mt19937& random, int ranks, const std::string& scenario, std::vector<std::string> arguments,
               const std::vector<int>& victims) const {
    JobPlan made{ranks, scenario, std::move(arguments), {}, over(GetParam())};
    for (int victim : victims) made.launcher.insert(made.launcher.end(), {"--expect-kill", std::to_string(victim)});
    if (spans_hosts(GetParam())) made.environment["UCFT_TEST_RANKS_PER_HOST"] = std::to_string(2 + random() % 3);
    return made;
  }
  // So many jobs, in each of which a rank, or in every third two, die before one of their first so many sends.
  // arguments: of the scenario, from the random numbers and the victims, "1,3".
  template <class ArgumentsOf>
  void one_or_two_at_sends(const std::string& scenario, unsigned series, int jobs, unsigned sends,
                           ArgumentsOf arguments) const {
    std::mt19937 random(series);
    for (int run = 0; run < runs(jobs); ++run) {
      const int ranks = 2 + static_cast<int>(random() % 6),
                victim = static_cast<int>(random() % static_cast<unsigned>(ranks)),
                other = (victim + 1 + static_cast<int>(random() % static_cast<unsigned>(ranks))) % ranks;
      std::vector<int> victims{victim};
      if (run % 3 == 0 && other != victim) victims.push_back(other);
      std::string names, kills;
      for (int each : victims) {
        names += (names.empty() ? "" : ",") + std::to_string(each);
        kills += (kills.empty() ? "" : ",") + std::to_string(each) + ":send:" + std::to_string(random() % sends);
      }
      JobPlan made = plan(random, ranks, scenario, arguments(random, names), victims);
      made.environment["UCFT_TEST_KILL"] = kills;
      expect_right(made, victims, run);
    }
  }
  // So many jobs, in each of which a rank dies from outside, some time after start-up.
  template <class ArgumentsOf>
  void at_a_moment(const std::string& scenario, unsigned series, int jobs, ArgumentsOf arguments) const {
    std::mt19937 random(series);
    for (int run = 0; run < runs(jobs); ++run) {
      const int ranks = 2 + static_cast<int>(random() % 6),
                victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
      JobPlan made = plan(random, ranks, scenario, arguments(random, std::to_string(victim)), {});
      made.launcher = {"--kill", std::to_string(victim) + "@start+" + std::to_string(60 + random() % 150) + "ms"};
      made.environment["UCFT_TEST_MAY_DIE_IN_STARTUP"] = "y";
      expect_right(made, {victim}, run);
    }
  }
  // So many jobs, in each of which a rank dies before one of its first so many sends.
  void at_a_send(const std::string& scenario, unsigned series, int jobs, unsigned sends) const {
    std::mt19937 random(series);
    for (int run = 0; run < runs(jobs); ++run) {
      const int ranks = 2 + static_cast<int>(random() % 6),
                victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
      JobPlan made = plan(random, ranks, scenario, {}, {victim});
      made.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(random() % sends);
      expect_right(made, {victim}, run);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Kill, testing::ValuesIn(all_transports()),
                         [](const auto& each) { return std::string(each.param); });

// loop ITERATIONS LARGE [AFTER_DEATH]: every operation in turn; LARGE is the count of the big ones. With AFTER_DEATH,
// no more than so many iterations after the first in which a rank was missing: ITERATIONS then only bounds a job whose
// victim lives. tests/pmix, tests/slurm and tests/rdma expect the same of it; so does memcheck_test.
RANKS(loop) {
  const int iterations = std::stoi(arguments.at(0));
  const std::size_t large = std::stoul(arguments.at(1));
  const int after_death = arguments.size() > 2 ? std::stoi(arguments[2]) : iterations;
  for (int i = 0, end = iterations; i < end; ++i) {
    if (allreduce(i, 1) > 0) end = std::min(end, i + after_death);
    if (i == 0) say_started();
    broadcast(i, i % size_, 3);
    reduce(i, (i + 1) % size_, 2);
    allgather(i, 3);
    gather(i, (i + 2) % size_, 3);
    reduce_scatter(i, 3);
    scatter(i, (i + 3) % size_, 3);
    alltoall(i, 2);
    alltoallv(i, 3);
    scan(i, 3);
    if (i % 4 == 0) several(i);
    if (i % 8 == 7) allgather(i, large / 4);
    if (i % 8 == 2) reduce_scatter(i, large / 4);
    if (i % 8 == 4) reduce_scatter_bytes(i, large + 3);
    if (i % 8 == 0) scatter(i, i % size_, large / 4);
    if (i % 8 == 3) alltoall(i + i / 8 % 2, large / 8);  // in place, and not
    if (i % 8 == 6) alltoallv(i + i / 8 % 3, large / 8);
    if (i % 8 == 5) scan(i, large / 4);
    if (i % 8 == 1) allreduce(i, large);
    if (i % 8 == 3) broadcast(i, 0, large);
    if (i % 8 == 5) reduce(i, 0, large);
    if (i % 8 == 6) gather(i, size_ - 1, large / 4);
    if (i % 4 == 2) check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  }
}

TEST_P(Kill, NobodyDiesAndAllAgree) {
  for (int ranks : {1, 2, 3, 5, 8}) {
    JobPlan plan{ranks, loop, {"24", "40000"}, {}, over(GetParam())};
    expect_right(plan, {}, ranks);
  }
}

TEST_P(Kill, AnyRankAtARandomMoment) {
  std::mt19937 random(seed());
  for (int run = 0; run < runs(50); ++run) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const int victim = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    const std::string when = std::to_string(60 + random() % 150) + "ms";
    JobPlan made = plan(random, ranks, loop, {"400", "5000", "40"}, {});
    made.launcher = {"--kill", std::to_string(victim) + "@start+" + when};
    made.environment["UCFT_TEST_MAY_DIE_IN_STARTUP"] = "y";  // then all survivors name it
    expect_right(made, {victim}, run);
  }
}

// Mostly before the first collective, while connections are made. Then each of the others says that it was this one,
// also where UCX calls abort() in it.
TEST_P(Kill, AnyRankInStartUp) {
  std::mt19937 random(seed() + 8);
  for (int run = 0; run < runs(40); ++run) {
    const int ranks = 3 + static_cast<int>(random() % 6);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const std::string when = std::to_string(5 + random() % 80) + "ms";
    JobPlan made = plan(random, ranks, loop, {"8", "5000"}, {});
    made.launcher = {"--kill", std::to_string(victim) + "@start+" + when};
    made.environment["UCFT_TEST_MAY_DIE_IN_STARTUP"] = "y";
    expect_right(made, {victim}, run);
  }
}

TEST_P(Kill, AnyRankBetweenTwoOfItsSends) {
  std::mt19937 random(seed() + 1);
  for (int run = 0; run < runs(60); ++run) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const int victim = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    JobPlan made = plan(random, ranks, loop, {"40", "5000", "16"}, {victim});
    made.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(random() % 300);
    if (run % 4 == 3) made.environment["UCFT_TEST_FAR"] = "y";
    expect_right(made, {victim}, run);
  }
}

// agreements COUNT: what each rank has agreed on it says at once, also if it dies then. Every third is in flight with
// another operation.
RANKS(agreements) {
  const int count = std::stoi(arguments.at(0));
  for (int i = 0; i < count; ++i) {
    std::vector<std::int32_t> missing(static_cast<std::size_t>(size_));
    ucft_result_t result = UCFT_RESULT_INIT;
    result.missing = missing.data();
    result.missing_capacity = size_;
    std::uint64_t flags = ~(std::uint64_t{1} << ((rank_ + i) % 64));
    if (i % 3 != 0) {
      check(ucft_agree(comm, &flags, nullptr, &result), "agree");
    } else {
      ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
      options.uniform = 1;
      const ucft_operator_t both = UCFT_OPERATOR_INIT(UCFT_BAND);
      ucft_request_h agreement = UCFT_REQUEST_NULL, other = UCFT_REQUEST_NULL;
      std::uint64_t sum = 1;
      check(ucft_allreduce_init(comm, UCFT_IN_PLACE, &flags, 1, UCFT_UINT64, &both, &options, &agreement), "init");
      const ucft_operator_t add = UCFT_OPERATOR_INIT(UCFT_SUM);
      check(ucft_allreduce_init(comm, UCFT_IN_PLACE, &sum, 1, UCFT_UINT64, &add, nullptr, &other), "init");
      check(ucft_post(agreement), "post");
      ucft_status_t status = UCFT_ERR_BUSY;
      while ((status = ucft_post(other)) == UCFT_ERR_BUSY) check(ucft_progress(context), "progress");
      check(status, "post");
      check(ucft_wait(agreement, UINT64_MAX), "wait");
      check(ucft_request_result(agreement, &result), "result");
      check(ucft_wait(other, UINT64_MAX), "wait");
      ucft_request_free(agreement);
      ucft_request_free(other);
    }
    std::string text = "AGREED " + std::to_string(i) + " " + std::to_string(flags);
    for (std::int32_t each = 0; each < result.missing_count; ++each)
      text += " " + std::to_string(missing[static_cast<std::size_t>(each)]);
    std::printf("%s.\n", text.c_str());
    std::fflush(stdout);
    if (i == 0) say_started();
  }
}

// Of all ranks, the dead included: number -> what was agreed on. "" or the first on which two differ.
std::string differing_agreements(const std::string& output, std::map<int, std::string>& agreed) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("AGREED ");
    if (at == line.npos || line.back() != '.') continue;
    const std::string text = line.substr(at);
    const int number = std::stoi(text.substr(7));
    if (agreed.try_emplace(number, text).first->second != text) return text + " and " + agreed[number];
  }
  return {};
}

TEST_P(Kill, ThoseWhoDieHaveAgreedOnWhatSurvivorsHave) {
  std::mt19937 random(seed() + 9);
  for (int run = 0; run < runs(30); ++run) {
    const int ranks = 2 + static_cast<int>(random() % 5);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    JobPlan made = plan(random, ranks, agreements, {"40"}, {victim});
    made.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(random() % 200);
    const JobResult result = run_job(made);
    expect_right(made, result, {victim}, run);
    std::map<int, std::string> agreed;
    EXPECT_EQ(differing_agreements(result.output, agreed), "");
    EXPECT_EQ(agreed.size(), 40u);
  }
}

// Sums that go in blocks and pieces: most sends belong to them (collectives/among/phases/circulant.hpp).
RANKS(long_sums) {
  for (int i = 0; i < 8; ++i) {
    allreduce(i, i % 2 == 0 ? 80000 : 50001);
    if (i % 3 == 2) allreduce(i, 1);
  }
}

TEST_P(Kill, BetweenTwoPiecesOfALongSum) { at_a_send(long_sums, seed() + 5, 30, 120); }

// Shares in several pieces, which go straight to their readers (collectives/among/phases/personal_exchange.hpp).
RANKS(long_alltoalls) {
  for (int i = 0; i < 8; ++i) {
    if (i % 2 == 0)
      alltoall(i, i % 4 == 0 ? 20000 : 1400);
    else
      alltoallv(i, i % 4 == 1 ? 20000 : 700);
    if (i % 3 == 2) allreduce(i, 1);
  }
}

TEST_P(Kill, BetweenTwoPiecesOfALongAlltoall) { at_a_send(long_alltoalls, seed() + 10, 30, 120); }

// Allgathers of long blocks, in pieces of all at the same time (collectives/among/phases/piece_broadcast.hpp).
RANKS(long_allgathers) {
  for (int i = 0; i < 8; ++i) {
    allgather(i, i % 2 == 0 ? 20000 : 14001);
    if (i % 3 == 2) allreduce(i, 1);
  }
}

TEST_P(Kill, BetweenTwoPiecesOfALongAllgather) { at_a_send(long_allgathers, seed() + 6, 20, 60); }

// Gathers of long blocks, whose pieces go straight to the root (the same file).
RANKS(long_gathers) {
  for (int i = 0; i < 12; ++i) {
    gather(i, i % 3 == 2 ? i % size_ : 0, i % 2 == 0 ? 20000 : 9001);
    if (i % 3 == 2) allreduce(i, 1);
  }
}

TEST_P(Kill, BetweenTwoPiecesOfALongGather) { at_a_send(long_gathers, seed() + 11, 20, 40); }

// The root sends nearly all, so it is often the one that dies. Shares of any length, and of none.
RANKS(long_scatters) {
  for (int i = 0; i < 12; ++i) {
    scatter(i, i / 2 % size_, i % 2 == 0 ? 20000 : 7000);
    if (i % 3 == 2) allreduce(i, 40);
  }
}

TEST_P(Kill, BetweenTwoPiecesOfALongScatter) { at_a_send(long_scatters, seed() + 12, 20, 40); }

TEST_P(Kill, TwoRanksInDifferentOperations) {
  std::mt19937 random(seed() + 2);
  for (int run = 0; run < runs(40); ++run) {
    const int ranks = 4 + static_cast<int>(random() % 5);
    const int first = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    const int second = (first + 1 + static_cast<int>(random() % static_cast<unsigned>(ranks - 1))) % ranks;
    JobPlan made = plan(random, ranks, loop, {"60", "5000", "24"}, {first, second});
    made.environment["UCFT_F"] = "2";  // both may fall into the same operation
    made.environment["UCFT_TEST_KILL"] = std::to_string(first) + ":send:" + std::to_string(random() % 150) + "," +
                                         std::to_string(second) + ":send:" + std::to_string(random() % 300);
    expect_right(made, {first, second}, run);
  }
}

// Two to four hosts, at most nine ranks, f = 1. One of these dies, each rank of it at a send of its own: the rank that
// speaks for a host; that rank and the next one; a whole host; a whole host, and the rank that speaks for another one.
TEST(KillOnHosts, SpeakersTheirDeputiesAndWholeHosts) {
  std::mt19937 random(seed() + 9);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  for (int run = 0; run < runs(40); ++run) {
    const int hosts = 2 + draw(3), here = 2 + draw(hosts == 2 ? 3 : hosts == 3 ? 2 : 1);
    const int host = draw(hosts), other = (host + 1 + draw(hosts - 1)) % hosts;
    const int dead = run % 4 == 0 ? 1 : run % 4 == 1 ? 2 : here;
    std::vector<int> victims;
    for (int i = 0; i < dead; ++i) victims.push_back(host * here + i);
    if (run % 4 == 3) victims.push_back(other * here);
    JobPlan made{hosts * here, loop, {"40", "5000"}, {}, over("two_level")};
    made.environment["UCFT_TEST_RANKS_PER_HOST"] = std::to_string(here);
    std::string kills;
    for (int victim : victims) {
      made.launcher.insert(made.launcher.end(), {"--expect-kill", std::to_string(victim)});
      kills += fmt::format("{}{}:send:{}", kills.empty() ? "" : ",", victim, draw(200));
    }
    made.environment["UCFT_TEST_KILL"] = kills;
    expect_right(made, victims, run);
  }
}

// What more than 16 ranks have by the built-in table: inner nodes die, and others do their work.
TEST(KillOnATree, AnyRankBetweenTwoOfItsStores) {
  std::mt19937 random(seed() + 4);
  for (int run = 0; run < runs(60); ++run) {
    const int ranks = 3 + static_cast<int>(random() % 6);
    const int victim = static_cast<int>(random() % 3);  // the root, and those below it
    JobPlan plan{ranks, loop, {"40", "5000", "16"}, {"--expect-kill", std::to_string(victim)}, over("shm")};
    plan.environment["UCFT_TUNING_FILE"] = table_of_a_tree;
    if (run % 2 == 1) plan.environment["UCFT_TEST_SITES"] = "y";
    plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(random() % 600);
    expect_right(plan, {victim}, run);
  }
}

// Between hosts what is short by the built-in table goes as what is long: in blocks, and straight to its readers.
TEST(KillByAnotherTable, AnyRankBetweenTwoOfItsSends) {
  std::mt19937 random(seed() + 19);
  for (int run = 0; run < runs(40); ++run) {
    const int ranks = 3 + static_cast<int>(random() % 5);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    JobPlan plan{ranks,
                 loop,
                 {"40", "5000", "16"},
                 {"--expect-kill", std::to_string(victim)},
                 over(run % 2 == 0 ? "two_level" : "tcp")};
    plan.environment["UCFT_TUNING_FILE"] = table_of_a_tree;
    if (run % 2 == 0) plan.environment["UCFT_TEST_RANKS_PER_HOST"] = std::to_string(1 + random() % 3);
    plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(random() % 300);
    expect_right(plan, {victim}, run);
  }
}

// Long alltoalls go in rounds of a few KiB, and ranks die between two of them.
TEST(KillInRounds, AnyRankBetweenTwoOfItsStores) {
  std::mt19937 random(seed() + 17);
  for (int run = 0; run < runs(60); ++run) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    JobPlan plan{ranks, loop, {"40", "5000", "16"}, {"--expect-kill", std::to_string(victim)}, over("shm")};
    plan.environment["UCFT_TEST_SHORT_ROUNDS"] = "y";
    plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(random() % 900);
    expect_right(plan, {victim}, run);
  }
}

// between_slab_and_block ITERATIONS: data too long for a slab that go the short way, in places beside it, each of which
// is used again after 16 operations.
RANKS(between_slab_and_block) {
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) {
    const auto count = static_cast<std::size_t>(15 + i * 29 % 114);  // 120 to 1024 bytes
    allreduce(i, count);
    if (i == 0) say_started();
    broadcast(i, i % size_, count);
    if (i % 3 == 0) reduce(i, (i + 1) % size_, count);
    if (i % 3 == 1) allgather(i, count);
    if (i % 6 == 2) several(i);
  }
}

TEST(KillBetweenSlabAndBlock, AnyRankBetweenTwoOfItsStores) {
  std::mt19937 random(seed() + 7);
  for (int run = 0; run < runs(120); ++run) {
    const int ranks = 2 + static_cast<int>(random() % 4);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    JobPlan plan{ranks, between_slab_and_block, {"30"}, {"--expect-kill", std::to_string(victim)}, over("shm")};
    const unsigned store = run < 20 ? static_cast<unsigned>(run) : random() % 300;  // of some 10 an iteration
    plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(store);
    if (run % 4 == 3) plan.environment["UCFT_TEST_NO_PLACES"] = std::to_string((victim + 1) % ranks);
    expect_right(plan, {victim}, run);
  }
}

TEST(KillBetweenSlabAndBlock, WhoHasNoMemoryForPlacesPostsAndNobodyNoticesThat) {
  for (int ranks : {2, 3, 5}) {
    JobPlan plan{ranks, between_slab_and_block, {"60"}, {}, over("shm")};
    plan.environment["UCFT_TEST_NO_PLACES"] = std::to_string(ranks - 2);
    expect_right(plan, {}, ranks);
  }
}

// Over shared memory only: the reader must never take a torn message for one.
TEST(KillInAMailbox, AnyRankBetweenTwoLinesOfAMessage) {
  std::mt19937 random(seed() + 3);
  for (int run = 0; run < runs(60); ++run) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const int victim = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    JobPlan plan{ranks, loop, {"40", "250", "16"}, {"--expect-kill", std::to_string(victim)}, over("corrected")};
    plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":line:" + std::to_string(random() % 1500);
    expect_right(plan, {victim}, run);
  }
}

// corrected_gossip ITERATIONS: broadcasts by gossip with every correction, T by the model or so short that ranks are
// passed by.
RANKS(corrected_gossip) {
  const int iterations = std::stoi(arguments.at(0));
  allreduce(0, 1);
  say_started();
  for (int i = 0; i < iterations; ++i) {
    const int root = i % 3 == 0 ? 0 : i % size_;
    std::vector<std::uint64_t> data(1 + static_cast<std::size_t>(i) % 5 * 100,
                                    rank_ == root ? 77 + salt(i) : std::uint64_t{5});
    ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
    options.tree = i % 3 == 0 ? UCFT_TREE_AUTO_OR_GOSSIP : UCFT_TREE_GOSSIP;
    options.correction = static_cast<ucft_correction_t>(i % 5);
    if (i % 7 == 0 && options.tree == UCFT_TREE_GOSSIP) options.gossip_time_ns = 1000;
    const ucft_status_t status = ucft_broadcast(comm, data.data(), data.size(), UCFT_UINT64, root, &options, nullptr);
    if (status != UCFT_OK && status != UCFT_ERR_ROOT_FAILED) wrong("broadcast: {}", ucft_last_error());
    for (std::uint64_t word : data)
      if (status == UCFT_OK ? word != 77 + salt(i) : (rank_ != root && word != 5))
        wrong("iteration {}: broadcast left {:x}", i, word);
    note(static_cast<std::uint64_t>(status));
    if (i % 6 == 5) alltoallv(i, 3, &options);  // to which gossip is nothing
    if (i % 12 == 7) scatter(i, root, 20000, &options);
  }
}

// gossip_and_away DIRECTORY: the root returns from its broadcast and stays outside ucft until all others have the data,
// which they say by a file.
RANKS(gossip_and_away) {
  allreduce(0, 1);
  say_started();
  for (int i = 0; i < 30; ++i) {
    const int root = i % size_;
    const auto file_of = [&](int rank) { return fmt::format("{}/{}.{}", arguments.at(0), i, rank); };
    std::uint64_t data = rank_ == root ? 77 + salt(i) : 5;
    ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
    options.tree = UCFT_TREE_GOSSIP;
    options.correction = i % 2 == 0 ? UCFT_CORRECTION_CHECKED : UCFT_CORRECTION_FAILURE_PROOF;
    check(ucft_broadcast(comm, &data, 1, UCFT_UINT64, root, &options, nullptr), "broadcast");
    if (data != 77 + salt(i)) wrong("iteration {}: broadcast left {:x}", i, data);
    std::ofstream(file_of(rank_)) << data;
    for (int rank = 0; rank_ == root && rank < size_; ++rank)
      while (!std::filesystem::exists(file_of(rank))) std::this_thread::yield();
    note(data);
  }
}

TEST(Gossip, ARootThatHasReturnedAndStaysAwayIsNotWaitedFor) {
  for (const char* transport : {"corrected", "tcp", "two_level"}) {
    char directory[] = "/tmp/ucft_gossip_XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    JobPlan plan{5, gossip_and_away, {directory}, {}, over(transport)};
    expect_right(plan, {}, 0);
    std::filesystem::remove_all(directory);
  }
}

class KillInGossip : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, KillInGossip, testing::Values("corrected", "tcp", "hosts", "two_level"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(KillInGossip, AnyRankAtARandomMoment) {
  std::mt19937 random(seed() + 5);
  for (int run = 0; run < runs(8); ++run) {
    const int ranks = 3 + static_cast<int>(random() % 6);
    const int victim = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    const std::string when = std::to_string(60 + random() % 150) + "ms";
    JobPlan plan{
        ranks, corrected_gossip, {"400"}, {"--kill", std::to_string(victim) + "@start+" + when}, over(GetParam())};
    plan.environment["UCFT_TEST_MAY_DIE_IN_STARTUP"] = "y";
    expect_right(plan, {victim}, run);
  }
}

TEST_P(KillInGossip, AnyTwoRanksBetweenTwoOfTheirSends) {
  std::mt19937 random(seed() + 6);
  for (int run = 0; run < runs(8); ++run) {
    const int ranks = 4 + static_cast<int>(random() % 5);
    const int first = random() % 2 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    const int second = (first + 1 + static_cast<int>(random() % static_cast<unsigned>(ranks - 1))) % ranks;
    JobPlan plan{ranks,
                 corrected_gossip,
                 {"40"},
                 {"--expect-kill", std::to_string(first), "--expect-kill", std::to_string(second)},
                 over(GetParam())};
    plan.environment["UCFT_F"] = "2";
    plan.environment["UCFT_TEST_KILL"] = std::to_string(first) + ":send:" + std::to_string(random() % 200) + "," +
                                         std::to_string(second) + ":send:" + std::to_string(random() % 300);
    if (run % 4 == 3) plan.environment["UCFT_TEST_FAR"] = "y";
    expect_right(plan, {first, second}, run);
  }
}

// rounds: in letters.cpp.
TEST_P(Kill, AnyRankBetweenTwoOfItsMessages) {
  one_or_two_at_sends("rounds", seed() + 9, 30, 60, [](std::mt19937&, const std::string& victims) {
    return std::vector<std::string>{"60", victims};
  });
}

TEST_P(Kill, AnyRankAtARandomMomentOfItsMessages) {
  at_a_moment("rounds", seed() + 10, 20, [](std::mt19937&, const std::string& victim) {
    return std::vector<std::string>{"2000", victim};
  });
}

// quorums: in quorums.cpp.
TEST_P(Kill, AnyRankBetweenTwoLettersOfItsQuorums) {
  one_or_two_at_sends("quorums", seed() + 11, 12, 150, [](std::mt19937& random, const std::string&) {
    return std::vector<std::string>{"60", std::to_string(random() % 1000)};
  });
}

TEST_P(Kill, AnyRankAtARandomMomentOfItsQuorums) {
  at_a_moment("quorums", seed() + 12, 8, [](std::mt19937& random, const std::string&) {
    return std::vector<std::string>{"1500", std::to_string(random() % 1000)};
  });
}

// Only allreduces of one word: the shortest way to many sends.
RANKS(words) {
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) allreduce(i, 1);
}

// Every boundary of the first operations, for the root and for one other rank.
TEST(KillSystematically, EverySendOfTheFirstAllreduces) {
  constexpr int sends = 20;
  const int some = runs(sends);  // or all, or more
  for (int victim : {0, 1, 3})
    for (int i = 0; i < some; ++i) {
      const int send = some < sends ? i * sends / some : i;
      JobPlan plan{4, words, {"12"}, {"--expect-kill", std::to_string(victim)}, {}};
      plan.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(send);
      expect_right(plan, {victim}, send);
    }
}

// A copy's ranks are those that lived when it was made; who is in its sums is still said by the ranks of the job.
void use_copy(ucft_comm_h copy, int iteration) {
  std::uint64_t in = (std::uint64_t{1} << rank_) + salt(iteration), out = 0;
  ucft_result_t result = UCFT_RESULT_INIT;
  check(ucft_allreduce(copy, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce on a copy");
  note(decode(out, result, iteration));
  check(ucft_barrier(copy, nullptr, nullptr), "barrier on a copy");
}

// mixed SEED ITERATIONS: operations of all kinds on communicators that come and go, in an order that the seed decides.
// Each rank stops itself (SIGSTOP) for 20 to 600 ms now and then. Says what it has checked: "COUNTS operations stops".
RANKS(mixed) {
  const auto seed = static_cast<unsigned>(std::stoul(arguments.at(0)));
  std::mt19937 common(seed), mine(seed + 1000003u * static_cast<unsigned>(rank_ + 1));
  std::vector<ucft_comm_h> copies;
  long operations = 0, stops = 0;
  for (int i = 0, end = std::stoi(arguments.at(1)); i < end; ++i) {
    const unsigned choice = common() % 16, root = common() % static_cast<unsigned>(size_), which = common();
    const std::size_t count = common() % 8 == 0 ? 1 + common() % 40000 : 1 + common() % 400;
    ++operations;
    switch (choice) {
      case 0:
      case 1:
      case 2: allreduce(i, count); break;
      case 3:
      case 4: broadcast(i, static_cast<int>(root), count); break;
      case 5:
      case 6: reduce(i, static_cast<int>(root), count); break;
      case 7: several(i), operations += 4; break;
      case 8: check(ucft_barrier(comm, nullptr, nullptr), "barrier"); break;
      case 9:
      case 10:
      case 11:
        if (copies.size() >= 4) break;
        copies.push_back(UCFT_COMM_NULL);
        check(ucft_comm_dup(which % 2 == 0 || copies.size() < 2 ? comm : copies[0], &copies.back()), "dup");
        break;
      case 12:
      case 13:
        if (copies.empty()) break;
        check(ucft_comm_destroy(copies[which % copies.size()]), "destroy");
        copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(which % copies.size()));
        break;
      default:
        if (!copies.empty()) use_copy(copies[which % copies.size()], i), ++operations;
    }
    if (mine() % 200 == 0) stop_for(20 + mine() % 581), ++stops;
  }
  for (ucft_comm_h copy : copies) check(ucft_comm_destroy(copy), "destroy");
  fmt::print("COUNTS {} {}\n", operations, stops);
}

// f, UCFT_WINDOW and communicators that come and go by chance, with stops beside the deaths: "COUNTS operations stops"
// of each rank that lives to the end. Silence is not what is tested here, so patience is long.
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
    JobPlan made = plan(random, ranks, mixed, {std::to_string(random() % 1000000), "250"}, {});
    made.environment["UCFT_F"] = std::to_string(f);
    made.environment["UCFT_WINDOW"] = std::to_string(2 + random() % 15);
    made.environment["UCFT_SUSPECT_AFTER"] = "10s";
    std::string kills;
    std::vector<int> may_be_dead;
    for (int i = 0; i < victims; ++i) {
      const int victim = i == 0 ? first : second;
      kills += (i > 0 ? "," : "") + std::to_string(victim) + ":send:" + std::to_string(random() % 1500);
      made.launcher.insert(made.launcher.end(), {"--expect-kill", std::to_string(victim)});
      may_be_dead.push_back(victim);
    }
    if (victims > 0) made.environment["UCFT_TEST_KILL"] = kills;
    const JobResult result = run_job(made);
    expect_right(made, result, may_be_dead, run);
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

}  // namespace
}  // namespace ucft::detail::test
