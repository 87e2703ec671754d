#include "tests/ucx/scenarios/scenario.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

#include <unistd.h>

namespace ucft::detail::test {

JobPlan Scenario::plan(int ranks, const std::string& name, std::vector<std::string> arguments) const {
  return {ranks, name, std::move(arguments), {}, over(GetParam())};
}

void Scenario::expect_right(const JobPlan& made, const std::vector<int>& may_be_dead) {
  EXPECT_EQ(what_is_wrong(made, run_job(made), may_be_dead), "") << made.scenario;
}

std::map<int, nlohmann::json> job_report() {
  const std::string command = fmt::format("{} --job {} --json", UCFT_INFO, getpid());
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::map<int, nlohmann::json> lines;
  std::string line;
  for (int byte; (byte = std::fgetc(pipe)) != EOF; line += static_cast<char>(byte)) {
    if (byte != '\n') continue;
    auto rank = nlohmann::json::parse(std::exchange(line, {}).c_str());
    lines[rank["rank"]] = rank;
  }
  if (pclose(pipe) != 0) wrong("{}", command);
  return lines;
}

namespace {

INSTANTIATE_TEST_SUITE_P(Over, Scenario, testing::ValuesIn(all_transports()),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ucft::detail::test
