// core_distance: the time that a cache line takes from one core to another and back, for bench/compare. On a virtual
// machine that time changes: the host moves virtual processors between near and far cores. Between far ones small
// collectives of any library take three times as long.
#include <fmt/core.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "ucft/ucft.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int batches = 25, round_trips = 1000;

struct Line {
  alignas(64) std::atomic<std::uint64_t> word{0};
};

// False: this thread may not run there.
bool run_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

std::vector<int> usable_cpus() {
  cpu_set_t all;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
  return cpus;
}

void wait_for(const Line& line, std::uint64_t value) {
  while (line.word.load(std::memory_order_acquire) < value) {}
}

// Median over the batches, in ns.
double round_trip_ns(int here, int there) {
  constexpr std::uint64_t all = batches * round_trips;
  Line to, fro;
  std::thread echo([&] {
    run_on(there);
    for (std::uint64_t i = 1; i <= all; ++i) {
      wait_for(to, i);
      fro.word.store(i, std::memory_order_release);
    }
  });
  run_on(here);
  std::array<double, batches> times{};
  std::uint64_t done = 0;
  for (double& time : times) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < round_trips; ++i) {
      to.word.store(++done, std::memory_order_release);
      wait_for(fro, done);
    }
    time = std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / round_trips;
  }
  echo.join();
  std::nth_element(times.begin(), times.begin() + batches / 2, times.end());
  return times[batches / 2];
}

}  // namespace

int main(int argument_count, char** argument_values) {
  CLI::App app{
      "The time that a cache line takes between the first and the last core that this process may use, and back"};
  app.set_version_flag("--version", std::string("core_distance ") + UCFT_VERSION_STRING);
  bool json = false;
  app.add_flag("--json", json, "a JSON object");
  CLI11_PARSE(app, argument_count, argument_values);
  const std::vector<int> cpus = usable_cpus();
  if (cpus.size() < 2) {
    fmt::print(stderr, "core_distance: there is one core only\n");
    return 1;
  }
  const double time = round_trip_ns(cpus.front(), cpus.back());
  if (json)
    fmt::print("{{\"round_trip_ns\":{:.1f}}}\n", time);
  else
    fmt::print("{:.1f} ns between cpu {} and cpu {} and back\n", time, cpus.front(), cpus.back());
  return 0;
}
