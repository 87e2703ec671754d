// Options of the commands under the LogGP clock: the costs of messages, the network, the ranks that fail, and when the
// others know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/commands.hpp"
#include "simulator/failures.hpp"

namespace ucft::detail::simulator {

struct ClockOptions {
  double latency = -1, overhead = -1, send_overhead = -1, receive_overhead = -1, gap = -1, gap_per_byte = -1;
  double skew = 0, jitter = 0;
  std::vector<std::string> slow;
  std::string noise;
  std::string model;
  bool one_processor = false;
  std::string network = "flat";
  NetworkShape shape{};

  FailurePlan failures;
  std::vector<std::string> deaths, suspicions;
  std::string detection;
};

void add_clock_options(CLI::App& command, ClockOptions& options);

// How many runs, and how they are printed.
struct RunOptions {
  std::uint64_t seed = 1;
  int runs = 1, threads = 0;
  bool each = false, json = false;
};
CLI::Option* add_run_options(CLI::App& command, RunOptions& options);  // --json
// RANK@FACTOR each.
std::vector<SlowRank> parse_slow(const std::vector<std::string>& texts, std::int64_t ranks);
// Adds the deaths and suspicions of named ranks to failures.
void parse_failures(ClockOptions& options, std::int64_t ranks);
// Costs, jitter, skew, slow ranks, noise and detection, for setting.ranks ranks. detects: whether deaths are detected
// if nothing is said of it.
void set_clock(const ClockOptions& options, bool detects, Setting& setting);
NetworkShape network_of(const ClockOptions& options);
// Refuses options of a network, or of hosts, that this one has not. has_hosts: the operation itself has some.
void refuse_meaningless_network(const CLI::App& command, const ClockOptions& options, bool has_hosts);

}  // namespace ucft::detail::simulator
