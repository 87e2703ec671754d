// ucft_sim explore-host: the host stage in every order of accesses to memory, and deaths between any two.
#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <bit>

#include "collectives/catalogue/catalogue.hpp"
#include "simulator/commands.hpp"
#include "simulator/host_explorer.hpp"

namespace ucft::detail::simulator::explore_host_command {

namespace {

struct Options {
  std::vector<std::string> operations = {"allreduce"};
  int ranks = 3, window = 2, banks = 0, degree = 0, patience = 0, uses = 1, deaths = 1, leavers = 0;
  int root = 0;
  std::int64_t states = 20000000, walks = 0;
  std::uint64_t seed = 1;
  bool suspicions = false, reduced = false, runs = false, json = false;
};

HostPlan plan_of(const Options& options) {
  HostPlan plan;
  plan.ranks = options.ranks;
  plan.window = options.window;
  plan.banks =
      options.banks == 0 ? static_cast<int>(std::bit_ceil(2u * static_cast<unsigned>(options.window))) : options.banks;
  plan.degree = options.degree;
  plan.patience = options.patience;
  plan.uses = options.uses;
  plan.max_deaths = options.deaths;
  plan.max_leavers = options.leavers;
  plan.trusts_suspicions = options.suspicions;
  plan.reduced = options.reduced;
  plan.runs = options.runs;
  for (const std::string& name : options.operations) {
    HostCall call;
    const CatalogueRow& row = *row_named(name);
    call.pattern = row.pattern();
    call.count = row.has_data() ? 1 : 0;
    if (row.has_shares()) call.share.count = 1;
    call.root = options.root;
    plan.program.push_back(call);
  }
  return plan;
}

int explore_and_print(const Options& options) {
  const HostPlan plan = plan_of(options);
  const bool walking = options.walks > 0;
  const HostExploration found = walking ? walk(plan, options.walks, options.seed) : explore(plan, options.states);
  if (options.json) {
    const nlohmann::json line = {{"operations", options.operations},
                                 {"ranks", options.ranks},
                                 {"window", plan.window},
                                 {"banks", plan.banks},
                                 {"degree", plan.degree},
                                 {"patience", plan.patience},
                                 {"uses", plan.uses},
                                 {"deaths", plan.max_deaths},
                                 {"leavers", plan.max_leavers},
                                 {"reduced", plan.reduced},
                                 {"runs", plan.runs},
                                 {"walks", options.walks},
                                 {"states", found.states},
                                 {"steps", found.transitions},
                                 {"ends", found.ends},
                                 {"complete", found.is_complete},
                                 {"violation", found.violation}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{} ranks, {} operations, W={}, {} banks, {}, up to {} deaths: {}{} steps, {} ends{}\n", plan.ranks,
               plan.program.size(), plan.window, plan.banks,
               plan.degree == 0 ? "flat" : fmt::format("tree of degree {}", plan.degree), plan.max_deaths,
               walking ? "" : fmt::format("{} states, ", found.states), found.transitions, found.ends,
               walking || found.is_complete ? "" : " (not complete: --states)");
    if (!found.violation.empty()) fmt::print("broken: {}\n", found.violation);
  }
  return found.violation.empty() ? 0 : 1;
}

}  // namespace

void add_explore_host_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* explore = app.add_subcommand(
      "explore-host", "ranks that share memory: every order of their accesses, and deaths between any two");
  explore->add_option("operations", options->operations, "each rank's program, several at a time up to the window")
      ->check(CLI::IsMember({"allreduce", "reduce", "broadcast", "barrier", "allgather", "gather", "scatter",
                             "reduce_scatter", "alltoall", "scan", "exscan"}))
      ->capture_default_str();
  explore->add_option("--ranks", options->ranks, "how many ranks")->check(CLI::Range(1, 8))->capture_default_str();
  explore->add_option("--root", options->root, "of reduce, gather, broadcast and scatter")->capture_default_str();
  explore->add_option("--window", options->window, "W")->check(CLI::Range(1, 64))->capture_default_str();
  explore
      ->add_option("--banks", options->banks, "of memory, a power of two (default: the first from 2 W on): more than W")
      ->check(CLI::Range(1, 256));
  explore->add_option("--degree", options->degree, "of the tree of an allreduce; 0: flat")
      ->check(CLI::Range(0, 7))
      ->capture_default_str();
  explore->add_option("--patience", options->patience, "looks at an inner node's sum before its work is done for it")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  explore->add_option("--leavers", options->leavers, "ranks that leave before they have posted all, at most")
      ->check(CLI::Range(0, 7))
      ->capture_default_str();
  explore->add_option("--uses", options->uses, "of the same memory, one after the other")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  explore->add_option("--deaths", options->deaths, "at most")->check(CLI::Range(0, 7))->capture_default_str();
  explore->add_flag("--suspicions", options->suspicions,
                    "a rank may be taken for dead while it lives: shows why only proofs count");
  explore->add_flag("--runs", options->runs, "post and look in one where the product does");
  explore->add_flag("--reduced", options->reduced, "leave out orders that nobody can tell apart from others");
  explore->add_option("--states", options->states, "stop after that many")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{2000000000}))
      ->capture_default_str();
  explore->add_option("--walks", options->walks, "instead: this many ways by chance")->check(CLI::Range(0, 2000000000));
  explore->add_option("--seed", options->seed, "of these")->capture_default_str();
  explore->add_flag("--json", options->json, "one JSON object per line");
  explore->callback([options, &exit_code] {
    if (options->root < 0 || options->root >= options->ranks)
      refuse(fmt::format("--root {} is not a rank: there are {}", options->root, options->ranks));
    if (options->banks != 0 && !std::has_single_bit(static_cast<unsigned>(options->banks)))
      refuse(fmt::format("--banks {}: a power of two is needed", options->banks));
    if (options->banks != 0 && options->banks <= options->window)
      refuse(fmt::format("--banks {}: more than --window {} are needed", options->banks, options->window));
    if (options->deaths >= options->ranks)
      refuse(fmt::format("--deaths {}: somebody of the {} ranks must live", options->deaths, options->ranks));
    exit_code = explore_and_print(*options);
  });
}

}  // namespace ucft::detail::simulator::explore_host_command
