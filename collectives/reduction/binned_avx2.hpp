// Reproducible sums (binned.hpp) four and two at a time, for processors with AVX2: the same bits.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <type_traits>

#include "collectives/reduction/binned.hpp"
#include "collectives/reduction/kernels.hpp"

namespace ucft::detail {
namespace {

#define UCFT_AVX2 [[gnu::target("avx2")]]

// ---- integers of 64 bits, four at a time ----

using Vector = __m256i;

UCFT_AVX2 UCFT_ALWAYS_INLINE Vector all(std::int64_t value) { return _mm256_set1_epi64x(value); }
UCFT_AVX2 UCFT_ALWAYS_INLINE Vector load(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from));
}
UCFT_AVX2 UCFT_ALWAYS_INLINE void store(std::byte* to, Vector value) {
  _mm256_storeu_si256(reinterpret_cast<Vector*>(to), value);
}

// value >> bits, with the sign.
template <int bits>
UCFT_AVX2 UCFT_ALWAYS_INLINE Vector shifted(Vector value) {
  const Vector sign = all(std::int64_t{1} << (63 - bits));
  return _mm256_sub_epi64(_mm256_xor_si256(_mm256_srli_epi64(value, bits), sign), sign);
}
// Of integers from -2^51 to 2^51 - 1: the bits of 1.5 2^52 + value are those of 1.5 2^52, plus value.
UCFT_AVX2 UCFT_ALWAYS_INLINE __m256d to_double(Vector value) {
  const __m256d big = _mm256_set1_pd(0x1.8p52);
  return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_add_epi64(value, _mm256_castpd_si256(big))), big);
}
// 2^exponent, of a normal number.
UCFT_AVX2 UCFT_ALWAYS_INLINE __m256d power_of_two(Vector exponent) {
  return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_add_epi64(exponent, all(1023)), 52));
}
UCFT_AVX2 UCFT_ALWAYS_INLINE bool are_all(Vector condition) { return _mm256_movemask_epi8(condition) == -1; }
// -limit <= value < limit, for a power of two.
UCFT_AVX2 UCFT_ALWAYS_INLINE Vector is_within(std::int64_t limit, Vector value) {
  return _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_add_epi64(value, all(limit)), all(-2 * limit)), all(0));
}

// ---- cutting ----

// Four numbers as Cut has them, and their digits' signs; all in 64 bits.
struct Cuts {
  Vector magnitude, top, shift, sign, marks;
};

// place * reciprocal >> 16: place / width, for places below 2100.
template <class Real>
constexpr std::int64_t reciprocal = (std::int64_t{1} << 16) / Binned<Real>::width + 1;

template <class Real>
UCFT_AVX2 UCFT_ALWAYS_INLINE Cuts cuts(Vector bits) {
  using Format = FormatOfReal<Real>;
  constexpr int width = Binned<Real>::width, mantissa_bits = Format::mantissa_bits;
  constexpr auto sign_bit = static_cast<std::int64_t>(std::uint64_t{1} << (8 * sizeof(Real) - 1));
  const Vector zero = _mm256_setzero_si256();
  const Vector exponent = _mm256_and_si256(_mm256_srli_epi64(bits, mantissa_bits), all(Format::exponents));
  const Vector fraction = _mm256_and_si256(bits, all((std::int64_t{1} << mantissa_bits) - 1));
  const Vector is_subnormal = _mm256_cmpeq_epi64(exponent, zero);
  const Vector is_special = _mm256_cmpeq_epi64(exponent, all(Format::exponents));
  const Vector place = _mm256_sub_epi64(exponent, _mm256_add_epi64(all(1), is_subnormal));
  const Vector top =
      _mm256_srli_epi64(_mm256_mul_epu32(_mm256_add_epi64(place, all(mantissa_bits)), all(reciprocal<Real>)), 16);
  const Vector implicit = _mm256_andnot_si256(is_subnormal, all(std::int64_t{1} << mantissa_bits));
  Cuts result;
  result.sign = _mm256_sub_epi64(zero, _mm256_srli_epi64(bits, 8 * sizeof(Real) - 1));
  result.magnitude = _mm256_andnot_si256(is_special, _mm256_or_si256(fraction, implicit));
  result.top = _mm256_andnot_si256(is_special, top);
  result.shift = _mm256_add_epi64(_mm256_sub_epi64(place, _mm256_mul_epu32(top, all(width))),
                                  all(width * (Binned<Real>::kept - 1)));
  const Vector of_number = _mm256_andnot_si256(_mm256_cmpeq_epi64(bits, all(sign_bit)), all(mark_not_minus_zero));
  const Vector of_infinity = _mm256_blendv_epi8(all(mark_plus_infinity), all(mark_minus_infinity), result.sign);
  const Vector of_special = _mm256_blendv_epi8(all(mark_nan), of_infinity, _mm256_cmpeq_epi64(fraction, zero));
  result.marks = _mm256_blendv_epi8(of_number, of_special, is_special);
  return result;
}

UCFT_AVX2 UCFT_ALWAYS_INLINE Vector signed_digits(Vector digits, Vector sign) {
  return _mm256_sub_epi64(_mm256_xor_si256(digits, sign), sign);
}

// ---- double: an accumulator is one vector, {bins[0], bins[1], bins[2], marks << 32 | top} ----

struct WideDouble {
  static constexpr std::uint64_t merged_at_a_time = 1, cut_at_a_time = 4;
  static constexpr int width = Binned<double>::width;
  static constexpr std::int64_t mask = (std::int64_t{1} << width) - 1;

  // Sums; is_usual: where they are right; is_long: so long that a bit below all of it can only make it no tie.
  struct Rounded {
    __m256d sums;
    Vector is_usual, is_long;
  };

  UCFT_AVX2 [[gnu::always_inline]] static Vector lowered(Vector its, Vector lanes) {
    const Vector is_kept = _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32(-1));
    return _mm256_and_si256(_mm256_permutevar8x32_epi32(its, lanes), is_kept);
  }

  UCFT_AVX2 [[gnu::always_inline]] static void merge(std::byte* to, const std::byte* lower, const std::byte* higher) {
    const Vector a = load(lower), b = load(higher), zero = _mm256_setzero_si256();
    // By how many halves of lanes b is the higher one. Each lane gets what is so much above it, if there is such a one.
    const Vector bins_up = _mm256_permutevar8x32_epi32(_mm256_sub_epi32(b, a), _mm256_set1_epi32(6));
    const Vector up = _mm256_add_epi32(bins_up, bins_up), lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const Vector bins = _mm256_add_epi64(lowered(a, _mm256_sub_epi32(lanes, _mm256_max_epi32(up, zero))),
                                         lowered(b, _mm256_add_epi32(lanes, _mm256_min_epi32(up, zero))));
    const Vector tops = _mm256_max_epi32(a, b), marks = _mm256_or_si256(a, b);
    store(to, _mm256_blend_epi32(_mm256_blend_epi32(bins, tops, 0x40), marks, 0x80));
  }

  UCFT_AVX2 [[gnu::always_inline]] static void cut(std::byte* carriers, const std::byte* elements) {
    const Cuts of = cuts<double>(load(elements));
    // A shift by 64 or more, and by what would be less than 0, gives 0.
    const Vector low = _mm256_and_si256(_mm256_sllv_epi64(of.magnitude, of.shift), all(mask));
    const Vector middle =
        _mm256_and_si256(_mm256_or_si256(_mm256_srlv_epi64(of.magnitude, _mm256_sub_epi64(all(width), of.shift)),
                                         _mm256_sllv_epi64(of.magnitude, _mm256_sub_epi64(of.shift, all(width)))),
                         all(mask));
    const Vector high = _mm256_srlv_epi64(of.magnitude, _mm256_sub_epi64(all(2 * width), of.shift));
    const Vector meta = _mm256_or_si256(of.top, _mm256_slli_epi64(of.marks, 32));
    const Vector bins[3] = {signed_digits(high, of.sign), signed_digits(middle, of.sign), signed_digits(low, of.sign)};
    // From four vectors of a kind to four accumulators.
    const Vector a = _mm256_unpacklo_epi64(bins[0], bins[1]), b = _mm256_unpackhi_epi64(bins[0], bins[1]);
    const Vector c = _mm256_unpacklo_epi64(bins[2], meta), d = _mm256_unpackhi_epi64(bins[2], meta);
    store(carriers, _mm256_permute2x128_si256(a, c, 0x20));
    store(carriers + 32, _mm256_permute2x128_si256(b, d, 0x20));
    store(carriers + 64, _mm256_permute2x128_si256(a, c, 0x31));
    store(carriers + 96, _mm256_permute2x128_si256(b, d, 0x31));
  }

  // sum_of() where the bins are short and powers of two are normal.
  UCFT_AVX2 [[gnu::always_inline]] static Rounded rounded(const Vector (&bins)[3], Vector top) {
    const Vector carried = _mm256_add_epi64(bins[1], shifted<width>(bins[2]));
    const Vector low = _mm256_and_si256(bins[2], all(mask)), middle = _mm256_and_si256(carried, all(mask));
    const Vector high = _mm256_add_epi64(bins[0], shifted<width>(carried));
    // The sum of two numbers that double holds, as rounded() has it. Or they are the highest bin, and of the other two
    // 51 bits, the last one set if anything is behind them. That can only make it no tie.
    constexpr int moved = 11, cut_off = 21;
    const Vector whole = _mm256_add_epi64(_mm256_slli_epi64(high, width), middle);
    const Vector rest = _mm256_or_si256(_mm256_slli_epi64(_mm256_and_si256(whole, all((1 << moved) - 1)), width), low);
    const Vector has_none = _mm256_cmpeq_epi64(_mm256_and_si256(low, all((1 << cut_off) - 1)), all(0));
    const Vector rest_of_long =
        _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi64(middle, width - cut_off), _mm256_srli_epi64(low, cut_off)),
                        _mm256_andnot_si256(has_none, all(1)));
    const Vector is_short = is_within(std::int64_t{1} << 26, high);
    const Vector above = _mm256_blendv_epi8(all(2 * width - cut_off), all(moved + width), is_short);
    const __m256d sum = _mm256_add_pd(
        _mm256_mul_pd(to_double(_mm256_blendv_epi8(high, shifted<moved>(whole), is_short)), power_of_two(above)),
        to_double(_mm256_blendv_epi8(rest_of_long, rest, is_short)));
    const Vector exponent = _mm256_add_epi64(
        _mm256_add_epi64(_mm256_mul_epu32(top, all(width)), _mm256_andnot_si256(is_short, all(cut_off))),
        all(width * (1 - Binned<double>::kept) + FormatOfReal<double>::least));
    const Vector is_usual = _mm256_and_si256(is_within(std::int64_t{1} << 51, high), _mm256_cmpgt_epi64(top, all(3)));
    const Vector is_long = _mm256_xor_si256(is_within(std::int64_t{1} << 20, whole), all(-1));
    return {_mm256_mul_pd(sum, power_of_two(exponent)), is_usual,
            _mm256_or_si256(is_long, _mm256_xor_si256(is_short, all(-1)))};
  }

  // False: marks say something, or some are not as rounded() has them.
  UCFT_AVX2 [[gnu::always_inline]] static bool round(std::byte* elements, const std::byte* carriers,
                                                     std::uint32_t divisor) {
    const Vector one = load(carriers), two = load(carriers + 32), three = load(carriers + 64),
                 four = load(carriers + 96);
    const Vector a = _mm256_unpacklo_epi64(one, two), b = _mm256_unpackhi_epi64(one, two);
    const Vector c = _mm256_unpacklo_epi64(three, four), d = _mm256_unpackhi_epi64(three, four);
    const Vector bins[3] = {_mm256_permute2x128_si256(a, c, 0x20), _mm256_permute2x128_si256(b, d, 0x20),
                            _mm256_permute2x128_si256(a, c, 0x31)};
    const Vector meta = _mm256_permute2x128_si256(b, d, 0x31);
    const Vector is_number = _mm256_cmpeq_epi64(_mm256_srli_epi64(meta, 32), all(mark_not_minus_zero));
    const Rounded of = rounded(bins, _mm256_and_si256(meta, all(0xffffffff)));
    if (!are_all(_mm256_and_si256(is_number, of.is_usual))) return false;
    put_rounded(elements, divisor == 1 ? of.sums : _mm256_div_pd(of.sums, _mm256_set1_pd(divisor)));
    return true;
  }
  UCFT_AVX2 [[gnu::always_inline]] static void put_rounded(std::byte* elements, __m256d sums) {
    _mm256_storeu_pd(reinterpret_cast<double*>(elements), sums);
  }
  // other: the bits of a double.
  UCFT_AVX2 [[gnu::always_inline]] static __m256d sums_or(__m256d sums, Vector is_other, Vector other) {
    return _mm256_blendv_pd(sums, _mm256_castsi256_pd(other), _mm256_castsi256_pd(is_other));
  }
};

// ---- float: a vector is two accumulators, {high, low_and_meta, high, low_and_meta} ----

struct WideFloat {
  static constexpr std::uint64_t merged_at_a_time = 2, cut_at_a_time = 4;
  static constexpr int width = Binned<float>::width;
  static constexpr std::int64_t mask = (std::int64_t{1} << width) - 1;

  struct Rounded {
    __m128 sums;
    Vector is_usual, is_long;
  };

  // Its part in an accumulator whose top is `above` bins higher (or less than 0).
  UCFT_AVX2 [[gnu::always_inline]] static Vector lowered(Vector its, Vector above) {
    const Vector is_lower = _mm256_cmpgt_epi64(above, all(0)), is_next = _mm256_cmpeq_epi64(above, all(1));
    const Vector same = _mm256_blend_epi32(its, _mm256_and_si256(its, all(~std::int64_t{0xff})), 0xcc);
    const Vector next = _mm256_slli_epi64(_mm256_unpacklo_epi64(_mm256_setzero_si256(), its), 8);
    return _mm256_blendv_epi8(same, _mm256_and_si256(next, is_next), is_lower);
  }

  UCFT_AVX2 [[gnu::always_inline]] static void merge(std::byte* to, const std::byte* lower, const std::byte* higher) {
    const Vector a = load(lower), b = load(higher);
    const Vector a_top = _mm256_and_si256(_mm256_unpackhi_epi64(a, a), all(0xf));
    const Vector b_top = _mm256_and_si256(_mm256_unpackhi_epi64(b, b), all(0xf));
    const Vector bins =
        _mm256_add_epi64(lowered(a, _mm256_sub_epi64(b_top, a_top)), lowered(b, _mm256_sub_epi64(a_top, b_top)));
    const Vector meta =
        _mm256_or_si256(_mm256_and_si256(_mm256_or_si256(a, b), all(0xf0)), _mm256_max_epi32(a_top, b_top));
    store(to, _mm256_or_si256(bins, _mm256_blend_epi32(_mm256_setzero_si256(), meta, 0xcc)));
  }

  UCFT_AVX2 [[gnu::always_inline]] static void cut(std::byte* carriers, const std::byte* elements) {
    const Cuts of = cuts<float>(_mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(elements))));
    const Vector digits = _mm256_sllv_epi64(of.magnitude, of.shift);
    const Vector high = signed_digits(_mm256_srli_epi64(digits, width), of.sign);
    const Vector low = signed_digits(_mm256_and_si256(digits, all(mask)), of.sign);
    const Vector meta = _mm256_or_si256(_mm256_slli_epi64(of.marks, 4), of.top);
    const Vector low_and_meta = _mm256_or_si256(_mm256_slli_epi64(low, 8), meta);
    const Vector a = _mm256_unpacklo_epi64(high, low_and_meta), b = _mm256_unpackhi_epi64(high, low_and_meta);
    store(carriers, _mm256_permute2x128_si256(a, b, 0x20));
    store(carriers + 32, _mm256_permute2x128_si256(a, b, 0x31));
  }

  // sum_of() where the bins are short.
  UCFT_AVX2 [[gnu::always_inline]] static Rounded rounded(const Vector (&bins)[2], Vector top) {
    const Vector low = bins[1], high = _mm256_add_epi64(bins[0], shifted<width>(low));
    // As a double, if need be to odd, so that the rounding to float is the only one.
    constexpr int moved = 11;
    const Vector whole = _mm256_or_si256(_mm256_slli_epi64(high, width), _mm256_and_si256(low, all(mask)));
    const Vector is_exact = _mm256_cmpeq_epi64(_mm256_and_si256(whole, all((1 << moved) - 1)), all(0));
    const Vector to_odd = _mm256_or_si256(shifted<moved>(whole), _mm256_andnot_si256(is_exact, all(1)));
    const Vector is_short = is_within(std::int64_t{1} << 50, whole);
    const Vector leading = _mm256_blendv_epi8(to_odd, whole, is_short);
    const Vector exponent =
        _mm256_add_epi64(_mm256_add_epi64(_mm256_mul_epu32(top, all(width)), _mm256_andnot_si256(is_short, all(moved))),
                         all(width * (1 - Binned<float>::kept) + FormatOfReal<float>::least));
    return {_mm256_cvtpd_ps(_mm256_mul_pd(to_double(leading), power_of_two(exponent))),
            is_within(std::int64_t{1} << 34, high), _mm256_xor_si256(is_within(std::int64_t{1} << 27, whole), all(-1))};
  }

  // As WideDouble::round.
  UCFT_AVX2 [[gnu::always_inline]] static bool round(std::byte* elements, const std::byte* carriers,
                                                     std::uint32_t divisor) {
    const Vector one = load(carriers), two = load(carriers + 32);
    const Vector a = _mm256_permute2x128_si256(one, two, 0x20), b = _mm256_permute2x128_si256(one, two, 0x31);
    const Vector low_and_meta = _mm256_unpackhi_epi64(a, b);
    const Vector bins[2] = {_mm256_unpacklo_epi64(a, b), shifted<8>(low_and_meta)};
    const Vector is_number =
        _mm256_cmpeq_epi64(_mm256_and_si256(low_and_meta, all(0xf0)), all(mark_not_minus_zero << 4));
    const Rounded of = rounded(bins, _mm256_and_si256(low_and_meta, all(0xf)));
    if (!are_all(_mm256_and_si256(is_number, of.is_usual))) return false;
    put_rounded(elements, divisor == 1 ? of.sums : _mm_div_ps(of.sums, _mm_set1_ps(static_cast<float>(divisor))));
    return true;
  }
  UCFT_AVX2 [[gnu::always_inline]] static void put_rounded(std::byte* elements, __m128 sums) {
    _mm_storeu_ps(reinterpret_cast<float*>(elements), sums);
  }
  // other: the bits of a float, in 64.
  UCFT_AVX2 [[gnu::always_inline]] static __m128 sums_or(__m128 sums, Vector is_other, Vector other) {
    return _mm_blendv_ps(sums, narrowed(other), narrowed(is_other));
  }
  // The lower halves.
  UCFT_AVX2 [[gnu::always_inline]] static __m128 narrowed(Vector four) {
    const __m256 halves = _mm256_castsi256_ps(four);
    return _mm_shuffle_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1), 0x88);
  }
};

template <class Real>
using Wide = std::conditional_t<std::is_same_v<Real, float>, WideFloat, WideDouble>;

inline bool can_be_wide() {
  static const bool can = __builtin_cpu_supports("avx2");
  return can;
}

}  // namespace
}  // namespace ucft::detail
#endif
