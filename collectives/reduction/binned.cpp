// Reproducible sums in bulk: see binned.hpp. But for the one rounding at the end all of it is integers, which no option
// of a compiler reorders.
#include "collectives/reduction/binned.hpp"

#include "collectives/reduction/binned_avx2.hpp"
#include "collectives/reduction/kernels.hpp"

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

template <class Real>
void finish_each(std::byte* elements, const std::byte* carriers, std::uint64_t begin, std::uint64_t end,
                 std::uint32_t divisor) {
  for (std::uint64_t i = begin; i < end; ++i)
    put(elements, i, sum_of(element_at<Binned<Real>>(carriers, i)) / static_cast<Real>(divisor));
}

#if defined(__x86_64__)
// ---- loops: of how many they have been; the rest one by one ----

template <class Real>
UCFT_AVX2 std::uint64_t merge_wide(std::byte* destination, const std::byte* lower, const std::byte* higher,
                                   std::uint64_t count) {
  constexpr std::uint64_t step = Wide<Real>::merged_at_a_time, bytes = sizeof(Binned<Real>);
  std::uint64_t i = 0;
  for (; i + step <= count; i += step)
    Wide<Real>::merge(destination + i * bytes, lower + i * bytes, higher + i * bytes);
  return i;
}

template <class Real>
UCFT_AVX2 std::uint64_t widen_wide(std::byte* carriers, const std::byte* elements, std::uint64_t count) {
  constexpr std::uint64_t step = Wide<Real>::cut_at_a_time;
  std::uint64_t i = 0;
  for (; i + step <= count; i += step)
    Wide<Real>::cut(carriers + i * sizeof(Binned<Real>), elements + i * sizeof(Real));
  return i;
}

template <class Real>
UCFT_AVX2 std::uint64_t finish_wide(std::byte* elements, const std::byte* carriers, std::uint64_t count,
                                    std::uint32_t divisor) {
  constexpr std::uint64_t step = Wide<Real>::cut_at_a_time;
  std::uint64_t i = 0;
  for (; i + step <= count; i += step)
    if (!Wide<Real>::round(elements + i * sizeof(Real), carriers + i * sizeof(Binned<Real>), divisor)) [[unlikely]]
      finish_each<Real>(elements, carriers, i, i + step, divisor);
  return i;
}

#endif

template <class Real>
void merge_all(std::byte* destination, const std::byte* lower, const std::byte* higher, std::uint64_t count) {
  std::uint64_t done = 0;
#if defined(__x86_64__)
  if (can_be_wide()) done = merge_wide<Real>(destination, lower, higher, count);
#endif
  merge_each<Real>(destination, lower, higher, done, count);
}

template <class Real>
void widen_all(std::byte* carriers, const std::byte* elements, std::uint64_t count) {
  std::uint64_t done = 0;
#if defined(__x86_64__)
  if (can_be_wide()) done = widen_wide<Real>(carriers, elements, count);
#endif
  widen_each<Real>(carriers, elements, done, count);
}

template <class Real>
void finish_all(std::byte* elements, const std::byte* carriers, std::uint64_t count, std::uint32_t divisor) {
  std::uint64_t done = 0;
#if defined(__x86_64__)
  if (can_be_wide()) done = finish_wide<Real>(elements, carriers, count, divisor);
#endif
  finish_each<Real>(elements, carriers, done, count, divisor);
}

}  // namespace

void combine_binned(DataType type, std::byte* destination, const std::byte* lower, const std::byte* higher,
                    std::uint64_t count) {
  return type == DataType::float32 ? merge_all<float>(destination, lower, higher, count)
                                   : merge_all<double>(destination, lower, higher, count);
}

void widen_binned(DataType type, std::byte* carriers, const std::byte* elements, std::uint64_t count) {
  return type == DataType::float32 ? widen_all<float>(carriers, elements, count)
                                   : widen_all<double>(carriers, elements, count);
}

void finish_binned(DataType type, std::byte* elements, const std::byte* carriers, std::uint64_t count,
                   std::uint32_t divisor) {
  return type == DataType::float32 ? finish_all<float>(elements, carriers, count, divisor)
                                   : finish_all<double>(elements, carriers, count, divisor);
}

}  // namespace ucft::detail
