// When the ranks of a gossip all-reduce come to know its result, long before they agree on it: each rank's own estimate
// is compared with the truth after each of its steps.
//
//   within_eps     from then on the estimate is within eps of the aggregate of all ranks
//   without_slow   the rank has heard of all ranks that are not slow, and for the first time its estimate is within eps
//                  of the aggregate of the ranks that it has heard of. So it need not have a slow rank's value
//
// Errors are relative to the largest value of the truth. No rank dies.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "collectives/gossip/gossip_operation.hpp"
#include "simulator/engine.hpp"

namespace ucft::detail::simulator {

template <class Real>
class EstimateWatch {
 public:
  // The value that a rank gives in a place of its vector.
  using Given = std::function<Real(Rank rank, std::size_t place)>;

  EstimateWatch(const GossipCall& call, std::span<const SlowRank> slow, Given given)
      : sums_(call.sum),
        eps_(call.eps),
        given_(std::move(given)),
        is_slow_(static_cast<std::size_t>(call.plan.neighbourhood.ranks)),
        estimate_(call.count),
        sum_of_all_(call.count),
        sum_of_others_(call.count),
        within_eps_(is_slow_.size(), never),
        without_slow_(is_slow_.size(), never) {
    for (const SlowRank& each : slow)
      if (each.factor > 1) slow_.push_back(each.rank), is_slow_[static_cast<std::size_t>(each.rank)] = true;
    for (Rank rank = 0; rank < ranks(); ++rank)
      for (std::size_t place = 0; place < estimate_.size(); ++place) {
        const auto value = static_cast<long double>(given_(rank, place));
        sum_of_all_[place] += value;
        if (!is_slow_[static_cast<std::size_t>(rank)]) sum_of_others_[place] += value;
      }
  }

  // Follows each step of the rank.
  void look(Rank rank, const GossipOperation<Real>& operation, double now) {
    const auto at = static_cast<std::size_t>(rank);
    if (!operation.finished())
      (void)operation.estimate(estimate_);
    else if (operation.outcome().end == GossipEnd::success)
      copy<Real>(estimate_, operation.result());
    else
      return;
    if (!is_near(sum_of_all_, ranks()))
      within_eps_[at] = never;
    else if (within_eps_[at] == never)
      within_eps_[at] = now;
    if (!slow_.empty() && without_slow_[at] == never && is_near_without_slow(operation)) without_slow_[at] = now;
  }

  // By rank; infinite: not so.
  const std::vector<double>& within_eps() const { return within_eps_; }
  const std::vector<double>& without_slow() const { return without_slow_; }

 private:
  Rank ranks() const { return static_cast<Rank>(is_slow_.size()); }

  bool is_near(const std::vector<long double>& sums, Rank count) const {
    long double worst = 0, largest = 0;
    for (std::size_t place = 0; place < estimate_.size(); ++place) {
      const long double truth = sums_ ? sums[place] : sums[place] / count;
      const long double off = std::abs(static_cast<long double>(estimate_[place]) - truth);
      if (!(off <= worst)) worst = off;  // no number stays
      largest = std::max(largest, std::abs(truth));
    }
    return worst <= static_cast<long double>(eps_) * largest;
  }

  bool is_near_without_slow(const GossipOperation<Real>& operation) const {
    const auto counts = [&](Rank rank) { return operation.finished() || operation.counts(rank); };
    std::vector<long double> sums = sum_of_others_;
    Rank count = ranks() - static_cast<Rank>(slow_.size());
    for (Rank rank : slow_) {
      if (!counts(rank)) continue;
      ++count;
      for (std::size_t place = 0; place < sums.size(); ++place)
        sums[place] += static_cast<long double>(given_(rank, place));
    }
    if (!is_near(sums, count)) return false;
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (!is_slow_[static_cast<std::size_t>(rank)] && !counts(rank)) return false;
    return true;
  }

  bool sums_;
  double eps_;
  Given given_;
  std::vector<bool> is_slow_;
  std::vector<Rank> slow_;
  std::vector<Real> estimate_;
  std::vector<long double> sum_of_all_, sum_of_others_;
  std::vector<double> within_eps_, without_slow_;
};

}  // namespace ucft::detail::simulator
