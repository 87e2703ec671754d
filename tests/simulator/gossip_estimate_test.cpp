// What ranks of Push-Flow and Push-Cancel-Flow know: estimates, and what failures do to them.
#include <gtest/gtest.h>

#include "simulator/gossip_run.hpp"

namespace ucft::detail::simulator {
namespace {

// The estimate is value / weight whatever the weight's sign: Casas et al. 2018, Algorithm 3, line 10. Where messages
// cross, a flow counts twice for a moment and is taken back: a rank that has pushed most of its mass on meanwhile then
// has less than nothing, of value and weight alike.
TEST(GossipEstimate, ARankWithANegativeWeightKnowsTheMean) {
  for (GossipAlgorithm algorithm : {GossipAlgorithm::push_flow, GossipAlgorithm::pcf}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      GossipRun run;
      run.plan.algorithm = algorithm;
      run.plan.neighbourhood = {GossipTopology::hypercube, 32};
      run.plan.seed = run.seed = seed;
      run.rounds = 150;
      run.all_rounds = true;
      const GossipResult result = simulate(run);
      EXPECT_EQ(result.unknown, 0) << "seed " << seed;
      EXPECT_LT(result.error, 1e-7) << "seed " << seed;
    }
  }
}

TEST(GossipEstimate, OfDataThatIsGiven) {
  GossipRun run;
  run.plan.algorithm = GossipAlgorithm::pcf;
  run.plan.neighbourhood = {GossipTopology::hypercube, 8};
  run.values = 2;
  run.data_function = [](Rank rank, int index) { return index == 0 ? rank : 100 - rank; };
  run.eps = 1e-12;
  run.keeps_estimates = true;
  const GossipResult result = simulate(run);
  ASSERT_EQ(result.estimates.size(), 16u);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    EXPECT_NEAR(result.estimates[2 * rank], 3.5, 1e-11);
    EXPECT_NEAR(result.estimates[2 * rank + 1], 96.5, 1e-9);
  }
}

// A link that fails with nothing on its way leaves nothing behind: both sides have absorbed a flow, or neither.
TEST(GossipLinkFailure, PushCancelFlowGoesOnToTheExactMean) {
  for (GossipAlgorithm algorithm : {GossipAlgorithm::pcf, GossipAlgorithm::pcf_flip}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      GossipRun run;
      run.plan.algorithm = algorithm;
      run.plan.neighbourhood = {GossipTopology::hypercube, 64};
      run.plan.seed = run.seed = seed;
      run.delay = 0;
      run.rounds = 400;
      run.all_rounds = true;
      run.faults.links.push_back({0, 1, 75});
      EXPECT_LT(simulate(run).error, 1e-11) << gossip_algorithm_name(algorithm) << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace ucft::detail::simulator
