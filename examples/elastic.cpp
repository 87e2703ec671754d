// elastic: a loop of sums that loses ranks and gets them back. No rank waits for a newcomer that is not ready.
//
//   ucft_run -n 8 --no-tag --respawn 100 --kill 3@500ms --kill 0@1s elastic 20000
//
// Arguments: how many iterations; how many between two renewals (20); a file: the loop ends once it is there; how many
// ranks the job may grow to (0: it doesn't grow).
//
// Each rank's state is the number of the iteration and the sum of all results. A newcomer gets both by a broadcast of
// the lowest rank that has them. All that is here beyond that checks every result, and tells what has happened.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "ucft/ucft.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Ranks = std::vector<std::int32_t>;

struct State {
  std::int64_t iteration = 0;
  double total = 0;
};

bool contains(const Ranks& ranks, std::int32_t rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

// Exact: a sum of small whole numbers.
double contribution(std::int32_t rank, std::int64_t iteration) {
  return static_cast<double>((rank + 1) * (iteration % 1000 + 1));
}

double sum_without(const Ranks& missing, std::int32_t rank_count, std::int64_t iteration) {
  double sum = 0;
  for (std::int32_t rank = 0; rank < rank_count; ++rank)
    if (!contains(missing, rank)) sum += contribution(rank, iteration);
  return sum;
}

void check(ucft_status_t status) {
  if (status != UCFT_OK) throw ucft::Error(status);
}

// From the lowest rank that is no newcomer; from the next one if that dies before anybody has it.
void share(ucft::Communicator& world, State& state) {
  const Ranks newcomers = world.newcomers();
  for (std::int32_t donor = 0; donor < world.size(); ++donor) {
    if (contains(newcomers, donor)) continue;
    double values[] = {static_cast<double>(state.iteration), state.total};
    const ucft::Result result = world.broadcast(std::span(values), donor);
    if (result.status == UCFT_ERR_ROOT_FAILED) continue;
    check(result.status);
    state = {static_cast<std::int64_t>(values[0]), values[1]};
    return;
  }
}

}  // namespace

int main(int argument_count, char** arguments) try {
  const std::int64_t iterations = argument_count > 1 ? std::atoll(arguments[1]) : 20000;
  const std::int64_t renew_each = argument_count > 2 ? std::atoll(arguments[2]) : 20;
  const char* const stop_file = argument_count > 3 ? arguments[3] : nullptr;
  const std::int32_t grow_to = argument_count > 4 ? std::atoi(arguments[4]) : 0;

  ucft::Context context;
  ucft::Communicator world = ucft::Communicator::join(context);
  State state;
  if (!world.newcomers().empty()) share(world, state);
  std::int64_t renewals = 0;
  Clock::duration longest{};
  while (state.iteration < iterations) {
    const auto begin = Clock::now();
    const bool stops = state.iteration % renew_each == 0 && stop_file != nullptr && access(stop_file, F_OK) == 0;
    double values[] = {contribution(world.rank(), state.iteration), stops ? 1.0 : 0.0};
    const ucft::Result result = world.allreduce(std::span(values), UCFT_SUM);
    const double value = values[0];
    longest = std::max(longest, Clock::now() - begin);
    check(result.status);
    const Ranks missing(result.missing.begin(), result.missing.end());
    if (value != sum_without(missing, world.size(), state.iteration)) {
      std::fprintf(stderr, "rank %d: wrong sum in iteration %ld\n", world.rank(), static_cast<long>(state.iteration));
      return 1;
    }
    state.total += value;
    ++state.iteration;
    if (values[1] > 0) break;  // all have seen that in the same iteration
    if (state.iteration % renew_each != 0) continue;
    world = world.renew(-1, {}, grow_to);
    if (world.newcomers().empty()) continue;
    ++renewals;
    share(world, state);
    if (world.rank() == 0 || contains(world.newcomers(), 0)) {
      std::string seats;
      for (const std::int32_t seat : world.newcomers()) seats += " " + std::to_string(seat);
      std::printf("iteration %ld: newcomers in the seats%s\n", static_cast<long>(state.iteration), seats.c_str());
    }
  }
  const Ranks failed = world.failed();
  std::printf("rank %d: total %.0f, %ld renewals, %zu seats empty, longest sum %.3f ms\n", world.rank(), state.total,
              static_cast<long>(renewals), failed.size(), std::chrono::duration<double, std::milli>(longest).count());
  return 0;
} catch (const std::exception& problem) {
  std::fprintf(stderr, "elastic: %s\n", problem.what());
  return 1;
}
