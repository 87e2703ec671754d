// The vector of the study of exact sums, the sums that a program makes of a part of it, and how the study measures:
// for exact_sums_kernel (ucft, threads) and mpi_exact_sums.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ucft::bench {

using Numbers = std::span<const double>;

// Number i of the vector, between -1 and 1, by a hash of i (SplitMix64): the vector does not depend on its cut.
inline double number_at(std::uint64_t i) {
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>(static_cast<std::int64_t>(x ^ (x >> 31))) * 0x1p-63;
}
inline std::uint64_t begin_of(int part, int parts, std::uint64_t elements) {
  return elements * static_cast<std::uint64_t>(part) / static_cast<std::uint64_t>(parts);
}
inline std::vector<double> part_of(int part, int parts, std::uint64_t elements) {
  const std::uint64_t first = begin_of(part, parts, elements), end = begin_of(part + 1, parts, elements);
  std::vector<double> numbers(end - first);
  for (std::uint64_t i = first; i < end; ++i) numbers[i - first] = number_at(i);
  return numbers;
}

// One after the other: each addition waits for the one before.
inline double sum_in_order(Numbers numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number;
  return sum;
}
// In 16 lanes, as a compiler with -ffast-math would: as fast as memory.
inline double sum_in_lanes(Numbers numbers) {
  constexpr std::size_t lanes = 16;
  double sums[lanes] = {}, sum = 0;
  std::size_t i = 0;
  for (; i + lanes <= numbers.size(); i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += numbers[i + lane];
  for (; i < numbers.size(); ++i) sum += numbers[i];
  for (const double each : sums) sum += each;
  return sum;
}

// The times and bits of one way in several turns.
class Turns {
 public:
  explicit Turns(std::string way) : way_(std::move(way)) {}

  // sum(): the sum of all numbers.
  template <class Sum>
  void take(Sum sum) {
    const auto begin = std::chrono::steady_clock::now();
    const double value = sum();
    seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    bits_.insert(std::bit_cast<std::uint64_t>(value));
  }
  // A line of JSON: seconds, and the bits that turns have had, in order.
  void print(int parts) {
    std::sort(seconds_.begin(), seconds_.end());
    std::string all;
    for (const std::uint64_t each : bits_) all += fmt::format("{}\"{:016x}\"", all.empty() ? "" : ", ", each);
    fmt::print(
        "{{\"way\": \"{}\", \"parts\": {}, \"turns\": {}, \"median_s\": {:.6f}, \"lowest_s\": {:.6f}, "
        "\"highest_s\": {:.6f}, \"bits\": [{}]}}\n",
        way_, parts, seconds_.size(), seconds_[seconds_.size() / 2], seconds_.front(), seconds_.back(), all);
  }

 private:
  std::string way_;
  std::vector<double> seconds_;
  std::set<std::uint64_t> bits_;
};

}  // namespace ucft::bench
