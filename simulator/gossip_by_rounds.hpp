// Gossip runs in which all ranks make an iteration together: all send, then all receive. Faults happen between two
// rounds.
#pragma once

#include <deque>
#include <utility>

#include "simulator/gossip_agreement.hpp"
#include "simulator/gossip_exchange.hpp"
#include "simulator/gossip_observer.hpp"

namespace ucft::detail::simulator {

// Of faults with a time: those before this round.
template <class Planned, class Happen>
void each_before(int round, const std::vector<Planned>& planned, Happen happen) {
  for (const Planned& each : planned)
    if (std::ceil(each.time) == round) happen(each);
}

class DeathsByRound {
 public:
  explicit DeathsByRound(const GossipFaults& faults) : faults_(faults) {}

  // Kills the ranks that die before the round. Returns those of whose death the others are told before it.
  template <class Real>
  std::vector<Rank> before(int round, GossipRanks<Real>& ranks) {
    each_before(round, faults_.deaths, [&](const RankDeath& death) {
      if (ranks.is_dead(death.rank)) return;
      ranks.kill(death.rank);
      told_.push_back({death.rank, round + std::ceil(faults_.detection_delay)});
    });
    std::vector<Rank> now;
    each_before(round, told_, [&](const RankDeath& death) { now.push_back(death.rank); });
    return now;
  }

 private:
  const GossipFaults& faults_;
  std::vector<RankDeath> told_;  // time: the round before which the others are told
};

// An asynchronous algorithm by rounds.
template <class Real>
void simulate_in_lock_step(const GossipRun& run, const GossipProgress& progress, int limit, GossipResult& result) {
  GossipRanks<Real> ranks(run, result);
  SimulatedFaults<Real> faults(run, result);
  GossipExchange<Real> exchange(run, result, ranks, faults);
  GossipAgreement<Real> agreement(run, result, ranks);
  GossipObserver<Real> observer(run, result, progress, ranks, limit);
  DeathsByRound deaths(run.faults);
  std::deque<GossipFlight<Real>> flights;
  const auto send = [&](GossipFlight<Real>&& flight) { flights.push_back(std::move(flight)); };
  bool is_over = observer.look(0);
  for (int round = 0; !is_over; ++round) {
    for (const Rank failed : deaths.before(round, ranks)) ranks.tell_neighbours(failed);
    each_before(round, run.faults.links, [&](const LinkFailure& failure) { ranks.break_link(failure); });
    each_before(round, run.faults.flips, [&](const BitFlip& planned) { faults.flip(planned, ranks); });
    for (Rank rank = 0; rank < ranks.count(); ++rank)
      if (!ranks.is_dead(rank)) exchange.push(rank, static_cast<std::uint64_t>(round), send);
    while (!flights.empty()) {
      const GossipFlight<Real> flight = std::move(flights.front());
      flights.pop_front();
      exchange.deliver(flight, send);
    }
    const bool is_due = agreement.is_due(round + 1, round + 1 == limit);
    if (is_due) exchange.settle_all();
    const bool has_agreed = is_due && agreement.is_reached();
    is_over = observer.look(round + 1) || has_agreed;
  }
  observer.finish();
}

// An algorithm that goes by rounds.
template <class Real>
class ScheduledGossip {
 public:
  ScheduledGossip(const GossipRun& run, const GossipProgress& progress, int limit, GossipResult& result)
      : run_(run),
        schedule_(plan_of(run, limit)),
        ranks_(run, result, &schedule_),
        faults_(run, result),
        network_(run, result, faults_),
        agreement_(run, result, ranks_),
        observer_(run, result, progress, ranks_, schedule_.rounds()) {}

  void run() {
    bool is_over = observer_.look(0);
    for (int round = 0; !is_over; ++round) {
      take_faults_before(round);
      for (Rank rank = 0; rank < ranks_.count(); ++rank) sent_[static_cast<std::size_t>(rank)] = send(rank, round);
      for (Rank rank = 0; rank < ranks_.count(); ++rank) receive(rank, round);
      const bool has_agreed = agreement_.is_due(round + 1, round + 1 == schedule_.rounds()) && agreement_.is_reached();
      is_over = observer_.look(round + 1) || has_agreed;
    }
    observer_.finish();
  }

 private:
  // Without a number of cycles each round has a new one, and ranks keep the flows of all of them.
  static GossipPlan plan_of(const GossipRun& run, int limit) {
    GossipPlan plan = run.plan;
    const bool keeps_all_flows = uses_cycles(plan.algorithm) && uses_flows(plan.algorithm) && plan.cycles == 0;
    if (keeps_all_flows && run.rounds == 0 && run.stop != GossipStop::model)
      limit = std::min(limit, 3 * rounds_for(run.plan, run.eps) + 10);
    if (uses_cycles(plan.algorithm)) plan.rounds = limit;
    if (plan.algorithm == GossipAlgorithm::ardb && run.stop == GossipStop::model) plan.rounds = std::max(1, limit);
    return plan;
  }
  Mass<Real> row_of(Rank rank) { return {rows_.data() + static_cast<std::size_t>(rank) * length_, length_}; }
  int used_links(int round) const { return std::min(schedule_.links(), 2 * std::max(1, round)); }

  void take_faults_before(int round) {
    for (const Rank failed : deaths_.before(round, ranks_)) {
      known_dead_[static_cast<std::size_t>(failed)] = true;
      if (uses_cycles(run_.plan.algorithm)) fail_links_to(failed);
    }
    each_before(round, run_.faults.flips,
                [&](const BitFlip& planned) { faults_.flip(planned, ranks_, used_links(round)); });
  }
  void fail_links_to(Rank failed) {
    for (int each = 0; each < std::min(schedule_.rounds(), schedule_.links() / 2); ++each)
      for (Rank rank = 0; rank < ranks_.count(); ++rank) {
        const GossipRound with = schedule_.round(rank, each);
        if (with.to == failed) ranks_.at(rank).on_failure(with.link_to);
        if (with.from == failed) ranks_.at(rank).on_failure(with.link_from);
      }
  }

  // Whether the rank's row will arrive.
  bool send(Rank rank, int round) {
    const GossipRound now = schedule_.round(rank, round);
    if (ranks_.is_dead(rank) || now.to == no_rank || known_dead_[static_cast<std::size_t>(now.to)]) return false;
    faults_.before_push(ranks_.at(rank), used_links(round));
    if (asks()) correct_flows(rank);
    out_.clear();
    ranks_.at(rank).push(now.link_to, out_);
    if (out_.empty()) ranks_.at(rank).settle(now.link_to, out_);
    copy<Real>(row_of(rank), out_.row(out_.sends().front()));
    return network_.carry(rank, now.to, row_of(rank)) && !ranks_.is_dead(now.to);
  }
  void receive(Rank rank, int round) {
    const GossipRound now = schedule_.round(rank, round);
    if (ranks_.is_dead(rank) || now.from == no_rank) return;
    const bool has_come = sent_[static_cast<std::size_t>(now.from)];
    const ConstMass<Real> row = row_of(now.from).first(has_come ? length_ : 0);
    out_.clear();
    if (asks() && !ranks_.is_dead(now.from) && !ranks_.at(rank).is_good(row))
      ask(rank, now.link_from);
    else if (has_come)
      ranks_.at(rank).on_message({now.link_from, 0, 0, row}, out_);
  }

  // hpfcc: see GossipByRounds. Where no message is on its way answers are there at once.
  bool asks() const { return run_.plan.algorithm == GossipAlgorithm::hpfcc; }
  void correct_flows(Rank rank) {
    std::vector<int> bad;
    ranks_.at(rank).add_bad_links(bad);
    for (const int link : bad) ask(rank, link);
  }
  void ask(Rank rank, int link) {
    const Rank end = schedule_.end(rank, link);
    network_.count_message(rank, end);
    if (ranks_.is_dead(end)) return ranks_.at(rank).take_answer(link, {});
    out_.clear();
    ranks_.at(end).answer(link ^ 1, out_);
    const Mass<Real> row = out_.row(out_.sends().front());
    ranks_.at(rank).take_answer(link, network_.carry(end, rank, row) ? ConstMass<Real>(row) : ConstMass<Real>{});
  }

  const GossipRun& run_;
  GossipSchedule schedule_;
  GossipRanks<Real> ranks_;
  SimulatedFaults<Real> faults_;
  GossipNetwork<Real> network_;
  GossipAgreement<Real> agreement_;
  GossipObserver<Real> observer_;
  DeathsByRound deaths_{run_.faults};
  std::vector<bool> known_dead_ = std::vector<bool>(static_cast<std::size_t>(ranks_.count()));  // to all
  std::vector<bool> sent_ = known_dead_;                                                        // in this round
  std::size_t length_ = ranks_.at(0).row_length();
  std::vector<Real> rows_ = std::vector<Real>(sent_.size() * length_);  // that all ranks send in this round
  GossipOutbox<Real> out_;
};

}  // namespace ucft::detail::simulator
