// Finds and ends all descendants of this process, in any sessions and groups.
//
// The caller must be a child subreaper (PR_SET_CHILD_SUBREAPER): then orphans become its children and are found.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

namespace ucft::detail::run {

// Kills (SIGKILL) and reaps until no descendant is left; `reaped` hears of each child's wait status. False: some could
// not be killed within `limit` (another user's, or stuck in the kernel).
bool end_descendants(const std::function<void(pid_t, int)>& reaped, std::chrono::milliseconds limit);

}  // namespace ucft::detail::run
