// Whether the ranks of a simulated gossip run agree to within eps, looked at now and then.
//
// They stop pushing, let messages on their way arrive, and settle their links. Then they reduce their smallest and
// largest estimate and the size of their weights to all. That takes as long as two trips through a binomial tree. The
// truth is the mean of the estimates by weight. (In recursive doubling it is a mean of those of disjoint blocks.) It
// lies between these two if no weight is negative. Else it is off their middle by at most half of their distance times
// sum |w| / sum w.
#pragma once

#include "collectives/gossip/agreement_table.hpp"
#include "simulator/gossip_invariants.hpp"

namespace ucft::detail::simulator {

template <class Real>
class GossipAgreement {
 public:
  // result: counts messages, and has the bound of the last one.
  GossipAgreement(const GossipRun& run, GossipResult& result, GossipRanks<Real>& ranks)
      : run_(run), result_(result), ranks_(ranks) {}

  // is_last: no round follows.
  bool is_due(int round, bool is_last) const {
    return run_.stop == GossipStop::adaptive && !run_.all_rounds && round > 0 &&
           (is_last || round % run_.check_every == 0);
  }
  double trips() const { return 2 * std::ceil(std::log2(std::max<double>(2, ranks_.count()))); }
  bool is_reached() {
    check_settled();
    result_.messages += 2 * (std::int64_t{ranks_.count()} - 1);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double weights = 0, sizes = 0;
    std::vector<EstimateRange> ranges(static_cast<std::size_t>(run_.values), {infinity, -infinity});
    for (Rank rank = 0; rank < ranks_.count(); ++rank) {
      if (ranks_.is_dead(rank)) continue;
      const std::span<const Real> estimate = ranks_.estimate_of(rank);
      if (estimate.empty()) {
        result_.bound = infinity;
        return false;
      }
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        ranges[i].low = std::min(ranges[i].low, static_cast<double>(estimate[i]));
        ranges[i].high = std::max(ranges[i].high, static_cast<double>(estimate[i]));
      }
      const auto weight = static_cast<double>(weight_now(rank));
      weights += weight;
      sizes += std::abs(weight);
    }
    ErrorBound bound(1, sizes / weights);
    for (const EstimateRange& range : ranges) bound.add(range);
    result_.bound = bound.of_each();
    return result_.bound <= run_.eps;
  }

 private:
  Real weight_now(Rank rank) {
    mass_.resize(static_cast<std::size_t>(run_.values) + 1);
    ranks_.at(rank).mass(mass_);
    return mass_.back();
  }
  // When all links have settled, all weights are there, even if messages crossed before. In recursive doubling each
  // rank has the weight of its block.
  void check_settled() {
    const GossipAlgorithm algorithm = run_.plan.algorithm;
    if (!are_events_checked || run_.faults.any() || algorithm == GossipAlgorithm::pcf_printed ||
        (goes_by_rounds(algorithm) && !uses_cycles(algorithm)))
      return;
    long double weights = 0, initial = 0;
    for (Rank rank = 0; rank < ranks_.count(); ++rank) {
      weights += static_cast<long double>(weight_now(rank));
      initial += weight_of(run_, rank);
    }
    assert(std::abs(weights - initial) <=
               1000 * static_cast<long double>(ranks_.count()) * std::numeric_limits<Real>::epsilon() &&
           "flows are conserved");
    (void)initial;
  }

  const GossipRun& run_;
  GossipResult& result_;
  GossipRanks<Real>& ranks_;
  std::vector<Real> mass_;
};

}  // namespace ucft::detail::simulator
