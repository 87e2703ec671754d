// ucft_sim explore-renewals: newcomers join a job whose ranks renew their communicator, in every order of events.
#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

#include "simulator/commands.hpp"
#include "simulator/renewal_world.hpp"

namespace ucft::detail::simulator::explore_renewals_command {

namespace {

struct Options {
  RenewalPlan plan;
  std::int64_t states = 20000000, walks = 0;
  std::uint64_t plans = 0, seed = 1;
  bool waits = false, json = false;
};

void add(RenewalExploration& all, const RenewalExploration& one) {
  all.states += one.states;
  all.ends += one.ends;
  all.joined += one.joined;
  all.cut += one.cut;
  all.violations += one.violations;
  if (all.first_violation.empty()) all.first_violation = one.first_violation;
}

// Walks of plans by chance: those of plan i are the same whichever others there are.
RenewalExploration walk_plans(const Options& options) {
  RenewalExploration all;
  for (std::uint64_t seed = options.seed; seed < options.seed + options.plans; ++seed) {
    const RenewalPlan plan = random_renewal_plan(seed);
    add(all, walk_renewals(plan, std::max<std::int64_t>(options.walks, 1), 1000 * seed));
    if (all.violations == 0) continue;
    all.first_violation = fmt::format("plan {}: {}", seed, all.first_violation);
    break;
  }
  return all;
}

int explore_and_print(const Options& options) {
  RenewalPlan plan = options.plan;
  plan.has_limit = !options.waits;
  const bool walks = options.plans > 0 || options.walks > 0;
  const RenewalExploration found = options.plans > 0   ? walk_plans(options)
                                   : options.walks > 0 ? walk_renewals(plan, options.walks, options.seed)
                                                       : explore_renewals(plan, options.states);
  if (options.json) {
    nlohmann::json line = {{"states", found.states},
                           {"ends", found.ends},
                           {"joined", found.joined},
                           {"cut", found.cut},
                           {"complete", found.complete},
                           {"violations", found.violations},
                           {"violation", found.first_violation}};
    if (walks) line.update({{"walks", options.walks}, {"seed", options.seed}});
    if (options.plans > 0)
      line["plans"] = options.plans;
    else
      line.update({{"seats", plan.seats},
                   {"empty", plan.absent},
                   {"newcomers", plan.newcomers},
                   {"deaths", plan.deaths},
                   {"f", plan.f},
                   {"renewals", plan.renewals},
                   {"wanted", plan.wanted},
                   {"limit", plan.has_limit},
                   {"leaves", plan.leaves},
                   {"starts", plan.starts}});
    fmt::print("{}\n", line.dump());
  } else {
    const std::string world = options.plans > 0
                                  ? fmt::format("{} plans by chance", options.plans)
                                  : fmt::format("{} seats, {} of them empty, {} newcomers, up to {} deaths", plan.seats,
                                                plan.absent.size(), plan.newcomers, plan.deaths);
    fmt::print("{}: {} {}, {} ends ({} at --starts), {} newcomers joined in these{}\n", world, found.states,
               walks ? "events" : "states", found.ends, found.cut, found.joined,
               found.complete ? "" : " (not complete: --states)");
    if (found.violations > 0) fmt::print("broken: {}", found.first_violation);
  }
  return found.violations == 0 ? 0 : 1;
}

}  // namespace

void add_explore_renewals_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  RenewalPlan& plan = options->plan;
  plan.absent = {2};
  CLI::App* explore = app.add_subcommand(
      "explore-renewals", "newcomers join a job: every order of events of the survivors' renewals, with deaths");
  explore->add_option("--seats", plan.seats, "ranks of the job")->check(CLI::Range(2, 7))->capture_default_str();
  explore->add_option("--empty", plan.absent, "seats whose ranks have failed before")->capture_default_str();
  explore->add_option("--newcomers", plan.newcomers, "that ask")->check(CLI::Range(1, 6))->capture_default_str();
  explore->add_option("--deaths", plan.deaths, "of any process, at most")
      ->check(CLI::Range(0, 7))
      ->capture_default_str();
  explore->add_option("--f", plan.f, "that a vote tolerates")->check(CLI::Range(0, 8))->capture_default_str();
  explore->add_option("--renewals", plan.renewals, "one after the other")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  explore->add_option("--wanted", plan.wanted, "newcomers that a renewal waits for; -1: one for each free seat")
      ->check(CLI::Range(-1, 7))
      ->capture_default_str();
  explore->add_flag("--wait", options->waits, "renewals without a time limit. Else it may be over at any moment");
  explore->add_flag("--leave", plan.leaves, "ranks that have done all leave, at any moment");
  explore->add_option("--starts", plan.starts, "epochs that sponsors begin, at most")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  explore->add_option("--states", options->states, "stop after that many")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{2000000000}))
      ->capture_default_str();
  explore->add_option("--walks", options->walks, "instead: this many ways by chance")->check(CLI::Range(0, 2000000000));
  explore->add_option("--plans", options->plans, "of so many worlds by chance")->check(CLI::Range(0, 2000000000));
  explore->add_option("--seed", options->seed, "of these")->capture_default_str();
  explore->add_flag("--json", options->json, "one JSON object per line");
  explore->callback([options, &exit_code] {
    RenewalPlan& chosen = options->plan;
    std::ranges::sort(chosen.absent);
    chosen.absent.erase(std::unique(chosen.absent.begin(), chosen.absent.end()), chosen.absent.end());
    for (const int seat : chosen.absent)
      if (seat < 0 || seat >= chosen.seats)
        refuse(fmt::format("--empty {} is not a seat: there are {}", seat, chosen.seats));
    const int survivors = chosen.seats - static_cast<int>(chosen.absent.size());
    if (survivors == 0) refuse("--empty: some rank must live");
    if (survivors + chosen.newcomers > 8)
      refuse(fmt::format("--newcomers {}: with {} survivors at most {}", chosen.newcomers, survivors, 8 - survivors));
    exit_code = explore_and_print(*options);
  });
}

}  // namespace ucft::detail::simulator::explore_renewals_command
