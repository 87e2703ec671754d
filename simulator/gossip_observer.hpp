// The simulator's look at a gossip run: the errors of all estimates against the true aggregate, round by round. The
// ranks themselves know only whether they agree.
#pragma once

#include <algorithm>
#include <limits>

#include "simulator/gossip_ranks.hpp"

namespace ucft::detail::simulator {

template <class Real>
class GossipObserver {
 public:
  // Before the first death. limit: of rounds. result: has the rounds and the errors.
  GossipObserver(const GossipRun& run, GossipResult& result, const GossipProgress& progress, GossipRanks<Real>& ranks,
                 int limit)
      : run_(run), result_(result), progress_(progress), ranks_(ranks), limit_(limit) {}

  // After a round. True: the run is over.
  bool look(int round) {
    update_truth();
    double worst = 0;
    std::vector<double> all;
    for (Rank rank = 0; rank < (run_.root_only ? 1 : ranks_.count()); ++rank) {
      if (ranks_.is_dead(rank)) continue;
      const double error = error_of(ranks_.estimate_of(rank), target());
      worst = std::max(worst, error);
      if (run_.keeps_history) all.push_back(error);
    }
    result_.rounds = round;
    result_.best = round == 0 ? worst : std::min(result_.best, worst);
    if (run_.keeps_history) {
      result_.history.push_back(worst);
      std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
      result_.median.push_back(all.empty() ? 0 : all[all.size() / 2]);
    }
    if (progress_ && round % 16 == 0) progress_(limit_ > 0 ? std::min(1.0, static_cast<double>(round) / limit_) : 1);
    return round >= limit_ || (run_.stop == GossipStop::truth && !run_.all_rounds && worst <= run_.eps);
  }
  void finish() {
    update_truth();
    for (Rank rank = 0; rank < ranks_.count(); ++rank) {
      const std::span<const Real> estimate = ranks_.is_dead(rank) ? std::span<const Real>() : ranks_.estimate_of(rank);
      if (run_.keeps_estimates) {
        result_.estimates.insert(result_.estimates.end(), estimate.begin(), estimate.end());
        result_.estimates.resize(static_cast<std::size_t>(rank + 1) * static_cast<std::size_t>(run_.values),
                                 std::numeric_limits<double>::quiet_NaN());
      }
      if (ranks_.is_dead(rank)) continue;
      result_.unknown += estimate.empty();
      if (run_.root_only && rank > 0 && !estimate.empty()) continue;
      result_.error = std::max(result_.error, error_of(estimate, target()));
      result_.error_all = std::max(result_.error_all, error_of(estimate, truth_all_));
      result_.error_survivors = std::max(result_.error_survivors, error_of(estimate, truth_survivors_));
    }
    result_.reached = result_.error <= run_.eps;
  }

 private:
  const std::vector<double>& target() const {
    return answer_after_death(run_.plan.algorithm) == GossipAnswer::survivors ? truth_survivors_ : truth_all_;
  }
  void update_truth() {
    if (deaths_ == ranks_.deaths()) return;
    deaths_ = ranks_.deaths();
    truth_survivors_ = mean_of_survivors();
  }
  std::vector<double> mean_of_survivors() const {
    std::vector<double> means;
    for (int i = 0; i < run_.values; ++i) {
      long double sum = 0, weight = 0;
      for (Rank rank = 0; rank < ranks_.count(); ++rank) {
        if (ranks_.is_dead(rank)) continue;
        sum += static_cast<long double>(static_cast<Real>(value_of(run_, rank, i)));
        weight += weight_of(run_, rank);
      }
      means.push_back(static_cast<double>(sum / weight));
    }
    return means;
  }
  static double error_of(std::span<const Real> estimate, const std::vector<double>& truth) {
    double worst = estimate.empty() ? std::numeric_limits<double>::infinity() : 0;
    for (std::size_t i = 0; i < estimate.size(); ++i) {
      const double off = std::abs(static_cast<double>(estimate[i]) - truth[i]);
      worst = std::max(worst, truth[i] == 0 ? off : off / std::abs(truth[i]));
    }
    return worst;
  }

  const GossipRun& run_;
  GossipResult& result_;
  const GossipProgress& progress_;
  GossipRanks<Real>& ranks_;
  int limit_, deaths_ = 0;
  std::vector<double> truth_all_ = mean_of_survivors(), truth_survivors_ = truth_all_;  // after deaths_
};

}  // namespace ucft::detail::simulator
