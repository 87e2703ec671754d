// The C++ types of elements that ucft.hpp takes, with those that C++ does not have: float16, bfloat16, and values with
// locations.
#ifndef UCFT_ELEMENTS_HPP
#define UCFT_ELEMENTS_HPP

#include <bit>
#include <complex>
#include <concepts>
#include <cstdint>

#include "ucft/ucft.h"

namespace ucft {
inline namespace v0 {

// IEEE 754 binary16. From float: to nearest, ties to even; too large is an infinity; a NaN the positive quiet one.
// To float: exact. Arithmetic is the caller's matter: in float.
struct float16 {
  std::uint16_t bits = 0;

  constexpr float16() = default;
  constexpr explicit float16(float value) : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  constexpr explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude < 0x0400)  // 0, or subnormal
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
    if (magnitude < 0x7c00) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
    return std::bit_cast<float>(sign | magnitude << 13 | 0x7f800000 | (magnitude > 0x7c00 ? 0x400000u : 0u));
  }
  friend constexpr bool operator==(float16 a, float16 b) { return static_cast<float>(a) == static_cast<float>(b); }

 private:
  static constexpr std::uint16_t rounded(std::uint32_t value) {
    const std::uint32_t sign = value >> 16 & 0x8000, magnitude = value & 0x7fffffff;
    const auto shifted = [&](std::uint32_t from, std::uint32_t by) {
      return static_cast<std::uint16_t>(sign | (from + (1u << (by - 1)) - 1 + (from >> by & 1)) >> by);
    };
    if (magnitude > 0x7f800000) return 0x7e00;
    if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // from 65520 on
    if (magnitude >= 0x38800000) return shifted(magnitude - 0x38000000, 13);        // from 2^-14 on: normal
    if (magnitude <= 0x33000000) return static_cast<std::uint16_t>(sign);           // to 2^-25
    return shifted((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23));
  }
};

// The upper half of a float. Conversions as of float16.
struct bfloat16 {
  std::uint16_t bits = 0;

  constexpr bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  constexpr explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  friend constexpr bool operator==(bfloat16 a, bfloat16 b) { return static_cast<float>(a) == static_cast<float>(b); }

 private:
  static constexpr std::uint16_t rounded(std::uint32_t value) {
    if ((value & 0x7fffffff) > 0x7f800000) return 0x7fc0;
    return static_cast<std::uint16_t>((value + 0x7fff + (value >> 16 & 1)) >> 16);
  }
};

// For UCFT_MINLOC and UCFT_MAXLOC: of float or double with int32, of int32 with int32, of int64 or double with int64.
template <class Value, class Location>
struct located {
  Value value{};
  Location location{};

  friend constexpr bool operator==(const located&, const located&) = default;
};

namespace internal {

constexpr int no_dtype = -1;

// The ucft_dtype_t, or no_dtype.
template <class T>
constexpr int dtype_number() noexcept {
  if constexpr (std::same_as<T, float>) return UCFT_FLOAT;
  if constexpr (std::same_as<T, double>) return UCFT_DOUBLE;
  if constexpr (std::same_as<T, std::int8_t>) return UCFT_INT8;
  if constexpr (std::same_as<T, std::int16_t>) return UCFT_INT16;
  if constexpr (std::same_as<T, std::int32_t>) return UCFT_INT32;
  if constexpr (std::same_as<T, std::int64_t>) return UCFT_INT64;
  if constexpr (std::same_as<T, std::uint8_t>) return UCFT_UINT8;
  if constexpr (std::same_as<T, std::uint16_t>) return UCFT_UINT16;
  if constexpr (std::same_as<T, std::uint32_t>) return UCFT_UINT32;
  if constexpr (std::same_as<T, std::uint64_t>) return UCFT_UINT64;
  if constexpr (std::same_as<T, float16>) return UCFT_FLOAT16;
  if constexpr (std::same_as<T, bfloat16>) return UCFT_BFLOAT16;
  if constexpr (std::same_as<T, std::complex<float>>) return UCFT_COMPLEX_FLOAT;
  if constexpr (std::same_as<T, std::complex<double>>) return UCFT_COMPLEX_DOUBLE;
  if constexpr (std::same_as<T, bool>) return UCFT_BOOL;
  if constexpr (std::same_as<T, located<float, std::int32_t>>) return UCFT_FLOAT_INT32;
  if constexpr (std::same_as<T, located<double, std::int32_t>>) return UCFT_DOUBLE_INT32;
  if constexpr (std::same_as<T, located<std::int32_t, std::int32_t>>) return UCFT_INT32_INT32;
  if constexpr (std::same_as<T, located<std::int64_t, std::int64_t>>) return UCFT_INT64_INT64;
  if constexpr (std::same_as<T, located<double, std::int64_t>>) return UCFT_DOUBLE_INT64;
  if constexpr (std::derived_from<T, ucft_accumulator_t>) return UCFT_ACCUMULATOR;
  return no_dtype;
}

}  // namespace internal

template <class T>
concept Element = internal::dtype_number<T>()
!= internal::no_dtype;

template <Element T>
constexpr ucft_dtype_t dtype_of() noexcept {
  return static_cast<ucft_dtype_t>(internal::dtype_number<T>());
}

static_assert(sizeof(bool) == 1 && sizeof(located<double, std::int32_t>) == 16 && sizeof(float16) == 2);

}  // namespace v0
}  // namespace ucft

#endif
