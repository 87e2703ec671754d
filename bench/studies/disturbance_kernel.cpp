// How much slower a thread is that `ucft_perftest --slow` or `--noise` disturbs: it counts, alone, with each of the
// arguments in turn (a factor, or PERIOD:DURATION), and without. Time in which it waits for a core is taken off.
//
//   disturbance_kernel 2 10 100 1000:25
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "bench/disturbance.hpp"
#include "bench/tally.hpp"

namespace {

using namespace ucft::detail::bench;

// For a core, as the kernel counts it: the second number of schedstat.
std::int64_t waited_ns() {
  std::int64_t ran = 0, waited = 0;
  std::ifstream("/proc/thread-self/schedstat") >> ran >> waited;
  return waited;
}

// Rounds a second.
double speed() {
  constexpr std::int64_t second_ns = 1'000'000'000;
  const std::int64_t begin_ns = now_ns(), before_ns = waited_ns();
  std::int64_t rounds = 0;
  for (volatile int work = 0; now_ns() < begin_ns + second_ns; ++rounds)
    for (int i = 0; i < 100; ++i) work = work + 1;
  return static_cast<double>(rounds) / static_cast<double>(now_ns() - begin_ns - (waited_ns() - before_ns));
}

}  // namespace

int main(int count, char** texts) {
  try {
    const double plain = speed();
    for (int i = 1; i < count; ++i) {
      const std::string text = texts[i];
      Disturbances disturbances;
      if (text.find(':') == std::string::npos)
        disturbances.slow = {parse_slow("0@" + text)};
      else
        disturbances.noise = parse_noise(text);
      const Disturbed disturbed(disturbances, 0, 1);
      fmt::print("{:>12}: {:.3g} times slower\n", text, plain / speed());
    }
    fmt::print("without: from first to last {:.3g} times slower\n", plain / speed());
  } catch (const std::exception& problem) {
    fmt::print(stderr, "disturbance_kernel: {}\n", problem.what());
    return 2;
  }
  return 0;
}
