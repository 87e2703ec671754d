// ucft_info --job: what the ranks of a job on this host do, read from outside, without stopping or asking them.
#pragma once

#include <string>

namespace ucft::detail {

// pid: of any rank; 0: all jobs of which this user may look at the processes. A line for each rank, or one JSON object a line. Empty:
// `error` says why.
std::string job_report(int pid, bool json, std::string& error);

}  // namespace ucft::detail
