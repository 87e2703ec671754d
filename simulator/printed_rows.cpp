#include "simulator/printed_rows.hpp"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace ucft::detail::simulator {

namespace {

// The unit of a figure. Times have the unit that L, o, g and G have: us, say.
std::string_view unit_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> units[] = {
      {" bytes payload ", "bytes"},
      {" G ", "time a byte"},
      {" messages messages_max most_sends most_receives sends_per_rank ", "messages"},
      {" failed missed largest_gap most_partners ", "ranks"},
      {" L o_send o_receive g gossip_time panic_after gather deliver prove jitter skew detect ", "time"},
      {" latency latency_mean latency_max first median last others end end_mean end_max ", "time"}};
  for (const auto& [names, unit] : units)
    if (names.find(fmt::format(" {} ", name)) != names.npos) return unit;
  return "";
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

void print_csv_row(const Json& row) {
  std::string line;
  for (const auto& [name, value] : row.items()) line += (line.empty() ? "" : ",") + text_of(value);
  fmt::print("{}\n", line);
}

}  // namespace

void print_rows(const std::vector<Json>& rows, RowForm form) {
  if (form == RowForm::csv) {
    std::string names;
    for (const auto& [name, value] : rows.front().items()) names += (names.empty() ? "" : ",") + name;
    fmt::print("{}\n", names);
  }
  for (const Json& row : rows) {
    if (form == RowForm::json)
      fmt::print("{}\n", row.dump());
    else if (form == RowForm::csv)
      print_csv_row(row);
    else
      for (const auto& [name, value] : row.items()) {
        const std::string_view unit = unit_of(name);
        const std::string text = value.is_null() || text_of(value).empty() ? "-" : text_of(value);
        fmt::print("{:<16}{}\n", name, unit.empty() ? text : fmt::format("{:<12}{}", text, unit));
      }
  }
  if (form == RowForm::text) fmt::print("(A time has the unit in which L, o, g and G are given: us, say.)\n");
}

}  // namespace ucft::detail::simulator
