// Reproducible sums in bulk: see binned.hpp. But for the one rounding at the end all of it is integers, which no option of a compiler
// reorders.
#include "collectives/reduction/binned.hpp"

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ucft::detail {
namespace {

template <class T>
[[gnu::always_inline]] inline T at(const std::byte* memory, std::uint64_t i) {
  T value;
  std::memcpy(&value, memory + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
[[gnu::always_inline]] inline void put(std::byte* memory, std::uint64_t i, const T& value) {
  std::memcpy(memory + i * sizeof(T), &value, sizeof(T));
}

template <class Real>
void merge_each(std::byte* destination, const std::byte* lower, const std::byte* higher, std::uint64_t begin,
                std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i)
    put(destination, i, merged(at<Binned<Real>>(lower, i), at<Binned<Real>>(higher, i)));
}

template <class Real>
void widen_each(std::byte* carriers, const std::byte* elements, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i) put(carriers, i, binned(at<Real>(elements, i)));
}

template <class Real>
void finish_all(std::byte* elements, const std::byte* carriers, std::uint64_t count, std::uint32_t divisor) {
  if (divisor == 1) {
    for (std::uint64_t i = 0; i < count; ++i) put(elements, i, sum_of(at<Binned<Real>>(carriers, i)));
  } else {
    for (std::uint64_t i = 0; i < count; ++i)
      put(elements, i, sum_of(at<Binned<Real>>(carriers, i)) / static_cast<Real>(divisor));
  }
}

}  // namespace

void combine_binned(DataType type, std::byte* destination, const std::byte* lower, const std::byte* higher,
                    std::uint64_t count) {
  return type == DataType::float32 ? merge_each<float>(destination, lower, higher, 0, count)
                                   : merge_each<double>(destination, lower, higher, 0, count);
}

void widen_binned(DataType type, std::byte* carriers, const std::byte* elements, std::uint64_t count) {
  return type == DataType::float32 ? widen_each<float>(carriers, elements, 0, count)
                                   : widen_each<double>(carriers, elements, 0, count);
}

void finish_binned(DataType type, std::byte* elements, const std::byte* carriers, std::uint64_t count,
                   std::uint32_t divisor) {
  return type == DataType::float32 ? finish_all<float>(elements, carriers, count, divisor)
                                   : finish_all<double>(elements, carriers, count, divisor);
}

}  // namespace ucft::detail
