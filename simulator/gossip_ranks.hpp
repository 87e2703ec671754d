// The ranks of a simulated gossip run: their state, their estimates, and which of them have died.
//
// All parts of a run refer to what is asked for and to the result, which must outlive them. A part writes its own
// fields of the result. Exceptions: messages, and the rounds of an asynchronous run that has ended by agreement.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "simulator/gossip_run.hpp"

namespace ucft::detail::simulator {

template <class Real>
class GossipRanks {
 public:
  // schedule: of an algorithm that goes by rounds. result: counts estimates that are no number.
  GossipRanks(const GossipRun& run, GossipResult& result, const GossipSchedule* schedule = nullptr)
      : run_(run),
        result_(result),
        dead_(static_cast<std::size_t>(run.plan.neighbourhood.ranks)),
        estimate_(static_cast<std::size_t>(run.values)) {
    const bool lists = run.plan.neighbourhood.topology != GossipTopology::complete || uses_flows(run.plan.algorithm);
    std::vector<Real> values(estimate_.size());
    ranks_.reserve(dead_.size());
    for (Rank rank = 0; rank < count(); ++rank) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<Real>(value_of(run, rank, static_cast<int>(i)));
      const auto weight = static_cast<Real>(weight_of(run, rank));
      if (schedule != nullptr)
        ranks_.emplace_back(run.plan, *schedule, values, weight);
      else
        ranks_.emplace_back(run.plan, rank, values, weight, lists);
    }
  }

  Rank count() const { return static_cast<Rank>(dead_.size()); }
  GossipRank<Real>& at(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  bool is_dead(Rank rank) const { return dead_[static_cast<std::size_t>(rank)]; }

  // Valid until the next call. Empty: the rank has none (yet).
  std::span<const Real> estimate_of(Rank rank) {
    if (at(rank).estimate(estimate_)) return estimate_;
    if (run_.aggregate != GossipAggregate::sum_one_hot)
      for (Real each : estimate_) result_.not_a_number += std::isnan(each);
    return {};
  }

  int deaths() const { return deaths_; }
  void kill(Rank rank) {
    deaths_ += !is_dead(rank);
    dead_[static_cast<std::size_t>(rank)] = true;
  }
  void tell_neighbours(Rank failed) {
    for (Rank rank = 0; rank < count(); ++rank) fail_link(rank, failed);
  }
  void break_link(const LinkFailure& failure) {
    fail_link(failure.a, failure.b);
    fail_link(failure.b, failure.a);
  }

 private:
  void fail_link(Rank rank, Rank other) {
    if (is_dead(rank)) return;
    if (const int link = at(rank).link_of(other); link >= 0) at(rank).on_failure(link);
  }

  const GossipRun& run_;
  GossipResult& result_;
  std::vector<GossipRank<Real>> ranks_;
  std::vector<bool> dead_;
  int deaths_ = 0;
  std::vector<Real> estimate_;
};

}  // namespace ucft::detail::simulator
