// Ranks whose hosts take part as processes (two levels): three on a host. In most jobs their numbers don't follow their
// hosts. Deaths are at places that are named. (At random moments: kills.cpp.)
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

constexpr int on_a_host = 3;

// From here on the ranks are those of a communicator in which hosts take turns.
//   6 ranks of the job on 2 hosts   0 1 2 | 3 4 5
//   in the communicator             1 3 5 | 0 2 4
void take_turns() {
  ucft_comm_h turned = UCFT_COMM_NULL;
  check(ucft_comm_split(comm, 0, rank_ % on_a_host * size_ - rank_, &turned), "split");
  comm = turned;
  check(ucft_comm_rank(comm, &rank_), "rank");
}

JobPlan on_hosts(int ranks, const std::string& scenario, std::vector<std::string> arguments = {}) {
  JobPlan made{ranks, scenario, std::move(arguments), {}, over("two_level")};
  made.environment["UCFT_TEST_RANKS_PER_HOST"] = std::to_string(on_a_host);
  return made;
}

// The victim dies at that place (UCFT_TEST_KILL), and the others agree.
void expect_to_survive(JobPlan made, int victim, const std::string& place) {
  made.launcher = {"--expect-kill", std::to_string(victim)};
  made.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":" + place;
  const JobResult result = run_job(made);
  EXPECT_EQ(what_is_wrong(made, result, {victim}), "");
  EXPECT_EQ(result.verdicts.count(victim), 0U) << "it has lived";
}

// in_turns ITERATIONS: every operation, short and long.
RANKS(in_turns) {
  take_turns();
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) {
    allreduce(i, i % 2 == 0 ? 1 : 700);
    broadcast(i, i % size_, i % 2 == 0 ? 400 : 3);
    reduce(i, (i + 1) % size_, 2);
    allgather(i, 3 + static_cast<std::size_t>(i) * 30);
    alltoall(i, i % 3 == 0 ? 2 : 2000);
    alltoallv(i, i % 4 == 0 ? 2 : 2000);
  }
}

TEST(TwoLevels, RanksThatAreInTurnsOnTheirHostsAgree) {
  const JobPlan made = on_hosts(6, in_turns, {"12"});
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// late_readers DIRECTORY: the last rank of each host sees what all there give, and stays outside ucft. Meanwhile the
// others are through with that, and give something else from the same memory, which they say by a file. It takes the
// first all the same.
RANKS(late_readers) {
  constexpr std::size_t words = 250;  // of a share: what a host gives is no long value (ProcessReplica::usually_long)
  const auto ranks = static_cast<std::size_t>(size_), me = static_cast<std::size_t>(rank_);
  const bool is_late = rank_ % on_a_host == on_a_host - 1;
  const std::vector<std::uint64_t> counts(ranks, words);
  for (int round = 0; round < 3; ++round) {
    const auto file_of = [&](int rank, int request) {
      return fmt::format("{}/{}.{}.{}", arguments.at(0), round, rank, request);
    };
    const auto say_posted = [&](int which) { std::ofstream(file_of(rank_, which)) << which; };
    const auto wait_for_others = [&](int which) {
      for (int rank = rank_ - on_a_host + 1; rank < rank_; ++rank)
        while (!std::filesystem::exists(file_of(rank, which))) std::this_thread::yield();
    };
    std::vector<std::uint64_t> in[2], out[2];
    ucft_request_h request[2];
    for (std::size_t i : {0u, 1u}) {
      in[i].resize(ranks * words);
      out[i].resize(ranks * words);
      for (std::size_t k = 0; k < in[i].size(); ++k) in[i][k] = (me * 100 + k / words) * 10 + i;
      check(ucft_alltoallv_init(comm, in[i].data(), counts.data(), nullptr, out[i].data(), counts.data(), nullptr,
                                UCFT_UINT64, nullptr, &request[i]),
            "init");
    }
    if (is_late) wait_for_others(0);
    check(ucft_post(request[0]), "post");
    if (is_late) {
      wait_for_others(1);
      check(ucft_post(request[1]), "post");
      check(ucft_wait(request[0], UINT64_MAX), "wait");
    } else {
      say_posted(0);
      check(ucft_wait(request[0], UINT64_MAX), "wait");
      check(ucft_post(request[1]), "post");
      say_posted(1);
    }
    check(ucft_wait(request[1], UINT64_MAX), "wait");
    for (std::size_t i : {0u, 1u}) {
      for (std::size_t k = 0; k < out[i].size(); ++k)
        if (out[i][k] != (k / words * 100 + me) * 10 + i)
          wrong("round {}: word {} of {} is {}", round, k, i, out[i][k]);
      ucft_request_free(request[i]);
    }
  }
}

TEST(TwoLevels, ARankThatIsLateTakesTheStreamsOfItsOwnOperation) {
  char directory[] = "/tmp/ucft_hosts_XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const JobPlan made = on_hosts(9, late_readers, {directory});
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
  std::filesystem::remove_all(directory);
}

// Rank 0 speaks for host 0, rank 3 for host 1.
class DeathInTurns : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(DeathInTurns, TheOthersAgree) {
  const auto [victim, send] = GetParam();
  JobPlan made = on_hosts(6, in_turns, {"6"});
  made.launcher = {"--expect-kill", std::to_string(victim)};
  made.environment["UCFT_TEST_KILL"] = std::to_string(victim) + ":send:" + std::to_string(send);
  EXPECT_EQ(what_is_wrong(made, run_job(made), {victim}), "");
}

std::string rank_and_send(const testing::TestParamInfo<std::tuple<int, int>>& each) {
  return "Rank" + std::to_string(std::get<0>(each.param)) + "BeforeSend" + std::to_string(std::get<1>(each.param));
}

INSTANTIATE_TEST_SUITE_P(OfASpeaker, DeathInTurns,
                         testing::Combine(testing::Values(0, 3), testing::Values(14, 22, 27, 33, 38, 47, 61, 80)),
                         rank_and_send);
INSTANTIATE_TEST_SUITE_P(OfAnother, DeathInTurns,
                         testing::Combine(testing::Values(1, 5), testing::Values(14, 27, 36, 47, 80)), rank_and_send);

// The payload of an entry is written, and the entry is not.
RANKS(long_entries) {
  for (int i = 0; i < 6; ++i) {
    allreduce(i, 700);
    broadcast(i, size_ - 1, 400);
  }
}

TEST(TwoLevels, TheSpeakerDiesBetweenThePayloadAndItsEntry) {
  expect_to_survive(on_hosts(6, long_entries), 0, "entry:3");
  expect_to_survive(on_hosts(6, long_entries), 3, "entry:0");
}

// Sums that hosts exchange in blocks, in flight at different places. A replica names them, and the names are of memory
// of others, which is used again.
RANKS(sums_in_blocks) {
  std::deque<PostedSum> flying;
  const int host_dies_at = arguments.empty() ? -1 : std::stoi(arguments.at(0));  // the second one
  for (int i = 0; i < 32; ++i) {
    if (i == host_dies_at && rank_ / on_a_host == 1) std::raise(SIGKILL);
    flying.push_back(post_sum(i, 33000 + static_cast<std::size_t>(i % 8) * 700));
    for (; flying.size() > 4; flying.pop_front()) finish(flying.front());
  }
  for (; !flying.empty(); flying.pop_front()) finish(flying.front());
}

class DeathInBlocks : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(DeathInBlocks, TheOthersAgree) {
  const auto& [victim, place] = GetParam();
  expect_to_survive(on_hosts(6, sums_in_blocks), victim, place);
}

std::string rank_and_place(const testing::TestParamInfo<std::tuple<int, std::string>>& each) {
  std::string place = std::get<1>(each.param);
  std::ranges::replace(place, ':', '_');
  return "Rank" + std::to_string(std::get<0>(each.param)) + "_" + place;
}

INSTANTIATE_TEST_SUITE_P(OfASpeaker, DeathInBlocks,
                         testing::Combine(testing::Values(0, 3),
                                          testing::Values("entry:0", "entry:7", "entry:20", "entry:61", "entry:90",
                                                          "send:60", "send:200", "send:333", "send:500")),
                         rank_and_place);
INSTANTIATE_TEST_SUITE_P(OfAnother, DeathInBlocks,
                         testing::Combine(testing::Values(1, 5), testing::Values("send:60", "send:170", "send:230")),
                         rank_and_place);

// Sums that were in flight when a host died are kept, for others that may ask for them. Then a speaker dies, too.
TEST(TwoLevels, ASpeakerDiesAfterAHostInBlocks) {
  for (int send : {260, 300, 340, 380, 420, 500}) {
    JobPlan made = on_hosts(9, sums_in_blocks, {"12"});
    made.launcher = {"--expect-kill", "0", "--expect-kill", "3", "--expect-kill", "4", "--expect-kill", "5"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    const JobResult result = run_job(made);
    EXPECT_EQ(what_is_wrong(made, result, {0, 3, 4, 5}), "") << send;
    EXPECT_EQ(result.verdicts.count(0), 0U) << "it has lived: " << send;
  }
}

// Broadcasts that go in pieces between three hosts. A root is through long before the others, so several are in flight,
// and their memory is used again.
RANKS(broadcasts_in_pieces) {
  for (int i = 0; i < 24; ++i) {
    broadcast(i, (1 + i * 4) % size_, 33000 + static_cast<std::size_t>(i % 8) * 700);
    if (i % 6 == 5) allreduce(i, 700);
  }
}

TEST(TwoLevels, LongBroadcastsHaveTheRootsData) {
  for (const int ranks : {6, 9}) {
    const JobPlan made = on_hosts(ranks, broadcasts_in_pieces);
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << ranks;
  }
}

class DeathInPieces : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(DeathInPieces, TheOthersAgree) {
  const auto& [victim, place] = GetParam();
  expect_to_survive(on_hosts(9, broadcasts_in_pieces), victim, place);
}

INSTANTIATE_TEST_SUITE_P(OfASpeaker, DeathInPieces,
                         testing::Combine(testing::Values(0, 3),
                                          testing::Values("entry:0", "entry:7", "entry:20", "entry:61", "send:60",
                                                          "send:120", "send:200")),
                         rank_and_place);
INSTANTIATE_TEST_SUITE_P(OfAnother, DeathInPieces,
                         testing::Combine(testing::Values(1, 5), testing::Values("send:30", "send:60")),
                         rank_and_place);

// A host dies as a whole before its part in a broadcast: the others go on with the tree.
RANKS(lose_a_host_in_pieces) {
  for (int i = 0; i < 10; ++i) {
    if (i == 3 && rank_ / on_a_host == 1) std::raise(SIGKILL);
    broadcast(i, i % size_, 33000 + static_cast<std::size_t>(i % 8) * 700);
  }
}

TEST(TwoLevels, AHostDiesBeforeALongBroadcast) {
  JobPlan made = on_hosts(9, lose_a_host_in_pieces);
  made.launcher = {"--expect-kill", "3", "--expect-kill", "4", "--expect-kill", "5"};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {3, 4, 5}), "");
}

// Allgathers whose blocks go in pieces between three hosts: of a rank no words, so many, or twice as many.
RANKS(allgathers_in_pieces) {
  for (int i = 0; i < 16; ++i) {
    allgather(i, 6000 + static_cast<std::size_t>(i % 5) * 701);
    if (i % 6 == 5) allreduce(i, 700);
    if (i % 8 == 6) broadcast(i, i % size_, 33000);
  }
}

TEST(TwoLevels, LongAllgathersHaveAllBlocks) {
  for (const int ranks : {6, 9}) {
    const JobPlan made = on_hosts(ranks, allgathers_in_pieces);
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << ranks;
  }
}

class DeathInAllgathers : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(DeathInAllgathers, TheOthersAgree) {
  const auto& [victim, place] = GetParam();
  expect_to_survive(on_hosts(9, allgathers_in_pieces), victim, place);
}

INSTANTIATE_TEST_SUITE_P(OfASpeaker, DeathInAllgathers,
                         testing::Combine(testing::Values(0, 3),
                                          testing::Values("entry:0", "entry:7", "entry:33", "entry:90", "send:60",
                                                          "send:140", "send:230")),
                         rank_and_place);
INSTANTIATE_TEST_SUITE_P(OfAnother, DeathInAllgathers,
                         testing::Combine(testing::Values(1, 5), testing::Values("send:20", "send:40")),
                         rank_and_place);

// A host dies as a whole, and is in each allgather or in none.
RANKS(lose_a_host_in_allgathers) {
  for (int i = 0; i < 10; ++i) {
    if (i == 3 && rank_ / on_a_host == 1) std::raise(SIGKILL);
    allgather(i, 6000 + static_cast<std::size_t>(i % 5) * 701);
  }
}

TEST(TwoLevels, AHostDiesBeforeALongAllgather) {
  JobPlan made = on_hosts(9, lose_a_host_in_allgathers);
  made.launcher = {"--expect-kill", "3", "--expect-kill", "4", "--expect-kill", "5"};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {3, 4, 5}), "");
}

// The middle one of three hosts dies: ranks 3, 4 and 5 of the job. The others name them.
RANKS(lose_a_host) {
  const bool dies = rank_ / on_a_host == 1;
  take_turns();
  for (int i = 0; i < 10; ++i) {
    const int missing = allreduce(i, 1);
    if (i == 4 && dies) std::raise(SIGKILL);
    if (i > 4 && missing != on_a_host) wrong("{} ranks are missing", missing);
    allgather(i, 3);
  }
}

TEST(TwoLevels, TheRanksOfADeadHostAreNamed) {
  JobPlan made = on_hosts(9, lose_a_host);
  made.launcher = {"--expect-kill", "3", "--expect-kill", "4", "--expect-kill", "5"};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {3, 4, 5}), "");
}

// The ranks of host 1 leave a communicator one after the other, and not the job. Host 0 goes on in it, with what those
// gave that had not left.
RANKS(host_leaves) {
  const ucft_comm_h whole = comm;
  const int place = rank_ % on_a_host;
  const bool leaves = rank_ / on_a_host == 1;
  take_turns();
  for (int i = 0; i < (leaves ? 2 + place : 9); ++i) {
    const std::uint64_t mine = (std::uint64_t{1} << rank_) + salt(i);
    std::uint64_t sum = 0;
    ucft_result_t result = UCFT_RESULT_INIT;
    check(ucft_allreduce(comm, &mine, &sum, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce");
    decode(sum, result, i);
    if (result.missing_count != std::clamp(i - 1, 0, on_a_host))
      wrong("operation {}: {} ranks are missing", i, result.missing_count);
  }
  check(ucft_comm_destroy(comm), "destroy");
  check(ucft_barrier(whole, nullptr, nullptr), "barrier");
}

TEST(TwoLevels, AHostLeavesRankByRank) {
  JobPlan made = on_hosts(6, host_leaves);
  made.environment["UCFT_F"] = "0";
  made.environment["UCFT_LOG"] = "y";  // a failure would be said on stderr
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// Host 0 names rank 0 as the root of a reduce, and host 1 names rank 1, which is on host 0, too. Between hosts that
// looks the same.
RANKS(two_roots) {
  allreduce(0, 1);
  reduce_with_other_roots(rank_ / on_a_host);
}

TEST(TwoLevels, AReduceToTwoRanksOfAHostIsAMismatch) {
  const JobPlan made = on_hosts(6, two_roots);
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

void expect_right_in_windows(const std::string& scenario) {
  for (const char* window : {"2", "4", "8"}) {
    JobPlan made = on_hosts(6, scenario);
    made.environment["UCFT_WINDOW"] = window;
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << window;
  }
}

// Ranks of one host differ. After half a window of rooted operations in a row hosts meet in a barrier of their own, so
// all must have counted the same ones.
RANKS(mistakes_at_roots) {
  std::uint64_t in[9] = {}, out[9] = {};
  for (const std::int32_t root : {0, 4, 0, 4, 0, 4}) {
    const std::uint64_t count = rank_ == 1 ? 9 : 8;
    const ucft_status_t reduced = ucft_reduce(comm, in, out, count, UCFT_UINT64, UCFT_SUM, root, nullptr, nullptr);
    if (rank_ == root || rank_ == 1) expect(reduced, UCFT_ERR_MISMATCH, "reduce");
    const ucft_status_t sent = ucft_broadcast(comm, out, count, UCFT_UINT64, root, nullptr, nullptr);
    if (rank_ < on_a_host) expect(sent, UCFT_ERR_MISMATCH, "broadcast");  // the others may be through before
  }
  for (int i = 0; i < 10; ++i) allreduce(i, 1);
}

TEST(TwoLevels, AfterAMistakeAtARootCallsAreRight) { expect_right_in_windows(mistakes_at_roots); }

// One rank calls something else: its host takes part as the others do. It is the speaker, and then another one.
RANKS(mistakes_of_another_kind) {
  std::uint64_t in[8] = {}, out[8] = {};
  for (const std::int32_t mistaken : {0, 1, 3}) {
    if (rank_ == mistaken)
      expect(ucft_reduce(comm, in, out, 8, UCFT_UINT64, UCFT_SUM, 2, nullptr, nullptr), UCFT_ERR_MISMATCH, "reduce");
    else
      expect(ucft_allreduce(comm, in, out, 8, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), UCFT_ERR_MISMATCH, "allreduce");
    for (int i = 0; i < 10; ++i) allreduce(i, 1);
  }
}

TEST(TwoLevels, AfterAMistakeOfAnotherKindCallsAreRight) { expect_right_in_windows(mistakes_of_another_kind); }

}  // namespace
}  // namespace ucft::detail::test
