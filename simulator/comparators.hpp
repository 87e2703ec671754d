// The collectives that ucft is compared with, under the same clock. Some are without fault tolerance and move no
// values. Two are fault-tolerant broadcasts (broadcast_comparators.hpp).
//
//   binomial, ...        the tree of `shape`: reduce up, broadcast down
//   acknowledged         broadcast down, acknowledgements up (the root knows that all have it)
//   recursive doubling   Thakur, Rabenseifner, Gropp, IJHPCA '05: log2 n exchanges of everything; ranks beyond the
//   rabenseifner         largest power of two hand their part to a neighbour first; reduce-scatter by halving, then
//                        allgather by doubling
#pragma once

#include <algorithm>

#include "collectives/catalogue/catalogue.hpp"
#include "collectives/topology/broadcast_topology.hpp"
#include "simulator/collective_run.hpp"

namespace ucft::detail::simulator {

enum class Comparator : std::uint8_t {
  tree,
  acknowledged_tree,
  recursive_doubling,
  rabenseifner,
  buntinas,  // this and the next ones: broadcast_comparators.hpp
  big,
  big_both_ways
};

struct ComparatorRun {
  Comparator algorithm = Comparator::tree;
  Kind kind = Kind::allreduce;  // allreduce, reduce, broadcast; recursive doubling and Rabenseifner: allreduce only;
                                // acknowledged tree, Buntinas' and BIG: broadcast only
  BroadcastShape shape{};
  std::uint64_t payload_bytes = 8;
  Setting setting;  // of Buntinas' tree the detector's word counts; others wait for a dead rank for ever
};

// Root: rank 0.
CollectiveResult simulate(const ComparatorRun& run, Tracer* tracer = nullptr);

// The result of a run, but for values.
template <class Actors>
CollectiveResult result_of(const Engine<Actors>& engine, const ComparatorRun& run) {
  CollectiveResult result;
  std::vector<double> times;
  for (Rank rank = 0; rank < run.setting.ranks; ++rank) {
    result.most_sends = std::max(result.most_sends, engine.sends(rank));
    result.most_receives = std::max(result.most_receives, engine.receives(rank));
    if (!engine.alive(rank)) continue;
    ++result.live;
    if (engine.finished_at(rank) == never)
      ++result.missed;
    else
      times.push_back(engine.finished_at(rank));
  }
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    result.first = times.front();
    result.median = times[(times.size() - 1) / 2];
    result.last = times.back();
  }
  result.latency = row_of(run.kind).disseminates ? result.last : engine.finished_at(0);
  result.others = last_of_others(engine, run.setting.ranks);
  result.end = engine.end();
  result.messages = engine.messages();
  result.bytes = engine.bytes();
  result.events = engine.events();
  result.attempts = 1;
  return result;
}

}  // namespace ucft::detail::simulator
