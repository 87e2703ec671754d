// allreduce_loop: a sum over all ranks, again and again, while somebody kills some of them.
//
//   ucft_run -n 8 --kill 3@500ms --kill 0@1s allreduce_loop 100000
//
// No line of the loop deals with failures: the survivors' calls return UCFT_OK and the right sum. What is here beyond
// the call itself is there to prove that, on every rank, for every result.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "ucft/ucft.hpp"

namespace {

constexpr std::int64_t default_iterations = 100000;

// Rank r contributes this in iteration i. Sums of it are exact.
double contribution(std::int32_t rank, std::int64_t iteration) {
  return static_cast<double>((rank + 1) * (iteration % 1000 + 1));
}

double sum_without(const std::vector<std::int32_t>& missing, std::int32_t rank_count, std::int64_t iteration) {
  double sum = 0;
  for (std::int32_t rank = 0; rank < rank_count; ++rank) sum += contribution(rank, iteration);
  for (const std::int32_t rank : missing) sum -= contribution(rank, iteration);
  return sum;
}

std::string text_of(const std::vector<std::int32_t>& ranks) {
  std::string text;
  for (const std::int32_t rank : ranks) {
    if (!text.empty()) text += ", ";
    text += std::to_string(rank);
  }
  return text;
}

int run(std::int64_t iterations) {
  ucft::Context context;
  ucft::Communicator all(context);
  const std::int32_t me = all.rank();
  std::vector<std::int32_t> missing;
  std::int64_t wrong = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < iterations; ++i) {
    const double mine = contribution(me, i);
    double sum = 0;
    const ucft::Result result = all.allreduce(mine, sum, UCFT_SUM);
    if (!result.ok()) {
      std::fprintf(stderr, "rank %d: iteration %lld: %s: %s\n", me, static_cast<long long>(i),
                   ucft_status_name(result.status), ucft_last_error());
      return 1;
    }
    if (sum != sum_without(result.missing, all.size(), i)) ++wrong;
    if (result.missing != missing) {
      missing = result.missing;
      std::printf("rank %d: iteration %lld: without rank %s from here on\n", me, static_cast<long long>(i),
                  text_of(missing).c_str());
      std::fflush(stdout);
    }
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::printf("rank %d: %lld sums in %.2f s, %lld wrong, %zu of %d ranks failed\n", me,
              static_cast<long long>(iterations), elapsed.count(), static_cast<long long>(wrong), missing.size(),
              all.size());
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argument_count, char** arguments) {
  std::int64_t iterations = default_iterations;
  if (argument_count > 1) {
    const char* end = arguments[1] + std::strlen(arguments[1]);
    const auto [stop, problem] = std::from_chars(arguments[1], end, iterations);
    if (argument_count > 2 || problem != std::errc() || stop != end || iterations < 0) {
      std::fprintf(stderr, "usage: allreduce_loop [iterations]\n");
      return 2;
    }
  }
  try {
    return run(iterations);
  } catch (const ucft::Error& error) {
    std::fprintf(stderr, "allreduce_loop: %s\n", error.what());
    return 1;
  }
}
