// The optimum of ucft_sim optimise against all reaches of small machines, each measured. Casas et al. 2018, section
// 5.2.
#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/hop_optimiser.hpp"

namespace ucft::detail::simulator {
namespace {

HopQuestion question_of(GossipTopology machine, Rank ranks, double eps) {
  HopQuestion question;
  question.machine = {.topology = machine, .ranks = ranks};
  question.eps = eps;
  question.runs = 5;
  return question;
}

// Every reach, to its end.
double least_cost(const HopQuestion& question) {
  double least = 0;
  for (int reach = 1; reach <= diameter_of(question.machine); ++reach) {
    Neighbourhood where = question.machine;
    where.reach = reach;
    const HopCandidate candidate = measure(question, where, 0);
    EXPECT_TRUE(candidate.reached);
    if (reach == 1 || candidate.cost < least) least = candidate.cost;
  }
  return least;
}

TEST(HopOptimiser, FindsTheOptimumThatAllReachesHave) {
  for (const auto& [machine, ranks] :
       {std::pair{GossipTopology::ring, 16}, std::pair{GossipTopology::ring, 40}, std::pair{GossipTopology::bus, 17},
        std::pair{GossipTopology::torus_2d, 36}, std::pair{GossipTopology::torus_2d, 144},
        std::pair{GossipTopology::torus_3d, 64}, std::pair{GossipTopology::hypercube, 32},
        std::pair{GossipTopology::tree, 31}})
    for (double eps : {1e-1, 1e-3, 1e-6}) {
      const HopQuestion question = question_of(machine, ranks, eps);
      const HopAnswer answer = optimise(question);
      double least = least_cost(question);
      for (const HopCandidate& other : answer.others)
        if (other.reached) least = std::min(least, other.cost);
      EXPECT_EQ(answer.best.cost, least) << gossip_topology_name(machine) << " of " << ranks << ", eps " << eps;
    }
}

// The more a message costs whatever its way, the longer ways pay.
TEST(HopOptimiser, DearMessagesGoFurther) {
  HopQuestion question = question_of(GossipTopology::torus_2d, 144, 1e-3);
  const HopAnswer cheap = optimise(question);
  question.per_message = 100;
  const HopAnswer dear = optimise(question);
  EXPECT_LT(cheap.best.hops_per_message, dear.best.hops_per_message);
  EXPECT_LT(dear.best.rounds, cheap.best.rounds);
}

TEST(HopOptimiser, ADearCandidateIsGivenUp) {
  const HopQuestion question = question_of(GossipTopology::ring, 64, 1e-3);
  const HopAnswer answer = optimise(question);
  EXPECT_GT(answer.best.where.reach, 1);
  for (const HopCandidate& each : answer.reaches) {
    EXPECT_LE(each.cost, 6 * answer.best.cost);
    EXPECT_TRUE(each.reached || each.cost > 2 * answer.best.cost) << each.where.reach;
  }
}

TEST(HopOptimiser, DiametersAreThoseOfTheShapes) {
  EXPECT_EQ(diameter_of({.topology = GossipTopology::ring, .ranks = 9}), 4);
  EXPECT_EQ(diameter_of({.topology = GossipTopology::bus, .ranks = 9}), 8);
  EXPECT_EQ(diameter_of({.topology = GossipTopology::torus_2d, .ranks = 64}), 8);
  EXPECT_EQ(diameter_of({.topology = GossipTopology::hypercube, .ranks = 64}), 6);
  EXPECT_EQ(diameter_of({.topology = GossipTopology::tree, .ranks = 15}), 6);
}

TEST(HopOptimiser, RefusesMachinesWithoutHops) {
  EXPECT_NE(problem_with(question_of(GossipTopology::complete, 8, 1e-3)), "");
  EXPECT_NE(problem_with(question_of(GossipTopology::ring, 1, 1e-3)), "");
  EXPECT_NE(problem_with(question_of(GossipTopology::hypercube, 12, 1e-3)), "");
  EXPECT_EQ(problem_with(question_of(GossipTopology::torus_2d, 12, 1e-3)), "");
}

}  // namespace
}  // namespace ucft::detail::simulator
