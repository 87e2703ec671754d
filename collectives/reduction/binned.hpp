// Reproducible sums: accumulators that add exactly, so that neither order nor grouping changes a bit.
//
// Source: binned (indexed) sums, Demmel and Nguyen, as in Bauer et al. (docs/algorithms.md, "Reproducible sums"). Theirs hold
// floating-point digits that must be renormalised; ours hold integers, which need not be.
//
// The bits of all numbers of a type are numbered from 0, the weight of the least subnormal one, and cut into bins of `width`
// bits. An accumulator has the sums of its numbers' digits in the `kept` highest bins that it needs, from bin `top` down. A number
// is cut by place, towards zero, whatever it is added to. So what is in a bin is an exact sum of integers; merging two
// accumulators keeps the bins of the higher one; and what was dropped on the way is below every bin that the end keeps. A
// bin overflows after 2^27 numbers.
//
//   double  {bins[3], top, marks}   bins of 36 bits
//   float   {high, low and meta}    bins of 28 bits; the low one is above 8 bits: marks and top
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "collectives/reduction/types.hpp"

namespace ucft::detail {

// What a sum has seen, as bits: numbers that are not -0 (their sum is +0 if it is 0), infinities, NaNs.
inline constexpr std::uint32_t mark_not_minus_zero = 1, mark_plus_infinity = 2, mark_minus_infinity = 4, mark_nan = 8;

template <class Real>
struct Binned;

template <>
struct Binned<double> {
  static constexpr int width = 36, kept = 3;
  std::int64_t bins[kept];  // the highest first
  std::int32_t top;
  std::uint32_t marks;
};

template <>
struct Binned<float> {
  static constexpr int width = 28, kept = 2;
  std::int64_t high;
  std::int64_t low_and_meta;  // low << 8 | marks << 4 | top
};
static_assert(sizeof(Binned<double>) == 32 && sizeof(Binned<float>) == 16);

template <class Real>
struct FormatOfReal;
template <>
struct FormatOfReal<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa_bits = 52, exponents = 2047, least = -1074;
};
template <>
struct FormatOfReal<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa_bits = 23, exponents = 255, least = -149;
};

// A number's digits: magnitude << shift, cut into bins, the lowest of which is bin top + 1 - kept.
template <class Real>
struct Cut {
  std::uint64_t magnitude;  // 0 of an infinity or a NaN
  int top, shift;
  bool is_negative;
  std::uint32_t marks;
};

template <class Real>
[[gnu::always_inline]] inline Cut<Real> cut(Real value) {
  using Format = FormatOfReal<Real>;
  const auto bits = std::bit_cast<typename Format::Bits>(value);
  const std::uint64_t fraction = bits & ((typename Format::Bits{1} << Format::mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> Format::mantissa_bits) & Format::exponents;
  const bool is_negative = bits >> (8 * sizeof bits - 1) != 0, is_finite = exponent != Format::exponents;
  const int place = exponent - (exponent != 0);  // of the mantissa's lowest bit
  const int top = is_finite ? (place + Format::mantissa_bits) / Binned<Real>::width : 0;
  Cut<Real> result;
  result.magnitude = is_finite ? fraction | std::uint64_t{exponent != 0} << Format::mantissa_bits : 0;
  result.top = top;
  result.shift = is_finite ? place - Binned<Real>::width * (top + 1 - Binned<Real>::kept) : 0;
  result.is_negative = is_negative;
  result.marks = is_finite       ? (bits << 1) == 0 && is_negative ? 0 : mark_not_minus_zero
                 : fraction != 0 ? mark_nan
                 : is_negative   ? mark_minus_infinity
                                 : mark_plus_infinity;
  return result;
}

[[gnu::always_inline]] inline Binned<double> binned(double value) {
  constexpr int width = Binned<double>::width;
  constexpr std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  const Cut<double> of = cut(value);  // shift: 20 .. 55, or 0 of nothing
  const std::int64_t sign = -std::int64_t{of.is_negative};
  const auto signed_digit = [sign](std::uint64_t digit) { return (static_cast<std::int64_t>(digit) ^ sign) - sign; };
  const unsigned __int128 wide = static_cast<unsigned __int128>(of.magnitude) << of.shift;
  return {{signed_digit(static_cast<std::uint64_t>(wide >> (2 * width))),
           signed_digit(static_cast<std::uint64_t>(wide >> width) & mask),
           signed_digit(static_cast<std::uint64_t>(wide) & mask)},
          of.top,
          of.marks};
}

[[gnu::always_inline]] inline Binned<float> binned(float value) {
  constexpr int width = Binned<float>::width;
  constexpr std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  const Cut<float> of = cut(value);  // shift: 5 .. 32, or 0 of nothing
  const std::int64_t sign = -std::int64_t{of.is_negative};
  const auto signed_digit = [sign](std::uint64_t digit) { return (static_cast<std::int64_t>(digit) ^ sign) - sign; };
  const std::uint64_t wide = of.magnitude << of.shift;
  return {signed_digit(wide >> width),
          signed_digit(wide & mask) * 256 + static_cast<std::int64_t>(of.marks << 4) + of.top};
}

// Without branches: which of two is the higher one is often chance.
[[gnu::always_inline]] inline Binned<double> merged(const Binned<double>& a, const Binned<double>& b) {
  const int down_a = b.top > a.top ? b.top - a.top : 0, down_b = a.top > b.top ? a.top - b.top : 0;
  const auto from = [](bool is, std::int64_t bin) { return bin & -std::int64_t{is}; };
  const auto shifted = [from](const Binned<double>& its, int down, std::int64_t(&to)[3]) {
    to[0] += from(down == 0, its.bins[0]);
    to[1] += from(down == 0, its.bins[1]) + from(down == 1, its.bins[0]);
    to[2] += from(down == 0, its.bins[2]) + from(down == 1, its.bins[1]) + from(down == 2, its.bins[0]);
  };
  Binned<double> sum{{0, 0, 0}, a.top > b.top ? a.top : b.top, a.marks | b.marks};
  shifted(a, down_a, sum.bins);
  shifted(b, down_b, sum.bins);
  return sum;
}

[[gnu::always_inline]] inline Binned<float> merged(const Binned<float>& a, const Binned<float>& b) {
  constexpr std::int64_t meta = 0xff, top = 0xf, marks = 0xf0;
  const std::int64_t a_top = a.low_and_meta & top, b_top = b.low_and_meta & top, higher = a_top > b_top ? a_top : b_top;
  const auto from = [](bool is, std::int64_t bin) { return bin & -std::int64_t{is}; };
  const auto low_of = [&](const Binned<float>& its, std::int64_t its_top) {
    return from(its_top == higher, its.low_and_meta & ~meta) + from(its_top + 1 == higher, its.high * 256);
  };
  return {from(a_top == higher, a.high) + from(b_top == higher, b.high),
          (low_of(a, a_top) + low_of(b, b_top)) | ((a.low_and_meta | b.low_and_meta) & marks) | higher};
}

// The sum of the digits, rounded once, to nearest, ties to even.
//
// In a 128-bit integer while the highest bin is short enough; then carried into bins that are.
template <class Real>
[[gnu::always_inline]] inline Real rounded(__int128 sum, bool is_sticky, int lowest_place) {
  // The 62 highest bits, the last of which says whether anything is behind them: more than two behind those of any Real.
  const bool is_negative = sum < 0;
  auto magnitude = static_cast<unsigned __int128>(is_negative ? -sum : sum);
  const auto upper = static_cast<std::uint64_t>(magnitude >> 62);
  int place = lowest_place;
  auto leading = static_cast<std::int64_t>(magnitude);
  if (upper != 0) {
    const int behind = 64 - std::countl_zero(upper);
    const bool has_more = (magnitude & ((static_cast<unsigned __int128>(1) << behind) - 1)) != 0;
    leading = static_cast<std::int64_t>(magnitude >> behind) | has_more;
    place += behind;
  }
  leading |= is_sticky;
  // One rounding: what is scaled into the subnormal numbers has no bit below them.
  const int exponent = place + FormatOfReal<Real>::least;
  const Real value = static_cast<Real>(is_negative ? -leading : leading);
  if constexpr (sizeof(Real) == 8) {
    if (exponent >= -1022 && exponent <= 1023)
      return value * std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
    return std::ldexp(value, exponent);
  } else {
    return static_cast<float>(std::ldexp(static_cast<double>(value), exponent));
  }
}

template <class Real>
[[gnu::always_inline]] inline Real special_or(Real sum, std::uint32_t marks) {
  constexpr std::uint32_t infinities = mark_plus_infinity | mark_minus_infinity;
  if (marks == mark_not_minus_zero) [[likely]]
    return sum;
  if (marks == 0) return Real(-0.0);
  if ((marks & mark_nan) != 0 || (marks & infinities) == infinities) return std::numeric_limits<Real>::quiet_NaN();
  if ((marks & infinities) == 0) return sum;
  const Real infinity = std::numeric_limits<Real>::infinity();
  return (marks & mark_plus_infinity) != 0 ? infinity : -infinity;
}

[[gnu::always_inline]] inline double sum_of(const Binned<double>& all) {
  constexpr int width = Binned<double>::width;
  const int lowest = width * (all.top + 1 - Binned<double>::kept);
  constexpr std::int64_t short_enough = std::int64_t{1} << 53;
  double sum;
  if (all.bins[0] > -short_enough && all.bins[0] < short_enough) [[likely]] {
    sum = rounded<double>((static_cast<__int128>(all.bins[0]) << (2 * width)) +
                              (static_cast<__int128>(all.bins[1]) << width) + all.bins[2],
                          false, lowest);
  } else {
    const __int128 lower = (static_cast<__int128>(all.bins[1]) << width) + all.bins[2];
    const bool has_more = (lower & ((std::int64_t{1} << width) - 1)) != 0;
    const __int128 upper = (static_cast<__int128>(all.bins[0]) << width) + (lower >> width);
    sum = rounded<double>(upper + (upper < 0 && has_more), has_more, lowest + width);  // cut towards zero
  }
  return special_or(sum, all.marks);
}

[[gnu::always_inline]] inline float sum_of(const Binned<float>& all) {
  constexpr int width = Binned<float>::width;
  const int top = static_cast<int>(all.low_and_meta & 0xf);
  const auto marks = static_cast<std::uint32_t>(all.low_and_meta >> 4 & 0xf);
  const __int128 sum = (static_cast<__int128>(all.high) << width) + (all.low_and_meta >> 8);
  return special_or(rounded<float>(sum, false, width * (top + 1 - Binned<float>::kept)), marks);
}

// In bulk, of `type` float32 or float64; aliasing and alignment as combine(), widen() and finish() have them. divisor: 1 of a sum.
void combine_binned(DataType type, std::byte* destination, const std::byte* lower, const std::byte* higher,
                    std::uint64_t count);
void widen_binned(DataType type, std::byte* carriers, const std::byte* elements, std::uint64_t count);
void finish_binned(DataType type, std::byte* elements, const std::byte* carriers, std::uint64_t count,
                   std::uint32_t divisor);

}  // namespace ucft::detail
