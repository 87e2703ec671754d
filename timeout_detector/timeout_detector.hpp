// Failure detection by silence: which peer has not been heard of for suspect_after?
//
// Source: the heartbeat failure detector with period eta and timeout delta (docs/failure_model.md, "Detection"; Chen,
// Toueg, Aguilera, "On the quality of service of failure detectors", for the two parameters).
// A pure state machine: time is an argument, counted from any origin and never decreasing. No clock, no thread, no
// input or output, and no allocation after construction.
//
// Invariants
//  - A peer is suspected only in tick(), and only once. A sign of life after that changes nothing. Only extend() (at
//    once, with good reason), watch() or forget() take a suspicion back.
//  - A loop that did not run can't accuse: see tick().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ucft::detail {

class TimeoutDetector {
 public:
  using Peer = std::int32_t;              // 0 .. peers-1
  using Time = std::chrono::nanoseconds;  // since any origin

  struct Options {
    Time heartbeat_period = std::chrono::milliseconds(10);  // eta; > 0. tick() is meant to be called this often
    Time suspect_after = std::chrono::seconds(1);           // delta; >= 3 eta, at most a year
    std::uint32_t extensions_limit = 10;                    // how often extend() helps a peer in one silence
  };

  // nullptr, or what is wrong: one sentence that begins with the name of the field.
  static const char* validate(const Options& options);

  // options must be valid. No peer is watched yet.
  TimeoutDetector(const Options& options, std::size_t peers);

  // The peer is watched from now on, and counts as heard now. A peer that is already watched, or suspected, begins
  // anew.
  void watch(Peer peer, Time now);

  // A sign of life. Changes nothing for a peer that is not watched or is suspected already (late heartbeat).
  void heard(Peer peer, Time now);

  // The peers that became suspected just now, in the order they were first watched. Valid until the next call.
  //
  // Jitter guard: this loop itself may be late by a period or more. Then a peer that was inside its deadline at the
  // last tick is not suspected this time. It gets no second pardon: by the next tick it is outside.
  //   eta 10, delta 100, heard at 0; ticks at 10 .. 90, 115: late by 15 at 115, no suspicion; tick at 125: suspected.
  // A loop that has not run for half of delta (and two periods) was away. That happens when a job that is suspended
  // whole is resumed one process after the other. Every peer that is not suspected gets a full new deadline, in one
  // silence as often as extend() helps, and beside it. Time that a loop has missed takes nothing from a peer that wants
  // to run.
  //   eta 10, delta 100, heard at 0; ticks at 10, 20, 90: away; next deadline 190.
  std::span<const Peer> tick(Time now);
  // Whether the last tick found so.
  bool was_away() const { return was_away_; }

  // For a peer that wants to run and gets no processor: its deadline begins anew at now. If it has just been suspected,
  // it no longer is. At most extensions_limit times until it is heard again; false, and no change, after that. Silence
  // goes on: silent_for() does not start again.
  bool extend(Peer peer, Time now);

  // The peer is in no tick any more, unless it is watched again.
  void forget(Peer peer);

  bool watched(Peer peer) const;
  bool suspected(Peer peer) const;

  // Since the peer was last heard (or first watched). Kept after suspicion.
  Time silent_for(Peer peer, Time now) const;

  // The first moment at which a tick may suspect a peer. Empty: no peer is left to suspect.
  std::optional<Time> next_deadline() const;

 private:
  enum class Standing : std::uint8_t { unwatched, alive, suspected };
  struct State {
    Time heard_at{};
    Time deadline{};               // suspected at this moment or later
    std::uint32_t extensions = 0;  // by extend(); by an absence of ours: absences. Since it was last heard
    std::uint32_t absences = 0;
    Standing standing = Standing::unwatched;
  };

  State& state_of(Peer peer);
  const State& state_of(Peer peer) const;
  bool begin_anew(State& state, std::uint32_t& times, Time now) const;

  Options options_;
  std::vector<State> states_;          // by peer
  std::vector<Peer> watched_;          // in the order of watch(); capacity for all
  std::vector<Peer> newly_suspected_;  // the answer of the last tick; capacity for all
  bool was_away_ = false;
  std::optional<Time> last_tick_;  // before the first tick: the first watch
};

}  // namespace ucft::detail
