// The network of a simulated gossip run: how far and how long messages travel on it, and whether they arrive.
#pragma once

#include <algorithm>

#include "simulator/simulated_faults.hpp"

namespace ucft::detail::simulator {

// A message on its way. link: the receiver's.
template <class Real>
struct GossipFlight {
  Rank from, to;
  int link;
  std::uint32_t era, ack;
  std::vector<Real> row;
};

template <class Real>
class GossipNetwork {
 public:
  // result: counts messages and hops.
  GossipNetwork(const GossipRun& run, GossipResult& result, SimulatedFaults<Real>& faults)
      : run_(run), result_(result), faults_(faults) {}

  // False: the row is lost.
  bool carry(Rank from, Rank to, Mass<Real> row) {
    result_.longest_way = std::max(result_.longest_way, count_message(from, to));
    return faults_.survives_the_way(row);
  }
  // A message without a row, which no fault hits. Returns its hops.
  int count_message(Rank from, Rank to) {
    const int way = hops_between(from, to);
    ++result_.messages;
    result_.hops += way;
    return way;
  }
  // The same for every message of a link: they stay in order.
  double delay(Rank from, Rank to) const {
    const std::uint64_t link =
        mixed(static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to), run_.seed);
    return run_.delay * hops_between(from, to) * (1 + run_.jitter * (static_cast<double>(link >> 11) * 0x1p-53));
  }

 private:
  int hops_between(Rank from, Rank to) const { return run_.physical ? hops(*run_.physical, from, to) : 1; }

  const GossipRun& run_;
  GossipResult& result_;
  SimulatedFaults<Real>& faults_;
};

}  // namespace ucft::detail::simulator
