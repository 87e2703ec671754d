// The command line of ucft_run. Everything wrong with it is named before anything starts.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ucx_layer/bootstrap/machine.hpp"

namespace ucft::detail::run {

using Duration = std::chrono::microseconds;

// The time of a planned signal counts from here: RANK@TIME and RANK@start+TIME.
enum class Origin { start_up_end, program_start };

// --kill, --stop.
struct PlannedSignal {
  int rank = 0;
  Origin origin = Origin::start_up_end;
  Duration after{};
  int signal = 0;
};

// --expect-kill: the ranks that may end by SIGKILL, from any sender.
struct ExpectedKills {
  std::vector<int> ranks;
  bool all = false;
  bool any = false;  // any of them, as long as one rank survives
};

struct Arguments {
  int rank_count = 0;
  Bind bind = Bind::none;
  std::vector<PlannedSignal> planned_signals;
  ExpectedKills expected_kills;
  Duration startup_limit = std::chrono::seconds(60);
  std::optional<Duration> job_limit;
  int respawns = 0;  // newcomers to start for ranks that fail
  std::string join;  // addresses of a job whose newcomers the ranks are; empty: they are a job
  bool tag_lines = true;
  bool use_terminals = true;  // as the ranks' stdout
  bool json = false;
  std::vector<std::string> command;  // program and its arguments
};

// Exit codes of ucft_run itself, next to those of the ranks.
inline constexpr int exit_usage = 2;
inline constexpr int exit_timeout = 124;
inline constexpr int exit_internal = 125;
inline constexpr int exit_not_executable = 126;
inline constexpr int exit_not_found = 127;

// "500ms", "2s", "1.5s", "100us"; a bare number is seconds. nullopt: not of that form, or beyond ten years.
std::optional<Duration> parse_duration(std::string_view text);

// The arguments, or the exit code (0 after --help and --version); the message has been printed.
struct ParsedArguments {
  std::optional<Arguments> arguments;
  int exit_code = 0;
};
ParsedArguments parse_arguments(int argument_count, char** argument_values);

}  // namespace ucft::detail::run
