// GOSSIP(T): a process that has the value sends it to a process by chance, one message every o, until time T. Hoefler
// et al., "Corrected gossip algorithms for fast reliable broadcast on unreliable systems" (IPDPS '17). With ring
// correction after it (ring_correction.hpp: opportunistic, checked or failure-proof) it is OCG, CCG or FCG.
//
// T counts from the root's start, as far as processes without a common clock can tell. A message says how old the
// broadcast is where it is sent, and its receiver adds what a message takes. So a process that is late, or slow to be
// served, gossips for as long as one that is not. No guarantee hangs on it: correction asks which processes have
// gossiped, not until when.
//
// A turn is skipped while messages of this process wait to leave it. With a long T it would bury a slow receiver else:
// messages queue up for as long as it gossips, and are handled long after T.
//
// Invariant: at most T / o messages, rounded up, at whatever times turns are given.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/catalogue/arguments.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail {

class GossipSpread {
 public:
  struct Place {  // in the ballot that it gossips in
    std::int32_t process = 0;
    std::int32_t size = 1;
  };
  // This process has the value, of a broadcast of that age. seed: the same on all processes; each makes its own choices
  // from it.
  void start(const GossipSetting& setting, Place place, std::uint64_t seed, std::int64_t age_ns);
  void stop() { active_ = false; }
  bool active() const { return active_; }
  // Requires active(). now_ns: of this process's clock; -1: whenever its next message is due. may_send: all that it has
  // sent has left. Returns the process to send to, or none. None means that it is too early, or that T has come: then
  // active() is false.
  std::optional<std::int32_t> turn(std::int64_t now_ns, bool may_send = true);
  // The age of the broadcast at the last turn.
  std::int64_t age_ns() const { return age_ns_; }
  // Earlier turns change nothing. 0: before the first turn, which starts the clock.
  std::int64_t due_ns() const { return began_ns_ == unknown ? 0 : due_ns_; }

 private:
  static constexpr std::int64_t unknown = INT64_MIN;

  bool active_ = false;
  GossipSetting setting_;
  Place place_;
  Random random_{0};
  std::int64_t began_ns_ = unknown;  // of the broadcast, by this process's clock
  std::int64_t due_ns_ = 0, age_ns_ = 0;
};

}  // namespace ucft::detail
