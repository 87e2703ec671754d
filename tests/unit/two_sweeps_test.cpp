// The double sweep against the single one: the same bits, of all types, numbers of bins, sources and elements.
#include "collectives/reduction/two_sweeps.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "collectives/reduction/binned.hpp"
#include "collectives/reduction/reduction.hpp"

namespace ucft::detail {
namespace {

template <class Real>
using Inputs = std::vector<std::vector<Real>>;  // of each source

template <class Real>
std::vector<Real> by_one_sweep(const Reduction& reduction, const Inputs<Real>& inputs) {
  const std::size_t count = inputs[0].size(), bytes = count * reduction.carrier_bytes();
  std::vector<std::byte> sum(bytes), its(bytes);
  widen(reduction, sum.data(), inputs[0].data(), count);
  for (std::size_t source = 1; source < inputs.size(); ++source) {
    widen(reduction, its.data(), inputs[source].data(), count);
    combine(reduction, sum.data(), sum.data(), its.data(), count);
  }
  std::vector<Real> result(count);
  finish(reduction, result.data(), sum.data(), count, static_cast<std::uint32_t>(inputs.size()));
  return result;
}

// From, and to, memory of no alignment.
template <class Real>
std::vector<Real> by_two_sweeps(const Reduction& reduction, const Inputs<Real>& inputs) {
  const std::size_t count = inputs[0].size(), bytes = count * sizeof(Real);
  std::vector<std::vector<std::byte>> shifted;
  std::vector<const std::byte*> sources;
  for (const std::vector<Real>& input : inputs) {
    shifted.emplace_back(bytes + 1);
    std::memcpy(shifted.back().data() + 1, input.data(), bytes);
    sources.push_back(shifted.back().data() + 1);
  }
  std::vector<std::byte> sum(bytes + 1);
  std::vector<Real> result(count);
  const Reduction twice = reduction.in_two_sweeps();
  sum_in_two_sweeps(twice, sum.data() + 1, sources.data(), sources.size(), count);
  if (twice.finishes())
    finish(twice, result.data(), sum.data() + 1, count, static_cast<std::uint32_t>(inputs.size()));
  else
    std::memcpy(result.data(), sum.data() + 1, bytes);
  return result;
}

// Heights and digits of each source, added as the operations on them do it.
template <class Real>
std::vector<Real> by_two_operations(const Reduction& reduction, const Inputs<Real>& inputs) {
  const std::size_t count = inputs[0].size(), height_bytes = element_bytes(heights_of(reduction.type())),
                    each = static_cast<std::size_t>(digits_each(reduction));
  std::vector<std::byte> heights(count * height_bytes), its(heights);
  std::vector<std::int64_t> digits(count * each), its_digits(digits);
  const auto elements = [](const std::vector<Real>& input) { return reinterpret_cast<const std::byte*>(input.data()); };
  for (const std::vector<Real>& input : inputs) {
    note_heights(reduction.type(), its.data(), elements(input), count);
    combine({heights_of(reduction.type()), Operator::bitwise_or}, heights.data(), heights.data(), its.data(), count);
  }
  for (const std::vector<Real>& input : inputs) {
    deposit(reduction, its_digits.data(), elements(input), heights.data(), count);
    combine({DataType::int64, Operator::sum}, digits.data(), digits.data(), its_digits.data(), count * each);
  }
  std::vector<Real> result(count);
  round_digits(reduction, reinterpret_cast<std::byte*>(result.data()), digits.data(), heights.data(), count,
               is_average(reduction.op()) ? static_cast<std::uint32_t>(inputs.size()) : 1);
  return result;
}

template <class Real>
struct TwoSweepsOf : testing::Test {
  static constexpr DataType type = sizeof(Real) == 8 ? DataType::float64 : DataType::float32;

  static void expect_the_same(const Inputs<Real>& inputs, Operator op = Operator::sum_reproducible) {
    for (int bins = usual_bins_of(type); bins <= most_bins; ++bins) {
      const Reduction reduction{type, op, nullptr, nullptr, bins};
      const std::vector<Real> one = by_one_sweep(reduction, inputs), two = by_two_sweeps(reduction, inputs),
                              apart = by_two_operations(reduction, inputs);
      for (std::size_t i = 0; i < one.size(); ++i)
        for (const Real got : {two[i], apart[i]})
          ASSERT_EQ(std::memcmp(&one[i], &got, sizeof(Real)), 0)
              << bins << " bins, element " << i << " of " << inputs.size() << " sources: " << one[i] << " and " << got
              << (got == two[i] ? "" : ", by two operations");
    }
  }
  // Any mantissa, one of so many exponents from `least` on.
  static Real any(int powers, int least, std::mt19937_64& random) {
    const auto mantissa = static_cast<Real>(static_cast<std::int64_t>(random() >> 11)) - static_cast<Real>(0x1p52);
    return std::ldexp(mantissa, least + static_cast<int>(random() % static_cast<unsigned>(powers)));
  }
  static Inputs<Real> drawn(std::size_t sources, std::size_t count, int powers, int least, std::mt19937_64& random) {
    Inputs<Real> inputs(sources, std::vector<Real>(count));
    for (std::vector<Real>& input : inputs)
      for (Real& value : input) value = any(powers, least, random);
    return inputs;
  }
};
using BothReals = testing::Types<float, double>;
TYPED_TEST_SUITE(TwoSweepsOf, BothReals);

TYPED_TEST(TwoSweepsOf, HaveTheBitsOfOneSweepWhateverTheExponents) {
  std::mt19937_64 random(1);
  using Limits = std::numeric_limits<TypeParam>;
  constexpr int least = Limits::min_exponent - Limits::digits - 52, most = Limits::max_exponent - 64;
  for (int round = 0; round < 300; ++round) {
    const int powers = 1 + static_cast<int>(random() % (round % 2 == 0 ? 60 : 240)),
              from = least + static_cast<int>(random() % static_cast<unsigned>(most - powers - least));
    for (const std::size_t sources : {std::size_t{2}, 1 + random() % 20})
      this->expect_the_same(this->drawn(sources, 1 + random() % 23, powers, from, random));
  }
}

// What is left is in the lower bins only, or in none: then four at a time are not enough.
TYPED_TEST(TwoSweepsOf, HaveTheBitsOfOneSweepWhereTheLargestCancel) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    Inputs<TypeParam> inputs = this->drawn(2 + random() % 6, 13, 40, -60, random);
    const Inputs<TypeParam> large = this->drawn(1, 13, 30, -20 + round % 40, random);
    inputs.push_back(large[0]);
    for (std::size_t i = 0; i < 13; ++i) inputs[0][i] = random() % 2 == 0 ? -large[0][i] : inputs[0][i];
    for (std::size_t i = 0; i < 13; ++i)
      if (random() % 2 == 0) inputs[1][i] = std::ldexp(this->any(1, 0, random), -52 - static_cast<int>(random() % 60));
    this->expect_the_same(inputs);
  }
}

// A number + half of its last bit is a tie, but for one bit far below, wherever in its bin the number's first bit is.
TYPED_TEST(TwoSweepsOf, BreakTiesByTheLastBitThatIsKept) {
  using Many = std::vector<TypeParam>;
  constexpr int digits = std::numeric_limits<TypeParam>::digits;
  for (int place = 0; place < 36; ++place)
    for (int power = digits; power < 100; power += 1 + power % 3) {
      const TypeParam one = std::ldexp(TypeParam(place % 2 == 0 ? 1 : -1), place), half = std::ldexp(one, -digits),
                      least = std::ldexp(one, -power);
      for (const TypeParam last : {least, -least, TypeParam(0), TypeParam(-0.0)}) {
        this->expect_the_same({Many(9, one), Many(9, half), Many(9, last)});
        this->expect_the_same({Many(9, one), Many(9, half + last)});
        this->expect_the_same({Many(9, one + 2 * half), Many(9, half + last)});
      }
    }
}

TYPED_TEST(TwoSweepsOf, SpecialNumbersAreAsWithOneSweepInEveryPlace) {
  using Limits = std::numeric_limits<TypeParam>;
  const std::vector<TypeParam> special = {0,
                                          TypeParam(-0.0),
                                          Limits::infinity(),
                                          -Limits::infinity(),
                                          Limits::quiet_NaN(),
                                          Limits::denorm_min(),
                                          -Limits::min(),
                                          Limits::max(),
                                          Limits::lowest(),
                                          1};
  for (std::size_t place = 0; place < 9; ++place)
    for (const TypeParam a : special)
      for (const TypeParam b : special)
        for (const TypeParam others : {TypeParam(2), TypeParam(0), TypeParam(-0.0)}) {
          Inputs<TypeParam> inputs(2, std::vector<TypeParam>(9, others));
          inputs[0][place] = a;
          inputs[1][place] = b;
          this->expect_the_same(inputs);
          inputs.emplace_back(9, a);
          this->expect_the_same(inputs);
        }
}

TYPED_TEST(TwoSweepsOf, AveragesAreDividedOnce) {
  std::mt19937_64 random(3);
  for (std::size_t sources = 1; sources < 12; ++sources)
    this->expect_the_same(this->drawn(sources, 9, 20, -30, random), Operator::average_reproducible);
}

TYPED_TEST(TwoSweepsOf, TheSameNumberManyTimes) {
  for (const double value : {std::ldexp(1 - 0x1p-20, 100), -std::ldexp(1 - 0x1p-20, 99), 0x1.fffffep+75})
    this->expect_the_same(Inputs<TypeParam>(3000, std::vector<TypeParam>(5, static_cast<TypeParam>(value))));
}

}  // namespace
}  // namespace ucft::detail
