// The clock: a deterministic event queue under the LogGP model, with deaths and a failure detector. It knows no
// algorithm; `Actors` is all ranks' state machines.
//
//   void start(Rank, Outbox&)                          a rank's first step, at its start time
//   void deliver(Rank, const Message&, Outbox&)        a message has been received; peer: its sender
//   void fail(Rank, Rank failed, Outbox&)              the detector's word, to a rank that note_failure has named
//   bool wants_turn(Rank), turn(Rank, double now, Outbox&)   a turn comes when the rank's port is free, and after all
//                                                      that has been received by then
//   double turn_at(Rank)                               not all have it: the turn that it wants comes no earlier
//   std::uint64_t payload_bytes(const Message&)
//   bool finished(Rank), Buffers& buffers()
//   proof_delay(), note_proof(Rank failed, visit)      not all have them: as note_failure, of those who have the proof
//                                                      so long after the death, which others wait for the detector's
//                                                      word of
//   look(Rank, double now)                             not all have it: follows each step of a rank
//   note_failure(Rank failed, visit)                   all know of it from now on; calls visit(rank) for each rank that
//                                                      it may mean something to, in ascending order
//
// Determinism: events are ordered by (time, kind, number of creation); times are IEEE doubles computed in one order.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "collectives/core/protocol.hpp"
#include "simulator/event_queue.hpp"
#include "simulator/network.hpp"
#include "simulator/slowness.hpp"

namespace ucft::detail::simulator {

inline constexpr double never = std::numeric_limits<double>::infinity();

// Of messages that are no collective's: a gossip operation's.
inline constexpr Phase gossip_phase{phase_count};

struct Death {
  Rank rank;
  // Dies right before its send of this number (0: the first), or when it has its result and no more to send; or
  std::int64_t before_send = -1;
  double time = never;  // at this time: what it has begun to send by then is sent
};

// Somebody's wrong suspicion: all others take this rank for failed from then on, and its messages are dropped.
struct Suspicion {
  Rank rank;
  double time;
};

struct Setting {
  Rank ranks = 1;
  LogGP costs;
  const Network* network = nullptr;
  double jitter = 0;      // each message's latency is multiplied by 1 + jitter * u, 0 <= u < 1 from the seed
  bool in_order = false;  // messages from one rank to another never overtake, as jitter would let them
  std::uint64_t seed = 1;
  std::vector<SlowRank> slow;      // each rank once
  Noise noise{};                   // which ranks, and when: from the seed
  double skew = 0;                 // ranks start at 0 <= t < skew, from the seed
  double first_turn = 0;           // no turns before (phased correction)
  double detection_delay = never;  // from a death until all others are told
  std::vector<Rank> dead;          // before the start
  std::vector<Death> deaths;
  std::vector<Suspicion> suspicions;
};

class Tracer {
 public:
  virtual ~Tracer() = default;
  virtual void send(Rank from, double begin, double end, const Message& message, std::uint64_t number) = 0;
  virtual void receive(Rank to, double begin, double end, const Message& message, std::uint64_t number) = 0;
  virtual void finish(Rank rank, double time) = 0;
  virtual void die(Rank rank, double time) = 0;
  virtual void detect(Rank failed, double time) = 0;
};

template <class Actors>
class Engine {
 public:
  Engine(const Setting& setting, Actors& actors, Tracer* tracer = nullptr);

  // Until nothing happens any more.
  void run();

  bool alive(Rank rank) const { return at(dead_at_, rank) == never; }
  bool trusted(Rank rank) const { return at(distrusted_, rank) == 0; }
  double finished_at(Rank rank) const { return at(finished_at_, rank); }  // never, if it isn't
  bool was_in_tree(Rank rank) const { return at(in_tree_, rank) != 0; }   // a Phase::broadcast message has reached it
  std::uint32_t sends(Rank rank) const { return at(sends_, rank); }
  std::uint32_t receives(Rank rank) const { return at(receives_, rank); }
  const Slowness& slowness() const { return slowness_; }
  double end() const { return end_; }  // of the last send or receive
  std::int64_t events() const { return events_; }
  std::int64_t messages(Phase phase) const { return messages_[static_cast<std::size_t>(phase)]; }
  std::int64_t messages() const {
    std::int64_t sum = 0;
    for (std::int64_t each : messages_) sum += each;
    return sum;
  }
  double bytes() const { return bytes_; }

 private:
  enum class Kind : std::uint8_t { arrival, received, start, notice, turn, proof };
  struct Event {
    double time;
    std::uint64_t order;  // kind in the upper byte, then the number of its creation
    std::uint32_t index;  // arrival, received: in flights_; else a rank
    Kind kind() const { return static_cast<Kind>(order >> 56); }
    bool before(const Event& other) const { return time != other.time ? time < other.time : order < other.order; }
  };
  struct Flight {
    Message message;  // peer: the sender
    Rank to;
    std::uint32_t number;
    double receive_begin;
  };

  template <class T>
  static const T& at(const std::vector<T>& all, Rank rank) {
    return all[static_cast<std::size_t>(rank)];
  }
  template <class T>
  static T& at(std::vector<T>& all, Rank rank) {
    return all[static_cast<std::size_t>(rank)];
  }

  void push(double time, Kind kind, std::uint32_t index);
  bool is_dead(Rank rank, double time) const { return at(dead_at_, rank) <= time; }
  // Or all others take it for dead, and it knows (UCFT_ERR_EXCLUDED): it takes no more steps.
  bool is_out(Rank rank, double time) const { return is_dead(rank, time) || at(distrusted_, rank) != 0; }
  void die(Rank rank, double time);
  void after(Rank rank, double now);
  void flush(Rank rank, double now);
  void arrive(const Event& event);
  void receive(const Event& event);
  void notice(Rank failed, double now);
  void prove(Rank failed, double now);
  void turn(const Event& event);
  double in_order(Rank from, Rank to, double arrival);
  void want_turn(Rank rank, double now);

  const Setting& setting_;
  const Slowness slowness_;
  Actors& actors_;
  Tracer* tracer_;
  Outbox outbox_;
  EventQueue<Event> queue_;
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_flights_;
  std::uint64_t created_ = 0;

  std::vector<double> port_free_, receiver_free_, processor_free_, dead_at_, finished_at_, turn_at_;
  std::vector<std::uint32_t> sends_, receives_;
  std::vector<std::uint8_t> started_, in_tree_, distrusted_;
  std::vector<std::int64_t> dies_before_;                   // empty: no rank
  std::unordered_map<std::uint64_t, double> last_arrival_;  // in_order: by sender and receiver
  std::int64_t messages_[phase_count + 1] = {};
  double bytes_ = 0, end_ = 0;
  std::int64_t events_ = 0;
};

template <class Actors>
Engine<Actors>::Engine(const Setting& setting, Actors& actors, Tracer* tracer)
    : setting_(setting),
      slowness_(setting.ranks, setting.slow, setting.noise, setting.seed),
      actors_(actors),
      tracer_(tracer),
      outbox_(actors.buffers()),
      queue_(setting.costs.per_message() > 0 ? setting.costs.per_message() / 2 : setting.costs.delivery() / 8) {
  const auto ranks = static_cast<std::size_t>(setting.ranks);
  port_free_.assign(ranks, 0);
  receiver_free_.assign(ranks, 0);
  if (setting.costs.one_processor) processor_free_.assign(ranks, 0);
  dead_at_.assign(ranks, never);
  finished_at_.assign(ranks, never);
  sends_.assign(ranks, 0);
  receives_.assign(ranks, 0);
  started_.assign(ranks, 0);
  turn_at_.assign(ranks, never);
  in_tree_.assign(ranks, 0);
  distrusted_.assign(ranks, 0);
  for (const Death& death : setting.deaths) {
    if (death.time != never) at(dead_at_, death.rank) = std::min(at(dead_at_, death.rank), death.time);
    if (death.before_send < 0) continue;
    if (dies_before_.empty()) dies_before_.assign(ranks, -1);
    at(dies_before_, death.rank) = death.before_send;
  }
}

template <class Actors>
void Engine<Actors>::run() {
  for (Rank rank : setting_.dead) at(dead_at_, rank) = 0;  // trace: they never appear
  for (Rank rank = 0; rank < setting_.ranks; ++rank) {
    const double delay = setting_.skew == 0 ? 0 : setting_.skew * chance_of(~setting_.seed, rank, 0);
    push(slowness_.free_at(rank, delay), Kind::start, static_cast<std::uint32_t>(rank));
  }
  for (Rank rank : setting_.dead)
    if (setting_.detection_delay != never)
      push(setting_.detection_delay, Kind::notice, static_cast<std::uint32_t>(rank));
  for (const Death& death : setting_.deaths)
    if (death.time != never && at(dead_at_, death.rank) == death.time) die(death.rank, death.time);
  for (const Suspicion& suspicion : setting_.suspicions)
    push(suspicion.time, Kind::notice, static_cast<std::uint32_t>(suspicion.rank));
  while (!queue_.empty()) {
    const Event event = queue_.pop();
    ++events_;
    const auto rank = static_cast<Rank>(event.index);
    switch (event.kind()) {
      case Kind::arrival: arrive(event); break;
      case Kind::received: receive(event); break;
      case Kind::notice: notice(rank, event.time); break;
      case Kind::turn: turn(event); break;
      case Kind::proof: prove(rank, event.time); break;
      case Kind::start:
        if (is_out(rank, event.time)) break;
        at(started_, rank) = 1;
        actors_.start(rank, outbox_);
        after(rank, event.time);
    }
  }
}

template <class Actors>
void Engine<Actors>::push(double time, Kind kind, std::uint32_t index) {
  queue_.push({time, static_cast<std::uint64_t>(kind) << 56 | created_++, index});
}

template <class Actors>
void Engine<Actors>::die(Rank rank, double time) {
  at(dead_at_, rank) = time;
  if (tracer_ != nullptr) tracer_->die(rank, time);
  if (setting_.detection_delay != never)
    push(time + setting_.detection_delay, Kind::notice, static_cast<std::uint32_t>(rank));
  if constexpr (requires { actors_.proof_delay(); })
    push(time + actors_.proof_delay(), Kind::proof, static_cast<std::uint32_t>(rank));
}

// Follows each step of a rank: its sends leave, its end is noted, it may want a turn.
template <class Actors>
void Engine<Actors>::after(Rank rank, double now) {
  flush(rank, now);
  if constexpr (requires { actors_.look(rank, now); }) actors_.look(rank, now);
  if (at(finished_at_, rank) == never && !is_dead(rank, now) && actors_.finished(rank)) {
    at(finished_at_, rank) = now;
    if (tracer_ != nullptr) tracer_->finish(rank, now);
  }
  if (!dies_before_.empty() && at(finished_at_, rank) != never && !is_dead(rank, now) && !actors_.wants_turn(rank) &&
      at(dies_before_, rank) >= static_cast<std::int64_t>(at(sends_, rank)))
    die(rank, std::max(now, at(port_free_, rank)));
  want_turn(rank, now);
}

template <class Actors>
void Engine<Actors>::flush(Rank rank, double now) {
  const LogGP& costs = setting_.costs;
  for (const Message& send : outbox_.sends()) {
    double begin = std::max(now, at(port_free_, rank));
    if (costs.one_processor) begin = std::max(begin, at(processor_free_, rank));
    begin = slowness_.free_at(rank, begin);
    if (!is_dead(rank, begin) && !dies_before_.empty() &&
        at(dies_before_, rank) == static_cast<std::int64_t>(at(sends_, rank)))
      die(rank, begin);
    if (is_dead(rank, begin)) {
      actors_.buffers().release(send.value);
      actors_.buffers().release(send.list);
      continue;
    }
    const std::uint64_t bytes = actors_.payload_bytes(send);
    const double stretch = costs.stretch(bytes);
    const double end = slowness_.done_at(rank, begin, costs.send_overhead);
    at(port_free_, rank) = std::max(end, begin + costs.gap) + stretch;
    if (costs.one_processor) at(processor_free_, rank) = end;
    double latency = setting_.network->latency(rank, send.peer);
    if (setting_.jitter != 0) latency *= 1 + setting_.jitter * chance_of(setting_.seed, rank, at(sends_, rank));
    ++at(sends_, rank);
    ++messages_[static_cast<std::size_t>(send.phase)];
    bytes_ += static_cast<double>(bytes);
    end_ = std::max(end_, end);

    std::uint32_t index = 0;
    if (free_flights_.empty()) {
      index = static_cast<std::uint32_t>(flights_.size());
      flights_.emplace_back();
    } else {
      index = free_flights_.back();
      free_flights_.pop_back();
    }
    Flight& flight = flights_[index];
    flight.message = send;
    flight.message.peer = rank;
    flight.to = send.peer;
    flight.number = static_cast<std::uint32_t>(created_);
    if (tracer_ != nullptr) tracer_->send(rank, begin, end, send, flight.number);
    const double arrival = end + stretch + latency;
    push(setting_.in_order && setting_.jitter != 0 ? in_order(rank, send.peer, arrival) : arrival, Kind::arrival,
         index);
  }
  outbox_.clear();
}

// Those of one time come in the order of their creation.
template <class Actors>
double Engine<Actors>::in_order(Rank from, Rank to, double arrival) {
  double& last = last_arrival_[static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to)];
  return last = std::max(last, arrival);
}

template <class Actors>
void Engine<Actors>::arrive(const Event& event) {
  Flight& flight = flights_[event.index];
  const LogGP& costs = setting_.costs;
  double begin = std::max(event.time, at(receiver_free_, flight.to));
  if (costs.one_processor) begin = std::max(begin, at(processor_free_, flight.to));
  begin = slowness_.free_at(flight.to, begin);
  const double end = slowness_.done_at(flight.to, begin, costs.receive_overhead);
  if (costs.one_processor) at(processor_free_, flight.to) = end;
  at(receiver_free_, flight.to) = std::max(end, begin + costs.gap);
  flight.receive_begin = begin;
  push(end, Kind::received, event.index);
}

// A message that comes before the rank has started waits in its algorithm (Operation::store).
template <class Actors>
void Engine<Actors>::receive(const Event& event) {
  const Flight flight = flights_[event.index];
  free_flights_.push_back(event.index);
  if (!is_out(flight.to, event.time) && at(distrusted_, flight.message.peer) == 0) {
    ++at(receives_, flight.to);
    end_ = std::max(end_, event.time);
    if (tracer_ != nullptr)
      tracer_->receive(flight.to, flight.receive_begin, event.time, flight.message, flight.number);
    if (flight.message.phase == Phase::broadcast) at(in_tree_, flight.to) = 1;
    actors_.deliver(flight.to, flight.message, outbox_);
    after(flight.to, event.time);
  }
  actors_.buffers().release(flight.message.value);
  actors_.buffers().release(flight.message.list);
}

template <class Actors>
void Engine<Actors>::notice(Rank failed, double now) {
  if (at(distrusted_, failed) != 0) return;
  at(distrusted_, failed) = 1;
  if (tracer_ != nullptr) tracer_->detect(failed, now);
  actors_.note_failure(failed, [&](Rank rank) {
    if (is_out(rank, now) || at(started_, rank) == 0) return;
    actors_.fail(rank, failed, outbox_);
    after(rank, now);
  });
}

template <class Actors>
void Engine<Actors>::prove(Rank failed, double now) {
  if constexpr (requires { actors_.proof_delay(); })
    actors_.note_proof(failed, [&](Rank rank) {
      if (is_out(rank, now)) return;
      actors_.fail(rank, failed, outbox_);
      after(rank, now);
    });
}

// One turn is pending at most, but for one that came to be wanted earlier: then the later one is none any more.
template <class Actors>
void Engine<Actors>::want_turn(Rank rank, double now) {
  if (is_out(rank, now) || !actors_.wants_turn(rank)) return;
  double time = std::max({now, at(port_free_, rank), setting_.first_turn});
  if (setting_.costs.one_processor) time = std::max(time, at(processor_free_, rank));
  if constexpr (requires { actors_.turn_at(rank); }) time = std::max(time, actors_.turn_at(rank));
  time = slowness_.free_at(rank, time);
  if (at(turn_at_, rank) <= time) return;
  at(turn_at_, rank) = time;
  push(time, Kind::turn, static_cast<std::uint32_t>(rank));
}

template <class Actors>
void Engine<Actors>::turn(const Event& event) {
  const auto rank = static_cast<Rank>(event.index);
  const double now = event.time;
  if (at(turn_at_, rank) != now) return;
  at(turn_at_, rank) = never;
  if (is_out(rank, now)) return;
  const bool busy = at(port_free_, rank) > now || (setting_.costs.one_processor && at(processor_free_, rank) > now);
  if (!busy && actors_.wants_turn(rank)) {
    actors_.turn(rank, now, outbox_);
    after(rank, now);
  }
  want_turn(rank, now);
}

}  // namespace ucft::detail::simulator
