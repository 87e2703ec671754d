// The part of the blocks of all that a rank takes: shares of an alltoall, prefixes of scans.
#include "collectives/catalogue/landing.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ucft::detail {
namespace {

const std::byte* bytes_of(const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); }
std::byte* bytes_of(auto& values) { return reinterpret_cast<std::byte*>(values.data()); }

// Rank r of an operation gives {10^r, 2}. The result of rank `me`, if those ranks have contributed; {-1, -1}: none.
std::vector<double> prefix(Landing& landing, const std::vector<Rank>& ranks) {
  static const std::vector<double> given[] = {{1, 2}, {10, 2}, {100, 2}, {1000, 2}, {10000, 2}};
  std::vector<double> result{-1, -1};
  for (Rank rank : ranks) landing.take(rank, bytes_of(given[rank]), bytes_of(result));
  return result;
}

TEST(Landing, APrefixHasTheRanksUpToItsOwnOrBeforeIt) {
  Landing scan(Lands::prefix, 2, 2, 2, {DataType::float64, Operator::sum});
  EXPECT_EQ(prefix(scan, {0, 1, 2, 3}), (std::vector<double>{111, 6}));
  EXPECT_EQ(prefix(scan, {1, 2}), (std::vector<double>{110, 4})) << "rank 0 is missing";
  EXPECT_EQ(prefix(scan, {2, 3}), (std::vector<double>{100, 2}));
  EXPECT_TRUE(scan.has_result());
  Landing exscan(Lands::prefix_before, 2, 2, 2, {DataType::float64, Operator::sum});
  EXPECT_EQ(prefix(exscan, {0, 1, 2, 3}), (std::vector<double>{11, 4}));
  EXPECT_TRUE(exscan.has_result());
  EXPECT_EQ(prefix(exscan, {2, 3}), (std::vector<double>{-1, -1})) << "nobody before it";
  EXPECT_FALSE(exscan.has_result());
  EXPECT_EQ(prefix(exscan, {1, 2}), (std::vector<double>{10, 2}));
}

TEST(Landing, WhatWasTakenOfAnOperationThatDidNotEndIsForgotten) {
  for (const Operator op : {Operator::sum, Operator::average}) {
    Landing scan(Lands::prefix, 2, 2, 2, {DataType::float64, op});
    prefix(scan, {0, 1});
    EXPECT_EQ(prefix(scan, {0, 2}),
              op == Operator::sum ? (std::vector<double>{101, 4}) : (std::vector<double>{50.5, 2}));
    prefix(scan, {1});
    EXPECT_EQ(prefix(scan, {1, 2}), op == Operator::sum ? (std::vector<double>{110, 4}) : (std::vector<double>{55, 2}));
  }
}

TEST(Landing, AnAverageIsOfThoseThatAreInIt) {
  Landing exscan(Lands::prefix_before, 3, 2, 2, {DataType::float64, Operator::average});
  EXPECT_EQ(prefix(exscan, {0, 1, 2, 3, 4}), (std::vector<double>{37, 2}));
  EXPECT_EQ(prefix(exscan, {0, 2, 3}), (std::vector<double>{50.5, 2}));
}

// 1 and then 2^-53 twice: from left to right nothing of them is left. A reproducible sum keeps them, in any order.
TEST(Landing, ItIsCombinedFromLeftToRightOrReproducibly) {
  const std::vector<double> one{1}, half{0x1p-53};
  for (const Operator op : {Operator::sum, Operator::sum_reproducible}) {
    Landing scan(Lands::prefix, 2, 1, 1, {DataType::float64, op});
    std::vector<double> result{0};
    scan.take(0, bytes_of(one), bytes_of(result));
    scan.take(1, bytes_of(half), bytes_of(result));
    scan.take(2, bytes_of(half), bytes_of(result));
    EXPECT_EQ(result[0], op == Operator::sum ? 1 : 1 + 0x1p-52);
  }
}

// Longer than a piece. Reproducible sums are carried in bins, and these ends are rounded once.
TEST(Landing, EachPieceOfALongScanIsCombined) {
  constexpr std::uint64_t count = 5000;
  for (const Operator op : {Operator::sum, Operator::average, Operator::sum_reproducible}) {
    Landing scan(Lands::prefix, 1, count, count, {DataType::float64, op});
    std::vector<double> low(count), high(count), expected(count), result(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      low[i] = static_cast<double>(i);
      high[i] = 3 * low[i] + 2;
      expected[i] = (low[i] + high[i]) / (op == Operator::average ? 2 : 1);
    }
    scan.take(0, bytes_of(low), bytes_of(result));
    scan.take(1, bytes_of(high), bytes_of(result));
    EXPECT_EQ(result, expected);
  }
}

TEST(Landing, HalvesAreRoundedOnceAtTheEnd) {
  constexpr std::uint64_t count = 5000;
  Landing scan(Lands::prefix, 2, count, count, {DataType::float16, Operator::sum});
  const std::vector<std::uint16_t> ones(count, 0x3c00), many(count, 0x6800), expected(count, 0x6801);  // 2048, 2050
  std::vector<std::uint16_t> result(count);
  scan.take(0, bytes_of(many), bytes_of(result));
  scan.take(1, bytes_of(ones), bytes_of(result));
  scan.take(2, bytes_of(ones), bytes_of(result));
  EXPECT_EQ(result, expected);
}

TEST(Landing, OfEachBlockARankTakesItsShare) {
  Landing alltoall(Lands::share_of_each, 1, 6, 2, {DataType::int32, Operator::none});
  const std::vector<std::int32_t> first{0, 1, 2, 3, 4, 5}, third{20, 21, 22, 23, 24, 25};
  std::vector<std::int32_t> result(6, -1);
  alltoall.take(0, bytes_of(first), bytes_of(result));
  alltoall.take(2, bytes_of(third), bytes_of(result));
  EXPECT_EQ(result, (std::vector<std::int32_t>{2, 3, -1, -1, 22, 23}));
}

}  // namespace
}  // namespace ucft::detail
