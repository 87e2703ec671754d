// What gossip operations agree on: tables, ranges, and the bound of the error that follows from them.
#include "collectives/gossip/agreement_table.hpp"
#include "collectives/gossip/gossip_call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ucft::detail {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double bound_of(std::vector<EstimateRange> ranges, double reach = 0, double spread = 1) {
  ErrorBound bound(reach, spread);
  for (const EstimateRange& each : ranges) bound.add(each);
  return bound.of_largest();
}

// Estimates between 3 and 5: the aggregate is among them, and the middle is off by 1 of at least 3.
TEST(ErrorBound, OfTheMiddleIsHalfOfTheRangeRelativeToTheLeastThatTheAggregateCanBe) {
  EXPECT_EQ(bound_of({{3, 5}}), 1.0 / 3);
  EXPECT_EQ(bound_of({{-5, -3}}), 1.0 / 3);
  EXPECT_EQ(bound_of({{4, 4}}), 0);
  EXPECT_EQ(bound_of({}), 0);
}

TEST(ErrorBound, OfAnyEstimateIsTwiceThat) { EXPECT_EQ(bound_of({{3, 5}}, 1), 2.0 / 3); }

TEST(ErrorBound, AroundZeroThereIsNone) {
  EXPECT_EQ(bound_of({{-1, 1}}), infinite);
  EXPECT_EQ(bound_of({{0, 1}}), infinite);
  EXPECT_EQ(bound_of({{0, 0}}), 0);
}

TEST(ErrorBound, IsRelativeToTheLargestValueOrToEach) {
  ErrorBound bound;
  bound.add({99, 101});
  bound.add({1, 3});
  EXPECT_EQ(bound.of_largest(), 1.0 / 99);
  EXPECT_EQ(bound.of_each(), 1.0);
}

// Weights 2, 2, -1: the aggregate may be as far off the middle as 5/3 of the half width.
TEST(ErrorBound, NegativeWeightsWidenIt) {
  EXPECT_DOUBLE_EQ(bound_of({{9, 11}}, 0, 5.0 / 3), 5.0 / 3 / (10 - 5.0 / 3));
}

// In vectors of several places at once, and the rest one by one.
template <class Real>
void expect_largest_of_each_length() {
  for (std::size_t length = 0; length <= 40; ++length) {
    std::vector<Real> numbers(length, Real{1});
    EXPECT_EQ(detail::largest<Real>(numbers), length == 0 ? 0 : 1);
    for (Real& each : numbers) {
      for (Real large : {Real{-3}, Real{5}}) {
        each = large;
        EXPECT_EQ(detail::largest<Real>(numbers), std::abs(large)) << length;
      }
      for (Real odd : {std::numeric_limits<Real>::quiet_NaN(), -std::numeric_limits<Real>::infinity()}) {
        each = odd;
        EXPECT_EQ(detail::largest<Real>(numbers), infinite) << length;
      }
      each = -1;
    }
  }
}
TEST(Masses, TheLargestMagnitudeIsFoundAtEachPlace) {
  expect_largest_of_each_length<double>();
  expect_largest_of_each_length<float>();
}

TEST(EstimateRange, TheMiddleDoesNotOverflow) {
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ((EstimateRange{most, most}).middle(), most);
  EXPECT_EQ((EstimateRange{-most, most}).middle(), 0);
  EXPECT_EQ((EstimateRange{most / 2, most}).middle(), most / 4 * 3);
}

std::vector<double> largest(std::vector<std::vector<double>> tables) {
  std::vector<double> all = tables[0];
  for (const auto& table : tables)
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], table[i]);
  return all;
}

TEST(AgreementTable, AMeetingTellsWhetherAllAskForTheSameAndWhoObjects) {
  const auto of = [](Rank me, std::uint64_t signature, WindowObjection objection) {
    return meeting_table({signature, 0, 1.0 + me, 1.0, objection, me == 1}, me, 3);
  };
  const auto same =
      largest({of(0, 7, WindowObjection::none), of(1, 7, WindowObjection::no_memory), of(2, 7, WindowObjection::none)});
  EXPECT_TRUE(AgreedMeeting{same}.is_match());
  EXPECT_FALSE(AgreedMeeting{same}.is_same_view()) << "one has gone one-sided, another one could not";
  EXPECT_EQ(AgreedMeeting{same}.scale(), 3);
  EXPECT_EQ(AgreedMeeting{same}.objector(WindowObjection::no_memory), 1);
  EXPECT_EQ(AgreedMeeting{same}.objector(WindowObjection::unsupported), no_rank);
  const auto different = largest({of(0, 7, WindowObjection::unsupported), of(1, 8, WindowObjection::none)});
  EXPECT_FALSE(AgreedMeeting{different}.is_match());
  EXPECT_EQ(AgreedMeeting{different}.objector(WindowObjection::unsupported), 0);
}

TEST(AgreementTable, EstimatesGiveTheRangeOfEachValue) {
  const double one[] = {1, -5}, other[] = {2, -3};
  const auto table = largest({AgreedEstimates::of(one, {}, 2, 2), AgreedEstimates::of(other, {}, 2, 2)});
  const AgreedEstimates agreed{table, 2};
  EXPECT_EQ(agreed.range(0).low, 1);
  EXPECT_EQ(agreed.range(0).high, 2);
  EXPECT_EQ(agreed.range(1).low, -5);
  EXPECT_EQ(agreed.range(1).high, -3);
  EXPECT_FALSE(agreed.knows_nobody() || agreed.somebody_lacks() || agreed.refuses_windows());
  EXPECT_EQ(agreed.error_bound(0, 0), 1.0 / 3);
}

// 100 +- 1, and each mass may be off by 2 and its weight by 0.01 of itself.
TEST(AgreementTable, RoundingIsInTheBound) {
  const double one[] = {99}, other[] = {101};
  const auto table = largest({AgreedEstimates::of(one, {2, 0}, 1, 2), AgreedEstimates::of(other, {0, 0.01}, 1, 2)});
  const AgreedEstimates agreed{table, 1};
  const double off = 1 + 2 + 101 * 0.01;
  EXPECT_DOUBLE_EQ(agreed.error_bound(0, 0), off / (100 - off));
  EXPECT_DOUBLE_EQ(agreed.error_bound(0.25, 0.5), (off + 101 * 0.5 + 0.5) / (100 - (off + 101 * 0.5 + 0.5)));
  EXPECT_FALSE(agreed.can_improve(0, 0)) << "they are nearer to each other than rounding lets them be";
  const auto exact = largest({AgreedEstimates::of(one, {}, 1, 2), AgreedEstimates::of(other, {}, 1, 2)});
  EXPECT_TRUE((AgreedEstimates{exact, 1}).can_improve(0, 0));
}

TEST(AgreementTable, ZerosAreExact) {
  const double zero[] = {0};
  const auto bound = [&](const MassError& rounding) {
    const auto table = AgreedEstimates::of(zero, rounding, 1, 2);
    return AgreedEstimates{table, 1}.error_bound(1e-16, 1e-300);
  };
  EXPECT_EQ(bound({}), 0);
  EXPECT_EQ(bound({0, 0.01}), 0) << "of any weight";
  EXPECT_EQ(bound({1e-300, 0}), infinite) << "what was rounded may be something else";
}

TEST(AgreementTable, WhereSomebodyHasNoEstimateThereIsNoBound) {
  const double one[] = {1};
  const auto some = largest({AgreedEstimates::of(one, {}, 1, 2), AgreedEstimates::of({}, {}, 1, 2)});
  EXPECT_TRUE((AgreedEstimates{some, 1}).somebody_lacks());
  EXPECT_FALSE((AgreedEstimates{some, 1}).knows_nobody());
  EXPECT_EQ((AgreedEstimates{some, 1}).error_bound(0, 0), infinite);
  const auto none = AgreedEstimates::of({}, {}, 1, 2);
  EXPECT_TRUE((AgreedEstimates{none, 1}).knows_nobody());
}

TEST(AgreementTable, WhoRefusesWindowsIsNamed) {
  auto refusing = AgreedEstimates::of({}, {}, 1, 3);
  AgreedEstimates::refuse_windows(refusing, 1, 0);
  const AgreedEstimates agreed{refusing, 1};
  EXPECT_TRUE(agreed.refuses_windows());
  EXPECT_EQ(agreed.refuser(), 0);
}

// ---- the call

GossipCall call_of(GossipAlgorithm algorithm, int cycles, int repair_initial) {
  GossipCall call;
  call.plan.algorithm = algorithm;
  call.iterations = 40;
  EXPECT_EQ(call.choose_repair(cycles, repair_initial), "");
  return call;
}

TEST(GossipCall, ByDefaultHpflcAndHpfccRepairAndNoOtherAlgorithmDoes) {
  for (int number = 0; number < gossip_algorithm_count; ++number) {
    const GossipCall call = call_of(static_cast<GossipAlgorithm>(number), 0, 0);
    const bool repairs = call.plan.algorithm == GossipAlgorithm::hpflc || call.plan.algorithm == GossipAlgorithm::hpfcc;
    EXPECT_EQ(call.plan.cycles, repairs ? GossipCall::usual_cycles : 0) << number;
    EXPECT_EQ(call.plan.repairs_initial, repairs) << number;
  }
  EXPECT_EQ(call_of(GossipAlgorithm::hpflc, GossipCall::new_cycles, -1).plan.cycles, 0);
  EXPECT_FALSE(call_of(GossipAlgorithm::hpflc, GossipCall::new_cycles, -1).plan.repairs_initial);
  EXPECT_EQ(call_of(GossipAlgorithm::hps, 3, 0).plan.cycles, 3);
  EXPECT_TRUE(call_of(GossipAlgorithm::pflc, 0, 1).plan.repairs_initial);
}

TEST(GossipCall, EachCycleComesTwiceAtLeast) {
  for (const auto& [rounds, cycles] : {std::pair(0, 1), {1, 1}, {7, 3}, {15, 7}, {31, 15}, {33, 16}, {1000, 16}}) {
    GossipCall call;
    call.plan.algorithm = GossipAlgorithm::hpflc;
    call.iterations = rounds;
    EXPECT_EQ(call.choose_repair(0, 0), "");
    EXPECT_EQ(call.plan.cycles, cycles) << rounds;
  }
}

TEST(GossipCall, OptionsOfRepairThatMeanNothingAreRefusedByName) {
  const auto problem = [](GossipAlgorithm algorithm, int cycles, int repair_initial) {
    GossipCall call;
    call.plan.algorithm = algorithm;
    return call.choose_repair(cycles, repair_initial);
  };
  EXPECT_EQ(problem(GossipAlgorithm::hps, -2, 0), "cycles is -2: must be -1 .. 1048576");
  EXPECT_EQ(problem(GossipAlgorithm::hps, most_cycles + 1, 0), "cycles is 1048577: must be -1 .. 1048576");
  EXPECT_EQ(problem(GossipAlgorithm::pcf, 4, 0), "cycles is 4: pcf has none");
  EXPECT_EQ(problem(GossipAlgorithm::ardb, -1, 0), "cycles is -1: ardb has none");
  EXPECT_EQ(problem(GossipAlgorithm::hpflc, 0, 2), "repair_initial is 2: must be -1, 0 or 1");
  EXPECT_EQ(problem(GossipAlgorithm::hps, 0, 1), "repair_initial is 1: hps has no checksums");
  EXPECT_EQ(problem(GossipAlgorithm::hps, 0, -1), "");
}

// A named default is the default.
TEST(GossipCall, TheSignatureTellsOptionsOfRepairApart) {
  constexpr GossipAlgorithm hpflc = GossipAlgorithm::hpflc;
  const std::uint64_t usual = call_of(hpflc, 0, 0).signature();
  EXPECT_EQ(call_of(hpflc, GossipCall::usual_cycles, 1).signature(), usual);
  EXPECT_NE(call_of(hpflc, GossipCall::usual_cycles + 1, 0).signature(), usual);
  EXPECT_NE(call_of(hpflc, GossipCall::new_cycles, 0).signature(), usual);
  EXPECT_NE(call_of(hpflc, 0, -1).signature(), usual);
}

TEST(GossipCall, TheSignatureTellsAggregatesAndTypesApart) {
  const GossipCall usual = call_of(GossipAlgorithm::pcf, 0, 0);
  std::vector<std::uint64_t> all{usual.signature()};
  for (GossipExtremum extremum : {GossipExtremum::minimum, GossipExtremum::maximum}) {
    GossipCall call = usual;
    call.plan.extremum = extremum;
    all.push_back(call.signature());
  }
  for (GossipHalf half : {GossipHalf::none, GossipHalf::float16, GossipHalf::bfloat16}) {
    GossipCall call = usual;
    call.is_float = true;
    call.half = half;
    all.push_back(call.signature());
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

// ---- values of half the size

// Between two halves lie others of float: rounded to float first, 1 + 2^-11 and a bit would be the tie, and go down.
TEST(GossipValues, AreRoundedOnce) {
  EXPECT_EQ(rounded_to(GossipHalf::float16, 1 + 0x1p-11), 1);
  EXPECT_EQ(rounded_to(GossipHalf::float16, 1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);
  EXPECT_EQ(rounded_to(GossipHalf::float16, -1 - 0x1p-11 - 0x1p-40), -1 - 0x1p-10);
  EXPECT_EQ(rounded_to(GossipHalf::float16, 1 + 0x3p-11 - 0x1p-40), 1 + 0x1p-10);
  EXPECT_EQ(rounded_to(GossipHalf::float16, 1 + 0x3p-11), 1 + 0x1p-9);
  EXPECT_EQ(rounded_to(GossipHalf::bfloat16, 1 + 0x1p-8), 1);
  EXPECT_EQ(rounded_to(GossipHalf::bfloat16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
  EXPECT_EQ(rounded_to(GossipHalf::float16, 0x1p-25), 0);
  EXPECT_EQ(rounded_to(GossipHalf::float16, 0x1p-25 + 0x1p-60), 0x1p-24);
  EXPECT_EQ(rounded_to(GossipHalf::float16, 65520 - 0x1p-20), 65504);
  EXPECT_EQ(rounded_to(GossipHalf::float16, 65520), infinite);
  EXPECT_EQ(rounded_to(GossipHalf::bfloat16, -1e300), -infinite);
  EXPECT_TRUE(std::isnan(rounded_to(GossipHalf::bfloat16, std::nan(""))));
}

TEST(GossipValues, ComeOutAsTheyWentIn) {
  for (GossipHalf half : {GossipHalf::float16, GossipHalf::bfloat16}) {
    std::vector<std::uint16_t> all(1 << 16), out(1 << 16);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    const std::vector<float> values = read_values<float>(half, all.data(), all.size());
    write_values<float>(half, values, out.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(values[i])) continue;
      ASSERT_EQ(out[i], all[i]);
    }
  }
}

}  // namespace
}  // namespace ucft::detail
