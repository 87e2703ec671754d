// float16 (IEEE 754 binary16) and bfloat16 (the upper half of a float), one at a time, by integers alone. So neither
// the processor's rounding mode nor its treatment of subnormal numbers matters. conversions.cpp has them in bulk.
//
// From float: to nearest, ties to even. Subnormal numbers are kept. A number that is too large becomes an infinity. Any
// NaN becomes the positive quiet one without payload (0x7e00, 0x7fc0). To float: exact.
#pragma once

#include <bit>
#include <cstdint>

namespace ucft::detail {

struct Float16 {
  std::uint16_t bits;
  static constexpr std::uint16_t infinity = 0x7c00, quiet_nan = 0x7e00;
};
struct BFloat16 {
  std::uint16_t bits;
  static constexpr std::uint16_t infinity = 0x7f80, quiet_nan = 0x7fc0;
};

// To nearest, ties to even: 5 >> 1 = 2.5 -> 2, 7 >> 1 = 3.5 -> 4.
constexpr std::uint32_t shifted_right(std::uint32_t value, unsigned bits) {
  return (value + (1u << (bits - 1)) - 1 + (value >> bits & 1)) >> bits;
}

constexpr BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fff'ffff) > 0x7f80'0000;
  return {is_nan ? BFloat16::quiet_nan : static_cast<std::uint16_t>(shifted_right(bits, 16))};
}

constexpr Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fff'ffff;
  const auto with_sign = [&](std::uint32_t rest) { return Float16{static_cast<std::uint16_t>(sign | rest)}; };
  if (magnitude > 0x7f80'0000) return {Float16::quiet_nan};
  if (magnitude >= 0x477f'f000) return with_sign(Float16::infinity);  // 65520: half way from the largest to 65536
  if (magnitude >= 0x3880'0000)
    return with_sign(shifted_right(magnitude - 0x3800'0000, 13));  // 2^-14: 112 is off the exponent
  if (magnitude <= 0x3300'0000) return with_sign(0);               // 2^-25: half way from 0 to the least
  // m 2^(e-150) = (m >> (126-e)) 2^-24
  return with_sign(shifted_right((magnitude & 0x7f'ffff) | 0x80'0000, 126 - (magnitude >> 23)));
}

constexpr float to_float(BFloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

constexpr float to_float(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16, magnitude = value.bits & 0x7fff;
  std::uint32_t rest = (magnitude << 13) + 0x3800'0000;
  if (magnitude >= Float16::infinity)
    rest = magnitude << 13 | 0x7f80'0000 | (magnitude > Float16::infinity ? 0x40'0000 : 0);
  if (magnitude < 0x0400) rest = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  return std::bit_cast<float>(sign | rest);
}

}  // namespace ucft::detail
