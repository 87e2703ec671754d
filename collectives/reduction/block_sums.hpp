// Sums of a block of doubles without rounding, in vectors: the inner loops of accumulator.hpp.
//
// Source: error-free extraction, Rump, Ogita and Oishi, Accurate floating-point summation, Part I. A number that is
// added to a large sum with a fixed exponent is rounded to the sum's last bit. The part that was rounded off is exact:
//
//   sum = 1.5 2^k + ..   next = sum + x   taken = next - sum   rest = x - taken      none but `next` is rounded
//
// `taken` is a multiple of 2^(k-52), and so is each sum. The bits of a sum, less those of 1.5 2^k, are that multiple,
// an integer. A second sum takes the first one's rests. Its own rests are another block.
//
// A block has up to 512 numbers, in 16 lanes: with all that is made of them they fit the nearest cache. If none is
// above 2^B, a lane's 32 numbers move its sum by 2^(B+5) at most, so k = B + 6 keeps the exponent. Rests are up to
// 2^(k-53) = 2^(B-47). So the two sums take all bits from 2^(B-1) down to 2^(B-93): nothing is left of numbers that are
// within a factor of 2^39, if the largest is from 2^(B-2) on.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "collectives/reduction/kernels.hpp"

namespace ucft::detail {
namespace {

struct BlockSums {
  static constexpr std::size_t lanes = 16, most = 512;                          // numbers; a block has whole lanes
  static constexpr double most_magnitude = 0x1p1014, least_product = 0x1p-960;  // within them all below is exact

  std::int64_t whole[2];
  int exponent[2];  // the sum of a block: whole[0] 2^exponent[0] + whole[1] 2^exponent[1], and its rests
  double largest;   // magnitude in the block; NaNs count as 0
  bool has_rests;   // or NaNs
};

template <int width>
struct Vectors {
  using Doubles [[gnu::vector_size(8 * width)]] = double;
  using Integers [[gnu::vector_size(8 * width)]] = std::int64_t;
  static constexpr std::size_t count = BlockSums::lanes / width;  // of them in all lanes
};
constexpr std::int64_t magnitude_bits = std::numeric_limits<std::int64_t>::max();

// The sums are right if no magnitude is above `bound`, which is up to most_magnitude. rests may be the block.
template <int width>
UCFT_ALWAYS_INLINE BlockSums extract_from(const std::byte* block, std::size_t length, double bound, double* rests) {
  using Doubles = typename Vectors<width>::Doubles;
  using Integers = typename Vectors<width>::Integers;
  constexpr std::size_t count = Vectors<width>::count;
  constexpr int least_exponent = -1022;
  const int above = static_cast<int>(std::bit_cast<std::uint64_t>(bound) >> 52) - 1022;  // B
  const int exponents[2] = {above + 6, std::max(above - 41, least_exponent)};
  double starts[2];
  Doubles sums[2][count];
  for (int each = 0; each < 2; ++each) {
    starts[each] = 1.5 * std::bit_cast<double>(static_cast<std::uint64_t>(exponents[each] + 1023) << 52);
    for (Doubles& sum : sums[each]) sum = Doubles{} + starts[each];
  }
  Integers left = {};
  Doubles largest[2] = {};
  for (std::size_t i = 0; i < length; i += BlockSums::lanes)
    for (std::size_t v = 0; v < count; ++v) {
      Doubles rest;
      std::memcpy(&rest, block + (i + width * v) * sizeof(double), sizeof rest);
      const auto magnitude = reinterpret_cast<Doubles>(reinterpret_cast<Integers>(rest) & magnitude_bits);
      largest[v % 2] = largest[v % 2] < magnitude ? magnitude : largest[v % 2];
      for (int each = 0; each < 2; ++each) {
        const Doubles next = sums[each][v] + rest;
        rest -= next - sums[each][v];
        sums[each][v] = next;
      }
      left |= reinterpret_cast<Integers>(rest);
      std::memcpy(rests + i + width * v, &rest, sizeof rest);
    }
  BlockSums result{};
  std::uint64_t whole[2] = {};  // wraps, if the bound was too low
  for (int i = 0; i < width; ++i) {
    for (std::size_t v = 0; v < count; ++v)
      for (int each = 0; each < 2; ++each)
        whole[each] += std::bit_cast<std::uint64_t>(sums[each][v][i]) - std::bit_cast<std::uint64_t>(starts[each]);
    result.largest = std::max({result.largest, largest[0][i], largest[1][i]});
    result.has_rests |= (left[i] & magnitude_bits) != 0;
  }
  for (int each = 0; each < 2; ++each) {
    result.whole[each] = static_cast<std::int64_t>(whole[each]);
    result.exponent[each] = exponents[each] - 52;
  }
  return result;
}

// products[i] + errors[i] = a[i] b[i]. False: not all of these are exact.
template <int width>
UCFT_ALWAYS_INLINE bool multiply(const std::byte* a, const std::byte* b, std::size_t length, double* products,
                                 double* errors) {
  using Doubles = typename Vectors<width>::Doubles;
  using Integers = typename Vectors<width>::Integers;
  Integers inexact = {};
  for (std::size_t i = 0; i < length; i += width) {
    Doubles from_a, from_b;
    std::memcpy(&from_a, a + i * sizeof(double), sizeof from_a);
    std::memcpy(&from_b, b + i * sizeof(double), sizeof from_b);
    const Doubles product = from_a * from_b;
    Doubles error;
    for (int lane = 0; lane < width; ++lane) error[lane] = std::fma(from_a[lane], from_b[lane], -product[lane]);
    const auto magnitude = reinterpret_cast<Doubles>(reinterpret_cast<Integers>(product) & magnitude_bits);
    inexact |= (magnitude < BlockSums::least_product) & (from_a != 0) & (from_b != 0);
    std::memcpy(products + i, &product, sizeof product);
    std::memcpy(errors + i, &error, sizeof error);
  }
  std::int64_t any = 0;
  for (int lane = 0; lane < width; ++lane) any |= inexact[lane];
  return any == 0;
}
UCFT_ALWAYS_INLINE void multiply_floats(const std::byte* a, const std::byte* b, std::size_t length, double* products) {
  for (std::size_t i = 0; i < length; ++i)
    products[i] = static_cast<double>(element_at<float>(a, i)) * static_cast<double>(element_at<float>(b, i));
}
UCFT_ALWAYS_INLINE void widen_floats(const std::byte* values, std::size_t length, double* block) {
  for (std::size_t i = 0; i < length; ++i) block[i] = static_cast<double>(element_at<float>(values, i));
}

// The same loops for the least machine and, where the processor has them, with AVX2 and FMA.
struct BlockKernels {
  BlockSums (*extract)(const std::byte* block, std::size_t length, double bound, double* rests);
  bool (*multiply)(const std::byte* a, const std::byte* b, std::size_t length, double* products, double* errors);
  void (*multiply_floats)(const std::byte* a, const std::byte* b, std::size_t length, double* products);
  void (*widen_floats)(const std::byte* values, std::size_t length, double* block);
};

#define UCFT_BLOCK_KERNELS(name, width, target)                                                                      \
  target BlockSums name##_extract(const std::byte* block, std::size_t length, double bound, double* rests) {         \
    return extract_from<width>(block, length, bound, rests);                                                         \
  }                                                                                                                  \
  target bool name##_multiply(const std::byte* a, const std::byte* b, std::size_t length, double* products,          \
                              double* errors) {                                                                      \
    return multiply<width>(a, b, length, products, errors);                                                          \
  }                                                                                                                  \
  target void name##_multiply_floats(const std::byte* a, const std::byte* b, std::size_t length, double* products) { \
    multiply_floats(a, b, length, products);                                                                         \
  }                                                                                                                  \
  target void name##_widen_floats(const std::byte* values, std::size_t length, double* block) {                      \
    widen_floats(values, length, block);                                                                             \
  }                                                                                                                  \
  constexpr BlockKernels name##_kernels = {name##_extract, name##_multiply, name##_multiply_floats, name##_widen_floats}

UCFT_BLOCK_KERNELS(portable, 2, );
#if defined(__x86_64__)
UCFT_BLOCK_KERNELS(wide, 4, [[gnu::target("avx2,fma")]]);
#endif
#undef UCFT_BLOCK_KERNELS

}  // namespace
}  // namespace ucft::detail
