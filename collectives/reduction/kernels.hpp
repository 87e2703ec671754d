// The effect of operators on two elements, and the types that elements have here. reduction.cpp and conversions.cpp
// make loops of it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "collectives/reduction/halves.hpp"
#include "collectives/reduction/types.hpp"

namespace ucft::detail {
namespace {

#define UCFT_ALWAYS_INLINE [[gnu::always_inline]] static inline

// In the loop that follows the iterations are independent of each other, through memory, too.
#if defined(__clang__)
#define UCFT_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define UCFT_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

// ---- types ----------------------------------------------------------------------------------------------------------

template <class Real>
struct Complex {
  using Part = Real;
  Real real, imaginary;
};
struct Bool {
  std::uint8_t byte;  // 0 is false, all else true
};
template <class Value, class Location>
struct Located {
  Value value;
  Location location;
};
// As C lays out a double and an int32_t.
struct LocatedDouble {
  double value;
  std::int32_t location, padding;
};

template <DataType type>
constexpr auto element_of_type() {
  if constexpr (type == DataType::float32) return float{};
  if constexpr (type == DataType::float64) return double{};
  if constexpr (type == DataType::int8) return std::int8_t{};
  if constexpr (type == DataType::int16) return std::int16_t{};
  if constexpr (type == DataType::int32) return std::int32_t{};
  if constexpr (type == DataType::int64) return std::int64_t{};
  if constexpr (type == DataType::uint8) return std::uint8_t{};
  if constexpr (type == DataType::uint16) return std::uint16_t{};
  if constexpr (type == DataType::uint32) return std::uint32_t{};
  if constexpr (type == DataType::uint64) return std::uint64_t{};
  if constexpr (type == DataType::float16) return Float16{};
  if constexpr (type == DataType::bfloat16) return BFloat16{};
  if constexpr (type == DataType::complex_float) return Complex<float>{};
  if constexpr (type == DataType::complex_double) return Complex<double>{};
  if constexpr (type == DataType::boolean) return Bool{};
  if constexpr (type == DataType::float_int32) return Located<float, std::int32_t>{};
  if constexpr (type == DataType::double_int32) return LocatedDouble{};
  if constexpr (type == DataType::int32_int32) return Located<std::int32_t, std::int32_t>{};
  if constexpr (type == DataType::int64_int64) return Located<std::int64_t, std::int64_t>{};
  if constexpr (type == DataType::double_int64) return Located<double, std::int64_t>{};
}
template <DataType type>
using ElementOf = decltype(element_of_type<type>());

template <std::size_t bytes>
struct Bits;
template <>
struct Bits<2> {
  using Type = std::uint16_t;
};
template <>
struct Bits<4> {
  using Type = std::uint32_t;
};
template <>
struct Bits<8> {
  using Type = std::uint64_t;
};
template <class Element>
using BitsOf = typename Bits<sizeof(Element)>::Type;

template <class Element>
inline constexpr bool is_half = std::is_same_v<Element, Float16> || std::is_same_v<Element, BFloat16>;

// ---- in memory ------------------------------------------------------------------------------------------------------

template <class Element>
UCFT_ALWAYS_INLINE Element element_at(const std::byte* memory, std::uint64_t i) {
  Element element;
  std::memcpy(&element, memory + i * sizeof(Element), sizeof(Element));
  return element;
}
template <class Element>
UCFT_ALWAYS_INLINE void put(std::byte* memory, std::uint64_t i, const Element& element) {
  std::memcpy(memory + i * sizeof(Element), &element, sizeof(Element));
}

// ---- order ----------------------------------------------------------------------------------------------------------

template <class Element>
UCFT_ALWAYS_INLINE bool is_nan(Element value) {
  if constexpr (std::is_integral_v<Element>)
    return false;
  else if constexpr (is_half<Element>)
    return (value.bits & 0x7fff) > Element::infinity;
  else
    return std::isnan(value);
}

template <class Element>
UCFT_ALWAYS_INLINE Element quiet_nan() {
  if constexpr (is_half<Element>)
    return Element{Element::quiet_nan};
  else
    return std::numeric_limits<Element>::quiet_NaN();
}

// An integer that is ordered as the values are, -0.0 before +0.0: of a negative number the other bits are turned round.
// For any NaN it is the one given, which no number has.
template <class Element, class Key>
UCFT_ALWAYS_INLINE Key ordered(Element value, Key of_nan) {
  if constexpr (std::is_integral_v<Element>) {
    return value;
  } else {
    const Key bits = std::bit_cast<Key>(value);
    const Key turned = bits ^ ((bits >> (8 * sizeof(Key) - 1)) & std::numeric_limits<Key>::max());
    return is_nan(value) ? of_nan : turned;
  }
}
template <class Element>
UCFT_ALWAYS_INLINE auto ordered_for_minimum(Element value) {
  using Key = std::make_signed_t<BitsOf<Element>>;
  return ordered(value, std::numeric_limits<Key>::min());
}
template <class Element>
UCFT_ALWAYS_INLINE auto ordered_for_maximum(Element value) {
  using Key = std::make_signed_t<BitsOf<Element>>;
  return ordered(value, std::numeric_limits<Key>::max());
}

template <class Element>
UCFT_ALWAYS_INLINE Element without_payload(Element value) {
  if constexpr (std::is_integral_v<Element>)
    return value;
  else
    return is_nan(value) ? quiet_nan<Element>() : value;
}

// ---- operators ------------------------------------------------------------------------------------------------------

// Through unsigned, where overflow is defined to wrap; and none is shorter than that, since shorter ones become int.
template <class Element, class Arithmetic>
UCFT_ALWAYS_INLINE Element wrapping(Element lower, Element higher, Arithmetic arithmetic) {
  if constexpr (std::is_integral_v<Element>) {
    using Unsigned = std::common_type_t<std::make_unsigned_t<Element>, unsigned>;
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
  // The plain formula: what infinities make of it stays.
  template <class Real>
  UCFT_ALWAYS_INLINE Complex<Real> of(Complex<Real> a, Complex<Real> b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
  }
};

// Floating point: both choices are the same bits unless the operands are equal. Then one is a and the other b, and
// equal operands differ in bits only if they are the two zeros. 1 and 2 -> 1|1 = 1; -0 and +0 -> 8..0 | 0 = -0.
struct Minimum {
  template <class Element>
  UCFT_ALWAYS_INLINE Element of(Element lower, Element higher) {
    if constexpr (std::is_integral_v<Element>) {
      return lower < higher ? lower : higher;
    } else if constexpr (is_half<Element>) {
      return without_payload(ordered_for_minimum(lower) < ordered_for_minimum(higher) ? lower : higher);
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
    } else if constexpr (is_half<Element>) {
      return without_payload(ordered_for_maximum(lower) > ordered_for_maximum(higher) ? lower : higher);
    } else {
      const auto one = std::bit_cast<BitsOf<Element>>(lower > higher ? lower : higher);
      const auto other = std::bit_cast<BitsOf<Element>>(higher > lower ? higher : lower);
      return nan_or(lower, higher, one & other);
    }
  }
};

template <class Pair>
UCFT_ALWAYS_INLINE Pair located(Pair from) {
  Pair result{};
  result.value = without_payload(from.value);
  result.location = from.location;
  return result;
}

struct MinimumLocation {
  template <class Pair>
  UCFT_ALWAYS_INLINE Pair of(Pair lower, Pair higher) {
    const auto one = ordered_for_minimum(lower.value), other = ordered_for_minimum(higher.value);
    return located(one < other || (one == other && lower.location < higher.location) ? lower : higher);
  }
};

struct MaximumLocation {
  template <class Pair>
  UCFT_ALWAYS_INLINE Pair of(Pair lower, Pair higher) {
    const auto one = ordered_for_maximum(lower.value), other = ordered_for_maximum(higher.value);
    return located(one > other || (one == other && lower.location < higher.location) ? lower : higher);
  }
};

UCFT_ALWAYS_INLINE bool is_true(Bool value) { return value.byte != 0; }
template <class Integer>
UCFT_ALWAYS_INLINE bool is_true(Integer value) {
  return value != 0;
}
struct And {
  UCFT_ALWAYS_INLINE bool of_truths(bool a, bool b) { return a & b; }
  template <class Integer>
  UCFT_ALWAYS_INLINE Integer of_bits(Integer a, Integer b) {
    return static_cast<Integer>(a & b);
  }
};
struct Or {
  UCFT_ALWAYS_INLINE bool of_truths(bool a, bool b) { return a | b; }
  template <class Integer>
  UCFT_ALWAYS_INLINE Integer of_bits(Integer a, Integer b) {
    return static_cast<Integer>(a | b);
  }
};
struct Xor {
  UCFT_ALWAYS_INLINE bool of_truths(bool a, bool b) { return a ^ b; }
  template <class Integer>
  UCFT_ALWAYS_INLINE Integer of_bits(Integer a, Integer b) {
    return static_cast<Integer>(a ^ b);
  }
};

template <class Element>
UCFT_ALWAYS_INLINE Element from_truth(bool value) {
  if constexpr (std::is_same_v<Element, Bool>)
    return Bool{value};
  else
    return static_cast<Element>(value);
}

template <class Function>
struct Logical {
  template <class Element>
  UCFT_ALWAYS_INLINE Element of(Element lower, Element higher) {
    return from_truth<Element>(Function::of_truths(is_true(lower), is_true(higher)));
  }
};

template <class Function>
struct Bitwise {
  template <class Integer>
  UCFT_ALWAYS_INLINE Integer of(Integer lower, Integer higher) {
    return Function::of_bits(lower, higher);
  }
  UCFT_ALWAYS_INLINE Bool of(Bool lower, Bool higher) { return Logical<Function>::of(lower, higher); }
};

template <Operator op>
constexpr auto function_of_operator() {
  if constexpr (op == Operator::sum || op == Operator::average) return Sum{};
  if constexpr (op == Operator::prod) return Product{};
  if constexpr (op == Operator::min) return Minimum{};
  if constexpr (op == Operator::max) return Maximum{};
  if constexpr (op == Operator::minloc) return MinimumLocation{};
  if constexpr (op == Operator::maxloc) return MaximumLocation{};
  if constexpr (op == Operator::logical_and) return Logical<And>{};
  if constexpr (op == Operator::logical_or) return Logical<Or>{};
  if constexpr (op == Operator::logical_xor) return Logical<Xor>{};
  if constexpr (op == Operator::bitwise_and) return Bitwise<And>{};
  if constexpr (op == Operator::bitwise_or) return Bitwise<Or>{};
  if constexpr (op == Operator::bitwise_xor) return Bitwise<Xor>{};
}
template <Operator op>
using FunctionOf = decltype(function_of_operator<op>());

}  // namespace
}  // namespace ucft::detail
