// Memory that simulated processes share: they all have this program's addresses, and map the same bytes at several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ucft::jobs {

// The same for all mappings of the same bytes.
using MemoryName = std::pair<std::uint64_t, std::uint64_t>;
MemoryName name_of_memory(const void* address);

void note_mapping(void* address, std::size_t bytes, int descriptor, std::uint64_t offset);
void forget_mapping(void* address);

}  // namespace ucft::jobs
