// One context after the other, and two at a time: under launchers that take part in it. What is expected of these
// ranks is in tests/pmix (contexts) and tests/slurm (all).
#include <chrono>
#include <cstdint>
#include <string>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/ranks.hpp"

namespace ucft::detail::test {
namespace {

// One context after the other. The last one is left for the end of the program.
RANKS(contexts) {
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) {
    allreduce(i, 1);
    check(ucft_context_destroy(context), "destroy");
    check(ucft_context_create(nullptr, &context), "context");
    check(ucft_comm_create(context, &comm), "comm");
  }
  allreduce(0, 1);
}

// Until so long after the first death. A launcher that ends the job for it needs a moment.
void outlive_first_death(std::chrono::seconds by) {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + std::chrono::seconds(60);  // of a job whose victim lives
  bool any_dead = false;
  std::uint64_t going_on = 1;
  for (int i = 0; going_on > 0; ++i) {
    if (allreduce(i, 1) > 0 && !any_dead) {
      any_dead = true;
      end = Clock::now() + by;
    }
    if (i == 0) say_started();
    const std::uint64_t mine = Clock::now() < end ? 1 : 0;  // all stop together
    check(ucft_allreduce(comm, &mine, &going_on, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "allreduce");
  }
  if (!any_dead) wrong("nobody has died");
}

// outlive SECONDS: somebody is to die.
RANKS(outlive) { outlive_first_death(std::chrono::seconds(std::stoi(arguments.at(0)))); }

// Two at a time, and a loop over both. With SECONDS somebody is to die then.
RANKS(two_contexts) {
  const ucft_context_h first = context;
  const ucft_comm_h first_comm = comm;
  ucft_context_h second = nullptr;
  ucft_comm_h second_comm = UCFT_COMM_NULL;
  check(ucft_context_create(nullptr, &second), "second context");
  check(ucft_comm_create(second, &second_comm), "second comm");
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) {
    comm = i % 2 == 0 ? first_comm : second_comm;
    allreduce(i, 1);
  }
  comm = first_comm;
  if (arguments.size() > 1) outlive_first_death(std::chrono::seconds(std::stoi(arguments[1])));
  check(ucft_context_destroy(second), "destroy");
  context = first;
}

// A rank dies in the first context; a second one can't be had without it, and says so.
RANKS(context_after_death) {
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) allreduce(i, 1);
  ucft_context_h second = nullptr;
  expect(ucft_context_create(nullptr, &second), UCFT_ERR_STARTUP, "second context");
  fmt::print("{}\n", ucft_last_error());
  allreduce(0, 1);  // the first one is as it was
}

}  // namespace
}  // namespace ucft::detail::test
