// Gossip runs in which each rank makes its iterations at its own times, and messages take theirs.
#pragma once

#include <utility>

#include "simulator/event_queue.hpp"
#include "simulator/gossip_agreement.hpp"
#include "simulator/gossip_exchange.hpp"
#include "simulator/gossip_observer.hpp"

namespace ucft::detail::simulator {

// Messages on their way, each with an index that is used again.
template <class Real>
class Flights {
 public:
  bool empty() const { return free_.size() == flights_.size(); }
  std::uint32_t add(GossipFlight<Real>&& flight) {
    if (free_.empty()) {
      flights_.push_back(std::move(flight));
      return static_cast<std::uint32_t>(flights_.size() - 1);
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    flights_[index] = std::move(flight);
    return index;
  }
  GossipFlight<Real> take(std::uint32_t index) {
    free_.push_back(index);
    return std::move(flights_[index]);
  }

 private:
  std::vector<GossipFlight<Real>> flights_;
  std::vector<std::uint32_t> free_;
};

// The times at which ranks make their iterations.
class IterationClock {
 public:
  explicit IterationClock(const GossipRun& run)
      : run_(run),
        slowness_(run.plan.neighbourhood.ranks, run.slow, {}, run.seed),
        made_(static_cast<std::size_t>(run.plan.neighbourhood.ranks)) {}

  double first(Rank rank) const {
    return slowness_.factor(rank) * uniform_value(mixed(run_.seed, 0x7068617365u), static_cast<std::uint64_t>(rank));
  }
  // The number of the iteration that the rank makes now.
  std::uint64_t begin(Rank rank) { return made_[static_cast<std::size_t>(rank)]++; }
  double until_next(Rank rank) const {
    const std::uint64_t made = made_[static_cast<std::size_t>(rank)];
    const double chance = uniform_value(mixed(run_.seed, static_cast<std::uint64_t>(rank)), made);
    return slowness_.factor(rank) * (1 + run_.jitter * (chance - 0.5));
  }

 private:
  const GossipRun& run_;
  Slowness slowness_;
  std::vector<std::uint64_t> made_;  // iterations, by rank
};

template <class Real>
class AsynchronousGossip {
 public:
  AsynchronousGossip(const GossipRun& run, const GossipProgress& progress, int limit, GossipResult& result)
      : run_(run),
        result_(result),
        ranks_(run, result),
        faults_(run, result),
        exchange_(run, result, ranks_, faults_),
        agreement_(run, result, ranks_),
        observer_(run, result, progress, ranks_, limit),
        clock_(run) {}

  void run() {
    is_over_ = observer_.look(0);
    if (!is_over_) post_first();
    while (!is_over_) happen(queue_.pop());
    observer_.finish();
  }

 private:
  enum class Kind : std::uint8_t { arrival, push, death, told, link, flip, tick };  // in this order at one time
  struct Event {
    double time;
    std::uint64_t order;
    std::uint32_t index;
    Kind kind() const { return static_cast<Kind>(order >> 56); }
    bool before(const Event& other) const { return time != other.time ? time < other.time : order < other.order; }
  };

  void post(double time, Kind kind, std::uint32_t index) {
    queue_.push({time, static_cast<std::uint64_t>(kind) << 56 | created_++, index});
  }
  template <class Planned>
  void post_all(const std::vector<Planned>& planned, Kind kind) {
    for (std::size_t i = 0; i < planned.size(); ++i) post(planned[i].time, kind, static_cast<std::uint32_t>(i));
  }
  void post_first() {
    for (Rank rank = 0; rank < ranks_.count(); ++rank)
      post(clock_.first(rank), Kind::push, static_cast<std::uint32_t>(rank));
    post_all(run_.faults.deaths, Kind::death);
    post_all(run_.faults.links, Kind::link);
    post_all(run_.faults.flips, Kind::flip);
    post(1, Kind::tick, 1);
  }

  void happen(const Event& event) {
    switch (event.kind()) {
      case Kind::push: push(event); break;
      case Kind::arrival: arrive(event); break;
      case Kind::death: {
        const RankDeath& death = run_.faults.deaths[event.index];
        ranks_.kill(death.rank);
        post(event.time + run_.faults.detection_delay, Kind::told, static_cast<std::uint32_t>(death.rank));
        break;
      }
      case Kind::told: ranks_.tell_neighbours(static_cast<Rank>(event.index)); break;
      case Kind::link: ranks_.break_link(run_.faults.links[event.index]); break;
      case Kind::flip: faults_.flip(run_.faults.flips[event.index], ranks_); break;
      case Kind::tick: tick(event); break;
    }
  }
  void push(const Event& event) {
    const auto rank = static_cast<Rank>(event.index);
    if (ranks_.is_dead(rank)) return;
    if (!pauses_) exchange_.push(rank, clock_.begin(rank), launching_at(event.time));
    post(event.time + clock_.until_next(rank), Kind::push, event.index);
  }
  void arrive(const Event& event) {
    exchange_.deliver(flights_.take(event.index), launching_at(event.time));
    if (pauses_ && flights_.empty()) agree(event.time);
  }
  void tick(const Event& event) {
    const int round = static_cast<int>(event.index);
    is_over_ = observer_.look(round);
    if (agreement_.is_due(round, false) && !is_over_) {  // at its end messages are on their way: no agreement
      pauses_ = true;
      if (flights_.empty()) agree(event.time);
    }
    post(event.time + 1, Kind::tick, event.index + 1);
  }
  auto launching_at(double now) {
    return [this, now](GossipFlight<Real>&& flight) {
      const double arrival = now + exchange_.network().delay(flight.from, flight.to);
      post(arrival, Kind::arrival, flights_.add(std::move(flight)));
    };
  }
  void agree(double now) {
    pauses_ = false;
    exchange_.settle_all();
    if (!agreement_.is_reached()) return;
    is_over_ = true;
    result_.rounds = static_cast<int>(std::ceil(now + (2 + agreement_.trips()) * run_.delay));
  }

  const GossipRun& run_;
  GossipResult& result_;
  GossipRanks<Real> ranks_;
  SimulatedFaults<Real> faults_;
  GossipExchange<Real> exchange_;
  GossipAgreement<Real> agreement_;
  GossipObserver<Real> observer_;
  IterationClock clock_;
  Flights<Real> flights_;
  EventQueue<Event> queue_{1.0 / 64};
  std::uint64_t created_ = 0;  // events
  bool pauses_ = false;        // no rank pushes until the ranks have looked whether they agree
  bool is_over_ = false;
};

}  // namespace ucft::detail::simulator
