// Whole numbers that a user has typed.
#pragma once

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ucft::detail::bench {

struct Range {
  std::int64_t lowest;
  std::int64_t highest;
};

// Throws std::invalid_argument, which names the option, the text and the range.
inline std::int64_t parse_number(const std::string& option, std::string_view text, Range range) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < range.lowest || value > range.highest) {
    throw std::invalid_argument(
        fmt::format("{}: '{}' is not a number from {} to {}", option, text, range.lowest, range.highest));
  }
  return value;
}

}  // namespace ucft::detail::bench
