// Membership: positions and ranks are inverse to each other, whatever was excluded and in whichever order.
#include "collectives/topology/membership.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace ucft::detail {
namespace {

TEST(Membership, StartsWithEverybody) {
  const Membership all(5);
  EXPECT_EQ(all.size(), 5);
  for (std::int32_t rank = 0; rank < 5; ++rank) {
    EXPECT_TRUE(all.contains(rank));
    EXPECT_EQ(all.position_of(rank), rank);
    EXPECT_EQ(all.rank_at(rank), rank);
  }
  EXPECT_FALSE(all.contains(-1));
  EXPECT_FALSE(all.contains(5));
  EXPECT_TRUE(all.excluded().empty());
}

TEST(Membership, ExcludedRanksCloseTheGap) {
  Membership members(6);
  members.exclude(2);
  members.exclude(1);  // 0 3 4 5
  EXPECT_EQ(members.size(), 4);
  EXPECT_EQ(members.rank_at(0), 0);
  EXPECT_EQ(members.rank_at(1), 3);
  EXPECT_EQ(members.rank_at(3), 5);
  EXPECT_EQ(members.position_of(3), 1);
  EXPECT_EQ(members.excluded(), (std::vector<std::int32_t>{1, 2}));
}

TEST(Membership, PositionOfAnExcludedRankIsThatOfTheNextMember) {
  Membership members(6);
  members.exclude(1);
  members.exclude(2);
  members.exclude(5);
  EXPECT_EQ(members.position_of(1), 1);  // of 3
  EXPECT_EQ(members.position_of(2), 1);
  EXPECT_EQ(members.position_of(5), members.size());  // there is none
}

TEST(Membership, ExcludingTwiceOrAStrangerChangesNothing) {
  Membership members(4);
  members.exclude(3);
  members.exclude(3);
  members.exclude(4);
  members.exclude(-1);
  EXPECT_EQ(members.size(), 3);
  EXPECT_EQ(members.excluded(), (std::vector<std::int32_t>{3}));
}

TEST(Membership, OrderOfExclusionDoesNotMatter) {
  Membership a(8), b(8);
  for (std::int32_t rank : {6, 0, 3}) a.exclude(rank);
  for (std::int32_t rank : {3, 6, 0}) b.exclude(rank);
  EXPECT_EQ(a, b);
  b.exclude(1);
  EXPECT_FALSE(a == b);
}

TEST(Membership, AgreesWithAPlainListInEverySmallWorld) {
  for (std::int32_t n = 1; n <= 10; ++n)
    for (std::uint32_t mask = 0; mask < (1u << n); ++mask) {
      Membership members(n);
      std::vector<std::int32_t> plain;
      for (std::int32_t rank = n - 1; rank >= 0; --rank)
        if (mask >> rank & 1) members.exclude(rank);
      for (std::int32_t rank = 0; rank < n; ++rank)
        if ((mask >> rank & 1) == 0) plain.push_back(rank);
      ASSERT_EQ(members.size(), static_cast<std::int32_t>(plain.size()));
      for (std::size_t i = 0; i < plain.size(); ++i) {
        ASSERT_EQ(members.rank_at(static_cast<std::int32_t>(i)), plain[i]) << "n " << n << " excluded " << mask;
        ASSERT_EQ(members.position_of(plain[i]), static_cast<std::int32_t>(i));
      }
      for (std::int32_t rank = 0; rank < n; ++rank) ASSERT_EQ(members.contains(rank), (mask >> rank & 1) == 0);
    }
}

TEST(Membership, AMillionRanksWithAFewHolesStayCheap) {
  Membership members(1'000'000);
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) members.exclude(static_cast<std::int32_t>(random() % 1'000'000));
  EXPECT_EQ(members.size(), 1'000'000 - static_cast<std::int32_t>(members.excluded().size()));
  for (int i = 0; i < 1000; ++i) {
    const auto position = static_cast<std::int32_t>(random() % static_cast<unsigned>(members.size()));
    const std::int32_t rank = members.rank_at(position);
    ASSERT_TRUE(members.contains(rank));
    ASSERT_EQ(members.position_of(rank), position);
  }
}

}  // namespace
}  // namespace ucft::detail
