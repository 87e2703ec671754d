// The examples, with test points.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/ucx/job.hpp"

namespace ucft::detail::test {
namespace {

// The examples end with exit code 0 only if all their results were right; both deaths are seen by all survivors.
struct ExampleRun {
  const char* name;
  const char* program;
  std::vector<std::string> arguments;
  const char* kill;
  const char* last_line;  // a part of it, of each survivor
};
class Example : public testing::TestWithParam<ExampleRun> {};
INSTANTIATE_TEST_SUITE_P(Of, Example,
                         testing::Values(ExampleRun{"gossip_average",
                                                    GOSSIP_AVERAGE,
                                                    {"500"},
                                                    "3:send:2000,0:send:5000",
                                                    ": the average of 4 ranks from here on"},
                                         ExampleRun{"gossip_qr",
                                                    GOSSIP_QR,
                                                    {"--repeat", "20"},
                                                    "3:send:2000,0:send:5000",
                                                    " of the rows of 4 ranks in the end"},
                                         ExampleRun{"gossip_qr_hps",
                                                    GOSSIP_QR,
                                                    {"--repeat", "20", "--algorithm", "hps"},
                                                    "3:send:500,0:send:1000",
                                                    " of the rows of 4 ranks in the end"}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(Example, GoesOnWhenTwoRanksDie) {
  JobPlan made{
      6, "", GetParam().arguments, {"--expect-kill", "3", "--expect-kill", "0"}, {{"UCFT_TEST_KILL", GetParam().kill}}};
  made.program = GetParam().program;
  const JobResult result = run_job(made);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.errors, std::vector<std::string>{});
  EXPECT_EQ(result.left_behind, std::vector<std::string>{});
  for (const char* survivor : {"1", "2", "4", "5"}) {
    std::istringstream lines(result.output);
    bool said = false;
    for (std::string line; std::getline(lines, line);)
      said |=
          line.starts_with(std::string("[") + survivor + "] ") && line.find(GetParam().last_line) != std::string::npos;
    EXPECT_TRUE(said) << "rank " << survivor << ":\n" << result.output;
  }
}

// 3 rows for 16 columns.
TEST(ExampleArguments, GossipQrSaysThatVHasTooFewRows) {
  JobPlan plan{3, "", {"--rows", "1"}};
  plan.program = GOSSIP_QR;
  const JobResult result = run_job(plan);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.output.find("--rows 1: V needs at least as many rows as its 16 columns"), std::string::npos)
      << result.output;
}

}  // namespace
}  // namespace ucft::detail::test
