// Invariants of asynchronous gossip, asserted after every event. In debug builds only: they cost as much as the rest.
//
//   push-sum     the masses here and on their way never change their sum. By differences, so it costs little per event
//   push-flow    the flow of a link at one end is the negative of that at the other, bit by bit. Exceptions: a message
//                is on its way between them, was lost, or crossed another. An answer still to be sent is on its way
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "simulator/gossip_network.hpp"

namespace ucft::detail::simulator {

#ifdef UCFT_CHECK_EVENTS
inline constexpr bool are_events_checked = true;
#else
inline constexpr bool are_events_checked = false;
#endif

template <class Real>
class GossipInvariants {
 public:
  // result: counts the flows that have been compared.
  GossipInvariants(const GossipRun& run, GossipResult& result)
      : run_(run), result_(result), balance_(static_cast<std::size_t>(run.values) + 1, 0) {}

  // sign: -1 before it changes or ends, 1 after it has changed or begun.
  void note(const GossipRank<Real>& rank, int sign) {
    if (!checks_mass()) return;
    std::vector<Real> mass(balance_.size());
    rank.mass(mass);
    note(mass, sign);
  }
  void note(ConstMass<Real> row, int sign) {
    if (!checks_mass()) return;
    for (std::size_t i = 0; i < balance_.size(); ++i) balance_[i] += sign * static_cast<long double>(row[i]);
  }
  void check_mass() {
    if (!checks_mass()) return;
    ++balanced_events_;
    for (long double each : balance_) {
      assert(std::abs(each) <= static_cast<long double>(balanced_events_) * 4 * std::numeric_limits<Real>::epsilon() &&
             "mass is conserved");
      (void)each;
    }
  }

  void note_sent(const GossipFlight<Real>& flight, bool survives) {
    if (!checks_flows()) return;
    Link& link = link_of(flight);
    if (link.on_their_way == 0) link.is_clean = true;
    if (!survives || (link.on_their_way > 0 && link.last != flight.from)) link.is_clean = false;
    link.last = flight.from;
    link.on_their_way += survives;
  }
  void check_delivered(const GossipFlight<Real>& flight, bool is_answered, GossipRanks<Real>& ranks) {
    if (!checks_flows()) return;
    Link& link = link_of(flight);
    if (--link.on_their_way > 0 || !link.is_clean || is_answered) return;
    ++result_.checked_flows;
    GossipRank<Real>& sender = ranks.at(flight.from);
    const Mass<Real> here = ranks.at(flight.to).flows(flight.link), there = sender.flows(sender.link_of(flight.to));
    for (std::size_t i = 0; i < here.size(); ++i) {
      assert(here[i] == -there[i] && "a flow is conserved");
      (void)here, (void)there;
    }
  }

 private:
  struct Link {
    int on_their_way = 0;
    Rank last = no_rank;   // whose message was sent last
    bool is_clean = true;  // none has been lost, or has crossed another, since the link was last at rest
  };

  bool checks_mass() const {
    return are_events_checked && run_.plan.algorithm == GossipAlgorithm::push_sum && !run_.faults.any();
  }
  bool checks_flows() const {
    const GossipFaults& faults = run_.faults;
    return are_events_checked && uses_flows(run_.plan.algorithm) && run_.plan.algorithm <= GossipAlgorithm::pfcc &&
           faults.flips.empty() && faults.flip_rate == 0 && faults.deaths.empty() && faults.links.empty();
  }
  Link& link_of(const GossipFlight<Real>& flight) {
    const auto [low, high] = std::minmax(flight.from, flight.to);
    return links_[static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint32_t>(high)];
  }

  const GossipRun& run_;
  GossipResult& result_;
  std::vector<long double> balance_;
  std::int64_t balanced_events_ = 0;
  std::unordered_map<std::uint64_t, Link> links_;  // that have been used
};

}  // namespace ucft::detail::simulator
