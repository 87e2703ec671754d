// The subcommands of ucft_sim. Each adds its options to the program, and runs when they have been parsed; a mistake in
// them is a CLI::ParseError that names it.
#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <vector>

namespace ucft::simulator {

void add_explore_command(CLI::App& app, int& exit_code);
void add_run_commands(CLI::App& app, int& exit_code);   // bcast, reduce, allreduce, barrier

inline std::vector<std::string> names_of(std::span<const char* const> names) { return {names.begin(), names.end()}; }

}  // namespace ucft::simulator
