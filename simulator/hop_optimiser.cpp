#include "simulator/hop_optimiser.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "simulator/many_runs.hpp"

namespace ucft::detail::simulator {

namespace {

constexpr double given_up_at = 4;  // times the lowest cost so far

double cost_of(const HopQuestion& question, double messages, double hops_per_message) {
  return messages * (question.per_message + question.per_hop * hops_per_message);
}

// Of a message to a neighbour by chance, on average over all ranks.
double mean_hops(const Neighbourhood& machine, const Neighbourhood& where) {
  double sum = 0;
  for (Rank rank = 0; rank < machine.ranks; ++rank) {
    double of_rank = 0;
    const std::vector<Rank> neighbours = neighbours_of(where, rank);
    for (Rank neighbour : neighbours) of_rank += hops(machine, rank, neighbour);
    sum += of_rank / static_cast<double>(std::max<std::size_t>(neighbours.size(), 1));
  }
  return sum / machine.ranks;
}

Rank furthest_from(const Neighbourhood& machine, Rank from) {
  Rank furthest = from;
  for (Rank rank = 0; rank < machine.ranks; ++rank)
    if (hops(machine, from, rank) > hops(machine, from, furthest)) furthest = rank;
  return furthest;
}

class Optimiser {
 public:
  explicit Optimiser(const HopQuestion& question) : question_(question), diameter_(diameter_of(question.machine)) {}

  HopAnswer run() {
    // Long ways first: they need few rounds, and say when short ones are too dear to be run to their end.
    std::vector<int> coarse{diameter_};
    for (int reach = diameter_ / 2; reach >= 1; reach /= 2) coarse.push_back(reach);
    for (int reach : coarse) try_reach(reach);
    for (int step = diameter_; step > 1;) {
      const int best = best_reach(), span = step;
      step = std::max(1, step / 4);
      for (int reach = best + span; reach >= best - span; reach -= step) try_reach(std::clamp(reach, 1, diameter_));
    }
    try_others();
    HopAnswer answer;
    for (const auto& [reach, candidate] : reaches_) answer.reaches.push_back(candidate);
    answer.others = others_;
    answer.best = best_;
    return answer;
  }

 private:
  void try_reach(int reach) {
    if (reaches_.contains(reach)) return;
    Neighbourhood where = question_.machine;
    where.reach = reach;
    reaches_.emplace(reach, tried(where));
  }
  void try_others() {
    Neighbourhood hypercube{.topology = GossipTopology::hypercube, .ranks = question_.machine.ranks};
    Neighbourhood random{.topology = GossipTopology::random_regular, .ranks = question_.machine.ranks};
    for (const Neighbourhood& where : {hypercube, random})
      if (where.topology != question_.machine.topology && ucft::detail::problem_with(where).empty())
        others_.push_back(tried(where));
  }
  HopCandidate tried(const Neighbourhood& where) {
    const HopCandidate candidate = measure(question_, where, is_any_ ? given_up_at * best_.cost : 0);
    if (candidate.reached && (!is_any_ || candidate.cost < best_.cost)) {
      best_ = candidate;
      is_any_ = true;
    }
    return candidate;
  }
  int best_reach() const {
    int best = diameter_;
    for (const auto& [reach, candidate] : reaches_)
      if (candidate.reached && candidate.cost < reaches_.at(best).cost) best = reach;
    return best;
  }

  const HopQuestion& question_;
  const int diameter_;
  std::map<int, HopCandidate> reaches_;
  std::vector<HopCandidate> others_;
  HopCandidate best_;
  bool is_any_ = false;
};

}  // namespace

int diameter_of(const Neighbourhood& machine) {
  const Rank end = furthest_from(machine, 0);  // of trees and buses; elsewhere any rank is as good
  return std::max(1, hops(machine, end, furthest_from(machine, end)));
}

std::string problem_with(const HopQuestion& question) {
  if (question.machine.ranks < 2) return "a machine of one rank has nobody to gossip with";
  const GossipTopology shape = question.machine.topology;
  if (shape == GossipTopology::random_regular || shape == GossipTopology::complete)
    return std::string("a machine that is ") + gossip_topology_name(shape) + " has no hops to save";
  return ucft::detail::problem_with(question.machine);
}

HopCandidate measure(const HopQuestion& question, const Neighbourhood& where, double most_cost) {
  GossipRun run;
  run.plan.algorithm = GossipAlgorithm::push_sum;
  run.plan.neighbourhood = where;
  run.eps = question.eps;
  run.lock_step = true;
  run.physical = question.machine;
  if (const double a_round = cost_of(question, 1, mean_hops(question.machine, where)); most_cost > 0 && a_round > 0)
    run.rounds = static_cast<int>(std::min(std::ceil(most_cost / a_round), 1e6));
  std::vector<GossipResult> results(static_cast<std::size_t>(question.runs));
  for_each_run(question.runs, question.threads, true, [&](int number, const RunProgress&) {
    GossipRun one = run;
    one.seed = one.plan.seed = mixed(question.seed, static_cast<std::uint64_t>(number));
    results[static_cast<std::size_t>(number)] = simulate(one);
  });
  const auto median = [&](auto field) {
    std::vector<double> all;
    for (const GossipResult& result : results) all.push_back(static_cast<double>(field(result)));
    return median_of(std::move(all));
  };
  const double messages = median([](const GossipResult& r) { return r.messages; });
  const double all_hops = median([](const GossipResult& r) { return r.hops; });
  HopCandidate candidate;
  candidate.where = where;
  candidate.rounds = median([](const GossipResult& r) { return r.rounds; });
  candidate.hops_per_message = messages > 0 ? all_hops / messages : 0;
  candidate.cost = cost_of(question, messages / where.ranks, candidate.hops_per_message);
  for (const GossipResult& result : results) {
    candidate.longest = std::max(candidate.longest, result.longest_way);
    candidate.reached = candidate.reached && result.reached;
  }
  return candidate;
}

HopAnswer optimise(const HopQuestion& question) { return Optimiser(question).run(); }

}  // namespace ucft::detail::simulator
