// ucft_sim gossip: a gossip all-reduce as the library does it, under the LogGP clock, with failures, as often as asked.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "simulator/clock_options.hpp"
#include "simulator/commands.hpp"
#include "simulator/gossip_operation_run.hpp"
#include "simulator/gossip_options.hpp"
#include "simulator/many_runs.hpp"

namespace ucft::detail::simulator::gossip_operation_command {

namespace {

using Json = nlohmann::ordered_json;
using Results = std::vector<GossipOperationResult>;

struct Options : ClockOptions, GossipOptions, RunOptions {
  std::string algorithm = "pcf", aggregate = "average", stop = "model";
  std::int64_t ranks = 8, f = 1;
  double eps = 1e-6;
  int rounds = 0, cycles = 0;
  std::string repair_initial = "default";

  bool two_level = false, quiet = false;
};

GossipOperationRun run_of(const Options& options, const CLI::App& command) {
  GossipOperationRun run;
  run.setting.ranks = static_cast<Rank>(options.ranks);
  set_clock(options, true, run.setting);
  run.f = tolerated_failures(command, options.f, options.ranks);
  run.data = data_of(options);
  read_faults(options, run.faults);
  GossipCall& call = run.call;
  parse_gossip_algorithm(options.algorithm, call.plan.algorithm);
  call.plan.neighbourhood = neighbourhood_of(options, call.plan.algorithm, run.setting.ranks);
  call.plan.accelerated = options.accelerate;
  call.plan.tau = tau_of(options, call.plan.algorithm, 0);
  static const std::map<std::string, int> answers = {{"default", 0}, {"yes", 1}, {"no", -1}};
  call.eps = options.eps;
  call.adaptive = options.stop == "adaptive";
  call.sum = options.aggregate == "sum";
  if (options.aggregate == "minimum") call.plan.extremum = GossipExtremum::minimum;
  if (options.aggregate == "maximum") call.plan.extremum = GossipExtremum::maximum;
  call.is_float = options.precision == "single";
  call.count = static_cast<std::uint64_t>(options.values);
  for (const auto& [option, topology] : {std::pair("--arity", "tree"), std::pair("--degree", "random_regular"),
                                         std::pair("--topology-seed", "random_regular")})
    if (command.count(option) > 0 && options.topology != topology)
      refuse(fmt::format("{}: of --topology {} only, not of {}", option, topology, options.topology));
  if (options.rounds > 0 && call.plan.algorithm == GossipAlgorithm::recursive_doubling)
    refuse("--rounds: recursive_doubling has as many as it needs");
  if (const std::string problem = problem_with(call.plan.neighbourhood); !problem.empty()) refuse(problem);
  GossipPlan between_hosts = call.plan;
  if (options.two_level) {
    const auto a_host = static_cast<Rank>(options.shape.ranks_per_host);
    if (a_host < 2 || a_host >= run.setting.ranks)
      refuse(fmt::format("--two-level: --ranks-per-host {} of {} ranks doesn't make several hosts", a_host,
                         options.ranks));
    if (run.faults.any()) refuse("--two-level: not with faults on purpose, which hit ranks and their links");
    for (Rank rank = 0; rank < run.setting.ranks; ++rank) run.hosts.push_back(rank - rank % a_host);
    between_hosts.neighbourhood = mended(call.plan.neighbourhood, (run.setting.ranks + a_host - 1) / a_host);
  }
  call.iterations = options.rounds > 0 ? options.rounds : rounds_for(between_hosts, call.eps);
  if (const std::string problem = call.choose_repair(options.cycles, answers.at(options.repair_initial));
      !problem.empty())
    refuse(problem);
  return run;
}

GossipOperationRun draw_run(const Options& options, const GossipOperationRun& made, int number) {
  GossipOperationRun run = made;
  run.setting.seed = run.call.plan.seed = run.faults.seed = mixed(options.seed, static_cast<std::uint64_t>(number));
  std::string error;
  if (!draw_failures(options.failures, {}, network_of(options), run.setting.seed, run.setting, error)) refuse(error);
  if (const std::string problem = problem_with(run); !problem.empty()) refuse(problem);
  return run;
}

// null: it never happened, or is no number.
Json number_json(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value == std::floor(value) && std::abs(value) < 0x1p53 ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Json head_of(const Options& options, const GossipOperationRun& run) {
  const LogGP& costs = run.setting.costs;
  return {{"operation", "gossip"},
          {"algorithm", options.algorithm},
          {"ranks", options.ranks},
          {"topology", options.topology},
          {"reach", options.reach},
          {"accelerate", options.accelerate},
          {"f", run.f},
          {"eps", options.eps},
          {"stop", options.stop},
          {"aggregate", options.aggregate},
          {"precision", options.precision},
          {"values", options.values},
          {"data", options.data},
          {"L", costs.latency},
          {"o_send", costs.send_overhead},
          {"o_receive", costs.receive_overhead},
          {"g", costs.gap},
          {"G", costs.gap_per_byte},
          {"one_processor", costs.one_processor},
          {"network", options.network},
          {"two_level", options.two_level},
          {"jitter", options.jitter},
          {"skew", options.skew},
          {"slow", fmt::format("{}", fmt::join(options.slow, " "))},
          {"noise", options.noise},
          {"detect", number_json(run.setting.detection_delay)},
          {"seed", options.seed}};
}

// Medians over the runs, unless their name says otherwise.
Json summary_of(const Options& options, const GossipOperationRun& run, std::span<const GossipOperationResult> results) {
  Json row = head_of(options, run);
  row["runs"] = results.size();
  const auto values = [&](auto field) {
    std::vector<double> all;
    for (const GossipOperationResult& result : results) all.push_back(static_cast<double>(field(result)));
    return all;
  };
  const auto median = [&](const char* name, auto field) { row[name] = number_json(median_of(values(field))); };
  const auto most = [&](const char* name, auto field) { row[name] = number_json(std::ranges::max(values(field))); };
  const auto count = [&](const char* name, auto field) {
    double sum = 0;
    for (double each : values(field)) sum += each;
    row[name] = number_json(sum);
  };
  using Result = GossipOperationResult;
  median("latency", [](const Result& r) { return r.latency; });
  most("latency_max", [](const Result& r) { return r.latency; });
  median("first", [](const Result& r) { return r.first; });
  median("others", [](const Result& r) { return r.others; });
  median("within_eps_first", [](const Result& r) { return r.within_eps.first; });
  median("within_eps_median", [](const Result& r) { return r.within_eps.median; });
  median("within_eps_last", [](const Result& r) { return r.within_eps.last; });
  median("within_eps_slow", [](const Result& r) { return r.within_eps_slow; });
  median("without_slow_first", [](const Result& r) { return r.without_slow.first; });
  median("without_slow_median", [](const Result& r) { return r.without_slow.median; });
  median("without_slow_last", [](const Result& r) { return r.without_slow.last; });
  median("iterations", [](const Result& r) { return r.iterations; });
  median("stages", [](const Result& r) { return r.stages; });
  median("agreements", [](const Result& r) { return r.agreements; });
  median("messages", [](const Result& r) { return r.messages; });
  median("agreement_messages", [](const Result& r) { return r.agreement_messages; });
  median("payload", [](const Result& r) { return r.bytes; });
  median("error", [](const Result& r) { return r.error; });
  most("error_max", [](const Result& r) { return r.error; });
  median("bound", [](const Result& r) { return r.bound; });
  most("bound_max", [](const Result& r) { return r.bound; });
  count("not_reached", [](const Result& r) { return !r.reached; });
  median("live", [](const Result& r) { return r.live; });
  most("missing_max", [](const Result& r) { return r.missing.size(); });
  if (results.size() == 1) {
    static constexpr const char* answers[] = {"all_ranks", "survivors", "nearly_all_ranks"};
    row["missing"] = results[0].missing;
    row["answer"] = answers[static_cast<int>(results[0].answer)];
  }
  count("lost", [](const Result& r) { return r.injected.lost; });
  count("flips", [](const Result& r) { return r.injected.flips; });
  count("failed_links", [](const Result& r) { return r.injected.failed_links; });
  count("above_bound", [](const Result& r) { return r.above_bound; });
  count("missed", [](const Result& r) { return r.missed; });
  count("wrong", [](const Result& r) { return r.wrong; });
  count("events", [](const Result& r) { return r.events; });
  return row;
}

void print(const Options& options, const Json& row) {
  if (options.json) {
    fmt::print("{}\n", row.dump());
    return;
  }
  for (const auto& [name, value] : row.items())
    fmt::print("{:<19}{}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
}

int run_and_print(Options& options, const CLI::App& command) {
  parse_failures(options, options.ranks);
  refuse_meaningless_network(command, options, options.two_level);
  const GossipOperationRun made = run_of(options, command);
  const std::unique_ptr<Network> network = make_network(network_of(options), made.setting.costs);
  Results results(static_cast<std::size_t>(options.runs));
  (void)draw_run(options, made, 0);  // what can't be had is refused here
  for_each_run(options.runs, threads_for(options.threads), options.quiet, [&](int number, const RunProgress&) {
    GossipOperationRun run = draw_run(options, made, number);
    run.setting.network = network.get();
    results[static_cast<std::size_t>(number)] = simulate(run);
  });
  for (std::size_t i = 0; options.each && i < results.size(); ++i) {
    Json row = summary_of(options, made, {&results[i], 1});
    row["run"] = i;
    print(options, row);
  }
  if (!options.each) print(options, summary_of(options, made, results));
  const auto wrong =
      std::ranges::count_if(results, [](const auto& each) { return each.wrong > 0 || each.above_bound; });
  if (wrong > 0)
    fmt::print(stderr, "ucft_sim: {} wrong results: this is a bug of ucft, please report the command\n", wrong);
  return wrong == 0 ? 0 : 1;
}

void add_options(CLI::App& command, Options& options) {
  constexpr std::uint64_t most = 1 << 20;
  std::vector<std::string> algorithms = names_of(gossip_algorithm_names());
  std::erase(algorithms, gossip_algorithm_name(GossipAlgorithm::pcf_printed));  // for study only
  command.add_option("--algorithm", options.algorithm, "of the gossip")
      ->check(CLI::IsMember(algorithms))
      ->capture_default_str();
  command.add_option("--ranks", options.ranks, "how many ranks")->check(whole_between(1, most))->capture_default_str();
  command.add_option("--f", options.f, "failures that an agreement tolerates")
      ->check(whole_between(0, most))
      ->capture_default_str();
  add_topology_options(command, options);
  command.add_option("--eps", options.eps, "the error that is asked for, relative to the largest value of the result")
      ->check(number_between(0, 1))
      ->capture_default_str();
  command
      .add_option("--stop", options.stop,
                  "model: after one stage, of the model's iterations. adaptive: when the bound is EPS or less")
      ->check(CLI::IsMember({"model", "adaptive"}))
      ->capture_default_str();
  command.add_option("--rounds", options.rounds, "iterations, or rounds, of the first stage (default: the model's)")
      ->check(whole_between(1, most));
  command
      .add_option("--aggregate", options.aggregate,
                  "average; sum (average times those that it stands for); minimum; maximum")
      ->check(CLI::IsMember({"average", "sum", "minimum", "maximum"}))
      ->capture_default_str();
  add_data_options(command, options);
  add_tau_option(command, options, "(default: from the data, when the ranks meet)");
  command
      .add_option("--cycles", options.cycles,
                  "hps, hpflc, hpfcc: so many cycles, used in turn; -1: a new one in each round; 0: hps -1, the "
                  "others half of the first stage's rounds, at most 16")
      ->capture_default_str();
  command
      .add_option("--repair-initial", options.repair_initial,
                  "whether a rank's own values are repaired by their checksum; default: hpflc and hpfcc yes, others no")
      ->check(CLI::IsMember({"default", "yes", "no"}))
      ->capture_default_str();
  add_clock_options(command, options);
  command.add_flag("--two-level", options.two_level,
                   "one of the --ranks-per-host gossips for its host, as in the library's jobs over several hosts");
  add_fault_options(command, options, true);

  add_run_options(command, options);
  command.add_flag("--quiet", options.quiet, "no progress bar on long runs");
}

}  // namespace

void add_gossip_operation_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "gossip",
      "a gossip all-reduce under the clock, as the library does it: by messages (one-sided is not simulated), times in "
      "us. push_sum .. recursive_doubling simulate the papers' rules without it");
  add_options(*command, *options);
  command->callback([options, command, &exit_code] { exit_code = run_and_print(*options, *command); });
}

}  // namespace ucft::detail::simulator::gossip_operation_command
