// What the environment may hold: settings of jobs in tests/ucx/api_test.cpp, names that are none here.
#include <gtest/gtest.h>

#include "ucx_layer/runtime/unknown_settings.hpp"

namespace ucft::detail::test {
namespace {

std::vector<std::string> unknown_in(std::vector<const char*> environment) {
  Settings settings;
  for (const char* name : {"UCFT_F", "UCFT_FENCE", "UCFT_SUSPECT_AFTER", "UCFT_STARTUP_TIMEOUT", "UCFT_WINDOW"})
    settings.sources.push_back({name, "", ""});
  environment.push_back(nullptr);
  return unknown_settings(settings, environment.data());
}

TEST(UnknownSettings, TheNearestNameIsSaid) {
  EXPECT_EQ(unknown_in({"PATH=/bin", "UCFT_SUSPECTAFTER=3s", "UCFT_F=2", "UCFT_windows=4"}),
            (std::vector<std::string>{
                "UCFT_SUSPECTAFTER is in the environment, and is no setting; the nearest name is UCFT_SUSPECT_AFTER",
                "UCFT_windows is in the environment, and is no setting; the nearest name is UCFT_F"}));
}

TEST(UnknownSettings, AnEmptyOneIsSaidToo) { EXPECT_EQ(unknown_in({"UCFT_FENC="}).size(), 1u); }

TEST(UnknownSettings, NamesOfLaunchersToolsAndTestsAreNone) {
  EXPECT_EQ(unknown_in({"UCFT_RANK=0",
                        "UCFT_SIZE=2",
                        "UCFT_LOCAL_RANK=0",
                        "UCFT_RENDEZVOUS=a",
                        "UCFT_JOB_SECRET=b",
                        "UCFT_MPI=off",
                        "UCFT_MPI_INFO=y",
                        "UCFT_RUN=ucft_run",
                        "UCFT_PURPOSE_FD=3",
                        "UCFT_OUTPUT=/tmp",
                        "UCFT_TEST_KILL=1:send:2",
                        "UCFT_KILL_RUNS=0.1",
                        "UCFT_KILL_SEED=7",
                        "UCFT_MUTANTS_PART=1/3",
                        "UCFT_CLUSTER=a",
                        "UCFT_CLUSTER_STATE=b",
                        "UCFT_CLUSTER_NODES=4",
                        "UCFT_NODE_PIDS=1 2",
                        "UCFT_NODE_RANKS=2",
                        "UCFT_RDMA_FAULTS=1",
                        "UCFT_RDMA_SEED=2",
                        "UCFT_SLURM_NODES=2",
                        "UCFT_NAMESPACES_TEST=1",
                        "UCX_TLS=tcp",
                        "UCFTX=1"}),
            std::vector<std::string>{});
}

}  // namespace
}  // namespace ucft::detail::test
