// Jobs of real processes over shared memory, tcp, and both: what the tests of this folder have in common.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/ucx/job.hpp"
#include "tests/ucx/ranks.hpp"

namespace ucft::detail::test {

// Its parameter: one of all_transports().
class Scenario : public testing::TestWithParam<const char*> {
 protected:
  JobPlan plan(int ranks, const std::string& name, std::vector<std::string> arguments = {}) const;
  void expect_right(const JobPlan& made, const std::vector<int>& may_be_dead = {});
};

// What ucft_info --job says of this job: by rank.
std::map<int, nlohmann::json> job_report();

}  // namespace ucft::detail::test
