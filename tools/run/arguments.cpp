// The command line of ucft_run: options first, then the program with its own options.
#include "tools/run/arguments.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "ucft/ucft.h"
#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

namespace ucft::detail::run {

namespace {

struct Unit {
  std::string_view suffix;
  double microseconds;
};
constexpr Unit units[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"", 1e6}};
constexpr std::string_view from_program_start = "start+";
constexpr double longest_us = 10 * 365 * 86400 * 1e6;

// CLI11 does not know of the program that follows the options.
class Help : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: ucft_run -n N [options] program [arguments of the program]\n";
  }
};

// As the user typed it, before the values are looked at.
struct RawArguments {
  std::string rank_count;
  std::string bind = "none";
  std::vector<std::string> kills;
  std::vector<std::string> stops;
  std::vector<std::string> expected_kills;
  std::string startup_limit = "60s";
  std::string job_limit;
  std::string respawns = "0";
  bool no_tag = false;
  bool no_terminal = false;
};

int parse_count(const std::string& option, const std::string& text, int lowest, int highest) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < lowest || value > highest) {
    throw std::invalid_argument(fmt::format("{}: '{}' is not a number from {} to {}", option, text, lowest, highest));
  }
  return value;
}

Duration duration_argument(const std::string& option, const std::string& text) {
  const auto duration = parse_duration(text);
  if (!duration) {
    throw std::invalid_argument(
        fmt::format("{}: '{}' is not a time (500ms, 2s, 1.5s, 100us; a bare number is seconds)", option, text));
  }
  return *duration;
}

Duration positive_duration(const std::string& option, const std::string& text) {
  const Duration duration = duration_argument(option, text);
  if (duration.count() == 0) throw std::invalid_argument(fmt::format("{}: must be more than 0", option));
  return duration;
}

// "3@1.5s", "3@start+60ms"
PlannedSignal planned_signal(const std::string& option, const std::string& text, int rank_count, int signal) {
  const auto at = text.find('@');
  if (at == std::string::npos) {
    throw std::invalid_argument(
        fmt::format("{}: '{}' is not of the form RANK@TIME, e.g. 3@1.5s or 3@start+1.5s", option, text));
  }
  const std::string context = fmt::format("{} {}", option, text);
  const int rank = parse_count(context + ": rank", text.substr(0, at), 0, rank_count - 1);
  std::string time = text.substr(at + 1);
  const bool from_start = time.rfind(from_program_start, 0) == 0;
  if (from_start) time.erase(0, from_program_start.size());
  return {rank, from_start ? Origin::program_start : Origin::start_up_end, duration_argument(context, time), signal};
}

// "2", "0-3"; several with a comma between them.
void add_expected_kills(const std::string& text, int rank_count, ExpectedKills& expected) {
  if (text == "all" || text == "any") {
    (text == "all" ? expected.all : expected.any) = true;
    return;
  }
  std::istringstream parts(text + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string context = part == text ? "--expect-kill" : "--expect-kill " + text;
    const auto dash = part.find('-');
    const int first = parse_count(context, part.substr(0, dash), 0, rank_count - 1);
    const int last =
        dash == std::string::npos ? first : parse_count(context, part.substr(dash + 1), first, rank_count - 1);
    for (int rank = first; rank <= last; ++rank) expected.ranks.push_back(rank);
  }
}

void add_options(CLI::App& app, RawArguments& raw, Arguments& arguments) {
  app.prefix_command();
  app.set_version_flag("--version", std::string("ucft_run ") + UCFT_VERSION_STRING);
  app.add_option("-n,--np", raw.rank_count, "How many ranks to start (-np N as well)")->type_name("N")->required();
  app.add_option("--bind", raw.bind,
                 "Each rank runs on one core, L3 cache, NUMA node or package (see below), or anywhere")
      ->type_name("core|l3|numa|package|none")
      ->capture_default_str();
  app.add_option("--kill", raw.kills, "Kill that rank (SIGKILL) TIME after start-up; may be repeated")
      ->type_name("RANK@TIME")
      ->allow_extra_args(false);
  app.add_option("--stop", raw.stops, "Stop that rank (SIGSTOP) TIME after start-up; may be repeated")
      ->type_name("RANK@TIME")
      ->allow_extra_args(false);
  app.add_option(
         "--expect-kill", raw.expected_kills,
         "Those ranks may end by SIGKILL, whoever sends it (themselves, say): as if killed on purpose; may be repeated")
      ->type_name("0,1|0-3|any|all")
      ->allow_extra_args(false);
  app.add_option("--startup-timeout", raw.startup_limit,
                 "How long ranks wait for each other in start-up before those missing are named")
      ->type_name("TIME")
      ->capture_default_str();
  app.add_option("--timeout", raw.job_limit, "End everything after TIME, with exit code 124")->type_name("TIME");
  app.add_option("--respawn", raw.respawns,
                 "Start a new process for a rank that fails, up to N times: it joins the job as a newcomer")
      ->type_name("N");
  app.add_option("--join", arguments.join,
                 "The N ranks are newcomers of a job that runs: they ask the rank with that address")
      ->type_name("HOST:PORT[,..]");
  app.add_flag("--no-tag", raw.no_tag, "Do not put [RANK] in front of each line of output");
  app.add_flag("--no-terminal", raw.no_terminal,
               "Ranks write to a pipe, not to a pseudo-terminal: lines come when a program's buffer is full");
  app.add_flag("--json", arguments.json, "Print a JSON object about the job at the end, as one line on stdout");
  app.footer(
      "--bind core: rank r runs on the r-th core that ucft_run may use, with all of its hardware threads, modulo "
      "their\n"
      "number. l3, numa, package: of U of them, rank r of N runs on number r*U/N, so that ranks fill one after the "
      "other;\n"
      "with fewer ranks than that, on number r. A machine without L3 caches: its packages.\n"
      "TIME: 500ms, 2s, 1.5s, 100us; a bare number is seconds.\n"
      "--kill, --stop: TIME counts from the end of start-up, which is when ucft_context_create has ended on all "
      "ranks.\n"
      "A start-up that fails counts as its end. RANK@start+TIME counts from the start of the program. So does\n"
      "RANK@TIME in a program that does not use ucft, once --startup-timeout has passed. A line on stderr says when\n"
      "each of them fires. A rank that is stopped is killed by the others after UCFT_SUSPECT_AFTER (1 s).\n"
      "--expect-kill: ranks 0,1 or 0-3; any: whichever ranks, as long as one survives; all: every rank, survivors or "
      "not.\n"
      "--respawn: sets UCFT_JOINABLE=y for all ranks. The program calls ucft_comm_renew now and then, and starts with\n"
      "ucft_comm_join. A newcomer wants the seat of the rank that has failed. The first one of a seat starts at once;\n"
      "one that fails within 10 s is followed after 0.1 s, then 0.2 s, up to 10 s. A rank that is killed on purpose "
      "is\n"
      "followed at once. A newcomer that fails before it has joined does not count for the exit code.\n"
      "--join: the job's ranks were started with UCFT_JOINABLE=y. Both sides need its secret: UCFT_JOIN_SECRET_FILE\n"
      "names a file with 64 hexadecimal digits.\n"
      "Exit code: 0 if each rank that was not killed or stopped on purpose exits with 0, else that of the first rank\n"
      "that failed (128+signal if it was killed). 2: wrong usage, 124: --timeout passed, 125: ucft_run itself failed,\n"
      "126, 127: the program cannot be executed, or found. A rank that fails does not end the others.\n"
      "A rank's stdout is a pseudo-terminal, so lines appear as they are written, and a rank that is killed loses "
      "none.\n"
      "Ranks get TERM=dumb if ucft_run's own stdout is no terminal. Rank 0 reads ucft_run's stdin, the others "
      "end-of-file.\n"
      "Ranks find UCFT_RANK, UCFT_SIZE, UCFT_LOCAL_RANK, UCFT_RENDEZVOUS and UCFT_JOB_SECRET in their environment. "
      "For\n"
      "PyTorch's env:// they find RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, a free\n"
      "port on loopback. A MASTER_ADDR or MASTER_PORT that is in the environment already is kept.");
}

// mpirun's "-np N" has the form of "-n p": among the options it becomes "--np". Last word first, as CLI11 wants it.
std::vector<std::string> words_for_parser(const CLI::App& app, int argument_count, char** argument_values) {
  std::vector<std::string> words(argument_values + 1, argument_values + argument_count);
  for (std::size_t i = 0; i < words.size() && words[i].size() > 1 && words[i][0] == '-' && words[i] != "--"; ++i) {
    if (words[i] == "-np") words[i] = "--np";
    const CLI::Option* option = app.get_option_no_throw(words[i]);
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;  // its value is the next word
  }
  std::reverse(words.begin(), words.end());
  return words;
}

void refuse_unknown_option(const std::vector<std::string>& rest) {
  if (!rest.empty() && rest[0].size() > 1 && rest[0][0] == '-' && rest[0] != "--")
    throw std::invalid_argument(fmt::format("unknown option {}", rest[0]));
}

std::vector<std::string> command_of(const CLI::App& app) {
  std::vector<std::string> command = app.remaining();
  refuse_unknown_option(command);
  if (!command.empty() && command[0] == "--") command.erase(command.begin());
  if (command.empty()) throw std::invalid_argument("no program is given");
  return command;
}

void interpret(const RawArguments& raw, Arguments& arguments) {
  arguments.rank_count = parse_count("-n", raw.rank_count, 1, bootstrap::max_ranks);
  const auto bind = bind_named(raw.bind);
  if (!bind) {
    throw std::invalid_argument(fmt::format("--bind: '{}' is none of core, l3, numa, package, none", raw.bind));
  }
  arguments.bind = *bind;
  for (const auto& text : raw.kills) {
    arguments.planned_signals.push_back(planned_signal("--kill", text, arguments.rank_count, SIGKILL));
  }
  for (const auto& text : raw.expected_kills) {
    add_expected_kills(text, arguments.rank_count, arguments.expected_kills);
  }
  for (const auto& text : raw.stops) {
    arguments.planned_signals.push_back(planned_signal("--stop", text, arguments.rank_count, SIGSTOP));
  }
  arguments.respawns = parse_count("--respawn", raw.respawns, 0, 1'000'000'000);
  if (arguments.respawns > 0 && !arguments.join.empty())
    throw std::invalid_argument("--respawn and --join exclude each other: the job itself is started with --respawn");
  arguments.tag_lines = !raw.no_tag;
  arguments.use_terminals = !raw.no_terminal;
  arguments.startup_limit = positive_duration("--startup-timeout", raw.startup_limit);
  if (!raw.job_limit.empty()) arguments.job_limit = positive_duration("--timeout", raw.job_limit);
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (problem != std::errc()) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (suffix != unit.suffix) continue;
    const double microseconds = number * unit.microseconds;
    if (!(microseconds >= 0 && microseconds <= longest_us)) return std::nullopt;  // NaN ends here too
    return Duration(static_cast<Duration::rep>(microseconds));
  }
  return std::nullopt;
}

ParsedArguments parse_arguments(int argument_count, char** argument_values) {
  CLI::App app("Starts N ranks of a program on this machine, and ends whatever is left of them.", "ucft_run");
  app.formatter(std::make_shared<Help>());
  RawArguments raw;
  Arguments arguments;
  add_options(app, raw, arguments);
  try {
    try {
      app.parse(words_for_parser(app, argument_count, argument_values));
    } catch (const CLI::RequiredError&) {  // options end at one that is unknown: -n may follow it
      refuse_unknown_option(app.remaining());
      throw std::invalid_argument("-n N is missing: how many ranks to start");
    }
    arguments.command = command_of(app);
    interpret(raw, arguments);
  } catch (const CLI::Success& success) {  // --help, --version
    return {std::nullopt, app.exit(success)};
  } catch (const std::exception& problem) {
    fmt::print(stderr, "ucft_run: {}\nRun with --help for more information.\n", problem.what());
    return {std::nullopt, exit_usage};
  }
  return {arguments, 0};
}

}  // namespace ucft::detail::run
