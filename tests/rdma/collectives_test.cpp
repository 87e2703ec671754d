// All collectives over real verbs between nodes (Soft-RoCE), with several ranks on each: mailboxes by RDMA put over rc,
// active messages over ud and without RMA, shared memory within a node. Under `ci/rdma-cluster --on-host`, see ci/rdma.
#include <gtest/gtest.h>

#include <map>

#include "tests/rdma/cluster_job.hpp"

namespace ucft::detail::test {
namespace {

struct Transport {
  const char* name;
  const char* tls;
  bool shares_memory, has_rdma;
  std::map<std::string, std::string> environment = {};
};

class Over : public testing::TestWithParam<Transport> {
 protected:
  void expect_right(int nodes, int ranks_per_node, const std::vector<std::string>& command) {
    expect_right({nodes, ranks_per_node, GetParam().tls, command, GetParam().environment});
  }
  void expect_right(const ClusterPlan& plan, const std::vector<int>& may_die = {}) {
    ClusterJob job(plan);
    EXPECT_TRUE(job.wait_until_ended()) << "hang: " << plan.command.front() << "\n" << job.text();
    EXPECT_EQ(what_is_wrong(plan, job, may_die, {}), "") << plan.command.front();
  }
};
INSTANTIATE_TEST_SUITE_P(
    Verbs, Over,
    testing::Values(Transport{"rc", "rc_v,ud_v,self,sm", true, true}, Transport{"ud", "ud_v,self,sm", true, false},
                    Transport{"rc_alone", "rc_v,ud_v,self", false, true},
                    Transport{"rc_messages", "rc_v,ud_v,self,sm", true, false, {{"UCFT_RMA", "off"}}}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_P(Over, EveryPeerIsReachedByTheBestPath) {
  const int ranks_per_node = 2, nodes = 2;
  const int here = GetParam().shares_memory ? ranks_per_node - 1 : 0;
  const int others = nodes * ranks_per_node - 1 - here;
  expect_right(nodes, ranks_per_node,
               {"paths", std::to_string(here), std::to_string(GetParam().has_rdma ? others : 0),
                std::to_string(GetParam().has_rdma ? 0 : others)});
}

TEST_P(Over, AllCollectivesOnAllNodes) { expect_right(cluster_nodes(), 2, {"loop", "24", "40000"}); }
TEST_P(Over, ManyRanksOnANode) { expect_right(2, 4, {"loop", "12", "3000"}); }
TEST_P(Over, CommunicatorsSideBySide) { expect_right(2, 3, {"split"}); }
TEST_P(Over, LargeVectorsInTheCallersMemory) { expect_right(2, 2, {"allocated", "100000"}); }
TEST_P(Over, ManyPayloadsAtOnce) { expect_right(2, 2, {"many_payloads"}); }
TEST_P(Over, AFullWindow) { expect_right(2, 2, {"window"}); }
// Also one-sided, where every peer can be written to: RMA windows by RDMA put between nodes.
TEST_P(Over, GossipByEveryAlgorithm) {
  ClusterPlan plan{2, 2, GetParam().tls, {"each"}, GetParam().environment, GOSSIP_PROGRAM};
  expect_right(plan);
  if (!GetParam().has_rdma) plan.command = {"unsupported", "2"};  // the speaker of the second node
  plan.environment["UCFT_TEST_GOSSIP_PATH"] = "rma";
  expect_right(plan);
}

TEST_P(Over, GossipWhileARankDies) {
  for (const char* algorithm : {"push_sum", "push_flow", "pcf"}) {
    ClusterPlan plan{2, 2, GetParam().tls, {"death", algorithm, "700", "4"}, GetParam().environment, GOSSIP_PROGRAM};
    plan.environment["UCFT_TEST_GOSSIP_PATH"] = GetParam().has_rdma ? "rma" : "message";
    plan.environment["UCFT_TEST_KILL"] = GetParam().has_rdma ? "2:line:800" : "2:send:40";
    expect_right(plan, {2});
  }
}

TEST_P(Over, LeavingIsNotFailing) { expect_right(2, 2, {"leave"}); }
TEST_P(Over, AMismatchIsNamed) { expect_right(2, 2, {"mismatch", "count"}); }

}  // namespace
}  // namespace ucft::detail::test
