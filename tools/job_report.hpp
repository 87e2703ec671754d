// ucft_info --job: says what the ranks of a job on this host do. It is read from outside, without stopping or asking
// them.
#pragma once

#include <string>

namespace ucft::detail {

// pid: of any rank, or of the launcher that has started it; 0: all jobs of which this user may look at the processes. A
// table of ranks for each job, or a JSON object a line for each rank. Empty: `error` says why, also where there is no
// job.
std::string job_report(int pid, bool json, std::string& error);

}  // namespace ucft::detail
