// Push-Cancel-Flow: flows that shrink towards the aggregate instead of growing with the history. So the result is as
// accurate as its floating-point numbers, and a failure costs no convergence. Niederbrucker, Straková, Gansterer 2012,
// section III. Here e = initial - phi, and a flow is what went there, less what came.
//
// Each link has two flows: an active one, used as in Push-Flow, and a passive one. Both sides bring the passive flow to
// agreement, then absorb it into phi and set it to zero. Then the two change roles. After a death the survivors stay on
// the aggregate of ALL ranks: what the dead rank had given is theirs.
//
//   printed        Figure 5 with its misprints mended (line 11: f_ij + f_ji; lines 18-19: the passive flow is zeroed
//                  before the roles change; lines 31-32: (v - phi)/2 once). For study only: where messages cross, both
//                  sides may change roles and take it back, and the link is stuck for ever.
//   handshake      The lower rank of a link leads; era e names the roles (active: e mod 2). The leader closes an era
//                  only when the follower has acknowledged it, and its passive flow is frozen meanwhile. Messages may
//                  cross or be lost. Both sides have absorbed a flow, or neither, unless a message is on its way. So a
//                  failing link leaves no more behind than that message. The follower therefore absorbs as it sends its
//                  acknowledgement, not before.
//   flip_tolerant  The handshake, with phi changed by absorption only (section III, end of A). e = initial - phi - all
//                  flows, so a wrong active flow is repaired by the next message. That alone is not enough: a flip high
//                  in an exponent goes into other flows before it is repaired. In floating-point numbers what was there
//                  is lost. So all numbers are kept three times and read by majority of each bit, and a message carries
//                  a check word in which every single flipped bit shows.
//
// Invariant: on a link with no message on its way the two sides' absorbed and present flows add up to zero.
#pragma once

#include <bit>
#include <cstring>

#include "collectives/gossip/mass.hpp"

namespace ucft::detail {

// Figure 5.
template <class Real>
class PushCancelFlowPrinted {
 public:
  PushCancelFlowPrinted(ConstMass<Real> initial, int links)
      : initial_(initial.begin(), initial.end()),
        phi_(initial.size()),
        flows_(2 * initial.size() * static_cast<std::size_t>(links)),
        links_(static_cast<std::size_t>(links)) {}

  // Lines 31-33.
  void push(int link, GossipOutbox<Real>& out) {
    const Link& state = links_[static_cast<std::size_t>(link)];
    Mass<Real> active = flow(link, state.c);
    for (std::size_t i = 0; i < phi_.size(); ++i) {
      const Real half = (initial_[i] - phi_[i]) / 2;
      active[i] += half;
      phi_[i] += half;
    }
    settle(link, out);
  }
  void settle(int link, GossipOutbox<Real>& out) {
    const Link& state = links_[static_cast<std::size_t>(link)];
    copy<Real>(out.add(link, 2 * phi_.size(), state.r, state.c), flows(link));
  }

  // Lines 6-29. era: r, ack: c.
  void on_message(const GossipArrival<Real>& arrival, GossipOutbox<Real>&) {
    Link& state = links_[static_cast<std::size_t>(arrival.link)];
    if (state.c != arrival.ack && state.r == arrival.era) state.c = arrival.ack;
    if (state.c != arrival.ack) return;
    exchange(arrival, state.c);
    const std::uint32_t other = 1 - state.c;
    Mass<Real> passive = flow(arrival.link, other);
    ConstMass<Real> theirs = arrival.row.subspan(other * phi_.size(), phi_.size());
    bool conserved = true, is_zero = true;
    for (std::size_t i = 0; i < phi_.size(); ++i) {
      conserved = conserved && theirs[i] == -passive[i];
      is_zero = is_zero && theirs[i] == 0;
    }
    if (conserved && state.r == arrival.era) {  // lines 13-15
      clear(passive);
      ++state.r;
    } else if (is_zero && state.r + 1 == arrival.era) {  // lines 17-20
      clear(passive);
      state.c = other;
      ++state.r;
    } else if (state.r <= arrival.era) {  // lines 22-25
      exchange(arrival, other);
    }
  }

  void on_failure(int link) {
    for (std::uint32_t each : {0u, 1u}) subtract<Real>(phi_, flow(link, each));
    clear(flows(link));
  }

  void add_input(ConstMass<Real> input) { add<Real>(initial_, input); }
  void add_estimate(Mass<Real> mass) const {
    for (std::size_t i = 0; i < phi_.size(); ++i) mass[i] += initial_[i] - phi_[i];
  }
  MassError error() const { return {}; }  // not told
  std::size_t row_length() const { return 2 * phi_.size(); }
  Mass<Real> local_data() { return initial_; }
  Mass<Real> flows(int link) {
    return {flows_.data() + 2 * phi_.size() * static_cast<std::size_t>(link), 2 * phi_.size()};
  }

 private:
  struct Link {
    std::uint32_t c = 0, r = 1;
  };
  Mass<Real> flow(int link, std::uint32_t which) { return flows(link).subspan(which * phi_.size(), phi_.size()); }
  void exchange(const GossipArrival<Real>& arrival, std::uint32_t which) {
    Mass<Real> mine = flow(arrival.link, which);
    ConstMass<Real> theirs = arrival.row.subspan(which * phi_.size(), phi_.size());
    for (std::size_t i = 0; i < phi_.size(); ++i) {
      phi_[i] -= mine[i] + theirs[i];
      mine[i] = -theirs[i];
    }
  }

  std::vector<Real> initial_, phi_, flows_;
  std::vector<Link> links_;
};

template <class Real>
class PushCancelFlow {
 public:
  // leads[link]: whether this rank is the lower of the two.
  PushCancelFlow(ConstMass<Real> initial, const std::vector<bool>& leads, bool flip_tolerant)
      : length_(initial.size()),
        memory_(2 * length_ * (1 + leads.size())),
        current_(length_),
        links_(leads.size()),
        flip_tolerant_(flip_tolerant) {
    for (std::size_t link = 0; link < leads.size(); ++link) links_[link].leads = leads[link];
    copy<Real>(local_data(), initial);
    keep();
  }

  void push(int link, GossipOutbox<Real>& out) {
    repair();
    Link& state = at(link);
    if (state.leads && state.acknowledged) {  // both sides agree on the passive flow: the era ends
      absorb(link, passive(state));
      ++state.era;
      state.acknowledged = false;
    } else if (!state.leads &&
               state.agreed) {  // not before it can say so: until then a failure undoes the flow on both sides
      absorb(link, passive(state));
      state.ack = state.era;
      state.agreed = false;
    }
    Mass<Real> flow = flow_at(link, active(state));
    clear<Real>(current_);
    add_estimate(current_);
    for (std::size_t i = 0; i < length_; ++i) {
      flow[i] += current_[i] / 2;
      if (!flip_tolerant_) phi()[i] += current_[i] / 2;
    }
    if (!flip_tolerant_) {
      note_rounding(flow);
      note_rounding(phi());
    }
    keep();
    settle(link, out);
  }

  void settle(int link, GossipOutbox<Real>& out) {
    repair();
    const Link& state = at(link);
    const Mass<Real> row = out.add(link, row_length(), state.era, state.ack);
    copy<Real>(row.first(2 * length_), flows(link));
    if (flip_tolerant_) row.back() = check_word(row.first(2 * length_));
  }

  void on_message(const GossipArrival<Real>& arrival, GossipOutbox<Real>&) {
    Link& state = at(arrival.link);
    if (flip_tolerant_ && arrival.row.back() != check_word(arrival.row.first(2 * length_))) return;
    repair();
    if (state.leads) {
      if (arrival.era != state.era) return;
      exchange(arrival, active(state));
      if (arrival.ack == state.era) state.acknowledged = true;
    } else {
      if (arrival.era < state.era) return;
      state.era = arrival.era;
      exchange(arrival, active(state));
      if (state.ack != state.era) {
        exchange(arrival, passive(state));  // the leader's is frozen: this is its last value
        state.agreed = true;
      }
    }
    keep();
  }

  void on_failure(int link) {
    repair();
    Link& state = at(link);
    if (state.leads && state.acknowledged) absorb(link, passive(state));  // as the follower has
    state.acknowledged = state.agreed = false;
    for (std::uint32_t each : {0u, 1u}) {
      if (!flip_tolerant_) subtract<Real>(phi(), flow_at(link, each));
      note_rounding(phi());
    }
    clear(flows(link));
    keep();
  }

  void add_input(ConstMass<Real> input) {
    repair();
    add<Real>(local_data(), input);
    keep();
  }
  void add_estimate(Mass<Real> mass) const {
    for (std::size_t i = 0; i < length_; ++i) mass[i] += read(i) - read(length_ + i);
    if (!flip_tolerant_) return;
    for (std::size_t i = 2 * length_; i < memory_.size(); ++i) mass[i % length_] -= read(i);
  }
  // Of changes of phi, and of flows where phi changes with them. And of add_estimate().
  MassError error() const {
    MassError error = error_;
    const ConstMass<Real> used = ConstMass<Real>(memory_).first(flip_tolerant_ ? memory_.size() : 2 * length_);
    if (largest(used.subspan(length_)) == 0) return error;
    const auto terms = static_cast<double>(used.size()) / static_cast<double>(length_) - 1;
    for (std::size_t at = 0; at < used.size(); at += length_) error.add(used.subspan(at, length_), length_ - 1, terms);
    return error;
  }
  std::size_t row_length() const { return 2 * length_ + (flip_tolerant_ ? 1 : 0); }
  Mass<Real> local_data() { return {memory_.data(), length_}; }
  Mass<Real> flows(int link) {
    return {memory_.data() + 2 * length_ * (1 + static_cast<std::size_t>(link)), 2 * length_};
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Link {
    std::uint32_t era = 0, ack = none;  // ack: follower, the era that it has absorbed for
    bool leads = false, acknowledged = false;
    bool agreed = false;  // follower: its passive flow is the leader's, to be absorbed
  };
  Link& at(int link) { return links_[static_cast<std::size_t>(link)]; }
  static std::uint32_t active(const Link& state) { return state.era & 1; }
  static std::uint32_t passive(const Link& state) { return 1 - active(state); }
  Mass<Real> phi() { return {memory_.data() + length_, length_}; }
  Mass<Real> flow_at(int link, std::uint32_t which) { return flows(link).subspan(which * length_, length_); }

  void exchange(const GossipArrival<Real>& arrival, std::uint32_t which) {
    Mass<Real> mine = flow_at(arrival.link, which);
    ConstMass<Real> theirs = arrival.row.subspan(which * length_, length_);
    if (!flip_tolerant_) note_rounding(mine);
    for (std::size_t i = 0; i < length_; ++i) {
      if (!flip_tolerant_) phi()[i] -= mine[i] + theirs[i];
      mine[i] = -theirs[i];
    }
    if (flip_tolerant_) return;
    note_rounding(mine);
    note_rounding(phi());
  }
  void note_rounding(ConstMass<Real> mass, double times = 1) { error_.add(mass, length_ - 1, times); }
  // Without flip tolerance phi has it already.
  void absorb(int link, std::uint32_t which) {
    if (flip_tolerant_) {
      add<Real>(phi(), flow_at(link, which));
      note_rounding(phi());
    }
    clear(flow_at(link, which));
  }

  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
  // 20 bits of all bits, as a whole number.
  static Real check_word(ConstMass<Real> row) {
    std::uint64_t folded = 0;
    for (Real each : row) folded = std::rotl(folded, 7) ^ std::bit_cast<Bits>(each);
    return static_cast<Real>((folded ^ (folded >> 20) ^ (folded >> 40) ^ (folded >> 60)) & 0xfffff);
  }
  Real read(std::size_t i) const {
    if (!flip_tolerant_) return memory_[i];
    const auto x = std::bit_cast<Bits>(memory_[i]), y = std::bit_cast<Bits>(second_[i]),
               z = std::bit_cast<Bits>(third_[i]);
    return std::bit_cast<Real>((x & y) | (y & z) | (x & z));
  }
  void repair() {
    if (!flip_tolerant_) return;
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = read(i);
  }
  void keep() {
    if (flip_tolerant_) second_ = third_ = memory_;
  }

  std::size_t length_;
  std::vector<Real> memory_;          // initial | phi | two flows of each link
  std::vector<Real> second_, third_;  // flip_tolerant
  std::vector<Real> current_;
  std::vector<Link> links_;
  MassError error_;
  bool flip_tolerant_;
};

}  // namespace ucft::detail
