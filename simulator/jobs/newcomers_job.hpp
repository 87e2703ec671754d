// A job in which new processes take the seats of ranks that have failed or left: a plan, carried out and checked.
#pragma once

#include "simulator/jobs/job.hpp"

namespace ucft::jobs {

JobResult run_with_newcomers(const JobPlan& plan);

}  // namespace ucft::jobs
