// The checks of ucft_perftest find what is wrong, and nothing else: results that are built here, with one mistake each.
#include "bench/checker.hpp"

#include <gtest/gtest.h>

namespace ucft::detail::bench {
namespace {

constexpr std::size_t count = 3000;      // of a share
constexpr std::uint64_t operation = 32;  // one in which all elements are compared
using Values = std::vector<double>;

Result result_without(const std::vector<std::int32_t>& missing) {
  Result result;
  result.status = UCFT_OK;
  result.attempts = 1;
  result.missing_known = true;
  result.contributors = static_cast<std::uint32_t>(3 - missing.size());
  result.missing.assign(missing);
  return result;
}

// The shares that rank 0 of three gets in an alltoall, and their checks.
class CheckerOfShares : public testing::Test {
 protected:
  CheckerOfShares() : got_(3 * count) {
    Checker<double>::clear(got_);
    for (int giver = 0; giver < 3; ++giver) put(giver, count);
  }
  // The first elements of that rank's share; the others are untouched.
  void put(int giver, std::size_t elements) {
    const std::span<double> place = std::span(got_).subspan(static_cast<std::size_t>(giver) * count, count);
    Values given(3 * count);
    Checker<double>(UCFT_SUM, {giver, 3}).fill_shares(given, operation);
    Checker<double>::clear(place);
    std::copy_n(given.begin(), elements, place.begin());
  }
  std::string complaint(bool has_rounds, const std::vector<std::int32_t>& missing) {
    Checker<double> checker(UCFT_SUM, {0, 3});
    checker.set_rounds(has_rounds);
    return checker.check_shares_of_all(got_, operation, result_without(missing)).complaint;
  }

  Values got_;
};

TEST_F(CheckerOfShares, SharesOfAllAreRight) {
  EXPECT_EQ(complaint(false, {}), "");
  got_[2 * count - 1] += 1;
  EXPECT_NE(complaint(false, {}).find("block of rank 1"), std::string::npos) << complaint(false, {});
}

TEST_F(CheckerOfShares, TheShareOfAMissingRankIsUntouched) {
  put(1, 0);
  EXPECT_EQ(complaint(false, {1}), "");
  put(1, 1);
  EXPECT_NE(complaint(false, {1}).find("missing rank 1"), std::string::npos) << complaint(false, {1});
}

TEST_F(CheckerOfShares, InRoundsItsBeginningMayBeThere) {
  for (const std::size_t there : {std::size_t{0}, std::size_t{1}, count / 2, count - 1}) {
    put(1, there);
    EXPECT_EQ(complaint(true, {1}), "") << there;
  }
  put(1, count);
  EXPECT_NE(complaint(true, {1}).find("missing rank 1"), std::string::npos) << "then it would not be missing";
}

TEST_F(CheckerOfShares, InRoundsNothingElseMay) {
  put(1, count / 2);
  got_[count + count / 2 + 7] = got_[count];  // behind a gap
  EXPECT_NE(complaint(true, {1}).find("missing rank 1"), std::string::npos);
  put(1, count / 2);
  got_[count + 3] += 1;  // in what is there
  EXPECT_NE(complaint(true, {1}).find("missing rank 1"), std::string::npos);
  put(1, count / 2);
  EXPECT_NE(complaint(true, {}).find("block of rank 1"), std::string::npos) << "of a rank that is not missing";
}

}  // namespace
}  // namespace ucft::detail::bench
