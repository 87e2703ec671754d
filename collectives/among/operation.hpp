// One collective operation on one rank: its root (ballots), its phases in the ballot, and its decision. The catalogue
// (catalogue/catalogue.hpp) says which phases a collective has.
//
//   collects       up_correction (Algorithms 1, 3), at the root clean_subtree (2), and gather if there is none
//   disseminates   dissemination: broadcast tree, correction, the backstop
//   both           if the root dies the next rank takes over (Algorithm 5): ballots
//   before these   optimistic_ballot: a plain schedule, until it is through or somebody has died
//   beside these   personal_exchange: data that go straight to their readers. The ballots agree on whose count
//
// Sources: Küttler, Härtig, "Fault-tolerant Reduce and Allreduce operations based on correction" (Algorithms 1-5);
// Küttler et al., "Corrected trees for reliable group communication". docs/algorithms.md explains the ballots, which
// are ours.
//
// Invariants
//   - The contribution of a rank to a ballot is fixed when the rank joins it.
//   - A rank delivers once. Only `broadcast`, `correction` and `decided` of an acceptable ballot deliver.
//   - A rank that has delivered goes on answering until the operation window drops it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/core/ballots.hpp"
#include "collectives/core/decision.hpp"
#include "collectives/catalogue/catalogue.hpp"
#include "collectives/among/phases/clean_subtree.hpp"
#include "collectives/among/phases/dissemination.hpp"
#include "collectives/among/phases/gather.hpp"
#include "collectives/among/phases/optimistic_ballot.hpp"
#include "collectives/among/phases/personal_exchange.hpp"
#include "collectives/among/phases/up_correction.hpp"

namespace ucft::detail {

class Operation {
 public:
  // The memory that a rank has for its part; start() takes over one reference to each.
  struct Memory {
    Slice input;  // none: no data on this rank
    BufferId result =
        no_buffer;       // a block for it; without one, memory that runs out meanwhile may leave this rank without
    bool lacks = false;  // there is none for its part: allreduce and reduce fail on all, a broadcast here and below
    // The caller's own, where a sum that goes in blocks is made as soon as all have agreed to make one. When all have
    // it, it has landed: the decision has no value.
    BufferId landing = no_buffer;
    // Of an exchange: how the input goes to whom, and room for what comes.
    std::vector<PersonalExchange::Share> shares{};
    BufferId room = no_buffer;
    bool room_grows = false;
    // Of a process that is a host (among/process_replica.hpp):
    std::uint32_t contributors = 1;  // values in the input
    BufferId missing = no_buffer;    // its ranks whose values are not: entries of_living_host, so many
    std::uint32_t missing_length = 0;
    bool missing_truncated = false;  // there are more
    bool root_died = false;          // a broadcast's root did, before it gave anything
    Rank lacking = no_rank;          // its rank that lacks it, to be named; numbers beyond those of processes
  };
  // prev: see Message.
  void start(OperationNumber number, const Arguments& arguments, const Membership& members,
             const Surroundings& surroundings, const Memory& memory, Rank prev, Outbox& out);
  void on_message(const Message& message, Outbox& out);
  void on_failure(Rank rank, Outbox& out);
  // Called after all sends are on their way and all arrivals were handled, while wants_turn(). now_ns,
  // may_gossip: see OperationWindow.
  void on_turn(Outbox& out, std::int64_t now_ns, bool may_gossip);

  // Tells the ranks that it awaits what this rank has posted. Only their answers to a mismatch come back.
  void say_waiting(Outbox& out) const;

  // The caller has its result: forgets the value, as soon as no rank will ask for it.
  void let_go(Buffers& buffers) {
    is_taken_ = true;
    exchange_.let_go_of_data(buffers);
    forget_if_through(buffers);
  }

  // Before start: keeps the message until then.
  void store(const Message& message, Buffers& buffers);
  void reset(Buffers& buffers);

  bool started() const { return started_; }
  bool finished() const { return finished_; }
  bool wants_turn() const { return dissemination_.wants_turn(); }
  bool owes_turn() const { return dissemination_.owes_turn(); }              // others need it, at any time
  std::int64_t turn_due_ns() const { return dissemination_.turn_due_ns(); }  // earlier ones change nothing
  const Arguments& arguments() const { return arguments_; }
  const CatalogueRow& row() const { return *row_; }
  const Membership& members() const { return ballots_.members(); }
  // No rank needs data of this one any more. It may have to answer yet.
  bool all_have_data() const {
    return all_have_it_ || (row_->goes_straight && delivered_ && exchange_.all_have_data());
  }
  const Decision& decision() const { return decision_; }
  // The part of the result that is here. Of an exchange it is streams of members, of which the decided set counts.
  Slice value() const { return row_->goes_straight ? exchange_.data() : decision_.value; }
  // The stream of a member that counts, in value(); of others nullptr.
  const PersonalExchange::Stream* stream_of(Rank member, const Buffers& buffers) const;
  std::uint32_t attempts() const { return attempts_; }
  // The ranks whose messages this rank needs next, in no order: contributions; if it has those, the root's, with the
  // decision.
  std::vector<Rank> awaited() const;
  std::size_t stored() const { return inbox_.size(); }

 private:
  bool has_right_length(const Message& message) const;
  Rank me() const { return ballots_.me(); }
  Rank lacking() const { return memory_.lacking != no_rank ? memory_.lacking : me(); }
  bool contributes() const { return row_->collects || ballots_.promised() != arguments_.root; }

  // A ballot
  void join_optimistic(Outbox& out);
  void advance_optimistic(Outbox& out);
  void deliver_optimistic(Buffers& buffers);
  void leave_optimistic(const Message& why, Outbox& out);
  void clear_optimistic(Buffers& buffers);
  void join(Outbox& out);
  void contribute(Message& mine) const;
  void give_set(Message& mine, Buffers& buffers);
  void begin_exchange(Outbox& out);
  void on_exchange(const Message& message, Outbox& out);
  void go_on_with_exchange(Outbox& out);
  bool lacks_streams_of_root(Slice set, const Buffers& buffers) const;  // of an exchange in which the root alone gives
  void drain_inbox(Outbox& out);
  void advance(Outbox& out);
  void advance_member(Outbox& out);
  void advance_root(Outbox& out);
  void conclude_gather(Outbox& out);
  void ask_if_cut_off(Outbox& out);

  // Decisions
  void decide_sum(const Sum& sum, FailureList& failed, Outbox& out);
  void decide(Outbox& out);
  void deliver(const Message& message, Outbox& out);
  void finish(Buffers& buffers);
  void give_up(Outcome outcome, Buffers& buffers);
  void clear_arrivals(Buffers& buffers);
  void forget_if_through(Buffers& buffers);

  // Messages
  void on_broadcast(const Message& message, Outbox& out);
  void on_correction(const Message& message, Outbox& out);
  void on_ask(const Message& message, Outbox& out);
  void on_gather(const Message& message, Outbox& out);
  void on_optimistic(const Message& message, Outbox& out);
  bool follows_the_same(const Message& message) const;
  void on_contribution(const Message& message, Outbox& out);
  void on_mismatch(const Message& message, Outbox& out);
  Message compose(Phase phase) const;
  Message decision_message(Phase phase) const;

  Arguments arguments_;
  const CatalogueRow* row_ = &catalogue[0];
  Message blank_;  // number and signature
  Rank prev_ = no_rank;
  Memory memory_;
  bool all_have_it_ = false;  // or are dead: nobody needs this rank any more
  bool started_ = false, finished_ = false, delivered_ = false, mismatch_told_ = false;
  bool is_taken_ = false;  // by the caller
  Decision decision_;
  std::vector<Message> inbox_, draining_;

  Ballots ballots_;
  std::uint32_t attempts_ = 0;
  bool root_decided_ = false;  // in this ballot
  BallotPlan plan_;
  OptimisticBallot optimistic_;
  PersonalExchange exchange_;
  Slice set_;                 // that this rank has given in this ballot; a reference
  bool joins_later_ = false;  // in the promised ballot: it has not what it needs to give
  UpCorrection up_correction_;
  Gather gather_;
  Dissemination dissemination_;
};

}  // namespace ucft::detail
