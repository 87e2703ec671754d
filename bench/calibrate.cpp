#include "bench/calibrate.hpp"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

namespace ucft::detail::bench {

namespace {

double now_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double part_of(std::vector<double> values, double part) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(values.size()) * part);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

struct Series {
  double quiet = 1e300, middle = 1e300;
};

class Pair {
 public:
  explicit Pair(Communicator& pair) : pair_(pair) {
    alone_.f = 0;
    alone_.tree = UCFT_TREE_FLAT;
  }

  Series round_trip(std::size_t bytes, int iterations) {
    std::vector<std::uint64_t> values(bytes / sizeof(std::uint64_t), 1);
    std::vector<double> times;
    for (int i = 0; i < iterations; ++i) {
      const double begin = now_us();
      pair_.allreduce(values, Operator(UCFT_SUM), alone_);
      times.push_back(now_us() - begin);
    }
    return {part_of(times, 0.1), part_of(times, 0.5)};
  }
  // `count` broadcasts in a row: the root's time, or that of a receiver who comes when all have arrived.
  double broadcasts(int count, int iterations) {
    std::vector<double> times;
    for (int i = 0; i < iterations; ++i) {
      pair_.barrier(alone_);
      if (pair_.rank() != 0)
        for (const double end = now_us() + 100; now_us() < end;) {}
      const double begin = now_us();
      for (int k = 0; k < count; ++k) pair_.broadcast(one_, 0, alone_);
      times.push_back(now_us() - begin);
    }
    return part_of(times, 0.1);
  }

 private:
  Communicator& pair_;
  Options alone_;
  std::vector<std::uint64_t> one_{1};
};

}  // namespace

Calibration calibrate(Communicator& world) {
  const bool taking_part = world.rank() == 0 || world.rank() == world.size() - 1;
  Communicator both = world.split(taking_part ? 0 : -1);
  Calibration found;
  if (!both.null()) {
    Pair pair(both);
    pair.round_trip(8, 2000);  // warm
    Series small_series;
    double medium = 1e300, large = 1e300, once = 1e300, thrice = 1e300;
    for (int i = 0; i < 5; ++i) {
      const Series series = pair.round_trip(8, 4000);
      small_series = {std::min(small_series.quiet, series.quiet), std::min(small_series.middle, series.middle)};
      medium = std::min(medium, pair.round_trip(1 << 16, 100).quiet);
      large = std::min(large, pair.round_trip(1 << 20, 40).quiet);
      once = std::min(once, pair.broadcasts(1, 1000));
      thrice = std::min(thrice, pair.broadcasts(3, 1000));
    }
    const double small = small_series.quiet;
    found.disturbance = small_series.middle / small - 1;
    std::vector<double> receive = {both.rank() == 0 ? 0 : once};
    both.allreduce(receive, Operator(UCFT_MAX));
    found.send_overhead = once;
    found.receive_overhead = receive[0];
    found.gap = std::max(0.0, (thrice - once) / 2);
    found.latency = std::max(0.0, small / 2 - found.send_overhead - found.receive_overhead);
    found.gap_per_byte = std::max(0.0, (large - medium) / 2 / ((1 << 20) - (1 << 16)));
  }
  std::vector<double> values = {found.latency, found.send_overhead, found.receive_overhead,
                                found.gap,     found.gap_per_byte,  found.disturbance};
  world.broadcast(values, 0);
  return {values[0], values[1], values[2], values[3], values[4], values[5]};
}

bool write_model(const std::string& path, const Calibration& found, int ranks, std::string& error) {
  const std::string beside = path + ".new";
  const auto fail = [&] {
    error = fmt::format("{}: {}", path, std::strerror(errno));
    std::remove(beside.c_str());
    return false;
  };
  std::FILE* file = std::fopen(beside.c_str(), "w");
  if (file == nullptr) return fail();
  const std::string text = fmt::format(
      "# ucft_perftest --calibrate: between ranks 0 and {} of {}. us. Disturbance {:.2g}\nL {:.4g}\no_send "
      "{:.4g}\no_receive {:.4g}\ng {:.4g}\nG {:.4g}\n",
      ranks - 1, ranks, found.disturbance, found.latency, found.send_overhead, found.receive_overhead, found.gap,
      found.gap_per_byte);
  const bool written = std::fputs(text.c_str(), file) >= 0;
  if (std::fclose(file) != 0 || !written) return fail();
  return std::rename(beside.c_str(), path.c_str()) == 0 || fail();
}

}  // namespace ucft::detail::bench
