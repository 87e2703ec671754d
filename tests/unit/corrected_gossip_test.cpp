// Broadcasts by gossip: the rule of GOSSIP(T), what an operation does with it (OCG, CCG, FCG, and who is passed by),
// and what the model expects. Hoefler et al., "Corrected gossip algorithms".
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "collectives/models/gossip_model.hpp"
#include "collectives/among/phases/gossip_spread.hpp"
#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;

constexpr GossipSetting ten_messages{.time_ns = 1000, .interval_ns = 100, .flight_ns = 250, .ask_after_ns = 5000};

// ---- the rule -------------------------------------------------------------------------------------------------------

GossipSpread started(GossipSpread::Place place = {0, 8}, std::int64_t age_ns = 0, std::uint64_t seed = 1) {
  GossipSpread spread;
  spread.start(ten_messages, place, seed, age_ns);
  return spread;
}

// Times of its messages, with a turn each `every` ns from `from` on.
std::vector<std::int64_t> messages(GossipSpread spread, std::int64_t from, std::int64_t every) {
  std::vector<std::int64_t> times;
  for (std::int64_t now = from; spread.active(); now += every)
    if (spread.turn(now)) times.push_back(now - from);
  return times;
}

TEST(GossipSpread, SendsOneMessageEachIntervalUntilT) {
  const std::vector<std::int64_t> expected{0, 100, 200, 300, 400, 500, 600, 700, 800, 900};
  EXPECT_EQ(messages(started(), 0, 100), expected);
  EXPECT_EQ(messages(started(), 77777, 10), expected)
      << "more turns, at another time of its clock, are no more messages";
}

TEST(GossipSpread, WhoIsLateSendsLessAndNotAllAtOnce) {
  EXPECT_EQ(messages(started(), 0, 350), (std::vector<std::int64_t>{0, 350, 700}));
  GossipSpread spread = started();
  EXPECT_TRUE(spread.turn(0));
  EXPECT_TRUE(spread.turn(640));
  EXPECT_FALSE(spread.turn(700)) << "100 after the last one";
  EXPECT_EQ(spread.due_ns(), 740);
  EXPECT_TRUE(spread.turn(740));
}

TEST(GossipSpread, ATurnIsSkippedWhileMessagesWaitToLeave) {
  GossipSpread spread = started();
  EXPECT_TRUE(spread.turn(0));
  for (std::int64_t now = 100; now < 400; now += 50) EXPECT_FALSE(spread.turn(now, false));
  EXPECT_TRUE(spread.turn(400)) << "as soon as they have left";
  EXPECT_FALSE(spread.turn(450)) << "one message, not those that were skipped";
  EXPECT_TRUE(spread.active());
  EXPECT_FALSE(spread.turn(1000, false));
  EXPECT_FALSE(spread.active()) << "T is over all the same";
}

TEST(GossipSpread, TIsCountedFromTheRootsStartByTheAgeThatCameAlong) {
  EXPECT_EQ(messages(started({3, 8}, 700), 0, 100).size(), 3u);
  GossipSpread spread = started({3, 8}, 700);
  spread.turn(5000);
  EXPECT_EQ(spread.age_ns(), 700);
  spread.turn(5200);
  EXPECT_EQ(spread.age_ns(), 900) << "this is what its next message says";
  EXPECT_FALSE(started({3, 8}, 1000).turn(0));
  EXPECT_EQ(messages(started({3, 8}, 4000), 0, 100).size(), 0u) << "it came after T: correction begins";
}

TEST(GossipSpread, NoMessageIsDueAfterT) {
  GossipSpread spread = started();
  spread.turn(0);
  spread.turn(950);
  EXPECT_EQ(spread.due_ns(), 1000) << "T comes first: a turn is wanted there, for the correction";
  EXPECT_FALSE(spread.turn(1000));
  EXPECT_FALSE(spread.active());
}

TEST(GossipSpread, WithoutATimeEachTurnIsOneMessage) {
  GossipSpread spread = started();
  int count = 0;
  for (; spread.active(); ++count) spread.turn(-1);
  EXPECT_EQ(count, 10 + 1);
}

TEST(GossipSpread, AloneThereIsNobodyToSendTo) {
  GossipSpread spread = started({0, 1});
  EXPECT_FALSE(spread.turn(0));
  EXPECT_FALSE(spread.active());
}

// chi-square with 6 degrees of freedom: 22.5 is exceeded with a probability of 0.001, once for these seeds.
TEST(GossipSpread, PartnersAreUniformAmongTheOthers) {
  std::map<std::int32_t, int> count;
  constexpr int seeds = 7000;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) ++count[*started({2, 8}, 0, seed).turn(0)];
  EXPECT_EQ(count.count(2), 0u) << "itself";
  double chi_square = 0;
  for (std::int32_t process : {0, 1, 3, 4, 5, 6, 7}) chi_square += std::pow(count[process] - seeds / 7.0, 2);
  EXPECT_LT(chi_square / (seeds / 7.0), 22.5);
}

TEST(GossipSpread, ChoicesAreAFunctionOfSeedAndProcess) {
  const auto choices = [](GossipSpread spread) {
    std::vector<std::int32_t> all;
    while (spread.active())
      if (const auto process = spread.turn(-1)) all.push_back(*process);
    return all;
  };
  EXPECT_EQ(choices(started({2, 100})), choices(started({2, 100})));
  EXPECT_NE(choices(started({2, 100})), choices(started({3, 100})));
  EXPECT_NE(choices(started({2, 100})), choices(started({2, 100}, 0, 2)));
}

// ---- operations -----------------------------------------------------------------------------------------------------

Arguments gossip_broadcast(Correction correction, Rank root = 0) {
  Arguments arguments = sum_of_words(1, root, Kind::broadcast);
  arguments.correction = correction;
  arguments.gossip = ten_messages;
  return arguments;
}

Letter told(const Arguments& arguments, Phase phase, Rank from, Rank ballot, std::uint8_t flags = 0,
            std::int32_t age_ns = 0) {
  Letter letter;
  letter.from = from;
  letter.value = word(7);
  letter.message.phase = phase;
  letter.message.attempt = letter.message.first_decided = ballot;
  letter.message.signature = arguments.signature();
  letter.message.contributors = 1;
  letter.message.flags = static_cast<std::uint8_t>(has_value | flags);
  letter.message.age_ns = age_ns;
  return letter;
}

// All that a rank sends with a turn each `every` ns up to and with `end`.
std::vector<Letter> turns(HandFedRank& rank, std::int64_t from, std::int64_t end, std::int64_t every = 100) {
  for (std::int64_t now = from; now <= end; now += every)
    if (rank.window.wants_turn()) rank.take_turn(now);
  return rank.sent();
}

TEST(CorrectedGossip, TheRootGossipsUntilTAndThenCorrects) {
  HandFedRank root(0, 8);
  root.post(gossip_broadcast(Correction::opportunistic), word(7));
  EXPECT_TRUE(root.sent().empty()) << "one message a turn";
  const std::vector<Letter> sent = turns(root, 0, 2000);
  ASSERT_EQ(sent.size(), 10u + 2u);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(sent[i].message.phase, Phase::broadcast);
    EXPECT_TRUE(sent[i].message.has(by_gossip));
    EXPECT_EQ(sent[i].message.age_ns, 100 * static_cast<std::int32_t>(i));
  }
  EXPECT_EQ(sent[10].message.phase, Phase::correction);
  EXPECT_EQ(sent[10].to, 1);
  EXPECT_EQ(sent[11].to, 7);
  EXPECT_FALSE(root.window.wants_turn());
}

TEST(CorrectedGossip, WhoIsReachedGossipsForTheRestOfTheTime) {
  const Arguments arguments = gossip_broadcast(Correction::none);
  HandFedRank rank(3, 8);
  rank.post(arguments);
  rank.feed(told(arguments, Phase::broadcast, 5, 0, by_gossip, 450));
  EXPECT_EQ(word_of(rank.ended(0).value), 7u);
  const std::vector<Letter> sent = turns(rank, 60000, 62000);
  ASSERT_EQ(sent.size(), 3u) << "450 and a flight of 250 have passed";
  EXPECT_EQ(sent[0].message.age_ns, 700);
  rank.feed(told(arguments, Phase::broadcast, 6, 0, by_gossip, 100));
  EXPECT_FALSE(rank.window.wants_turn()) << "once for each ballot";
}

// Whoever correction has reached is part of a gap: CCG, FCG measure it; of OCG there is nobody below it.
TEST(CorrectedGossip, WhoIsReachedByCorrectionStaysSilent) {
  for (Correction correction : {Correction::opportunistic, Correction::opportunistic_optimised, Correction::checked,
                                Correction::failure_proof}) {
    const Arguments arguments = gossip_broadcast(correction);
    HandFedRank rank(3, 8);
    rank.post(arguments);
    rank.feed(told(arguments, Phase::correction, 2, 0, moves_right));
    EXPECT_EQ(word_of(rank.ended(0).value), 7u);
    EXPECT_TRUE(turns(rank, 0, 3000).empty());
  }
}

TEST(CorrectedGossip, CheckedEndsWhereAGossipColouredRankWasHeardOnEachSide) {
  const Arguments arguments = gossip_broadcast(Correction::checked);
  HandFedRank rank(4, 16);
  rank.post(arguments);
  rank.feed(told(arguments, Phase::broadcast, 0, 0, by_gossip, 5000));
  rank.feed(told(arguments, Phase::correction, 2, 0, moves_right));  // from the left, 2 away
  rank.feed(told(arguments, Phase::correction, 7, 0));               // from the right, 3 away
  std::set<Rank> targets;
  for (const Letter& letter : turns(rank, 0, 3000)) targets.insert(letter.to);
  EXPECT_EQ(targets, (std::set<Rank>{2, 3, 5, 6, 7}));
}

TEST(CorrectedGossip, OfAFailureProofOneWhoeverWasReachedByADeadRankAlonePanics) {
  const Arguments arguments = gossip_broadcast(Correction::failure_proof);
  HandFedRank rank(3, 6);
  rank.post(arguments);
  rank.feed(told(arguments, Phase::correction, 2, 0, moves_right));
  rank.hear_of_death(2);
  std::set<Rank> targets;
  for (const Letter& letter : turns(rank, 0, 3000)) {
    EXPECT_TRUE(letter.message.has(panics));
    targets.insert(letter.to);
  }
  EXPECT_EQ(targets, (std::set<Rank>{0, 1, 4, 5}));
}

// Time tells, too: of one that died before it let me go, and of whom nobody says that it is dead.
TEST(CorrectedGossip, OfAFailureProofOneWhoeverIsNotLetGoInTimePanics) {
  Arguments arguments = gossip_broadcast(Correction::failure_proof);
  arguments.gossip.panic_after_ns = 5000;
  HandFedRank rank(3, 6);
  rank.post(arguments);
  rank.feed(told(arguments, Phase::correction, 2, 0, moves_right));
  EXPECT_EQ(word_of(rank.ended(0).value), 7u);
  EXPECT_TRUE(turns(rank, 1000, 5900).empty());
  EXPECT_EQ(rank.window.operation(0).turn_due_ns(), 6000) << "since its first turn";
  std::set<Rank> targets;
  for (const Letter& letter : turns(rank, 6000, 8000)) {
    EXPECT_TRUE(letter.message.has(panics));
    targets.insert(letter.to);
  }
  EXPECT_EQ(targets, (std::set<Rank>{0, 1, 2, 4, 5}));
  EXPECT_FALSE(rank.window.wants_turn()) << "once";
}

TEST(CorrectedGossip, OfAFailureProofOneWhoeverIsLetGoInTimeStaysSilent) {
  Arguments arguments = gossip_broadcast(Correction::failure_proof);
  arguments.gossip.panic_after_ns = 5000;
  HandFedRank rank(3, 6);
  rank.post(arguments);
  rank.feed(told(arguments, Phase::correction, 2, 0, moves_right));
  EXPECT_TRUE(turns(rank, 1000, 3000).empty());
  rank.feed(told(arguments, Phase::correction, 2, 0, moves_right | lets_go));
  EXPECT_FALSE(rank.window.wants_turn());
  EXPECT_TRUE(turns(rank, 3000, 9000).empty());
}

TEST(CorrectedGossip, PanicBreaksGossipOff) {
  const Arguments arguments = gossip_broadcast(Correction::failure_proof);
  HandFedRank rank(3, 6);
  rank.post(arguments);
  rank.feed(told(arguments, Phase::broadcast, 2, 0, by_gossip, 0));
  rank.feed(told(arguments, Phase::correction, 2, 0, panics));
  const std::vector<Letter> sent = turns(rank, 0, 400);
  ASSERT_EQ(sent.size(), 5u);
  for (const Letter& letter : sent) EXPECT_TRUE(letter.message.has(panics));
}

TEST(CorrectedGossip, NobodySendsToARankThatIsKnownToBeDead) {
  const Arguments arguments = gossip_broadcast(Correction::none);
  HandFedRank root(0, 2);
  root.post(arguments, word(7));
  root.hear_of_death(1);
  EXPECT_TRUE(turns(root, 0, 2000).empty());
}

// ---- who is passed by -----------------------------------------------------------------------------------------------

TEST(PassedBy, AsksTheRootOnceItHasWaited) {
  const Arguments arguments = gossip_broadcast(Correction::opportunistic);
  HandFedRank rank(3, 8);
  rank.post(arguments);
  EXPECT_TRUE(turns(rank, 1000000, 1000000 + 4900).empty()) << "5000 from its first turn on";
  const std::vector<Letter> sent = turns(rank, 1000000 + 5000, 1000000 + 9000);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.phase, Phase::ask);
  EXPECT_EQ(sent[0].to, 0);
  EXPECT_FALSE(rank.window.wants_turn());
  rank.feed(told(arguments, Phase::decided, 0, 0));
  EXPECT_EQ(word_of(rank.ended(0).value), 7u);
}

TEST(PassedBy, NobodyAsksWhoHasTheValueOrIsRoot) {
  const Arguments arguments = gossip_broadcast(Correction::none);
  HandFedRank rank(3, 8), root(0, 8);
  rank.post(arguments);
  rank.feed(told(arguments, Phase::correction, 2, 0));
  EXPECT_TRUE(turns(rank, 0, 20000).empty());
  root.post(arguments, word(7));
  turns(root, 0, 2000);
  EXPECT_FALSE(root.window.wants_turn());
}

// A death says nothing about who was passed by: else all would ask after each.
TEST(PassedBy, ADeathAloneIsNoReasonToAsk) {
  HandFedRank rank(3, 8);
  rank.post(gossip_broadcast(Correction::checked));
  rank.hear_of_death(1);
  EXPECT_TRUE(rank.sent().empty());
}

TEST(PassedBy, IsAnsweredWhenTheRootHasTheData) {
  const Arguments arguments = gossip_broadcast(Correction::none, 2);
  HandFedRank root(2, 8);
  Letter question;
  question.from = 5;
  question.message.phase = Phase::ask;
  question.message.attempt = 2;
  question.message.signature = arguments.signature();
  root.feed(question);  // before it has posted
  root.post(arguments, word(9));
  const std::vector<Letter> answers = root.sent(Phase::decided);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].to, 5);
  EXPECT_EQ(word_of(answers[0].value), 9u);
}

TEST(PassedBy, AsksAgainInTheNextBallot) {
  HandFedRank rank(3, 8);
  rank.post(gossip_broadcast(Correction::checked));
  turns(rank, 0, 6000);
  rank.hear_of_death(0);
  rank.sent();
  EXPECT_TRUE(turns(rank, 7000, 11000).empty());
  const std::vector<Letter> sent = turns(rank, 12000, 14000);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.phase, Phase::ask);
  EXPECT_EQ(sent[0].to, 1);
  EXPECT_EQ(sent[0].message.attempt, 1);
}

TEST(PassedBy, NobodyWaitsToAskIfThatIsSwitchedOff) {
  Arguments arguments = gossip_broadcast(Correction::none);
  arguments.gossip.ask_after_ns = never_asks;
  HandFedRank rank(3, 8);
  rank.post(arguments);
  EXPECT_FALSE(rank.window.wants_turn());
}

// ---- memory, ballots ------------------------------------------------------------------------------------------------

TEST(CorrectedGossip, ARankThatIsLateKeepsOneOfTheMessagesThatCame) {
  const Arguments arguments = gossip_broadcast(Correction::none);
  HandFedRank rank(3, 8);
  for (Rank from : {1, 2, 5}) rank.feed(told(arguments, Phase::broadcast, from, 0, by_gossip, 100));
  EXPECT_EQ(rank.window.operation(0).stored(), 1u);
  rank.feed(told(arguments, Phase::broadcast, 5, 1, by_gossip, 100));
  EXPECT_EQ(rank.window.operation(0).stored(), 2u) << "of another ballot";
  rank.post(arguments);
  EXPECT_EQ(word_of(rank.ended(0).value), 7u);
}

TEST(CorrectedGossip, AnEarlierBallotDoesNotTakeALaterOnesPlace) {
  const Arguments arguments = gossip_broadcast(Correction::checked);
  HandFedRank rank(3, 8);
  rank.post(arguments);
  rank.feed(told(arguments, Phase::broadcast, 5, 1, by_gossip, 0));  // root 0 is dead, which this rank has not heard
  rank.feed(told(arguments, Phase::broadcast, 5, 0, by_gossip, 0));
  for (const Letter& letter : turns(rank, 0, 5000)) EXPECT_EQ(letter.message.attempt, 1);
}

TEST(CorrectedGossip, TIsPartOfTheSignature) {
  Arguments a = gossip_broadcast(Correction::checked), b = a, tree = a;
  b.gossip.time_ns += 1;
  tree.gossip = {};
  EXPECT_NE(a.signature(), b.signature());
  EXPECT_NE(a.signature(), tree.signature());
}

// ---- the model ------------------------------------------------------------------------------------------------------

// Counted by hand: L = 2, o = g = 1, so D = 4; three processes. The root sends at 0, 1, 2 ..; nobody else before 4.
TEST(GossipModel, CountsWhatIsInFlightAtT) {
  GossipCase three;
  three.size = 3;
  EXPECT_NEAR(forecast_gossip(three, 1).reached, 2.0 / 3, 1e-12) << "one message";
  EXPECT_NEAR(forecast_gossip(three, 2).reached, (2 + 0.5) / 3, 1e-12) << "two, to the same one or not";
  EXPECT_NEAR(forecast_gossip(three, 3).reached, (2 + 0.75) / 3, 1e-12);
  // In a large world nobody is hit twice: at 0..3 the root sends, then 2, 3, 4, 5 do: 1 + 4 + 2 + 3 ..
  GossipCase many;
  many.size = 1 << 24;
  EXPECT_NEAR(forecast_gossip(many, 4).reached * many.size, 5, 1e-3);
  EXPECT_NEAR(forecast_gossip(many, 6).reached * many.size, 5 + 2 + 3, 1e-3);
}

TEST(GossipModel, RunsAreThoseOfIndependentMisses) {
  GossipCase given;
  given.size = 1024;
  const GossipForecast forecast = forecast_gossip(given, 24);
  const double q = 1 - forecast.reached, starts = given.size * forecast.reached;
  EXPECT_LE(starts * std::pow(q, forecast.distance + 1), gossip_risk * 1.0001);
  EXPECT_GT(starts * std::pow(q, forecast.distance), gossip_risk);
  double expected = 0;
  for (int k = 1; k < 200; ++k) expected += 1 - std::exp(-starts * std::pow(q, k));
  EXPECT_NEAR(forecast.longest_gap, expected, 1e-6);
}

TEST(GossipModel, TheBestTIsNoWorseThanAnyOther) {
  for (Correction correction :
       {Correction::opportunistic, Correction::checked, Correction::opportunistic_optimised, Correction::failure_proof})
    for (std::int32_t size : {1, 2, 3, 8, 100, 5000}) {
      GossipCase given;
      given.size = size;
      given.correction = correction;
      const GossipForecast best = best_gossip(given);
      EXPECT_GT(best.time, 0);
      for (double time = 1; time < 60; time += 1)
        EXPECT_LE(best.end, forecast_gossip(given, time).end + 1e-9) << size << " T " << time;
    }
}

TEST(GossipModel, WithoutCorrectionGossipAloneReachesAllWithinTheRisk) {
  GossipCase given;
  given.size = 1000;
  given.correction = Correction::none;
  const GossipForecast best = best_gossip(given);
  EXPECT_LE((1 - best.reached) * given.size, 2 * gossip_risk);
  EXPECT_GT((1 - forecast_gossip(given, best.time - 3).reached) * given.size, gossip_risk);
}

TEST(GossipModel, ADistanceThatIsGivenIsEnoughAtTheBestT) {
  GossipCase given;
  given.size = 1000;
  given.correction = Correction::opportunistic;
  for (std::int32_t distance : {1, 2, 4, 8}) {
    given.distance = distance;
    EXPECT_LE(best_gossip(given).distance, distance);
  }
}

// A second in intervals of 0.1 us, and messages that cost nothing: bounded work, and no division by zero.
TEST(GossipModel, ATimeOrCostsBeyondReasonAreNoMoreWork) {
  GossipCase given;
  given.size = 1000;
  given.costs = shared_memory_costs;
  EXPECT_NEAR(forecast_gossip(given, 1e6).reached, 1, 1e-12);
  given.costs = {1, 0, 0, 0, 0, false};
  const GossipForecast best = best_gossip(given);
  EXPECT_TRUE(best.time > 0 && std::isfinite(best.end));
  EXPECT_TRUE(std::isfinite(forecast_gossip(given, 1e6).end));
  given.costs = {0, 0, 0, 0, 0, false};
  EXPECT_TRUE(std::isfinite(best_gossip(given).end));
}

// Two processes: either sends one message, and one correction comes back.
TEST(SpreadForecasts, AmongTwoTreeAndGossipAreTheSame) {
  const LogGP costs = network_costs;
  const SpreadForecast forecast = forecast_spread({.size = 2, .costs = costs}, best_shape(costs, 8));
  EXPECT_NEAR(forecast.tree_end, 2 * (costs.delivery() + costs.stretch(8)), 1e-9);
  EXPECT_NEAR(forecast.gossip_end, forecast.tree_end, 1e-9);
  EXPECT_FALSE(forecast.gossip_is_faster());
  EXPECT_FALSE(forecast_spread({.size = 1, .costs = costs}, best_shape(costs, 8)).gossip_is_faster());
}

// A tree of three: the root, two children. Each corrects to both others, as it can't hear them before.
TEST(SpreadForecasts, AmongThreeACorrectionEndsAfterTwoMessages) {
  const LogGP costs{10, 1, 1, 1, 0, false};
  const double informed = costs.delivery() + 1, last_sent = informed + 1;  // the second child; its second message
  EXPECT_NEAR(forecast_spread({.size = 3, .costs = costs}, best_shape(costs, 8)).tree_end, last_sent + costs.delivery(),
              1e-9);
}

// A neighbour's correction is there after a flight, and its own after another one; 64 messages would take 64.
TEST(SpreadForecasts, AmongManyACorrectionEndsWhereNeighboursAreHeard) {
  const LogGP costs;
  Arguments broadcast = sum_of_words(1, 0, Kind::broadcast);
  broadcast.shape = best_shape(costs, 8);
  const double end = forecast_spread({.size = 64, .costs = costs}, broadcast.shape).tree_end;
  EXPECT_LT(end, predict_latency(broadcast, 64, costs, 8) + 4 * costs.delivery());
}

// Messages that cost nothing are no endless loop.
TEST(SpreadForecasts, EndWhereMessagesAreFree) {
  const LogGP costs{1, 0, 0, 0, 0, false};
  EXPECT_TRUE(std::isfinite(forecast_spread({.size = 16, .costs = costs}, best_shape(costs, 8)).gossip_end));
}

TEST(GossipModel, AnOperationGetsWholeNanoseconds) {
  Arguments arguments = sum_of_words(1, 0, Kind::broadcast);
  arguments.correction = Correction::opportunistic;
  arguments.correction_distance = 0;
  set_gossip(network_costs, 8, 64, 0, arguments);
  EXPECT_TRUE(arguments.by_gossip());
  EXPECT_EQ(arguments.gossip.interval_ns, 301) << "o, and 7 bytes at 0.1 ns";
  EXPECT_EQ(arguments.gossip.flight_ns, 1601);
  EXPECT_GE(arguments.correction_distance, 2);
  set_gossip(network_costs, 8, 64, 12345, arguments);
  EXPECT_EQ(arguments.gossip.time_ns, 12345);
  EXPECT_EQ(arguments.gossip.panic_after_ns, never_asks) << "only failure-proof correction panics";
  arguments.correction = Correction::failure_proof;
  set_gossip(network_costs, 8, 64, 0, arguments);
  const GossipForecast forecast = best_gossip({64, network_costs, 8, Correction::failure_proof, 0, arguments.f});
  EXPECT_EQ(arguments.gossip.panic_after_ns, std::llround(2000 * forecast.end));
}

}  // namespace
}  // namespace ucft::detail
