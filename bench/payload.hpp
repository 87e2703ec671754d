// The values that each rank puts into an operation. The result tells whose values are in it.
//
// The values repeat after 1021 elements. That is a prime, so a block that ends up in the wrong place of a power of two
// shows. They change with every operation, so a stale result shows. For sums, each rank has its own digit:
//
//   4 ranks, 16 bits per digit; rank r gives 2^(16 r) * scale, with an odd scale for each operation and position.
//   Result / scale = 0x0001'0000'0001'0001: ranks 0, 1 and 3 are in it once each, rank 2 is not.
//
// Division is exact: by the inverse modulo 2^64, or in floating point because all numbers are small integers. A digit
// has 64 / n bits, in a double 37 / n. There are no digits with too many ranks for that, with some types (halves,
// complex, bool, pairs), and with other operators. Then the result is computed from the list of missing ranks that the
// library reports. All sums and products are exact in the type that accumulates them, so the order of the ranks is of
// no importance.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
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

template <class T>
concept Half = std::same_as<T, float16> || std::same_as<T, bfloat16>;
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;
template <class T>
inline constexpr bool is_complex = false;
template <class Real>
inline constexpr bool is_complex<std::complex<Real>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class Value, class Location>
inline constexpr bool is_pair<located<Value, Location>> = true;

// In which results are computed: integers wrap around, all else is exact.
template <class T>
struct ArithmeticOf {
  using Type = T;
};
template <Half T>
struct ArithmeticOf<T> {
  using Type = float;
};
template <Integer T>
struct ArithmeticOf<T> {  // shorter ones would become int
  using Type = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
};
template <class T>
using Arithmetic = typename ArithmeticOf<T>::Type;

template <Element T>
class Payload {
 public:
  Payload(ucft_op_t op, int rank_count) : op_(op == UCFT_USER ? UCFT_SUM : op), rank_count_(rank_count) {
    if (op_ != UCFT_SUM) return;
    if constexpr (Integer<T>) digit_bits_ = std::min(8 * int{sizeof(T)} / rank_count, 16);
    if constexpr (std::floating_point<T>)
      digit_bits_ = std::min((std::numeric_limits<T>::digits - scale_bits()) / rank_count, 16);
  }

  // Element `position` (below period_elements) of that rank in that operation.
  T contribution(int rank, std::uint64_t operation, std::size_t position) const {
    const std::uint64_t noise = mix(operation * period_elements + position);
    const std::uint64_t own_noise = mix(noise + static_cast<std::uint64_t>(rank));
    if constexpr (std::same_as<T, bool>) {
      return own_noise % 4 != 0;
    } else if constexpr (is_pair<T>) {
      T pair;  // few values: there are ties
      pair.value = static_cast<decltype(pair.value)>(own_noise % 5);
      pair.location = static_cast<decltype(pair.location)>(own_noise >> 32 & 0xff);
      return pair;
    } else if constexpr (is_complex<T>) {
      using Part = typename T::value_type;
      const Payload<Part> parts(op_ == UCFT_SUM ? UCFT_AVG : op_, rank_count_);
      if (op_ == UCFT_PROD) {  // turned by a multiple of 90 degrees
        const Part length = parts.contribution(rank, operation, position);
        return own_noise % 2 == 0 ? T(length, 0) : T(0, length);
      }
      return {parts.contribution(rank, operation, position), parts.contribution(rank, operation + 1, position)};
    } else if constexpr (Integer<T>) {
      if (is_sum()) return static_cast<T>(unit(rank) * scale(noise));
      if (op_ == UCFT_PROD) return static_cast<T>(own_noise | 1);
      if (op_ == UCFT_MIN || op_ == UCFT_MAX)
        return static_cast<T>(static_cast<T>(own_noise >> 48) - static_cast<T>(lowest));
      return own_noise % 4 == 0 ? T{} : static_cast<T>(own_noise);  // logical and bitwise ones
    } else {
      if (is_sum()) return static_cast<T>(unit(rank) * scale(noise));
      if (op_ == UCFT_PROD) return static_cast<T>(factor(rank, own_noise));
      return static_cast<T>(static_cast<Arithmetic<T>>(own_noise >> 48) - static_cast<Arithmetic<T>>(lowest));
    }
  }

  // The operation over all ranks but `missing` (ascending).
  T combined(std::uint64_t operation, std::size_t position, std::span<const std::int32_t> missing) const {
    std::optional<Arithmetic<T>> sum;
    std::size_t next_missing = 0;
    for (int rank = 0; rank < rank_count_; ++rank) {
      if (next_missing < missing.size() && missing[next_missing] == rank) {
        ++next_missing;
        continue;
      }
      const T value = contribution(rank, operation, position);
      sum = sum ? combine(*sum, static_cast<Arithmetic<T>>(value)) : static_cast<Arithmetic<T>>(value);
    }
    const auto contributors = static_cast<std::size_t>(rank_count_) - missing.size();
    return sum ? finished(*sum, contributors) : T{};
  }

  bool has_digits() const { return digit_bits_ > 0; }

  // The ranks that are not in element 0 of a sum, if each of the others is in it exactly once. Needs has_digits().
  std::optional<std::vector<std::int32_t>> missing_in(T first_element, std::uint64_t operation) const {
    auto digits = digits_of(first_element, mix(operation * period_elements));
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
  static constexpr int lowest = std::unsigned_integral<T> ? 0 : 32768;

  bool is_average() const { return op_ == UCFT_AVG || op_ == UCFT_AVG_REPRODUCIBLE; }
  bool is_sum() const { return op_ == UCFT_SUM || op_ == UCFT_SUM_REPRODUCIBLE || is_average(); }

  Arithmetic<T> unit(int rank) const {
    return static_cast<Arithmetic<T>>(digit_bits_ > 0 ? std::uint64_t{1} << (digit_bits_ * rank)
                                                      : static_cast<std::uint64_t>(rank) + 1);
  }

  // Odd. In floating point small enough for all sums to be exact: a float has 24 bits, 1023 * (1+2+..+180) needs 24.
  Arithmetic<T> scale(std::uint64_t noise) const {
    if constexpr (Integer<T>) return static_cast<Arithmetic<T>>(noise | 1);
    return static_cast<Arithmetic<T>>((noise >> (64 - scale_bits())) | 1);
  }
  int scale_bits() const { return std::same_as<T, double> ? 16 : Half<T> || rank_count_ > 180 ? 3 : 10; }

  // Of a floating-point product that is exact and in range, even if ranks are missing. The first 8 ranks give 1, 3, 5
  // or 7 (3 of 24 bits each), the others 1. That is times a power of two, whose exponents add up to at most 120. Those
  // of halves, whose range is smaller, add up to at most 12.
  Arithmetic<T> factor(int rank, std::uint64_t noise) const {
    const int largest = (std::same_as<T, float16> ? 12 : 120) / rank_count_;
    const int exponent = static_cast<int>(noise % static_cast<std::uint64_t>(2 * largest + 1)) - largest;
    return std::ldexp(static_cast<Arithmetic<T>>(rank < 8 ? 1 + 2 * (noise >> 62) : 1), exponent);
  }

  // Of a sum of digits times scale.
  std::optional<std::uint64_t> digits_of(T value, std::uint64_t noise) const {
    if constexpr (Integer<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<Unsigned>(static_cast<Arithmetic<T>>(value) *
                                   static_cast<Arithmetic<T>>(inverse_of(scale(noise))));
    } else if constexpr (std::floating_point<T>) {
      const T quotient = value / scale(noise);
      constexpr T limit = static_cast<T>(std::uint64_t{1} << std::numeric_limits<T>::digits);
      if (!(quotient >= 0 && quotient < limit && std::trunc(quotient) == quotient)) return std::nullopt;
      return static_cast<std::uint64_t>(quotient);
    } else {
      return std::nullopt;
    }
  }

  Arithmetic<T> combine(Arithmetic<T> a, Arithmetic<T> b) const {
    if constexpr (is_pair<T>) {
      if (a.value == b.value) return a.location < b.location ? a : b;
      return (a.value < b.value) == (op_ == UCFT_MINLOC) ? a : b;
    } else if constexpr (is_complex<T>) {
      if (op_ != UCFT_PROD) return a + b;
      return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
    } else if constexpr (std::same_as<T, bool> || Integer<T>) {
      return combine_integers(a, b);
    } else {
      return op_ == UCFT_MIN ? std::min(a, b) : op_ == UCFT_MAX ? std::max(a, b) : op_ == UCFT_PROD ? a * b : a + b;
    }
  }
  Arithmetic<T> combine_integers(Arithmetic<T> a, Arithmetic<T> b) const {
    const bool a_first = static_cast<T>(a) < static_cast<T>(b);
    switch (op_) {
      case UCFT_PROD: return static_cast<Arithmetic<T>>(a * b);
      case UCFT_MIN: return a_first ? a : b;
      case UCFT_MAX: return a_first ? b : a;
      case UCFT_LAND: return a != 0 && b != 0;
      case UCFT_LOR: return a != 0 || b != 0;
      case UCFT_LXOR: return (a != 0) != (b != 0);
      case UCFT_BAND: return static_cast<Arithmetic<T>>(a & b);
      case UCFT_BOR: return static_cast<Arithmetic<T>>(a | b);
      case UCFT_BXOR: return static_cast<Arithmetic<T>>(a ^ b);
      default: return static_cast<Arithmetic<T>>(a + b);
    }
  }

  T finished(Arithmetic<T> value, std::size_t contributors) const {
    if constexpr (std::same_as<T, bool> || Integer<T>) {
      const bool is_logical = op_ == UCFT_LAND || op_ == UCFT_LOR || op_ == UCFT_LXOR;
      return is_logical ? static_cast<T>(value != 0) : static_cast<T>(value);
    } else if constexpr (is_complex<T>) {
      const auto n = static_cast<typename T::value_type>(contributors);
      return op_ == UCFT_AVG ? T(value.real() / n, value.imag() / n) : value;
    } else if constexpr (is_pair<T>) {
      return value;
    } else {
      return static_cast<T>(is_average() ? value / static_cast<Arithmetic<T>>(contributors) : value);
    }
  }

  ucft_op_t op_;
  int rank_count_;
  int digit_bits_ = 0;
};

}  // namespace ucft::detail::bench
