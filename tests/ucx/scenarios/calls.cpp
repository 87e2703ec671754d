// What callers may do: arguments that differ, waits with a limit, a full operation window, looking instead of waiting.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

#if defined(__SSE2__)
// Rank 1 has its processor flush denormal numbers to zero, as programs built with -ffast-math do. Each rank computes
// the result.
RANKS(denormals) {
  constexpr unsigned flushes = 0x8040;
  if (rank_ == 1) _mm_setcsr(_mm_getcsr() | flushes);
  for (std::size_t count : {1u, 100u, 5000u}) {
    const std::uint64_t tiny = 1, expected = static_cast<std::uint64_t>(size_);  // in units of the least denormal
    std::vector<double> in(count, std::bit_cast<double>(tiny)), out(count);
    check(ucft_allreduce(comm, in.data(), out.data(), count, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr), "allreduce");
    for (double each : out)
      if (std::bit_cast<std::uint64_t>(each) != expected)
        wrong("count {}: {:x}", count, std::bit_cast<std::uint64_t>(each));
    check(ucft_scan(comm, in.data(), out.data(), count, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr), "scan");
    for (double each : out)
      if (std::bit_cast<std::uint64_t>(each) != static_cast<std::uint64_t>(rank_ + 1))
        wrong("scan, count {}: {:x}", count, std::bit_cast<std::uint64_t>(each));
  }
  if (rank_ == 1 && (_mm_getcsr() & flushes) != flushes) wrong("the caller's rounding is lost");
}

TEST(HostScenario, WhoFlushesDenormalNumbersHasTheSameResults) {
  const JobPlan made{3, denormals, {}, {}, over("shm")};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}
#endif

// The ranks differ in one argument. Everybody must be told, and the next operation must work.
RANKS(mismatch) {
  const std::string& what = arguments.at(0);
  const bool odd = rank_ == size_ - 1;
  std::uint64_t in[64] = {}, out[64] = {};
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  if (odd && what == "f") options.f = 0;
  if (odd && what == "first_root") options.first_root = 1;
  if (odd && what == "tree") options.tree = UCFT_TREE_KARY;
  const std::uint64_t count = odd && what == "count" ? 9 : 8;
  const ucft_dtype_t dtype = odd && what == "type" ? UCFT_DOUBLE : UCFT_UINT64;
  const ucft_op_t op = odd && what == "operator" ? UCFT_MAX : UCFT_SUM;
  const ucft_status_t status = odd && what == "operation"
                                   ? ucft_barrier(comm, &options, nullptr)
                                   : ucft_allreduce(comm, in, out, count, dtype, op, &options, nullptr);
  expect(status, UCFT_ERR_MISMATCH, what.c_str());
  if (std::strstr(ucft_last_error(), "rank ") == nullptr) wrong("the message names nobody: {}", ucft_last_error());
  for (int i = 0; i < 40; ++i) allreduce(i, 1);
}

// Shares of other lengths, of the same sum: the first rank says 1 and 3, the others 2 and 2.
RANKS(other_shares) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(size_), 2), in(2 * counts.size()), out(3);
  if (rank_ == 0) counts[0] = 1, counts[1] = 3;
  expect(ucft_reduce_scatterv(comm, in.data(), out.data(), counts.data(), UCFT_UINT64, UCFT_SUM, nullptr, nullptr),
         UCFT_ERR_MISMATCH, "other counts");
  const std::string why = ucft_last_error();
  if (why.find("rank ") == why.npos || why.find("count") == why.npos) wrong("not of counts: {}", why);
  for (int i = 0; i < 10; ++i) allreduce(i, 1);
}

TEST_P(Scenario, SharesOfOtherLengthsAreAMismatchOfCounts) {
  for (int ranks : {2, 4}) expect_right(plan(ranks, other_shares));
}

void greatest(const void* in, void* inout, std::uint64_t count, ucft_dtype_t, void*) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::int32_t& to = static_cast<std::int32_t*>(inout)[i];
    to = std::max(to, static_cast<const std::int32_t*>(in)[i]);
  }
}

// Rank r gives r + i at place i of all shares together.
template <class T>
void check_shares(std::size_t count, ucft_dtype_t type, const ucft_operator_t& op, auto expected) {
  std::vector<T> in(count * static_cast<std::size_t>(size_)), out(count);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(static_cast<std::size_t>(rank_) + i);
  ucft_request_h request = UCFT_REQUEST_NULL;
  check(ucft_reduce_scatter_init(comm, in.data(), out.data(), count, type, &op, nullptr, &request), "init");
  for (int i = 0; i < 2; ++i) {  // persistent
    out.assign(count, T{});
    check(ucft_post(request), "post");
    check(ucft_wait(request, UINT64_MAX), "wait");
    for (std::size_t k = 0; k < count; ++k)
      if (out[k] != static_cast<T>(expected(static_cast<std::size_t>(rank_) * count + k)))
        wrong("type {}, operator {}, {} each: element {} of the share", static_cast<int>(type), static_cast<int>(op.op),
              count, k);
  }
  ucft_request_free(request);
}

RANKS(shares_of_each_kind) {
  const double n = size_, others = n * (n - 1) / 2;
  const auto sum = [&](std::size_t i) { return others + n * static_cast<double>(i); };
  const auto average = [&](std::size_t i) { return (n - 1) / 2 + static_cast<double>(i); };
  const auto most = [&](std::size_t i) { return n - 1 + static_cast<double>(i); };
  ucft_operator_t user = UCFT_OPERATOR_INIT(UCFT_USER);
  user.function = &greatest;
  for (std::size_t count : {1u, 3u, 700u, 9001u}) {
    check_shares<double>(count, UCFT_DOUBLE, UCFT_OPERATOR_INIT(UCFT_SUM), sum);
    check_shares<double>(count, UCFT_DOUBLE, UCFT_OPERATOR_INIT(UCFT_AVG), average);
    check_shares<float>(count, UCFT_FLOAT, UCFT_OPERATOR_INIT(UCFT_SUM_REPRODUCIBLE), sum);
    check_shares<double>(count, UCFT_DOUBLE, UCFT_OPERATOR_INIT(UCFT_AVG_REPRODUCIBLE), average);
    check_shares<std::int64_t>(count, UCFT_INT64, UCFT_OPERATOR_INIT(UCFT_SUM), sum);
    check_shares<std::int32_t>(count, UCFT_INT32, user, most);
  }
  std::vector<double> in(2 * static_cast<std::size_t>(size_)), out(2);
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.reproducible_sweeps = 2;
  const ucft_status_t status =
      ucft_reduce_scatter(comm, in.data(), out.data(), 2, UCFT_DOUBLE, UCFT_SUM_REPRODUCIBLE, &options, nullptr);
  if (status != UCFT_OK && status != UCFT_ERR_INVALID_PARAM) wrong("two sweeps: {}", ucft_last_error());
}

TEST_P(Scenario, SharesOfEachTypeAndOperator) {
  for (int ranks : {2, 3, 5}) expect_right(plan(ranks, shares_of_each_kind));
}

// Rank r gives r + i at place i; expected(ranks, i) is the combination of that of the first so many ranks.
template <class T>
void check_scans(std::size_t count, ucft_dtype_t type, const ucft_operator_t& op, auto expected) {
  std::vector<T> in(count), out(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<T>(static_cast<std::size_t>(rank_) + i);
  for (const auto& [with_own, in_place] : {std::pair{true, false}, {false, false}, {true, true}, {false, true}}) {
    ucft_request_h request = UCFT_REQUEST_NULL;
    const auto init = with_own ? &ucft_scan_init : &ucft_exscan_init;
    check(init(comm, in_place ? UCFT_IN_PLACE : in.data(), out.data(), count, type, &op, nullptr, &request), "init");
    for (int i = 0; i < 2; ++i) {  // persistent
      const std::vector<T> before = in_place ? in : std::vector<T>(count, static_cast<T>(77));
      std::ranges::copy(before, out.begin());
      check(ucft_post_and_wait(request, UINT64_MAX), "scan");
      const int ranks = rank_ + with_own;
      for (std::size_t k = 0; k < count; ++k)
        if (out[k] != (ranks == 0 ? before[k] : static_cast<T>(expected(ranks, static_cast<double>(k)))))
          wrong("type {}, operator {}, {}: element {} of a scan", static_cast<int>(type), static_cast<int>(op.op),
                count, k);
    }
    ucft_request_free(request);
  }
}

RANKS(scans_of_each_kind) {
  const auto sum = [](int ranks, double i) { return ranks * (ranks - 1) / 2.0 + ranks * i; };
  const auto average = [](int ranks, double i) { return (ranks - 1) / 2.0 + i; };
  const auto most = [](int ranks, double i) { return ranks - 1 + i; };
  const auto any = [](int ranks, double i) { return ranks > 1 || i > 0; };
  ucft_operator_t user = UCFT_OPERATOR_INIT(UCFT_USER);
  user.function = &greatest;
  for (std::size_t count : {1u, 3u, 700u, 9001u}) {
    check_scans<double>(count, UCFT_DOUBLE, UCFT_OPERATOR_INIT(UCFT_SUM), sum);
    check_scans<double>(count, UCFT_DOUBLE, UCFT_OPERATOR_INIT(UCFT_AVG), average);
    check_scans<float>(count, UCFT_FLOAT, UCFT_OPERATOR_INIT(UCFT_SUM_REPRODUCIBLE), sum);
    check_scans<double>(count, UCFT_DOUBLE, UCFT_OPERATOR_INIT(UCFT_AVG_REPRODUCIBLE), average);
    check_scans<std::int64_t>(count, UCFT_INT64, UCFT_OPERATOR_INIT(UCFT_SUM), sum);
    check_scans<std::int32_t>(count, UCFT_INT32, UCFT_OPERATOR_INIT(UCFT_LOR), any);
    check_scans<std::int32_t>(count, UCFT_INT32, user, most);
  }
  // Sums of halves are rounded once, at their end: 2048 + 1 + 1 is 2050.
  const std::uint16_t halves[] = {0x6800, 0x3c00, 0x3c00, 0x3c00}, sums[] = {0x6800, 0x6800, 0x6801, 0x6802};
  std::uint16_t out = 0;
  const auto place = static_cast<std::size_t>(std::min(rank_, 3));
  if (size_ > 4) return;
  check(ucft_scan(comm, halves + place, &out, 1, UCFT_FLOAT16, UCFT_SUM, nullptr, nullptr), "scan of halves");
  if (out != sums[place]) wrong("of halves: {:x}", out);
}

TEST_P(Scenario, ScansOfEachTypeAndOperator) {
  for (int ranks : {2, 3, 5}) expect_right(plan(ranks, scans_of_each_kind));
}

// other_scan WHAT FIELD memory|messages: the first rank says something else there. Where the ranks read each other's
// memory, it is told so by an alltoall alone: its scan needs no other rank.
RANKS(other_scan) {
  const std::string what = arguments.at(0), field = arguments.at(1);
  const bool odd = rank_ == 0, is_operator = field == "operators";
  std::vector<double> in(static_cast<std::size_t>(2 * size_)), out = in;
  const ucft_op_t op = odd && is_operator ? UCFT_MAX : UCFT_SUM;
  const std::uint64_t count = odd && !is_operator ? 1 : 2;
  const auto call = what == "scan" ? &ucft_scan : &ucft_exscan;
  const bool is_told = !odd || what == "alltoall" || arguments.at(2) == "messages";
  expect(what == "alltoall" ? ucft_alltoall(comm, in.data(), out.data(), count, UCFT_DOUBLE, nullptr, nullptr)
                            : call(comm, in.data(), out.data(), count, UCFT_DOUBLE, op, nullptr, nullptr),
         is_told ? UCFT_ERR_MISMATCH : UCFT_OK, "another argument");
  const std::string why = is_told ? ucft_last_error() : "rank ";
  if (why.find("rank ") == why.npos) wrong("it says {}", why);
  const bool is_seen = why.find("the " + field) != why.npos && why.find("differ") != why.npos;
  if (!is_seen && why.find("differ") != why.npos) wrong("it says {}", why);
  for (int i = 0; i < 10; ++i) scan(i, 1);
}

TEST_P(Scenario, ScansThatDifferAreAMismatch) {
  for (const auto& [what, field] :
       {std::pair{"scan", "operators"}, {"exscan", "operators"}, {"scan", "counts"}, {"alltoall", "counts"}})
    for (int ranks : {2, 4}) {  // over two hosts 2 ranks are on one
      const std::string over = GetParam();
      const bool in_memory = over == "shm" || (over == "two_level" && ranks == 2);
      expect_right(plan(ranks, other_scan, {what, field, in_memory ? "memory" : "messages"}));
    }
}

// other_scatter WHAT: the last rank says something else than the root and the others. It learns of it, and they don't.
RANKS(other_scatter) {
  const std::string what = arguments.at(0);
  const bool odd = rank_ == size_ - 1;
  const std::vector<std::uint64_t> in(static_cast<std::size_t>(2 * size_), 5);
  std::vector<std::uint64_t> out(3, 7), counts(static_cast<std::size_t>(size_), 2);
  if (odd && what == "counts") counts[0] = 1, counts[1] = 3;
  const ucft_dtype_t type = odd && what == "type" ? UCFT_INT64 : UCFT_UINT64;
  const ucft_status_t status =
      what == "counts" || (odd && what == "form")
          ? ucft_scatterv(comm, in.data(), out.data(), counts.data(), UCFT_UINT64, 0, nullptr, nullptr)
          : ucft_scatter(comm, in.data(), out.data(), 2, type, 0, nullptr, nullptr);
  if (odd) expect(status, UCFT_ERR_MISMATCH, what.c_str());
  if (odd && std::strstr(ucft_last_error(), "rank ") == nullptr) wrong("it says {}", ucft_last_error());
  if (!odd && status != UCFT_OK && status != UCFT_ERR_MISMATCH) wrong("scatter: {}", ucft_last_error());
  const std::uint64_t first = status == UCFT_OK ? 5 : 7;
  if (out != std::vector<std::uint64_t>{first, first, 7}) wrong("{}: the share is not right", what);
  const ucft_status_t in_place = ucft_scatter(comm, in.data(), const_cast<void*>(UCFT_IN_PLACE), 2, UCFT_UINT64,
                                              rank_ == 0 ? 1 : 0, nullptr, nullptr);  // nobody has its own root
  expect(in_place, UCFT_ERR_INVALID_PARAM, "in place away from the root");
  for (int i = 0; i < 10; ++i) allreduce(i, 1);
}

TEST_P(Scenario, AScatterOfSomethingElseIsAMismatchForWhoReadsIt) {
  for (const char* what : {"counts", "type", "form"})
    for (int ranks : {2, 4}) expect_right(plan(ranks, other_scatter, {what}));
}

// Bytes, so that shares begin and end anywhere; the same request again and again, with other data.
RANKS(shares_of_bytes) {
  const auto ranks = static_cast<std::size_t>(size_), me = static_cast<std::size_t>(rank_);
  for (std::size_t longest : {1u, 7u, 700u, 70001u}) {
    std::vector<std::uint64_t> given(ranks), wanted(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      given[rank] = (me * 5 + rank * 3) % 7 * longest / 6;
      wanted[rank] = (rank * 5 + me * 3) % 7 * longest / 6;
    }
    std::vector<std::uint8_t> in(std::reduce(given.begin(), given.end())),
        out(std::reduce(wanted.begin(), wanted.end()));
    ucft_request_h request = UCFT_REQUEST_NULL;
    check(ucft_alltoallv_init(comm, in.data(), given.data(), nullptr, out.data(), wanted.data(), nullptr, UCFT_UINT8,
                              nullptr, &request),
          "init");
    for (std::size_t i = 0; i < 5; ++i) {
      const auto byte_of = [&](std::size_t from, std::size_t to, std::size_t k) {
        return static_cast<std::uint8_t>(from * 31 + to * 7 + k * 3 + i);
      };
      std::size_t at = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t k = 0; k < given[rank]; ++k) in[at++] = byte_of(me, rank, k);
      check(ucft_post(request), "post");
      check(ucft_wait(request, UINT64_MAX), "wait");
      at = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t k = 0; k < wanted[rank]; ++k, ++at)
          if (out[at] != byte_of(rank, me, k))
            wrong("iteration {}: byte {} of rank {}'s share is {}", i, k, rank, out[at]);
    }
    ucft_request_free(request);
  }
}

TEST_P(Scenario, SharesOfLengthsOfTheirOwn) {
  for (int ranks : {1, 2, 3, 6}) expect_right(plan(ranks, shares_of_bytes));
}

// The same arrays, which say something else each time.
RANKS(counts_that_change) {
  const auto ranks = static_cast<std::size_t>(size_);
  const std::vector<std::uint64_t> in(ranks * 5, 5);
  std::vector<std::uint64_t> out(ranks * 5), counts(ranks);
  for (std::uint64_t length : {3, 2, 2, 5}) {
    std::ranges::fill(counts, length);
    for (const bool is_alltoall : {true, false}) {
      std::ranges::fill(out, 7);
      check(is_alltoall
                ? ucft_alltoallv(comm, in.data(), counts.data(), nullptr, out.data(), counts.data(), nullptr,
                                 UCFT_UINT64, nullptr, nullptr)
                : ucft_allgatherv(comm, in.data(), out.data(), counts.data(), nullptr, UCFT_UINT64, nullptr, nullptr),
            "counts that change");
      const auto got = static_cast<std::uint64_t>(std::ranges::count(out, 5));
      if (got != ranks * length) wrong("{} words of {} each", got, length);
    }
  }
}

TEST_P(Scenario, CountsThatHaveChangedCount) {
  for (int ranks : {2, 4}) expect_right(plan(ranks, counts_that_change));
}

// other_share WHAT LENGTH: rank 0 gives rank 1 another length than that expects, or calls an alltoall. A rank that
// expects something else learns which rank gave it, and keeps what it had. All that follows is right.
RANKS(other_share) {
  const bool is_form = arguments.at(0) == "form";
  const std::uint64_t length = std::stoull(arguments.at(1));
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::uint64_t> given(ranks, length), wanted(ranks, length);
  if (rank_ == 0 && arguments.at(0) == "shorter") given[1] = length - 1;
  if (rank_ == 0 && arguments.at(0) == "longer") given[1] = length + 1;
  const std::vector<std::uint64_t> in(ranks * length + 1, 5);
  std::vector<std::uint64_t> out(ranks * length + 1, 7);
  const ucft_status_t status = is_form && rank_ == 0
                                   ? ucft_alltoall(comm, in.data(), out.data(), length, UCFT_UINT64, nullptr, nullptr)
                                   : ucft_alltoallv(comm, in.data(), given.data(), nullptr, out.data(), wanted.data(),
                                                    nullptr, UCFT_UINT64, nullptr, nullptr);
  if (rank_ == 1 || is_form) expect(status, UCFT_ERR_MISMATCH, "another length");
  if (rank_ == 1 && std::strstr(ucft_last_error(), is_form ? "rank " : "rank 0 ") == nullptr)
    wrong("it says {}", ucft_last_error());
  if (rank_ != 1 && !is_form) expect(status, UCFT_OK, "what rank 0 has given to another");
  const std::uint64_t expected = status == UCFT_OK ? 5 : 7;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i] != (i < ranks * length ? expected : 7)) wrong("{}: word {} is {}", arguments.at(0), i, out[i]);
  for (int i = 0; i < 10; ++i) alltoallv(i, 3);
}

TEST_P(Scenario, SharesThatDifferAreAMismatchForWhoReadsThem) {
  for (const char* what : {"shorter", "longer", "form"})
    for (int ranks : {2, 4})
      for (const char* length : {"3", "9000"}) expect_right(plan(ranks, other_share, {what, length}));
}

// other_root ROOT: rank 1 names another root of a broadcast than the others do. What follows is right all the same.
RANKS(other_root) {
  allreduce(0, 1);
  std::uint64_t data = 77;
  const int root = rank_ == 1 ? std::stoi(arguments.at(0)) : 0;
  const ucft_status_t status = ucft_broadcast(comm, &data, 1, UCFT_UINT64, root, nullptr, nullptr);
  if (status != UCFT_OK && status != UCFT_ERR_MISMATCH) wrong("broadcast: {}", ucft_last_error());
  if (rank_ == 1 && status == UCFT_OK) wrong("broadcast from root {}: no mismatch", root);
  for (int i = 1; i < 4; ++i)
    if (allreduce(i, 1) != 0) wrong("iteration {}: a rank is missing", i);
}

TEST(TwoLevels, ABroadcastFromAnotherRootIsAMismatchAndNothingElse) {
  for (const char* root : {"1", "2", "3"}) {
    const JobPlan made{4, other_root, {root}, {}, over("two_level")};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << "root " << root;
  }
}

TEST_P(Scenario, DifferentArgumentsAreAMismatchForAll) {
  for (const char* what : {"count", "type", "operator", "operation", "f", "first_root", "tree"})
    for (int ranks : {2, 5}) {
      if (ranks == 2 && std::string(what) == "f") continue;  // f is at most 1 there, and 0 of -1 is 0
      expect_right(plan(ranks, mismatch, {what}));
    }
}

// own_root EACH LATE: every EACH ranks reduce to a root of their own, rank 0 after so many ms. Those that wait as roots
// send nothing by themselves.
RANKS(own_root) {
  allreduce(0, 1);
  const int root = rank_ / std::stoi(arguments.at(0)) * std::stoi(arguments.at(0));
  if (rank_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(arguments.at(1))));
  reduce_with_other_roots(root);
}

TEST_P(Scenario, ReducesToRootsOfTheirOwnAreAMismatch) {
  for (const char* each : {"1", "2"})
    for (const char* late : {"0", "300"}) expect_right(plan(4, own_root, {each, late}));
}

// A call that is repeated with the same arguments is not checked again; one that differs in anything is.
RANKS(repeated) {
  const auto n = static_cast<std::uint64_t>(size_), me = static_cast<std::uint64_t>(rank_);
  std::uint64_t in[2] = {me + 1, 10}, out[2] = {};
  const std::uint64_t ranks_sum = n * (n + 1) / 2;
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  ucft_comm_h on = comm;
  const auto sum_up = [&](ucft_op_t op = UCFT_SUM, std::uint64_t count = 2, const ucft_coll_options_t* with = nullptr) {
    out[0] = out[1] = 0;
    return ucft_allreduce(on, in, out, count, UCFT_UINT64, op, with, nullptr);
  };
  const auto has = [&](std::uint64_t first, std::uint64_t second, const char* when) {
    if (out[0] != first || out[1] != second) wrong("{}: {} {}", when, out[0], out[1]);
  };
  for (int i = 0; i < 3; ++i) {
    in[1] = 10 + static_cast<std::uint64_t>(i);
    check(sum_up(), "sum");
    has(ranks_sum, n * in[1], "again, with other values");
  }
  check(sum_up(UCFT_MAX), "max");
  has(n, in[1], "another operator");
  check(sum_up(UCFT_MAX, 1), "max of one");
  has(n, 0, "another count");
  check(sum_up(), "sum");
  expect(sum_up(static_cast<ucft_op_t>(256 + UCFT_SUM)), UCFT_ERR_INVALID_PARAM, "an operator like the one before");
  check(sum_up(UCFT_SUM, 2, &options), "with options");
  options.f = size_;
  expect(sum_up(UCFT_SUM, 2, &options), UCFT_ERR_INVALID_PARAM, "options that have become wrong");
  options.f = 0;
  check(sum_up(UCFT_SUM, 2, &options), "with other options");
  has(ranks_sum, n * in[1], "with other options");
  check(sum_up(), "without options");

  for (int root : {0, size_ - 1, 0}) {
    std::uint64_t word = 100 + me;
    for (int i = 0; i < 2; ++i) check(ucft_broadcast(comm, &word, 1, UCFT_UINT64, root, nullptr, nullptr), "broadcast");
    if (word != 100 + static_cast<std::uint64_t>(root)) wrong("broadcast of {}: {}", root, word);
    out[0] = 0;
    check(ucft_reduce(comm, in, out, 1, UCFT_UINT64, UCFT_SUM, root, nullptr, nullptr), "reduce");
    if (out[0] != (rank_ == root ? ranks_sum : 0)) wrong("reduce to {}: {}", root, out[0]);
  }

  std::vector<std::uint64_t> counts(n, 1), all(2 * n);
  const auto gather = [&] {
    return ucft_allgatherv(comm, in, all.data(), counts.data(), nullptr, UCFT_UINT64, nullptr, nullptr);
  };
  check(gather(), "allgatherv");
  counts.assign(n, 2);
  check(gather(), "allgatherv with other counts");
  for (std::size_t rank = 0; rank < n; ++rank)
    if (all[2 * rank] != rank + 1 || all[2 * rank + 1] != in[1]) wrong("block of {}", rank);

  check(sum_up(), "sum");
  if (size_ > 1) {
    expect(sum_up(UCFT_SUM, rank_ == 0 ? 1 : 2), UCFT_ERR_MISMATCH, "ranks that differ");
    check(sum_up(), "after a mismatch");
    has(ranks_sum, n * in[1], "after a mismatch");
  }
  ucft_comm_h last = UCFT_COMM_NULL;
  check(ucft_comm_split(comm, rank_ == size_ - 1 ? 1 : 0, 0, &last), "split");
  on = last;
  check(sum_up(), "the same on another communicator");
  if (rank_ == size_ - 1) has(n, in[1], "alone");
  check(ucft_comm_destroy(last), "destroy");
  on = comm;
  check(sum_up(), "sum");
  has(ranks_sum, n * in[1], "at the end");
}

TEST_P(Scenario, RepeatedCallsAreWhatTheySay) {
  for (int ranks : {1, 2, 4}) expect_right(plan(ranks, repeated));
}

// A root that nobody waits for is ahead of a rank that comes late by as much as there is memory for, then busy.
RANKS(ahead) {
  ucft_comm_h copy = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &copy), "dup");
  const bool is_late = rank_ == size_ - 1;
  if (is_late) check(ucft_barrier(copy, nullptr, nullptr), "barrier");
  bool was_busy = false;
  for (std::size_t count : {1u, 200u, 4000u}) {
    constexpr std::size_t many = 300;
    std::vector<std::vector<std::uint64_t>> words(many, std::vector<std::uint64_t>(count));
    std::vector<ucft_request_h> requests(many);
    for (std::size_t i = 0; i < many; ++i) {
      if (rank_ == 0) words[i].assign(count, 1000 * count + i);
      check(ucft_broadcast_init(comm, words[i].data(), count, UCFT_UINT64, 0, nullptr, &requests[i]), "init");
      while (ucft_post(requests[i]) == UCFT_ERR_BUSY) {
        if (!was_busy && !is_late) check(ucft_barrier(copy, nullptr, nullptr), "barrier");
        was_busy = true;
        check(ucft_progress(context), "progress");
      }
    }
    for (std::size_t i = 0; i < many; ++i) {
      check(ucft_wait(requests[i], UINT64_MAX), "wait");
      for (std::uint64_t word : words[i])
        if (word != 1000 * count + i) wrong("broadcast {} of {} words: {}", i, count, word);
      check(ucft_request_free(requests[i]), "free");
    }
  }
  if (rank_ == 0 && !was_busy) wrong("never busy");
  if (!was_busy && !is_late) check(ucft_barrier(copy, nullptr, nullptr), "barrier");
  check(ucft_comm_destroy(copy), "destroy");
}

TEST_P(Scenario, ARootThatIsAheadIsBusyAndLosesNothing) {
  for (int ranks : {2, 4}) expect_right(plan(ranks, ahead));
}

// A rank comes late to an operation: a wait of the others with a limit gives up and goes on later. A barrier of a
// second communicator tells the late one that they have.
RANKS(time_limit) {
  ucft_comm_h copy = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &copy), "dup");
  std::uint64_t in = 1, out = 0;
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  ucft_request_h request;
  check(ucft_allreduce_init(comm, &in, &out, 1, UCFT_UINT64, &sum, nullptr, &request), "init");
  expect(ucft_wait(request, 0), UCFT_ERR_STATE, "wait before post");
  if (rank_ == 0) {
    check(ucft_barrier(copy, nullptr, nullptr), "barrier");
    check(ucft_post(request), "post");
  } else {
    expect(ucft_post_and_wait(request, 1000), UCFT_ERR_TIMED_OUT, "post and wait");
    expect(ucft_post(request), UCFT_ERR_STATE, "post twice");
    expect(ucft_post_and_wait(request, 1000), UCFT_ERR_STATE, "post twice, and wait");
    expect(ucft_wait(request, 1000), UCFT_ERR_TIMED_OUT, "wait");
    expect(ucft_request_free(request), UCFT_ERR_STATE, "free in progress");
    expect(ucft_comm_destroy(comm), UCFT_ERR_STATE, "destroy in progress");
    check(ucft_barrier(copy, nullptr, nullptr), "barrier");
  }
  check(ucft_wait(request, UINT64_MAX), "wait");
  expect(ucft_wait(request, 0), UCFT_ERR_STATE, "second wait");
  if (out != static_cast<std::uint64_t>(size_)) wrong("sum {}", out);
  check(ucft_post_and_wait(request, UINT64_MAX), "post again, and wait");
  check(ucft_request_free(request), "free");
  expect(ucft_wait(request, 0), UCFT_ERR_CLOSED, "wait on a freed request");
  check(ucft_comm_destroy(copy), "destroy");
}

// Of five operations, one a split's, on two communicators, of which one is gone.
RANKS(counted) {
  for (int i = 0; i < 3; ++i) allreduce(i, 1);
  ucft_comm_h part = UCFT_COMM_NULL;
  check(ucft_comm_split(comm, 0, 0, &part), "split");
  check(ucft_barrier(part, nullptr, nullptr), "barrier");
  check(ucft_comm_destroy(part), "destroy");
}

TEST_P(Scenario, LeavesWithCounters) {
  JobPlan made = plan(3, counted);
  for (const char* form : {"y", "json"}) {
    made.environment["UCFT_STATS"] = form;
    const JobResult result = run_job(made);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_NE(result.output.find(
                    form == std::string("y")
                        ? fmt::format("ucft: rank {} of 3: 5 operations, 2 communicators, failed ranks: none", rank)
                        : fmt::format("{{\"ucft\":\"stats\",\"rank\":{},\"ranks\":3,\"operations\":5,"
                                      "\"communicators\":2,\"failed\":[],\"naps\":",
                                      rank)),
                std::string::npos)
          << result.output;
  }
}

TEST_P(Scenario, WaitsHaveTimeLimitsAndStates) { expect_right(plan(3, time_limit)); }

// Without anybody waiting, many operations fill the operation window: BUSY, and nothing is lost. The last rank posts
// nothing until all others have seen it: a barrier of a second communicator tells.
RANKS(window) {
  ucft_comm_h copy = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &copy), "dup");
  constexpr int many = 100;
  std::vector<std::uint64_t> in(many), out(many);
  std::vector<ucft_request_h> requests(many);
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  const bool is_late = rank_ == size_ - 1;
  int busy_seen = 0;
  if (is_late) check(ucft_barrier(copy, nullptr, nullptr), "barrier");
  for (std::size_t i = 0; i < many; ++i) {
    in[i] = i;
    check(ucft_allreduce_init(comm, &in[i], &out[i], 1, UCFT_UINT64, &sum, nullptr, &requests[i]), "init");
    while (ucft_post(requests[i]) == UCFT_ERR_BUSY) {
      if (++busy_seen == 1 && !is_late) check(ucft_barrier(copy, nullptr, nullptr), "barrier");
      check(ucft_progress(context), "progress");
    }
  }
  for (std::size_t i = 0; i < many; ++i) {
    check(ucft_wait(requests[i], UINT64_MAX), "wait");
    if (out[i] != i * static_cast<std::uint64_t>(size_)) wrong("operation {}: {}", i, out[i]);
    check(ucft_request_free(requests[i]), "free");
  }
  if (!is_late && busy_seen == 0) wrong("never busy");
  check(ucft_comm_destroy(copy), "destroy");
}

TEST_P(Scenario, AFullWindowIsBusyAndLosesNothing) { expect_right(plan(4, window)); }

// test_loop ITERATIONS: all ranks on one processor, which wait by ucft_test and ucft_progress. One that kept the
// processor for its whole time slice would look tens of thousands of times at each operation.
RANKS(test_loop) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof all, &all) != 0) wrong("sched_getaffinity");
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) wrong("sched_setaffinity");
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");  // it waits for no start-up of another one
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  const int iterations = std::stoi(arguments.at(0));
  std::uint64_t in = 1, out = 0;
  long looks = 0;
  ucft_request_h request;
  check(ucft_allreduce_init(comm, &in, &out, 1, UCFT_UINT64, &sum, nullptr, &request), "init");
  for (int i = 0; i < iterations; ++i) {
    check(ucft_post(request), "post");
    while (ucft_test(request) == UCFT_INPROGRESS) {
      if (++looks % 2 == 0) check(ucft_progress(context), "progress");
    }
    check(ucft_wait(request, 0), "wait");
    if (out != static_cast<std::uint64_t>(size_)) wrong("sum {}", out);
  }
  check(ucft_request_free(request), "free");
  if (looks > 2000L * iterations) wrong("{} looks in {} operations", looks, iterations);
  if (std::getenv("UCFT_TEST_VERBOSE") != nullptr) fmt::print("LOOKS {} in {}\n", looks, iterations);
}

TEST(Testing, YieldsTheProcessorToWhoeverHasTheNews) {
  JobPlan made{6, test_loop, {"300"}, {}, over("shm")};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

}  // namespace
}  // namespace ucft::detail::test
