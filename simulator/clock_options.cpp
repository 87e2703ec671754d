#include "simulator/clock_options.hpp"

#include <algorithm>
#include <cmath>

namespace ucft::detail::simulator {

namespace {

constexpr double highest_factor = 1e6, highest_share = 0.999;

// RANK@NUMBER
std::pair<Rank, double> rank_and_number(const std::string& option, const std::string& text, std::int64_t ranks) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos) refuse(fmt::format("{} {}: expected RANK@NUMBER", option, text));
  const double rank = number_after(option, text, text.substr(0, at));
  if (rank != std::floor(rank) || rank >= static_cast<double>(ranks))
    refuse(fmt::format("{} {}: no such rank: there are {}", option, text, ranks));
  return {static_cast<Rank>(rank), number_after(option, text, text.substr(at + 1))};
}

// PERIOD:DURATION[@RANKS]
Noise noise_of(const std::string& text, Rank ranks) {
  const std::size_t colon = text.find(':'), at = text.find('@');
  if (colon == std::string::npos || (at != std::string::npos && at < colon))
    refuse(fmt::format("--noise {}: expected PERIOD:DURATION or PERIOD:DURATION@RANKS", text));
  Noise noise;
  noise.period = number_after("--noise", text, text.substr(0, colon));
  noise.duration = number_after("--noise", text, text.substr(colon + 1, at == std::string::npos ? at : at - colon - 1));
  if (!(noise.duration > 0 && noise.duration < noise.period))
    refuse(fmt::format("--noise {}: DURATION is above 0 and below PERIOD", text));
  if (noise.duration > noise.period * highest_share)
    refuse(
        fmt::format("--noise {}: it leaves a rank no time: DURATION is at most {:g} of PERIOD", text, highest_share));
  noise.ranks = ranks;
  if (at == std::string::npos) return noise;
  const double count = number_after("--noise", text, text.substr(at + 1));
  if (count != std::floor(count) || count < 1 || count > ranks)
    refuse(fmt::format("--noise {}: 1 .. {} ranks can be noisy", text, ranks));
  noise.ranks = static_cast<Rank>(count);
  return noise;
}

LogGP costs_of(const ClockOptions& options) {
  LogGP costs;
  std::string error;
  if (!options.model.empty() && !read_costs(options.model, costs, error)) refuse("--model: " + error);
  const auto set = [](double given, double& value) {
    if (given >= 0) value = given;
  };
  set(options.latency, costs.latency);
  set(options.overhead, costs.send_overhead);
  set(options.overhead, costs.receive_overhead);
  set(options.send_overhead, costs.send_overhead);
  set(options.receive_overhead, costs.receive_overhead);
  set(options.gap, costs.gap);
  set(options.gap_per_byte, costs.gap_per_byte);
  costs.one_processor = options.one_processor;
  return costs;
}

}  // namespace

std::vector<SlowRank> parse_slow(const std::vector<std::string>& texts, std::int64_t ranks) {
  std::vector<SlowRank> all;
  for (const std::string& text : texts) {
    const auto [rank, factor] = rank_and_number("--slow", text, ranks);
    if (factor < 1 || factor > highest_factor)
      refuse(fmt::format("--slow {}: a rank takes 1 .. {:g} times as long", text, highest_factor));
    if (std::ranges::any_of(all, [rank = rank](const SlowRank& each) { return each.rank == rank; }))
      refuse(fmt::format("--slow {}: rank {} is named twice", text, rank));
    all.push_back({rank, factor});
  }
  return all;
}

void parse_failures(ClockOptions& options, std::int64_t ranks) {
  for (Rank rank : options.failures.failed_ranks)
    if (rank < 0 || rank >= ranks) refuse(fmt::format("--failed-ranks {}: no such rank: there are {}", rank, ranks));
  for (const std::string& text : options.deaths) {
    const bool by_send = text.find("@send:") != std::string::npos;
    std::string plain = text;
    if (by_send) plain.replace(text.find("send:"), 5, "");
    const auto [rank, number] = rank_and_number("--crash", plain, ranks);
    if (by_send && (number != std::floor(number) || number >= 0x1p53))
      refuse(fmt::format("--crash {}: the number of a send is whole", text));
    options.failures.deaths.push_back(by_send ? Death{rank, static_cast<std::int64_t>(number), never}
                                              : Death{rank, -1, number});
  }
  for (const std::string& text : options.suspicions) {
    const auto [rank, time] = rank_and_number("--suspect", text, ranks);
    options.failures.suspicions.push_back({rank, time});
  }
}

void set_clock(const ClockOptions& options, bool detects, Setting& setting) {
  setting.costs = costs_of(options);
  setting.skew = options.skew;
  setting.jitter = options.jitter;
  setting.slow = parse_slow(options.slow, setting.ranks);
  if (!options.noise.empty()) setting.noise = noise_of(options.noise, setting.ranks);
  if (options.detection == "never")
    setting.detection_delay = never;
  else if (!options.detection.empty())
    setting.detection_delay = number_after("--detect", options.detection, options.detection);
  else if (detects)
    setting.detection_delay = 10 * setting.costs.delivery();
}

NetworkShape network_of(const ClockOptions& options) {
  NetworkShape shape = options.shape;
  parse_network(options.network, shape.kind);
  return shape;
}

void refuse_meaningless_network(const CLI::App& command, const ClockOptions& options, bool has_hosts) {
  const bool is_flat = options.network == "flat", has_switches = !is_flat && options.network != "two-level";
  const bool hosts_fail = options.failures.failed_hosts > 0, switches_fail = options.failures.failed_switches > 0;
  refuse_meaningless(
      command,
      {{"--L-local", !is_flat, "of --network two-level, fat-tree and dragonfly"},
       {"--hop", has_switches, "of --network fat-tree and dragonfly"},
       {"--ranks-per-host", has_hosts || !is_flat || hosts_fail || switches_fail,
        "of several hosts, of --network two-level, fat-tree and dragonfly, and with --failed-hosts, --failed-switches"},
       {"--hosts-per-switch", has_switches || switches_fail,
        "of --network fat-tree and dragonfly, and with --failed-switches"},
       {"--switches-per-group", has_switches, "of --network fat-tree and dragonfly"}});
}

CLI::Option* add_run_options(CLI::App& command, RunOptions& options) {
  command.add_option("--seed", options.seed, "of all that is drawn")
      ->check(whole_between(0, UINT64_MAX))
      ->capture_default_str();
  command.add_option("--runs", options.runs, "how many runs, of which medians are taken")
      ->check(whole_between(1, 1000000))
      ->capture_default_str();
  command.add_option("--threads", options.threads, "runs at a time (0: one per core); results don't depend on it")
      ->check(whole_between(0, 4096));
  command.add_flag("--each", options.each, "a line for each run, not for all of them");
  return command.add_flag("--json", options.json, "one JSON object per line");
}

void add_clock_options(CLI::App& command, ClockOptions& options) {
  const CLI::Validator time = number_between(0, longest_time);
  constexpr std::uint64_t most_ranks = 1 << 24, most = 1 << 20;
  command.add_option("--model", options.model,
                     "file of LogGP parameters (ucft_perftest --calibrate); those below override it");
  command.add_option("--L", options.latency, "latency")->check(time)->default_str("2");
  command.add_option("--o", options.overhead, "overhead of a send and of a receive")->check(time)->default_str("1");
  command.add_option("--o-send", options.send_overhead, "o of a send alone")->check(time);
  command.add_option("--o-receive", options.receive_overhead, "o of a receive alone")->check(time);
  command.add_option("--g", options.gap, "gap between two sends, and between two receives")
      ->check(time)
      ->default_str("1");
  command.add_option("--G", options.gap_per_byte, "gap per byte")->check(time)->default_str("0");
  command.add_flag("--one-processor", options.one_processor,
                   "a rank sends and receives one after the other, waiting sends first, not side by side");
  command.add_option("--network", options.network, "how far ranks are from each other")
      ->check(CLI::IsMember({"flat", "two-level", "fat-tree", "dragonfly"}))
      ->capture_default_str();
  command
      .add_option("--ranks-per-host", options.shape.ranks_per_host, "ranks 0 .. N-1 are on the first host, and so on")
      ->check(whole_between(1, most))
      ->capture_default_str();
  command.add_option("--L-local", options.shape.local_latency, "latency within a host")
      ->check(time)
      ->capture_default_str();
  command.add_option("--hop", options.shape.hop_latency, "fat-tree, dragonfly: latency of a hop between switches")
      ->check(time)
      ->capture_default_str();
  command.add_option("--hosts-per-switch", options.shape.hosts_per_switch, "fat-tree, dragonfly: hosts of a switch")
      ->check(whole_between(1, most))
      ->capture_default_str();
  command
      .add_option("--switches-per-group", options.shape.switches_per_group,
                  "fat-tree: below each inner switch; dragonfly: routers of a group")
      ->check(whole_between(2, most))
      ->capture_default_str();
  command.add_option("--jitter", options.jitter, "each latency is multiplied by 1 + JITTER u, 0 <= u < 1 by chance")
      ->check(time)
      ->capture_default_str();
  command.add_option("--skew", options.skew, "ranks start at up to this time")->check(time)->capture_default_str();
  command
      .add_option("--slow", options.slow,
                  "RANK@FACTOR: the overheads of its sends and receives are FACTOR times as long; several: ','")
      ->delimiter(',');
  command.add_option("--noise", options.noise,
                     "PERIOD:DURATION[@RANKS]: each PERIOD the operating system takes a rank's processor for DURATION, "
                     "of RANKS ranks that are drawn (default: of all)");

  command
      .add_option("--failed", options.failures.failed,
                  "ranks that are dead before, drawn; the root (gossip: rank 0) is spared")
      ->check(whole_between(0, most_ranks));
  command.add_option("--failed-fraction", options.failures.failed_fraction, "of the ranks, the same")
      ->check(number_between(0, 1));
  command.add_option("--failed-hosts", options.failures.failed_hosts, "all ranks of so many hosts")
      ->check(whole_between(0, most_ranks));
  command.add_option("--failed-switches", options.failures.failed_switches, "all ranks below so many switches")
      ->check(whole_between(0, most_ranks));
  command.add_option("--failed-ranks", options.failures.failed_ranks, "these")->delimiter(',');
  command.add_option("--crash", options.deaths, "RANK@TIME, or RANK@send:K: right before its K-th send, from 0")
      ->delimiter(',');
  command.add_option("--suspect", options.suspicions, "RANK@TIME: the others wrongly take it for dead from then on")
      ->delimiter(',');
  command.add_option("--detect", options.detection,
                     "time from a death until all others know it, or never (default: bcast, scatter never, others "
                     "10(L+2o))");
}

}  // namespace ucft::detail::simulator
