// gossip_average: the average of a vector over all ranks by gossip, again and again, while somebody kills some of them.
//
//   ucft_run -n 8 --kill 3@300ms --kill 5@600ms gossip_average 2000
//
// While an operation is in progress each rank looks at its own estimate, as an asynchronous solver would. At its end
// all survivors have the same result, and a bound for its error that was measured; here it is compared with the truth.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ucft/ucft.hpp"

namespace {

constexpr std::int64_t default_iterations = 2000;
constexpr std::size_t values = 100;
constexpr double rounding = 1e-12;  // that the bound does not cover

double value(std::int32_t rank, std::size_t place) { return rank + 1.0 + static_cast<double>(place % 7); }

// Relative to the largest value, as the bound is.
double error_of(const std::vector<double>& average, const std::vector<std::int32_t>& missing, std::int32_t rank_count) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < average.size(); ++i) {
    double sum = 0;
    for (std::int32_t rank = 0; rank < rank_count; ++rank) sum += value(rank, i);
    for (const std::int32_t rank : missing) sum -= value(rank, i);
    const double truth = sum / (rank_count - static_cast<double>(missing.size()));
    worst = std::max(worst, std::abs(average[i] - truth));
    largest = std::max(largest, std::abs(truth));
  }
  return worst / largest;
}

int run(std::int64_t iterations) {
  ucft::Context context;
  ucft::Communicator all(context);
  const std::int32_t me = all.rank();
  ucft::GossipOptions options;
  options.algorithm = UCFT_GOSSIP_PUSH_FLOW;  // after a death: the survivors' average
  options.eps = 1e-9;
  std::vector<double> mine(values), average(values), now(values);
  for (std::size_t i = 0; i < values; ++i) mine[i] = value(me, i);
  std::vector<std::int32_t> missing;
  std::int64_t wrong = 0, missed = 0, looks = 0;
  double worst_bound = 0;
  ucft::Request request = all.gossip_allreduce_init(mine, average, options);
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < iterations; ++i) {
    request.post();
    request.estimate(now);  // good enough to go on with, say
    ++looks;
    const ucft::Result result = request.wait();
    if (!result.ok()) {
      std::fprintf(stderr, "rank %d: iteration %lld: %s: %s\n", me, static_cast<long long>(i),
                   ucft_status_name(result.status), ucft_last_error());
      return 1;
    }
    const ucft::GossipResult accuracy = request.gossip_result();
    worst_bound = std::max(worst_bound, accuracy.error_bound);
    if (accuracy.reached == 0) ++missed;
    if (error_of(average, result.missing, all.size()) > accuracy.error_bound + rounding) ++wrong;
    if (result.missing != missing) {
      missing = result.missing;
      std::printf("rank %d: iteration %lld: the average of %u ranks from here on\n", me, static_cast<long long>(i),
                  result.contributors);
      std::fflush(stdout);
    }
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::printf(
      "rank %d: %lld averages of %zu values in %.2f s, %lld wrong, %lld above eps, largest bound %.1e, %lld "
      "estimates\n",
      me, static_cast<long long>(iterations), values, elapsed.count(), static_cast<long long>(wrong),
      static_cast<long long>(missed), worst_bound, static_cast<long long>(looks));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argument_count, char** arguments) {
  std::int64_t iterations = default_iterations;
  if (argument_count > 1) {
    const char* end = arguments[1] + std::strlen(arguments[1]);
    const auto [stop, problem] = std::from_chars(arguments[1], end, iterations);
    if (argument_count > 2 || problem != std::errc() || stop != end || iterations < 0) {
      std::fprintf(stderr, "usage: gossip_average [iterations]\n");
      return 2;
    }
  }
  try {
    return run(iterations);
  } catch (const ucft::Error& error) {
    std::fprintf(stderr, "gossip_average: %s\n", error.what());
    return 1;
  }
}
