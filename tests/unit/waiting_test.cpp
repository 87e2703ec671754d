// What a rank does between two looks, and which calls it keeps prepared.
#include <gtest/gtest.h>

#include <sched.h>

#include <string>

#include "ucx_layer/bootstrap/processors.hpp"
#include "ucx_layer/runtime/last_two.hpp"
#include "ucx_layer/runtime/spin.hpp"

namespace ucft::detail {
namespace {

// "6 looks, 8 yields": of who can do nothing else (waits), or can.
std::string told(const Spin& spin, bool waits) {
  Looks looks = spin.in_call(waits && spin.yields_in_call());
  int looked = 0, yielded = 0;
  for (Looks::Next next = looks.next(); next != Looks::Next::end; next = looks.next()) {
    EXPECT_TRUE(next == Looks::Next::yield || yielded == 0) << "a look without a yield behind one with it";
    ++(next == Looks::Next::yield ? yielded : looked);
  }
  return std::to_string(looked) + " looks, " + std::to_string(yielded) + " yields";
}

TEST(Spin, RanksThatShareProcessorsYieldSoon) {
  EXPECT_EQ(Spin({.living = 2, .hardware_threads = 2}).looks(), 1000u);
  EXPECT_EQ(Spin({.living = 3, .hardware_threads = 2}).looks(), 6u);
  EXPECT_EQ(Spin({.living = 4, .hardware_threads = 2}).looks(), 6u);
  EXPECT_EQ(Spin({.living = 5, .hardware_threads = 2}).looks(), 0u);
  EXPECT_EQ(Spin({.setting = 40, .living = 5, .hardware_threads = 2}).looks(), 40u);
  EXPECT_EQ(Spin({.setting = 0, .living = 1, .hardware_threads = 2}).looks(), 0u);
}

TEST(Spin, WithinACallWhoSharesItsProcessorYieldsIfItCanDoNothingElse) {
  EXPECT_EQ(told(Spin({.living = 2, .hardware_threads = 2}), true), "16 looks, 0 yields");
  EXPECT_EQ(told(Spin({.living = 4, .hardware_threads = 2}), true), "6 looks, 8 yields");
  EXPECT_EQ(told(Spin({.living = 9, .hardware_threads = 2}), true), "0 looks, 8 yields");
  EXPECT_EQ(told(Spin({.living = 4, .hardware_threads = 2}), false), "6 looks, 0 yields");
  EXPECT_EQ(told(Spin({.setting = 16, .living = 2, .hardware_threads = 2}), true), "16 looks, 8 yields");
  EXPECT_EQ(told(Spin({.setting = 17, .living = 4, .hardware_threads = 2}), true), "16 looks, 0 yields");
}

TEST(Spin, AfterADeathAsInAJobOfTheSurvivors) {
  Spin spin({.living = 5, .hardware_threads = 2});
  for (const std::uint32_t looks : {6u, 6u, 1000u, 1000u}) {
    spin.note_death();
    EXPECT_EQ(spin.looks(), looks);
  }
}

TEST(Processors, AreSharedByThoseThatMayRunOnTheSame) {
  const Processors first = Processors::of({0, 64}), second = Processors::of({1, 65}),
                   all = Processors::of({0, 1, 64, 65});
  EXPECT_TRUE(first.is_shared_with(first) && first.is_shared_with(all) && all.is_shared_with(second));
  EXPECT_FALSE(first.is_shared_with(second) || second.is_shared_with(first));
  EXPECT_EQ(all.count, 4);
  EXPECT_TRUE(first.is_shared_with(Processors{}) && Processors{}.is_shared_with(first));  // unknown
  EXPECT_TRUE(Processors::of({3}).is_shared_with(Processors::of({3 + 256})));
}

TEST(Processors, OfThisProcessAreThoseOfItsAffinity) {
  const Processors before = own_processors();
  ASSERT_GT(before.count, 0);
  cpu_set_t given, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof given, &given), 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &given)) --last;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Processors now = own_processors();
  ASSERT_EQ(sched_setaffinity(0, sizeof given, &given), 0);
  EXPECT_EQ(now.count, 1);
  EXPECT_EQ(now.set, Processors::of({last}).set);
}

TEST(Spin, ADeathChangesNothingThatWasChosen) {
  Spin spin({.setting = 7, .living = 3, .hardware_threads = 2});
  spin.note_death();
  EXPECT_EQ(spin.looks(), 7u);
}

// Calls, and how often one of them was made.
struct Kept {
  LastTwo<char> calls;
  int made = 0;

  void call(char wanted) {
    const bool is_there = calls.find([&](char each) { return each == wanted; });
    if (is_there) return;
    calls.latest() = wanted;
    ++made;
  }
};

TEST(LastTwo, WhoGoesFromOneToAnotherAndBackFindsBoth) {
  Kept kept;
  for (const char each : std::string("abababbaab")) kept.call(each);
  EXPECT_EQ(kept.made, 2);
}

TEST(LastTwo, AThirdTakesThePlaceOfTheOlderOne) {
  Kept kept;
  for (const char each : std::string("abac")) kept.call(each);
  EXPECT_EQ(kept.made, 3);
  kept.call('a');
  EXPECT_EQ(kept.made, 3) << "a was used after b";
  kept.call('b');
  EXPECT_EQ(kept.made, 4);
}

}  // namespace
}  // namespace ucft::detail
