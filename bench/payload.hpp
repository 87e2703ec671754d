// What each rank puts into an operation, so that the result tells whose values are in it.
//
// The values repeat after 1021 elements (a prime: a block that ends up in the wrong place of a power of two shows), and
// change with every operation (a stale result shows). For sums, each rank has its own digit:
//
//   4 ranks, 16 bits per digit; rank r gives 2^(16 r) * scale, with an odd scale for each operation and position.
//   Result / scale = 0x0001'0000'0001'0001: ranks 0, 1 and 3 are in it once each, rank 2 is not.
//
// Division is exact: by the inverse modulo 2^64, or in floating point because all numbers are small integers. With too
// many ranks for a digit each (64 / n bits, in a double 37 / n), and for other operators, the result is computed from
// the list of missing ranks that the library reports.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "ucft/ucft.hpp"

namespace ucft::detail::bench {

// The finaliser of SplitMix64: every bit of x changes half of the bits.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Modulo 2^64, of an odd number. Each step doubles the number of right bits: 3, 6, 12, 24, 48, 96.
inline std::uint64_t inverse_of(std::uint64_t odd) {
  std::uint64_t inverse = odd;  // odd * odd = 1 modulo 8
  for (int step = 0; step < 5; ++step) inverse *= 2 - odd * inverse;
  return inverse;
}

inline constexpr std::size_t period_elements = 1021;

template <Element T>
class Payload {
 public:
  Payload(ucft_op_t op, int rank_count) : op_(op == UCFT_USER ? UCFT_SUM : op), rank_count_(rank_count) {
    const int digits_bits = std::integral<T> ? 8 * int{sizeof(T)} : std::numeric_limits<T>::digits - scale_bits();
    digit_bits_ = op_ == UCFT_SUM ? std::min(digits_bits / rank_count, 16) : 0;
  }

  // Element `position` (below period_elements) of that rank in that operation.
  T contribution(int rank, std::uint64_t operation, std::size_t position) const {
    const std::uint64_t noise = mix(operation * period_elements + position);
    if (op_ == UCFT_SUM) return static_cast<T>(unit(rank) * scale(noise));
    const std::uint64_t own_noise = mix(noise + static_cast<std::uint64_t>(rank));
    if (op_ != UCFT_PROD) return static_cast<T>(static_cast<T>(own_noise >> 48) - static_cast<T>(lowest));
    if constexpr (std::integral<T>) return static_cast<T>(own_noise | 1);
    return factor(rank, own_noise);
  }

  // The operation over all ranks but `missing` (ascending).
  T combined(std::uint64_t operation, std::size_t position, std::span<const std::int32_t> missing) const {
    std::optional<T> sum;
    std::size_t next_missing = 0;
    for (int rank = 0; rank < rank_count_; ++rank) {
      if (next_missing < missing.size() && missing[next_missing] == rank) {
        ++next_missing;
        continue;
      }
      const T value = contribution(rank, operation, position);
      sum = sum ? combine(*sum, value) : value;
    }
    return sum.value_or(T{});
  }

  bool has_digits() const { return digit_bits_ > 0; }

  // The ranks that are not in element 0 of a sum, if each of the others is in it exactly once. Needs has_digits().
  std::optional<std::vector<std::int32_t>> missing_in(T first_element, std::uint64_t operation) const {
    auto digits = divide(first_element, scale(mix(operation * period_elements)));
    if (!digits) return std::nullopt;
    std::vector<std::int32_t> missing;
    for (int rank = 0; rank < rank_count_; ++rank) {
      const std::uint64_t digit = *digits & ((std::uint64_t{1} << digit_bits_) - 1);
      *digits >>= digit_bits_;
      if (digit > 1) return std::nullopt;
      if (digit == 0) missing.push_back(rank);
    }
    if (*digits != 0) return std::nullopt;
    return missing;
  }

 private:
  using Unsigned = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using Arithmetic = std::conditional_t<std::integral<T>, Unsigned, T>;  // wraps around, or is exact
  static constexpr int lowest = std::unsigned_integral<T> ? 0 : 32768;

  Arithmetic unit(int rank) const {
    return static_cast<Arithmetic>(digit_bits_ > 0 ? std::uint64_t{1} << (digit_bits_ * rank)
                                                   : static_cast<std::uint64_t>(rank) + 1);
  }

  // Odd. In floating point small enough for all sums to be exact: a float has 24 bits, 1023 * (1+2+..+180) needs 24.
  Arithmetic scale(std::uint64_t noise) const {
    if constexpr (std::integral<T>) return static_cast<Unsigned>(noise | 1);
    return static_cast<Arithmetic>((noise >> (64 - scale_bits())) | 1);
  }
  int scale_bits() const { return std::same_as<T, double> ? 16 : rank_count_ <= 180 ? 10 : 3; }

  // Of a floating-point product that is exact and in range, whoever is missing: 1, 3, 5 or 7 for the first 8 ranks
  // (3 of 24 bits each), times a power of two, whose exponents add up to at most 120.
  T factor(int rank, std::uint64_t noise) const {
    const int largest = 120 / rank_count_;
    const int exponent = static_cast<int>(noise % static_cast<std::uint64_t>(2 * largest + 1)) - largest;
    return std::ldexp(static_cast<T>(rank < 8 ? 1 + 2 * (noise >> 62) : 1), exponent);
  }

  static std::optional<std::uint64_t> divide(T value, Arithmetic divisor) {
    if constexpr (std::integral<T>) {
      return static_cast<Unsigned>(static_cast<Unsigned>(value) * static_cast<Unsigned>(inverse_of(divisor)));
    } else {
      const T quotient = value / divisor;
      constexpr T limit = static_cast<T>(std::uint64_t{1} << std::numeric_limits<T>::digits);
      if (!(quotient >= 0 && quotient < limit && std::trunc(quotient) == quotient)) return std::nullopt;
      return static_cast<std::uint64_t>(quotient);
    }
  }

  T combine(T left, T right) const {
    if (op_ == UCFT_MIN) return std::min(left, right);
    if (op_ == UCFT_MAX) return std::max(left, right);
    const auto a = static_cast<Arithmetic>(left);
    const auto b = static_cast<Arithmetic>(right);
    return static_cast<T>(op_ == UCFT_SUM ? a + b : a * b);
  }

  ucft_op_t op_;
  int rank_count_;
  int digit_bits_ = 0;
};

}  // namespace ucft::detail::bench
