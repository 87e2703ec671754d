// The rows of a command under the clock, as text, JSON or CSV on stdout.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace ucft::detail::simulator {

using Json = nlohmann::ordered_json;

enum class RowForm : std::uint8_t { text, json, csv };
void print_rows(const std::vector<Json>& rows, RowForm form);

}  // namespace ucft::detail::simulator
