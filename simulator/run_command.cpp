// ucft_sim bcast | reduce | allreduce | ..: one collective under the clock, with failures, as often as asked.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/models/gossip_model.hpp"
#include "collectives/models/plain_model.hpp"
#include "collectives/topology/names.hpp"
#include "simulator/clock_options.hpp"
#include "simulator/commands.hpp"
#include "simulator/comparators.hpp"
#include "simulator/many_runs.hpp"
#include "simulator/printed_rows.hpp"
#include "collectives/core/random.hpp"
#include "simulator/trace.hpp"
#include "simulator/two_level_run.hpp"
#include "simulator/world.hpp"

namespace ucft::detail::simulator::run_command {

namespace {

struct Options : ClockOptions, RunOptions {
  Kind kind = Kind::broadcast;
  const char* name = "bcast";
  std::string algorithm = "corrected";
  std::int64_t ranks = 8, root = 0, hosts = 0;
  double gather = 1, deliver = 1, proof_delay = -1;
  std::int64_t crash_hosts = 0, crash_speakers = 0;
  std::int64_t f = 1;  // run_and_print makes it what is in force
  std::string tree = "binomial", numbering = "interleaved", correction = "none";
  int arity = 4, distance = 0;
  bool phased = false, optimistic = false, corrected_are_silent = false;
  std::uint64_t bytes = 8;
  double gossip_time = 0, ask_after = -1, panic_after = -1;
  bool no_panic = false;

  bool csv = false, quiet = false, traces = false;
  std::string trace;

  Rank processes() const { return static_cast<Rank>(hosts > 0 ? hosts : ranks); }
};

constexpr std::int64_t most_ranks_of_a_run = 1 << 24;
// Numbers that all ranks of a run have together. A sum has as many messages twice, an exchange at the same time.
constexpr std::uint64_t most_numbers = 1 << 28, most_numbers_of_a_sum = 1 << 26, most_numbers_of_an_exchange = 1 << 24;

struct Task {
  CollectiveRun run;
  ComparatorRun comparator;
  TwoLevelRun two_level;
  bool compares = false, is_two_level = false;
  NetworkShape network;
};

// Broadcasts by gossip, with the correction that makes them OCG, CCG and FCG; gossip: with the one that is given.
constexpr std::array<std::pair<const char*, Correction>, 4> gossips{{{"ocg", Correction::opportunistic},
                                                                     {"ccg", Correction::checked},
                                                                     {"fcg", Correction::failure_proof},
                                                                     {"gossip", Correction::none}}};

// That a rank gives: --bytes, or as much for each rank.
std::uint64_t given_bytes(const Options& options) {
  const CatalogueRow& row = row_of(options.kind);
  const bool has_shares = row.has_shares() || row.lands == Lands::share_of_each;
  return options.bytes * static_cast<std::uint64_t>(has_shares ? options.ranks : 1);
}

// A long alltoall or scatter is an exchange, as in the library.
Kind kind_of(const Options& options) {
  const CatalogueRow& row = row_of(options.kind);
  const std::uint64_t bytes = given_bytes(options) * static_cast<std::uint64_t>(row.from_root() ? 1 : options.ranks);
  if (options.algorithm != "corrected" || !Exchange::carries(row, bytes, options.processes(), {})) return options.kind;
  return Exchange::kind_for(row);
}

bool by_gossip(const Options& options) {
  return std::ranges::any_of(gossips, [&](const auto& each) { return options.algorithm == each.first; });
}

void set_gossip_of(const Options& options, const LogGP& costs, Arguments& arguments) {
  if (row_of(options.kind).collects) refuse(fmt::format("--algorithm {}: not of this operation", options.algorithm));
  if (options.phased) refuse(fmt::format("--phased: --algorithm {} is, at T", options.algorithm));
  if (options.algorithm != "gossip" && options.correction != "none")
    refuse(fmt::format("--correction {}: --algorithm {} has its own", options.correction, options.algorithm));
  for (const auto& [name, correction] : gossips)
    if (options.algorithm == name && options.algorithm != "gossip") arguments.correction = correction;
  if (options.gossip_time > 1e6 * costs.per_message() || options.gossip_time * 1000 > gossip_time_limit_ns)
    refuse("--gossip-time: more than a million messages per rank by o and g, or more than 1000000");
  if (costs.per_message() < 0.001 || costs.per_message() > 1e5)
    refuse("--o, --g: gossip counts time in thousandths: a message takes 0.001 .. 100000");
  set_gossip(costs, given_bytes(options), static_cast<std::int32_t>(options.ranks),
             std::llround(options.gossip_time * 1000), arguments);
  arguments.gossip.ask_after_ns = options.ask_after < 0 ? never_asks : std::llround(options.ask_after * 1000);
  if (options.panic_after >= 0) arguments.gossip.panic_after_ns = std::llround(options.panic_after * 1000);
  if (options.no_panic) arguments.gossip.panic_after_ns = never_asks;
}

Arguments arguments_of(const Options& options, const LogGP& costs) {
  Arguments arguments;
  arguments.kind = kind_of(options);
  arguments.f = static_cast<std::int32_t>(options.f);
  arguments.root = static_cast<Rank>(options.root);
  parse_tree(options.tree, arguments.shape.tree);
  parse_numbering(options.numbering, arguments.shape.numbering);
  parse_correction(options.correction, arguments.correction);
  arguments.corrected_spread = !options.corrected_are_silent;
  if (options.corrected_are_silent && (!is_opportunistic(arguments.correction) || by_gossip(options)))
    refuse("--corrected-are-silent: of --correction opportunistic and opportunistic-optimised");
  arguments.shape.arity = options.arity;
  arguments.correction_distance = options.distance > 0 || by_gossip(options) ? options.distance : 2;
  arguments.shape.delay_quarters = delay_quarters_of(costs, row_of(options.kind).has_data() ? given_bytes(options) : 0);
  if (const std::string problem = problem_with(arguments.shape); !problem.empty()) refuse(problem);
  if (by_gossip(options)) set_gossip_of(options, costs, arguments);
  return arguments;
}

void refuse_meaningless_of(const CLI::App& command, const Options& options, const Arguments& arguments) {
  const bool corrected = options.algorithm == "corrected", gossips = by_gossip(options);
  const bool spreads = row_of(options.kind).disseminates, has_hosts = options.hosts > 0;
  const bool has_tree = (corrected && spreads) || options.algorithm == "tree" || options.algorithm == "acknowledged";
  const char* const with_tree = "of an operation with a broadcast tree";
  const char* const of_gossip = "of --algorithm ocg, ccg, fcg and gossip";
  const bool goes_in_pieces =
      plain_schedule_of(arguments, options.processes(), given_bytes(options)) == PlainSchedule::in_pieces;
  const bool panics = gossips && arguments.correction == Correction::failure_proof;
  const char* const of_panic = "of --algorithm fcg, and of gossip with --correction failure-proof";
  refuse_meaningless(command,
                     {{"--tree", has_tree, with_tree},
                      {"--numbering", has_tree, with_tree},
                      {"--arity", has_tree && has_arity(arguments.shape.tree), "of --tree kary, knomial, lame"},
                      {"--correction", spreads, "of an operation with a broadcast"},
                      {"--distance", is_opportunistic(arguments.correction), "of the opportunistic corrections"},
                      {"--phased", arguments.correction != Correction::none, "with a --correction"},
                      {"--gossip-time", gossips, of_gossip},
                      {"--ask-after", gossips, of_gossip},
                      {"--panic-after", panics, of_panic},
                      {"--no-panic", panics, of_panic},
                      {"--f", corrected || gossips, "of algorithms that tolerate failures by number"},
                      {"--optimistic", arguments.row().collects || goes_in_pieces,
                       "of an operation with a reduction, or a long broadcast"},
                      {"--bytes", row_of(options.kind).has_data(), "of an operation with data"},
                      {"--gather", has_hosts, "with --hosts"},
                      {"--deliver", has_hosts, "with --hosts"},
                      {"--prove", has_hosts, "with --hosts"}});
  refuse_meaningless_network(command, options, has_hosts);
}

void set_two_level(const Options& options, const CollectiveRun& run, TwoLevelRun& two_level) {
  if (options.algorithm != "corrected") refuse(fmt::format("--algorithm {}: not of --hosts", options.algorithm));
  if (options.phased) refuse("--phased: not of --hosts");
  if (options.network != "flat" && options.network != "two-level")
    refuse(fmt::format("--network {}: with --hosts messages are those between hosts", options.network));
  if (options.failures.crashes > 0) refuse("--crashes: with --hosts see --crash-speakers and --crash-hosts");
  if (!options.suspicions.empty()) refuse("--suspect: not of --hosts");
  if (!options.slow.empty()) refuse("--slow: not of --hosts, where --gather and --deliver are a host's own times");
  if (!options.noise.empty()) refuse("--noise: not of --hosts, where --gather and --deliver are a host's own times");
  if (options.crash_hosts + options.crash_speakers >= options.hosts)
    refuse(fmt::format("--crash-hosts, --crash-speakers: {} of {} hosts: the root's is spared",
                       options.crash_hosts + options.crash_speakers, options.hosts));
  two_level.arguments = run.arguments;
  two_level.payload_bytes = run.payload_bytes;
  two_level.ranks_per_host = options.shape.ranks_per_host;
  two_level.optimistic = run.optimistic;
  two_level.gather = options.gather;
  two_level.deliver = options.deliver;
  two_level.proof_delay = options.proof_delay < 0 ? 10 * run.setting.costs.delivery() : options.proof_delay;
}

void refuse_too_many(const Options& options, const CollectiveRun& run) {
  const CatalogueRow& row = run.arguments.row();
  const bool has_blocks = row.has_own_lengths() || row.goes_straight;
  if (has_blocks && options.hosts > 0)
    refuse(fmt::format("--hosts: not of {}{}", row.from_root() ? "a long " : "", options.name));
  const auto processes = static_cast<std::uint64_t>(options.processes());
  if (given_bytes(options) > bytes_limit ||
      (has_blocks && !row.from_root() && given_bytes(options) > bytes_limit / processes))
    refuse(fmt::format("--bytes {}: more than 1 TiB of all ranks together", options.bytes));
  const StandIn stand_in(run.arguments.kind, run.payload_bytes, static_cast<Rank>(processes), run.optimistic);
  const std::uint64_t most = row.goes_straight                     ? most_numbers_of_an_exchange
                             : row.reduces && stand_in.words() > 1 ? most_numbers_of_a_sum
                                                                   : most_numbers;
  if (stand_in.words() > most / processes / (has_blocks ? processes : 1))
    refuse(fmt::format("--ranks {}, --bytes {}: too many numbers, one for each block or piece of each rank",
                       options.ranks, options.bytes));
}

Task task_of(const Options& options) {
  Task task;
  if (options.root < 0 || options.root >= options.ranks)
    refuse(fmt::format("--root {}: no such rank: there are {}", options.root, options.ranks));
  CollectiveRun& run = task.run;
  Setting& setting = run.setting;
  setting.ranks = static_cast<Rank>(options.ranks);
  // Without the detector's word no rank is given up: a broadcast then shows what its tree and correction do alone.
  set_clock(options, row_of(kind_of(options)).collects, setting);
  run.arguments = arguments_of(options, setting.costs);
  const CatalogueRow& row = run.arguments.row();
  run.payload_bytes = !row.has_data() ? 0 : row.goes_straight ? options.bytes : given_bytes(options);
  run.phased = options.phased;
  run.optimistic = options.optimistic;
  if (options.optimistic && options.algorithm != "corrected")
    refuse(fmt::format("--optimistic: --algorithm {} has no other ballots", options.algorithm));
  refuse_too_many(options, run);
  task.network = network_of(options);
  task.is_two_level = options.hosts > 0;
  if (task.is_two_level) set_two_level(options, run, task.two_level);

  if (options.algorithm != "corrected" && !by_gossip(options)) {
    task.compares = true;
    ComparatorRun& comparator = task.comparator;
    static const std::map<std::string, Comparator> names = {{"tree", Comparator::tree},
                                                            {"acknowledged", Comparator::acknowledged_tree},
                                                            {"recursive-doubling", Comparator::recursive_doubling},
                                                            {"rabenseifner", Comparator::rabenseifner},
                                                            {"buntinas", Comparator::buntinas},
                                                            {"big", Comparator::big},
                                                            {"big-both-ways", Comparator::big_both_ways}};
    comparator.algorithm = names.at(options.algorithm);
    comparator.kind = options.kind;
    comparator.shape = run.arguments.shape;
    comparator.payload_bytes = options.bytes;
    const bool allreduce_only =
        comparator.algorithm == Comparator::recursive_doubling || comparator.algorithm == Comparator::rabenseifner;
    const bool broadcast_only =
        comparator.algorithm == Comparator::acknowledged_tree || comparator.algorithm >= Comparator::buntinas;
    // Else Buntinas' root would never hear of a death: the detector is part of it.
    if (comparator.algorithm == Comparator::buntinas && options.detection.empty())
      setting.detection_delay = 10 * setting.costs.delivery();
    const bool has_none = row.has_shares() || row.has_own_lengths() || row.goes_straight;
    if (has_none || (allreduce_only && !(row.reduces && row.disseminates)) || (broadcast_only && row.collects) ||
        !row.has_data())
      refuse(fmt::format("--algorithm {}: not of this operation", options.algorithm));
    if (options.root != 0)
      refuse(fmt::format("--root {}: --algorithm {} has rank 0 as root", options.root, options.algorithm));
    if (run.arguments.correction != Correction::none)
      refuse(fmt::format("--correction {}: --algorithm {} has none", options.correction, options.algorithm));
  }
  return task;
}

// Whole hosts, and the first ranks of others, die at moments by chance of an operation in which no others die.
void draw_crashes_of_hosts(const Options& options, const Task& task, Setting& setting) {
  const TwoLevelRun& run = task.two_level;
  if (options.crash_hosts + options.crash_speakers == 0) return;
  TwoLevelRun calm = run;
  calm.setting = setting;
  const std::unique_ptr<Network> network = make_network(task.network, setting.costs);
  calm.setting.network = network.get();
  const double end = simulate(calm).end;
  Random random(mixed(setting.seed, 0x4057));
  std::vector<Rank> drawn;
  const Rank spared = run.arguments.root / run.ranks_per_host;
  while (static_cast<std::int64_t>(drawn.size()) < options.crash_hosts + options.crash_speakers) {
    const auto host = static_cast<Rank>(random.below(static_cast<std::uint64_t>(options.hosts)));
    if (host == spared || std::ranges::find(drawn, host) != drawn.end()) continue;
    drawn.push_back(host);
    const double time = random.fraction() * end;
    const Rank dying = static_cast<std::int64_t>(drawn.size()) <= options.crash_hosts ? run.ranks_per_host : 1;
    for (Rank each = 0; each < dying; ++each) setting.deaths.push_back({host * run.ranks_per_host + each, -1, time});
  }
}

CollectiveRun draw_run(const Options& options, const Task& task, int number) {
  CollectiveRun run = task.run;
  run.setting.seed = mixed(options.seed, static_cast<std::uint64_t>(number));
  run.arguments.gossip.seed = run.setting.seed;
  std::string error;
  const StandIn stand_in(run.arguments.kind, run.payload_bytes, run.setting.ranks, run.optimistic);
  const auto sends = [&](Rank rank) { return stand_in.sends(rank, run.setting.ranks, run.arguments); };
  if (!draw_failures(options.failures, run.arguments, task.network, run.setting.seed, run.setting, error, sends))
    refuse(error);
  if (task.is_two_level) draw_crashes_of_hosts(options, task, run.setting);
  return run;
}

CollectiveResult run_once(const Task& task, CollectiveRun run, Tracer* tracer) {
  const std::unique_ptr<Network> network = make_network(task.network, run.setting.costs);
  run.setting.network = network.get();
  if (task.is_two_level) {
    TwoLevelRun two_level = task.two_level;
    two_level.setting = run.setting;
    return simulate(two_level);
  }
  if (!task.compares) return simulate(run, tracer);
  ComparatorRun comparator = task.comparator;
  comparator.setting = run.setting;
  return simulate(comparator, tracer);
}

std::vector<CollectiveResult> run_all(const Options& options, const Task& task) {
  std::vector<CollectiveResult> results(static_cast<std::size_t>(options.runs));
  for_each_run(options.runs, threads_for(options.threads), options.quiet, [&](int number, const RunProgress&) {
    results[static_cast<std::size_t>(number)] = run_once(task, draw_run(options, task, number), nullptr);
  });
  return results;
}

// null: it never happened.
Json time_of(double time) { return std::isfinite(time) ? Json(time) : Json(nullptr); }

// Times and counts are medians over the runs, unless their name says otherwise.
Json summary_of(const Options& options, const Task& task, std::span<const CollectiveResult> results) {
  const Arguments& arguments = task.run.arguments;
  const auto values = [&](auto field) {
    std::vector<double> all;
    for (const CollectiveResult& result : results) all.push_back(static_cast<double>(field(result)));
    return all;
  };
  const auto most = [&](auto field) {
    const std::vector<double> all = values(field);
    return *std::max_element(all.begin(), all.end());
  };
  const auto total = [&](auto field) {
    const std::vector<double> all = values(field);
    return std::accumulate(all.begin(), all.end(), 0.0);
  };
  const auto mean = [&](auto field) { return total(field) / static_cast<double>(results.size()); };
  const auto whole = [](double value) {
    return value == std::floor(value) && std::abs(value) < 0x1p53 ? Json(static_cast<std::int64_t>(value))
                                                                  : Json(value);
  };
  const auto latency = [](const CollectiveResult& r) { return r.latency; };
  const auto end = [](const CollectiveResult& r) { return r.end; };
  const auto messages = [](const CollectiveResult& r) { return r.messages; };

  Json row;
  row["operation"] = options.name;
  if (row_of(options.kind).may_go_straight()) row["straight"] = arguments.row().goes_straight;
  row["algorithm"] = options.algorithm;
  row["ranks"] = options.ranks;
  if (task.is_two_level) {
    row["hosts"] = options.hosts;
    row["ranks_per_host"] = options.shape.ranks_per_host;
    row["gather"] = task.two_level.gather;
    row["deliver"] = task.two_level.deliver;
    row["prove"] = task.two_level.proof_delay;
  }
  row["root"] = options.root;
  row["f"] = options.f;
  row["tree"] = options.tree;
  row["arity"] = options.arity;
  row["numbering"] = options.numbering;
  row["correction"] = correction_name(arguments.correction);
  row["distance"] = arguments.correction_distance;
  if (arguments.by_gossip()) row["gossip_time"] = static_cast<double>(arguments.gossip.time_ns) / 1000;
  if (arguments.by_gossip() && arguments.correction == Correction::failure_proof) {
    const std::int64_t after_ns = arguments.gossip.panic_after_ns;
    row["panic_after"] = time_of(after_ns == never_asks ? never : static_cast<double>(after_ns) / 1000);
  }
  row["phased"] = options.phased;
  row["bytes"] = row_of(options.kind).has_data() ? options.bytes : 0;
  const LogGP& costs = task.run.setting.costs;
  row["L"] = costs.latency;
  row["o_send"] = costs.send_overhead;
  row["o_receive"] = costs.receive_overhead;
  row["g"] = costs.gap;
  row["G"] = costs.gap_per_byte;
  row["one_processor"] = costs.one_processor;
  row["network"] = options.network;
  row["jitter"] = options.jitter;
  row["skew"] = options.skew;
  row["slow"] = fmt::format("{}", fmt::join(options.slow, " "));
  row["noise"] = options.noise;
  row["detect"] = time_of(task.run.setting.detection_delay);
  row["failed"] = whole(median_of(values([&](const CollectiveResult& r) { return options.ranks - r.live; })));
  row["seed"] = options.seed;
  row["runs"] = results.size();
  row["latency"] = time_of(median_of(values(latency)));
  row["latency_mean"] = time_of(mean(latency));
  row["latency_max"] = time_of(most(latency));
  row["first"] = time_of(median_of(values([](const CollectiveResult& r) { return r.first; })));
  row["median"] = time_of(median_of(values([](const CollectiveResult& r) { return r.median; })));
  row["last"] = time_of(median_of(values([](const CollectiveResult& r) { return r.last; })));
  row["others"] = time_of(median_of(values([](const CollectiveResult& r) { return r.others; })));
  row["end"] = median_of(values(end));
  row["end_mean"] = mean(end);
  row["end_max"] = most(end);
  row["messages"] = whole(median_of(values(messages)));
  row["messages_max"] = whole(most(messages));
  row["payload"] = whole(median_of(values([](const CollectiveResult& r) { return r.bytes; })));
  row["sends_per_rank"] = median_of(values(messages)) / static_cast<double>(options.ranks);
  row["most_sends"] = whole(most([](const CollectiveResult& r) { return r.most_sends; }));
  row["most_receives"] = whole(most([](const CollectiveResult& r) { return r.most_receives; }));
  if (task.is_two_level) {
    row["takeovers"] = whole(total([](const CollectiveResult& r) { return r.takeovers; }));
    row["most_partners"] = whole(most([](const CollectiveResult& r) { return r.most_partners; }));
  }
  row["largest_gap"] = whole(most([](const CollectiveResult& r) { return r.largest_gap; }));
  row["missed"] = whole(total([](const CollectiveResult& r) { return r.missed; }));
  row["runs_missed"] =
      std::count_if(results.begin(), results.end(), [](const CollectiveResult& r) { return r.missed > 0; });
  row["attempts"] = whole(most([](const CollectiveResult& r) { return r.attempts; }));
  row["lost"] = std::count_if(results.begin(), results.end(),
                              [](const CollectiveResult& r) { return r.outcome != Outcome::success; });
  row["wrong"] = whole(total([](const CollectiveResult& r) { return r.wrong; }));
  if (!task.compares)
    for (int phase = 0; phase < phase_count; ++phase) {
      const double count = median_of(values([&](const CollectiveResult& r) { return r.by_phase[phase]; }));
      if (options.json && count > 0) row["by_phase"][phase_name(static_cast<Phase>(phase))] = whole(count);
    }
  return row;
}

CollectiveResult trace_once(const Options& options, const Task& task) {
  constexpr std::int64_t most_ranks = 65536;
  if (options.runs != 1) refuse("--trace: of one run only");
  if (options.ranks > most_ranks)
    refuse(fmt::format("--trace: {} ranks would not fit on any screen; up to {}", options.ranks, most_ranks));
  const CollectiveRun run = draw_run(options, task, 0);
  ChromeTrace trace(static_cast<Rank>(options.ranks));
  std::string error;
  if (!trace.open(options.trace, error)) refuse("--trace: " + error);
  const CollectiveResult result = run_once(task, run, &trace);
  if (!trace.close(error)) refuse("--trace: " + error);
  return result;
}

int run_and_print(Options& options, const CLI::App& command) {
  if (options.hosts > 0) {
    options.ranks = options.hosts * options.shape.ranks_per_host;
    if (options.ranks > most_ranks_of_a_run)
      refuse(fmt::format("--hosts: {} ranks, up to {}", options.ranks, most_ranks_of_a_run));
    if (options.traces) refuse("--trace: not of --hosts");
  } else if (options.crash_hosts + options.crash_speakers > 0) {
    refuse("--crash-hosts, --crash-speakers: of --hosts");
  }
  options.f = tolerated_failures(command, options.f, options.ranks);
  parse_failures(options, options.ranks);
  const Task task = task_of(options);
  refuse_meaningless_of(command, options, task.run.arguments);
  const std::vector<CollectiveResult> results =
      options.traces ? std::vector{trace_once(options, task)} : run_all(options, task);

  std::vector<Json> rows;
  if (options.each) {
    for (const CollectiveResult& result : results) rows.push_back(summary_of(options, task, {&result, 1}));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i]["run"] = i;
  } else {
    rows.push_back(summary_of(options, task, results));
    if (options.json) {
      std::int64_t events = 0;
      for (const CollectiveResult& result : results) events += result.events;
      rows.back()["events"] = events;
    }
  }
  print_rows(rows, options.csv ? RowForm::csv : options.json ? RowForm::json : RowForm::text);
  std::int64_t wrong = 0;
  for (const CollectiveResult& result : results) wrong += result.wrong;
  if (wrong > 0)
    fmt::print(stderr, "ucft_sim: {} wrong results: this is a bug of ucft, please report the command\n", wrong);
  return wrong == 0 ? 0 : 1;
}

void add_options(CLI::App& command, Options& options) {
  constexpr std::uint64_t most_ranks = most_ranks_of_a_run, most = 1 << 20;
  CLI::Option* ranks = command.add_option("--ranks", options.ranks, "how many ranks")
                           ->check(whole_between(1, most_ranks))
                           ->capture_default_str();
  command
      .add_option(
          "--hosts", options.hosts,
          "instead of --ranks: hosts of --ranks-per-host ranks each, which are the processes, as in the library; "
          "messages, --f and --detect are between hosts")
      ->excludes(ranks)
      ->check(whole_between(1, most));
  command
      .add_option("--gather", options.gather,
                  "of --hosts: from a host's last call until its first rank has what all give")
      ->check(number_between(0, longest_time))
      ->capture_default_str();
  command.add_option("--deliver", options.deliver, "of --hosts: from a host's result until all of its ranks have it")
      ->check(number_between(0, longest_time))
      ->capture_default_str();
  command
      .add_option("--prove", options.proof_delay,
                  "of --hosts: from a death until the ranks of its host have the proof (default: 10(L+2o))")
      ->check(number_between(0, longest_time));
  command
      .add_option("--crash-hosts", options.crash_hosts,
                  "of --hosts: so many die in the operation, at a time by chance; the root's is spared")
      ->check(whole_between(0, most));
  command
      .add_option("--crash-speakers", options.crash_speakers,
                  "of --hosts: on so many others the first rank dies, the same")
      ->check(whole_between(0, most));
  command.add_option("--f", options.f, "failures tolerated")->check(whole_between(0, most))->capture_default_str();
  command.add_option("--root", options.root, "root, or first candidate")
      ->check(whole_between(0, most_ranks))
      ->capture_default_str();
  command
      .add_option(
          "--algorithm", options.algorithm,
          "corrected: ucft; of bcast also ocg, ccg, fcg: gossip with opportunistic, checked, failure-proof "
          "correction, and gossip, with that of --correction. For comparison: buntinas (a tree that is rebuilt), big "
          "and big-both-ways (binomial graphs of log2 P neighbours and of twice as many), all of bcast; not "
          "fault-tolerant: tree, recursive-doubling, rabenseifner (allreduce), "
          "acknowledged (bcast)")
      ->check(CLI::IsMember({"corrected", "ocg", "ccg", "fcg", "gossip", "tree", "acknowledged", "recursive-doubling",
                             "rabenseifner", "buntinas", "big", "big-both-ways"}))
      ->capture_default_str();
  command.add_option("--tree", options.tree, "of the broadcast")
      ->check(CLI::IsMember(names_of(tree_names())))
      ->capture_default_str();
  command.add_option("--arity", options.arity, "k of kary, knomial, lame")
      ->check(whole_between(1, most))
      ->capture_default_str();
  command
      .add_option("--numbering", options.numbering,
                  "of the tree's ranks: a subtree is spread over all ranks, or one long block")
      ->check(CLI::IsMember(names_of(numbering_names())))
      ->capture_default_str();
  command.add_option("--correction", options.correction, "of ranks that the broadcast has not reached")
      ->check(CLI::IsMember(names_of(correction_names())))
      ->capture_default_str();
  command
      .add_option("--distance", options.distance,
                  "d of the opportunistic corrections (default: 2; by gossip, so that all are reached, by the model)")
      ->check(whole_between(1, most));
  command.add_flag(
      "--corrected-are-silent", options.corrected_are_silent,
      "of the opportunistic corrections: who gets the value from a correction sends nothing on, as in other "
      "simulators (not in ucft)");
  command.add_flag("--optimistic", options.optimistic,
                   "begin with the ballot that expects no death, as the library does");
  command.add_flag("--phased", options.phased,
                   "corrections begin when the tree would be done, not after a rank's own tree sends");
  command.add_option("--gossip-time", options.gossip_time, "T of gossip (default: the best by the model)")
      ->check(number_between(0.001, longest_time));
  command
      .add_option("--ask-after", options.ask_after,
                  "by gossip: who has waited for so long asks the root (default: nobody asks)")
      ->check(number_between(0, 1e9));
  CLI::Option* panic_after =
      command
          .add_option(
              "--panic-after", options.panic_after,
              "fcg: a rank that only correction has reached, and that no rank lets go for so long, sends to all "
              "(default: twice what all should take, by the model)")
          ->check(number_between(0, 1e9));
  command
      .add_flag("--no-panic", options.no_panic,
                "only half of fcg: such a rank never sends to all, so deaths may leave some ranks without the value")
      ->excludes(panic_after);
  command
      .add_option("--bytes", options.bytes,
                  "payload; of gather, scatter and those that have a block or share for each rank: of one of these")
      ->check(whole_between(0, 1000000000000))
      ->capture_default_str();

  add_clock_options(command, options);
  command
      .add_option("--crashes", options.failures.crashes,
                  "ranks that die in the operation, at a send by chance; the root is spared")
      ->check(whole_between(0, most_ranks));

  CLI::Option* json = add_run_options(command, options);
  command.add_flag("--csv", options.csv, "comma-separated values, the names first")->excludes(json);
  command.add_flag("--quiet", options.quiet, "no progress bar on long runs");
  command.add_option("--trace", options.trace, "file for Perfetto (ui.perfetto.dev) or chrome://tracing, of one run");
}

}  // namespace

void add_run_commands(CLI::App& app, int& exit_code) {
  const auto add = [&](Kind kind, const char* name, const char* text) {
    auto options = std::make_shared<Options>();
    options->kind = kind;
    options->name = name;
    CLI::App* command = app.add_subcommand(name, text);
    add_options(*command, *options);
    command->callback([options, command, &exit_code] {
      options->traces = command->count("--trace") > 0;
      exit_code = run_and_print(*options, *command);
    });
    return command;
  };
  add(Kind::broadcast, "bcast", "a broadcast under the clock")->alias("broadcast");
  add(Kind::reduce, "reduce", "a reduce under the clock");
  add(Kind::allreduce, "allreduce", "an allreduce under the clock");
  add(Kind::barrier, "barrier", "a barrier under the clock");
  add(Kind::gather, "gather", "a gather under the clock");
  add(Kind::scatter, "scatter", "a scatter under the clock");
  add(Kind::allgather, "allgather", "an allgather under the clock");
  add(Kind::alltoall, "alltoall", "an alltoall under the clock");
  add(Kind::reduce_scatter, "reduce_scatter", "a reduce-scatter under the clock");
  add(Kind::scan, "scan", "a scan under the clock");
  add(Kind::exscan, "exscan", "an exscan under the clock");
}

}  // namespace ucft::detail::simulator::run_command
