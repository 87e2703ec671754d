// The values that callers of a gossip give and get, one at a time: float and double as they are, float16 and bfloat16
// in float. A result is rounded to its type once, to nearest, ties to even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "collectives/reduction/halves.hpp"

namespace ucft::detail {

// The type of a call's values, if it is not the one that they are carried in.
enum class GossipHalf : std::uint8_t { none, float16, bfloat16 };

// So that a rounding to fewer bits afterwards is the only one: what lies between two floats becomes the odd one.
inline float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const bool is_further = std::abs(static_cast<double>(nearest)) > std::abs(value);  // from 0
  return std::bit_cast<float>((is_further ? bits - 1 : bits) | 1);
}

inline std::uint16_t half_bits(GossipHalf half, double value) {
  const float carried = rounded_to_odd(value);
  return half == GossipHalf::float16 ? to_float16(carried).bits : to_bfloat16(carried).bits;
}
inline float float_of(GossipHalf half, std::uint16_t bits) {
  return half == GossipHalf::float16 ? to_float(Float16{bits}) : to_float(BFloat16{bits});
}
inline float rounded_to(GossipHalf half, double value) { return float_of(half, half_bits(half, value)); }

template <class Real>
std::vector<Real> read_values(GossipHalf half, const void* from, std::size_t count) {
  std::vector<Real> values(count);
  if (half == GossipHalf::none) {
    if (count > 0) std::memcpy(values.data(), from, count * sizeof(Real));
    return values;
  }
  const auto* bits = static_cast<const std::uint16_t*>(from);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<Real>(float_of(half, bits[i]));
  return values;
}

template <class Real>
void write_values(GossipHalf half, std::span<const Real> values, void* to) {
  if (half == GossipHalf::none) {
    if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
    return;
  }
  auto* bits = static_cast<std::uint16_t*>(to);
  for (std::size_t i = 0; i < values.size(); ++i) bits[i] = half_bits(half, static_cast<double>(values[i]));
}

}  // namespace ucft::detail
