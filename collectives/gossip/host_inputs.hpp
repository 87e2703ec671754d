// The inputs of the ranks of a host, with the one of them that speaks for it in a gossip operation.
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/gossip/extremum.hpp"
#include "collectives/core/protocol.hpp"

namespace ucft::detail {

template <class Real>
class HostInputs {
 public:
  struct Sum {
    std::vector<Real> mass;  // the values, and the number of inputs as their weight
    MassError off;           // by rounding
  };

  void clear() {
    given_.clear();
    awaits_ = false;
  }
  void begin(Rank me, ConstMass<Real> input) {
    given_ = {{me, {input.begin(), input.end()}}};
    awaits_ = true;
  }
  bool awaits() const { return awaits_; }  // more of them
  bool has(Rank rank) const { return std::ranges::find(given_, rank, &Given::from) != given_.end(); }
  // False: it is not awaited (any more).
  bool take(Rank from, ConstMass<Real> input) {
    if (!awaits_ || has(from)) return false;
    given_.push_back({from, {input.begin(), input.end()}});
    return true;
  }
  // All have come. The sum, or the extremes. It is in the order of ranks: the same bits, in whatever order they came.
  Sum end(GossipExtremum extremum) {
    std::ranges::sort(given_, {}, &Given::from);
    Sum sum{given_.front().row, {}};
    const std::size_t count = sum.mass.size();
    sum.mass.push_back(0);
    for (const Given& given : given_) {
      ++sum.mass.back();
      if (sum.mass.back() == 1) continue;
      if (extremum == GossipExtremum::none) {
        add<Real>(Mass<Real>(sum.mass).first(count), given.row);
        sum.off.template add<Real>(sum.mass, count);
      } else {
        take_extremes<Real>(extremum, sum.mass, given.row);
      }
    }
    clear();
    return sum;
  }

 private:
  struct Given {
    Rank from;
    std::vector<Real> row;
  };
  std::vector<Given> given_;
  bool awaits_ = false;
};

}  // namespace ucft::detail
