// See timeout_detector.hpp.
#include "timeout_detector/timeout_detector.hpp"

#include <algorithm>
#include <cassert>

namespace ucft::detail {

const char* TimeoutDetector::validate(const Options& options) {
  constexpr Time longest = std::chrono::hours(24 * 365);  // so that no sum of times overflows
  if (options.heartbeat_period <= Time::zero()) return "heartbeat_period must be greater than zero";
  if (options.suspect_after > longest) return "suspect_after must be at most a year";
  if (options.heartbeat_period > options.suspect_after / 3)
    return "suspect_after must be at least three times heartbeat_period";
  return nullptr;
}

TimeoutDetector::TimeoutDetector(const Options& options, std::size_t peers) : options_(options), states_(peers) {
  assert(validate(options) == nullptr);
  watched_.reserve(peers);
  newly_suspected_.reserve(peers);
}

void TimeoutDetector::watch(Peer peer, Time now) {
  State& state = state_of(peer);
  if (state.standing == Standing::unwatched) watched_.push_back(peer);
  state = {.heard_at = now, .deadline = now + options_.suspect_after, .standing = Standing::alive};
  if (!last_tick_) last_tick_ = now;
}

void TimeoutDetector::heard(Peer peer, Time now) {
  State& state = state_of(peer);
  if (state.standing != Standing::alive) return;
  state.heard_at = std::max(state.heard_at, now);
  state.deadline = std::max(state.deadline, now + options_.suspect_after);
  state.extensions = state.absences = 0;
}

std::span<const TimeoutDetector::Peer> TimeoutDetector::tick(Time now) {
  newly_suspected_.clear();
  const Time last_tick = last_tick_.value_or(now);
  const bool late = now - last_tick >= 2 * options_.heartbeat_period;  // one period is the plan, another one is late
  was_away_ = late && now - last_tick >= options_.suspect_after / 2;
  for (const Peer peer : watched_) {
    State& state = state_of(peer);
    if (state.standing == Standing::suspected) continue;
    if (was_away_) begin_anew(state, state.absences, now);
    if (now < state.deadline) continue;
    const bool was_inside = last_tick < state.deadline;
    if (late && was_inside) continue;
    state.standing = Standing::suspected;
    newly_suspected_.push_back(peer);
  }
  last_tick_ = now;
  return newly_suspected_;
}

bool TimeoutDetector::extend(Peer peer, Time now) {
  State& state = state_of(peer);
  return state.standing != Standing::unwatched && begin_anew(state, state.extensions, now);
}

bool TimeoutDetector::begin_anew(State& state, std::uint32_t& times, Time now) const {
  if (times >= options_.extensions_limit) return false;
  ++times;
  state.deadline = std::max(state.deadline, now + options_.suspect_after);
  state.standing = Standing::alive;
  return true;
}

void TimeoutDetector::forget(Peer peer) {
  State& state = state_of(peer);
  if (state.standing == Standing::unwatched) return;
  state.standing = Standing::unwatched;
  std::erase(watched_, peer);
}

bool TimeoutDetector::watched(Peer peer) const { return state_of(peer).standing != Standing::unwatched; }

bool TimeoutDetector::suspected(Peer peer) const { return state_of(peer).standing == Standing::suspected; }

TimeoutDetector::Time TimeoutDetector::silent_for(Peer peer, Time now) const {
  return std::max(now - state_of(peer).heard_at, Time::zero());
}

std::optional<TimeoutDetector::Time> TimeoutDetector::next_deadline() const {
  std::optional<Time> first;
  for (const Peer peer : watched_) {
    const State& state = state_of(peer);
    if (state.standing == Standing::alive && (!first || state.deadline < *first)) first = state.deadline;
  }
  return first;
}

TimeoutDetector::State& TimeoutDetector::state_of(Peer peer) {
  assert(peer >= 0 && static_cast<std::size_t>(peer) < states_.size());
  return states_[static_cast<std::size_t>(peer)];
}

const TimeoutDetector::State& TimeoutDetector::state_of(Peer peer) const {
  return const_cast<TimeoutDetector*>(this)->state_of(peer);
}

}  // namespace ucft::detail
