// Shares of lengths of their own: packed, and found again.
#include "collectives/catalogue/own_shares.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

namespace ucft::detail {
namespace {

constexpr std::string_view text = "abcdefghij";

std::vector<std::byte> packed(const std::vector<OwnShare>& shares) {
  std::vector<std::byte> all(PackedShares::bytes(shares) + 1, std::byte{7});
  const std::byte* const end = PackedShares::pack(shares, text.data(), all.data());
  EXPECT_EQ(end, all.data() + all.size() - 1);
  EXPECT_EQ(all.back(), std::byte{7}) << "written behind the shares";
  all.pop_back();
  return all;
}

std::string found(std::span<const std::byte> all, std::size_t place, std::size_t shares) {
  const auto share = PackedShares::find(all, place, shares);
  return share ? std::string(reinterpret_cast<const char*>(share->data()), share->size()) : "none";
}

TEST(OwnShares, AreFoundAsTheyWerePacked) {
  const std::vector<OwnShare> shares{{2, 3}, {0, 0}, {9, 1}, {2, 2}};
  const std::vector<std::byte> all = packed(shares);
  ASSERT_EQ(all.size(), 32u + 6);
  for (std::size_t place = 0; place < shares.size(); ++place)
    EXPECT_EQ(found(all, place, 4), text.substr(shares[place].offset, shares[place].bytes));
  EXPECT_EQ(packed({{0, 5}}).size(), 8u + 5);
  EXPECT_EQ(packed({}).size(), 0u);
}

// A block of another rank is checked before it is believed.
TEST(OwnShares, OfABlockThatIsNoneNothingIsFound) {
  std::vector<std::byte> all = packed({{0, 3}, {3, 3}});
  EXPECT_EQ(found({all.data(), 15}, 0, 2), "none") << "shorter than the ends";
  EXPECT_EQ(found({all.data(), 21}, 1, 2), "none") << "shorter than the shares";
  const std::uint64_t ends[] = {5, 4};
  std::memcpy(all.data(), ends, sizeof ends);
  EXPECT_EQ(found(all, 0, 2), "abcde");
  EXPECT_EQ(found(all, 1, 2), "none") << "it ends before it begins";
}

TEST(OwnShares, OnlyAShareOfTheLengthThatIsWantedIsOne) {
  const OwnShares mine{.me = 1, .given = {{0, 1}, {0, 2}}, .wanted = {{0, 3}, {3, 2}}, .for_others = {{0, 1}, {0, 0}}};
  EXPECT_TRUE(mine.find(0, packed({{0, 2}, {2, 3}})));
  EXPECT_FALSE(mine.find(0, packed({{0, 3}, {2, 2}})));
  EXPECT_FALSE(mine.find(0, packed({{0, 3}})));
}

}  // namespace
}  // namespace ucft::detail
