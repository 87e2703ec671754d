// Recursive doubling, the deterministic comparator of gossip. ARDB stops after fewer rounds, and has then taken a
// sample. Casas et al. 2018, Algorithm 1 and section 6.2. The mass of a rank is the sum of the masses of its block. Its
// weight is their number.
//
// Any n: with p the largest power of two, the first 2(n-p) ranks pair up before, and tell each other the result after.
#pragma once

#include "collectives/gossip/mass.hpp"

namespace ucft::detail {

template <class Real>
class RecursiveDoubling {
 public:
  static constexpr int exchanges = 0, takes_over = 1;  // links

  explicit RecursiveDoubling(ConstMass<Real> initial) : mass_(initial.begin(), initial.end()) {}

  void push(int link, GossipOutbox<Real>& out) { copy<Real>(out.add(link, mass_.size()), mass_); }
  void settle(int link, GossipOutbox<Real>& out) { clear(out.add(link, mass_.size())); }
  void on_message(const GossipArrival<Real>& arrival, GossipOutbox<Real>&) {
    if (arrival.link == takes_over) return copy<Real>(mass_, arrival.row);
    add<Real>(mass_, arrival.row);
    error_.add<Real>(mass_, mass_.size() - 1);
  }
  void on_failure(int) {}

  void add_input(ConstMass<Real> input) { add<Real>(mass_, input); }  // before the first round
  void add_estimate(Mass<Real> mass) const { add<Real>(mass, mass_); }
  // Of a block's: each of its ranks has the same sum.
  MassError error() const { return error_; }
  std::size_t row_length() const { return mass_.size(); }
  Mass<Real> local_data() { return mass_; }
  Mass<Real> flows(int) { return mass_; }

 private:
  std::vector<Real> mass_;
  MassError error_;
};

}  // namespace ucft::detail
