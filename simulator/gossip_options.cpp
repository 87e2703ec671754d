#include "simulator/gossip_options.hpp"

#include <map>

namespace ucft::detail::simulator {

void add_topology_options(CLI::App& command, GossipOptions& options) {
  constexpr std::uint64_t most = 1 << 20;
  command.add_option("--topology", options.topology, "the ranks that a rank sends to")
      ->check(CLI::IsMember(names_of(gossip_topology_names())))
      ->capture_default_str();
  command.add_option("--arity", options.arity, "children in a tree")
      ->check(whole_between(1, most))
      ->capture_default_str();
  command.add_option("--degree", options.degree, "neighbours in random_regular")
      ->check(whole_between(2, most))
      ->capture_default_str();
  command.add_option("--topology-seed", options.topology_seed, "of random_regular")
      ->check(whole_between(0, UINT64_MAX))
      ->capture_default_str();
  command.add_option("--reach", options.reach, "all ranks within so many hops of the topology are neighbours")
      ->check(whole_between(1, most))
      ->capture_default_str();
  command.add_flag("--accelerate", options.accelerate,
                   "pushes go rather to the neighbours whose estimate is furthest from one's own");
}

void add_data_options(CLI::App& command, GossipOptions& options) {
  command.add_option("--precision", options.precision, "of all numbers")
      ->check(CLI::IsMember({"single", "double"}))
      ->capture_default_str();
  command.add_option("--values", options.values, "in a vector")
      ->check(whole_between(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--data", options.data,
                  "uniform in [0, 1), normal (mean 0), bus (N+1, 1, 1, ..), ranks (0, 1, 2, ..)")
      ->check(CLI::IsMember({"uniform", "normal", "bus", "ranks"}))
      ->capture_default_str();
}

void add_tau_option(CLI::App& command, GossipOptions& options, const std::string& otherwise) {
  command.add_option("--tau", options.tau,
                     "largest error of a checksum that is no fault, in the unit of the data " + otherwise);
}

void add_fault_options(CLI::App& command, GossipOptions& options, bool has_links) {
  if (has_links)
    command.add_option("--fail-link", options.links, "RANK-RANK@TIME: it is gone from then on, and both ends know")
        ->delimiter(',');
  command.add_option("--loss", options.loss, "probability that a message is lost")
      ->check(number_between(0, 1))
      ->capture_default_str();
  command
      .add_option("--flip", options.flips,
                  "BIT[:RANK]@TIME, BIT from the lowest or 'any': in a flow, message or data by chance")
      ->delimiter(',');
  command
      .add_option("--flip-rate", options.flip_rate,
                  "probability of a flip of any bit, before each push (of a message: on its way)")
      ->check(number_between(0, 1))
      ->capture_default_str();
  command
      .add_option("--flip-target", options.flip_target,
                  "flow (of push_sum and hps: their value and weight), message, data (the initial value)")
      ->check(CLI::IsMember({"flow", "message", "data"}))
      ->capture_default_str();
}

Neighbourhood neighbourhood_of(const GossipOptions& options, GossipAlgorithm algorithm, Rank ranks) {
  if (goes_by_rounds(algorithm) && options.topology != "complete")
    refuse(fmt::format("--topology {}: {} goes by rounds that reach all ranks", options.topology,
                       gossip_algorithm_name(algorithm)));
  const bool is_complete = options.topology == "complete";
  if (options.accelerate && (is_complete || goes_by_rounds(algorithm)))
    refuse(is_complete && !goes_by_rounds(algorithm)
               ? "--accelerate: on --topology complete no rank is far from another"
               : fmt::format("--accelerate: {} goes by rounds, whose partners are given",
                             gossip_algorithm_name(algorithm)));
  if (options.reach > 1 && is_complete)
    refuse(fmt::format("--reach {}: of --topology complete all ranks are neighbours", options.reach));
  Neighbourhood neighbourhood;
  neighbourhood.ranks = ranks;
  parse_gossip_topology(options.topology, neighbourhood.topology);
  neighbourhood.arity = options.arity;
  neighbourhood.degree = options.degree;
  neighbourhood.seed = options.topology_seed;
  neighbourhood.reach = options.reach;
  return neighbourhood;
}

double tau_of(const GossipOptions& options, GossipAlgorithm algorithm, double otherwise) {
  if (options.tau < 0) return otherwise;
  if (!has_checksums(algorithm)) refuse(fmt::format("--tau: {} has no checksums", gossip_algorithm_name(algorithm)));
  return options.tau;
}

GossipData data_of(const GossipOptions& options) {
  static const std::map<std::string, GossipData> names = {{"uniform", GossipData::uniform},
                                                          {"normal", GossipData::normal},
                                                          {"bus", GossipData::bus},
                                                          {"ranks", GossipData::ranks}};
  return names.at(options.data);
}

void read_faults(const GossipOptions& options, ucft::detail::GossipFaults& faults) {
  faults.loss = options.loss;
  faults.flip_rate = options.flip_rate;
  const auto set = [&](const char* name, const std::string& value) {
    if (const std::string problem = set_fault(name, value, faults); !problem.empty())
      refuse(fmt::format("--{} {}: {}", name, value, problem));
  };
  set("flip-target", options.flip_target);
  for (const std::string& text : options.flips) set("flip", text);
  for (const std::string& text : options.links) set("fail-link", text);
}

}  // namespace ucft::detail::simulator
