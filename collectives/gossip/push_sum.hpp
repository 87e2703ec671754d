// Push-Sum, the simplest gossip: Kempe, Dobra, Gehrke 2003; Casas et al. 2018, Algorithm 2. With the schedule of cycles
// it is HPS (section 6).
//
// Invariant (mass conservation): the masses of all ranks and of all messages on their way add up to the initial ones. A
// lost message, a dead rank or a flipped bit breaks it for ever. The ranks then agree on a wrong value.
#pragma once

#include <limits>

#include "collectives/gossip/mass.hpp"

namespace ucft::detail {

template <class Real>
class PushSum {
 public:
  explicit PushSum(ConstMass<Real> initial) : mass_(initial.begin(), initial.end()) {}

  // One iteration: half of what is here goes to that neighbour (lines 3-4).
  void push(int link, GossipOutbox<Real>& out) {
    const Mass<Real> half = out.add(link, mass_.size());
    if (!(mass_.back() >= smallest)) {  // halved it would lose bits, and the weight become 0: nothing goes
      clear(half);
      return;
    }
    for (Real& each : mass_) each /= 2;
    error_.values += MassError::smallest<Real>();
    copy<Real>(half, mass_);
  }
  // See GossipRank::settle. There is nothing to bring to agreement.
  void settle(int link, GossipOutbox<Real>& out) { clear(out.add(link, mass_.size())); }
  // Line 6.
  void on_message(const GossipArrival<Real>& arrival, GossipOutbox<Real>&) {
    add<Real>(mass_, arrival.row);
    error_.add<Real>(mass_, mass_.size() - 1);
  }
  // The dead rank's mass is lost.
  void on_failure(int) {}

  void add_input(ConstMass<Real> input) { add<Real>(mass_, input); }
  void add_estimate(Mass<Real> mass) const { add<Real>(mass, mass_); }
  MassError error() const { return error_; }
  std::size_t row_length() const { return mass_.size(); }

  // For fault injection.
  Mass<Real> local_data() { return mass_; }
  Mass<Real> flows(int) { return mass_; }

 private:
  static constexpr Real smallest = std::numeric_limits<Real>::min() * 4;

  std::vector<Real> mass_;
  MassError error_;
};

}  // namespace ucft::detail
