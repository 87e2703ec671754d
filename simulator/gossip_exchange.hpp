// The messages of asynchronous gossip, from rank to rank. Drivers say when a rank pushes, and when a message arrives.
#pragma once

#include "simulator/gossip_invariants.hpp"

namespace ucft::detail::simulator {

template <class Real>
class GossipExchange {
 public:
  using Flight = GossipFlight<Real>;

  GossipExchange(const GossipRun& run, GossipResult& result, GossipRanks<Real>& ranks, SimulatedFaults<Real>& faults)
      : plan_(run.plan), ranks_(ranks), faults_(faults), network_(run, result, faults), invariants_(run, result) {}

  const GossipNetwork<Real>& network() const { return network_; }

  // An iteration of a live rank. send: takes each message that is not lost, as does that of deliver().
  template <class Send>
  void push(Rank rank, std::uint64_t iteration, Send send) {
    GossipRank<Real>& state = ranks_.at(rank);
    faults_.before_push(state, state.links());
    const int link = state.choose(plan_.seed, rank, iteration);
    if (link < 0) return;
    out_.clear();
    invariants_.note(state, -1);
    state.push(link, out_);
    invariants_.note(state, 1);
    for (const auto& each : out_.sends()) invariants_.note(ConstMass<Real>(out_.row(each)), 1);
    invariants_.check_mass();
    send_out(rank, send);
  }
  template <class Send>
  void deliver(const Flight& flight, Send send) {
    if (take_in(flight)) send_out(flight.to, send);
  }
  // The lower rank of each link first, then the other. Both messages arrive before the next link's. Without flows there
  // is nothing to settle.
  void settle_all() {
    for (Rank rank = 0; uses_flows(plan_.algorithm) && rank < ranks_.count(); ++rank) {
      if (ranks_.is_dead(rank)) continue;
      for (int link = 0; link < ranks_.at(rank).links(); ++link) {
        const Rank other = ranks_.at(rank).neighbour(link);
        if (!ranks_.at(rank).is_live(link) || other < rank || ranks_.is_dead(other)) continue;
        settle(rank, link);
        settle(other, ranks_.at(other).link_of(rank));
      }
    }
  }

 private:
  void settle(Rank from, int link) {
    out_.clear();
    ranks_.at(from).settle(link, out_);
    Flight flight = flight_of(from, out_.sends().front());
    if (gets_through(flight)) take_in(flight);
  }
  template <class Send>
  void send_out(Rank rank, Send send) {
    for (const auto& each : out_.sends())
      if (Flight flight = flight_of(rank, each); gets_through(flight)) send(std::move(flight));
  }
  Flight flight_of(Rank rank, const typename GossipOutbox<Real>::Send& send) {
    const Rank to = ranks_.at(rank).neighbour(send.link);
    const Mass<Real> row = out_.row(send);
    return {rank, to, ranks_.at(to).link_of(rank), send.era, send.ack, {row.begin(), row.end()}};
  }
  bool gets_through(Flight& flight) {
    const bool survives = network_.carry(flight.from, flight.to, flight.row);
    invariants_.note_sent(flight, survives);
    return survives;
  }
  // False: the receiver, or the link to it, has failed. Answers are in out_.
  bool take_in(const Flight& flight) {
    GossipRank<Real>& state = ranks_.at(flight.to);
    if (ranks_.is_dead(flight.to) || !state.is_live(flight.link)) return false;
    out_.clear();
    invariants_.note(state, -1);
    invariants_.note(flight.row, -1);
    state.on_message({flight.link, flight.era, flight.ack, flight.row}, out_);
    invariants_.note(state, 1);
    invariants_.check_mass();
    invariants_.check_delivered(flight, !out_.empty(), ranks_);
    return true;
  }

  const GossipPlan& plan_;
  GossipRanks<Real>& ranks_;
  SimulatedFaults<Real>& faults_;
  GossipNetwork<Real> network_;
  GossipInvariants<Real> invariants_;
  GossipOutbox<Real> out_;
};

}  // namespace ucft::detail::simulator
