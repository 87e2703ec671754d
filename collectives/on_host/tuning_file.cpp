#include "collectives/on_host/tuning_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "collectives/core/random.hpp"

namespace ucft::detail {

extern const char* const default_tuning_text;  // made by CMake from default_tuning.json

namespace {

using nlohmann::json;

struct Limits {
  std::uint64_t low, high, multiple_of = 1;
};

std::uint64_t number(const json& row, const char* name, const Limits& limits) {
  const json& value = row.at(name);
  if (!value.is_number_unsigned() || value < limits.low || value > limits.high ||
      value.get<std::uint64_t>() % limits.multiple_of != 0)
    throw std::invalid_argument(
        fmt::format("{} is {}: must be {} .. {}{}", name, value.dump(), limits.low, limits.high,
                    limits.multiple_of > 1 ? fmt::format(", a multiple of {}", limits.multiple_of) : ""));
  return value.get<std::uint64_t>();
}

std::int32_t up_to(const json& row, const char* name) {
  if (!row.contains(name)) return HostTuning::any;
  return static_cast<std::int32_t>(number(row, name, {1, 1 << 20}));
}

// Of these fields; the first so many may be missing.
void check_fields(const json& row, std::span<const char* const> known, std::size_t optional) {
  if (!row.is_object()) throw std::invalid_argument("is not an object");
  for (const auto& [name, value] : row.items())
    if (std::ranges::find(known, std::string_view(name), [](const char* each) { return std::string_view(each); }) ==
        known.end())
      throw std::invalid_argument(fmt::format("unknown field '{}'", name));
  for (const char* name : known.subspan(optional))
    if (!row.contains(name)) throw std::invalid_argument(fmt::format("{} is missing", name));
}

HostTuning::BetweenHosts read_row_between_hosts(const json& row) {
  check_fields(row, std::array{"processes", "whole_bytes", "straight_bytes"}, 1);
  return {up_to(row, "processes"), number(row, "whole_bytes", {0, std::uint64_t{16} << 20}),
          number(row, "straight_bytes", {1, std::uint64_t{1} << 30})};
}

HostTuning::Row read_row(const json& row) {
  check_fields(row, std::array{"ranks", "ranks_per_core", "caches", "degree", "large_bytes", "chunk_bytes"}, 3);
  return {{up_to(row, "ranks"), up_to(row, "ranks_per_core"), up_to(row, "caches")},
          {static_cast<std::int32_t>(number(row, "degree", {0, 1024})),
           number(row, "large_bytes", {64, std::uint64_t{1} << 20, 64}),
           number(row, "chunk_bytes", {1024, std::uint64_t{16} << 20, 64})}};
}

// Of the array of that name, if it is there. False: error names the row and the field, behind `where`.
template <class Row>
bool read_rows(const json& table, const char* name, const char* where, Row (*read)(const json&), std::vector<Row>& rows,
               std::string& error) {
  rows.clear();
  try {
    for (const json& row : table.value(name, json::array())) rows.push_back(read(row));
  } catch (const std::invalid_argument& problem) {
    error = fmt::format("{}row {}: {}", where, rows.size() + 1, problem.what());
    return false;
  }
  return true;
}

}  // namespace

bool parse_tuning(const std::string& text, HostTuning& tuning, std::string& error) {
  const json table = json::parse(text, nullptr, false);
  bool is_table = table.is_object() && (table.contains("rows") || table.contains("between_hosts"));
  for (const char* name : {"rows", "between_hosts"})
    if (is_table && table.contains(name)) is_table = table[name].is_array() && !table[name].empty();
  if (!is_table) {
    error = table.is_discarded() ? "not JSON" : "no object whose \"rows\" and \"between_hosts\" are arrays of rows";
    return false;
  }
  for (const auto& [name, value] : table.items())
    if (name != "from" && name != "rows" && name != "between_hosts") {
      error = fmt::format("unknown field '{}'", name);
      return false;
    }
  return read_rows(table, "rows", "", read_row, tuning.rows, error) &&
         read_rows(table, "between_hosts", "between_hosts, ", read_row_between_hosts, tuning.between_hosts, error);
}

bool read_tuning(const std::string& path, HostTuning& tuning, std::string& error) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.is_open() || file.bad()) {
    error = std::strerror(errno);
    return false;
  }
  if (!parse_tuning(text.str(), tuning, error)) return false;
  const std::vector<HostTuning::Row>& built_in = default_tuning().rows;
  tuning.rows.insert(tuning.rows.end(), built_in.begin(), built_in.end());
  return true;
}

std::string tuning_text(const HostTuning& tuning, const std::string& from) {
  std::string rows;
  for (const HostTuning::Row& row : tuning.rows) {
    nlohmann::ordered_json line;
    const auto up_to = [&](const char* name, std::int32_t most) {
      if (most != HostTuning::any) line[name] = most;
    };
    up_to("ranks", row.where.ranks);
    up_to("ranks_per_core", row.where.ranks_per_core);
    up_to("caches", row.where.caches);
    line["degree"] = row.choice.degree;
    line["large_bytes"] = row.choice.large_bytes;
    line["chunk_bytes"] = row.choice.chunk_bytes;
    rows += fmt::format("{}\n    {}", rows.empty() ? "" : ",", line.dump());
  }
  std::string between;
  for (const HostTuning::BetweenHosts& row : tuning.between_hosts) {
    nlohmann::ordered_json line;
    if (row.processes != HostTuning::any) line["processes"] = row.processes;
    line["whole_bytes"] = row.whole_bytes;
    line["straight_bytes"] = row.straight_bytes;
    between += fmt::format("{}\n    {}", between.empty() ? "" : ",", line.dump());
  }
  std::string text = fmt::format("{{\n  \"from\": {}", json(from).dump());
  if (!rows.empty()) text += fmt::format(",\n  \"rows\": [{}\n  ]", rows);
  if (!between.empty()) text += fmt::format(",\n  \"between_hosts\": [{}\n  ]", between);
  return text + "\n}\n";
}

std::uint64_t tuning_hash(const HostTuning& tuning) {
  std::uint64_t hash = 0;
  for (const HostTuning::Row& row : tuning.rows)
    for (const std::uint64_t each :
         {static_cast<std::uint64_t>(row.where.ranks), static_cast<std::uint64_t>(row.where.ranks_per_core),
          static_cast<std::uint64_t>(row.where.caches), static_cast<std::uint64_t>(row.choice.degree),
          row.choice.large_bytes, row.choice.chunk_bytes})
      hash = mixed(hash, each);
  for (const HostTuning::BetweenHosts& row : tuning.between_hosts)
    for (const std::uint64_t each : {static_cast<std::uint64_t>(row.processes), row.whole_bytes, row.straight_bytes})
      hash = mixed(hash, each);
  return hash;
}

const HostTuning& default_tuning() {
  static const HostTuning tuning = [] {
    HostTuning built_in;
    std::string error;
    if (!parse_tuning(default_tuning_text, built_in, error)) throw std::logic_error("default_tuning.json: " + error);
    if (built_in.rows.back().where != HostTuning::Where{}) throw std::logic_error("default_tuning.json: the last row");
    return built_in;
  }();
  return tuning;
}

}  // namespace ucft::detail
