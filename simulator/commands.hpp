// The subcommands of ucft_sim. Each adds its options to the program, and runs when they have been parsed. A mistake in
// the options is a CLI::ParseError that names it.
#pragma once

#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "collectives/models/cost_model.hpp"
#include "collectives/topology/names.hpp"
#include "collectives/topology/broadcast_topology.hpp"

namespace ucft::detail::simulator {

// For options: a number or a whole number, written in full, within limits. NaN is in none.
CLI::Validator number_between(double lowest, double highest);
CLI::Validator whole_between(std::uint64_t lowest, std::uint64_t highest);
inline constexpr double longest_time = 1e12;  // of every cost and time: sums of them stay exact enough, and finite

[[noreturn]] void refuse(const std::string& reason);  // CLI::ValidationError
// Of an option whose value is text: the number that a part of it, digits, is. 0 .. longest_time, else it is refused.
double number_after(const std::string& option, const std::string& text, const std::string& digits);

// An option that means something in some commands only: whether this is one, and which ones are.
struct Meaning {
  const char* option;
  bool has_one;
  const char* only;
};
// Refuses each option that was given and has no meaning.
void refuse_meaningless(const CLI::App& command, std::initializer_list<Meaning> meanings);
// --f as the API takes it: 0 .. ranks - 1, else it is refused. One that was not given is at most that.
std::int32_t tolerated_failures(const CLI::App& command, std::int64_t f, std::int64_t ranks);

// LogGP parameters from a file. False: error names it, the line and the reason.
bool read_costs(const std::string& path, LogGP& costs, std::string& error);

// A namespace for each: they name things alike, and are compiled at once.
namespace explore_command {
void add_explore_command(CLI::App& app, int& exit_code);
}
namespace explore_host_command {
void add_explore_host_command(CLI::App& app, int& exit_code);
}
namespace explore_renewals_command {
void add_explore_renewals_command(CLI::App& app, int& exit_code);
}
namespace advise_command {
void add_advise_command(CLI::App& app, int& exit_code);
}
namespace optimise_command {
void add_optimise_command(CLI::App& app, int& exit_code);
}
namespace run_command {
void add_run_commands(CLI::App& app, int& exit_code);  // bcast, reduce, allreduce, barrier
}
namespace gossip_command {
void add_gossip_commands(CLI::App& app, int& exit_code);  // push_sum .. recursive_doubling: the rules
}
namespace gossip_operation_command {
void add_gossip_operation_command(CLI::App& app, int& exit_code);  // gossip: as the library does it
}

// "" or why there is no such tree.
inline std::string problem_with(const BroadcastShape& shape) {
  if (shape.arity < lowest_arity(shape.tree))
    return fmt::format("--arity {}: at least {} in a {} tree", shape.arity, lowest_arity(shape.tree),
                       tree_name(shape.tree));
  if (shape.tree == Tree::lame && shape.arity > highest_lame_arity)
    return fmt::format("--arity {}: at most {} in a lame tree", shape.arity, highest_lame_arity);
  if (shape.numbering == Numbering::in_order && !has_in_order_numbering(shape.tree))
    return fmt::format("--numbering in-order and --tree {}: that tree is interleaved only", tree_name(shape.tree));
  return "";
}
inline std::vector<std::string> names_of(std::span<const char* const> names) { return {names.begin(), names.end()}; }

}  // namespace ucft::detail::simulator
