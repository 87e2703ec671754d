// One gossip all-reduce of the library under the LogGP clock. It runs the GossipOperation objects that run on UCX, one
// per rank. Each of their agreements is a real allreduce of the table, by OperationWindow, through the same ports.
//
//   time       us: the library's pace of pushing (links.hpp) is in us, too
//   a message  costs what its row costs; of an agreement, its table. Headers cost nothing of their own
//   a turn     comes when a rank's port is free: so what it has sent before has left, and no row waits there
//   channels   in order, as UCX's are
//   deaths     a rank dies between two of its sends, or at a time; all others are told `detection_delay` later
//
// By messages only: windows are run by GossipWorld, without time. The same seed gives the same bits.
#pragma once

#include <string>
#include <vector>

#include "collectives/gossip/gossip_call.hpp"
#include "simulator/engine.hpp"
#include "simulator/gossip_run.hpp"

namespace ucft::detail::simulator {

struct GossipOperationRun {
  GossipCall call;     // its neighbourhood says how many ranks; path is ignored
  std::int32_t f = 1;  // of an agreement: with more deaths in it, it is tried again
  GossipData data = GossipData::uniform;
  ucft::detail::GossipFaults faults;
  Setting setting;            // seed: of the data and of jitter
  std::vector<Rank> hosts{};  // see GossipSeat
};

// Over some ranks; never: so many are still without.
struct SpreadOfTimes {
  double first = never, median = never, last = never;
};

struct GossipOperationResult {
  double first = never, latency = never;  // when the first and the last live rank had its result; never: some have none
  double others = never;                  // the last live rank that is not slow
  // When ranks knew the result to eps (estimate_watch.hpp), before they had it. Of ranks that are not slow, and of the
  // last one that is. Never if ranks die in the run or before.
  SpreadOfTimes within_eps, without_slow;
  double within_eps_slow = never;
  std::int64_t messages = 0, agreement_messages = 0, events = 0;
  double bytes = 0;                          // of both
  std::uint64_t iterations = 0;              // most of a live rank
  std::uint32_t stages = 0, agreements = 0;  // agreements: most of a live rank, those tried again included
  double error = 0;                          // of the result; relative to the largest value of the truth
  double bound = 0;                          // as the ranks report it
  bool reached = false;                      // bound <= eps
  GossipEnd end = GossipEnd::none;           // none: no rank lives, or has finished
  GossipStandsFor answer = GossipStandsFor::all_ranks;
  std::vector<Rank> missing;  // whom the result does not stand for
  Rank live = 0, missed = 0;  // missed: live ranks without a result
  Rank wrong = 0;             // live ranks that have another result than the first one, or tell another story of it
  bool above_bound = false;   // error > bound, where that can be known: no faults were injected, nobody nearly counts
  GossipFaultInjector::Counts injected;
};

// "" or what is wrong with it.
std::string problem_with(const GossipOperationRun& run);

GossipOperationResult simulate(const GossipOperationRun& run);

}  // namespace ucft::detail::simulator
