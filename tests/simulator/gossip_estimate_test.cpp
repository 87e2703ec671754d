// A rank's estimate is value / weight whatever the weight's sign: Casas et al. 2018, Algorithm 3, line 10.
#include <gtest/gtest.h>

#include "simulator/gossip_run.hpp"

namespace ucft::simulator {
namespace {

// Where messages cross, a flow counts twice for a moment and is taken back: a rank that has pushed most of its mass on
// meanwhile then has less than nothing, of value and weight alike.
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

}  // namespace
}  // namespace ucft::simulator
