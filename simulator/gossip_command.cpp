// ucft_sim push_sum | push_flow | pflc | pfcc | pcf | pcf_flip | pcf_printed | hps | hpflc | hpfcc | ardb |
// recursive_doubling
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "simulator/clock_options.hpp"
#include "simulator/commands.hpp"
#include "simulator/gossip_options.hpp"
#include "simulator/many_runs.hpp"

namespace ucft::detail::simulator::gossip_command {

namespace {

using Json = nlohmann::ordered_json;

struct Options : GossipOptions {
  GossipAlgorithm algorithm = GossipAlgorithm::push_sum;
  std::int64_t ranks = 32;
  std::vector<double> eps = {1e-6};
  std::string aggregate = "average", stop = "truth", physical;
  int rounds = 0, cycles = 0, check_every = 4;
  bool repair_initial = false, root = false, same_data = false, all_rounds = false, lock_step = false, history = false,
       large = false, small = false;
  double delay = 0.3, jitter = 0.2, detect = 1;
  std::vector<std::string> crashes, slow;

  std::uint64_t seed = 1;
  int runs = 1, threads = 0;
  bool each = false, json = false, quiet = false;
};

std::int64_t whole_of(const std::string& option, const std::string& text, const std::string& digits) {
  const double value = number_after(option, text, digits);
  if (value != std::floor(value) || value > 0x1p31)
    refuse(fmt::format("{} {}: '{}' is no whole number", option, text, digits));
  return static_cast<std::int64_t>(value);
}
// A@B
std::pair<std::string, std::string> halves(const std::string& option, const std::string& text, const char* form) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos) refuse(fmt::format("{} {}: expected {}", option, text, form));
  return {text.substr(0, at), text.substr(at + 1)};
}

// The threshold for the data's checksums: the size of the data decides what counts as an error of rounding.
double default_tau(const Options& options) {
  const double size = options.data == "bus" || options.data == "ranks" ? static_cast<double>(options.ranks) : 1;
  if (options.algorithm == GossipAlgorithm::pflc) return 0.5 * size;  // Casas et al., Figure 3
  return (options.precision == "single" ? 1e-4 : 1e-10) * size;       // the same, of pfcc
}

void parse_faults(const Options& options, GossipFaults& faults) {
  faults.detection_delay = options.detect;
  read_faults(options, faults);
  for (const std::string& text : options.crashes) {
    const auto [rank, when] = halves("--crash", text, "RANK@TIME");
    faults.deaths.push_back({static_cast<Rank>(whole_of("--crash", text, rank)), number_after("--crash", text, when)});
  }
}

GossipRun run_of(const Options& options) {
  GossipRun run;
  GossipPlan& plan = run.plan;
  plan.algorithm = options.algorithm;
  plan.neighbourhood = neighbourhood_of(options, options.algorithm, static_cast<Rank>(options.ranks));
  plan.accelerated = options.accelerate;
  plan.cycles = options.cycles;
  plan.tau = tau_of(options, options.algorithm, default_tau(options));
  plan.repairs_initial = options.repair_initial;
  run.single_precision = options.precision == "single";
  run.values = options.values;
  run.data = data_of(options);
  static const std::map<std::string, GossipAggregate> aggregates = {{"average", GossipAggregate::average},
                                                                    {"sum", GossipAggregate::sum},
                                                                    {"sum_one_hot", GossipAggregate::sum_one_hot}};
  run.aggregate = aggregates.at(options.aggregate);
  run.stop = options.stop == "truth"   ? GossipStop::truth
             : options.stop == "model" ? GossipStop::model
                                       : GossipStop::adaptive;
  run.rounds = options.rounds;
  run.root_only = options.root;
  run.all_rounds = options.all_rounds;
  run.lock_step = options.lock_step;
  run.delay = options.delay;
  run.jitter = options.jitter;
  run.check_every = options.check_every;
  run.keeps_history = options.history;
  if (!options.physical.empty()) {
    run.physical.emplace();
    parse_gossip_topology(options.physical, run.physical->topology);
    run.physical->ranks = static_cast<Rank>(options.ranks);
    run.physical->arity = options.arity;
  }
  parse_faults(options, run.faults);
  run.slow = parse_slow(options.slow, options.ranks);
  if (!run.slow.empty() && (goes_by_rounds(options.algorithm) || options.lock_step))
    refuse("--slow: by rounds and in lock step all ranks make an iteration together");
  if (options.all_rounds && options.rounds == 0 &&
      (uses_cycles(options.algorithm) || !goes_by_rounds(options.algorithm)))
    refuse("--all-rounds: how many? See --rounds");
  if (options.cycles > 0 && !uses_cycles(options.algorithm))
    refuse(fmt::format("--cycles: {} has none", gossip_algorithm_name(options.algorithm)));
  return run;
}

Json number_json(double value) {
  return std::isfinite(value)
             ? (value == std::floor(value) && std::abs(value) < 0x1p53 ? Json(static_cast<std::int64_t>(value))
                                                                       : Json(value))
             : Json(nullptr);
}

Json head_of(const Options& options, double eps) {
  Json row;
  row["algorithm"] = gossip_algorithm_name(options.algorithm);
  row["ranks"] = options.ranks;
  row["topology"] = options.topology;
  row["reach"] = options.reach;
  row["accelerate"] = options.accelerate;
  row["eps"] = eps;
  row["precision"] = options.precision;
  row["aggregate"] = options.aggregate;
  row["data"] = options.data;
  row["stop"] = options.stop;
  row["slow"] = fmt::format("{}", fmt::join(options.slow, " "));
  row["seed"] = options.seed;
  row["runs"] = options.runs;
  return row;
}

void print(const Options& options, const Json& row) {
  if (options.json) {
    fmt::print("{}\n", row.dump());
    return;
  }
  for (const auto& [key, value] : row.items())
    if (!value.is_array()) fmt::print("{:<18} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  fmt::print("\n");
}

void run_large(const Options& options) {
  std::vector<std::vector<double>> rounds(options.eps.size());
  std::vector<int> missed(options.eps.size(), 0);
  for_each_run(options.runs, 1, options.quiet,
               [&](int number, const RunProgress& progress) {  // each run has all threads
                 LargeRun run;
                 run.algorithm = options.algorithm;
                 run.ranks = options.ranks;
                 run.single_precision = options.precision == "single";
                 run.eps = options.eps;
                 run.seed = mixed(options.seed, static_cast<std::uint64_t>(number));
                 run.threads = threads_for(options.threads);
                 if (options.rounds > 0) run.rounds = options.rounds;
                 const LargeResult result = simulate_large(run, progress);
                 for (std::size_t i = 0; i < options.eps.size(); ++i) {
                   rounds[i].push_back(result.rounds[i] < 0 ? static_cast<double>(run.rounds) : result.rounds[i]);
                   missed[i] += result.rounds[i] < 0 ? 1 : 0;
                 }
               });
  for (std::size_t i = 0; i < options.eps.size(); ++i) {
    Json row = head_of(options, options.eps[i]);
    row["rounds"] = number_json(median_of(rounds[i]));
    row["rounds_min"] = number_json(*std::min_element(rounds[i].begin(), rounds[i].end()));
    row["rounds_max"] = number_json(*std::max_element(rounds[i].begin(), rounds[i].end()));
    row["messages"] = number_json(median_of(rounds[i]) * static_cast<double>(options.ranks));
    row["not_reached"] = missed[i];
    print(options, row);
  }
}

void run_all(const Options& options, const GossipRun& made, double eps) {
  std::vector<GossipResult> results(static_cast<std::size_t>(options.runs));
  for_each_run(options.runs, threads_for(options.threads), options.quiet, [&](int number, const RunProgress& progress) {
    GossipRun run = made;
    run.eps = eps;
    run.seed = run.plan.seed = mixed(options.seed, static_cast<std::uint64_t>(number));
    if (options.same_data) run.seed = options.seed;
    results[static_cast<std::size_t>(number)] = simulate(run, progress);
  });

  const auto print_summary = [&](std::span<const GossipResult> some, int number) {
    const auto values = [&](auto field) {
      std::vector<double> all;
      for (const GossipResult& result : some) all.push_back(static_cast<double>(field(result)));
      return all;
    };
    const auto add = [&](Json& row, const char* name, auto field) {
      row[name] = number_json(median_of(values(field)));
    };
    const auto most = [&](auto field) {
      const std::vector<double> all = values(field);
      return number_json(*std::max_element(all.begin(), all.end()));
    };
    const auto total = [&](auto field) {
      double sum = 0;
      for (double each : values(field)) sum += each;
      return number_json(sum);
    };
    Json row = head_of(options, eps);
    if (number >= 0) row["run"] = number;
    add(row, "rounds", [](const GossipResult& r) { return r.rounds; });
    const std::vector<double> rounds = values([](const GossipResult& r) { return r.rounds; });
    row["rounds_min"] = number_json(*std::min_element(rounds.begin(), rounds.end()));
    row["rounds_max"] = number_json(*std::max_element(rounds.begin(), rounds.end()));
    double sum = 0;
    for (double each : rounds) sum += each;
    row["rounds_mean"] = number_json(sum / static_cast<double>(rounds.size()));
    add(row, "error", [](const GossipResult& r) { return r.error; });
    row["error_max"] = most([](const GossipResult& r) { return r.error; });
    add(row, "error_all", [](const GossipResult& r) { return r.error_all; });
    add(row, "error_survivors", [](const GossipResult& r) { return r.error_survivors; });
    add(row, "best", [](const GossipResult& r) { return r.best; });
    if (options.stop == "adaptive") add(row, "bound", [](const GossipResult& r) { return r.bound; });
    add(row, "messages", [](const GossipResult& r) { return r.messages; });
    if (made.physical) {
      row["physical"] = options.physical;
      add(row, "hops", [](const GossipResult& r) { return r.hops; });
      row["hops_per_message"] = number_json(median_of(values([](const GossipResult& r) {
        return r.messages == 0 ? 0 : static_cast<double>(r.hops) / static_cast<double>(r.messages);
      })));
      row["hops_max"] = most([](const GossipResult& r) { return r.longest_way; });
      if (!goes_by_rounds(options.algorithm)) row["gap"] = 1 - second_eigenvalue(made.plan.neighbourhood);
    }
    row["lost"] = total([](const GossipResult& r) { return r.lost; });
    row["flips"] = total([](const GossipResult& r) { return r.flips; });
    row["not_reached"] = std::count_if(some.begin(), some.end(), [](const GossipResult& r) { return !r.reached; });
    row["not_a_number"] = total([](const GossipResult& r) { return r.not_a_number; });
    if (!has_checksums(options.algorithm))
      row["tau"] = nullptr;
    else
      row["tau"] = made.plan.tau;
    if (options.history) {
      std::vector<Json> worst, median;
      for (double each : some[0].history) worst.push_back(number_json(each));
      for (double each : some[0].median) median.push_back(number_json(each));
      row["history"] = worst;
      row["history_median"] = median;
    }
    print(options, row);
  };
  if (!options.each) {
    print_summary(results, -1);
    return;
  }
  for (int number = 0; number < options.runs; ++number)
    print_summary({&results[static_cast<std::size_t>(number)], 1}, number);
}

void run_command(const Options& options) {
  for (double eps : options.eps)
    if (!(eps > 0) || !std::isfinite(eps)) refuse(fmt::format("--eps {}: it must be a positive number", eps));
  GossipRun run = run_of(options);
  for (double eps : options.eps) {
    run.eps = eps;
    if (const std::string problem = problem_with(run); !problem.empty()) refuse(problem);
  }
  if (options.history && options.runs > 1 && !options.each) refuse("--history: of one run, or with --each");
  if (!options.small && !options.each && !options.same_data && can_run_large(run)) {
    run_large(options);
    return;
  }
  for (double eps : options.eps) run_all(options, run, eps);
}

void add_options(CLI::App& command, Options& options) {
  constexpr std::uint64_t most = 1 << 20;
  command.add_option("--ranks", options.ranks, "how many ranks")
      ->check(whole_between(1, std::uint64_t{1} << 30))
      ->capture_default_str();
  if (!goes_by_rounds(options.algorithm)) {
    add_topology_options(command, options);
    command.add_flag("--lock-step", options.lock_step,
                     "all ranks push, then all receive; otherwise each at its own time");
    command.add_option("--delay", options.delay, "of a message, in iterations; with --physical, of each of its hops")
        ->check(number_between(0, 1e6))
        ->capture_default_str();
    command
        .add_option("--jitter", options.jitter,
                    "iterations take 1 - JITTER/2 .. 1 + JITTER/2, messages DELAY .. DELAY (1 + JITTER)")
        ->check(number_between(0, 1))
        ->capture_default_str();
  }
  std::vector<std::string> machines = names_of(gossip_topology_names());
  std::erase(machines, "random_regular");
  command
      .add_option("--physical", options.physical,
                  "the shape of the machine's network: counts the hops of messages on it (a tree: of --arity, or 2)")
      ->check(CLI::IsMember(machines));
  if (uses_cycles(options.algorithm))
    command.add_option("--cycles", options.cycles, "so many cycles, used in turn (default: a new one in each round)")
        ->check(whole_between(1, most));
  command.add_option("--eps", options.eps, "worst relative error of any rank; several: a line each")
      ->delimiter(',')
      ->default_str("1e-06");
  command.add_flag("--root", options.root, "that of rank 0, not the worst");
  add_data_options(command, options);
  command.add_flag("--same-data", options.same_data, "in all runs: only their choices and cycles differ");
  command
      .add_option("--aggregate", options.aggregate,
                  "average; sum (average times N); sum_one_hot (only rank 0 has a weight)")
      ->check(CLI::IsMember({"average", "sum", "sum_one_hot"}))
      ->capture_default_str();
  command
      .add_option("--stop", options.stop,
                  "truth: when the worst error is EPS. model: after the rounds that ucft would choose. adaptive: when "
                  "the ranks agree to within EPS")
      ->check(CLI::IsMember({"truth", "model", "adaptive"}))
      ->capture_default_str();
  command.add_option("--check-every", options.check_every, "rounds between two looks of adaptive")
      ->check(whole_between(1, most))
      ->capture_default_str();
  command.add_option("--rounds", options.rounds, "at most (default: ten times the model's)")
      ->check(whole_between(1, most));
  command.add_flag("--all-rounds", options.all_rounds, "go on to --rounds when EPS has been reached");
  if (has_checksums(options.algorithm)) {
    add_tau_option(command, options,
                   "(default: 0.5 for pflc, 1e-10 for the others, 1e-4 in single precision, times N for data bus "
                   "and ranks)");
    command.add_flag("--repair-initial", options.repair_initial,
                     "what a rank gave, if it was corrupted, is calculated anew from its mass and its flows");
  }

  add_fault_options(command, options, !goes_by_rounds(options.algorithm));
  command.add_option("--crash", options.crashes, "RANK@TIME: dies")->delimiter(',');
  command
      .add_option("--slow", options.slow,
                  "RANK@FACTOR: its iterations take FACTOR times as long; several: ','. Not by rounds")
      ->delimiter(',');
  command.add_option("--detect", options.detect, "from a death until the neighbours know")
      ->check(number_between(0, longest_time))
      ->capture_default_str();

  command.add_option("--seed", options.seed, "of all that is drawn")
      ->check(whole_between(0, UINT64_MAX))
      ->capture_default_str();
  command.add_option("--runs", options.runs, "how many runs")->check(whole_between(1, 1000000))->capture_default_str();
  command.add_option("--threads", options.threads, "0: one per core; results don't depend on it")
      ->check(whole_between(0, 4096));
  command.add_flag("--each", options.each, "a line for each run, not for all of them");
  command.add_flag("--history", options.history, "the worst and the median error after each round");
  command.add_flag("--objects", options.small, "hps, ardb: simulate every rank's object, where values alone would do");
  command.add_flag("--json", options.json, "one JSON object per line");
  command.add_flag("--quiet", options.quiet, "no progress bar on long runs");
}

}  // namespace

void add_gossip_commands(CLI::App& app, int& exit_code) {
  static constexpr const char* texts[] = {"gossip all-reduce, the rules alone: Push-Sum",
                                          "Push-Flow",
                                          "Push-Flow with local correction",
                                          "Push-Flow with cooperative correction",
                                          "Push-Cancel-Flow with a handshake",
                                          "the same, tolerant of flipped bits",
                                          "Push-Cancel-Flow as printed, for study",
                                          "Push-Sum on random cycles, by rounds",
                                          "PFLC on random cycles, by rounds",
                                          "approximate recursive doubling",
                                          "recursive doubling",
                                          "PFCC on random cycles, by rounds"};
  for (int each = 0; each < gossip_algorithm_count; ++each) {
    auto options = std::make_shared<Options>();
    options->algorithm = static_cast<GossipAlgorithm>(each);
    CLI::App* command = app.add_subcommand(gossip_algorithm_name(options->algorithm), texts[each]);
    add_options(*command, *options);
    command->callback([options, &exit_code] {
      run_command(*options);
      exit_code = 0;
    });
  }
}

}  // namespace ucft::detail::simulator::gossip_command
