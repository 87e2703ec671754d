// When --kill and --stop are due, by a clock of the test's own.
#include "tools/run/signal_plan.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace ucft::detail::run {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 60s;
const SignalPlan::TimePoint start{};

PlannedSignal kill_of(int rank, Origin origin, Duration after) { return {rank, origin, after, SIGKILL}; }

// The rank of the signal that is due; -1: none.
int due(SignalPlan& plan, SignalPlan::TimePoint now) {
  const auto planned = plan.take_due(now);
  return planned ? planned->rank : -1;
}

TEST(SignalPlan, NothingIsDueBeforeItsOriginIsKnown) {
  SignalPlan plan({kill_of(0, Origin::start_up_end, 0s), kill_of(1, Origin::program_start, 0s)}, patience);
  EXPECT_EQ(plan.next_deadline(), std::nullopt);
  EXPECT_EQ(due(plan, start + 1h), -1);
  plan.on_program_start(start);
  EXPECT_EQ(due(plan, start), 1);
  EXPECT_EQ(due(plan, start + 1h), -1);
}

TEST(SignalPlan, TheEarliestComesFirstWhateverItCountsFrom) {
  SignalPlan plan({kill_of(0, Origin::start_up_end, 2s), kill_of(1, Origin::program_start, 6s),
                   kill_of(2, Origin::start_up_end, 500ms)},
                  patience);
  plan.on_program_start(start);
  EXPECT_EQ(plan.next_deadline(), start + 6s) << "of those with a known origin";
  EXPECT_FALSE(plan.on_start_up(true, true, start + 5s));
  EXPECT_EQ(plan.next_deadline(), start + 5500ms);
  EXPECT_EQ(due(plan, start + 5499ms), -1);
  EXPECT_EQ(due(plan, start + 1h), 2);
  EXPECT_EQ(due(plan, start + 1h), 1);
  EXPECT_EQ(due(plan, start + 1h), 0);
  EXPECT_EQ(plan.next_deadline(), std::nullopt);
}

TEST(SignalPlan, StartUpEndsOnce) {
  SignalPlan plan({kill_of(0, Origin::start_up_end, 1s)}, patience);
  plan.on_program_start(start);
  plan.on_start_up(true, true, start + 5s);
  plan.on_start_up(true, true, start + 9s);
  EXPECT_EQ(plan.next_deadline(), start + 6s);
}

// A start-up that has begun may take as long as it likes: no deadline, and no loop that asks all the time.
TEST(SignalPlan, PatienceIsForProgramsThatDoNotBegin) {
  SignalPlan plan({kill_of(0, Origin::start_up_end, 1s)}, patience);
  plan.on_program_start(start);
  EXPECT_EQ(plan.next_deadline(), start + patience);
  EXPECT_FALSE(plan.on_start_up(true, false, start + 1s));
  EXPECT_EQ(plan.next_deadline(), std::nullopt);
  EXPECT_FALSE(plan.on_start_up(true, false, start + 1h));
  EXPECT_EQ(due(plan, start + 1h), -1);
}

TEST(SignalPlan, WithoutStartUpTimesCountFromTheStart) {
  SignalPlan plan({kill_of(0, Origin::start_up_end, 2s)}, patience);
  plan.on_program_start(start);
  EXPECT_FALSE(plan.on_start_up(false, false, start + patience - 1us));
  EXPECT_TRUE(plan.on_start_up(false, false, start + patience));
  EXPECT_FALSE(plan.on_start_up(false, false, start + patience)) << "said once";
  const auto planned = plan.take_due(start + patience);
  ASSERT_TRUE(planned);
  EXPECT_EQ(plan.moment(*planned, start + patience), "60.0 s after the start");
}

TEST(SignalPlan, MomentsAreRounded) {
  SignalPlan plan({}, patience);
  plan.on_program_start(start);
  plan.on_start_up(true, true, start + 10s);
  EXPECT_EQ(plan.moment(kill_of(0, Origin::start_up_end, 1s), start + 11040ms), "1.0 s after start-up");
  EXPECT_EQ(plan.moment(kill_of(0, Origin::program_start, 60ms), start + 60400us), "60 ms after the start");
  EXPECT_EQ(SignalPlan::planned_moment(kill_of(0, Origin::start_up_end, 1500ms)), "1.5 s after start-up");
}

TEST(SignalPlan, WhatNeverCameDueIsTheRest) {
  SignalPlan plan({kill_of(0, Origin::start_up_end, 2s), kill_of(1, Origin::program_start, 0s)}, patience);
  plan.on_program_start(start);
  EXPECT_EQ(due(plan, start), 1);
  const auto rest = plan.take_rest();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].rank, 0);
  EXPECT_EQ(plan.take_rest().size(), 0u);
}

}  // namespace
}  // namespace ucft::detail::run
