// Reproducible sums in two sweeps of which a rank dies between the first and the second: what it gave to the first must
// not leave the others' sum fewer bits. Its numbers are so large that beside them the others' would be lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/exact_sum.hpp"
#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

constexpr int victim = 2, sweeps = 12;

double given_by(int rank, int round, int element) {
  if (rank == victim) return std::ldexp(element % 2 == 0 ? 1 : -1, 200 + round);
  return std::ldexp(1 + rank, -round) + std::ldexp(1 + element, -50);
}

// What the promise says of 3 bins, of exactly the contributors: with the victim all others are below the last bit.
double expected(const std::vector<std::int32_t>& missing, int round, int element) {
  Exact exact;
  const bool has_victim = std::find(missing.begin(), missing.end(), victim) == missing.end();
  for (int rank = 0; rank < size_; ++rank)
    if (has_victim ? rank == victim : std::find(missing.begin(), missing.end(), rank) == missing.end())
      exact.add(given_by(rank, round, element));
  return exact.rounded<double>();
}

RANKS(sums_in_two_sweeps) {
  constexpr int elements = 5;
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.reproducible_sweeps = 2;
  for (int round = 0; round < sweeps; ++round) {
    std::vector<std::int32_t> missing(static_cast<std::size_t>(size_));
    ucft_result_t result = UCFT_RESULT_INIT;
    result.missing = missing.data();
    result.missing_capacity = size_;
    double numbers[elements];
    for (int i = 0; i < elements; ++i) numbers[i] = given_by(rank_, round, i);
    check(ucft_allreduce(comm, UCFT_IN_PLACE, numbers, elements, UCFT_DOUBLE, UCFT_SUM_REPRODUCIBLE, &options, &result),
          "allreduce");
    missing.resize(static_cast<std::size_t>(std::max(result.missing_count, 0)));
    for (int i = 0; i < elements; ++i) {
      const double right = expected(missing, round, i);
      if (std::memcmp(&numbers[i], &right, sizeof right) != 0)
        wrong("round {}, element {}, {} contributors: {:a}, not {:a}", round, i, result.contributors, numbers[i],
              right);
      note(static_cast<std::uint64_t>(numbers[i]));
    }
  }
}

TEST_P(Scenario, ASumInTwoSweepsIsThatOfItsContributorsWhereverOneDies) {
  for (int sends = 3; sends < 11; ++sends) {
    JobPlan made = plan(4, sums_in_two_sweeps);
    made.launcher = {"--expect-kill", std::to_string(victim)};
    made.environment["UCFT_TEST_KILL"] = fmt::format("{}:send:{}", victim, sends);
    expect_right(made, {victim});
  }
}

}  // namespace
}  // namespace ucft::detail::test
