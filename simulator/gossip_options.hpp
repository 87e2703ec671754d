// Options that the gossip commands have in common: neighbours, data, faults.
#pragma once

#include <string>
#include <vector>

#include "simulator/commands.hpp"
#include "simulator/gossip_run.hpp"

namespace ucft::detail::simulator {

struct GossipOptions {
  std::string topology = "complete";
  int arity = 2, degree = 4, reach = 1;
  bool accelerate = false;
  std::uint64_t topology_seed = 1;
  std::string precision = "double", data = "uniform";
  int values = 1;
  double tau = -1;

  double loss = 0, flip_rate = 0;
  std::string flip_target = "flow";
  std::vector<std::string> flips, links;
};

void add_topology_options(CLI::App& command, GossipOptions& options);
void add_data_options(CLI::App& command, GossipOptions& options);
void add_tau_option(CLI::App& command, GossipOptions& options, const std::string& otherwise);
void add_fault_options(CLI::App& command, GossipOptions& options, bool has_links);

// These refuse options that do not go with the algorithm, or can't be read.
Neighbourhood neighbourhood_of(const GossipOptions& options, GossipAlgorithm algorithm, Rank ranks);
double tau_of(const GossipOptions& options, GossipAlgorithm algorithm, double otherwise);
GossipData data_of(const GossipOptions& options);
void read_faults(const GossipOptions& options, ucft::detail::GossipFaults& faults);

}  // namespace ucft::detail::simulator
