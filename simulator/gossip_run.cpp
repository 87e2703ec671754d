#include "simulator/gossip_run.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "simulator/gossip_asynchronous.hpp"
#include "simulator/gossip_by_rounds.hpp"

namespace ucft::detail::simulator {

namespace {

constexpr int most_rounds = 10000000;

double normal_value(std::uint64_t seed, std::uint64_t rank) {  // Box and Muller
  const double u = 1 - uniform_value(seed, rank), v = uniform_value(~seed, rank);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

// Of all ranks' objects, about.
double memory_of(const GossipRun& run) {
  const double n = run.plan.neighbourhood.ranks, number = run.single_precision ? 4 : 8;
  double links = 0;
  if (uses_cycles(run.plan.algorithm))
    links = uses_flows(run.plan.algorithm) ? 2.0 * (run.plan.cycles > 0 ? run.plan.cycles
                                                    : run.rounds > 0    ? run.rounds
                                                                        : 3 * rounds_for(run.plan, run.eps) + 10)
                                           : 0;
  else if (uses_flows(run.plan.algorithm))
    links = run.plan.neighbourhood.topology == GossipTopology::complete
                ? n - 1
                : static_cast<double>(neighbours_of(run.plan.neighbourhood, 0).size());
  const double flows = run.plan.algorithm == GossipAlgorithm::pcf || run.plan.algorithm == GossipAlgorithm::pcf_printed
                           ? 2
                       : run.plan.algorithm == GossipAlgorithm::pcf_flip ? 6
                                                                         : 1;
  return n * (sizeof(GossipRank<double>) + 200 + links * (8 + flows * (run.values + 2) * number));
}

int rounds_limit(const GossipRun& run) {
  if (run.stop == GossipStop::model) return rounds_for(run.plan, run.eps);
  if (run.rounds > 0 || run.plan.neighbourhood.ranks == 1) return run.rounds;
  return std::min(most_rounds, 10 * rounds_for(run.plan, run.eps) + 100);
}

template <class Real>
void simulate_as(const GossipRun& run, const GossipProgress& progress, GossipResult& result) {
  if (goes_by_rounds(run.plan.algorithm))
    ScheduledGossip<Real>(run, progress, rounds_limit(run), result).run();
  else if (run.lock_step)
    simulate_in_lock_step<Real>(run, progress, rounds_limit(run), result);
  else
    AsynchronousGossip<Real>(run, progress, rounds_limit(run), result).run();
}

}  // namespace

double value_of(const GossipRun& run, Rank rank, int index) {
  if (run.data_function) return run.data_function(rank, index);
  return gossip_value(run.data, run.seed, run.plan.neighbourhood.ranks, rank, index);
}

double weight_of(const GossipRun& run, Rank rank) {
  return run.aggregate == GossipAggregate::sum_one_hot && rank != 0 ? 0 : 1;
}

double gossip_value(GossipData data, std::uint64_t seed, Rank ranks, Rank rank, int index) {
  if (index > 0) seed = mixed(seed, static_cast<std::uint64_t>(index));
  switch (data) {
    case GossipData::uniform: return uniform_value(seed, static_cast<std::uint64_t>(rank));
    case GossipData::normal: return normal_value(seed, static_cast<std::uint64_t>(rank));
    case GossipData::bus: return rank == 0 ? ranks + 1.0 : 1.0;
    case GossipData::ranks: return rank;
  }
  return 0;
}

bool checks_events() { return are_events_checked; }

std::string problem_with(const GossipRun& run) {
  if (const std::string problem = problem_with(run.plan); !problem.empty()) return problem;
  const Rank n = run.plan.neighbourhood.ranks;
  if (!(run.eps > 0) || !std::isfinite(run.eps)) return fmt::format("eps = {}: it must be a positive number", run.eps);
  const double epsilon =
      run.single_precision ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  if (has_checksums(run.plan.algorithm) && run.plan.tau < epsilon)
    return fmt::format("tau = {}: smaller than the rounding errors of the checksums, {:.2g} and more", run.plan.tau,
                       epsilon);
  if (run.physical)
    if (const std::string problem = problem_with(*run.physical); !problem.empty())
      return "the physical topology: " + problem;
  if (static_cast<Rank>(run.faults.deaths.size()) >= n)
    return fmt::format("{} deaths of {} ranks: one must live", run.faults.deaths.size(), n);
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (!can_run_large(run) && memory_of(run) > memory)
    return fmt::format("{} ranks with {} on {} need {:.0f} GiB; this machine has {:.0f}", n,
                       gossip_algorithm_name(run.plan.algorithm), gossip_topology_name(run.plan.neighbourhood.topology),
                       memory_of(run) / 0x1p30, memory / 0x1p30);
  for (const RankDeath& death : run.faults.deaths)
    if (run.root_only && death.rank == 0) return "rank 0 dies, and the error is to be its own";
  for (const RankDeath& death : run.faults.deaths)
    if (death.rank < 0 || death.rank >= n) return fmt::format("a death: rank {} of {}", death.rank, n);
  return problem_with(run.faults, run.plan, run.single_precision ? 32 : 64);
}

GossipResult simulate(const GossipRun& run, const GossipProgress& progress) {
  GossipResult result;
  run.single_precision ? simulate_as<float>(run, progress, result) : simulate_as<double>(run, progress, result);
  return result;
}

}  // namespace ucft::detail::simulator
