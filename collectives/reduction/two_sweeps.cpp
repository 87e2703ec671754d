// See two_sweeps.hpp. One by one, and four at a time where the processor has AVX2.
#include "collectives/reduction/two_sweeps.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "collectives/reduction/binned_avx2.hpp"
#include "collectives/reduction/chosen_bins.hpp"
#include "collectives/reduction/kernels.hpp"

namespace ucft::detail {
namespace {

struct Sources {
  const std::byte* const* begin;
  std::size_t count;
};

// ---- one by one -----------------------------------------------------------------------------------------------------

template <class Real, int kept>
Real rounded(const std::int64_t (&bins)[kept], int top, std::uint32_t marks) {
  if constexpr (kept != Binned<Real>::kept) {
    ChosenBins<Real, kept> all{{}, top, marks};
    std::copy(bins, bins + kept, all.bins);
    return sum_of(all);
  } else if constexpr (kept == 3) {
    return sum_of(Binned<double>{{bins[0], bins[1], bins[2]}, top, marks});
  } else {
    return sum_of(Binned<float>{bins[0], bins[1] * 256 + static_cast<std::int64_t>(marks << 4) + top});
  }
}

template <class Real, int kept>
void add_digits(const Cut<Real>& of, int top, std::int64_t (&bins)[kept]) {
  const int place = of.shift + Binned<Real>::width * (of.top + 1 - Binned<Real>::kept);
  for (int k = 0; k < kept; ++k) bins[k] += of.digit(digits_of<Real>(of.magnitude, place, top - k));
}

template <class Real, int kept>
Real sum_of_one(const Sources& sources, std::uint64_t i) {
  int top = 0;
  std::uint32_t marks = 0;
  for (std::size_t source = 0; source < sources.count; ++source) {
    const Cut<Real> of = cut(element_at<Real>(sources.begin[source], i));
    top = std::max(top, of.top);
    marks |= of.marks;
  }
  std::int64_t bins[kept] = {};
  for (std::size_t source = 0; source < sources.count; ++source)
    add_digits(cut(element_at<Real>(sources.begin[source], i)), top, bins);
  return rounded<Real>(bins, top, marks);
}

template <class Real, int kept>
void sum_each(std::byte* elements, const Sources& sources, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i) put(elements, i, sum_of_one<Real, kept>(sources, i));
}

// ---- four at a time -------------------------------------------------------------------------------------------------

#if defined(__x86_64__)
// Their bits, in 64 each.
template <class Real>
UCFT_AVX2 UCFT_ALWAYS_INLINE Vector bits_of_four(const std::byte* from) {
  if constexpr (sizeof(Real) == 8)
    return load(from);
  else
    return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

template <class Real>
UCFT_AVX2 UCFT_ALWAYS_INLINE Vector exponent_of(Vector bits) {
  return _mm256_and_si256(_mm256_srli_epi64(bits, FormatOfReal<Real>::mantissa_bits),
                          all(FormatOfReal<Real>::exponents));
}

// The findings of the first sweep in four numbers.
struct Found {
  Vector exponent;  // the largest
  Vector any;       // all bits that some have
  Vector every;     // all bits that all have
};

template <class Real>
UCFT_AVX2 UCFT_ALWAYS_INLINE Found first_sweep(const Sources& sources, std::uint64_t offset) {
  Found found{all(0), all(0), all(-1)};
  for (std::size_t source = 0; source < sources.count; ++source) {
    const Vector bits = bits_of_four<Real>(sources.begin[source] + offset);
    found.exponent = _mm256_max_epi32(found.exponent, exponent_of<Real>(bits));
    found.any = _mm256_or_si256(found.any, bits);
    found.every = _mm256_and_si256(found.every, bits);
  }
  return found;
}

// lowest: the place of the lowest bit of the lowest bin; of no infinity, and no NaN.
template <class Real, int kept>
UCFT_AVX2 UCFT_ALWAYS_INLINE void second_sweep(const Sources& sources, std::uint64_t offset, Vector lowest,
                                               Vector (&bins)[kept]) {
  constexpr int width = Binned<Real>::width, mantissa_bits = FormatOfReal<Real>::mantissa_bits;
  for (Vector& bin : bins) bin = all(0);
  for (std::size_t source = 0; source < sources.count; ++source) {
    const Vector bits = bits_of_four<Real>(sources.begin[source] + offset), exponent = exponent_of<Real>(bits);
    const Vector is_subnormal = _mm256_cmpeq_epi64(exponent, all(0));
    const Vector implicit = _mm256_andnot_si256(is_subnormal, all(std::int64_t{1} << mantissa_bits));
    const Vector magnitude =
        _mm256_or_si256(_mm256_and_si256(bits, all((std::int64_t{1} << mantissa_bits) - 1)), implicit);
    const Vector sign = _mm256_sub_epi64(all(0), _mm256_srli_epi64(bits, 8 * sizeof(Real) - 1));
    const Vector place = _mm256_sub_epi64(exponent, _mm256_add_epi64(all(1), is_subnormal));
    Vector up = _mm256_sub_epi64(place, lowest);  // of the bin whose turn it is
    for (int k = kept - 1; k >= 0; --k) {
      // A shift by 64 or more, and by what would be less than 0, gives 0.
      const Vector moved =
          _mm256_or_si256(_mm256_sllv_epi64(magnitude, up), _mm256_srlv_epi64(magnitude, _mm256_sub_epi64(all(0), up)));
      bins[k] = _mm256_add_epi64(
          bins[k], signed_digits(_mm256_and_si256(moved, all(static_cast<std::int64_t>(Cut<Real>::mask))), sign));
      up = _mm256_sub_epi64(up, all(width));
    }
  }
}

// As many bins as are usual, which are rounded instead of all. Where something is behind them their last bit is set, so
// they are no tie unless the sum is a short one. Returns where nothing is behind them.
template <class Real, int kept>
UCFT_AVX2 UCFT_ALWAYS_INLINE Vector lead(Vector (&bins)[kept], Vector (&leading)[Binned<Real>::kept]) {
  constexpr int usual = Binned<Real>::kept;
  Vector behind = all(0);
  for (int k = kept - 1; k >= usual; --k) {
    behind = _mm256_or_si256(behind, _mm256_and_si256(bins[k], all(static_cast<std::int64_t>(Cut<Real>::mask))));
    bins[k - 1] = _mm256_add_epi64(bins[k - 1], shifted<Binned<Real>::width>(bins[k]));
  }
  const Vector has_none = _mm256_cmpeq_epi64(behind, all(0));
  std::copy(bins, bins + usual, leading);
  leading[usual - 1] = _mm256_or_si256(leading[usual - 1], _mm256_andnot_si256(has_none, all(1)));
  return has_none;
}

// False: they must be summed one by one.
template <class Real, int kept>
UCFT_AVX2 UCFT_ALWAYS_INLINE bool sum_four(std::byte* elements, const Sources& sources, std::uint64_t first) {
  constexpr int width = Binned<Real>::width, mantissa_bits = FormatOfReal<Real>::mantissa_bits;
  constexpr auto sign_bit = static_cast<std::int64_t>(std::uint64_t{1} << (8 * sizeof(Real) - 1));
  const std::uint64_t offset = first * sizeof(Real);
  const Found found = first_sweep<Real>(sources, offset);
  if (_mm256_movemask_epi8(_mm256_cmpeq_epi64(found.exponent, all(FormatOfReal<Real>::exponents))) != 0) return false;
  const Vector highest = _mm256_add_epi64(_mm256_max_epi32(found.exponent, all(1)), all(mantissa_bits - 1));
  const Vector top = _mm256_srli_epi64(_mm256_mul_epu32(highest, all(reciprocal<Real>)), 16);
  Vector bins[kept];
  second_sweep<Real>(sources, offset, _mm256_sub_epi64(_mm256_mul_epu32(top, all(width)), all(width * (kept - 1))),
                     bins);
  Vector leading[Binned<Real>::kept];
  const Vector has_none_behind = lead<Real>(bins, leading);
  const auto sum = Wide<Real>::rounded(leading, top);
  // All of them 0: -0 if all are.
  const Vector is_zero = _mm256_cmpeq_epi64(_mm256_andnot_si256(all(sign_bit), found.any), all(0));
  const Vector is_right = _mm256_and_si256(sum.is_usual, _mm256_or_si256(has_none_behind, sum.is_long));
  if (!are_all(_mm256_or_si256(is_zero, is_right))) return false;
  Wide<Real>::put_rounded(elements + offset, Wide<Real>::sums_or(sum.sums, is_zero, found.every));
  return true;
}

// ---- of two: the processor adds what is kept of them, which is a number of their type, and rounds once --------------

struct LanesOfDouble {
  static constexpr std::uint64_t at_a_time = 4;
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector every(std::int64_t value) { return all(value); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector sum(Vector a, Vector b) { return _mm256_add_epi64(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector difference(Vector a, Vector b) { return _mm256_sub_epi64(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector product(Vector a, Vector b) { return _mm256_mul_epu32(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector are_equal(Vector a, Vector b) { return _mm256_cmpeq_epi64(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector is_above(Vector a, Vector b) { return _mm256_cmpgt_epi64(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector left(Vector a, Vector by) { return _mm256_sllv_epi64(a, by); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector right(Vector a, int by) { return _mm256_srli_epi64(a, by); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector added(Vector a, Vector b) {
    return _mm256_castpd_si256(_mm256_add_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b)));
  }
};
struct LanesOfFloat {
  static constexpr std::uint64_t at_a_time = 8;
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector every(std::int64_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector sum(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector difference(Vector a, Vector b) { return _mm256_sub_epi32(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector product(Vector a, Vector b) { return _mm256_mullo_epi32(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector are_equal(Vector a, Vector b) { return _mm256_cmpeq_epi32(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector is_above(Vector a, Vector b) { return _mm256_cmpgt_epi32(a, b); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector left(Vector a, Vector by) { return _mm256_sllv_epi32(a, by); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector right(Vector a, int by) { return _mm256_srli_epi32(a, by); }
  UCFT_AVX2 UCFT_ALWAYS_INLINE Vector added(Vector a, Vector b) {
    return _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
  }
};
template <class Real>
using Lanes = std::conditional_t<std::is_same_v<Real, float>, LanesOfFloat, LanesOfDouble>;

// x without its bits below place `lowest`. That of a subnormal number is one more than it is taken for. If that lets
// its last bit go, the largest number is so much larger that the sum is the same.
template <class Real>
UCFT_AVX2 UCFT_ALWAYS_INLINE Vector kept_of(Vector x, Vector exponent, Vector lowest) {
  using Of = Lanes<Real>;
  const Vector below = Of::difference(Of::sum(lowest, Of::every(1)), exponent);  // so many bits
  const Vector is_all_below = Of::is_above(below, Of::every(FormatOfReal<Real>::mantissa_bits));
  const Vector mask = Of::left(Of::every(-1), _mm256_max_epi32(below, all(0)));
  return _mm256_and_si256(x, _mm256_andnot_si256(is_all_below, mask));
}

template <class Real>
UCFT_AVX2 UCFT_ALWAYS_INLINE Vector exponents_in(Vector x) {
  using Of = Lanes<Real>;
  return _mm256_and_si256(Of::right(x, FormatOfReal<Real>::mantissa_bits), Of::every(FormatOfReal<Real>::exponents));
}
template <class Real>
UCFT_AVX2 UCFT_ALWAYS_INLINE bool any_special(Vector exponents) {
  using Of = Lanes<Real>;
  return _mm256_movemask_epi8(Of::are_equal(exponents, Of::every(FormatOfReal<Real>::exponents))) != 0;
}
// The place of the lowest bit that is kept beside numbers of these exponents at most.
template <class Real, int kept>
UCFT_AVX2 UCFT_ALWAYS_INLINE Vector lowest_beside(Vector exponents) {
  using Of = Lanes<Real>;
  constexpr int width = Binned<Real>::width;
  const Vector highest =
      Of::sum(_mm256_max_epi32(exponents, Of::every(1)), Of::every(FormatOfReal<Real>::mantissa_bits - 1));
  const Vector top = Of::right(Of::product(highest, Of::every(reciprocal<Real>)), 16);
  return Of::difference(Of::product(top, Of::every(width)), Of::every(width * (kept - 1)));
}

template <class Real, int kept>
UCFT_AVX2 UCFT_ALWAYS_INLINE bool sum_of_two(std::byte* elements, const std::byte* a, const std::byte* b) {
  const Vector x = load(a), y = load(b), of_x = exponents_in<Real>(x), of_y = exponents_in<Real>(y);
  const Vector largest = _mm256_max_epi32(of_x, of_y);
  if (any_special<Real>(largest)) return false;
  const Vector lowest = lowest_beside<Real, kept>(largest);
  store(elements, Lanes<Real>::added(kept_of<Real>(x, of_x, lowest), kept_of<Real>(y, of_y, lowest)));
  return true;
}

template <class Real, int kept>
UCFT_AVX2 std::uint64_t sum_pairs(std::byte* elements, const Sources& sources, std::uint64_t count) {
  constexpr std::uint64_t step = Lanes<Real>::at_a_time;
  std::uint64_t i = 0;
  for (; i + step <= count; i += step) {
    const std::uint64_t offset = i * sizeof(Real);
    if (!sum_of_two<Real, kept>(elements + offset, sources.begin[0] + offset, sources.begin[1] + offset)) [[unlikely]]
      sum_each<Real, kept>(elements, sources, i, i + step);
  }
  return i;
}

// ---- eight floats: two bins hold no more than a double does ---------------------------------------------------------

// high + low, whose bits don't overlap, rounded once.
UCFT_AVX2 UCFT_ALWAYS_INLINE __m128 rounded_to_float(__m256d high, __m256d low) {
  const __m256d sum = _mm256_add_pd(high, low), of_low = _mm256_sub_pd(sum, high);
  const __m256d error = _mm256_add_pd(_mm256_sub_pd(high, _mm256_sub_pd(sum, of_low)), _mm256_sub_pd(low, of_low));
  // To odd: so the rounding to float is the only one.
  const Vector bits = _mm256_castpd_si256(sum);
  const Vector is_exact = _mm256_castpd_si256(_mm256_cmp_pd(error, _mm256_setzero_pd(), _CMP_EQ_OQ));
  const Vector is_even = _mm256_cmpeq_epi64(_mm256_and_si256(bits, all(1)), all(0));
  const Vector are_opposed = _mm256_cmpgt_epi64(all(0), _mm256_xor_si256(bits, _mm256_castpd_si256(error)));
  const Vector step = _mm256_or_si256(are_opposed, all(1));  // away from 0, or towards it
  const Vector to_odd = _mm256_add_epi64(bits, _mm256_andnot_si256(is_exact, _mm256_and_si256(is_even, step)));
  return _mm256_cvtpd_ps(_mm256_castsi256_pd(to_odd));
}

UCFT_AVX2 UCFT_ALWAYS_INLINE __m256d first_four(__m256 x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
UCFT_AVX2 UCFT_ALWAYS_INLINE __m256d last_four(__m256 x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }

UCFT_AVX2 UCFT_ALWAYS_INLINE bool sum_eight(std::byte* elements, const Sources& sources, std::uint64_t offset) {
  Vector largest = all(0), any = all(0), every = all(-1);
  for (std::size_t source = 0; source < sources.count; ++source) {
    const Vector x = load(sources.begin[source] + offset);
    largest = _mm256_max_epi32(largest, exponents_in<float>(x));
    any = _mm256_or_si256(any, x);
    every = _mm256_and_si256(every, x);
  }
  if (any_special<float>(largest)) return false;
  const Vector lowest = lowest_beside<float, 2>(largest), boundary = lowest_beside<float, 1>(largest);
  __m256d high[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()}, low[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  for (std::size_t source = 0; source < sources.count; ++source) {
    const Vector x = load(sources.begin[source] + offset), exponents = exponents_in<float>(x);
    const __m256 in_high = _mm256_castsi256_ps(kept_of<float>(x, exponents, boundary));
    const __m256 in_low = _mm256_sub_ps(_mm256_castsi256_ps(kept_of<float>(x, exponents, lowest)), in_high);
    high[0] = _mm256_add_pd(high[0], first_four(in_high));
    high[1] = _mm256_add_pd(high[1], last_four(in_high));
    low[0] = _mm256_add_pd(low[0], first_four(in_low));
    low[1] = _mm256_add_pd(low[1], last_four(in_low));
  }
  const __m256 sum = _mm256_set_m128(rounded_to_float(high[1], low[1]), rounded_to_float(high[0], low[0]));
  // All of them 0: -0 if all are.
  const Vector is_zero = _mm256_cmpeq_epi32(_mm256_slli_epi32(any, 1), all(0));
  store(elements + offset, _mm256_blendv_epi8(_mm256_castps_si256(sum), every, is_zero));
  return true;
}

UCFT_AVX2 std::uint64_t sum_eights(std::byte* elements, const Sources& sources, std::uint64_t count) {
  std::uint64_t i = 0;
  for (; i + 8 <= count; i += 8)
    if (!sum_eight(elements, sources, i * sizeof(float))) [[unlikely]]
      sum_each<float, 2>(elements, sources, i, i + 8);
  return i;
}

// ---- loops: of how many they have been ------------------------------------------------------------------------------

template <class Real, int kept>
UCFT_AVX2 std::uint64_t sum_wide(std::byte* elements, const Sources& sources, std::uint64_t count) {
  if (sources.count == 2) return sum_pairs<Real, kept>(elements, sources, count);
  if constexpr (sizeof(Real) == 4 && kept == 2) return sum_eights(elements, sources, count);
  std::uint64_t i = 0;
  for (; i + 4 <= count; i += 4)
    if (!sum_four<Real, kept>(elements, sources, i)) [[unlikely]]
      sum_each<Real, kept>(elements, sources, i, i + 4);
  return i;
}
#endif

template <class Real, int kept>
void sum_all(std::byte* elements, const Sources& sources, std::uint64_t count) {
  std::uint64_t done = 0;
#if defined(__x86_64__)
  if (can_be_wide()) done = sum_wide<Real, kept>(elements, sources, count);
#endif
  sum_each<Real, kept>(elements, sources, done, count);
}

// ---- two operations -------------------------------------------------------------------------------------------------

// The highest bit but for the marks' is that of the highest bin.
template <class Real>
struct Heights {
  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint16_t>;
  static constexpr int marks = sizeof(Real) == 8 ? 60 : 12;  // the lowest bit of them

  static Bits of(const Cut<Real>& of) {
    return static_cast<Bits>(Bits{1} << of.top | static_cast<Bits>(of.marks) << marks);
  }
  static int top(Bits bits) { return std::bit_width(static_cast<Bits>(bits & ((Bits{1} << marks) - 1))) - 1; }
};

template <class Real, int kept>
void deposit_each(std::int64_t* digits, const std::byte* elements, const std::byte* heights, std::uint64_t count) {
  using Its = Heights<Real>;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Cut<Real> of = cut(element_at<Real>(elements, i));
    std::int64_t bins[kept] = {};
    add_digits(of, Its::top(element_at<typename Its::Bits>(heights, i)), bins);
    std::copy(bins, bins + kept, digits + i * kept);
  }
}

template <class Real, int kept>
void round_each(std::byte* elements, const std::int64_t* digits, const std::byte* heights, std::uint64_t count,
                std::uint32_t divisor) {
  using Its = Heights<Real>;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto its = element_at<typename Its::Bits>(heights, i);
    std::int64_t bins[kept];
    std::copy(digits + i * kept, digits + (i + 1) * kept, bins);
    put(elements, i, rounded<Real>(bins, Its::top(its), its >> Its::marks) / static_cast<Real>(divisor));
  }
}

// ---- by type and number of bins -------------------------------------------------------------------------------------

// Calls use.operator()<Real, kept>().
template <class Use>
void with_bins_of(const Reduction& reduction, const Use& use) {
  const int bins = digits_each(reduction);
  const auto with = [&]<class Real, int... more>(Real, std::integer_sequence<int, more...>) {
    constexpr int usual = Binned<Real>::kept;
    (void)((bins == usual + more && (use.template operator()<Real, usual + more>(), true)) || ...);
  };
  if (reduction.type() == DataType::float32)
    with(float{}, std::make_integer_sequence<int, most_bins - Binned<float>::kept + 1>());
  else
    with(double{}, std::make_integer_sequence<int, most_bins - Binned<double>::kept + 1>());
}

}  // namespace

void sum_in_two_sweeps(const Reduction& reduction, std::byte* elements, const std::byte* const* sources,
                       std::size_t sources_count, std::uint64_t count) {
  with_bins_of(reduction, [&]<class Real, int kept>() {
    sum_all<Real, kept>(elements, {sources, sources_count}, count);
  });
}

DataType heights_of(DataType type) { return type == DataType::float64 ? DataType::uint64 : DataType::uint16; }

void note_heights(DataType type, std::byte* heights, const std::byte* elements, std::uint64_t count) {
  const auto note = [&]<class Real>(Real) {
    for (std::uint64_t i = 0; i < count; ++i) put(heights, i, Heights<Real>::of(cut(element_at<Real>(elements, i))));
  };
  type == DataType::float64 ? note(double{}) : note(float{});
}

int digits_each(const Reduction& reduction) {
  return reduction.bins() == 0 ? usual_bins_of(reduction.type()) : reduction.bins();
}

void deposit(const Reduction& reduction, std::int64_t* digits, const std::byte* elements, const std::byte* heights,
             std::uint64_t count) {
  with_bins_of(reduction, [&]<class Real, int kept>() { deposit_each<Real, kept>(digits, elements, heights, count); });
}

void round_digits(const Reduction& reduction, std::byte* elements, const std::int64_t* digits, const std::byte* heights,
                  std::uint64_t count, std::uint32_t divisor) {
  with_bins_of(reduction,
               [&]<class Real, int kept>() { round_each<Real, kept>(elements, digits, heights, count, divisor); });
}

}  // namespace ucft::detail
