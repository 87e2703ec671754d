// The number of descriptors that this process may have open.
#pragma once

namespace ucft::detail {

// Raises the soft limit (RLIMIT_NOFILE) of this process to the hard one. Never lowers it; the hard limit stays.
// Programs that the process starts inherit it. Any thread; cheap when there is nothing to raise.
void raise_descriptor_limit();

}  // namespace ucft::detail
