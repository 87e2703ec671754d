// What a rank holds for the others: how many connections and mailboxes, and that all who ask are told the same.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

// Connections, and bytes of mailboxes: by ucft_context_paths and by ucft_info --job.
RANKS(holds) {
  allreduce(0, 1);
  ucft_context_paths_t found = UCFT_CONTEXT_PATHS_INIT;
  check(ucft_context_paths(context, &found), "paths");
  const std::string text = fmt::format("{} {}", found.connections, found.mailbox_bytes);
  if (text != fmt::format("{} {}", arguments.at(0), arguments.at(1))) wrong("connections and bytes: {}", text);
  if (rank_ == 0)  // one asks: a child of a rank that is about to be another program still looks like the rank
    for (const auto& [rank, seen] : job_report())
      if (seen["connections"] != found.connections || seen["mailbox_bytes"] != found.mailbox_bytes ||
          seen["mailboxes"] != found.shared_memory || seen["lifelines"] != std::stoi(arguments.at(2)))
        wrong("rank {}: {}", rank, seen.dump());
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");
}

// A mailbox is 64 lines of 64 bytes if all ranks read each other's memory, else 256, with 320 bytes to say what has been read.
TEST(Connections, AreCountedAndSoAreMailboxes) {
  for (const auto& [transport, held] :
       std::map<std::string, std::vector<std::string>>{{"shm", {"0", std::to_string(3 * (64 * 64 + 320)), "0"}},
                                                       {"corrected", {"0", std::to_string(3 * (256 * 64 + 320)), "0"}},
                                                       {"tcp", {"3", "0", "0"}},
                                                       {"two_level", {"2", std::to_string(256 * 64 + 320), "2"}}}) {
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

}  // namespace
}  // namespace ucft::detail::test
