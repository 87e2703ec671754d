// The memory that this process can still take. Beyond it the kernel does not refuse memory: it ends processes.
#pragma once

#include <cstdint>
#include <string>

namespace ucft::detail {

// In bytes: the memory and the swap that /proc/meminfo says are there, or what the limits of the process's control
// groups (cgroup v2) leave, if that is less. UINT64_MAX: it is not known. root: of the file system, "" or a test's.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace ucft::detail
