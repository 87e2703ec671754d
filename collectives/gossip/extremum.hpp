// Gossip of minima and maxima (ours): a mass is the extremes that a rank has heard of, and a push is all of it. Taking
// the larger of two numbers twice, late, or in another order gives the same. So a lost message only delays, nothing has
// to be conserved, and there is no rounding. A weight goes along, and does not count.
//
// Invariant: of a maximum, a value here is at least the one that this rank gave, and at most the largest of all ranks'.
// So the largest of all ranks' masses is the maximum, whether they have met or not.
#pragma once

#include "collectives/gossip/mass.hpp"

namespace ucft::detail {

enum class GossipExtremum : std::uint8_t { none, minimum, maximum };

// No number gives way to any number.
template <class Real>
Real extreme_of(GossipExtremum extremum, Real one, Real other) {
  const bool is_other = extremum == GossipExtremum::maximum ? other > one : other < one;
  return is_other || std::isnan(one) ? other : one;
}
// In each place. The mass has a weight behind its values.
template <class Real>
void take_extremes(GossipExtremum extremum, Mass<Real> mass, ConstMass<Real> values) {
  for (std::size_t i = 0; i + 1 < mass.size(); ++i) mass[i] = extreme_of(extremum, mass[i], values[i]);
}

template <class Real>
class Extremum {
 public:
  Extremum(ConstMass<Real> initial, GossipExtremum extremum)
      : mass_(initial.begin(), initial.end()), extremum_(extremum) {}

  void push(int link, GossipOutbox<Real>& out) { copy<Real>(out.add(link, mass_.size()), mass_); }
  void settle(int link, GossipOutbox<Real>& out) { push(link, out); }
  void on_message(const GossipArrival<Real>& arrival, GossipOutbox<Real>&) { add_input(arrival.row); }
  void on_failure(int) {}

  void add_input(ConstMass<Real> input) { take_extremes<Real>(extremum_, mass_, input); }
  void add_estimate(Mass<Real> mass) const {
    for (std::size_t i = 0; i + 1 < mass_.size(); ++i) mass[i] += mass_[i];
    mass.back() += 1;
  }
  MassError error() const { return {}; }
  std::size_t row_length() const { return mass_.size(); }

  // For fault injection.
  Mass<Real> local_data() { return mass_; }
  Mass<Real> flows(int) { return mass_; }

 private:
  std::vector<Real> mass_;
  GossipExtremum extremum_;
};

}  // namespace ucft::detail
