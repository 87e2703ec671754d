#include "ucx_layer/runtime/settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>

#include "collectives/on_host/tuning_file.hpp"

namespace ucft::detail {

namespace {

// Null also if it is empty, as compose files and scripts leave what is not set.
const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

constexpr const char* algorithms[] = {"auto", "corrected"};  // as in Algorithm
constexpr const char* levels[] = {"off", "warn", "info"};    // as in LogLevel

bool parse_number(std::string_view text, std::uint64_t& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc{} && end == text.data() + text.size() && !text.empty();
}

// 100us, 10ms, 2s, 1.5s, 1m; 0. A number alone could be of any unit.
bool parse_duration(std::string_view text, std::uint64_t& microseconds) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || number < 0 || number > 1e12) return false;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double factor = 1;
  if (unit == "ms")
    factor = 1e3;
  else if (unit == "s")
    factor = 1e6;
  else if (unit == "m")
    factor = 60e6;
  else if (unit != "us" && number != 0)
    return false;
  microseconds = static_cast<std::uint64_t>(number * factor);
  return true;
}

bool parse_switch(std::string_view text, std::uint64_t& value) {
  if (text == "y" || text == "yes" || text == "on" || text == "1")
    value = 1;
  else if (text == "n" || text == "no" || text == "off" || text == "0")
    value = 0;
  else
    return false;
  return true;
}

// -1: auto.
bool parse_auto_or_off(std::string_view text, std::uint64_t& value) {
  value = text == "auto" ? std::uint64_t(-1) : 0;
  return text == "auto" || text == "off";
}

// 64M, 2G; bytes without a unit; -1: auto.
bool parse_auto_or_bytes(std::string_view text, std::uint64_t& bytes) {
  bytes = std::uint64_t(-1);
  if (text == "auto") return true;
  const std::size_t unit = std::string_view("KMG").find(text.empty() ? 'x' : text.back());
  if (unit != std::string_view::npos) text.remove_suffix(1);
  if (!parse_number(text, bytes) || bytes > std::uint64_t{1} << 44) return false;
  if (unit != std::string_view::npos) bytes <<= 10 * (unit + 1);
  return bytes <= std::uint64_t{1} << 44;
}

bool parse_auto_or_number(std::string_view text, std::uint64_t& value) {
  value = std::uint64_t(-1);
  return text == "auto" || parse_number(text, value);
}

bool parse_one_of(std::span<const char* const> words, std::string_view text, std::uint64_t& value) {
  const auto found = std::ranges::find(words, text);
  value = static_cast<std::uint64_t>(found - words.begin());
  return found != words.end();
}

bool parse_algorithm(std::string_view text, std::uint64_t& value) { return parse_one_of(algorithms, text, value); }

// y and n: as before there were levels.
bool parse_level(std::string_view text, std::uint64_t& value) {
  const bool is_switch = text != "off" && parse_switch(text, value);
  if (is_switch) ++value;
  return is_switch || parse_one_of(levels, text, value);
}

bool parse_stats(std::string_view text, std::uint64_t& value) {
  value = text == "json" ? 2 : 0;
  return text == "json" || parse_switch(text, value);
}

using Parser = bool (*)(std::string_view, std::uint64_t&);

// One row a setting: its name in the environment, how it is written, and its limits.
class Reader {
 public:
  Reader(Settings& settings, std::string& error) : settings_(settings), error_(error) {}

  template <class Field>
  void read(const char* name, Parser parse, const char* form, Field& field, bool from_params, std::uint64_t param,
            std::uint64_t low, std::uint64_t high) {
    std::string source = "default";
    if (const char* text = variable(name); text != nullptr) {
      std::uint64_t value = 0;
      if (!parse(text, value)) return fail(fmt::format("{}={}: expected {}", name, text, form));
      if (text != std::string_view("auto") && (value < low || value > high))
        return fail(fmt::format("{}={}: must be {}", name, text, limits_of(low, high, parse)));
      field = static_cast<Field>(value);
      source = "environment";
    }
    if (from_params) {
      if (param < low || param > high)
        return fail(
            fmt::format("params: {} is {}, must be {}", name, written(param, parse), limits_of(low, high, parse)));
      field = static_cast<Field>(param);
      source = "params";
    }
    settings_.sources.push_back({name, text_of(static_cast<std::int64_t>(field), parse), source});
  }
  bool ok() const { return error_.empty(); }
  void fail(const std::string& text) {
    if (error_.empty()) error_ = text;
  }

 private:
  // As the setting is written: 300us, 90s, 60m, y.
  static std::string written(std::uint64_t value, Parser parse) {
    if (parse == parse_switch) return value != 0 ? "y" : "n";
    if (parse != parse_duration) return fmt::format("{}", value);
    if (value > 0 && value % 60000000 == 0) return fmt::format("{}m", value / 60000000);
    if (value > 0 && value % 1000000 == 0) return fmt::format("{}s", value / 1000000);
    if (value > 0 && value % 1000 == 0) return fmt::format("{}ms", value / 1000);
    return fmt::format("{}us", value);
  }
  static std::string limits_of(std::uint64_t low, std::uint64_t high, Parser parse) {
    return fmt::format("{} .. {}", written(low, parse), written(high, parse));
  }
  static std::string text_of(std::int64_t value, Parser parse) {
    if (value < 0) return "auto";
    if (parse == parse_auto_or_off) return "off";
    if (parse == parse_algorithm) return algorithms[value];
    if (parse == parse_level) return levels[value];
    if (parse == parse_stats) return value == 0 ? "n" : value == 1 ? "y" : "json";
    return written(static_cast<std::uint64_t>(value), parse);
  }

  Settings& settings_;
  std::string& error_;
};

void read_gossip_faults(Settings& settings, Reader& reader) {
  const char* text = variable("UCFT_GOSSIP_FAULTS");
  settings.sources.push_back(
      {"UCFT_GOSSIP_FAULTS", text == nullptr ? "none" : text, text == nullptr ? "default" : "environment"});
  if (text == nullptr || text == std::string_view("none")) return;
  settings.gossip_faults_text = text;
  if (const std::string problem = parse_faults(text, settings.gossip_faults); !problem.empty())
    reader.fail(fmt::format("UCFT_GOSSIP_FAULTS: {}", problem));
}

// The file that the variable names; null: none, or auto.
const char* file_of(const char* name, Settings& settings) {
  const char* path = variable(name);
  settings.sources.push_back({name, path == nullptr ? "auto" : path, path == nullptr ? "default" : "environment"});
  return path != nullptr && path == std::string_view("auto") ? nullptr : path;
}

void read_model(Settings& settings, Reader& reader) {
  const char* path = file_of("UCFT_MODEL", settings);
  if (path == nullptr) return;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.is_open() || text.bad()) return reader.fail(fmt::format("UCFT_MODEL={}: {}", path, std::strerror(errno)));
  LogGP costs = network_costs;
  std::string problem;
  if (!parse_costs(text.str(), costs, problem)) return reader.fail(fmt::format("UCFT_MODEL={}:{}", path, problem));
  settings.costs = costs;
}

void read_tuning(Settings& settings, Reader& reader) {
  settings.tuning = default_tuning();
  const char* path = file_of("UCFT_TUNING_FILE", settings);
  std::string problem;
  if (path != nullptr && !detail::read_tuning(path, settings.tuning, problem))
    reader.fail(fmt::format("UCFT_TUNING_FILE={}: {}", path, problem));
}

}  // namespace

const char* name_of(Algorithm algorithm) { return algorithms[static_cast<std::size_t>(algorithm)]; }

bool read_settings(const ucft_context_params_t* params, Settings& settings, std::string& error) {
  error.clear();
  settings = Settings{};
  const ucft_context_params_t defaults = UCFT_CONTEXT_PARAMS_INIT;
  const ucft_context_params_t& given = params == nullptr ? defaults : *params;
  Reader reader(settings, error);
  const auto number = [](std::int32_t value) { return static_cast<std::uint64_t>(value); };
  reader.read("UCFT_F", parse_number, "a number", settings.f, given.f != -1, number(given.f), 0, 1 << 20);
  reader.read("UCFT_FENCE", parse_switch, "y or n", settings.fence, given.fence != -1, number(given.fence), 0, 1);
  reader.read("UCFT_HEARTBEAT_PERIOD", parse_duration, "a number with its unit (us, ms, s, m), such as 10ms",
              settings.heartbeat_period_us, given.heartbeat_period_us != 0, given.heartbeat_period_us, 100, 60000000);
  reader.read("UCFT_SUSPECT_AFTER", parse_duration, "a number with its unit (us, ms, s, m), such as 1s",
              settings.suspect_after_us, given.suspect_after_us != 0, given.suspect_after_us, 300, 3600000000ull);
  reader.read("UCFT_STARTUP_TIMEOUT", parse_duration, "a number with its unit (us, ms, s, m), such as 60s",
              settings.startup_timeout_us, given.startup_timeout_us != 0, given.startup_timeout_us, 1000,
              86400000000ull);
  reader.read("UCFT_LOG", parse_level, "off, warn or info", settings.log, false, 0, 0, 2);
  reader.read("UCFT_STATS", parse_stats, "y, n or json", settings.stats, false, 0, 0, 2);
  reader.read("UCFT_PMIX", parse_auto_or_off, "auto or off", settings.pmix, false, 0, 0, UINT64_MAX);
  reader.read("UCFT_JOINABLE", parse_switch, "y or n", settings.joinable, false, 0, 0, 1);
  reader.read("UCFT_SINGLE", parse_switch, "y or n", settings.single, false, 0, 0, 1);
  read_gossip_faults(settings, reader);
  reader.read("UCFT_RMA", parse_auto_or_off, "auto or off", settings.rma, false, 0, 0, UINT64_MAX);
  reader.read("UCFT_CONNECT_ALL", parse_auto_or_number, "auto or a number of ranks", settings.connect_all, false, 0, 0,
              1 << 30);
  reader.read("UCFT_SPIN", parse_auto_or_number, "auto or a number of polls", settings.spin, given.spin != -1,
              number(given.spin), 0, 1000000000);
  reader.read("UCFT_SLEEP_AFTER", parse_duration, "a number with its unit (us, ms, s, m), such as 2ms",
              settings.sleep_after_us, false, 0, 0, 3600000000ull);
  reader.read("UCFT_SHARED_MEMORY", parse_auto_or_bytes, "auto or bytes such as 512M, at most 16384G",
              settings.shared_memory_bytes, false, 0, 0, UINT64_MAX);
  reader.read("UCFT_WINDOW", parse_number, "a number", settings.window, false, 0, 2, 1024);
  reader.read("UCFT_ALGORITHM", parse_algorithm, "auto or corrected", settings.algorithm, false, 0, 0, UINT64_MAX);
  read_model(settings, reader);
  read_tuning(settings, reader);
  if (reader.ok() && settings.suspect_after_us < 3 * settings.heartbeat_period_us)
    reader.fail(fmt::format("UCFT_SUSPECT_AFTER ({} us) must be at least 3 times UCFT_HEARTBEAT_PERIOD ({} us)",
                            settings.suspect_after_us, settings.heartbeat_period_us));
  return reader.ok();
}

std::string settings_text(const Settings& settings) {
  std::string text;
  for (const Settings::Source& each : settings.sources)
    text += fmt::format("{}={} ({})\n", each.name, each.value, each.source);
  return text;
}

}  // namespace ucft::detail
