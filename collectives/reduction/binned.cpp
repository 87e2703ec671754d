// Reproducible sums in bulk: see binned.hpp. But for the one rounding at the end all of it is integers, which no option of a
// compiler reorders.
#include "collectives/reduction/binned.hpp"

#include "collectives/reduction/kernels.hpp"

#include <limits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ucft::detail {
namespace {

template <class Real>
void merge_each(std::byte* destination, const std::byte* lower, const std::byte* higher, std::uint64_t begin,
                std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i)
    put(destination, i, merged(element_at<Binned<Real>>(lower, i), element_at<Binned<Real>>(higher, i)));
}

template <class Real>
void widen_each(std::byte* carriers, const std::byte* elements, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i) put(carriers, i, binned(element_at<Real>(elements, i)));
}

#if defined(__x86_64__)
// An accumulator is one vector: {bins[0], bins[1], bins[2], marks << 32 | top}. Which lanes of it go where if it is `down` bins lower.
alignas(32) constexpr std::int32_t lanes_if_lower[4][8] = {
    {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 0, 1, 2, 3, 6, 7}, {0, 1, 0, 1, 0, 1, 6, 7}, {0, 1, 0, 1, 0, 1, 6, 7}};
alignas(32) constexpr std::int64_t kept_if_lower[4][4] = {{-1, -1, -1, 0}, {0, -1, -1, 0}, {0, 0, -1, 0}, {0, 0, 0, 0}};

[[gnu::target("avx2")]] UCFT_ALWAYS_INLINE __m256i lowered(__m256i accumulator, std::int32_t down) {
  const auto row = static_cast<std::size_t>(down < 0 ? 0 : down > 3 ? 3 : down);
  const __m256i lanes = _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes_if_lower[row]));
  const __m256i kept = _mm256_load_si256(reinterpret_cast<const __m256i*>(kept_if_lower[row]));
  return _mm256_and_si256(_mm256_permutevar8x32_epi32(accumulator, lanes), kept);
}

[[gnu::target("avx2")]] void merge_wide(std::byte* destination, const std::byte* lower, const std::byte* higher,
                                        std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lower) + i);
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(higher) + i);
    const std::int32_t a_top = _mm256_extract_epi32(a, 6), b_top = _mm256_extract_epi32(b, 6);
    const __m256i bins = _mm256_add_epi64(lowered(a, b_top - a_top), lowered(b, a_top - b_top));
    const __m256i tops = _mm256_max_epi32(a, b), marks = _mm256_or_si256(a, b);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination) + i,
                        _mm256_blend_epi32(_mm256_blend_epi32(bins, tops, 0x40), marks, 0x80));
  }
}

[[gnu::target("avx2")]] UCFT_ALWAYS_INLINE __m256i signed_digits(__m256i digits, __m256i sign) {
  return _mm256_sub_epi64(_mm256_xor_si256(digits, sign), sign);
}

[[gnu::target("avx2")]] UCFT_ALWAYS_INLINE __m256i all(std::int64_t value) { return _mm256_set1_epi64x(value); }

// binned() of four at a time.
[[gnu::target("avx2")]] void widen_wide(std::byte* carriers, const std::byte* elements, std::uint64_t count) {
  const __m256i zero = _mm256_setzero_si256(), width = all(Binned<double>::width);
  const __m256i mask = all((std::int64_t{1} << Binned<double>::width) - 1);
  for (std::uint64_t i = 0; i < count; i += 4) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(elements + i * sizeof(double)));
    const __m256i exponent = _mm256_and_si256(_mm256_srli_epi64(bits, 52), all(2047));
    const __m256i fraction = _mm256_and_si256(bits, all((std::int64_t{1} << 52) - 1));
    const __m256i sign = _mm256_cmpgt_epi64(zero, bits);
    const __m256i is_subnormal = _mm256_cmpeq_epi64(exponent, zero);
    const __m256i is_special = _mm256_cmpeq_epi64(exponent, all(2047));
    const __m256i place = _mm256_sub_epi64(exponent, _mm256_add_epi64(all(1), is_subnormal));
    // (place + 52) / 36, for it is below 2100
    const __m256i quotient = _mm256_srli_epi64(_mm256_mul_epu32(_mm256_add_epi64(place, all(52)), all(1821)), 16);
    const __m256i top = _mm256_andnot_si256(is_special, quotient);
    const __m256i implicit = _mm256_andnot_si256(is_subnormal, all(std::int64_t{1} << 52));
    const __m256i magnitude = _mm256_andnot_si256(is_special, _mm256_or_si256(fraction, implicit));
    const __m256i shift = _mm256_add_epi64(_mm256_sub_epi64(place, _mm256_mul_epu32(quotient, width)), all(72));
    // A shift by 64 or more, and by what would be less than 0, gives 0.
    const __m256i low = _mm256_and_si256(_mm256_sllv_epi64(magnitude, shift), mask);
    const __m256i middle =
        _mm256_and_si256(_mm256_or_si256(_mm256_srlv_epi64(magnitude, _mm256_sub_epi64(width, shift)),
                                         _mm256_sllv_epi64(magnitude, _mm256_sub_epi64(shift, width))),
                         mask);
    const __m256i high = _mm256_srlv_epi64(magnitude, _mm256_sub_epi64(all(72), shift));
    const __m256i is_minus_zero = _mm256_cmpeq_epi64(bits, all(std::numeric_limits<std::int64_t>::min()));
    const __m256i of_number = _mm256_andnot_si256(is_minus_zero, all(mark_not_minus_zero));
    const __m256i of_infinity = _mm256_blendv_epi8(all(mark_plus_infinity), all(mark_minus_infinity), sign);
    const __m256i of_special = _mm256_blendv_epi8(all(mark_nan), of_infinity, _mm256_cmpeq_epi64(fraction, zero));
    const __m256i marks = _mm256_blendv_epi8(of_number, of_special, is_special);
    const __m256i meta = _mm256_or_si256(top, _mm256_slli_epi64(marks, 32));
    const __m256i bins[3] = {signed_digits(high, sign), signed_digits(middle, sign), signed_digits(low, sign)};
    // From four vectors of a kind to four accumulators.
    const __m256i a = _mm256_unpacklo_epi64(bins[0], bins[1]), b = _mm256_unpackhi_epi64(bins[0], bins[1]);
    const __m256i c = _mm256_unpacklo_epi64(bins[2], meta), d = _mm256_unpackhi_epi64(bins[2], meta);
    auto* const to = reinterpret_cast<__m256i*>(carriers + i * sizeof(Binned<double>));
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(a, c, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(b, d, 0x20));
    _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(a, c, 0x31));
    _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(b, d, 0x31));
  }
}
#endif

// How many of them go in bulk.
std::uint64_t wide_part(DataType type, std::uint64_t count, std::uint64_t at_a_time) {
#if defined(__x86_64__)
  static const bool can_be = __builtin_cpu_supports("avx2");
  if (type == DataType::float64 && can_be) return count / at_a_time * at_a_time;
#endif
  return 0;
}

template <class Real>
void finish_all(std::byte* elements, const std::byte* carriers, std::uint64_t count, std::uint32_t divisor) {
  if (divisor == 1) {
    for (std::uint64_t i = 0; i < count; ++i) put(elements, i, sum_of(element_at<Binned<Real>>(carriers, i)));
  } else {
    for (std::uint64_t i = 0; i < count; ++i)
      put(elements, i, sum_of(element_at<Binned<Real>>(carriers, i)) / static_cast<Real>(divisor));
  }
}

}  // namespace

void combine_binned(DataType type, std::byte* destination, const std::byte* lower, const std::byte* higher,
                    std::uint64_t count) {
  const std::uint64_t wide = wide_part(type, count, 1);
#if defined(__x86_64__)
  if (wide > 0) merge_wide(destination, lower, higher, wide);
#endif
  return type == DataType::float32 ? merge_each<float>(destination, lower, higher, wide, count)
                                   : merge_each<double>(destination, lower, higher, wide, count);
}

void widen_binned(DataType type, std::byte* carriers, const std::byte* elements, std::uint64_t count) {
  const std::uint64_t wide = wide_part(type, count, 4);
#if defined(__x86_64__)
  if (wide > 0) widen_wide(carriers, elements, wide);
#endif
  return type == DataType::float32 ? widen_each<float>(carriers, elements, wide, count)
                                   : widen_each<double>(carriers, elements, wide, count);
}

void finish_binned(DataType type, std::byte* elements, const std::byte* carriers, std::uint64_t count,
                   std::uint32_t divisor) {
  return type == DataType::float32 ? finish_all<float>(elements, carriers, count, divisor)
                                   : finish_all<double>(elements, carriers, count, divisor);
}

}  // namespace ucft::detail
