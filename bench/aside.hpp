// The steps of a measurement between the operations that are measured. They go over ucft itself.
#pragma once

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ucft/ucft.hpp"

namespace ucft::detail::bench {

// All learn so long before a rank kills itself that it will.
inline constexpr std::int64_t notice_before_death_ns = 1'000'000;

inline void sleep_until(std::int64_t moment_ns) {
  const timespec moment{.tv_sec = moment_ns / 1'000'000'000, .tv_nsec = moment_ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, nullptr) == EINTR) {}
}

// A status that no planned death explains. The others take this rank's end as a failure and go on.
[[noreturn]] inline void give_up(int rank, const std::string& what, ucft_status_t status) {
  fmt::print(stderr, "ucft_perftest: rank {}: {}: {}: {}\n", rank, what, ucft_status_name(status), ucft_last_error());
  std::fflush(nullptr);
  std::_Exit(1);
}

class Aside {
 public:
  // world: as it is at each call.
  Aside(Communicator& world, int f, std::size_t planned_deaths) : world_(world) {
    options_.f = std::min(std::max(f, static_cast<int>(planned_deaths)), world.size() - 1);
  }

  Result barrier() {
    return until_decided("the barrier between iterations", [&] { return world_.barrier(options_); });
  }
  template <class T>
  Result allreduce(std::vector<T>& values, ucft_op_t op) {
    return until_decided("the allreduce of statistics", [&] { return world_.allreduce(values, op, options_); });
  }
  // last: the latest result. The lowest rank that was in it prints. Should it die meanwhile, the next one does.
  template <class Print>
  void print_once(Result last, Print print) {
    int printed_by = -1;
    for (int attempt = 0; attempt < world_.size(); ++attempt) {
      const int printer = lowest_survivor(last);
      if (printer == printed_by) break;  // it has contributed to a barrier after it printed
      if (printer == world_.rank()) print(last);
      printed_by = printer;
      last = barrier();
    }
  }

 private:
  static int lowest_survivor(const Result& result) {
    int rank = 0;
    for (const std::int32_t missing : result.missing) rank += missing == rank ? 1 : 0;
    return rank;
  }

  // All survivors agree that there were too many failures. So they agree on the repetition, which goes without the
  // ranks that failed.
  template <class Operation>
  Result until_decided(const char* what, Operation operation) {
    Result result = operation();
    for (int attempt = 1; attempt < world_.size() && result.status == UCFT_ERR_TOO_MANY_FAILURES; ++attempt) {
      result = operation();
    }
    if (!result.ok()) give_up(world_.rank(), what, result.status);
    return result;
  }

  Communicator& world_;
  Options options_;
};

}  // namespace ucft::detail::bench
