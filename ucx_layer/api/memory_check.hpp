// Whether the host can read or write memory that a caller names: a device pointer, a freed mapping or nonsense is then
// a status and not a crash. The first and the last byte are tried, by the kernel; what was found good is remembered.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ucft::detail {

// Any thread; the memory of good ranges is per thread.
bool is_readable(const void* memory, std::size_t bytes);
bool is_writable(void* memory, std::size_t bytes);

}  // namespace ucft::detail
