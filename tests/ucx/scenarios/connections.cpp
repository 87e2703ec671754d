// What a rank holds for the others: how many connections and mailboxes, and that all who ask are told the same.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"
#include "timeout_detector/lifeline_plan.hpp"
#include "ucx_layer/transport/connection_plan.hpp"

namespace ucft::detail::test {
namespace {

ucft_context_paths_t paths_now() {
  ucft_context_paths_t found = UCFT_CONTEXT_PATHS_INIT;
  check(ucft_context_paths(context, &found), "paths");
  return found;
}

// Connections, and bytes of mailboxes: by ucft_context_paths and by ucft_info --job.
RANKS(holds) {
  allreduce(0, 1);
  const ucft_context_paths_t found = paths_now();
  const std::string text = fmt::format("{} {}", found.connections, found.mailbox_bytes);
  if (text != fmt::format("{} {}", arguments.at(0), arguments.at(1))) wrong("connections and bytes: {}", text);
  if (rank_ == 0)
    for (const auto& [rank, seen] : job_report())
      if (seen["connections"] != found.connections || seen["mailbox_bytes"] != found.mailbox_bytes ||
          seen["mailboxes"] != size_ - 1 || seen["lifelines"] != std::stoi(arguments.at(2)))
        wrong("rank {}: {}", rank, seen.dump());
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");
}

// A mailbox is 64 lines of 64 bytes if all ranks read each other's memory, else 256, with 320 bytes to say what has
// been read.
TEST(Connections, AreCountedAndSoAreMailboxes) {
  for (const auto& [transport, held] : std::map<std::string, std::vector<std::string>>{
           {"shm", {"0", std::to_string(3 * (64 * 64 + 320)), "0"}},
           {"corrected", {"0", std::to_string(3 * (256 * 64 + 320)), "0"}},
           {"tcp", {"3", std::to_string(3 * (256 * 64 + 320)), "0"}},
           {"two_level", {"2", std::to_string(3 * (256 * 64 + 320)), "2"}}}) {
    JobPlan made{4, holds, held, {}, over(transport)};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << transport;
    made.environment["UCFT_STATS"] = "json";
    const std::string stats = fmt::format("\"connections\":{},\"lifelines\":{},", held[0], held[2]);
    const std::string output = run_job(made).output;
    std::size_t ranks = 0;
    for (auto at = output.find(stats); at != output.npos; at = output.find(stats, at + 1)) ++ranks;
    EXPECT_EQ(ranks, 4u) << output;
  }
}

// A line of JSON for bench/studies/start_up: when the rank was in the job (CLOCK_MONOTONIC), and what it holds after
// some operations.
RANKS(held) {
  const auto began = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  for (int i = 0; i < 3; ++i) check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  const ucft_context_paths_t found = paths_now();
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::int64_t kilobytes = 0;
  for (std::string line; std::getline(rollup, line);)
    if (line.starts_with("Pss:")) kilobytes = std::stol(line.substr(4));
  fmt::print("{{\"rank\":{},\"began\":{:.6f},\"pss_kb\":{},\"connections\":{},\"mailbox_bytes\":{}}}\n", rank_, began,
             kilobytes, found.connections, found.mailbox_bytes);
  std::fflush(stdout);
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");
}

// ---- few of many ----------------------------------------------------------------------------------------------------

std::int32_t connections() { return paths_now().connections; }
std::uint64_t mailbox_bytes() { return paths_now().mailbox_bytes; }

// By the formula that connection_plan_test applies to 10^5 ranks: three ranks a host, f = 1.
std::uint64_t bytes_by_plan() {
  std::vector<std::uint64_t> hosts;
  for (int rank = 0; rank < size_; ++rank) hosts.push_back(static_cast<std::uint64_t>(rank / 3));
  const auto mailboxes = static_cast<int>(ConnectionPlan(hosts, rank_, 1, 40).mailboxes_of(rank_).size());
  return FirstSegment(mailboxes, mailbox_lines).bytes() - FirstSegment(0, mailbox_lines).bytes();
}

// few HOSTS CONNECTIONS: three ranks a host. Who speaks for one, and the next, has so many connections, the third has
// none; then the third ones of all hosts need some.
RANKS(few) {
  const int planned = std::stoi(arguments.at(1));
  for (int i = 0; i < 4; ++i) {
    allreduce(i, 1);
    reduce(i, 3 * i, 2);
    allgather(i, 1);
    check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  }
  allreduce(4, 40000);  // long
  if (connections() != (rank_ % 3 < 2 ? planned : 0)) wrong("{} connections", connections());
  if (rank_ == 0) {
    std::vector<std::uint64_t> hosts;
    for (int rank = 0; rank < size_; ++rank) hosts.push_back(static_cast<std::uint64_t>(rank / 3));
    const auto plan = lifeline_plan(hosts, 2, 32);
    for (const auto& [rank, seen] : job_report())
      if (seen["lifelines"] != lifelines_of(plan, rank).size()) wrong("rank {}: {}", rank, seen.dump());
  }
  if (mailbox_bytes() != bytes_by_plan()) wrong("{} bytes of mailboxes, {} by plan", mailbox_bytes(), bytes_by_plan());
  ucft_comm_h part = UCFT_COMM_NULL;
  check(ucft_comm_split(comm, rank_ % 3, 0, &part), "split");
  std::uint64_t in = 1, out = 0;
  for (int i = 0; i < 3; ++i)
    check(ucft_allreduce(part, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "allreduce");
  if (out != static_cast<std::uint64_t>(std::stoi(arguments.at(0)))) wrong("sum {}", out);
  if (connections() == 0) wrong("no connections");
  check(ucft_comm_destroy(part), "destroy");
}

// +-1, +-2, +-4 and 8 of 16 hosts, and two ranks of each.
TEST(Connections, AreFewWhereThereAreManyRanks) {
  JobPlan made{48, few, {"16", "14"}, {}, over("two_level")};
  made.environment["UCFT_TEST_RANKS_PER_HOST"] = "3";
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// Who speaks for a host and its deputy: the third one has no connection until then. By seed, as the kill tests.
TEST(Connections, WhoeverSpeaksMayDieWhereFewAreConnected) {
  std::mt19937 random(20261125u);
  for (int run = 0; run < 10; ++run) {
    const int first = 3 * static_cast<int>(random() % 8);
    JobPlan made{24, "loop", {"12", "500"}, {}, over("two_level")};
    for (const int victim : {first, first + 1}) {
      made.launcher.insert(made.launcher.end(), {"--expect-kill", std::to_string(victim)});
      made.environment["UCFT_TEST_KILL"] += fmt::format("{}:send:{},", victim, random() % 150);
    }
    made.environment["UCFT_TEST_KILL"].pop_back();
    made.environment["UCFT_TEST_RANKS_PER_HOST"] = "3";
    made.environment["UCFT_CONNECT_ALL"] = "0";
    made.environment["UCFT_F"] = "2";
    EXPECT_EQ(what_is_wrong(made, run_job(made), {first, first + 1}), "") << made.environment["UCFT_TEST_KILL"];
  }
}

// thirds ITERATIONS: the third ranks of all hosts, which have no connections yet, in a communicator of their own.
RANKS(thirds) {
  ucft_comm_h part = UCFT_COMM_NULL;
  check(ucft_comm_split(comm, rank_ % 3, 0, &part), "split");
  std::int32_t members = 0, me = 0;
  check(ucft_comm_size(part, &members), "size");
  check(ucft_comm_rank(part, &me), "rank");
  for (int i = 0; i < std::stoi(arguments.at(0)) && rank_ % 3 == 2; ++i) {
    std::vector<std::uint64_t> in(i % 4 == 3 ? 60000 : 1, std::uint64_t{1} << me), out(in.size());
    ucft_result_t result = UCFT_RESULT_INIT;
    check(ucft_allreduce(part, in.data(), out.data(), in.size(), UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce");
    if (std::popcount(out[0]) != static_cast<int>(result.contributors)) wrong("{} contributors", result.contributors);
    for (const std::uint64_t each : out)
      if (each != out[0]) wrong("iteration {}: {} and {}", i, each, out[0]);
    std::uint64_t least = 0, most = 0;
    check(ucft_allreduce(part, out.data(), &least, 1, UCFT_UINT64, UCFT_MIN, nullptr, nullptr), "allreduce");
    check(ucft_allreduce(part, out.data(), &most, 1, UCFT_UINT64, UCFT_MAX, nullptr, nullptr), "allreduce");
    if (least != most) wrong("iteration {}: {} and {}", i, least, most);
  }
  check(ucft_comm_destroy(part), "destroy");
  allreduce(0, 1);
}

// Connections are made on demand, from both ends at once, while a rank at one of the ends dies.
TEST(Connections, WhoeverIsBeingConnectedMayDie) {
  std::mt19937 random(20261126u);
  for (int run = 0; run < 10; ++run) {
    const int victim = 3 * static_cast<int>(random() % 8) + 2;
    JobPlan made{24, thirds, {"8"}, {"--expect-kill", std::to_string(victim)}, over("two_level")};
    made.environment["UCFT_TEST_KILL"] = fmt::format("{}:send:{}", victim, random() % 40);
    made.environment["UCFT_TEST_RANKS_PER_HOST"] = "3";
    made.environment["UCFT_CONNECT_ALL"] = "0";
    EXPECT_EQ(what_is_wrong(made, run_job(made), {victim}), "") << made.environment["UCFT_TEST_KILL"];
  }
}

}  // namespace
}  // namespace ucft::detail::test
