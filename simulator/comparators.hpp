// What ucft is compared with, under the same clock: collectives without fault tolerance, and gossip. They move no values.
//
//   binomial, ...        the tree of `shape`: reduce up, broadcast down
//   acknowledged         broadcast down, acknowledgements up (the root knows that all have it)
//   recursive doubling   Thakur, Rabenseifner, Gropp, IJHPCA '05: log2 n exchanges of everything; ranks beyond the
//   rabenseifner         largest power of two hand their part to a neighbour first; reduce-scatter by halving, then
//                        allgather by doubling
//   gossip               GOSSIP(T) and correction on the ring (Hoefler et al.: Corrected Gossip): OCG, CCG
#pragma once

#include "collectives/topology/broadcast_topology.hpp"
#include "simulator/collective_run.hpp"

namespace ucft::detail::simulator {

enum class Comparator : std::uint8_t { tree, acknowledged_tree, recursive_doubling, rabenseifner, gossip };

struct ComparatorRun {
  Comparator algorithm = Comparator::tree;
  Kind kind = Kind::allreduce;  // allreduce, reduce, broadcast; recursive doubling and Rabenseifner: allreduce only;
                                // acknowledged tree and gossip: broadcast only
  BroadcastShape shape{};
  std::uint64_t payload_bytes = 8;
  double gossip_time = 0;  // T: from colouring until then, a message to a random rank whenever the port is free
  Correction correction = Correction::none;  // of gossip: none, opportunistic (C = distance each way), checked
  std::int32_t correction_distance = 2;
  Setting setting;  // failures are not detected: what waits for a dead rank waits for ever
};

// Root: rank 0. Of gossip: largest_gap is over the ranks that gossip reached.
CollectiveResult simulate(const ComparatorRun& run, Tracer* tracer = nullptr);

}  // namespace ucft::detail::simulator
