// Sums of doubles and of their products, without any rounding but one at the end. Shares nothing with
// collectives/reduction.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

namespace ucft::detail::test {

// An integer of 4480 bits, two's complement: the exact sum of any doubles and products of two, in units of 2^-2148.
class Exact {
 public:
  void add(double value) { add_product(value, 1); }
  void add_product(double a, double b) {
    const auto [one, its_exponent] = whole_of(a);
    const auto [other, other_exponent] = whole_of(b);
    const __int128 product = static_cast<__int128>(one) * other;
    const int exponent = its_exponent + other_exponent;
    add_whole(static_cast<std::int64_t>(product >> 53), exponent + 53);
    add_whole(static_cast<std::int64_t>(product & ((std::int64_t{1} << 53) - 1)), exponent);
  }
  // Rounded once, ties to even.
  template <class Real>
  Real rounded() const {
    std::vector<std::uint32_t> magnitude(std::begin(words_), std::end(words_));
    const bool negative = words_[words - 1] >> 31 != 0;
    if (negative) {
      std::uint64_t carry = 1;
      for (std::uint32_t& word : magnitude) {
        carry += static_cast<std::uint32_t>(~word);
        word = static_cast<std::uint32_t>(carry);
        carry >>= 32;
      }
    }
    const auto bit = [&](int i) { return i >= 0 && (magnitude[static_cast<std::size_t>(i / 32)] >> i % 32 & 1) != 0; };
    int highest = static_cast<int>(words) * 32 - 1;
    while (highest >= 0 && !bit(highest)) --highest;
    if (highest < 0) return 0;
    const int least_place = (sizeof(Real) == 8 ? -1074 : -149) - least;  // of a subnormal's last bit
    const int last = std::max(highest - (std::numeric_limits<Real>::digits - 1), least_place);
    std::uint64_t kept = 0;
    for (int i = highest; i >= last; --i) kept = kept << 1 | bit(i);
    bool below = false;
    for (int i = 0; i < last - 1; ++i) below = below || bit(i);
    if (bit(last - 1) && (below || (kept & 1) != 0)) ++kept;
    const double scaled = std::ldexp(static_cast<double>(kept), last + least);
    const auto result = static_cast<Real>(scaled);
    return negative ? -result : result;
  }

 private:
  static constexpr int least = -2148;
  static constexpr std::size_t words = 140;

  // value = whole 2^exponent
  struct Whole {
    std::int64_t whole;
    int exponent;
  };
  static Whole whole_of(double value) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    const int place = std::max(exponent - 53, -1074);  // of a subnormal number the bits below are zeros
    return {static_cast<std::int64_t>(std::ldexp(fraction, exponent - place)), place};
  }
  void add_whole(std::int64_t whole, int exponent) {
    const int place = exponent - least;
    __int128 carry = static_cast<__int128>(whole) * (std::int64_t{1} << place % 32);
    for (std::size_t word = static_cast<std::size_t>(place / 32); word < words; ++word) {
      carry += words_[word];
      words_[word] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }

  std::uint32_t words_[words] = {};
};

// All of them, at least one, as a tree of any form would: combine_two(into, a, b), where `into` is a or b.
template <class Part, class CombineTwo>
Part combined_by_chance(std::vector<Part> parts, std::mt19937_64& random, CombineTwo combine_two) {
  while (parts.size() > 1) {
    const std::size_t a = random() % parts.size(), b = (a + 1 + random() % (parts.size() - 1)) % parts.size();
    combine_two(parts[std::min(a, b)], parts[a], parts[b]);
    parts[std::max(a, b)] = parts.back();
    parts.pop_back();
  }
  return parts[0];
}

}  // namespace ucft::detail::test
