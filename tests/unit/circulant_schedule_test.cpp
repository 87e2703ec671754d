// The schedule of a broadcast in pieces (collectives/topology/circulant_schedule.hpp), round by round.
#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <vector>

#include "collectives/topology/circulant_schedule.hpp"

namespace ucft::detail {
namespace {

std::vector<CirculantSchedule> schedules_of(std::int32_t size) {
  std::vector<CirculantSchedule> all;
  for (std::int32_t process = 0; process < size; ++process) all.emplace_back(process, size);
  return all;
}

// Sends what each process has at the beginning of a round; the paper's two conditions.
void expect_all_have_all(std::int32_t size, std::int64_t blocks) {
  const std::vector<CirculantSchedule> schedules = schedules_of(size);
  std::vector<std::set<std::int64_t>> has(static_cast<std::size_t>(size));
  for (std::int64_t block = 0; block < blocks; ++block) has[0].insert(block);
  const std::int64_t rounds = schedules[0].rounds(blocks);
  EXPECT_EQ(rounds, blocks - 1 + std::bit_width(static_cast<unsigned>(size - 1)));
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::vector<std::pair<std::int32_t, std::int64_t>> arrivals;
    for (std::int32_t process = 0; process < size; ++process) {
      const auto [to, block] = schedules[static_cast<std::size_t>(process)].given(round, blocks);
      if (block == CirculantSchedule::no_block) continue;
      ASSERT_TRUE(has[static_cast<std::size_t>(process)].contains(block))
          << process << " of " << size << " gives block " << block << " in round " << round;
      const auto [from, same] = schedules[static_cast<std::size_t>(to)].gotten(round, blocks);
      ASSERT_EQ(from, process);
      ASSERT_EQ(same, block);
      arrivals.emplace_back(to, block);
    }
    for (const auto& [to, block] : arrivals)
      ASSERT_TRUE(has[static_cast<std::size_t>(to)].insert(block).second) << "twice to " << to;
  }
  for (const auto& each : has) ASSERT_EQ(each.size(), static_cast<std::size_t>(blocks)) << "of " << size;
}

TEST(CirculantSchedule, AfterAsFewRoundsAsCanBeAllHaveAllBlocks) {
  for (std::int32_t size = 2; size <= 130; ++size)
    for (std::int64_t blocks : {1, 2, 3, 4, 7, 8, 18}) expect_all_have_all(size, blocks);
  for (std::int32_t size : {255, 256, 257, 1000, 1025}) expect_all_have_all(size, 23);
}

// The example of the header.
TEST(CirculantSchedule, IsThatOfTheDocuments) {
  const std::vector<CirculantSchedule> schedules = schedules_of(9);
  EXPECT_EQ(schedules[7].sources(), (std::vector<std::int32_t>{6, 5, 4, 2}));
  const std::int64_t blocks = 101;  // no idle rounds before the first phase: 100 is a multiple of 4
  const std::vector<std::int64_t> seven{36, 39, 38, 41}, six{39, 38, 37, 40};
  for (std::int64_t k = 0; k < 4; ++k) {
    EXPECT_EQ(schedules[7].gotten(40 + k, blocks).block, seven[static_cast<std::size_t>(k)]);
    EXPECT_EQ(schedules[6].gotten(40 + k, blocks).block, six[static_cast<std::size_t>(k)]);
  }
}

TEST(CirculantSchedule, BetweenTwoAllBlocksGoStraight) {
  const std::vector<CirculantSchedule> schedules = schedules_of(2);
  for (std::int64_t round = 0; round < 5; ++round) {
    EXPECT_EQ(schedules[0].given(round, 5).block, round);
    EXPECT_EQ(schedules[1].gotten(round, 5).block, round);
    EXPECT_EQ(schedules[1].given(round, 5).block, CirculantSchedule::no_block);
  }
}

}  // namespace
}  // namespace ucft::detail
