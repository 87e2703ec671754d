// Who is late, and what it does instead: told by the time limit of a wait, by ucft_comm_look, also on a watchdog's
// thread, and by ucft_info --job.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

std::int64_t clock_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

struct Sight : ucft_rank_sight_t {
  std::vector<std::int32_t> awaited;
  std::string words;
};

std::vector<Sight> look(ucft_comm_h at) {
  constexpr std::int32_t most = 8;
  ucft_rank_sight_t sights[most];
  std::int32_t awaited[most][most];
  char texts[most][500];
  for (std::size_t rank = 0; rank < most; ++rank) {
    sights[rank] = UCFT_RANK_SIGHT_INIT;
    sights[rank].waits_for = awaited[rank];
    sights[rank].waits_for_capacity = most;
    sights[rank].text = texts[rank];
    sights[rank].text_bytes = sizeof texts[rank];
  }
  std::int32_t count = most;
  check(ucft_comm_look(at, sights, &count), "look");
  std::vector<Sight> found;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(count); ++rank)
    found.push_back({sights[rank], {awaited[rank], awaited[rank] + sights[rank].waits_for_count}, texts[rank]});
  return found;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::int64_t> exchange_pids() {
  std::vector<std::int64_t> pids(static_cast<std::size_t>(size_));
  const std::int64_t pid = getpid();
  check(ucft_allgather(comm, &pid, pids.data(), 1, UCFT_INT64, nullptr, nullptr), "allgather");
  return pids;
}

std::atomic<bool> may_go_on = false;
void go_on_when_told() {
  std::signal(SIGUSR1, [](int) { may_go_on = true; });
}

double seconds_of(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

ucft_request_h sum_of_one(ucft_comm_h on, const std::uint64_t& in, std::uint64_t& out) {
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  ucft_request_h request = UCFT_REQUEST_NULL;
  check(ucft_allreduce_init(on, &in, &out, 1, UCFT_UINT64, &sum, nullptr, &request), "init");
  return request;
}

// ---- late ranks -----------------------------------------------------------------------------------------------------

// Of the sentence of a wait: what it says of that rank.
std::string about(int rank, const std::string& said) {
  const auto begin = said.find(fmt::format("rank {} (", rank));
  return begin == std::string::npos ? "" : said.substr(begin, said.find("; and for ", begin) - begin);
}

// What rank 0 can see of a late rank. Ranks of one "host" share memory, but for all of them over tcp, where /proc is
// all there is.
bool is_late_one(int rank, const std::string& words, const std::string& transport) {
  const std::string does =
      rank == 1 ? "computes (runs, or waits for a processor), last heard " : "stopped, last heard ";
  const std::string unknown = "unknown (its memory can't be read from here), last heard ";
  if (transport == "tcp") return has(words, rank == 1 ? unknown : does) && has(words, "; 1 posted at least");
  if (transport == "hosts" && rank == 2) return has(words, unknown) && has(words, " posted at least");
  if (transport == "two_level" && rank == 2)  // nothing is wanted of another host before this one has given
    return words.empty() || (has(words, unknown) && has(words, "what it has posted is not known"));
  return has(words, does) && has(words, " s ago; 1 posted, 1 finished, the last: allgather (int64, 8 bytes) ") &&
         words.ends_with(" s ago");
}

bool sights_are_right(const std::vector<Sight>& seen, std::int64_t begin_ns, const std::string& transport) {
  const Sight &me = seen[0], &computes = seen[1], &stopped = seen[2];
  if (seen.size() != 4 || me.state != UCFT_RANK_IN_OPERATION || me.last != UCFT_COLLECTIVE_ALLREDUCE ||
      me.posted != 2 || me.finished != 1 ||
      me.awaited != (transport == "two_level" ? std::vector{1} : std::vector{1, 2}))
    return false;
  for (const Sight& each : seen)
    if (each.heard_at_ns <= (&each == &stopped || spans_hosts(transport) ? 0 : begin_ns) ||
        each.heard_at_ns > clock_ns())
      return false;
  for (int rank : {1, 2})
    if (!is_late_one(rank, seen[static_cast<std::size_t>(rank)].words, transport)) return false;
  if (transport == "tcp") return computes.state == UCFT_RANK_UNKNOWN && stopped.state == UCFT_RANK_STOPPED;
  if (computes.state != UCFT_RANK_COMPUTING || computes.posted != 1 || computes.finished != 1 ||
      computes.last != UCFT_COLLECTIVE_ALLGATHER || computes.posted_at_ns == 0 ||
      computes.posted_at_ns >= me.posted_at_ns || !computes.awaited.empty())
    return false;
  if (spans_hosts(transport)) return stopped.state == UCFT_RANK_UNKNOWN && stopped.finished == -1;
  return stopped.state == UCFT_RANK_STOPPED && seen[3].state == UCFT_RANK_IN_OPERATION && seen[3].posted == 2 &&
         seen[3].awaited == std::vector{1, 2};
}

// From outside all is there to read, whatever ranks may map.
bool report_is_right(std::map<int, nlohmann::json> ranks) {
  bool waits = false;
  for (const auto& each : ranks[0]["communicators"])
    waits = waits || (each["posted"] == 2 && each["finished"] == 1 && each["waits_for"] == nlohmann::json{1, 2});
  return waits && ranks[0]["does"] == "in an operation" && ranks[1]["does"] == "computes" &&
         ranks[2]["does"] == "stopped";
}

// For people: found by the launcher's pid, too, and no wider than a terminal.
bool are_tables_right(const std::vector<std::int64_t>& pids) {
  const auto table_for = [](int pid) {
    std::string text;
    std::FILE* const pipe = popen(fmt::format("{} --job {}", UCFT_INFO, pid).c_str(), "r");
    for (int byte; (byte = std::fgetc(pipe)) != EOF;) text += static_cast<char>(byte);
    pclose(pipe);
    return text;
  };
  for (const int pid : {getpid(), getppid()}) {
    std::istringstream lines(table_for(pid));
    std::map<int, std::string> rows;
    for (std::string line; std::getline(lines, line);) {
      if (line.size() > 80 && std::isdigit(line[4]) != 0) wrong("{} columns: {}", line.size(), line);
      int rank = -1;
      long of = 0;
      if (std::sscanf(line.c_str(), "%d %ld", &rank, &of) == 2 && of == pids.at(static_cast<std::size_t>(rank)))
        rows[rank] = line;
    }
    if (rows.size() != 4 || !has(rows[0], " waits ") || !has(rows[0], "allreduce sum uint64 8 B") ||
        !has(rows[1], " computes ") || !has(rows[2], " stopped "))
      return false;
  }
  return true;
}

// Waits until no rank owes another a message of the allgather, and this rank's heartbeat has passed since: the time of
// a post is off by a heartbeat, which is long where the detector's thread gets no processor.
void wait_for_all_and_for_a_heartbeat() {
  const double since = seconds_of(clock_ns());
  for (bool is_over = false; !is_over;) {
    const double before = seconds_of(clock_ns());
    auto ranks = job_report();
    is_over = ranks.size() == static_cast<std::size_t>(size_) && before - ranks[0]["heard_s"].get<double>() > since;
    for (const auto& [rank, line] : ranks)
      for (const auto& each : line["communicators"]) is_over = is_over && each["finished"] >= 1;
  }
}

// Ranks 1 and 2 of four are late: one computes, the other has stopped itself. Rank 0 lets them go on when all that it
// can ask have said so.
RANKS(latecomers) {
  const std::string transport = arguments.at(0);
  go_on_when_told();
  const std::int64_t begin_ns = clock_ns();
  const std::vector<std::int64_t> pids = exchange_pids();
  const std::uint64_t in = 1;
  std::uint64_t out = 0;
  const ucft_request_h request = sum_of_one(comm, in, out);
  while (rank_ == 1 && !may_go_on) {}
  while (rank_ == 2 && !may_go_on) {}
  if (rank_ == 2) std::raise(SIGSTOP);
  if (rank_ == 0) {
    wait_for_all_and_for_a_heartbeat();
    kill(static_cast<pid_t>(pids[2]), SIGUSR1);
  }
  check(ucft_post(request), "post");
  if (rank_ != 0) {
    check(ucft_wait(request, UINT64_MAX), "wait");
  } else {
    std::atomic<bool> is_seen = false;  // by a watchdog, while this thread is inside
    std::thread watchdog([&] {
      while (!is_seen) is_seen = sights_are_right(look(comm), begin_ns, transport);
    });
    std::string said;
    do {  // rank 3 may not have posted yet, nor rank 2 stopped
      expect(ucft_wait(request, 20000), UCFT_ERR_TIMED_OUT, "wait");
      said = ucft_last_error();
      if (said.find("operation 1 is still in progress after 20000 us: it waits for rank 1 (") != 0) continue;
    } while (!about(0, said).empty() || !about(3, said).empty() || !is_late_one(1, about(1, said), transport) ||
             !is_late_one(2, about(2, said), transport) || !is_seen || !report_is_right(job_report()) ||
             !are_tables_right(pids));
    watchdog.join();
    kill(static_cast<pid_t>(pids[1]), SIGUSR1);
    while (out == 0 && ucft_wait(request, 20000) == UCFT_ERR_TIMED_OUT) kill(static_cast<pid_t>(pids[2]), SIGCONT);
  }
  if (out != static_cast<std::uint64_t>(size_)) wrong("sum {}", out);
  check(ucft_request_free(request), "free");
}

TEST_P(Scenario, WhoIsLateIsNamed) {
  JobPlan made = plan(4, latecomers, {GetParam()});
  made.environment["UCFT_SUSPECT_AFTER"] = "100s";  // rank 2 lives
  expect_right(made);
}

// Each rank has a child that holds the rank's descriptors, its own file among them, as do a peer in its start-up and
// another `ucft_info --job`.
RANKS(looked_at) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  const std::vector<std::int64_t> pids = exchange_pids();
  if (rank_ == 0) {
    const auto seen = job_report();
    if (seen.size() != pids.size()) wrong("{} ranks", seen.size());
    for (const auto& [rank, line] : seen)
      if (line["pid"] != pids[static_cast<std::size_t>(rank)]) wrong("rank {}: {}", rank, line.dump());
  }
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_P(Scenario, AProcessThatHoldsARanksFileIsNotTheRank) { expect_right(plan(3, looked_at)); }

// Rank 0 is late itself: it hears of what rank 1 has posted before it posts anything.
RANKS(latest_of_all) {
  const std::string transport = arguments.at(0);
  const std::uint64_t in = 1;
  std::uint64_t out = 0;
  const ucft_request_h request = sum_of_one(comm, in, out);
  // By its memory, by its messages, or not at all: messages of hosts say nothing of their ranks.
  const char* const is_known = transport == "tcp"         ? "; 1 posted at least"
                               : transport == "two_level" ? ""
                                                          : "; 1 posted";
  while (rank_ == 0 && !has(look(comm)[1].words, is_known)) check(ucft_progress(context), "progress");
  check(ucft_post(request), "post");
  check(ucft_wait(request, UINT64_MAX), "wait");
  if (out != static_cast<std::uint64_t>(size_)) wrong("sum {}", out);
  check(ucft_request_free(request), "free");
}

// uniform_sum: rank 1 has given its value, and is held up in its operator, so that it has not the sum. Rank 0 has it,
// and must not return it yet.
RANKS(uniform_sum) {
  const std::vector<std::int64_t> pids = exchange_pids();
  go_on_when_told();
  std::uint64_t in = std::uint64_t{1} << rank_, plain = 0, out = 0;
  ucft_operator_t held_up = UCFT_OPERATOR_INIT(UCFT_USER);
  held_up.function = [](const void* from, void* to, std::uint64_t, ucft_dtype_t, void*) {
    while (rank_ == 1 && !may_go_on) usleep(100);
    *static_cast<std::uint64_t*>(to) += *static_cast<const std::uint64_t*>(from);
  };
  // A plain call of the same arguments is another one.
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  check(ucft_allreduce(comm, &in, &plain, 1, UCFT_UINT64, UCFT_SUM, &options, nullptr), "allreduce");
  options.uniform = 1;
  ucft_request_h request = UCFT_REQUEST_NULL;
  check(ucft_allreduce_init(comm, &in, &out, 1, UCFT_UINT64, &held_up, &options, &request), "init");
  const std::int64_t before = look(comm)[0].posted;
  for (int i = 0; i < 2; ++i) {  // persistent
    while (rank_ == 0 && look(comm)[1].posted < before + 1 + 2 * i) check(ucft_progress(context), "progress");
    check(ucft_post(request), "post");
    if (rank_ == 0 && i == 0) {
      while (look(comm)[0].finished < before + 1) check(ucft_progress(context), "progress");
      ucft_status_t status = UCFT_INPROGRESS;
      for (int looks = 0; looks < 1000 && status == UCFT_INPROGRESS; ++looks) status = ucft_test(request);
      kill(static_cast<pid_t>(pids[1]), SIGUSR1);
      if (status != UCFT_INPROGRESS) wrong("status {} before rank 1 has the sum", static_cast<int>(status));
    }
    check(ucft_wait(request, UINT64_MAX), "wait");
    if (out != 3) wrong("sum {}", out);
  }
  check(ucft_request_free(request), "free");
  out = in;
  check(ucft_allreduce(comm, UCFT_IN_PLACE, &out, 1, UCFT_UINT64, UCFT_BAND, &options, nullptr), "uniform");
  options.uniform = 0;
  const std::int64_t posted = look(comm)[static_cast<std::size_t>(rank_)].posted;
  out = in;
  check(ucft_allreduce(comm, UCFT_IN_PLACE, &out, 1, UCFT_UINT64, UCFT_BAND, &options, nullptr), "plain");
  const std::int64_t plain_took = look(comm)[static_cast<std::size_t>(rank_)].posted - posted;
  out = in;
  check(ucft_agree(comm, &out, &options, nullptr), "agree");
  const std::int64_t agree_took = look(comm)[static_cast<std::size_t>(rank_)].posted - posted - plain_took;
  if (plain_took != 1 || agree_took != 2) wrong("{} and {} operations", plain_took, agree_took);
}

TEST(Uniform, ARankReturnsWhenAllOthersHaveTheResult) {
  JobPlan made{2, uniform_sum, {}, {}, over("tcp")};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

TEST_P(Scenario, WhatIsHeardBeforeTheFirstPostCounts) { expect_right(plan(4, latest_of_all, {GetParam()})); }

// ---- ranks that differ ----------------------------------------------------------------------------------------------

// What may differ: what the others post, what rank 2 does, and what is said of it.
enum class Post {
  sum,
  barrier,
  greatest,
  sum_of_ints,
  two_sums,
  reduce_to_0,
  reduce_to_2,
  broadcast_of_1,
  broadcast_of_2
};
struct Differing {
  Post most, odd;
  const char* said;
  std::vector<int> get_an_error;
};
const std::map<std::string, Differing> differing = {
    {"operation",
     {Post::sum,
      Post::barrier,
      "barrier as operation 1, and 2 other ranks allreduce (sum of uint64, 8 bytes): the operations differ",
      {0, 1, 2, 3}}},
    {"operator",
     {Post::sum,
      Post::greatest,
      "allreduce (max of uint64, 8 bytes) as operation 1, and 2 other ranks allreduce (sum of uint64, 8 bytes): the "
      "operators differ",
      {0, 1, 2, 3}}},
    {"type",
     {Post::sum,
      Post::sum_of_ints,
      "allreduce (sum of int64, 8 bytes) as operation 1, and 2 other ranks allreduce (sum of uint64, 8 bytes): the "
      "types "
      "differ",
      {0, 1, 2, 3}}},
    {"count",
     {Post::sum,
      Post::two_sums,
      "allreduce (sum of uint64, 16 bytes) as operation 1, and 2 other ranks allreduce (sum of uint64, 8 bytes): the "
      "counts differ",
      {0, 1, 2, 3}}},
    {"root of a reduce",  // each root hears of it, and nobody else needs to
     {Post::reduce_to_0,
      Post::reduce_to_2,
      "reduce (sum of uint64, 8 bytes, to rank 2) as operation 1, and 2 other ranks reduce (sum of uint64, 8 bytes, to "
      "rank 0): the roots differ",
      {0, 2}}},
    {"root of a broadcast",  // rank 2 has nobody that reads its data
     {Post::broadcast_of_1,
      Post::broadcast_of_2,
      "broadcast (uint64, 8 bytes, from rank 2) as operation 1, and 2 other ranks broadcast (uint64, from rank 1): the "
      "roots differ",
      {}}}};

ucft_request_h request_for(Post what, const std::uint64_t* in, std::uint64_t* out) {
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM), max = UCFT_OPERATOR_INIT(UCFT_MAX);
  ucft_request_h made = UCFT_REQUEST_NULL;
  const auto allreduce = [&](std::uint64_t count, ucft_dtype_t type, const ucft_operator_t& op) {
    check(ucft_allreduce_init(comm, in, out, count, type, &op, nullptr, &made), "init");
  };
  const auto reduce = [&](std::int32_t root) {
    check(ucft_reduce_init(comm, in, out, 1, UCFT_UINT64, &sum, root, nullptr, &made), "init");
  };
  switch (what) {
    case Post::sum: allreduce(1, UCFT_UINT64, sum); break;
    case Post::greatest: allreduce(1, UCFT_UINT64, max); break;
    case Post::sum_of_ints: allreduce(1, UCFT_INT64, sum); break;
    case Post::two_sums: allreduce(2, UCFT_UINT64, sum); break;
    case Post::barrier: check(ucft_barrier_init(comm, nullptr, &made), "init"); break;
    case Post::reduce_to_0: reduce(0); break;
    case Post::reduce_to_2: reduce(2); break;
    case Post::broadcast_of_1:
    case Post::broadcast_of_2:
      check(ucft_broadcast_init(comm, out, 1, UCFT_UINT64, what == Post::broadcast_of_1 ? 1 : 2, nullptr, &made),
            "init");
  }
  return made;
}

// While rank 1 computes, rank 2 has posted something else than the others. (Ranks that send messages would tell each
// other.)
RANKS(another_operation) {
  go_on_when_told();
  const Differing& plan = differing.at(arguments.at(0));
  const std::vector<std::int64_t> pids = exchange_pids();
  const std::uint64_t in[2] = {1, 1};
  std::uint64_t out[2] = {};
  const ucft_request_h request = request_for(rank_ == 2 ? plan.odd : plan.most, in, out);
  while (rank_ == 1 && !may_go_on) {}
  check(ucft_post(request), "post");
  const std::string odd = std::string("has posted ") + plan.said;
  if (rank_ == 0) {
    std::string said;
    do {
      expect(ucft_wait(request, 20000), UCFT_ERR_TIMED_OUT, "wait");
      said = ucft_last_error();
    } while (!has(said, ": it waits for rank 1 (") || !has(about(2, said), ") " + odd) || [&] {
      const std::vector<Sight> seen = look(comm);
      return seen[1].state != UCFT_RANK_COMPUTING || seen[2].state != UCFT_RANK_MISMATCHED ||
             !has(seen[2].words, "mismatched (" + odd + ")") || seen[0].state != UCFT_RANK_IN_OPERATION ||
             seen[3].state == UCFT_RANK_MISMATCHED;
    }() || job_report()[2]["does"] != "mismatched");
    kill(static_cast<pid_t>(pids[1]), SIGUSR1);
  }
  const bool gets_an_error = std::ranges::find(plan.get_an_error, rank_) != plan.get_an_error.end();
  expect(ucft_wait(request, UINT64_MAX), gets_an_error ? UCFT_ERR_MISMATCH : UCFT_OK, "wait");
  // Whom it names is the lowest that differs from this rank.
  const std::string error = ucft_last_error();
  if (gets_an_error && rank_ != 2 && !has(error, "operation 1: rank 2 (")) wrong("{}", error);
  const std::string field = odd.substr(odd.rfind(": "));
  if (gets_an_error && !(has(error, ") has posted ") && has(error, ", and this rank ") && error.ends_with(field)))
    wrong("{}", error);
  check(ucft_request_free(request), "free");
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");  // a rank that leaves is no longer seen in its operations
}

TEST(HostScenario, WhoHasPostedSomethingElseIsNamedAndInWhat) {
  for (const auto& [what, plan] : differing) {
    const JobPlan made{4, another_operation, {what}, {}, over("shm")};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << what;
  }
}

// Rank 2 waits in a barrier of one communicator, the others in an allreduce of another: for ever, if nobody is told.
RANKS(crossed) {
  go_on_when_told();
  const std::vector<std::int64_t> pids = exchange_pids();
  ucft_comm_h copy = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &copy), "dup");
  const std::uint64_t in = 1;
  std::uint64_t out = 0;
  const ucft_request_h request = sum_of_one(comm, in, out);
  if (rank_ == 2) {
    check(ucft_barrier(copy, nullptr, nullptr), "barrier");
    check(ucft_post(request), "post");
  } else {
    check(ucft_post(request), "post");
    const auto is_seen = [&] {
      const std::vector<Sight> seen = look(comm);
      return seen[2].state == UCFT_RANK_MISMATCHED && has(seen[2].words, "which waits for it in communicator ") &&
             seen[0].state == UCFT_RANK_IN_OPERATION && seen[0].awaited == std::vector{2};
    };
    // Seen by another thread, since a rank that doesn't wait is in no circle.
    std::atomic<bool> is_right = rank_ != 0;
    std::thread watchdog([&] {
      while (!is_right) is_right = is_seen() && job_report()[2]["does"] == "mismatched";
    });
    while (!is_right || (rank_ != 0 && !may_go_on)) expect(ucft_wait(request, 200000), UCFT_ERR_TIMED_OUT, "wait");
    watchdog.join();
    for (std::int64_t pid : pids)
      if (rank_ == 0) kill(static_cast<pid_t>(pid), SIGUSR1);
    check(ucft_barrier(copy, nullptr, nullptr), "barrier");
  }
  check(ucft_wait(request, UINT64_MAX), "wait");
  if (out != static_cast<std::uint64_t>(size_)) wrong("sum {}", out);
  check(ucft_request_free(request), "free");
  check(ucft_comm_destroy(copy), "destroy");
}

TEST(HostScenario, WhoWaitsInAnotherCommunicatorIsNamed) {
  for (const char* transport : {"shm", "corrected"}) {
    const JobPlan made{4, crossed, {}, {}, over(transport)};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << transport;
  }
}

}  // namespace
}  // namespace ucft::detail::test
