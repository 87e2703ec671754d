// ucft_sim optimise: with whom gossip should go on a machine, and at which reach (hop_optimiser.hpp).
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "simulator/commands.hpp"
#include "simulator/hop_optimiser.hpp"
#include "simulator/many_runs.hpp"

namespace ucft::detail::simulator::optimise_command {

namespace {

using Json = nlohmann::ordered_json;

struct Options : HopQuestion {
  std::string machine_name = "torus_2d";
  std::int64_t ranks = 256;
  bool json = false;
};

std::string name_of(const HopQuestion& question, const Neighbourhood& where) {
  if (where.topology != question.machine.topology)
    return where.topology == GossipTopology::random_regular ? fmt::format("random, degree {}", where.degree)
                                                            : gossip_topology_name(where.topology);
  return where.reach == 1 ? "the next ranks" : fmt::format("all within {} hops", where.reach);
}

Json json_of(const HopCandidate& candidate) {
  return {{"topology", gossip_topology_name(candidate.where.topology)},
          {"reach", candidate.where.reach},
          {"rounds", candidate.rounds},
          {"hops_per_message", candidate.hops_per_message},
          {"hops_max", candidate.longest},
          {"cost_per_rank", candidate.cost},
          {"reached", candidate.reached}};
}

void print(const Options& options, const HopAnswer& answer) {
  std::vector<HopCandidate> all = answer.reaches;
  all.insert(all.end(), answer.others.begin(), answer.others.end());
  if (options.json) {
    Json line = {{"machine", options.machine_name},
                 {"ranks", options.ranks},
                 {"eps", options.eps},
                 {"per_message", options.per_message},
                 {"per_hop", options.per_hop},
                 {"runs", options.runs},
                 {"seed", options.seed},
                 {"best", json_of(answer.best)}};
    for (const HopCandidate& each : all) line["candidates"].push_back(json_of(each));
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print("Push-Sum among {} ranks of a {}, until the worst error is {:g}; a message costs {:g} + {:g} a hop\n\n",
             options.ranks, options.machine_name, options.eps, options.per_message, options.per_hop);
  fmt::print("{:<22}  {:>8}  {:>17}  {:>8}  {:>12}  {:>8}\n", "who is sent to", "rounds", "hops of a message",
             "longest", "cost a rank", "of best");
  for (const HopCandidate& each : all) {
    const Neighbourhood& best = answer.best.where;
    const bool is_best = each.where.topology == best.topology && each.where.reach == best.reach;
    fmt::print("{:<22}  {:>8}  {:>17.1f}  {:>8}  {:>12}  {:>8.2f}{}\n", name_of(options, each.where),
               fmt::format("{}{:g}", each.reached ? "" : "> ", each.rounds), each.hops_per_message, each.longest,
               fmt::format("{}{:.0f}", each.reached ? "" : "> ", each.cost), each.cost / answer.best.cost,
               is_best ? "  <-" : "");
  }
  fmt::print("\nucft_sim push_sum --lock-step --topology {} --reach {} --ranks {} --eps {:g} --physical {}\n",
             gossip_topology_name(answer.best.where.topology), answer.best.where.reach, options.ranks, options.eps,
             options.machine_name);
}

}  // namespace

void add_optimise_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  options->threads = 0;
  CLI::App* command = app.add_subcommand(
      "optimise", "gossip on a machine: the topology and reach whose messages travel the fewest hops in all");
  command->add_option("--machine", options->machine_name, "what messages travel on; bus: a grid of one dimension")
      ->check(CLI::IsMember({"torus_2d", "torus_3d", "ring", "bus", "hypercube", "tree"}))
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "how many ranks")
      ->check(whole_between(2, 1 << 16))
      ->capture_default_str();
  command->add_option("--arity", options->machine.arity, "children in a tree")
      ->check(whole_between(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--eps", options->eps, "the worst error that is asked for, relative")
      ->check(number_between(1e-14, 0.5))
      ->capture_default_str();
  command->add_option("--message", options->per_message, "cost of a message, whatever its way")
      ->check(number_between(0, longest_time))
      ->capture_default_str();
  command->add_option("--hop", options->per_hop, "cost of each of its hops")
      ->check(number_between(0, longest_time))
      ->capture_default_str();
  command->add_option("--runs", options->runs, "of which medians are taken")
      ->check(whole_between(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of all that is drawn")
      ->check(whole_between(0, UINT64_MAX))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "runs at a time (0: one per core); results don't depend on it")
      ->check(whole_between(0, 4096));
  command->add_flag("--json", options->json, "one JSON object");
  command->callback([options, command, &exit_code] {
    refuse_meaningless(*command, {{"--arity", options->machine_name == "tree", "of --machine tree"}});
    if (options->per_message + options->per_hop == 0) refuse("--message, --hop: messages that cost nothing");
    parse_gossip_topology(options->machine_name, options->machine.topology);
    options->machine.ranks = static_cast<Rank>(options->ranks);
    options->threads = threads_for(options->threads);
    if (const std::string problem = problem_with(*options); !problem.empty()) refuse(problem);
    print(*options, optimise(*options));
    exit_code = 0;
  });
}

}  // namespace ucft::detail::simulator::optimise_command
