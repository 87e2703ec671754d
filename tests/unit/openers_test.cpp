// Parts of a host whose ranks can open each other's memory.
#include "ucx_layer/runtime/openers.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace ucft::detail {
namespace {

using Ranks = std::vector<std::int32_t>;

Ranks parts(const std::vector<std::uint64_t>& hosts, const std::function<bool(std::int32_t, std::int32_t)>& opens) {
  const auto ranks = static_cast<std::int32_t>(hosts.size());
  std::vector<Unopened> unopened;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    unopened.emplace_back(ranks);
    for (std::int32_t other = 0; other < ranks; ++other)
      if (!opens(rank, other)) unopened.back().add(other);
  }
  return parts_of_hosts(hosts, unopened);
}

TEST(Openers, AHostStaysWholeIfAllOpenAll) {
  EXPECT_EQ(parts({5, 5, 9, 5}, [](int, int) { return true; }), (Ranks{0, 0, 2, 0}));
}

TEST(Openers, RanksThatOpenNothingAreAlone) {
  EXPECT_EQ(parts({5, 5, 5}, [](int, int) { return false; }), (Ranks{0, 1, 2}));
}

TEST(Openers, TwoContainersAreTwoParts) {
  EXPECT_EQ(parts({5, 5, 5, 5}, [](int a, int b) { return a % 2 == b % 2; }), (Ranks{0, 1, 0, 1}));
}

// Rank 1 in a container: the others, outside, may open its memory, and it may not open theirs.
TEST(Openers, OpeningInOneDirectionIsNotEnough) {
  EXPECT_EQ(parts({5, 5, 5}, [](int a, int) { return a != 1; }), (Ranks{0, 1, 0}));
  EXPECT_EQ(parts({5, 5, 5}, [](int, int b) { return b != 1; }), (Ranks{0, 1, 0}));
}

// All ranks of a part, and not only its first one. Ranks have a bit each, of words of 64.
TEST(Openers, APartTakesARankThatAllOfItOpen) {
  const auto no_pair = [](int a, int b) { return a + b != 3 || a == 0 || b == 0; };  // 1 and 2
  EXPECT_EQ(parts({5, 5, 5, 5}, no_pair), (Ranks{0, 0, 2, 0}));
  const Ranks many = parts(std::vector<std::uint64_t>(130, 7), [](int a, int b) { return a != 129 && b != 65; });
  EXPECT_EQ(many[64], 0);
  EXPECT_EQ(many[65], 65);
  EXPECT_EQ(many[128], 0);
  EXPECT_EQ(many[129], 129);
}

}  // namespace
}  // namespace ucft::detail
