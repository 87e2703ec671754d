// Copies between a caller's memory and memory that other ranks read. Their time goes into lines that another core's
// cache has. So they are made in wide stores, and with loads a few lines ahead. The C library's own ways (string
// instructions from some size on) are not reliably as fast there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ucft::detail {

// The two don't overlap; neither needs any alignment. Any thread.
void host_copy(std::byte* to, const std::byte* from, std::uint64_t bytes);

// The same, past the caches: memory that is written as a whole isn't read before. For what its reader will not find in
// a cache.
void host_stream(std::byte* to, const std::byte* from, std::uint64_t bytes);

}  // namespace ucft::detail
