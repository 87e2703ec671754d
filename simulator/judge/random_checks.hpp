// Shared by the parts of RandomCalls.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "ucft/ucft.h"

namespace ucft::judge {

// A call that can't fail has failed, or memory was written that no call may write.
template <class... Parts>
[[noreturn]] void wrong(fmt::format_string<Parts...> format, Parts&&... parts) {
  throw std::logic_error(fmt::format(format, std::forward<Parts>(parts)...));
}

inline void check(ucft_status_t status, const char* what) {
  if (status != UCFT_OK) wrong("{}: {}: {}", what, ucft_status_name(status), ucft_last_error());
}

// Of words that nobody has written.
constexpr std::uint64_t hole = 0x5a5a5a5a5a5a5a5aull;

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  a = (a ^ b) * 0x9e3779b97f4a7c15ull;
  return a ^ a >> 31;
}

// Writes a small whole number there: all sums of floats are exact.
void put(void* memory, std::uint64_t place, std::uint64_t number, ucft_dtype_t dtype);

}  // namespace ucft::judge
