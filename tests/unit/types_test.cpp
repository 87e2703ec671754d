// Every operator on every type that it takes against the plain reference (tests/plain_reduction.hpp), over forms of
// aliasing, counts and misalignments; what is widened and finished; and the conversions of halves, exhaustively where
// that is possible. reduction_test.cpp has more of the numbers that need no carrier.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "collectives/reduction/halves.hpp"
#include "collectives/reduction/reduction.hpp"
#include "tests/plain_reduction.hpp"

namespace ucft::detail {
namespace {

using test::Element;

struct Combination {
  DataType type;
  Operator op;

  ucft_op_t c_op() const { return static_cast<ucft_op_t>(op); }
  std::string name() const { return std::string(row_of(op).name) + " of " + row_of(type).name; }
};

// Those that exist, but for the caller's own operators.
std::vector<Combination> all_combinations() {
  std::vector<Combination> found;
  for (std::size_t type = 0; type < type_count; ++type)
    for (std::size_t op = 0; op < operator_count; ++op)
      if (const Combination each{static_cast<DataType>(type), static_cast<Operator>(op)};
          each.op != Operator::user && takes(each.op, each.type))
        found.push_back(each);
  return found;
}

// Elements at some misalignment, with bytes around them that must stay.
class Memory {
 public:
  Memory(std::size_t count, std::size_t element_bytes, std::size_t misalignment)
      : bytes_(count * element_bytes + 2 * guard + misalignment, fill),
        begin_(guard + misalignment),
        end_(begin_ + count * element_bytes),
        element_bytes_(element_bytes) {}
  unsigned char* data() { return bytes_.data() + begin_; }
  void put(std::size_t i, const Element& element) { std::memcpy(at(i), element.bytes, element_bytes_); }
  Element get(std::size_t i) {
    Element element;
    std::memcpy(element.bytes, at(i), element_bytes_);
    return element;
  }
  bool is_untouched_around() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      if ((i < begin_ || i >= end_) && bytes_[i] != fill) return false;
    return true;
  }

 private:
  unsigned char* at(std::size_t i) { return data() + i * element_bytes_; }
  static constexpr std::size_t guard = 64;
  static constexpr unsigned char fill = 0xa5;
  std::vector<unsigned char> bytes_;
  std::size_t begin_, end_, element_bytes_;
};

enum class Destination { apart, lower, higher };
constexpr std::size_t counts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1000};
constexpr std::size_t offsets[] = {0, 1, 4, 7};

// Bits, but for the payload of a NaN that comes out of a sum or a product.
template <class T>
bool are_same(const Combination& combination, const Element& a, const Element& b) {
  const bool computes =
      combination.op == Operator::sum || combination.op == Operator::prod || combination.op == Operator::average;
  if constexpr (test::is_real<T>)
    if (computes && std::isnan(a.as<T>()) && std::isnan(b.as<T>())) return true;
  return a == b;
}

template <class Carrier>
void check_combine(const Combination& combination, std::size_t count, std::size_t misalignment, Destination where,
                   std::mt19937_64& random) {
  const std::size_t bytes = sizeof(Carrier);
  Memory lower(count, bytes, misalignment), higher(count, bytes, misalignment / 2), apart(count, bytes, misalignment);
  std::vector<Element> low, high;
  for (std::size_t i = 0; i < count; ++i) {
    low.push_back(test::drawn<Carrier>(combination.c_op(), random));
    high.push_back(test::drawn<Carrier>(combination.c_op(), random));
    lower.put(i, low[i]);
    higher.put(i, high[i]);
  }
  Memory& to = where == Destination::apart ? apart : where == Destination::lower ? lower : higher;
  combine({combination.type, combination.op}, to.data(), lower.data(), higher.data(), count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto want = Element::of(test::plain(combination.c_op(), low[i].as<Carrier>(), high[i].as<Carrier>()));
    ASSERT_TRUE(are_same<Carrier>(combination, to.get(i), want))
        << combination.name() << ", element " << i << " of " << count << ", misaligned by " << misalignment;
  }
  ASSERT_TRUE(lower.is_untouched_around() && higher.is_untouched_around() && apart.is_untouched_around());
}

TEST(Types, EveryOperatorOnEveryTypeAgreesWithTheReference) {
  std::mt19937_64 random(1);
  for (const Combination& each : all_combinations())
    for (const std::size_t count : counts) {
      if (is_binned(each.op)) continue;  // its carriers are no elements: binned_test.cpp
      for (const std::size_t misalignment : offsets)
        for (const Destination where : {Destination::apart, Destination::lower, Destination::higher}) {
          test::with_type(static_cast<int>(carrier_of(each.type, each.op)), [&](auto carrier) {
            check_combine<decltype(carrier)>(each, count, misalignment, where, random);
          });
          if (testing::Test::HasFatalFailure()) return;
        }
    }
}

// As a rank does: widened, combined, finished.
template <class T>
Element result_of(const Combination& combination, const std::vector<Element>& values, std::size_t copies) {
  const Reduction reduction{combination.type, combination.op};
  const std::size_t carrier_bytes = reduction.carrier_bytes();
  Memory sum(copies, carrier_bytes, 1), part(copies, carrier_bytes, 3);
  Memory input(copies, sizeof(T), 5), output(copies, sizeof(T), 7);
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    for (std::size_t i = 0; i < copies; ++i) input.put(i, values[rank]);
    Memory& to = rank == 0 ? sum : part;
    if (reduction.widens())
      widen(reduction, to.data(), input.data(), copies);
    else
      std::memcpy(to.data(), input.data(), copies * sizeof(T));
    if (rank > 0) combine(reduction, sum.data(), sum.data(), part.data(), copies);
  }
  if (reduction.finishes())
    finish(reduction, output.data(), sum.data(), copies, static_cast<std::uint32_t>(values.size()));
  else
    std::memcpy(output.data(), sum.data(), copies * sizeof(T));
  for (std::size_t i = 1; i < copies; ++i) EXPECT_EQ(output.get(i), output.get(0)) << combination.name() << " " << i;
  EXPECT_TRUE(sum.is_untouched_around() && input.is_untouched_around() && output.is_untouched_around());
  return output.get(0);
}

TEST(Types, WholeOperationsAgreeWithTheReferenceHoweverManyContribute) {
  std::mt19937_64 random(2);
  for (const Combination& each : all_combinations())
    for (std::size_t contributors = 1; contributors <= 5; ++contributors)
      for (int round = 0; round < 20; ++round)
        test::with_type(static_cast<int>(each.type), [&](auto element) {
          using T = decltype(element);
          std::vector<Element> given;
          std::vector<T> values;
          for (std::size_t rank = 0; rank < contributors; ++rank) {
            given.push_back(test::drawn<T>(each.c_op(), random));
            values.push_back(given.back().as<T>());
          }
          const Element want = Element::of(test::plain_result(each.c_op(), values));
          const Element got = result_of<T>(each, given, 1 + static_cast<std::size_t>(round));
          const bool both_nan = test::is_nan(got.as<T>()) && test::is_nan(want.as<T>());
          EXPECT_TRUE(got == want || (both_nan && !test::is_pair<T>)) << each.name() << ", " << contributors;
        });
}

TEST(Types, TheTableSaysWhichOperatorTakesWhichType) {
  EXPECT_EQ(all_combinations().size(), 8u * (4 + 6) + 2 * (4 + 3) + 2 * (4 + 1) + 2 * (2 + 1) + 6 + 5 * 2);
  EXPECT_FALSE(takes(Operator::average, DataType::int32));
  EXPECT_FALSE(takes(Operator::min, DataType::complex_float));
  EXPECT_FALSE(takes(Operator::sum, DataType::boolean));
  EXPECT_FALSE(takes(Operator::minloc, DataType::float64));
  for (std::size_t type = 0; type < type_count; ++type) {
    EXPECT_TRUE(takes(Operator::user, static_cast<DataType>(type)));
    test::with_type(static_cast<int>(type), [&](auto element) {
      EXPECT_EQ(element_bytes(static_cast<DataType>(type)), sizeof(element)) << type_rows[type].name;
      EXPECT_EQ(type_rows[type].alignment, alignof(decltype(element))) << type_rows[type].name;
      EXPECT_EQ(dtype_of<decltype(element)>(), static_cast<int>(type));
    });
  }
}

TEST(Types, HalvesAreCarriedInFloatWhereTheyAreAddedOrMultiplied) {
  for (const DataType half : {DataType::float16, DataType::bfloat16}) {
    for (const Operator op : {Operator::sum, Operator::prod, Operator::average}) {
      EXPECT_EQ(carrier_of(half, op), DataType::float32);
      EXPECT_EQ((Reduction{half, op}.carrier_bytes()), 4u);
    }
    for (const Operator op : {Operator::min, Operator::max, Operator::user, Operator::none}) {
      EXPECT_EQ(carrier_of(half, op), half);
      EXPECT_FALSE((Reduction{half, op}.finishes()));
    }
  }
  EXPECT_FALSE((Reduction{DataType::float32, Operator::sum}.finishes()));
}

// 2048 + 1 + 1: each sum of two would round back to 2048.
TEST(Types, SumsOfHalvesAreRoundedOnce) {
  const auto element = [](float value) { return Element::of(float16(value)); };
  const Combination sum{DataType::float16, Operator::sum}, average{DataType::float16, Operator::average};
  EXPECT_EQ(result_of<float16>(sum, {element(2048), element(1), element(1)}, 40), element(2050));
  EXPECT_EQ(result_of<float16>(sum, {element(2048), element(1)}, 40), element(2048));  // a tie, to even
  EXPECT_EQ(result_of<float16>(average, {element(60000), element(60000)}, 40), element(60000));
  const auto brain = [](float value) { return Element::of(bfloat16(value)); };
  const Combination sum_of_brains{DataType::bfloat16, Operator::sum};
  EXPECT_EQ(result_of<bfloat16>(sum_of_brains, {brain(256), brain(1), brain(1)}, 40), brain(258));
}

// ---- the conversions ------------------------------------------------------------------------------------------------

template <class Half>
constexpr DataType half_type = std::is_same_v<Half, float16> ? DataType::float16 : DataType::bfloat16;

// In bulk, which is how long arrays go, and one by one.
template <class Half>
std::vector<float> widened(const std::vector<Half>& halves) {
  std::vector<float> floats(halves.size()), one_by_one(halves.size());
  const Reduction sum{half_type<Half>, Operator::sum};
  widen(sum, floats.data(), halves.data(), halves.size());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    widen(sum, &one_by_one[i], &halves[i], 1);
    EXPECT_TRUE(std::isnan(floats[i]) || floats[i] == static_cast<float>(halves[i]));
  }
  EXPECT_EQ(std::memcmp(floats.data(), one_by_one.data(), 4 * floats.size()), 0);
  return floats;
}

template <class Half>
std::vector<Half> narrowed(const std::vector<float>& floats) {
  std::vector<Half> halves(floats.size());
  const Reduction sum{half_type<Half>, Operator::sum};
  finish(sum, halves.data(), floats.data(), floats.size(), 1);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    Half alone;
    finish(sum, &alone, &floats[i], 1, 1);
    EXPECT_EQ(alone.bits, halves[i].bits) << floats[i];
    EXPECT_EQ(Half(floats[i]).bits, halves[i].bits) << floats[i];  // ucft/elements.hpp
  }
  return halves;
}

template <class Half>
class Halves : public testing::Test {};
using BothHalves = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(Halves, BothHalves);

TYPED_TEST(Halves, AllHaveTheirMeaningAndComeBack) {
  std::vector<TypeParam> all(65536);
  for (std::size_t bits = 0; bits < all.size(); ++bits) all[bits].bits = static_cast<std::uint16_t>(bits);
  const std::vector<float> floats = widened(all);
  const std::vector<TypeParam> back = narrowed<TypeParam>(floats);
  for (std::size_t bits = 0; bits < all.size(); ++bits) {
    const double meaning = test::meaning(all[bits]);
    ASSERT_EQ(std::isnan(floats[bits]), std::isnan(meaning)) << bits;
    if (std::isnan(meaning)) {
      ASSERT_EQ(back[bits].bits, test::FormatOf<TypeParam>::quiet_nan) << bits;
    } else {
      ASSERT_EQ(floats[bits], meaning) << bits;
      ASSERT_EQ(std::signbit(floats[bits]), std::signbit(meaning)) << bits;
      ASSERT_EQ(back[bits].bits, bits);
    }
  }
}

// Between every two halves: half way, and right beside it.
TYPED_TEST(Halves, TiesGoToTheEvenOne) {
  std::vector<float> floats;
  const int infinity = test::FormatOf<TypeParam>::infinity;
  for (int bits = 0; bits < infinity; ++bits) {
    TypeParam low, high;
    low.bits = static_cast<std::uint16_t>(bits);
    high.bits = static_cast<std::uint16_t>(bits + 1);
    const double from = test::meaning(low);
    const double to = bits + 1 == infinity ? std::ldexp(1, test::FormatOf<TypeParam>::bias + 1) : test::meaning(high);
    const auto middle = static_cast<float>((from + to) / 2);
    for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, HUGE_VALF)}) {
      floats.push_back(value);
      floats.push_back(-value);
    }
  }
  const std::vector<TypeParam> halves = narrowed<TypeParam>(floats);
  for (std::size_t i = 0; i < floats.size(); ++i)
    ASSERT_EQ(halves[i].bits, test::nearest<TypeParam>(static_cast<double>(floats[i])).bits) << floats[i];
}

TYPED_TEST(Halves, AnyFloatGoesToTheNearest) {
  std::mt19937_64 random(3);
  std::vector<float> floats(200'000);
  for (float& value : floats) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  const std::vector<TypeParam> halves = narrowed<TypeParam>(floats);
  for (std::size_t i = 0; i < floats.size(); ++i)
    ASSERT_EQ(halves[i].bits, test::nearest<TypeParam>(static_cast<double>(floats[i])).bits) << floats[i];
}

TEST(HalvesByHand, TheEndsOfTheRange) {
  const auto bits = [](float value) { return to_float16(value).bits; };
  EXPECT_EQ(bits(65504), 0x7bff);
  EXPECT_EQ(bits(65519.996f), 0x7bff);
  EXPECT_EQ(bits(65520), 0x7c00);
  EXPECT_EQ(bits(-1e30f), 0xfc00);
  EXPECT_EQ(bits(0x1p-24f), 0x0001);
  EXPECT_EQ(bits(0x1p-25f), 0x0000);
  EXPECT_EQ(bits(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(bits(0x1p-14f), 0x0400);
  EXPECT_EQ(bits(-0.0f), 0x8000);
  EXPECT_EQ(bits(-std::numeric_limits<float>::quiet_NaN()), 0x7e00);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(to_bfloat16(1.00390625f).bits, 0x3f80);  // 1 + 2^-8: half way, to even
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0xff80'0001u)).bits, 0x7fc0);
}

// ---- complex numbers, locations -------------------------------------------------------------------------------------

TEST(Complex, AProductIsThePlainFormula) {
  using Number = std::complex<double>;
  const auto product = [](Number a, Number b) {
    Number result;
    combine({DataType::complex_double, Operator::prod}, &result, &a, &b, 1);
    return result;
  };
  EXPECT_EQ(product({1, 2}, {3, 4}), Number(-5, 10));
  const Number recovered_by_c = product({HUGE_VAL, HUGE_VAL}, {1, 0});
  EXPECT_TRUE(std::isnan(recovered_by_c.real()) && std::isnan(recovered_by_c.imag()));
  // By a fused multiplication the real part would be the rounding error of x x, -2^-54, and not 0.
  const double x = 1 + 0x1p-27;
  EXPECT_EQ(product({x, x}, {x, x}).real(), 0);
  std::vector<Number> many(40, {x, x}), results(40);
  combine({DataType::complex_double, Operator::prod}, results.data(), many.data(), many.data(), 40);
  for (const Number& each : results) EXPECT_EQ(each.real(), 0);
}

TEST(Locations, OfEqualValuesTheLowestLocationWins) {
  using Pair = located<double, std::int32_t>;
  const auto of = [](Operator op, Pair a, Pair b) {
    Pair result;
    combine({DataType::double_int32, op}, &result, &a, &b, 1);
    return result;
  };
  for (const Operator op : {Operator::minloc, Operator::maxloc}) {
    EXPECT_EQ(of(op, {1, 7}, {1, 3}), (Pair{1, 3}));
    EXPECT_EQ(of(op, {1, 3}, {1, 7}), (Pair{1, 3}));
    EXPECT_EQ(of(op, {std::nan(""), 9}, {5, 1}).location, 9);
    EXPECT_EQ(of(op, {std::nan(""), 9}, {-std::nan(""), 2}).location, 2);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(of(op, {-std::nan("3"), 9}, {5, 1}).value), 0x7ff8'0000'0000'0000u);
  }
  EXPECT_EQ(of(Operator::minloc, {0.0, 1}, {-0.0, 2}).location, 2);
  EXPECT_EQ(of(Operator::maxloc, {0.0, 2}, {-0.0, 1}).location, 2);
}

}  // namespace
}  // namespace ucft::detail
