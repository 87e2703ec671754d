// Ranks that die, or stop and are killed for it, while they gossip.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/ucx/gossip/checked_gossip.hpp"
#include "tests/ucx/gossip/gossip_jobs.hpp"

namespace ucft::detail::test {
namespace {

// death ALGORITHM COUNT OPERATIONS: somebody dies meanwhile.
RANKS(death) {
  const int algorithm = algorithm_named(arguments.at(0));
  for (int i = 0; i < std::stoi(arguments.at(2)); ++i) {
    ucft_gossip_options_t options = options_of(algorithm, 1e-8);
    if (i % 2 == 1) options.aggregate = UCFT_GOSSIP_SUM;
    CheckedGossip<double> gossip(options, std::stoul(arguments.at(1)), i);
    gossip.post();
    gossip.finish(true);
  }
}

TEST_P(Gossip, ARankDiesBetweenTwoOfItsSends) {
  for (const std::string& algorithm : algorithms())
    for (int send : {0, 3, 9, 20, 45, 80}) kill(algorithm, 4, send % 4, send, send % 2 == 0 ? "3" : "700");
}

// dying_extrema ALGORITHM: of the survivors, and of none that is missing.
RANKS(dying_extrema) {
  for (int i = 0; i < 6; ++i) {
    ucft_gossip_options_t options = options_of(algorithm_named(arguments.at(0)), 1e-8);
    options.aggregate = i % 2 == 0 ? UCFT_GOSSIP_MAXIMUM : UCFT_GOSSIP_MINIMUM;
    CheckedGossip<double> gossip(options, i < 3 ? 3 : 300, i);
    gossip.post();
    const ucft_gossip_result_t result = gossip.finish(true);
    if (result.answer == UCFT_GOSSIP_NEARLY_ALL_RANKS) wrong("nearly all ranks': it is the survivors'");
  }
}

TEST_P(Gossip, ExtremaAfterADeathAreTheSurvivors) {
  for (const char* algorithm : {"push_sum", "pcf", "hps", "recursive_doubling"})
    for (int send : {0, 2, 11, 40}) {
      const int victim = send % 2 == 0 ? 3 : 0;  // it has the largest, or the smallest
      JobPlan made = plan(4, dying_extrema, {algorithm});
      made.launcher = {"--expect-kill", std::to_string(victim)};
      made.environment["UCFT_TEST_KILL"] = moment(victim, send);
      expect_right(made, {victim});
    }
}

TEST_P(Gossip, OneOfTwoDies) {
  for (const std::string& algorithm : algorithms()) kill(algorithm, 2, 1, 5, "3");
}

// The second one in the same operation, or in a later one, which began without the first.
TEST_P(Gossip, TwoOfSixDie) {
  for (const std::string& algorithm : algorithms())
    for (int send : {30, 500, 800}) {
      JobPlan made = plan(6, death, {algorithm, "5", "4"});
      made.launcher = {"--expect-kill", "2", "--expect-kill", "5"};
      made.environment["UCFT_TEST_KILL"] = moment(2, 12) + "," + moment(5, send);
      expect_right(made, {2, 5});
    }
}

// stopped ALGORITHM: rank 1 stops in the middle; the others kill it when it has been silent for too long, and go on.
RANKS(stopped) {
  const int algorithm = algorithm_named(arguments.at(0));
  for (int i = 0; i < 6; ++i) {
    CheckedGossip<double> gossip(options_of(algorithm, 1e-8), 500, i);
    gossip.post();
    if (rank_ == 1 && i == 3) {
      for (int polls = 0; polls < 20; ++polls) ucft_test(gossip.request);
      std::raise(SIGSTOP);
    }
    gossip.finish(true);
  }
}

TEST_P(Gossip, ARankThatStopsIsKilledAndLeftOut) {
  for (const std::string& algorithm : algorithms()) {
    JobPlan made = plan(3, stopped, {algorithm});
    made.launcher = {"--expect-kill", "1"};
    made.environment["UCFT_SUSPECT_AFTER"] = patience(GetParam());
    expect_right(made, {1});
  }
}

// cut ALGORITHM TOPOLOGY STOP MOST POLLS VICTIM..: after the first operation the victims die, so many polls into the
// next one (or before it, -1). All later ones reach their accuracy all the same, in at most so many stages; those that
// began after the deaths have the answer of the survivors.
RANKS(cut) {
  const int algorithm = algorithm_named(arguments.at(0));
  const bool adaptive = arguments.at(2) == "adaptive";
  const int polls = std::stoi(arguments.at(4));
  const bool dies = std::find(arguments.begin() + 5, arguments.end(), std::to_string(rank_)) != arguments.end();
  const auto victims = static_cast<std::uint32_t>(arguments.size() - 5);
  bool all_known = false;
  for (int i = 0; i < 6; ++i) {
    ucft_gossip_options_t options = options_of(algorithm, 1e-8);
    options.topology = topology_named(arguments.at(1));
    options.stop = adaptive ? UCFT_GOSSIP_ADAPTIVE : UCFT_GOSSIP_ROUNDS;
    if (i % 2 == 1) options.aggregate = UCFT_GOSSIP_SUM;
    if (!adaptive) options.rounds = 1000;
    if (dies && i == 1 && polls < 0) std::raise(SIGKILL);
    CheckedGossip<double> gossip(options, i % 2 == 0 ? 3 : 300, i);
    gossip.post();
    if (dies && i == 1) {
      for (int poll = 0; poll < polls; ++poll) ucft_test(gossip.request);
      std::raise(SIGKILL);
    }
    const ucft_gossip_result_t result = gossip.finish(true);
    if (result.stages > std::stoul(arguments.at(3)))
      wrong("operation {}: {} stages, {} iterations", i, result.stages, result.iterations);
    // The deaths of operation 1 may be noticed after it; the next one is over when everybody alive has taken part in
    // it.
    const std::uint32_t left = static_cast<std::uint32_t>(size_) - victims;
    if (all_known && (result.answer != UCFT_GOSSIP_SURVIVORS || result.contributors != left ||
                      result.live_ranks != static_cast<std::int32_t>(left)))
      wrong("operation {}: answer {}, {} contributors, {} live", i, static_cast<int>(result.answer),
            result.contributors, result.live_ranks);
    all_known = result.live_ranks == static_cast<std::int32_t>(left);
    if (i > 1 && !all_known) wrong("operation {}: {} live", i, result.live_ranks);
  }
}

// What is left of the topology is in parts of different means: left to themselves they repeat their stages (32 times)
// and never agree.
struct Cut {
  const char* topology;
  int ranks;
  std::vector<int> victims;
};
const Cut cuts[] = {{"bus", 6, {2}}, {"tree", 6, {1}}, {"tree", 5, {0}}, {"ring", 6, {1, 3}}};

class AfterACut : public Gossip {
 protected:
  // polls: of a victim, after the second operation has begun; -1: between two operations.
  void expect_survivors_go_on(const Cut& of, const std::string& algorithm, const char* stop, int polls) {
    // Two or three a stage without a death, by chance; and one that a death has made void.
    JobPlan made = plan(of.ranks, cut, {algorithm, of.topology, stop, "10", std::to_string(polls)});
    for (int victim : of.victims) {
      made.arguments.push_back(std::to_string(victim));
      made.launcher.insert(made.launcher.end(), {"--expect-kill", std::to_string(victim)});
    }
    expect_right(made, of.victims);
  }
  // Each algorithm with each cut, and number of polls, over the two paths that gossip takes by default. Over the others
  // each with one of them, in turn.
  void expect_each_goes_on(const char* stop, const std::vector<int>& polls) {
    const bool is_default = GetParam() == std::string("windows") || GetParam() == std::string("two_level");
    std::size_t turn = 0;
    for (const std::string algorithm : asynchronous) {
      for (std::size_t i = 0; i < std::size(cuts) * polls.size(); ++i)
        if (is_default || i == turn % (std::size(cuts) * polls.size()))
          expect_survivors_go_on(cuts[i % std::size(cuts)], algorithm, stop, polls[i / std::size(cuts)]);
      turn += 3;  // all cuts, and both numbers of polls, come
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Over, AfterACut, testing::Values("shm", "windows", "tcp", "hosts", "two_level"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(AfterACut, LaterOperationsGoOnOverTheSurvivors) { expect_each_goes_on("adaptive", {-1}); }

TEST_P(AfterACut, TheOperationThatIsCutGoesOnOverTheSurvivors) { expect_each_goes_on("adaptive", {30, 300}); }

TEST_P(AfterACut, AFixedNumberOfRoundsIsEnoughForTheSurvivors) {
  for (const std::string algorithm : asynchronous) expect_survivors_go_on(cuts[0], algorithm, "rounds", 30);
}

// They have no hypercube, and no torus.
TEST_P(AfterACut, SoManySurvivorsAsHaveNoSuchTopologyTakeAnother) {
  for (const std::string algorithm : {"push_flow", "pcf"}) {
    expect_survivors_go_on({"hypercube", 8, {3}}, algorithm, "adaptive", 30);
    expect_survivors_go_on({"hypercube", 8, {1, 2, 4}}, algorithm, "adaptive", 30);  // which leaves 0 alone
    expect_survivors_go_on({"torus_2d", 6, {2}}, algorithm, "adaptive", 30);
  }
}

// late ALGORITHM TOPOLOGY VICTIM: it dies when it has long had the average of all. What the others go on to is that
// one, which its value is in, and not the survivors'.
RANKS(late) {
  ucft_gossip_options_t options = options_of(algorithm_named(arguments.at(0)), 1e-8);
  options.topology = topology_named(arguments.at(1));
  options.stop = UCFT_GOSSIP_ROUNDS;
  options.rounds = 2000;
  const int victim = std::stoi(arguments.at(2));
  CheckedGossip<double> gossip(options, 3, 0);
  gossip.post();
  // A death before all have agreed that all have come is no death on the way. They agree beside the first barriers.
  for (int i = 0; i < 6; ++i) check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  const double average =
      given((size_ - 1), 0, 0) / 2 + given(0, 0, 0) / 2;  // of element 0: given() grows with the rank by the same
  if (rank_ == victim) {
    std::vector<double> now(3);
    double expected = 0;
    for (int near = 0; near < 50;) {
      if (ucft_test(gossip.request) != UCFT_INPROGRESS) wrong("over before the victim was near");
      check(ucft_gossip_estimate(gossip.request, now.data(), &expected), "estimate");
      near = std::abs(now[0] - average) < 1e-6 ? near + 1 : 0;
    }
    std::raise(SIGKILL);
  }
  const ucft_gossip_result_t result = gossip.finish(true);
  if (result.answer != UCFT_GOSSIP_NEARLY_ALL_RANKS || result.contributors != static_cast<std::uint32_t>(size_) ||
      result.live_ranks != size_ - 1)
    wrong("answer {}, {} contributors, {} live", static_cast<int>(result.answer), result.contributors,
          result.live_ranks);
  const double without = (average * size_ - given(victim, 0, 0)) / (size_ - 1);
  if (!(std::abs(gossip.out[0] - average) < 0.1 * std::abs(without - average)))
    wrong("{} after {} stages: of all it is {}, of the survivors {}", gossip.out[0], result.stages, average, without);
}

// Both parts have it, and take it along to where they are one again.
TEST_P(AfterACut, PushCancelFlowKeepsWhatTheDeadRankHadGiven) {
  for (const char* topology : {"bus", "tree"})
    for (const char* algorithm : {"pcf", "pcf_flip"}) {
      // Of hosts, one that speaks for its own, and whose death cuts them: 0-2-4, and 0 above 2 and 4.
      const bool is_bus = topology == std::string("bus"), by_hosts = GetParam() == std::string("two_level");
      const std::string victim = by_hosts ? (is_bus ? "2" : "0") : (is_bus ? "4" : "1");
      JobPlan made = plan(6, late, {algorithm, topology, victim});
      made.launcher = {"--expect-kill", victim};
      expect_right(made, {std::stoi(victim)});
    }
}

}  // namespace
}  // namespace ucft::detail::test
