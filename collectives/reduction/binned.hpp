// Reproducible sums: accumulators that add exactly, so that neither order nor grouping changes a bit.
//
// Source: binned (indexed) sums, Demmel and Nguyen; Lapillonne and Peltekov, Bitwise reproducible sum
// (docs/algorithms.md, "Reproducible sums"). Theirs hold floating-point digits that must be renormalised. Ours hold
// integers, which need not be.
//
// The bits of all numbers of a type are numbered from 0, the weight of the least subnormal one, and cut into bins of
// `width` bits. An accumulator has the sums of its numbers' digits in the `kept` highest bins that it needs, from bin
// `top` down. A number is cut by place, towards zero, whatever it is added to. So a bin holds an exact sum of integers.
// Merging two accumulators keeps the bins of the higher one. All that was dropped on the way is below every bin that
// the end keeps. A bin overflows after 2^27 numbers.
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

// The marks of a sum, as bits: it has seen numbers that are not -0 (their sum is +0 if it is 0), infinities, NaNs.
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
  static constexpr std::uint64_t mask = (std::uint64_t{1} << Binned<Real>::width) - 1;

  std::uint64_t magnitude;  // 0 of an infinity or a NaN
  int top, shift;
  bool is_negative;
  std::uint32_t marks;

  // With the number's sign.
  std::int64_t digit(std::uint64_t bits) const {
    const std::int64_t sign = -std::int64_t{is_negative};
    return (static_cast<std::int64_t>(bits) ^ sign) - sign;
  }
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
  const Cut<double> of = cut(value);  // shift: 20 .. 55, or 0 of nothing
  const unsigned __int128 wide = static_cast<unsigned __int128>(of.magnitude) << of.shift;
  return {{of.digit(static_cast<std::uint64_t>(wide >> (2 * width))),
           of.digit(static_cast<std::uint64_t>(wide >> width) & Cut<double>::mask),
           of.digit(static_cast<std::uint64_t>(wide) & Cut<double>::mask)},
          of.top,
          of.marks};
}

[[gnu::always_inline]] inline Binned<float> binned(float value) {
  const Cut<float> of = cut(value);  // shift: 5 .. 32, or 0 of nothing
  const std::uint64_t wide = of.magnitude << of.shift;
  return {of.digit(wide >> Binned<float>::width),
          of.digit(wide & Cut<float>::mask) * 256 + static_cast<std::int64_t>(of.marks << 4) + of.top};
}

// bin, or 0. Without branches: which of two accumulators is the higher one is often chance.
[[gnu::always_inline]] inline std::int64_t if_is(bool is, std::int64_t bin) { return bin & -std::int64_t{is}; }

[[gnu::always_inline]] inline Binned<double> merged(const Binned<double>& a, const Binned<double>& b) {
  const int down_a = b.top > a.top ? b.top - a.top : 0, down_b = a.top > b.top ? a.top - b.top : 0;
  const auto shifted = [](const Binned<double>& its, int down, std::int64_t(&to)[3]) {
    to[0] += if_is(down == 0, its.bins[0]);
    to[1] += if_is(down == 0, its.bins[1]) + if_is(down == 1, its.bins[0]);
    to[2] += if_is(down == 0, its.bins[2]) + if_is(down == 1, its.bins[1]) + if_is(down == 2, its.bins[0]);
  };
  Binned<double> sum{{0, 0, 0}, a.top > b.top ? a.top : b.top, a.marks | b.marks};
  shifted(a, down_a, sum.bins);
  shifted(b, down_b, sum.bins);
  return sum;
}

[[gnu::always_inline]] inline Binned<float> merged(const Binned<float>& a, const Binned<float>& b) {
  constexpr std::int64_t meta = 0xff, top = 0xf, marks = 0xf0;
  const std::int64_t a_top = a.low_and_meta & top, b_top = b.low_and_meta & top, higher = a_top > b_top ? a_top : b_top;
  const auto low_of = [higher](const Binned<float>& its, std::int64_t its_top) {
    return if_is(its_top == higher, its.low_and_meta & ~meta) + if_is(its_top + 1 == higher, its.high * 256);
  };
  return {if_is(a_top == higher, a.high) + if_is(b_top == higher, b.high),
          (low_of(a, a_top) + low_of(b, b_top)) | ((a.low_and_meta | b.low_and_meta) & marks) | higher};
}

// value 2^exponent, an integer that has been rounded to Real's precision: what is scaled into the subnormal numbers has
// no bit below them, so it is exact.
template <class Real>
[[gnu::always_inline]] inline Real scaled(double value, int exponent) {
  const double power = std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  return static_cast<Real>(exponent >= -1022 && exponent <= 1023 ? value * power : std::ldexp(value, exponent));
}

// high 2^bits + behind, for behind from 0 and below 2^bits, up to 41. It is the sum of two numbers that double holds as
// they are, so it is rounded once.
[[gnu::always_inline]] inline double rounded(std::int64_t high, std::int64_t behind, int bits) {
  constexpr int moved = 11;
  const std::int64_t rest = (high & ((1 << moved) - 1)) << bits | behind;
  return static_cast<double>(high >> moved) * static_cast<double>(std::int64_t{1} << (moved + bits)) +
         static_cast<double>(rest);
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
  constexpr std::int64_t mask = (std::int64_t{1} << width) - 1, short_enough = std::int64_t{1} << 26;
  const int exponent = width * (all.top + 1 - Binned<double>::kept) + FormatOfReal<double>::least;
  const std::int64_t low = all.bins[2] & mask, carried = all.bins[1] + (all.bins[2] >> width);
  const std::int64_t middle = carried & mask, high = all.bins[0] + (carried >> width);
  if (high >= -short_enough && high < short_enough)
    return special_or(scaled<double>(rounded((high << width) + middle, low, width), exponent), all.marks);
  // So many bits that the lowest bin can only make a sum no tie: one more bit for all of it.
  return special_or(scaled<double>(rounded(high, middle << 1 | (low != 0), width + 1), exponent + width - 1),
                    all.marks);
}

[[gnu::always_inline]] inline float sum_of(const Binned<float>& all) {
  constexpr int width = Binned<float>::width;
  constexpr std::int64_t mask = (std::int64_t{1} << width) - 1, short_enough = std::int64_t{1} << 34;
  const int top = static_cast<int>(all.low_and_meta & 0xf);
  const auto marks = static_cast<std::uint32_t>(all.low_and_meta >> 4 & 0xf);
  const int exponent = width * (top + 1 - Binned<float>::kept) + FormatOfReal<float>::least;
  const std::int64_t low = all.low_and_meta >> 8, behind = low & mask, high = all.high + (low >> width);
  const bool is_short = high >= -short_enough && high < short_enough;
  // If it is long, what is behind can only make it no tie.
  const auto leading = static_cast<float>(is_short ? (high << width) | behind : high | (behind != 0));
  return special_or(scaled<float>(static_cast<double>(leading), is_short ? exponent : exponent + width), marks);
}

// In bulk, of `type` float32 or float64; aliasing and alignment as combine(), widen() and finish() have them. divisor:
// 1 of a sum.
void combine_binned(DataType type, std::byte* destination, const std::byte* lower, const std::byte* higher,
                    std::uint64_t count);
void widen_binned(DataType type, std::byte* carriers, const std::byte* elements, std::uint64_t count);
void finish_binned(DataType type, std::byte* elements, const std::byte* carriers, std::uint64_t count,
                   std::uint32_t divisor);

}  // namespace ucft::detail
