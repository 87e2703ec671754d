// combine() against a dumb reference, over the types that are numbers, operators, forms of aliasing, many counts and
// misalignments; and the promises of include/ucft/ucft.h on NaN, zeros, infinities, wrap-around and operand order.
#include "collectives/reduction/reduction.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace ucft::detail {
namespace {

template <class Element>
constexpr DataType type_of() {
  if constexpr (std::is_same_v<Element, float>) return DataType::float32;
  if constexpr (std::is_same_v<Element, double>) return DataType::float64;
  if constexpr (std::is_same_v<Element, std::int32_t>) return DataType::int32;
  if constexpr (std::is_same_v<Element, std::int64_t>) return DataType::int64;
  if constexpr (std::is_same_v<Element, std::int8_t>) return DataType::int8;
  if constexpr (std::is_same_v<Element, std::uint8_t>) return DataType::uint8;
  if constexpr (std::is_same_v<Element, std::int16_t>) return DataType::int16;
  if constexpr (std::is_same_v<Element, std::uint16_t>) return DataType::uint16;
  if constexpr (std::is_same_v<Element, std::uint32_t>) return DataType::uint32;
  return DataType::uint64;
}

template <class Element>
std::string bits_of(Element value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return std::to_string(bits);
}

template <class Element>
Element wrap(unsigned __int128 value) {
  return static_cast<Element>(static_cast<std::make_unsigned_t<Element>>(value));
}

// ---- the reference: one element at a time, case by case ----

template <class Element>
Element smaller(Element a, Element b) {
  if constexpr (std::is_floating_point_v<Element>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Element>::quiet_NaN();
    if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

template <class Element>
Element greater(Element a, Element b) {
  if constexpr (std::is_floating_point_v<Element>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Element>::quiet_NaN();
    if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

// Not commutative: the place of the operands shows.
template <class Element>
Element user_defined(Element lower, Element higher) {
  if constexpr (std::is_floating_point_v<Element>)
    return lower - higher;
  else
    return wrap<Element>(static_cast<unsigned __int128>(lower) * 3 + static_cast<unsigned __int128>(higher));
}

template <class Element>
Element expected(Operator op, Element lower, Element higher) {
  if (op == Operator::min) return smaller(lower, higher);
  if (op == Operator::max) return greater(lower, higher);
  if (op == Operator::user) return user_defined(lower, higher);
  if constexpr (std::is_floating_point_v<Element>) {
    return op == Operator::sum ? lower + higher : lower * higher;
  } else {
    const auto a = static_cast<unsigned __int128>(lower), b = static_cast<unsigned __int128>(higher);
    return wrap<Element>(op == Operator::sum ? a + b : a * b);
  }
}

struct UserCalls {
  std::uint64_t calls = 0;
  std::uint64_t elements = 0;
  int dtype = -1;
};

template <class Element>
void user_function(const void* in, void* inout, std::uint64_t count, int dtype, void* arg) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(in) % sizeof(Element), 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(inout) % sizeof(Element), 0u);
  const auto* lower = static_cast<const Element*>(in);
  auto* higher = static_cast<Element*>(inout);
  EXPECT_TRUE(lower + count <= higher || higher + count <= lower) << "in and inout overlap";
  for (std::uint64_t i = 0; i < count; ++i) higher[i] = user_defined(lower[i], higher[i]);
  auto& calls = *static_cast<UserCalls*>(arg);
  ++calls.calls;
  calls.elements += count;
  calls.dtype = dtype;
}

template <class Element>
std::vector<Element> special_values() {
  using Limits = std::numeric_limits<Element>;
  std::vector<Element> values = {Element(0),    Element(1),    Element(2),      Element(-1),
                                 Limits::min(), Limits::max(), Limits::lowest()};
  if constexpr (std::is_floating_point_v<Element>)
    values.insert(values.end(), {Element(-0.0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                 -Limits::quiet_NaN(), Limits::denorm_min(), Element(0.1), Element(1e10)});
  return values;
}

template <class Element>
Element random_value(std::mt19937_64& random) {
  static const std::vector<Element> special = special_values<Element>();
  if (random() % 4 == 0) return special[random() % special.size()];
  if constexpr (std::is_floating_point_v<Element>)
    return std::uniform_real_distribution<Element>(-100, 100)(random);
  else
    return static_cast<Element>(random());
}

// Same bits; of a NaN from a sum or a product only that it is one.
template <class Element>
bool same(Operator op, Element a, Element b) {
  if constexpr (std::is_floating_point_v<Element>) {
    if (op != Operator::min && op != Operator::max && std::isnan(a) && std::isnan(b)) return true;
  }
  return std::memcmp(&a, &b, sizeof(Element)) == 0;
}

enum class Alias { none, lower, higher, equal_operands, all };
constexpr Alias aliases[] = {Alias::none, Alias::lower, Alias::higher, Alias::equal_operands, Alias::all};
constexpr Operator operators[] = {Operator::sum, Operator::prod, Operator::min, Operator::max, Operator::user};

struct Misalignment {
  std::size_t lower, higher, destination;  // bytes
};
constexpr Misalignment misalignments[] = {{0, 0, 0}, {0, 8, 0}, {1, 0, 0}, {0, 3, 0}, {0, 0, 5}, {1, 2, 7}, {4, 4, 4}};

// Memory with guard bytes around `count` elements at a given misalignment.
template <class Element>
class Field {
 public:
  Field(const std::vector<Element>& values, std::size_t misalignment)
      : bytes_(values.size() * sizeof(Element) + 2 * guard + 64, fill), count_(values.size()) {
    const auto base = reinterpret_cast<std::uintptr_t>(bytes_.data());
    begin_ = guard + (64 - base % 64) % 64 - 32 + misalignment;
    if (count_ > 0) std::memcpy(data(), values.data(), count_ * sizeof(Element));
  }
  unsigned char* data() { return bytes_.data() + begin_; }
  Element at(std::size_t i) const {
    Element value;
    std::memcpy(&value, bytes_.data() + begin_ + i * sizeof(Element), sizeof(Element));
    return value;
  }
  bool guards_intact() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      if ((i < begin_ || i >= begin_ + count_ * sizeof(Element)) && bytes_[i] != fill) return false;
    return true;
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr unsigned char fill = 0xA5;
  std::vector<unsigned char> bytes_;
  std::size_t count_;
  std::size_t begin_;
};

template <class Element>
class ReductionOfType : public testing::Test {
 protected:
  void check(Operator op, Alias alias, Misalignment misalignment, std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Element> low(count), high(count);
    for (Element& value : low) value = random_value<Element>(random);
    for (Element& value : high) value = random_value<Element>(random);
    if (alias == Alias::equal_operands || alias == Alias::all) high = low;
    Field<Element> lower(low, misalignment.lower), higher(high, misalignment.higher),
        result(std::vector<Element>(count), misalignment.destination);
    Field<Element>& second = alias == Alias::equal_operands || alias == Alias::all ? lower : higher;
    Field<Element>& destination = alias == Alias::lower || alias == Alias::all ? lower
                                  : alias == Alias::higher                     ? higher
                                                                               : result;
    UserCalls calls;
    combine({type_of<Element>(), op, user_function<Element>, &calls}, destination.data(), lower.data(), second.data(),
            count);
    const std::string where = "op " + std::to_string(int(op)) + " alias " + std::to_string(int(alias)) + " count " +
                              std::to_string(count) + " misaligned " + std::to_string(misalignment.lower) + "," +
                              std::to_string(misalignment.higher) + "," + std::to_string(misalignment.destination) +
                              " seed " + std::to_string(seed);
    for (std::size_t i = 0; i < count; ++i) {
      const Element want = expected(op, low[i], high[i]);
      ASSERT_TRUE(same(op, destination.at(i), want))
          << where << " element " << i << ": " << low[i] << " op " << high[i] << " = " << destination.at(i) << " (bits "
          << bits_of(destination.at(i)) << "), expected " << want << " (bits " << bits_of(want) << ")";
      ASSERT_TRUE(&destination == &lower || same(Operator::min, lower.at(i), low[i])) << where;
      ASSERT_TRUE(&destination == &higher || same(Operator::min, higher.at(i), high[i])) << where;
    }
    ASSERT_TRUE(lower.guards_intact() && higher.guards_intact() && result.guards_intact()) << where;
    ASSERT_EQ(calls.elements, op == Operator::user ? count : 0u) << where;
    ASSERT_TRUE(calls.calls == 0 || calls.dtype == static_cast<int>(type_of<Element>())) << where;
  }
};

using Elements = testing::Types<float, double, std::int32_t, std::int64_t, std::uint64_t, std::int8_t, std::uint8_t,
                                std::int16_t, std::uint16_t, std::uint32_t>;
TYPED_TEST_SUITE(ReductionOfType, Elements);

TYPED_TEST(ReductionOfType, AgreesWithTheReferenceForAllCountsUpTo70) {
  std::uint64_t seed = 0;
  for (const Operator op : operators)
    for (const Alias alias : aliases)
      for (const Misalignment& misalignment : misalignments)
        for (std::size_t count = 0; count <= 70; ++count) {
          this->check(op, alias, misalignment, count, ++seed);
          if (this->HasFatalFailure()) return;
        }
}

TYPED_TEST(ReductionOfType, AgreesWithTheReferenceForThousandsOfElements) {
  std::uint64_t seed = 1'000'000;
  for (const Operator op : operators)
    for (const Alias alias : aliases)
      for (const Misalignment& misalignment : misalignments)
        for (const std::size_t count : {511u, 512u, 513u, 1024u, 1025u, 4099u}) {
          this->check(op, alias, misalignment, count, ++seed);
          if (this->HasFatalFailure()) return;
        }
}

// Whichever side a value comes from, and whether it meets a vector or a scalar remainder.
TYPED_TEST(ReductionOfType, MinAndMaxCommuteInTheBits) {
  using Element = TypeParam;
  const std::vector<Element> special = special_values<Element>();
  for (const Operator op : {Operator::min, Operator::max})
    for (const Element a : special)
      for (const Element b : special) {
        const std::vector<Element> many_a(67, a), many_b(67, b);
        std::vector<Element> ab(67), ba(67);
        combine({type_of<Element>(), op}, ab.data(), many_a.data(), many_b.data(), 67);
        combine({type_of<Element>(), op}, ba.data(), many_b.data(), many_a.data(), 67);
        ASSERT_EQ(std::memcmp(ab.data(), ba.data(), 67 * sizeof(Element)), 0) << a << " and " << b;
        for (const Element& value : ab) ASSERT_EQ(std::memcmp(&value, &ab[0], sizeof(Element)), 0);
      }
}

template <class Element>
Element combined(Operator op, Element lower, Element higher) {
  Element result;
  combine({type_of<Element>(), op}, &result, &lower, &higher, 1);
  return result;
}

TEST(Reduction, MinAndMaxOfAnyNanAreTheCanonicalNan) {
  const double payload = std::bit_cast<double>(0xfff8'0000'0000'1234u);  // negative, quiet
  const double signalling = std::bit_cast<double>(0x7ff0'0000'0000'0001u);
  for (const Operator op : {Operator::min, Operator::max})
    for (const double nan : {payload, signalling})
      for (const double other : {1.0, -HUGE_VAL, nan, -0.0}) {
        EXPECT_EQ(std::bit_cast<std::uint64_t>(combined(op, nan, other)), 0x7ff8'0000'0000'0000u);
        EXPECT_EQ(std::bit_cast<std::uint64_t>(combined(op, other, nan)), 0x7ff8'0000'0000'0000u);
      }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(combined(Operator::max, std::nanf("7"), 2.0f)), 0x7fc0'0000u);
}

TEST(Reduction, NegativeZeroIsLessThanPositiveZero) {
  EXPECT_TRUE(std::signbit(combined(Operator::min, 0.0, -0.0)));
  EXPECT_TRUE(std::signbit(combined(Operator::min, -0.0, 0.0)));
  EXPECT_FALSE(std::signbit(combined(Operator::max, 0.0f, -0.0f)));
  EXPECT_FALSE(std::signbit(combined(Operator::max, -0.0f, 0.0f)));
  EXPECT_TRUE(std::signbit(combined(Operator::max, -0.0, -0.0)));
}

TEST(Reduction, InfinitiesFollowIeee754) {
  EXPECT_EQ(combined(Operator::sum, HUGE_VAL, 1.0), HUGE_VAL);
  EXPECT_TRUE(std::isnan(combined(Operator::sum, HUGE_VAL, -HUGE_VAL)));
  EXPECT_TRUE(std::isnan(combined(Operator::prod, HUGE_VAL, 0.0)));
  EXPECT_EQ(combined(Operator::min, -HUGE_VAL, 1.0), -HUGE_VAL);
  EXPECT_EQ(combined(Operator::max, -HUGE_VAL, HUGE_VAL), HUGE_VAL);
}

TEST(Reduction, IntegersWrapAround) {
  using Limits32 = std::numeric_limits<std::int32_t>;
  using Limits64 = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(combined(Operator::sum, Limits32::max(), 1), Limits32::min());
  EXPECT_EQ(combined(Operator::prod, Limits32::min(), -1), Limits32::min());
  EXPECT_EQ(combined(Operator::sum, Limits64::max(), std::int64_t{1}), Limits64::min());
  EXPECT_EQ(combined(Operator::prod, Limits64::min(), std::int64_t{-1}), Limits64::min());
  EXPECT_EQ(combined(Operator::sum, ~std::uint64_t{0}, std::uint64_t{2}), 1u);
  EXPECT_EQ(combined(Operator::prod, std::uint16_t{0xffff}, std::uint16_t{0xffff}), 1);  // as ints it would overflow
  EXPECT_EQ(combined(Operator::sum, std::int8_t{127}, std::int8_t{1}), -128);
}

TEST(Reduction, Uint64ComparesWithoutSign) {
  EXPECT_EQ(combined(Operator::max, ~std::uint64_t{0}, std::uint64_t{1}), ~std::uint64_t{0});
  EXPECT_EQ(combined(Operator::min, ~std::uint64_t{0}, std::uint64_t{1}), 1u);
  EXPECT_EQ(combined(Operator::max, std::int64_t{-1}, std::int64_t{1}), 1);
}

TEST(Reduction, UserFunctionGetsTheLowerRanksAsIn) {
  UserCalls calls;
  const Reduction minus{DataType::float64, Operator::user, user_function<double>, &calls};
  const double lower = 10, higher = 3;
  double disjoint = 0, in_lower = lower, in_higher = higher;
  combine(minus, &disjoint, &lower, &higher, 1);
  combine(minus, &in_lower, &in_lower, &higher, 1);
  combine(minus, &in_higher, &lower, &in_higher, 1);
  EXPECT_EQ(disjoint, 7);
  EXPECT_EQ(in_lower, 7);
  EXPECT_EQ(in_higher, 7);
}

TEST(Reduction, ElementBytes) {
  EXPECT_EQ(element_bytes(DataType::float32), 4u);
  EXPECT_EQ(element_bytes(DataType::float64), 8u);
  EXPECT_EQ(element_bytes(DataType::int32), 4u);
  EXPECT_EQ(element_bytes(DataType::int64), 8u);
  EXPECT_EQ(element_bytes(DataType::uint64), 8u);
}

}  // namespace
}  // namespace ucft::detail
