// ucft_sim: ucft's own protocol objects in simulated worlds.
#include <fmt/core.h>

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
    fmt::print(stderr, "ucft_sim: {}\nRun with --help for more information.\n", problem.what());
    return 2;
  }
  return exit_code;
}
