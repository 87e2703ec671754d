// From the caller's elements to carriers, and from combined carriers to results. See reduction.hpp.
//
// The processor's instructions (F16C) do the same for float16 in bulk as halves.hpp, if a NaN is replaced before.
#include <cassert>
#include <cstring>
#include <limits>
#include <utility>

#include "collectives/reduction/chosen_bins.hpp"
#include "collectives/reduction/kernels.hpp"
#include "collectives/reduction/reduction.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace ucft::detail {
namespace {

// to[i] = function(from[i]).
template <class From, class Function>
UCFT_ALWAYS_INLINE void convert_each(std::byte* to, const std::byte* from, std::uint64_t begin, std::uint64_t end,
                                     Function function) {
  UCFT_INDEPENDENT_ITERATIONS
  for (std::uint64_t i = begin; i < end; ++i) put(to, i, function(element_at<From>(from, i)));
}

UCFT_ALWAYS_INLINE void narrowed_to(Float16& half, float value) { half = to_float16(value); }
UCFT_ALWAYS_INLINE void narrowed_to(BFloat16& half, float value) { half = to_bfloat16(value); }

template <class Half>
UCFT_ALWAYS_INLINE void widen_each(std::byte* to, const std::byte* from, std::uint64_t begin, std::uint64_t end) {
  convert_each<Half>(
      to, from, begin, end, [](Half half) __attribute__((always_inline)) { return to_float(half); });
}

// divisor: 1 changes nothing, but for the payload of a NaN.
template <class Half>
UCFT_ALWAYS_INLINE void narrow_each(std::byte* to, const std::byte* from, std::uint64_t begin, std::uint64_t end,
                                    float divisor) {
  convert_each<float>(
      to, from, begin, end, [divisor](float value) __attribute__((always_inline)) {
        Half half;
        narrowed_to(half, value / divisor);
        return half;
      });
}

#if defined(__x86_64__)
constexpr std::uint64_t lanes = 8;

[[gnu::target("avx2,f16c")]] void widen_wide(Float16, std::byte* to, const std::byte* from, std::uint64_t count) {
  const std::uint64_t whole = count / lanes * lanes;
  for (std::uint64_t i = 0; i < whole; i += lanes) {
    const __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * sizeof(Float16)));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + i * sizeof(float)), _mm256_cvtph_ps(narrow));
  }
  widen_each<Float16>(to, from, whole, count);
}

[[gnu::target("avx2,f16c")]] void narrow_wide(Float16, std::byte* to, const std::byte* from, std::uint64_t count,
                                              float divisor) {
  const __m256 divisors = _mm256_set1_ps(divisor), nan = _mm256_set1_ps(std::numeric_limits<float>::quiet_NaN());
  const std::uint64_t whole = count / lanes * lanes;
  for (std::uint64_t i = 0; i < whole; i += lanes) {
    const __m256 wide =
        _mm256_div_ps(_mm256_loadu_ps(reinterpret_cast<const float*>(from + i * sizeof(float))), divisors);
    const __m256 clean = _mm256_blendv_ps(wide, nan, _mm256_cmp_ps(wide, wide, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * sizeof(Float16)),
                     _mm256_cvtps_ph(clean, _MM_FROUND_TO_NEAREST_INT));
  }
  narrow_each<Float16>(to, from, whole, count, divisor);
}

[[gnu::target("avx2")]] void widen_wide(BFloat16, std::byte* to, const std::byte* from, std::uint64_t count) {
  widen_each<BFloat16>(to, from, 0, count);
}

[[gnu::target("avx2")]] void narrow_wide(BFloat16, std::byte* to, const std::byte* from, std::uint64_t count,
                                         float divisor) {
  narrow_each<BFloat16>(to, from, 0, count, divisor);
}

// Clang 14 has no name for F16C in __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool is_wide(std::uint64_t count) {
  constexpr std::uint64_t worth_it = 16;
  static const bool can_be = __builtin_cpu_supports("avx2") && has_f16c();
  return count >= worth_it && can_be;
}
#endif

template <class Half>
void widen_all(std::byte* to, const std::byte* from, std::uint64_t count) {
#if defined(__x86_64__)
  if (is_wide(count)) return widen_wide(Half{}, to, from, count);
#endif
  widen_each<Half>(to, from, 0, count);
}

template <class Half>
void narrow_all(std::byte* to, const std::byte* from, std::uint64_t count, float divisor) {
#if defined(__x86_64__)
  if (is_wide(count)) return narrow_wide(Half{}, to, from, count, divisor);
#endif
  narrow_each<Half>(to, from, 0, count, divisor);
}

template <class Real>
void divide_all(std::byte* to, const std::byte* from, std::uint64_t count, std::uint32_t contributors) {
  const auto divisor = static_cast<Real>(contributors);
  convert_each<Real>(to, from, 0, count, [divisor](Real value) { return value / divisor; });
}

// Calls use(element) for the type.
template <class Use>
void with_element(DataType type, Use use) {
  const auto try_one = [&]<std::size_t i>() {
    if (type == static_cast<DataType>(i)) use.template operator()<static_cast<DataType>(i)>();
  };
  [&]<std::size_t... i>(std::index_sequence<i...>) { (try_one.template operator()<i>(), ...); }
  (std::make_index_sequence<type_count>());
}

void average_all(DataType type, std::byte* to, const std::byte* from, std::uint64_t count, std::uint32_t contributors) {
  switch (type) {
    case DataType::float32: return divide_all<float>(to, from, count, contributors);
    case DataType::float64: return divide_all<double>(to, from, count, contributors);
    case DataType::complex_float: return divide_all<float>(to, from, 2 * count, contributors);
    case DataType::complex_double: return divide_all<double>(to, from, 2 * count, contributors);
    default: assert(false);
  }
}

// The value as combine() would make it, of one that has met no other.
template <class Element>
UCFT_ALWAYS_INLINE Element normal(Element value) {
  if constexpr (std::is_integral_v<Element> || std::is_same_v<Element, Bool>)
    return from_truth<Element>(is_true(value));
  else
    return located(value);
}

void normalise_all(DataType type, std::byte* to, const std::byte* from, std::uint64_t count) {
  with_element(type, [&]<DataType its>() {
    if constexpr (is_of(its, integers | booleans | pairs))
      convert_each<ElementOf<its>>(to, from, 0, count, [](ElementOf<its> value) { return normal(value); });
  });
}

}  // namespace

void widen(const Reduction& reduction, void* carriers, const void* elements, std::uint64_t count) {
  assert(reduction.widens());
  auto* const to = static_cast<std::byte*>(carriers);
  const auto* const from = static_cast<const std::byte*>(elements);
  if (reduction.bins() != 0) return widen_with_bins(reduction.type(), reduction.bins(), to, from, count);
  if (is_binned(reduction.op())) return widen_binned(reduction.type(), to, from, count);
  reduction.type() == DataType::float16 ? widen_all<Float16>(to, from, count) : widen_all<BFloat16>(to, from, count);
}

void finish(const Reduction& reduction, void* elements, const void* carriers, std::uint64_t count,
            std::uint32_t contributors) {
  assert(reduction.finishes() && contributors > 0);
  auto* const to = static_cast<std::byte*>(elements);
  const auto* const from = static_cast<const std::byte*>(carriers);
  const bool divides = is_average(reduction.op());
  const std::uint32_t divisor = divides ? contributors : 1;
  if (reduction.sweeps_twice()) return average_all(reduction.type(), to, from, count, contributors);
  if (reduction.bins() != 0) return finish_with_bins(reduction.type(), reduction.bins(), to, from, count, divisor);
  if (is_binned(reduction.op())) return finish_binned(reduction.type(), to, from, count, divisor);
  if (reduction.widens()) {
    const auto by = static_cast<float>(divisor);
    return reduction.type() == DataType::float16 ? narrow_all<Float16>(to, from, count, by)
                                                 : narrow_all<BFloat16>(to, from, count, by);
  }
  if (divides) return average_all(reduction.type(), to, from, count, contributors);
  normalise_all(reduction.type(), to, from, count);
}

}  // namespace ucft::detail
