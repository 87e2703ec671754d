// Checks whether the host can read or write memory that a caller names. So a device pointer, a freed mapping or
// nonsense gives a status and not a crash. The kernel tries the first and the last byte. Good memory is remembered.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ucft::detail {

// Any thread; the memory of good ranges is per thread.
bool is_readable(const void* memory, std::size_t bytes);
bool is_writable(void* memory, std::size_t bytes);

}  // namespace ucft::detail
