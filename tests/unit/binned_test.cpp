// Reproducible sums against a plain reference: a wide integer with every bit that the numbers have.
#include "collectives/reduction/binned.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "collectives/reduction/reduction.hpp"
#include "tests/exact_sum.hpp"

namespace ucft::detail {
namespace {

using test::Exact;

template <class Real>
constexpr DataType type_of = sizeof(Real) == 8 ? DataType::float64 : DataType::float32;

template <class Real>
auto bits_of(Real value) {
  return std::bit_cast<typename FormatOfReal<Real>::Bits>(value);
}

// As one rank after the other would add them.
template <class Real>
Binned<Real> added(const std::vector<Real>& values) {
  Binned<Real> all = binned(values[0]);
  for (std::size_t i = 1; i < values.size(); ++i) all = merged(all, binned(values[i]));
  return all;
}

// In groups of any size that are merged as a tree of any form would.
template <class Real>
Binned<Real> grouped(std::vector<Real> values, std::mt19937_64& random) {
  std::shuffle(values.begin(), values.end(), random);
  std::vector<Binned<Real>> parts;
  for (const Real value : values) parts.push_back(binned(value));
  return test::combined_by_chance(parts, random, [&](auto& into, const auto& a, const auto& b) {
    into = random() % 2 == 0 ? merged(a, b) : merged(b, a);
  });
}

template <class Real>
void expect_same_bits(const Binned<Real>& a, const Binned<Real>& b, const std::string& what) {
  EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0) << what;
}

template <class Real>
struct BinnedSum : testing::Test {
  using Format = FormatOfReal<Real>;
  static Real any(std::mt19937_64& random) {  // of all finite numbers, subnormal ones among them
    for (;;) {
      const auto value = std::bit_cast<Real>(static_cast<typename Format::Bits>(random()));
      if (std::isfinite(value)) return value;
    }
  }
  // Within so many powers of two.
  static Real within(int powers, std::mt19937_64& random) {
    const auto mantissa = static_cast<Real>(static_cast<std::int64_t>(random() % 2'000'001) - 1'000'000);
    return std::ldexp(mantissa, static_cast<int>(random() % static_cast<unsigned>(powers)));
  }
};
using BothReals = testing::Types<float, double>;
TYPED_TEST_SUITE(BinnedSum, BothReals);

TYPED_TEST(BinnedSum, OneNumberComesBackAsItIs) {
  std::mt19937_64 random(1);
  using Limits = std::numeric_limits<TypeParam>;
  std::vector<TypeParam> values = {0,
                                   TypeParam(-0.0),
                                   1,
                                   -1,
                                   Limits::max(),
                                   Limits::lowest(),
                                   Limits::min(),
                                   Limits::denorm_min(),
                                   -Limits::denorm_min(),
                                   Limits::infinity(),
                                   -Limits::infinity()};
  for (int i = 0; i < 200'000; ++i) values.push_back(this->any(random));
  for (int exponent = -1080; exponent < 1030; ++exponent)
    for (const double mantissa : {1.0, -1.5, 1.0 + 0x1p-23})
      values.push_back(static_cast<TypeParam>(std::ldexp(mantissa, exponent)));
  for (const TypeParam value : values) ASSERT_EQ(bits_of(sum_of(binned(value))), bits_of(value)) << value;
}

TYPED_TEST(BinnedSum, NeitherOrderNorGroupingChangesABit) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 3000; ++round) {
    std::vector<TypeParam> values(1 + random() % 64);
    for (TypeParam& value : values)
      value = round % 3 == 0 ? this->any(random) : this->within(round % 3 == 1 ? 4 : 120, random);
    if (round % 5 == 0) values.push_back(-values[0]);  // cancels
    const Binned<TypeParam> all = added(values);
    for (int i = 0; i < 4; ++i) expect_same_bits(grouped(values, random), all, "round " + std::to_string(round));
  }
}

TYPED_TEST(BinnedSum, IsTheRoundedExactSumWhereNothingIsDropped) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 5000; ++round) {
    std::vector<TypeParam> values(1 + random() % 40);
    const int offset =
        static_cast<int>(random() % (sizeof(TypeParam) == 8 ? 2000 : 200)) - (sizeof(TypeParam) == 8 ? 1090 : 150);
    for (TypeParam& value : values)
      value = std::ldexp(static_cast<TypeParam>(static_cast<std::int64_t>(random() % 4095) - 2047),
                         static_cast<int>(random() % 16) + offset);
    if (round % 4 == 0) {  // a tie, but for the least one
      const int digits = std::numeric_limits<TypeParam>::digits, tie = digits > 50 ? 12 : 2,
                sign = round % 8 == 0 ? 1 : -1;
      values = {};
      for (const int power : {0, tie, tie + digits})
        values.push_back(std::ldexp(TypeParam(power == 0 ? sign : 1), power + offset));
    }
    Exact exact;
    for (const TypeParam value : values) exact.add(static_cast<double>(value));
    ASSERT_EQ(sum_of(added(values)), exact.rounded<TypeParam>()) << "round " << round;
  }
}

// ucft.h: 2^-72 of the largest magnitude for each contributor (float: 2^-28), and one rounding.
TYPED_TEST(BinnedSum, TheErrorIsWithinItsBound) {
  std::mt19937_64 random(4);
  const int bound = sizeof(TypeParam) == 8 ? -72 : -28;
  int inexact = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<TypeParam> values(2 + random() % 60);
    for (TypeParam& value : values) value = this->within(90, random);
    if (round % 2 == 0)
      for (std::size_t i = 0; i + 1 < values.size(); i += 2) values[i + 1] = -values[i];  // little remains
    values.push_back(this->within(3, random));
    Exact exact;
    TypeParam largest = 0;
    for (const TypeParam value : values) {
      exact.add(static_cast<double>(value));
      largest = std::max(largest, std::abs(value));
    }
    const TypeParam got = sum_of(added(values));
    Exact error = exact;
    error.add(-static_cast<double>(got));
    inexact += error.rounded<double>() != 0;
    const double rounding =
        std::abs(static_cast<double>(std::nextafter(got, std::numeric_limits<TypeParam>::infinity()) - got));
    const double allowed =
        static_cast<double>(values.size()) * std::ldexp(static_cast<double>(largest), bound) + rounding;
    ASSERT_LE(std::abs(error.rounded<double>()), allowed) << "round " << round;
  }
  EXPECT_GT(inexact, 500) << "nothing was dropped: the test sees nothing";
}

TYPED_TEST(BinnedSum, NothingOverflowsOnTheWay) {
  const TypeParam largest = std::numeric_limits<TypeParam>::max();
  EXPECT_EQ(sum_of(added<TypeParam>({largest, largest, -largest})), largest);
  EXPECT_EQ(sum_of(added<TypeParam>({largest, largest})), std::numeric_limits<TypeParam>::infinity());
  EXPECT_EQ(sum_of(added<TypeParam>({-largest, -largest, largest, largest, 1})), 0)
      << "1 is below the bins of the largest";
}

TYPED_TEST(BinnedSum, SpecialNumbers) {
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity(),
                  nan = std::numeric_limits<TypeParam>::quiet_NaN();
  const TypeParam zero = 0, minus_zero = TypeParam(-0.0), least = std::numeric_limits<TypeParam>::denorm_min();
  const auto sum = [](std::vector<TypeParam> values) { return bits_of(sum_of(added(values))); };
  EXPECT_EQ(sum({infinity, 1, TypeParam(-1e30)}), bits_of(infinity));
  EXPECT_EQ(sum({1, -infinity, std::numeric_limits<TypeParam>::max()}), bits_of(-infinity));
  EXPECT_EQ(sum({infinity, -infinity}), bits_of(nan));
  EXPECT_EQ(sum({1, -nan, infinity}), bits_of(nan));
  EXPECT_EQ(sum({minus_zero, minus_zero}), bits_of(minus_zero));
  EXPECT_EQ(sum({minus_zero, zero}), bits_of(zero));
  EXPECT_EQ(sum({1, -1}), bits_of(zero));
  EXPECT_EQ(sum({least, -least, minus_zero}), bits_of(zero));
  EXPECT_EQ(sum({least, least}), bits_of(2 * least));
}

// 2^27 numbers of one sign are what a bin has room for.
TYPED_TEST(BinnedSum, ManyNumbersFit) {
  for (const double value :
       {std::ldexp(1 - 0x1p-20, 100), -std::ldexp(1 - 0x1p-20, 99), std::ldexp(1 - 0x1p-20, 63), 0x1.fffffep+75}) {
    Binned<TypeParam> all = binned(static_cast<TypeParam>(value));
    for (int i = 0; i < 27; ++i) all = merged(all, all);
    EXPECT_EQ(sum_of(all), std::ldexp(static_cast<TypeParam>(value), 27)) << value;
    all = merged(all, binned(static_cast<TypeParam>(-value)));
    const double exact = (std::ldexp(1.0, 27) - 1) * static_cast<double>(static_cast<TypeParam>(value));
    EXPECT_EQ(sum_of(all), static_cast<TypeParam>(exact)) << value;
  }
}

// Bins that cancel: -2^25 2^72 + 2^61 2^36 + 5.
TEST(BinnedByHand, WhatRemainsOfLongBinsIsExact) {
  const auto sum = [](std::int64_t high, std::int64_t middle, std::int64_t low) {
    return sum_of(Binned<double>{{high, middle, low}, 30, mark_not_minus_zero});
  };
  const auto place = [](double value) { return std::ldexp(value, 28 * 36 - 1074); };
  EXPECT_EQ(sum(-(std::int64_t{1} << 25), std::int64_t{1} << 61, 5), place(5));
  EXPECT_EQ(sum(-(std::int64_t{1} << 25), std::int64_t{1} << 61, -5), place(-5));
  EXPECT_EQ(sum(std::int64_t{1} << 62, 0, 1), place(0x1p134));
  // A tie, but for the lowest bin: upwards, or not.
  EXPECT_EQ(sum((std::int64_t{1} << 55) + 4, 0, 1), place(((std::int64_t{1} << 55) + 8) * 0x1p72));
  EXPECT_EQ(sum((std::int64_t{1} << 55) + 4, 0, 0), place((std::int64_t{1} << 55) * 0x1p72));
  EXPECT_EQ(sum((std::int64_t{1} << 55) + 4, 0, -1), place((std::int64_t{1} << 55) * 0x1p72));
  EXPECT_EQ(sum(-(std::int64_t{1} << 55) - 4, 0, -1), place(-((std::int64_t{1} << 55) + 8) * 0x1p72));
}

// A serial sum of 2^16 terms, and the same as 1 to 64 ranks would have it, permuted; and, where some of these are dead,
// the serial sum of what the others have.
TYPED_TEST(BinnedSum, ManyTermsInAnyDecompositionOfWhoContributes) {
  std::mt19937_64 random(5);
  std::vector<TypeParam> values(std::size_t{1} << 16);
  for (TypeParam& value : values) value = this->within(sizeof(TypeParam) == 8 ? 20 : 4, random);
  for (std::size_t ranks = 1; ranks <= 64; ++ranks) {
    std::shuffle(values.begin(), values.end(), random);
    const std::size_t dead = ranks > 1 && ranks % 2 == 0 ? random() % (ranks / 2) : 0, first = random() % ranks;
    const auto is_dead = [&](std::size_t rank) { return (rank + ranks - first) % ranks < dead; };
    std::vector<Binned<TypeParam>> parts;
    std::vector<TypeParam> contributed;
    Exact exact;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (is_dead(rank)) continue;
      Binned<TypeParam> part = binned(values[rank]);
      for (std::size_t i = rank + ranks; i < values.size(); i += ranks) part = merged(part, binned(values[i]));
      parts.push_back(part);
      for (std::size_t i = rank; i < values.size(); i += ranks) {
        contributed.push_back(values[i]);
        exact.add(static_cast<double>(values[i]));
      }
    }
    std::shuffle(parts.begin(), parts.end(), random);
    Binned<TypeParam> all = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) all = merged(parts[i], all);
    std::shuffle(contributed.begin(), contributed.end(), random);
    expect_same_bits(all, added(contributed), std::to_string(ranks) + " ranks, " + std::to_string(dead) + " dead");
    EXPECT_EQ(sum_of(all), exact.rounded<TypeParam>()) << ranks;
  }
}

// 2^26 terms, a serial sum against that of 64 ranks; the terms are numbers of which nothing is dropped, so an integer
// is the sum.
TYPED_TEST(BinnedSum, ASumOf67MillionTermsIsExact) {
  const auto term = [](std::uint64_t i) {
    return static_cast<std::int64_t>(i * 0x9e3779b97f4a7c15ull >> 44) - 500'000;
  };
  constexpr std::uint64_t terms = std::uint64_t{1} << 26, ranks = 64;
  std::array<Binned<TypeParam>, ranks> parts;
  Binned<TypeParam> serial{};
  __int128 exact = 0;
  for (std::uint64_t i = 0; i < terms; ++i) {
    const Binned<TypeParam> one = binned(static_cast<TypeParam>(term(i)));
    serial = i == 0 ? one : merged(serial, one);
    parts[i % ranks] = i < ranks ? one : merged(one, parts[i % ranks]);
    exact += term(i);
  }
  Binned<TypeParam> all = parts[ranks - 1];
  for (std::uint64_t rank = ranks - 1; rank-- > 0;) all = merged(parts[rank], all);
  expect_same_bits(all, serial, "64 ranks");
  EXPECT_EQ(sum_of(serial), static_cast<TypeParam>(static_cast<std::int64_t>(exact)));
}

// As ranks do it: with every count, alignment and aliasing that combine() allows.
TYPED_TEST(BinnedSum, InBulkItIsTheSameAsOneByOne) {
  std::mt19937_64 random(6);
  for (const Operator op : {Operator::sum_reproducible, Operator::average_reproducible}) {
    const Reduction reduction{type_of<TypeParam>, op};
    ASSERT_EQ(reduction.carrier_bytes(), sizeof(Binned<TypeParam>));
    for (const std::size_t count : {0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 100})
      for (const std::size_t off : {0, 1, 4, 8})
        for (int where = 0; where < 3; ++where) {
          std::vector<TypeParam> a(count + 1), b(count + 1);  // never null
          for (std::size_t i = 0; i < count; ++i) {
            a[i] = i % 7 == 6   ? std::numeric_limits<TypeParam>::infinity()
                   : i % 3 == 0 ? this->any(random)
                                : this->within(9, random);
            b[i] = i % 2 == 0 ? this->any(random) : this->within(9, random);
            using Limits = std::numeric_limits<TypeParam>;
            static constexpr TypeParam specials[] = {0,
                                                     TypeParam(-0.0),
                                                     Limits::infinity(),
                                                     -Limits::infinity(),
                                                     Limits::quiet_NaN(),
                                                     Limits::denorm_min(),
                                                     -Limits::min(),
                                                     Limits::max()};
            if (random() % 3 == 0) a[i] = specials[random() % std::size(specials)];
            if (random() % 3 == 0) b[i] = specials[random() % std::size(specials)];
          }
          const std::size_t bytes = count * sizeof(Binned<TypeParam>) + 32;
          std::vector<std::byte> lower(bytes), higher(bytes), apart(bytes), elements(count * sizeof(TypeParam) + 16);
          std::memcpy(elements.data() + off, a.data(), count * sizeof(TypeParam));
          widen(reduction, lower.data() + off, elements.data() + off, count);
          widen(reduction, higher.data() + off / 2, b.data(), count);
          std::byte* const to = where == 0   ? apart.data() + off
                                : where == 1 ? lower.data() + off
                                             : higher.data() + off / 2;
          combine(reduction, to, lower.data() + off, higher.data() + off / 2, count);
          finish(reduction, elements.data() + off, to, count, 3);
          for (std::size_t i = 0; i < count; ++i) {
            const TypeParam sum = sum_of(merged(binned(a[i]), binned(b[i])));
            TypeParam got;
            std::memcpy(&got, elements.data() + off + i * sizeof got, sizeof got);
            if (std::isnan(sum) && std::isnan(got)) continue;
            ASSERT_EQ(bits_of(got), bits_of(op == Operator::sum_reproducible ? sum : sum / 3)) << i << " of " << count;
          }
        }
  }
}

// Accumulators with bins of any length and sign at any place, as many additions leave them; and ties, but for the least
// bit.
template <class Real>
Binned<Real> by_hand(std::mt19937_64& random) {
  constexpr bool is_double = sizeof(Real) == 8;
  const auto bin = [&](int bits) {
    return static_cast<std::int64_t>(random()) >> (63 - random() % static_cast<unsigned>(bits));
  };
  const auto marks = static_cast<std::uint32_t>(random() % 16 == 0 ? random() % 16 : mark_not_minus_zero);
  const int top = static_cast<int>(random() % (random() % 4 == 0 ? 10 : is_double ? 59 : 10));
  Binned<Real> all;
  if constexpr (is_double) {
    all = {{bin(random() % 8 == 0 ? 63 : 27), bin(50), bin(50)}, top, marks};
    if (random() % 4 == 0) {
      const auto one = std::int64_t{1} << (random() % 52);
      all.bins[0] = random() % 2 == 0 ? one : -one;
      all.bins[1] = std::int64_t{1} << (random() % 36);
      all.bins[2] = static_cast<std::int64_t>(random() % 3) - 1;
    }
  } else {
    const std::int64_t high = bin(random() % 8 == 0 ? 55 : 35);
    std::int64_t low = bin(50);
    if (random() % 4 == 0) low = static_cast<std::int64_t>(random() % 3) - 1;
    if (top == 0) low = 0;  // below the least subnormal number there is nothing
    all.high = random() % 4 == 0 ? (high | 1) << 4 : high;
    all.low_and_meta = low * 256 + static_cast<std::int64_t>(marks << 4) + top;
  }
  return all;
}

TYPED_TEST(BinnedSum, InBulkTheyAreRoundedAsOneByOne) {
  std::mt19937_64 random(7);
  for (const std::uint32_t divisor : {1u, 3u})
    for (int round = 0; round < 20'000; ++round) {
      std::vector<Binned<TypeParam>> all(9);
      for (auto& each : all) each = by_hand<TypeParam>(random);
      std::vector<TypeParam> got(all.size());
      finish_binned(type_of<TypeParam>, reinterpret_cast<std::byte*>(got.data()),
                    reinterpret_cast<const std::byte*>(all.data()), all.size(), divisor);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const TypeParam sum = sum_of(all[i]) / static_cast<TypeParam>(divisor);
        if (std::isnan(sum) && std::isnan(got[i])) continue;
        ASSERT_EQ(bits_of(got[i]), bits_of(sum)) << i << " in round " << round << ", divisor " << divisor;
      }
    }
}

}  // namespace
}  // namespace ucft::detail
