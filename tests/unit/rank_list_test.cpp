// The list of ranks of a result in ucft.hpp: a few lie in it, more beside it, and nobody can tell.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "ucft/ucft.hpp"

namespace ucft {
namespace {

std::vector<std::int32_t> first_ranks(std::size_t count) {
  std::vector<std::int32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 3);
  return ranks;
}

TEST(RankList, IsTheRanksThatItWasGivenHoweverMany) {
  for (std::size_t count : {0, 1, 2, 3, 4, 5, 6, 64, 1000}) {
    const std::vector<std::int32_t> ranks = first_ranks(count);
    const RankList list(ranks);
    EXPECT_EQ(list.size(), count);
    EXPECT_EQ(list.empty(), count == 0);
    EXPECT_TRUE(list == ranks) << count;
    EXPECT_FALSE(list == first_ranks(count + 1)) << count;
    EXPECT_EQ(std::vector<std::int32_t>(list), ranks);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(list[i], ranks[i]);
  }
}

TEST(RankList, ForgetsWhatItHeldBeforeAndOwnsWhatItHolds) {
  for (std::size_t before : {0, 3, 7})
    for (std::size_t after : {0, 2, 4, 5, 9}) {
      RankList list(first_ranks(before));
      list.assign(first_ranks(after));
      EXPECT_TRUE(list == first_ranks(after)) << before << ' ' << after;
      const RankList copy = list;
      RankList moved = std::move(list);
      EXPECT_TRUE(copy == moved) << before << ' ' << after;
      moved.assign({});
      EXPECT_TRUE(moved.empty());
      EXPECT_TRUE(copy == first_ranks(after)) << before << ' ' << after;
    }
}

}  // namespace
}  // namespace ucft
