// KnownEpochs, Sponsor and RenewalVote, the objects that decide in a real job which newcomers join it. Small worlds go
// through every order of events, larger ones through random orders. RenewalWorld says what must hold. A failure prints
// the plan, the seed and the shortest way that was found. Larger worlds: ucft_sim explore-renewals.
#include <gtest/gtest.h>

#include <vector>

#include "simulator/renewal_world.hpp"

namespace ucft::detail::simulator {
namespace {

#ifdef UCFT_SMALL
constexpr bool is_small = true;
constexpr std::int64_t most_states = 60000, walks = 2;
constexpr std::uint64_t random_plans = 200;
#else
constexpr bool is_small = false;
constexpr std::int64_t most_states = 1000000, walks = 20;
constexpr std::uint64_t random_plans = 2000;
#endif

RenewalExploration all_orders_of(const RenewalPlan& plan) {
  RenewalExploration result = explore_renewals(plan, most_states);
  EXPECT_GT(result.ends, 0);
  EXPECT_EQ(result.violations, 0) << result.first_violation;
  if (is_small && !result.complete) return result;
  EXPECT_TRUE(result.complete);
  EXPECT_GT(result.joined, 0);
  return result;
}

// ---- one survivor or two, and an empty seat ----

TEST(EveryRenewal, WithoutADeathANewcomerJoins) {
  const RenewalExploration result = all_orders_of({.absent = {2}, .deaths = 0, .has_limit = false});
  EXPECT_EQ(result.joined, result.ends);
  EXPECT_EQ(result.cut, 0);
}

TEST(EveryRenewal, OfTwoSurvivorsAndANewcomerOneDies) { all_orders_of({.absent = {2}, .starts = 1}); }

TEST(EveryRenewal, TheRanksWithoutATimeLimitGoOnAfterADeath) {
  all_orders_of({.absent = {2}, .has_limit = false, .starts = 2});
}

TEST(EveryRenewal, AnyTwoDie) { all_orders_of({.absent = {2}, .deaths = 2, .has_limit = false, .starts = 1}); }

TEST(EveryRenewal, ASeatIsFilledThatWasNotEmptyBefore) {
  for (const int newcomers : {1, 2})
    for (const bool has_limit : {false, true})
      all_orders_of({.seats = 2, .newcomers = newcomers, .has_limit = has_limit, .starts = 2});
}

TEST(EveryRenewal, ANewcomerBecomesTheSponsor) { all_orders_of({.absent = {0}, .starts = 1}); }

TEST(EveryRenewal, IsFollowedByAnother) {
  all_orders_of({.absent = {2}, .renewals = 2, .starts = 1});
  all_orders_of({.seats = 2, .newcomers = 2, .renewals = 2, .has_limit = false, .starts = 2});
}

TEST(EveryRenewal, RanksThatHaveRenewedLeave) { all_orders_of({.absent = {2}, .leaves = true, .starts = 1}); }

// An epoch of one newcomer is there, and voted for, while another one begins for both.
TEST(EveryRenewal, ASecondEpochStartsWhileTheFirstIsVotedOn) {
  all_orders_of({.absent = {1, 2}, .newcomers = 2, .deaths = 0, .starts = 2});
  all_orders_of({.absent = {1, 2}, .newcomers = 2, .starts = 1});
}

TEST(EveryRenewal, OfThreeSurvivorsOneDies) {
  all_orders_of({.seats = 4, .absent = {3}, .wanted = 1, .has_limit = false, .starts = 1});
}

// A vote fails on all; each returns an error.
TEST(EveryRenewal, MoreThanFDie) {
  all_orders_of({.absent = {2}, .deaths = 2, .f = 0, .has_limit = false, .starts = 1});
}

TEST(RandomRenewals, OfUpToFiveSeatsAndThreeDeaths) {
  std::int64_t joined = 0;
  for (std::uint64_t seed = 1; seed <= random_plans; ++seed) {
    const RenewalExploration result = walk_renewals(random_renewal_plan(seed), walks, 1000 * seed);
    ASSERT_EQ(result.violations, 0) << "plan " << seed << ": " << result.first_violation;
    ASSERT_EQ(result.ends, walks) << "plan " << seed << ": a walk does not end";
    joined += result.joined;
  }
  EXPECT_GT(joined, 0);
}

// ---- by hand ----

constexpr auto is_whole = [](const CandidateEpoch&) { return false; };

EpochOffer offer_of(std::uint64_t start, std::uint32_t base, bool is_mine = false) {
  return {start, base, 0, {Seat::survivor, Seat::newcomer}, is_mine};
}

// Found by the explorer: between the vote's result and the entering it was no candidate, and not adopted. The sponsor
// took the start for one that had failed, and began another one with the same newcomers.
TEST(KnownEpochs, AnEpochCountsFromTheVoteOn) {
  KnownEpochs known = KnownEpochs::of_member(1);
  ASSERT_EQ(known.on_invited(offer_of(7, 1)), KnownEpochs::Invited::begins);
  ASSERT_TRUE(known.on_start_over(2).is_kept);
  EXPECT_EQ(known.state_of(7, is_whole), EpochState::ready);
  ASSERT_EQ(known.choose(-1, 2, is_whole), 2u);
  const auto adopted = known.adopt(2);
  ASSERT_TRUE(adopted);
  EXPECT_EQ(known.state_of(7, is_whole), EpochState::adopted);
  EXPECT_TRUE(known.enter(adopted->start, adopted->epoch).empty());
  EXPECT_EQ(known.state_of(7, is_whole), EpochState::adopted);
  EXPECT_EQ(known.current(), 2u);
}

TEST(KnownEpochs, TheOneThatWasVotedForStaysWhenAnotherHasStarted) {
  KnownEpochs known = KnownEpochs::of_member(1);
  known.on_invited(offer_of(7, 1));
  known.on_start_over(2);
  ASSERT_EQ(known.choose(-1, 2, is_whole), 2u);
  known.on_invited(offer_of(8, 1));
  EXPECT_TRUE(known.on_start_over(3).left.empty());
  EXPECT_EQ(known.after_vote(), KnownEpochs::Starts{7});
  EXPECT_EQ(known.choose(-1, 2, is_whole), 3u);
}

TEST(KnownEpochs, AnEpochWithNewSeatsIsChosenIfSoManyAreAskedFor) {
  KnownEpochs known = KnownEpochs::of_member(1);
  EpochOffer grown = offer_of(7, 1);
  grown.seats.push_back(Seat::newcomer);
  known.on_invited(grown);
  known.on_start_over(2);
  EXPECT_EQ(known.choose(1, 2, is_whole), 0u);   // they ask for two ranks, and it has three
  EXPECT_EQ(known.choose(-1, 4, is_whole), 0u);  // one more may come
  EXPECT_EQ(known.choose(3, 4, is_whole), 0u);   // it has two newcomers
  EXPECT_EQ(known.choose(2, 4, is_whole), 2u);
  EXPECT_EQ(known.choose(-1, 3, is_whole), 2u);
}

TEST(KnownEpochs, ARankBehindTheLastOfTheBaseIsInNeitherOrANewcomer) {
  EXPECT_FALSE(is_broken({2}, {false, false}, {false, false, false}));
  EXPECT_TRUE(is_broken({2}, {false, false}, {false, false, true}));
  EXPECT_TRUE(is_broken({}, {false, false}, {false, false, false}));
}

// Found by the explorer: a sponsor gives a start up, for a death or for more newcomers, and the survivors agree on its
// epoch all the same. Its newcomers were given other seats, of the next epoch.
TEST(Sponsors, NewcomersOfAStartThatWasGivenUpMayHaveTheirSeats) {
  const EpochMembers members{0, {true, false, false}, {"a", "a", "a"}};
  EpochState first = EpochState::ready, second = EpochState::starting;
  const auto state_of = [&](std::uint64_t start) { return start == 1 ? first : second; };
  Sponsor sponsor;
  sponsor.accept(10, {}, {});
  Sponsor::Step step = sponsor.look(members, state_of);
  ASSERT_EQ(step.kind, Sponsor::Step::Kind::begin);
  sponsor.begun(1, step);
  sponsor.accept(11, {}, {});
  EXPECT_EQ(sponsor.look(members, state_of).kind, Sponsor::Step::Kind::give_up);  // for both of them
  step = sponsor.look(members, state_of);
  ASSERT_EQ(step.kind, Sponsor::Step::Kind::begin);
  sponsor.begun(2, step);
  first = EpochState::adopted;
  step = sponsor.look(members, state_of);
  EXPECT_EQ(step.kind, Sponsor::Step::Kind::seated);
  EXPECT_EQ(step.newcomers, std::vector<Sponsor::Connection>{10});
  EXPECT_EQ(sponsor.waiting(), 1);
}

// Found by the explorer: survivors that wait for a newcomer in each seat waited forever, with newcomers at the door.
TEST(Sponsors, ADeathAfterAStartMakesRoomForAnotherNewcomer) {
  EpochMembers members{0, {true, true, false}, {"a", "a", "a"}};
  const auto state_of = [](std::uint64_t) { return EpochState::ready; };
  Sponsor sponsor;
  sponsor.accept(10, {}, {});
  sponsor.begun(1, sponsor.look(members, state_of));
  sponsor.accept(11, {}, {});
  EXPECT_EQ(sponsor.look(members, state_of).kind, Sponsor::Step::Kind::nothing);
  members.lives[1] = false;
  EXPECT_EQ(sponsor.look(members, state_of).kind, Sponsor::Step::Kind::give_up);
  EXPECT_EQ(sponsor.look(members, state_of).seat_of, (std::map<int, std::int32_t>{{10, 1}, {11, 2}}));
}

TEST(Sponsors, AStartHasNewSeatsIfTheyAreAskedForAndAsLongAsTheyAre) {
  EpochMembers members{0, {true, true}, {"a", "a"}};
  const auto state_of = [](std::uint64_t) { return EpochState::ready; };
  Sponsor sponsor;
  sponsor.accept(10, {}, {});
  sponsor.accept(11, {}, {});
  EXPECT_EQ(sponsor.look(members, state_of).kind, Sponsor::Step::Kind::nothing);
  members.most_seats = 3;
  const Sponsor::Step step = sponsor.look(members, state_of);
  EXPECT_EQ(step.seats, (std::vector<Seat>{Seat::survivor, Seat::survivor, Seat::newcomer}));
  EXPECT_EQ(step.seat_of, (std::map<int, std::int32_t>{{10, 2}}));
  sponsor.begun(1, step);
  EXPECT_EQ(sponsor.look(members, state_of).kind, Sponsor::Step::Kind::nothing);
  members.most_seats = 4;
  EXPECT_EQ(sponsor.look(members, state_of).kind, Sponsor::Step::Kind::give_up);  // for both of them
  sponsor.begun(2, sponsor.look(members, state_of));
  members.most_seats = 3;
  EXPECT_EQ(sponsor.look(members, state_of).kind, Sponsor::Step::Kind::give_up);
}

// A newcomer whose sponsor died may be in an epoch that counts, and not know it yet.
TEST(Sponsors, ANewcomerOfAnotherSponsorMayHaveItsSeat) {
  const EpochMembers members{1, {false, true, true}, {"a", "a", "a"}};
  Sponsor sponsor;
  sponsor.accept(10, {}, {7});
  const auto state_of = [](std::uint64_t start) { return start == 7 ? EpochState::adopted : EpochState::none; };
  EXPECT_EQ(sponsor.look(members, state_of).kind, Sponsor::Step::Kind::seated);
  EXPECT_EQ(sponsor.look(members, state_of).kind, Sponsor::Step::Kind::nothing);
}

TEST(RenewalVotes, AllMustNameTheSameEpoch) {
  using Outcome = RenewalVote::Outcome;
  EXPECT_EQ(RenewalVote::of(5, false, 1).outcome(), Outcome::adopt);
  EXPECT_EQ(RenewalVote::of(0, true, 1).outcome(), Outcome::same_seats);
  EXPECT_EQ((RenewalVote{5, 0, 0, 1}.outcome()), Outcome::again);   // one has none
  EXPECT_EQ((RenewalVote{5, -4, 0, 1}.outcome()), Outcome::again);  // one has 4
  EXPECT_EQ((RenewalVote{5, -4, 1, 1}.outcome()), Outcome::same_seats);
  EXPECT_EQ((RenewalVote{5, -5, 1, 1}.outcome()), Outcome::adopt);
}

TEST(RenewalVotes, ANewcomerIsAdmittedIfASurvivorWasInItsBarrier) {
  EXPECT_TRUE(was_admitted({1, 2}, 3, true, {}));
  EXPECT_FALSE(was_admitted({1, 2}, 2, true, {0}));
  EXPECT_TRUE(was_admitted({1, 2}, 2, true, {1}));
  EXPECT_FALSE(was_admitted({1, 2}, 1, true, {0, 1}));
  EXPECT_FALSE(was_admitted({1, 2}, 2, false, {}));  // too many are missing to name them
  EXPECT_TRUE(was_admitted({1, 2}, 3, false, {}));
}

}  // namespace
}  // namespace ucft::detail::simulator
