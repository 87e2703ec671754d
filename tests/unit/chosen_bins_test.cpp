// Reproducible sums with more bins than is usual, against sums of the numbers cut by hand.
#include "collectives/reduction/chosen_bins.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
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
constexpr int width_of = sizeof(Real) == 8 ? 36 : 28;
template <class Real>
constexpr int least_of = sizeof(Real) == 8 ? -1074 : -149;

// What the library's carriers come to: each number widened, combined as a tree of chance would, finished.
template <class Real>
Real summed(const Reduction& reduction, std::vector<Real> values, std::mt19937_64& random) {
  const std::size_t bytes = reduction.carrier_bytes();
  std::shuffle(values.begin(), values.end(), random);
  std::vector<std::vector<std::byte>> parts;
  for (const Real& value : values) widen(reduction, parts.emplace_back(bytes).data(), &value, 1);
  const auto sum = test::combined_by_chance(parts, random, [&](auto& into, const auto& a, const auto& b) {
    combine(reduction, into.data(), a.data(), b.data(), 1);
  });
  Real result;
  finish(reduction, &result, sum.data(), 1, static_cast<std::uint32_t>(values.size()));
  return result;
}

// The promise, with nothing of the library: of each number the bits in the highest bins of the largest one, added
// exactly, rounded once.
template <class Real>
Real promised(const std::vector<Real>& values, int bins) {
  Real largest = 0;
  for (const Real value : values) largest = std::max(largest, std::abs(value));
  if (largest == 0) return 0;
  const int top = (std::ilogb(largest) - least_of<Real>) / width_of<Real>;
  const int lowest = width_of<Real> * (top + 1 - bins) + least_of<Real>;  // the weight of the last bit that is kept
  Exact exact;
  for (const Real value : values)
    exact.add(lowest < -1074 ? value : std::ldexp(std::trunc(std::ldexp(static_cast<double>(value), -lowest)), lowest));
  return exact.rounded<Real>();
}

template <class Real>
struct ChosenBinsOf : testing::Test {
  static Real any(int powers, std::mt19937_64& random) {
    const auto mantissa = static_cast<Real>(static_cast<std::int64_t>(random() % 2'000'001) - 1'000'000);
    return std::ldexp(mantissa, static_cast<int>(random() % static_cast<unsigned>(powers)) - 40);
  }
};
using BothReals = testing::Types<float, double>;
TYPED_TEST_SUITE(ChosenBinsOf, BothReals);

TYPED_TEST(ChosenBinsOf, AreTheSumOfTheNumbersCutAtTheLastBinWhateverTheTree) {
  std::mt19937_64 random(1);
  for (int bins = usual_bins_of(type_of<TypeParam>); bins <= most_bins; ++bins) {
    const Reduction reduction{type_of<TypeParam>, Operator::sum_reproducible, nullptr, nullptr, bins};
    for (int round = 0; round < 400; ++round) {
      std::vector<TypeParam> values(1 + random() % 64);
      for (TypeParam& value : values) value = this->any(round % 2 == 0 ? 8 : 120, random);
      if (round % 3 == 0) {  // the largest cancel
        values.push_back(std::ldexp(this->any(4, random), 60));
        values.push_back(-values.back());
      }
      const TypeParam expected = promised(values, bins);
      for (int tree = 0; tree < 3; ++tree)
        ASSERT_EQ(summed(reduction, values, random), expected) << bins << " bins, round " << round;
    }
  }
}

// 1 + half of its last bit is a tie, but for a bit of the last bin.
TYPED_TEST(ChosenBinsOf, TheLastBitThatIsKeptBreaksATie) {
  std::mt19937_64 random(5);
  constexpr int digits = std::numeric_limits<TypeParam>::digits;
  for (int bins = usual_bins_of(type_of<TypeParam>); bins <= most_bins; ++bins)
    for (const TypeParam sign : {1, -1}) {
      const Reduction reduction{type_of<TypeParam>, Operator::sum_reproducible, nullptr, nullptr, bins};
      const TypeParam half = std::ldexp(sign, -digits);
      const TypeParam least = std::ldexp(sign, -std::min(width_of<TypeParam> * (bins - 1), 140));
      EXPECT_EQ(summed<TypeParam>(reduction, {sign, half, least}, random), sign + 2 * half) << bins;
      EXPECT_EQ(summed<TypeParam>(reduction, {sign, half, -least}, random), sign) << bins;
      EXPECT_EQ(summed<TypeParam>(reduction, {sign, half}, random), sign) << bins;
    }
}

// 1e17 + 1 - 1e17, and the same with 2^100: how far down the digits go is what bins are for.
TYPED_TEST(ChosenBinsOf, MoreOfThemKeepSmallerNumbers) {
  std::mt19937_64 random(2);
  const auto with = [&](int bins, int power) {
    const Reduction reduction{type_of<TypeParam>, Operator::sum_reproducible, nullptr, nullptr, bins};
    const auto large = std::ldexp(TypeParam(1), power);
    return summed<TypeParam>(reduction, {large, 1, -large}, random);
  };
  for (int bins = usual_bins_of(type_of<TypeParam>); bins <= most_bins; ++bins) {
    const int kept_for_sure = width_of<TypeParam> * (bins - 1), lost_for_sure = width_of<TypeParam> * bins;
    if (kept_for_sure < 120) {
      EXPECT_EQ(with(bins, kept_for_sure), 1) << bins;
    }
    if (lost_for_sure < 120) {
      EXPECT_EQ(with(bins, lost_for_sure), 0) << bins;
    }
  }
}

TYPED_TEST(ChosenBinsOf, SpecialNumbersAreAsWithTheUsualNumber) {
  std::mt19937_64 random(3);
  using Limits = std::numeric_limits<TypeParam>;
  const std::array<TypeParam, 9> special = {0,
                                            TypeParam(-0.0),
                                            Limits::infinity(),
                                            -Limits::infinity(),
                                            Limits::quiet_NaN(),
                                            Limits::denorm_min(),
                                            -Limits::min(),
                                            Limits::max(),
                                            Limits::lowest()};
  const Reduction usual{type_of<TypeParam>, Operator::sum_reproducible};
  for (int bins = usual_bins_of(type_of<TypeParam>); bins <= most_bins; ++bins) {
    const Reduction reduction{type_of<TypeParam>, Operator::sum_reproducible, nullptr, nullptr, bins};
    for (const TypeParam a : special)
      for (const TypeParam b : special) {
        const TypeParam got = summed<TypeParam>(reduction, {a, b}, random);
        const TypeParam expected = std::isfinite(a) && std::isfinite(b) && a != 0 && b != 0
                                       ? promised<TypeParam>({a, b}, bins)
                                       : summed<TypeParam>(usual, {a, b}, random);
        EXPECT_EQ(std::memcmp(&got, &expected, sizeof got), 0) << a << " + " << b << ", " << bins << " bins: " << got;
      }
  }
}

// The usual number, asked for by name, is the usual carrier; an average is divided once.
TYPED_TEST(ChosenBinsOf, TheUsualNumberIsTheUsualSum) {
  constexpr int usual = usual_bins_of(type_of<TypeParam>);
  const Reduction named{type_of<TypeParam>, Operator::sum_reproducible, nullptr, nullptr, usual};
  EXPECT_EQ(named.bins(), 0);
  EXPECT_EQ(named.carrier_bytes(), sizeof(Binned<TypeParam>));
  EXPECT_EQ((Reduction{type_of<TypeParam>, Operator::sum, nullptr, nullptr, 5}.bins()), 0);
  std::mt19937_64 random(4);
  const Reduction average{type_of<TypeParam>, Operator::average_reproducible, nullptr, nullptr, 6};
  EXPECT_EQ(summed<TypeParam>(average, {1, 2, 3, 6}, random), 3);
}

TYPED_TEST(ChosenBinsOf, ManyNumbersFit) {
  for (const double value : {std::ldexp(1 - 0x1p-20, 100), -std::ldexp(1 - 0x1p-20, 99), 0x1.fffffep+75}) {
    auto all = with_bins<TypeParam, 5>(static_cast<TypeParam>(value));
    for (int i = 0; i < 27; ++i) all = merged(all, all);
    EXPECT_EQ(sum_of(all), std::ldexp(static_cast<TypeParam>(value), 27)) << value;
  }
}

}  // namespace
}  // namespace ucft::detail
