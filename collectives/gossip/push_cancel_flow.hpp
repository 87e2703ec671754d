// Push-Cancel-Flow: flows that shrink towards the aggregate instead of growing with the history, so that the result is as
// accurate as its floating-point numbers, and a failure costs no convergence. Niederbrucker, Strakova, Gansterer 2012,
// section III. Here e = initial - phi, and a flow is what went there, less what came.
//
// Each link has two flows: an active one, used as in Push-Flow, and a passive one, which both sides bring to agreement,
// then absorb into phi and set to zero; then the two change roles. After a death the survivors stay on the aggregate of
// ALL ranks: what the dead rank had given is theirs.
//
//   printed        Figure 5 with its misprints mended (line 11: f_ij + f_ji; lines 18-19: the passive flow is zeroed before the
//                  roles change; lines 31-32: (v - phi)/2 once). For study only: where messages cross, both sides may change
//                  roles and take it back, and the link is stuck for ever.
//   handshake      The lower rank of a link leads; era e names the roles (active: e mod 2). The leader closes an era only when
//                  the follower has acknowledged it, and its passive flow is frozen meanwhile. Messages may cross or be lost.
//   flip_tolerant  The handshake, with phi changed by absorption only (section III, end of A): e = initial - phi - all flows, so
//                  a flipped bit in an active flow is repaired by the next message. phi and the frozen flow, which nothing
//                  would repair, are kept three times and read by majority of each bit; a message carries a check word in
//                  which every single flipped bit shows.
//
// Invariant: on a link with no message on its way the two sides' absorbed and present flows add up to zero.
#pragma once

#include <bit>
#include <cstring>

#include "collectives/gossip/mass.hpp"

namespace ucft {

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
    Mass<Real> row = out.add(link, 2 * phi_.size(), state.r, state.c);
    copy<Real>(row, flows(link));
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
    if (conserved && state.r == arrival.era) {          // lines 13-15
      clear(passive);
      ++state.r;
    } else if (is_zero && state.r + 1 == arrival.era) { // lines 17-20
      clear(passive);
      state.c = other;
      ++state.r;
    } else if (state.r <= arrival.era) {                // lines 22-25
      exchange(arrival, other);
    }
  }

  void on_failure(int link) {
    for (std::uint32_t each : {0u, 1u}) subtract<Real>(phi_, flow(link, each));
    clear(flows(link));
  }

  void add_estimate(Mass<Real> mass) const {
    for (std::size_t i = 0; i < phi_.size(); ++i) mass[i] += initial_[i] - phi_[i];
  }
  std::size_t row_length() const { return 2 * phi_.size(); }
  Mass<Real> local_data() { return initial_; }
  Mass<Real> flows(int link) { return {flows_.data() + 2 * phi_.size() * static_cast<std::size_t>(link), 2 * phi_.size()}; }
  std::uint32_t era(int link) const { return links_[static_cast<std::size_t>(link)].r; }

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
      : initial_(initial.begin(), initial.end()),
        phi_(initial.size()),
        flows_(2 * initial.size() * leads.size()),
        links_(leads.size()),
        flip_tolerant_(flip_tolerant) {
    for (std::size_t link = 0; link < leads.size(); ++link) links_[link].leads = leads[link];
    if (!flip_tolerant) return;
    phi_copies_.assign(2 * initial.size(), 0);
    frozen_copies_.assign(2 * initial.size() * leads.size(), 0);
    current_.assign(initial.size(), 0);
  }

  void push(int link, GossipOutbox<Real>& out) {
    Link& state = at(link);
    if (state.leads && state.acknowledged) {
      absorb(link, 1 - active(state));
      ++state.era;
      state.acknowledged = false;
      freeze(link, 1 - active(state));
    }
    Mass<Real> flow = flow_at(link, active(state));
    if (flip_tolerant_) {
      clear<Real>(current_);
      add_estimate(current_);
      if (!is_finite<Real>(current_)) {
        for (Real& each : flow)   // a flow that is no number is lost; the other side has it
          if (!std::isfinite(each)) each = 0;
        return;
      }
      for (std::size_t i = 0; i < flow.size(); ++i) flow[i] += current_[i] / 2;
    } else {
      for (std::size_t i = 0; i < flow.size(); ++i) {
        const Real half = (initial_[i] - phi_[i]) / 2;
        flow[i] += half;
        phi_[i] += half;
      }
    }
    if (flip_tolerant_ && state.leads) thaw(link, 1 - active(state));
    const Mass<Real> row = out.add(link, row_length(), state.era, state.ack);
    copy<Real>(row.first(2 * phi_.size()), flows(link));
    if (flip_tolerant_) row.back() = check_word(row.first(2 * phi_.size()));
  }

  void on_message(const GossipArrival<Real>& arrival, GossipOutbox<Real>&) {
    Link& state = at(arrival.link);
    if (flip_tolerant_ && (!is_finite(arrival.row) || arrival.row.back() != check_word(arrival.row.first(2 * phi_.size())))) return;
    if (state.leads) {
      if (arrival.era != state.era) return;
      exchange(arrival, active(state));
      if (arrival.ack == state.era) state.acknowledged = true;
      return;
    }
    if (arrival.era < state.era) return;
    state.era = arrival.era;
    exchange(arrival, active(state));
    if (state.ack == state.era) return;
    exchange(arrival, 1 - active(state));   // the leader's is frozen: this is its last value
    absorb(arrival.link, 1 - active(state));
    state.ack = state.era;
  }

  void on_failure(int link) {
    if (!flip_tolerant_)
      for (std::uint32_t each : {0u, 1u}) subtract<Real>(phi_, flow_at(link, each));
    clear(flows(link));
    if (flip_tolerant_) freeze(link, 1 - active(at(link)));
  }

  void add_estimate(Mass<Real> mass) const {
    for (std::size_t i = 0; i < phi_.size(); ++i) mass[i] += initial_[i] - (flip_tolerant_ ? phi(i) : phi_[i]);
    if (!flip_tolerant_) return;
    for (std::size_t i = 0; i < flows_.size(); ++i) mass[i % phi_.size()] -= flows_[i];
  }
  std::size_t row_length() const { return 2 * phi_.size() + (flip_tolerant_ ? 1 : 0); }
  Mass<Real> local_data() { return initial_; }
  Mass<Real> flows(int link) { return {flows_.data() + 2 * phi_.size() * static_cast<std::size_t>(link), 2 * phi_.size()}; }
  std::uint32_t era(int link) const { return links_[static_cast<std::size_t>(link)].era; }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Link {
    std::uint32_t era = 0, ack = none;   // ack: follower, the era that it has absorbed for
    bool leads = false, acknowledged = false;
  };
  Link& at(int link) { return links_[static_cast<std::size_t>(link)]; }
  static std::uint32_t active(const Link& state) { return state.era & 1; }
  Mass<Real> flow_at(int link, std::uint32_t which) { return flows(link).subspan(which * phi_.size(), phi_.size()); }

  void exchange(const GossipArrival<Real>& arrival, std::uint32_t which) {
    Mass<Real> mine = flow_at(arrival.link, which);
    ConstMass<Real> theirs = arrival.row.subspan(which * phi_.size(), phi_.size());
    for (std::size_t i = 0; i < phi_.size(); ++i) {
      if (!flip_tolerant_) phi_[i] -= mine[i] + theirs[i];
      mine[i] = -theirs[i];
    }
  }
  // Without flip tolerance phi has it already.
  void absorb(int link, std::uint32_t which) {
    Mass<Real> flow = flow_at(link, which);
    if (flip_tolerant_) {
      if (at(link).leads) thaw(link, which);
      for (std::size_t i = 0; i < phi_.size(); ++i) set_phi(i, phi(i) + flow[i]);
    }
    clear(flow);
  }

  // 20 bits of all bits, as a whole number.
  static Real check_word(ConstMass<Real> row) {
    std::uint64_t folded = 0;
    for (Real each : row) {
      using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
      folded = std::rotl(folded, 7) ^ std::bit_cast<Bits>(each);
    }
    return static_cast<Real>((folded ^ (folded >> 20) ^ (folded >> 40) ^ (folded >> 60)) & 0xfffff);
  }
  static Real majority(Real a, Real b, Real c) {
    if (a == b && b == c) return a;
    using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
    const auto x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b), z = std::bit_cast<Bits>(c);
    return std::bit_cast<Real>((x & y) | (y & z) | (x & z));
  }
  Real phi(std::size_t i) const { return majority(phi_[i], phi_copies_[2 * i], phi_copies_[2 * i + 1]); }
  void set_phi(std::size_t i, Real value) { phi_[i] = phi_copies_[2 * i] = phi_copies_[2 * i + 1] = value; }
  Real* frozen(int link) { return frozen_copies_.data() + 2 * phi_.size() * static_cast<std::size_t>(link); }
  void freeze(int link, std::uint32_t which) {
    if (!flip_tolerant_) return;
    for (std::size_t i = 0; i < phi_.size(); ++i) frozen(link)[2 * i] = frozen(link)[2 * i + 1] = flow_at(link, which)[i];
  }
  void thaw(int link, std::uint32_t which) {
    Mass<Real> flow = flow_at(link, which);
    for (std::size_t i = 0; i < phi_.size(); ++i) flow[i] = majority(flow[i], frozen(link)[2 * i], frozen(link)[2 * i + 1]);
  }

  std::vector<Real> initial_, phi_, flows_;
  std::vector<Real> phi_copies_, frozen_copies_, current_;   // flip_tolerant: two more copies of each, and e
  std::vector<Link> links_;
  bool flip_tolerant_;
};

}  // namespace ucft
