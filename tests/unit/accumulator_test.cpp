// Exact sums against a plain reference (tests/exact_sum.hpp): every cut, order and grouping has the same bits, and the
// value is the exact sum, rounded once.
#include "collectives/reduction/accumulator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/reduction/reduction.hpp"
#include "tests/exact_sum.hpp"

namespace ucft::detail {
namespace {

using test::Exact;
using Random = std::mt19937_64;
using Limits = std::numeric_limits<double>;

constexpr double nan = Limits::quiet_NaN(), infinity = Limits::infinity();

template <class Real>
const std::byte* bytes_of(const std::vector<Real>& values, std::size_t first = 0) {
  return reinterpret_cast<const std::byte*>(values.data() + first);
}
template <class Real>
Accumulator sum_of(const std::vector<Real>& values, Instructions with = Instructions::fastest) {
  Accumulator sum{};
  accumulate<Real>(sum, bytes_of(values), values.size(), with);
  return sum;
}
template <class Real>
Accumulator product_of(const std::vector<Real>& a, const std::vector<Real>& b,
                       Instructions with = Instructions::fastest) {
  Accumulator sum{};
  accumulate_products<Real>(sum, bytes_of(a), bytes_of(b), a.size(), with);
  return sum;
}
bool are_same(const Accumulator& a, const Accumulator& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

template <class Real>
std::uint64_t bits_of(Real value) {
  if constexpr (sizeof value == 8)
    return std::bit_cast<std::uint64_t>(value);
  else
    return std::bit_cast<std::uint32_t>(value);
}

// Pieces of any length, each in an accumulator of its own; these merged as a tree of any form would.
template <class Real>
Accumulator cut_by_chance(const std::vector<Real>& values, Random& random) {
  std::vector<Accumulator> parts;
  for (std::size_t done = 0; done < values.size() || parts.empty();) {
    const std::size_t length = std::min<std::size_t>(random() % (random() % 2 == 0 ? 40 : 3000), values.size() - done);
    Accumulator& part = parts.emplace_back();
    accumulate<Real>(part, bytes_of(values, done), length,
                     random() % 2 == 0 ? Instructions::fastest : Instructions::portable);
    done += length;
  }
  return test::combined_by_chance(parts, random, [](Accumulator& into, const Accumulator& a, const Accumulator& b) {
    Accumulator sum = a;
    merge(sum, b);
    into = sum;
  });
}

template <class Real>
struct Numbers {
  const char* name;
  Real (*draw)(Random& random);
};

template <class Real>
Real unit(Random& random) {
  return static_cast<Real>(static_cast<std::int64_t>(random())) * static_cast<Real>(0x1p-63);
}
// Of all finite numbers, subnormal ones among them.
template <class Real>
Real any(Random& random) {
  for (;;) {
    Real value;
    const std::uint64_t bits = random();
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) return value;
  }
}
template <class Real>
constexpr Numbers<Real> kinds[] = {
    {"uniform", unit<Real>},
    {"any", any<Real>},
    {"far apart",
     [](Random& random) { return std::ldexp(unit<Real>(random), static_cast<int>(random() % 200) - 100); }},
    {"whole", [](Random& random) { return static_cast<Real>(random() % 7) - 3; }},
    {"subnormal", [](Random& random) { return Real(random() % 100) * std::numeric_limits<Real>::denorm_min(); }},
    {"huge", [](Random& random) { return unit<Real>(random) * std::numeric_limits<Real>::max(); }},
    {"mostly zeros", [](Random& random) { return random() % 500 != 0 ? Real(0) : unit<Real>(random); }}};

template <class Real>
std::vector<Real> drawn(const Numbers<Real>& kind, std::size_t count, Random& random) {
  std::vector<Real> values(count);
  for (Real& value : values) value = kind.draw(random);
  if (random() % 3 == 0)  // the largest cancel
    for (std::size_t i = 1; i < count; i += 2) values[i] = -values[i - 1];
  if (random() % 3 == 0 && count > 0) values[count / 2] = unit<Real>(random);
  return values;
}

template <class Real>
struct AccumulatorOf : testing::Test {};
using BothReals = testing::Types<float, double>;
TYPED_TEST_SUITE(AccumulatorOf, BothReals);

TYPED_TEST(AccumulatorOf, EveryCutOfAFewNumbersHasTheSameBytes) {
  Random random(1);
  constexpr std::size_t count = 11;
  for (const Numbers<TypeParam>& kind : kinds<TypeParam>) {
    const std::vector<TypeParam> values = drawn(kind, count, random);
    const Accumulator whole = sum_of(values);
    for (std::size_t cuts = 0; cuts < 1u << (count - 1); ++cuts) {  // bit i: between i and i + 1
      Accumulator all{};
      for (std::size_t first = 0, next = 1; next <= count; ++next) {
        if (next < count && (cuts >> (next - 1) & 1) == 0) continue;
        Accumulator part{};
        accumulate<TypeParam>(part, bytes_of(values, first), next - first);
        merge(all, part);
        first = next;
      }
      ASSERT_TRUE(are_same(all, whole)) << kind.name << ", cut at the bits of " << cuts;
    }
  }
}

TYPED_TEST(AccumulatorOf, AnyCutOrderAndTreeIsTheExactSumRoundedOnce) {
  Random random(2);
  for (const Numbers<TypeParam>& kind : kinds<TypeParam>)
    for (int round = 0; round < 40; ++round) {
      std::vector<TypeParam> values = drawn(kind, random() % (round % 4 == 0 ? 5000 : 70), random);
      Exact exact;
      for (const TypeParam value : values) exact.add(static_cast<double>(value));
      const Accumulator sum = sum_of(values);
      ASSERT_EQ(value_of<double>(sum), exact.rounded<double>()) << kind.name << ", round " << round;
      ASSERT_EQ(value_of<float>(sum), exact.rounded<float>()) << kind.name << ", round " << round;
      ASSERT_TRUE(are_same(sum_of(values, Instructions::portable), sum)) << kind.name << ", round " << round;
      for (int again = 0; again < 4; ++again) {
        std::shuffle(values.begin(), values.end(), random);
        ASSERT_TRUE(are_same(cut_by_chance(values, random), sum)) << kind.name << ", round " << round;
      }
    }
}

TYPED_TEST(AccumulatorOf, ProductsAreExactWhateverTheirMagnitudes) {
  Random random(3);
  for (const Numbers<TypeParam>& kind : kinds<TypeParam>)
    for (const Numbers<TypeParam>& other : kinds<TypeParam>)
      for (const std::size_t count : {1, 15, 16, 48, 1500}) {
        const std::vector<TypeParam> a = drawn(kind, count, random), b = drawn(other, count, random);
        Exact exact;
        for (std::size_t i = 0; i < count; ++i) exact.add_product(static_cast<double>(a[i]), static_cast<double>(b[i]));
        const Accumulator whole = product_of(a, b);
        ASSERT_EQ(value_of<double>(whole), exact.rounded<double>()) << kind.name << " by " << other.name;
        ASSERT_TRUE(are_same(product_of(a, b, Instructions::portable), whole)) << kind.name << " by " << other.name;
        Accumulator parts{};
        for (std::size_t i = count; i-- > 0;) accumulate_products<TypeParam>(parts, bytes_of(a, i), bytes_of(b, i), 1);
        ASSERT_TRUE(are_same(parts, whole)) << kind.name << " by " << other.name;
      }
}

TYPED_TEST(AccumulatorOf, NumbersNeedNoAlignment) {
  Random random(9);
  const std::vector<TypeParam> values = drawn(kinds<TypeParam>[2], 700, random);
  std::vector<std::byte> memory(values.size() * sizeof(TypeParam) + sizeof(TypeParam));
  for (std::size_t offset = 1; offset < sizeof(TypeParam); ++offset) {
    std::byte* const place = memory.data() + offset;
    std::memcpy(place, values.data(), values.size() * sizeof(TypeParam));
    Accumulator sum{}, products{};
    accumulate<TypeParam>(sum, place, values.size());
    accumulate_products<TypeParam>(products, place, bytes_of(values), values.size());
    EXPECT_TRUE(are_same(sum, sum_of(values)) && are_same(products, product_of(values, values))) << offset;
  }
}

// A number that is alone comes back as it is.
TYPED_TEST(AccumulatorOf, OneNumberComesBackAsItIs) {
  Random random(4);
  using Real = TypeParam;
  using Its = std::numeric_limits<Real>;
  std::vector<Real> values = {0,
                              Real(-0.0),
                              1,
                              -1,
                              Its::max(),
                              Its::lowest(),
                              Its::min(),
                              Its::denorm_min(),
                              -Its::denorm_min(),
                              Its::infinity(),
                              -Its::infinity()};
  for (int i = 0; i < 100'000; ++i) values.push_back(any<Real>(random));
  for (const Real value : values)
    ASSERT_EQ(bits_of(value_of<Real>(sum_of(std::vector<Real>{value}))), bits_of(value)) << value;
}

TEST(Accumulator, SpecialValuesAreTheSameWhereverTheyStand) {
  struct Case {
    std::vector<double> values;
    double sum;
  };
  const double most = Limits::max(), least = Limits::denorm_min();
  const Case cases[] = {{{}, 0.0},
                        {{0.0}, 0.0},
                        {{-0.0}, -0.0},
                        {{-0.0, -0.0}, -0.0},
                        {{-0.0, 0.0}, 0.0},
                        {{1, -1, -0.0}, 0.0},
                        {{infinity, 1}, infinity},
                        {{-infinity, most}, -infinity},
                        {{infinity, -infinity}, nan},
                        {{nan, 1}, nan},
                        {{-nan, infinity}, nan},
                        {{most, most, -most}, most},
                        {{most, most}, infinity},
                        {{-most, -most}, -infinity},
                        {{most, std::ldexp(1, 969), least}, most},  // less than half of its last bit
                        {{most, std::ldexp(1, 970)}, infinity},     // half: a tie, to even
                        {{least, least}, 2 * least},
                        {{1, least, -1}, least}};
  for (const Case& each : cases)
    for (const std::size_t behind : {0, 3, 16, 1024, 2500})  // -0.0 changes nothing
      for (const std::size_t before : {0, 1, 15, 1030}) {
        std::vector<double> values(before, -0.0);
        values.insert(values.end(), each.values.begin(), each.values.end());
        values.insert(values.end(), behind, -0.0);
        const double expected = each.values.empty() && before + behind > 0 ? -0.0 : each.sum;
        const Accumulator sum = sum_of(values);
        ASSERT_EQ(bits_of(value_of<double>(sum)), bits_of(expected == expected ? expected : nan)) << each.sum;
        Accumulator reversed{};
        for (std::size_t i = values.size(); i-- > 0;) accumulate<double>(reversed, bytes_of(values, i), 1);
        ASSERT_TRUE(are_same(reversed, sum)) << each.sum;
      }
}

TEST(Accumulator, ProductsOfSpecialValuesAreThoseOfTheProcessor) {
  const std::vector<double> specials = {0.0, -0.0, 1, -2, infinity, -infinity, nan};
  for (const double a : specials)
    for (const double b : specials)
      for (const std::size_t zeros : {0, 40}) {
        std::vector<double> one(zeros, -0.0), other(zeros, 1);
        one.push_back(a);
        other.push_back(b);
        const double expected = a * b;
        EXPECT_EQ(bits_of(value_of<double>(product_of(one, other))), bits_of(expected == expected ? expected : nan))
            << a << " by " << b;
      }
}

// Numbers of one block from end to end of all exponents: what a pass leaves is another block.
TEST(Accumulator, ABlockMayHaveAllExponents) {
  std::vector<double> values;
  for (int exponent = -1074; exponent <= 1010; exponent += 3) {
    values.push_back(std::ldexp(1 + 0x1p-52, exponent));
    if (exponent % 2 == 0) values.back() = -values.back();
  }
  Exact exact;
  for (const double value : values) exact.add(value);
  EXPECT_EQ(value_of<double>(sum_of(values)), exact.rounded<double>());
  std::reverse(values.begin(), values.end());
  Accumulator one_by_one{};
  for (std::size_t i = 0; i < values.size(); ++i) accumulate<double>(one_by_one, bytes_of(values, i), 1);
  EXPECT_TRUE(are_same(one_by_one, sum_of(values)));
}

// Products so small that they go one by one, each of which adds nearly 2^40 to a digit: without a carry on the way 2^23
// of them are too many.
TEST(Accumulator, DigitsAreCarriedOnTheWay) {
  constexpr std::size_t count = 9'000'000;
  const double factor = std::ldexp(0x1p26 - 1, -510);
  const std::vector<double> a(count, factor);
  Exact exact;
  exact.add_product(factor * count, factor);
  EXPECT_EQ(value_of<double>(product_of(a, a)), exact.rounded<double>());
}

TEST(Accumulator, ThreadsThatMergeHaveTheSameBytes) {
  Random random(5);
  const std::vector<double> values = drawn(kinds<double>[2], 100'000, random);
  const Accumulator whole = sum_of(values);
  for (const std::size_t threads : {2, 3, 7}) {
    std::vector<Accumulator> parts(threads);
    std::vector<std::thread> running;
    for (std::size_t i = 0; i < threads; ++i)
      running.emplace_back([&, i] {
        const std::size_t first = values.size() * i / threads, end = values.size() * (i + 1) / threads;
        accumulate<double>(parts[i], bytes_of(values, first), end - first);
      });
    for (std::thread& each : running) each.join();
    Accumulator sum{};
    for (const Accumulator& part : parts) merge(sum, part);
    EXPECT_TRUE(are_same(sum, whole)) << threads;
  }
}

// As an allreduce does it: words are added as int64, in any tree, and settled once at the end.
TEST(Accumulator, ThousandsOfRanksThatAddWordsHaveTheSameBytes) {
  Random random(6);
  const Reduction words{DataType::int64, Operator::sum};
  for (const Numbers<double>& kind : kinds<double>) {
    const std::vector<double> values = drawn(kind, 40'000, random);
    const Accumulator whole = sum_of(values);
    for (const std::size_t ranks : {1, 2, 7, 4096}) {
      std::vector<Accumulator> parts(ranks);
      for (std::size_t i = 0; i < ranks; ++i) {
        const std::size_t first = values.size() * i / ranks, end = values.size() * (i + 1) / ranks;
        accumulate<double>(parts[i], bytes_of(values, first), end - first);
        ASSERT_TRUE(is_settled(parts[i]));
      }
      Accumulator sum = test::combined_by_chance(parts, random, [&](auto& into, const auto& a, const auto& b) {
        combine(words, &into, &a, &b, accumulator_words);
      });
      ASSERT_TRUE(is_accumulator(sum));
      ASSERT_EQ(bits_of(value_of<double>(sum)), bits_of(value_of<double>(whole)));
      settle(sum);
      ASSERT_TRUE(are_same(sum, whole)) << kind.name << ", " << ranks << " ranks";
    }
  }
}

TEST(Accumulator, ARootIsRoundedOnce) {
  Random random(7);
  for (int round = 0; round < 20'000; ++round) {
    const double a = std::ldexp(unit<double>(random), static_cast<int>(random() % 60) - 30), b = unit<double>(random);
    Accumulator sum = sum_of(std::vector<double>{std::abs(a), round % 2 == 0 ? std::abs(b) : 0});
    const double root = root_of<double>(sum);
    const double half_up = (std::nextafter(root, infinity) - root) / 2,
                 half_down = (root - std::nextafter(root, 0)) / 2;
    // sum - (root + half)^2 and sum - (root - half)^2
    const auto behind = [&](double half) {
      Exact exact;
      exact.add(std::abs(a));
      if (round % 2 == 0) exact.add(std::abs(b));
      exact.add_product(-root, root);
      exact.add_product(-2 * root, half);
      exact.add_product(-half, half);
      return exact.rounded<double>();
    };
    ASSERT_LE(behind(half_up), 0) << a << ", " << b;
    ASSERT_GE(behind(-half_down), 0) << a << ", " << b;
  }
}

TEST(Accumulator, ANormNeitherOverflowsNorUnderflows) {
  for (const double scale : {1.0, 1e-200, 0x1p-1073, 1e307, 0x1p1020}) {
    const std::vector<double> values = {3 * scale, -4 * scale};
    EXPECT_EQ(root_of<double>(product_of(values, values)), 5 * scale) << scale;
  }
  EXPECT_TRUE(std::isnan(root_of<double>(sum_of(std::vector<double>{-1}))));
  EXPECT_TRUE(std::isnan(root_of<double>(sum_of(std::vector<double>{-infinity}))));
  EXPECT_EQ(root_of<double>(sum_of(std::vector<double>{-1, infinity})), infinity);
  EXPECT_EQ(bits_of(root_of<double>(Accumulator{})), bits_of(0.0));
  EXPECT_EQ(root_of<float>(sum_of(std::vector<double>{2})), std::sqrt(2.0f));
}

TEST(Accumulator, OneWithAFlippedBitIsNone) {
  Random random(8);
  Accumulator sum = sum_of(drawn(kinds<double>[1], 100, random));
  auto* const bytes = reinterpret_cast<unsigned char*>(&sum);
  for (std::size_t bit = 0; bit < 8 * sizeof sum; ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    EXPECT_FALSE(is_accumulator(sum)) << bit;
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
  }
  EXPECT_TRUE(is_accumulator(sum));
  EXPECT_TRUE(is_accumulator(Accumulator{}));
  for (const int byte : {0xa5, 0xff, 1}) {
    std::memset(bytes, byte, sizeof sum);
    EXPECT_FALSE(is_accumulator(sum)) << byte;
  }
}

}  // namespace
}  // namespace ucft::detail
