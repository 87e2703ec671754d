// The result of every operator on every type, one element at a time and as plainly as can be: for the unit tests, and
// for ranks that check their results. Shares nothing with collectives/reduction but the numbers of types and operators.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "tests/exact_sum.hpp"
#include "ucft/elements.hpp"

namespace ucft::detail::test {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <class T>
inline constexpr bool is_complex = false;
template <class Real>
inline constexpr bool is_complex<std::complex<Real>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class Value, class Location>
inline constexpr bool is_pair<located<Value, Location>> = true;
template <class T>
inline constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class T>
inline constexpr bool is_real = std::is_floating_point_v<T>;

inline bool is_reproducible(ucft_op_t op) { return op == UCFT_SUM_REPRODUCIBLE || op == UCFT_AVG_REPRODUCIBLE; }
inline bool is_average(ucft_op_t op) { return op == UCFT_AVG || op == UCFT_AVG_REPRODUCIBLE; }

// Calls action(T{}).
template <class Action>
void with_type(int dtype, Action action) {
  switch (dtype) {
    case UCFT_FLOAT: return action(float{});
    case UCFT_DOUBLE: return action(double{});
    case UCFT_INT8: return action(std::int8_t{});
    case UCFT_INT16: return action(std::int16_t{});
    case UCFT_INT32: return action(std::int32_t{});
    case UCFT_INT64: return action(std::int64_t{});
    case UCFT_UINT8: return action(std::uint8_t{});
    case UCFT_UINT16: return action(std::uint16_t{});
    case UCFT_UINT32: return action(std::uint32_t{});
    case UCFT_UINT64: return action(std::uint64_t{});
    case UCFT_FLOAT16: return action(float16{});
    case UCFT_BFLOAT16: return action(bfloat16{});
    case UCFT_COMPLEX_FLOAT: return action(std::complex<float>{});
    case UCFT_COMPLEX_DOUBLE: return action(std::complex<double>{});
    case UCFT_BOOL: return action(bool{});
    case UCFT_FLOAT_INT32: return action(located<float, std::int32_t>{});
    case UCFT_DOUBLE_INT32: return action(located<double, std::int32_t>{});
    case UCFT_INT32_INT32: return action(located<std::int32_t, std::int32_t>{});
    case UCFT_INT64_INT64: return action(located<std::int64_t, std::int64_t>{});
    case UCFT_DOUBLE_INT64: return action(located<double, std::int64_t>{});
  }
}

// An element as it lies in memory: a bool that is 7, and padding, can be told. Bytes behind the element are 0.
struct Element {
  unsigned char bytes[16] = {};

  template <class T>
  static Element of(const T& value) {
    Element element;
    if constexpr (std::is_same_v<T, located<double, std::int32_t>>) {
      std::memcpy(element.bytes, &value.value, sizeof(double));
      std::memcpy(element.bytes + sizeof(double), &value.location, sizeof(std::int32_t));
    } else {
      std::memcpy(element.bytes, &value, sizeof(T));
    }
    return element;
  }
  template <class T>
  T as() const {
    T value{};
    if constexpr (std::is_same_v<T, bool>)
      value = bytes[0] != 0;
    else
      std::memcpy(&value, bytes, sizeof(T));
    return value;
  }
  bool operator==(const Element&) const = default;
};

// ---- halves, by what they mean --------------------------------------------------------------------------------------

template <class Half>
struct FormatOf {
  static constexpr bool is_ieee = std::is_same_v<Half, float16>;
  static constexpr int mantissa_bits = is_ieee ? 10 : 7, bias = is_ieee ? 15 : 127;
  static constexpr int infinity = is_ieee ? 0x7c00 : 0x7f80, quiet_nan = is_ieee ? 0x7e00 : 0x7fc0;
};

template <class Half>
double meaning(Half half) {
  using Format = FormatOf<Half>;
  const int magnitude = half.bits & 0x7fff, exponent = magnitude >> Format::mantissa_bits;
  const int mantissa = magnitude & ((1 << Format::mantissa_bits) - 1), sign = half.bits >= 0x8000 ? -1 : 1;
  if (magnitude > Format::infinity) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == Format::infinity) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - Format::bias - Format::mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << Format::mantissa_bits), exponent - Format::bias - Format::mantissa_bits);
}

// Of all halves the nearest; of two as near, the even one. What would come after the greatest stands for infinity.
template <class Half>
Half nearest(double value) {
  using Format = FormatOf<Half>;
  static const std::vector<double> all = [] {
    std::vector<double> found;
    for (int bits = 0; bits < Format::infinity; ++bits) {
      Half half;
      half.bits = static_cast<std::uint16_t>(bits);
      found.push_back(meaning(half));
    }
    found.push_back(std::ldexp(1, Format::bias + 1));
    return found;
  }();
  Half result;
  const double magnitude = std::abs(value);
  auto above = std::upper_bound(all.begin(), all.end(), magnitude);
  if (above == all.end()) --above;
  std::size_t place = static_cast<std::size_t>(above - all.begin());
  const double down = magnitude - all[place - 1], up = all[place] - magnitude;
  if (down < up || (down == up && place % 2 != 0)) --place;
  result.bits = static_cast<std::uint16_t>(std::isnan(value) ? static_cast<std::size_t>(Format::quiet_nan)
                                                             : place + (std::signbit(value) ? 0x8000u : 0u));
  return result;
}

// ---- one with another -----------------------------------------------------------------------------------------------

template <class T>
bool is_nan(const T& value) {
  if constexpr (is_half<T>)
    return std::isnan(meaning(value));
  else if constexpr (is_real<T>)
    return std::isnan(value);
  else
    return false;
}
template <class T>
T the_nan() {
  if constexpr (is_half<T>)
    return nearest<T>(std::numeric_limits<double>::quiet_NaN());
  else
    return std::numeric_limits<T>::quiet_NaN();
}
// Neither is a NaN.
template <class T>
bool is_before(const T& a, const T& b) {
  if constexpr (is_half<T>)
    return is_before(meaning(a), meaning(b));
  else if constexpr (is_real<T>)
    return a < b || (a == b && std::signbit(a) && !std::signbit(b));
  else
    return a < b;
}

template <class T>
T extreme(bool least, const T& a, const T& b) {
  if (is_nan(a) || is_nan(b)) {
    if constexpr (is_half<T> || is_real<T>) return the_nan<T>();
  }
  return (least ? is_before(b, a) : is_before(a, b)) ? b : a;
}

template <class Pair>
Pair extreme_pair(bool least, const Pair& a, const Pair& b) {
  Pair result;
  const auto value = extreme(least, a.value, b.value);
  const auto has = [&](const Pair& pair) {
    if (is_nan(value)) return is_nan(pair.value);
    return !is_nan(pair.value) && !is_before(value, pair.value) && !is_before(pair.value, value);
  };
  result.value = value;
  result.location = has(a) && has(b) ? std::min(a.location, b.location) : has(a) ? a.location : b.location;
  return result;
}

template <class Integer>
Integer wrapped(unsigned __int128 value) {
  return static_cast<Integer>(static_cast<std::make_unsigned_t<Integer>>(value));
}

// Two carriers. A half is never the carrier of a sum, a product or an average.
template <class T>
T plain(ucft_op_t op, const T& a, const T& b) {
  if constexpr (is_pair<T>) {
    return extreme_pair(op == UCFT_MINLOC, a, b);
  } else if constexpr (is_half<T>) {
    return extreme(op == UCFT_MIN, a, b);
  } else if constexpr (is_real<T>) {
    if (op == UCFT_MIN || op == UCFT_MAX) return extreme(op == UCFT_MIN, a, b);
    return op == UCFT_PROD ? a * b : a + b;
  } else if constexpr (is_complex<T>) {
    if (op != UCFT_PROD) return {a.real() + b.real(), a.imag() + b.imag()};
    volatile typename T::value_type products[4] = {a.real() * b.real(), a.imag() * b.imag(), a.real() * b.imag(),
                                                   a.imag() * b.real()};
    return {products[0] - products[1], products[2] + products[3]};
  } else {
    switch (op) {
      case UCFT_LAND: return a != 0 && b != 0;
      case UCFT_LOR: return a != 0 || b != 0;
      case UCFT_LXOR: return (a != 0) != (b != 0);
      case UCFT_BAND: return static_cast<T>(a & b);
      case UCFT_BOR: return static_cast<T>(a | b);
      case UCFT_BXOR: return static_cast<T>(a ^ b);
      case UCFT_MIN:
      case UCFT_MAX: return extreme(op == UCFT_MIN, a, b);
      default: break;
    }
    if constexpr (is_integer<T>) {
      const auto wide_a = static_cast<unsigned __int128>(a), wide_b = static_cast<unsigned __int128>(b);
      return wrapped<T>(op == UCFT_PROD ? wide_a * wide_b : wide_a + wide_b);
    }
    return a;
  }
}

template <class Real>
Real exact_sum(const std::vector<Real>& values) {
  Exact sum;
  for (const Real value : values) sum.add(static_cast<double>(value));
  return sum.rounded<Real>();
}

// The whole operation over those values, of which there is one at least.
template <class T>
T plain_result(ucft_op_t op, const std::vector<T>& values) {
  if constexpr (is_half<T>) {
    if (op == UCFT_SUM || op == UCFT_PROD || op == UCFT_AVG) {
      std::vector<float> carriers;
      for (const T& each : values) carriers.push_back(static_cast<float>(meaning(each)));
      return nearest<T>(static_cast<double>(plain_result(op, carriers)));
    }
  }
  T all = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) all = plain(op, all, values[i]);
  if constexpr (is_real<T>)
    if (is_reproducible(op)) all = exact_sum(values);
  if constexpr (is_real<T>) {
    if (is_average(op)) all = all / static_cast<T>(values.size());
  } else if constexpr (is_complex<T>) {
    using Part = typename T::value_type;
    const auto n = static_cast<Part>(values.size());
    if (op == UCFT_AVG) all = {all.real() / n, all.imag() / n};
  } else if constexpr (is_integer<T>) {
    if (op == UCFT_LAND || op == UCFT_LOR || op == UCFT_LXOR) all = all != 0;
  } else if constexpr (is_pair<T>) {
    all = extreme_pair(op == UCFT_MINLOC, all, all);
  }
  return all;
}

// ---- values ---------------------------------------------------------------------------------------------------------

// Of sums, products and averages any order of few ranks gives the same, and no rounding but the last; halves' sums need
// it. But of reproducible ones, of which no bit is below those that are kept.
template <class T>
Element drawn(ucft_op_t op, std::mt19937_64& random) {
  const bool sums = op == UCFT_SUM || op == UCFT_SUM_REPRODUCIBLE || is_average(op);
  const auto small = [&]() -> double {
    const auto number = static_cast<double>(static_cast<std::int64_t>(random() % 401) - 200);
    if (sums) return number * static_cast<double>(1 << random() % 4);
    return std::ldexp(random() % 2 == 0 ? 1 : -3, static_cast<int>(random() % 3) - 1);
  };
  const auto special = [&]() -> double {
    static constexpr double values[] = {0.0, -0.0, 1, -1, 2, 1e4, HUGE_VAL, -HUGE_VAL};
    const auto which = random() % 40;
    return which == 39 ? -std::numeric_limits<double>::quiet_NaN() : values[which % 8];
  };
  const bool orders = op == UCFT_MIN || op == UCFT_MAX || op == UCFT_MINLOC || op == UCFT_MAXLOC;
  const auto real = [&] { return orders && random() % 2 == 0 ? special() : small(); };
  Element element;
  if constexpr (is_half<T>) {
    element = Element::of(nearest<T>(real()));
  } else if constexpr (is_real<T>) {
    const int powers = static_cast<int>(random() % (sizeof(T) == 8 ? 57 : 16));
    element = Element::of(static_cast<T>(is_reproducible(op) ? std::ldexp(small(), powers) : real()));
  } else if constexpr (is_complex<T>) {
    using Part = typename T::value_type;
    element = Element::of(T(static_cast<Part>(small()), static_cast<Part>(small())));
  } else if constexpr (std::is_same_v<T, bool>) {
    static constexpr unsigned char bytes[] = {0, 1, 2, 0xff};
    element.bytes[0] = bytes[random() % 4];
  } else if constexpr (is_pair<T>) {
    T pair;
    if constexpr (is_real<decltype(pair.value)>)
      pair.value = static_cast<decltype(pair.value)>(special());
    else
      pair.value = static_cast<decltype(pair.value)>(random() % 5) - 2;
    pair.location = static_cast<decltype(pair.location)>(random() % 9) - 4;
    element = Element::of(pair);
    if (sizeof(pair.value) + sizeof(pair.location) < sizeof(T))
      for (std::size_t i = sizeof(pair.value) + sizeof(pair.location); i < sizeof(T); ++i)
        element.bytes[i] = static_cast<unsigned char>(random());
  } else {
    element = Element::of(random() % 4 == 0 ? T{} : static_cast<T>(random()));
  }
  return element;
}

}  // namespace ucft::detail::test
