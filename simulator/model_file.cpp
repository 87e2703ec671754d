#include "simulator/model_file.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

namespace ucft::simulator {

bool read_model(const std::string& path, LogGP& costs, std::string& error) {
  std::ifstream file(path);
  if (!file) {
    error = fmt::format("{}: {}", path, std::strerror(errno));
    return false;
  }
  LogGP read = costs;
  std::set<std::string> seen;
  int number = 0;
  const auto fail = [&](const std::string& reason) {
    error = fmt::format("{}:{}: {}", path, number, reason);
    return false;
  };
  for (std::string line; std::getline(file, line);) {
    ++number;
    line.resize(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    std::string name, value, more;
    if (!(words >> name)) continue;
    double* target = name == "L"           ? &read.latency
                     : name == "o_send"    ? &read.send_overhead
                     : name == "o_receive" ? &read.receive_overhead
                     : name == "g"         ? &read.gap
                     : name == "G"         ? &read.gap_per_byte
                                           : nullptr;
    if (target == nullptr && name != "o") return fail(fmt::format("'{}' is no parameter: L, o, o_send, o_receive, g or G", name));
    if (!(words >> value)) return fail(fmt::format("{} has no value", name));
    if (words >> more) return fail(fmt::format("'{}' after the value of {}", more, name));
    std::size_t used = 0;
    double parsed = 0;
    try {
      parsed = std::stod(value, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != value.size()) return fail(fmt::format("{}: '{}' is no number", name, value));
    if (!std::isfinite(parsed) || parsed < 0) return fail(fmt::format("{}: {} must be 0 or more, and finite", name, value));
    if (!seen.insert(name).second) return fail(fmt::format("{} is given twice", name));
    if (name == "o")
      read.send_overhead = read.receive_overhead = parsed;
    else
      *target = parsed;
  }
  if (seen.empty()) {
    number = std::max(number, 1);
    return fail("no parameter in this file");
  }
  costs = read;
  return true;
}

}  // namespace ucft::simulator
