// Accumulators in collectives of real processes: the same bytes for any number of ranks and any cut, in every form of
// call, and whatever ranks die that hold copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <random>
#include <vector>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

using Accumulators = std::vector<ucft_accumulator_t>;

constexpr std::size_t length = 5000;  // of a vector

// Every rank knows all numbers. Each vector has other magnitudes.
std::vector<double> numbers_of(std::uint64_t vector) {
  std::mt19937_64 random(vector);
  std::vector<double> values(length);
  for (double& value : values)
    value = std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())),
                       static_cast<int>(random() % (1 + 20 * vector)));
  return values;
}

// Where part `part` of so many begins: parts are of different lengths, also empty ones.
std::size_t begin_of(int part, int parts) {
  const double place = static_cast<double>(part) / parts;
  return static_cast<std::size_t>(place * place * static_cast<double>(length));
}

void add_part(ucft_accumulator_t& sum, const std::vector<double>& values, int part, int parts) {
  const std::size_t first = begin_of(part, parts);
  check(ucft_accumulate(values.data() + first, begin_of(part + 1, parts) - first, UCFT_DOUBLE, &sum), "accumulate");
}

// Those of `count` vectors; of all numbers, or of this rank's.
Accumulators all_of(std::size_t count) {
  Accumulators sums(count, UCFT_ACCUMULATOR_INIT);
  for (std::size_t i = 0; i < count; ++i) add_part(sums[i], numbers_of(i), 0, 1);
  return sums;
}
Accumulators own_of(std::size_t count) {
  Accumulators sums(count, UCFT_ACCUMULATOR_INIT);
  for (std::size_t i = 0; i < count; ++i) add_part(sums[i], numbers_of(i), rank_, size_);
  return sums;
}

void compare(const Accumulators& sums, const Accumulators& expected, const char* what) {
  if (std::memcmp(sums.data(), expected.data(), sums.size() * sizeof(ucft_accumulator_t)) != 0)
    wrong("{} of {} accumulators: other bytes than those of one accumulator", what, sums.size());
}

void run(ucft_request_h request, Accumulators& sums, const Accumulators& given, const Accumulators& expected) {
  for (int again = 0; again < 3; ++again) {
    sums = given;
    if (again == 2) {
      check(ucft_post_and_wait(request, UINT64_MAX), "post and wait");
    } else {
      check(ucft_post(request), "post");
      ucft_status_t status = UCFT_INPROGRESS;
      while (again == 0 && status == UCFT_INPROGRESS) status = ucft_test(request);
      if (again == 0) check(status, "test");
      check(ucft_wait(request, UINT64_MAX), "wait");
    }
    compare(sums, expected, "a request");
  }
  check(ucft_request_free(request), "free");
}

RANKS(exact_sums) {
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  for (const std::size_t count : {1, 3, 40}) {
    const Accumulators given = own_of(count), expected = all_of(count);
    Accumulators sums = given;
    check(ucft_allreduce(comm, UCFT_IN_PLACE, sums.data(), count, UCFT_ACCUMULATOR, UCFT_SUM, nullptr, nullptr),
          "allreduce");
    compare(sums, expected, "an allreduce in place");
    for (int again = 0; again < 2; ++again) {
      sums.assign(count, UCFT_ACCUMULATOR_INIT);
      check(ucft_allreduce(comm, given.data(), sums.data(), count, UCFT_ACCUMULATOR, UCFT_SUM, nullptr, nullptr),
            "allreduce");
      compare(sums, expected, "an allreduce");
    }
    ucft_request_h request = UCFT_REQUEST_NULL;
    check(ucft_allreduce_init(comm, UCFT_IN_PLACE, sums.data(), count, UCFT_ACCUMULATOR, &sum, nullptr, &request),
          "allreduce_init");
    run(request, sums, given, expected);
    const int root = size_ - 1;
    sums = given;
    check(ucft_reduce(comm, given.data(), sums.data(), count, UCFT_ACCUMULATOR, UCFT_SUM, root, nullptr, nullptr),
          "reduce");
    compare(sums, rank_ == root ? expected : given, "a reduce");
    check(ucft_broadcast(comm, sums.data(), count, UCFT_ACCUMULATOR, root, nullptr, nullptr), "broadcast");
    compare(sums, expected, "a broadcast");
    const std::size_t all = count * static_cast<std::size_t>(size_);
    const Accumulators wide = own_of(all), total = all_of(all);
    const auto own = total.begin() + static_cast<std::ptrdiff_t>(count) * rank_;
    Accumulators share(count, UCFT_ACCUMULATOR_INIT);
    check(ucft_reduce_scatter(comm, wide.data(), share.data(), count, UCFT_ACCUMULATOR, UCFT_SUM, nullptr, nullptr),
          "reduce_scatter");
    compare(share, {own, own + static_cast<std::ptrdiff_t>(count)}, "a reduce_scatter");
    for (const bool with_own : {true, false}) {
      Accumulators garbage(count), prefix(count, UCFT_ACCUMULATOR_INIT);
      std::memset(garbage.data(), 0x5a, count * sizeof(ucft_accumulator_t));
      for (int part = 0; part < rank_ + with_own; ++part)
        for (std::size_t i = 0; i < count; ++i) add_part(prefix[i], numbers_of(i), part, size_);
      const auto call = with_own ? &ucft_scan : &ucft_exscan;
      sums = garbage;
      check(call(comm, given.data(), sums.data(), count, UCFT_ACCUMULATOR, UCFT_SUM, nullptr, nullptr), "scan");
      compare(sums, rank_ + with_own == 0 ? garbage : prefix, "a scan");
    }
    sums = expected;
    for (const ucft_accumulator_t& each : sums) note(static_cast<std::uint64_t>(each.words[60]));
  }
}

TEST_P(Scenario, ExactSumsHaveTheSameBytesForAnyCut) {
  for (const int ranks : {1, 2, 7}) expect_right(plan(ranks, exact_sums));
}

// Rank r has r + 1 of them, and there is a gap behind each block.
RANKS(gathered_accumulators) {
  std::vector<std::uint64_t> counts, places;
  std::uint64_t end = 0;
  for (int rank = 0; rank < size_; ++rank) {
    counts.push_back(static_cast<std::uint64_t>(rank) + 1);
    places.push_back(end);
    end += counts.back() + 1;
  }
  const auto own_count = static_cast<std::size_t>(rank_) + 1;
  const Accumulators own = all_of(own_count);
  Accumulators all(end, UCFT_ACCUMULATOR_INIT), expected = all;
  for (int rank = 0; rank < size_; ++rank) {
    const Accumulators its = all_of(static_cast<std::size_t>(rank) + 1);
    std::copy(its.begin(), its.end(),
              expected.begin() + static_cast<std::ptrdiff_t>(places[static_cast<std::size_t>(rank)]));
  }
  check(ucft_allgatherv(comm, own.data(), all.data(), counts.data(), places.data(), UCFT_ACCUMULATOR, nullptr, nullptr),
        "allgatherv");
  compare(all, expected, "an allgatherv");
  const int root = size_ - 1;
  const auto* const not_looked_at = reinterpret_cast<const std::uint64_t*>(8);
  all.assign(end, UCFT_ACCUMULATOR_INIT);
  check(ucft_gatherv(comm, own.data(), rank_ == root ? all.data() : nullptr, counts.data(),
                     rank_ == root ? places.data() : not_looked_at, UCFT_ACCUMULATOR, root, nullptr, nullptr),
        "gatherv");
  if (rank_ == root) compare(all, expected, "a gatherv");
}

TEST_P(Scenario, AccumulatorsAreGatheredAtTheirPlaces) { expect_right(plan(3, gathered_accumulators)); }

// Runs a request to its end, or this rank dies.
ucft_result_t run_or_die(ucft_request_h request, bool dies, int after_us) {
  if (dies && after_us < 0) std::raise(SIGKILL);
  check(ucft_post(request), "post");
  if (dies) {
    ucft_wait(request, static_cast<std::uint64_t>(after_us));
    std::raise(SIGKILL);
  }
  check(ucft_wait(request, UINT64_MAX), "wait");
  ucft_result_t result = UCFT_RESULT_INIT;
  check(ucft_request_result(request, &result), "result");
  check(ucft_request_free(request), "free");
  return result;
}

JobPlan with_death(JobPlan made, int victim, int after_us) {
  made.arguments = {std::to_string(victim), std::to_string(after_us)};
  made.launcher = {"--expect-kill", std::to_string(victim)};
  return made;
}

// Words: the rank that dies, and how long after its post in us; -1: before it. Each round's sum is that of exactly the
// ranks that it has.
RANKS(exact_sums_with_a_death) {
  const int victim = std::stoi(arguments.at(0)), after_us = std::stoi(arguments.at(1));
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  constexpr std::size_t count = 3;
  for (int round = 0; round < 8; ++round) {
    Accumulators sums = own_of(count), expected(count, UCFT_ACCUMULATOR_INIT);
    ucft_request_h request = UCFT_REQUEST_NULL;
    check(ucft_allreduce_init(comm, UCFT_IN_PLACE, sums.data(), count, UCFT_ACCUMULATOR, &sum, nullptr, &request),
          "init");
    const ucft_result_t result = run_or_die(request, rank_ == victim && round == 3, after_us);
    for (std::size_t i = 0; i < count; ++i)
      for (int rank = 0; rank < size_; ++rank)
        if (rank != victim || result.missing_count == 0) add_part(expected[i], numbers_of(i), rank, size_);
    compare(sums, expected, "an allreduce");
    note(result.contributors);
  }
}

TEST_P(Scenario, AnExactSumIsThatOfItsContributorsWhicheverRankDies) {
  for (int victim = 0; victim < 4; ++victim)
    for (const int after_us : {-1, 0, 20})
      expect_right(with_death(plan(4, exact_sums_with_a_death), victim, after_us), {victim});
}

// Part p is held by rank p and by the next one. Each rank gives the accumulators of its two; of each part the first
// copy that is there counts. So the sum is that of all parts, whichever rank dies.
RANKS(sums_of_copies) {
  const int victim = std::stoi(arguments.at(0)), after_us = std::stoi(arguments.at(1));
  const Accumulators expected = all_of(1);
  const std::vector<double> values = numbers_of(0);
  for (int round = 0; round < 8; ++round) {
    Accumulators own(2, UCFT_ACCUMULATOR_INIT), all(2 * static_cast<std::size_t>(size_), UCFT_ACCUMULATOR_INIT);
    add_part(own[0], values, rank_, size_);
    add_part(own[1], values, (rank_ + size_ - 1) % size_, size_);
    ucft_request_h request = UCFT_REQUEST_NULL;
    check(ucft_allgather_init(comm, own.data(), all.data(), 2, UCFT_ACCUMULATOR, nullptr, &request), "init");
    const ucft_result_t result = run_or_die(request, rank_ == victim && round == 3, after_us);
    Accumulators sum(1, UCFT_ACCUMULATOR_INIT);
    for (int part = 0; part < size_; ++part) {
      const bool is_there = part != victim || result.missing_count == 0;
      const auto copy = static_cast<std::size_t>(is_there ? 2 * part : 2 * ((part + 1) % size_) + 1);
      check(ucft_accumulator_merge(&sum[0], &all[copy]), "merge");
    }
    compare(sum, expected, "a sum of copies");
    if (round > 3 && result.missing_count != 1) wrong("round {}: {} ranks are missing", round, result.missing_count);
  }
}

TEST_P(Scenario, ASumOfCopiesIsThatOfAllNumbersWhicheverRankDies) {
  for (int victim = 0; victim < 4; ++victim)
    for (const int after_us : {-1, 0, 20})
      expect_right(with_death(plan(4, sums_of_copies), victim, after_us), {victim});
}

}  // namespace
}  // namespace ucft::detail::test
