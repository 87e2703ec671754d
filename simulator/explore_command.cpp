// ucft_sim explore: tries crash plans of a small world and prints counts of those that it tried.
#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "collectives/catalogue/catalogue.hpp"
#include "collectives/topology/names.hpp"
#include "simulator/commands.hpp"
#include "simulator/explorer.hpp"
#include "simulator/hosts_world.hpp"

namespace ucft::detail::simulator::explore_command {

namespace {

struct Options {
  std::string operation = "allreduce";
  Rank ranks = 4;
  int f = 1, victims = -1, operations = 1, window = 2, in_flight = 1, seeds = 1;
  Rank root = 0, ranks_per_host = 0;
  std::int64_t stride = 1, walks = 0;
  std::uint64_t seed = 1;
  std::int32_t arity = 2, delay_quarters = 16, correction_distance = 2;
  std::int64_t gossip_time = 0, ask_after = 60, panic_after = 60;  // in events
  std::uint64_t gossip_seed = 1;
  std::string tree = "binomial", numbering = "interleaved", correction = "none", failure_info = "list";
  bool optimistic = false, two_level = false, json = false;
};

Plan plan_of(const Options& options) {
  Arguments arguments;
  arguments.kind = row_named(options.operation == "bcast" ? "broadcast" : options.operation)->kind;
  arguments.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  arguments.count = arguments.row().has_data() ? 2 : 0;
  arguments.f = options.f;
  arguments.root = options.root;
  parse_tree(options.tree, arguments.shape.tree);
  arguments.shape.arity = options.arity;
  arguments.shape.delay_quarters = options.delay_quarters;
  parse_numbering(options.numbering, arguments.shape.numbering);
  parse_correction(options.correction, arguments.correction);
  arguments.correction_distance = options.correction_distance;
  arguments.failure_info = options.failure_info == "count" ? FailureInfo::count
                           : options.failure_info == "bit" ? FailureInfo::bit
                                                           : FailureInfo::list;
  if (options.gossip_time > 0)
    arguments.gossip = {.time_ns = 1000 * options.gossip_time,
                        .interval_ns = 1000,
                        .flight_ns = 1000,
                        .ask_after_ns = 1000 * options.ask_after,
                        .panic_after_ns = 1000 * options.panic_after,
                        .seed = options.gossip_seed};
  Plan plan;
  plan.ranks = options.ranks;
  plan.window = options.window;
  plan.in_flight = options.in_flight;
  plan.optimistic = options.optimistic;
  plan.ranks_per_host = options.ranks_per_host;
  plan.program.assign(static_cast<std::size_t>(options.operations), arguments);
  return plan;
}

void refuse_meaningless_of(const CLI::App& command, const Options& options) {
  const bool spreads = plan_of(options).program[0].row().disseminates, gossips = options.gossip_time > 0,
             walks = options.walks > 0;
  const bool tree_is_used = spreads && !gossips;
  const char* const with_tree = "of an operation with a broadcast tree";
  refuse_meaningless(
      command,
      {{"--gossip", spreads, "of an operation with a broadcast"},
       {"--gossip-seed", gossips, "with --gossip"},
       {"--ask-after", gossips, "with --gossip"},
       {"--panic-after", gossips && options.correction == "failure-proof", "with --gossip, --correction failure-proof"},
       {"--tree", tree_is_used, with_tree},
       {"--numbering", tree_is_used, with_tree},
       {"--arity", tree_is_used && has_arity(plan_of(options).program[0].shape.tree), "of --tree kary, knomial, lame"},
       {"--delay-quarters", tree_is_used && options.tree == "optimal", "of --tree optimal"},
       {"--correction", spreads, "of an operation with a broadcast"},
       {"--distance", options.correction.starts_with("opportunistic"), "of the opportunistic corrections"},
       {"--stride", !walks, "without --walks"},
       {"--seeds", !walks, "without --walks"},
       {"--seed", walks, "with --walks"}});
}

// "" or what is wrong with them together.
std::string problem_with(const Options& options) {
  const BroadcastShape shape = plan_of(options).program[0].shape;
  if (options.root < 0 || options.root >= options.ranks)
    return fmt::format("--root {} is not a rank: there are {}", options.root, options.ranks);
  if (options.two_level && (options.ranks_per_host == 0 || options.ranks_per_host >= options.ranks))
    return fmt::format("--two-level: --ranks-per-host {} of {} ranks doesn't make several hosts",
                       options.ranks_per_host, options.ranks);
  return simulator::problem_with(shape);
}

// Hosts are the processes: every set of so many ranks, each of which dies at each of its stores and sends.
int explore_hosts_and_print(const Options& options) {
  const Plan flat = plan_of(options);
  HostsPlan plan;
  for (Rank rank = 0; rank < options.ranks; ++rank) plan.hosts.push_back(rank / options.ranks_per_host);
  plan.window = options.window;
  plan.in_flight = options.in_flight;
  plan.optimistic = options.optimistic;
  plan.program = flat.program;
  if (flat.program[0].row().goes_straight) plan.long_bytes = 2 * sizeof(std::uint64_t);  // more than a set of hosts
  HostsScope scope;
  scope.seeds = options.seeds;
  scope.stride = options.stride;
  const int most = options.victims < 0 ? options.f : options.victims;
  HostsExploration found;
  if (options.walks > 0)
    walk_hosts(plan, most, options.walks, options.seed, found);
  else
    for (int victims = 0; victims <= most; ++victims) explore_hosts_of(plan, victims, scope, found);
  if (options.json)
    fmt::print("{}\n", nlohmann::json{{"operation", options.operation},
                                      {"ranks", options.ranks},
                                      {"hosts", plan.hosts.back() + 1},
                                      {"f", options.f},
                                      {"plans", found.plans},
                                      {"events", found.events},
                                      {"violations", found.violations},
                                      {"first_violation", found.first_violation}}
                           .dump());
  else
    fmt::print("{} of {} hosts, {} ranks, f={} operations={}: {} plans, {} events, {} violations\n{}{}",
               options.operation, plan.hosts.back() + 1, options.ranks, options.f, options.operations, found.plans,
               found.events, found.violations, found.first_violation, found.violations > 0 ? "\n" : "");
  return found.violations == 0 ? 0 : 1;
}

int explore_and_print(const Options& options) {
  const Plan plan = plan_of(options);
  Scope scope;
  scope.max_victims = options.victims < 0 ? options.f : options.victims;
  scope.seeds = options.seeds;
  scope.stride = options.stride;
  const bool walking = options.walks > 0;
  const Exploration found = walking ? walk(plan, scope.max_victims, options.walks, options.seed) : explore(plan, scope);
  if (options.json) {
    nlohmann::json line = {{"operation", options.operation},
                           {"ranks", options.ranks},
                           {"f", options.f},
                           {"plans", found.plans},
                           {"events", found.events},
                           {"violations", found.violations},
                           {"first_violation", found.first_violation}};
    for (int role = 0; role < role_count; ++role)
      line["plans_by_role"][role_name(static_cast<Role>(role))] = found.plans_by_role[static_cast<std::size_t>(role)];
    if (!walking) line["plans_expected"] = plans_expected(plan, scope);
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{} n={} f={} operations={}: {} plans, {} events, {} violations\n", options.operation, options.ranks,
               options.f, options.operations, found.plans, found.events, found.violations);
    for (int role = 0; role < role_count; ++role)
      fmt::print("  plans with a victim that is {:<10} {}\n", role_name(static_cast<Role>(role)),
                 found.plans_by_role[static_cast<std::size_t>(role)]);
    if (found.violations > 0) fmt::print("first violation: {}\n", found.first_violation);
  }
  return found.violations == 0 ? 0 : 1;
}

}  // namespace

void add_explore_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* explore = app.add_subcommand("explore", "every crash plan of a small world: which promises hold");
  explore
      ->add_option(
          "operation", options->operation,
          "allreduce, reduce, broadcast, barrier, allgather, gather, scatter, reduce_scatter, alltoall, scan, exscan, "
          "exchange: a long alltoall, or exchange_from_root: a long scatter")
      ->check(CLI::IsMember({"allreduce", "reduce", "broadcast", "bcast", "barrier", "allgather", "gather", "scatter",
                             "reduce_scatter", "alltoall", "scan", "exscan", "exchange", "exchange_from_root"}))
      ->capture_default_str();
  explore->add_option("--ranks", options->ranks, "how many ranks")->check(CLI::Range(1, 62))->capture_default_str();
  explore->add_option("--ranks-per-host", options->ranks_per_host, "f counts hosts that fail as a whole; 0: ranks")
      ->check(CLI::Range(0, 62))
      ->capture_default_str();
  explore->add_option("--f", options->f, "failures tolerated per operation")
      ->check(CLI::Range(0, 61))
      ->capture_default_str();
  explore->add_option("--victims", options->victims, "ranks killed at most (default: f)")->check(CLI::Range(0, 8));
  explore->add_option("--root", options->root, "root, or first candidate")->capture_default_str();
  explore->add_option("--operations", options->operations, "length of the program")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  explore->add_option("--window", options->window, "W")->check(CLI::Range(2, 64))->capture_default_str();
  explore->add_option("--in-flight", options->in_flight, "operations posted before the oldest is awaited")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  explore->add_option("--tree", options->tree, "of the broadcast")
      ->check(CLI::IsMember(names_of(tree_names())))
      ->capture_default_str();
  explore->add_option("--arity", options->arity, "k of kary, knomial and lame")
      ->check(CLI::Range(1, highest_lame_arity))
      ->capture_default_str();
  explore->add_option("--delay-quarters", options->delay_quarters, "of optimal: (L + 2o) / max(g, o) in quarters")
      ->check(CLI::Range(lowest_delay_quarters, highest_delay_quarters))
      ->capture_default_str();
  explore
      ->add_option("--numbering", options->numbering,
                   "of the tree's ranks: a subtree is spread over all ranks, or one long block")
      ->check(CLI::IsMember(names_of(numbering_names())))
      ->capture_default_str();
  explore->add_option("--correction", options->correction, "of ranks that the broadcast has not reached")
      ->check(CLI::IsMember(names_of(correction_names())))
      ->capture_default_str();
  explore->add_option("--distance", options->correction_distance, "d of the opportunistic corrections")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  explore->add_option("--gossip", options->gossip_time, "T, in events: by gossip, not by a tree")
      ->check(CLI::Range(1, 100000));
  explore->add_option("--gossip-seed", options->gossip_seed, "of the partners")->capture_default_str();
  explore
      ->add_option("--panic-after", options->panic_after,
                   "by gossip, failure-proof: who is let go by nobody for so many events panics")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  explore
      ->add_option("--ask-after", options->ask_after,
                   "by gossip: a rank that has waited for so many events asks the root")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  explore->add_option("--failure-info", options->failure_info, "what contributions say of the failed ranks")
      ->check(CLI::IsMember({"list", "count", "bit"}))
      ->capture_default_str();
  explore->add_option("--seeds", options->seeds, "shuffled delivery orders per plan")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  explore->add_option("--stride", options->stride, "of sets of several victims, try every n-th plan")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  explore->add_option("--walks", options->walks, "instead: this many random plans")
      ->check(CLI::Range(0, 2000000000))
      ->capture_default_str();
  explore->add_option("--seed", options->seed, "of the random plans")->capture_default_str();
  explore->add_flag("--optimistic", options->optimistic, "operations begin with the ballot that expects no death");
  explore->add_flag("--two-level", options->two_level,
                    "hosts are the processes; ranks die at each store into their host's memory and each send");
  explore->add_flag("--json", options->json, "one JSON object per line");
  explore->callback([options, explore, &exit_code] {
    options->f = tolerated_failures(*explore, options->f, options->ranks);
    refuse_meaningless_of(*explore, *options);
    if (const std::string problem = problem_with(*options); !problem.empty()) refuse(problem);
    exit_code = options->two_level ? explore_hosts_and_print(*options) : explore_and_print(*options);
  });
}

}  // namespace ucft::detail::simulator::explore_command
