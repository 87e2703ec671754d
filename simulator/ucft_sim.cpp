// ucft_sim: ucft's own protocol objects, simulated.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <type_traits>

#include "simulator/commands.hpp"

namespace ucft::detail::simulator {

namespace {
template <class Number>
CLI::Validator between(Number lowest, Number highest) {
  const std::string limits = fmt::format("{} .. {}", lowest, highest);
  const auto check = [=](std::string& text) -> std::string {
    Number value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool octal = std::is_integral_v<Number> && text.size() > 1 && text[0] == '0';  // would be read as octal
    if (problem == std::errc() && end == text.data() + text.size() && value >= lowest && value <= highest && !octal)
      return "";
    return fmt::format("'{}' is no {} {}", text, std::is_integral_v<Number> ? "whole number" : "number", limits);
  };
  return CLI::Validator(check, limits);
}
}  // namespace

CLI::Validator number_between(double lowest, double highest) { return between(lowest, highest); }
CLI::Validator whole_between(std::uint64_t lowest, std::uint64_t highest) { return between(lowest, highest); }

void refuse(const std::string& reason) { throw CLI::ValidationError(reason); }

void refuse_meaningless(const CLI::App& command, std::initializer_list<Meaning> meanings) {
  for (const Meaning& each : meanings)
    if (command.count(each.option) > 0 && !each.has_one)
      refuse(fmt::format("{}: means nothing here, only {}", each.option, each.only));
}

std::int32_t tolerated_failures(const CLI::App& command, std::int64_t f, std::int64_t ranks) {
  if (command.count("--f") > 0 && f > ranks - 1)
    refuse(fmt::format("--f {}: at most {} of {} ranks", f, ranks - 1, ranks));
  return static_cast<std::int32_t>(std::min(f, ranks - 1));
}

double number_after(const std::string& option, const std::string& text, const std::string& digits) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(digits, &used);
  } catch (const std::exception&) {}
  if (used == 0 || used != digits.size() || !std::isfinite(value) || value < 0 || value > longest_time)
    refuse(fmt::format("{} {}: '{}' is no number 0 .. {:g}", option, text, digits, longest_time));
  return value;
}

bool read_costs(const std::string& path, LogGP& costs, std::string& error) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();  // fails on an empty file, too: that is for the parser to say
  if (!file.is_open() || text.bad()) {
    error = fmt::format("{}: {}", path, std::strerror(errno));
    return false;
  }
  LogGP read = costs;
  if (!parse_costs(text.str(), read, error)) {
    error = fmt::format("{}:{}", path, error);
    return false;
  }
  if (read.latency > longest_time || read.send_overhead > longest_time || read.receive_overhead > longest_time ||
      read.gap > longest_time || read.gap_per_byte > longest_time) {
    error = fmt::format("{}: a parameter is above {:g}", path, longest_time);
    return false;
  }
  costs = read;
  return true;
}

}  // namespace ucft::detail::simulator

int main(int argc, char** argv) {
  CLI::App app{"Runs ucft's own protocol objects in simulated worlds: under a LogGP clock, or through every crash plan",
               "ucft_sim"};
  app.set_version_flag("--version", "ucft_sim 0.1.0");
  app.require_subcommand(1);
  int exit_code = 0;
  ucft::detail::simulator::run_command::add_run_commands(app, exit_code);
  ucft::detail::simulator::gossip_operation_command::add_gossip_operation_command(app, exit_code);
  ucft::detail::simulator::gossip_command::add_gossip_commands(app, exit_code);
  ucft::detail::simulator::advise_command::add_advise_command(app, exit_code);
  ucft::detail::simulator::optimise_command::add_optimise_command(app, exit_code);
  ucft::detail::simulator::explore_command::add_explore_command(app, exit_code);
  ucft::detail::simulator::explore_host_command::add_explore_host_command(app, exit_code);
  ucft::detail::simulator::explore_renewals_command::add_explore_renewals_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& problem) {
    const auto commands = app.get_subcommands([](CLI::App*) { return true; });
    const bool known = argc < 2 || std::any_of(commands.begin(), commands.end(),
                                               [&](CLI::App* each) { return each->get_name() == argv[1]; });
    const auto extra = app.remaining(true);  // an option that is not known may have kept another one from being read
    const std::string text = !known          ? fmt::format("'{}' is no command", argv[1])
                             : extra.empty() ? problem.what()
                                             : fmt::format("{} is not known", extra.front());
    fmt::print(stderr, "ucft_sim: {}\nRun with --help for more information.\n", text);
    return 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "ucft_sim: not enough memory for so many ranks, runs or failures\n");
    return 1;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "ucft_sim: the output could not be written: {}\n", std::strerror(errno));
    return 1;
  }
  return exit_code;
}
