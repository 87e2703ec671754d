// What the ranks of a job do, next to the test that starts the job and says what it expects of it:
//
//   // All give 1.
//   RANKS(ones) {
//     std::uint64_t in = 1, out = 0;
//     check(ucft_allreduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "allreduce");
//     if (out != static_cast<std::uint64_t>(size_)) wrong("sum {}", out);
//   }
//   TEST_P(Scenario, OnesAreCounted) { expect_right(plan(4, ones)); }
//
// The program is both: with the name of a scenario as its first argument it is a rank (`ucx_scenario_test ones`), else
// it runs the tests. A rank is in the job when its part begins, and its words are in `arguments`. When the part is
// over it leaves the job and says "VERDICT ...".
#pragma once

#include <string>
#include <vector>

#include "tests/ucx/rank_checks.hpp"

namespace ucft::detail::test {

using Arguments = std::vector<std::string>;

struct Ranks {
  enum class Begin { in_the_job, before_start_up };

  Ranks(std::string name, Begin begin, void (*part)(const Arguments&));
  operator std::string() const { return name; }  // of the scenario: what a JobPlan names

  std::string name;
  Begin begin;
  void (*part)(const Arguments&);
};

}  // namespace ucft::detail::test

#define RANKS_THAT_BEGIN(begins, scenario)                                    \
  void ranks_of_##scenario(const Arguments&);                                 \
  const Ranks scenario{#scenario, Ranks::Begin::begins, ranks_of_##scenario}; \
  void ranks_of_##scenario([[maybe_unused]] const Arguments& arguments)

#define RANKS(scenario) RANKS_THAT_BEGIN(in_the_job, scenario)
// They call start_up() themselves, or never come to it.
#define RANKS_BEFORE_START_UP(scenario) RANKS_THAT_BEGIN(before_start_up, scenario)
