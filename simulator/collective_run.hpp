// One collective operation at any number of ranks under the clock: the Operation objects that run on UCX, one per rank.
//
// Ranks share one pool of buffers, so a message costs no copy. They share one set of known failures: the detector tells
// all ranks of a death at the same time. Only ranks that can act on it are called (tests/simulator compares with
// calling all).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/among/operation.hpp"
#include "simulator/engine.hpp"

namespace ucft::detail::simulator {

// The stand-in for what a process gives among so many of them: one number. Of long data that go in blocks or pieces it
// is one number for each piece (of each block). Of an exchange it is for what one process gives to another one.
class StandIn {
 public:
  StandIn(Kind kind, std::uint64_t payload_bytes, Rank processes, bool optimistic);
  std::uint64_t words() const { return words_; }
  const Optimism& optimism() const { return optimism_; }
  // Without deaths, of that rank; about, where data go in pieces.
  std::int64_t sends(Rank rank, Rank processes, const Arguments& arguments) const;
  // The payload bytes that a message with such numbers costs.
  std::uint64_t payload_of(const Message& message) const {
    if (row_.goes_straight && message.phase != Phase::all_broadcast) return message.value.bytes;  // whose data count
    return message.value.bytes * payload_bytes_ / (8 * (words_ + (row_.has_own_lengths() ? 1 : 0)));
  }

 private:
  void put_blocks_in_pieces(Rank processes);

  const CatalogueRow& row_;
  std::uint64_t payload_bytes_, words_ = 1;
  Optimism optimism_;
};

struct CollectiveRun {
  Arguments arguments;              // count is ignored: see StandIn
  std::uint64_t payload_bytes = 8;  // that a rank gives; of an exchange to each
  bool phased = false;          // correction begins when the tree would be done without failures, not after own sends
  Setting setting;              // first_turn is set by phased
  bool tell_everybody = false;  // call each rank for each failure: slow, and the same
  bool optimistic = false;      // begins with the ballot that expects no death
};

struct CollectiveResult {
  // Times of delivery over the live ranks that got it (a reduce: its senders', too); never: no rank did.
  double first = never, median = never, last = never;
  double latency = never;  // last; of a reduce: the root's
  double others = never;   // last, of the ranks that are not slow
  double end = 0;          // of the last send or receive, correction included
  std::int64_t messages = 0, events = 0;
  double bytes = 0;
  std::int64_t by_phase[phase_count] = {};
  std::uint32_t most_sends = 0, most_receives = 0;  // of one rank
  Rank live = 0;                                    // alive at the end and not wrongly suspected
  Rank missed = 0;                                  // live, and without a result
  Rank largest_gap = 0;                // longest run of processes on the ring that the broadcast tree did not reach
  Rank contributors = 0;               // in the result
  std::uint32_t attempts = 0;          // roots tried
  std::int64_t wrong = 0;              // live ranks whose result is not what the others have, or lacks a live rank
  Outcome outcome = Outcome::success;  // of those that are live
  // Of a TwoLevelRun:
  Rank takeovers = 0;               // ranks that came to speak for their hosts in the run
  std::uint32_t most_partners = 0;  // hosts that one host has sent to or heard from
};

// times: of delivery, in any order.
template <class Actors>
void note_times_and_counts(std::vector<double> times, const Engine<Actors>& engine, CollectiveResult& result) {
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    result.first = times.front();
    result.median = times[(times.size() - 1) / 2];
    result.last = times.back();
  }
  result.end = engine.end();
  result.messages = engine.messages();
  for (int phase = 0; phase < phase_count; ++phase) result.by_phase[phase] = engine.messages(static_cast<Phase>(phase));
  result.bytes = engine.bytes();
  result.events = engine.events();
}

// When the last rank that is not slow had its result, of those that have one.
template <class Actors>
double last_of_others(const Engine<Actors>& engine, Rank ranks) {
  double last = -1;
  for (Rank rank = 0; rank < ranks; ++rank)
    if (engine.alive(rank) && engine.trusted(rank) && !engine.slowness().is_slow(rank) &&
        engine.finished_at(rank) != never)
      last = std::max(last, engine.finished_at(rank));
  return last < 0 ? never : last;
}

CollectiveResult simulate(const CollectiveRun& run, Tracer* tracer = nullptr);

// Failure-free end of the dissemination: the phased correction's deadline.
double tree_deadline(const CollectiveRun& run);

}  // namespace ucft::detail::simulator
