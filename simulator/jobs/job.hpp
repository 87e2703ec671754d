// A whole job in the simulated machine: a plan, carried out and judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/jobs/kernel.hpp"
#include "simulator/jobs/plan.hpp"
#include "simulator/judge/history.hpp"
#include "simulator/judge/judge.hpp"

namespace ucft::jobs {

struct JobResult {
  std::vector<judge::RankHistory> histories;
  std::vector<judge::Violation> violations;
  Time lasted = 0;                      // virtual
  std::uint64_t calls = 0, faults = 0;  // of all ranks; that befell them
  std::uint64_t hash = 0;               // of the histories
  std::string log;                      // of a job with newcomers, instead of histories
};

// One job at a time in this process: the kernel is one.
JobResult run(const JobPlan& plan);

}  // namespace ucft::jobs
