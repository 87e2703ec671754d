// ucft_sim: ucft's own protocol objects in simulated worlds.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "simulator/commands.hpp"

bool ucft::simulator::read_costs(const std::string& path, LogGP& costs, std::string& error) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    error = fmt::format("{}: {}", path, std::strerror(errno));
    return false;
  }
  if (parse_costs(text, costs, error)) return true;
  error = fmt::format("{}:{}", path, error);
  return false;
}

int main(int argc, char** argv) {
  CLI::App app{"Runs ucft's own protocol objects in simulated worlds: under a LogGP clock, or through every crash plan", "ucft_sim"};
  app.set_version_flag("--version", "ucft_sim 0.1.0");
  app.require_subcommand(1);
  int exit_code = 0;
  ucft::simulator::add_run_commands(app, exit_code);
  ucft::simulator::add_advise_command(app, exit_code);
  ucft::simulator::add_explore_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {   // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& problem) {
    const auto commands = app.get_subcommands([](CLI::App*) { return true; });
    const bool known = argc < 2 || std::any_of(commands.begin(), commands.end(), [&](CLI::App* each) { return each->get_name() == argv[1]; });
    const std::string text = known ? problem.what() : fmt::format("'{}' is no command", argv[1]);
    fmt::print(stderr, "ucft_sim: {}\nRun with --help for more information.\n", text);
    return 2;
  }
  return exit_code;
}
