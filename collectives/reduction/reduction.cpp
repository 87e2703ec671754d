// See reduction.hpp. One loop for all types and operators; the compiler vectorises it (CMakeLists.txt: -O3), once for
// the least machine and once for AVX2, and long arrays take the wider form where the processor has it. The choice is
// a plain branch, not an ifunc: those are resolved before sanitizers and libraries are ready.
#include "collectives/reduction/reduction.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ucft::detail {
namespace {

#define UCFT_ALWAYS_INLINE [[gnu::always_inline]] static inline

template <class Element>
using BitsOf = std::conditional_t<sizeof(Element) == 4, std::uint32_t, std::uint64_t>;

// Through unsigned, where overflow is defined to wrap.
template <class Element, class Arithmetic>
UCFT_ALWAYS_INLINE Element wrapping(Element lower, Element higher, Arithmetic arithmetic) {
  if constexpr (std::is_integral_v<Element>) {
    using Unsigned = std::make_unsigned_t<Element>;
    return static_cast<Element>(arithmetic(static_cast<Unsigned>(lower), static_cast<Unsigned>(higher)));
  } else {
    return arithmetic(lower, higher);
  }
}

template <class Element>
UCFT_ALWAYS_INLINE Element nan_or(Element lower, Element higher, BitsOf<Element> bits) {
  return std::isunordered(lower, higher) ? std::numeric_limits<Element>::quiet_NaN() : std::bit_cast<Element>(bits);
}

struct Sum {
  template <class Element>
  UCFT_ALWAYS_INLINE Element of(Element lower, Element higher) {
    return wrapping(
        lower, higher, [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
  }
};

struct Product {
  template <class Element>
  UCFT_ALWAYS_INLINE Element of(Element lower, Element higher) {
    return wrapping(
        lower, higher, [](auto a, auto b) __attribute__((always_inline)) { return a * b; });
  }
};

// Floating point: both choices are the same bits unless the operands are equal; then one is a and the other b, and
// equal operands differ in bits only if they are the two zeros: 1 and 2 -> 1|1 = 1; -0 and +0 -> 8..0 | 0 = -0.
struct Minimum {
  template <class Element>
  UCFT_ALWAYS_INLINE Element of(Element lower, Element higher) {
    if constexpr (std::is_integral_v<Element>) {
      return lower < higher ? lower : higher;
    } else {
      const auto one = std::bit_cast<BitsOf<Element>>(lower < higher ? lower : higher);
      const auto other = std::bit_cast<BitsOf<Element>>(higher < lower ? higher : lower);
      return nan_or(lower, higher, one | other);
    }
  }
};

// As Minimum: 1 and 2 -> 2&2 = 2; -0 and +0 -> 8..0 & 0 = +0.
struct Maximum {
  template <class Element>
  UCFT_ALWAYS_INLINE Element of(Element lower, Element higher) {
    if constexpr (std::is_integral_v<Element>) {
      return lower > higher ? lower : higher;
    } else {
      const auto one = std::bit_cast<BitsOf<Element>>(lower > higher ? lower : higher);
      const auto other = std::bit_cast<BitsOf<Element>>(higher > lower ? higher : lower);
      return nan_or(lower, higher, one & other);
    }
  }
};

// Loads and stores by memcpy: no alignment, no aliasing rule. ivdep: no element depends on another one, since
// destination is an operand as a whole or not at all; else the compiler would keep a scalar loop for destination ==
// lower.
template <class Element, class Function>
UCFT_ALWAYS_INLINE void combine_each(std::byte* destination, const std::byte* lower, const std::byte* higher,
                                     std::uint64_t count) {
#pragma GCC ivdep
  for (std::uint64_t i = 0; i < count; ++i) {
    Element from_lower, from_higher;
    std::memcpy(&from_lower, lower + i * sizeof(Element), sizeof(Element));
    std::memcpy(&from_higher, higher + i * sizeof(Element), sizeof(Element));
    const Element result = Function::of(from_lower, from_higher);
    std::memcpy(destination + i * sizeof(Element), &result, sizeof(Element));
  }
}

#if defined(__x86_64__)
template <class Element, class Function>
[[gnu::target("avx2")]] void combine_wide(std::byte* destination, const std::byte* lower, const std::byte* higher,
                                          std::uint64_t count) {
  combine_each<Element, Function>(destination, lower, higher, count);
}
#endif

template <class Element, class Function>
void combine_all(std::byte* destination, const std::byte* lower, const std::byte* higher, std::uint64_t count) {
#if defined(__x86_64__)
  constexpr std::uint64_t worth_it = 16;
  if (count >= worth_it && __builtin_cpu_supports("avx2"))
    return combine_wide<Element, Function>(destination, lower, higher, count);
#endif
  combine_each<Element, Function>(destination, lower, higher, count);
}

using Kernel = void (*)(std::byte*, const std::byte*, const std::byte*, std::uint64_t);

struct KernelsOfType {
  Kernel by_operator[4];
};

template <class Element>
constexpr KernelsOfType kernels_of{{combine_all<Element, Sum>, combine_all<Element, Product>,
                                    combine_all<Element, Minimum>, combine_all<Element, Maximum>}};

constexpr KernelsOfType kernels[] = {kernels_of<float>, kernels_of<double>, kernels_of<std::int32_t>,
                                     kernels_of<std::int64_t>, kernels_of<std::uint64_t>};

bool is_aligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

// Block by block through aligned copies. A block's operands are read before its result is written, so destination may
// be either operand.
void combine_by_user_in_blocks(const Reduction& reduction, std::byte* destination, const std::byte* lower,
                               const std::byte* higher, std::uint64_t count) {
  constexpr std::uint64_t block_bytes = 4096;
  alignas(64) std::byte in[block_bytes];
  alignas(64) std::byte inout[block_bytes];
  const std::uint64_t bytes = count * element_bytes(reduction.type);
  for (std::uint64_t done = 0; done < bytes; done += block_bytes) {
    const std::uint64_t size = std::min(block_bytes, bytes - done);
    std::memcpy(in, lower + done, size);
    std::memcpy(inout, higher + done, size);
    reduction.function(in, inout, size / element_bytes(reduction.type), static_cast<int>(reduction.type),
                       reduction.arg);
    std::memcpy(destination + done, inout, size);
  }
}

void combine_by_user(const Reduction& reduction, std::byte* destination, const std::byte* lower,
                     const std::byte* higher, std::uint64_t count) {
  const std::size_t alignment = element_bytes(reduction.type);
  const bool in_place = destination != lower && is_aligned(destination, alignment) && is_aligned(lower, alignment);
  if (!in_place) return combine_by_user_in_blocks(reduction, destination, lower, higher, count);
  if (destination != higher) std::memcpy(destination, higher, count * alignment);
  reduction.function(lower, destination, count, static_cast<int>(reduction.type), reduction.arg);
}

}  // namespace

void combine(const Reduction& reduction, void* destination, const void* lower, const void* higher,
             std::uint64_t count) {
  if (count == 0) return;
  assert(reduction.type <= DataType::uint64);
  assert(reduction.op <= Operator::user);
  auto* const out = static_cast<std::byte*>(destination);
  auto* const low = static_cast<const std::byte*>(lower);
  auto* const high = static_cast<const std::byte*>(higher);
  if (reduction.op == Operator::user) return combine_by_user(reduction, out, low, high, count);
  kernels[static_cast<std::size_t>(reduction.type)].by_operator[static_cast<std::size_t>(reduction.op)](out, low, high,
                                                                                                        count);
}

}  // namespace ucft::detail
