#include "tests/ucx/scenarios/scenario.hpp"

#include <utility>

namespace ucft::detail::test {

JobPlan Scenario::plan(int ranks, const std::string& name, std::vector<std::string> arguments) const {
  return {ranks, name, std::move(arguments), {}, over(GetParam())};
}

void Scenario::expect_right(const JobPlan& made, const std::vector<int>& may_be_dead) {
  EXPECT_EQ(what_is_wrong(made, run_job(made), may_be_dead), "") << made.scenario;
}

namespace {

INSTANTIATE_TEST_SUITE_P(Over, Scenario, testing::ValuesIn(all_transports()),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ucft::detail::test
