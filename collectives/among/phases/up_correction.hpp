// Up-correction (Küttler, Härtig, "Fault-tolerant Reduce and Allreduce operations based on correction"). Algorithm 1:
// contributions are exchanged in groups of f+1, whose members are in different subtrees. Algorithm 3: sums go up the
// tree. So each of the root's f+1 subtrees has the values of all, and a subtree without a failure has them right
// (clean_subtree.hpp).
//
// Invariants: the contribution of a rank to a ballot is fixed when the rank joins it. Each peer is awaited until it has
// delivered or failed. A rank sends one message up in a ballot.
#pragma once

#include "collectives/among/phases/failure_list.hpp"
#include "collectives/among/phases/ballot_plan.hpp"
#include "collectives/among/phases/sum.hpp"

namespace ucft::detail {

class UpCorrection {
 public:
  // A new ballot: gives the place of this rank's contribution, as it goes to its group. References stay with the
  // caller.
  Message& join() {
    passed_up_ = false;
    return mine_;
  }
  // Awaits the group and the children, and sends `mine` to the group.
  void start(const BallotPlan& plan, const Ballots& ballots, Outbox& out);
  // False: not awaited here.
  bool on_message(const Message& message, Buffers& buffers);
  bool on_failure(Rank rank) {
    const bool of_group = group_.fail(rank), of_children = children_.fail(rank);
    return of_group || of_children;
  }
  void clear(Buffers& buffers);

  const Message& mine() const { return mine_; }
  bool passed_up() const { return passed_up_; }
  // Algorithm 3. A member of the short group has sent its value to the root itself: it has no children, and passes
  // nothing.
  bool may_pass_up(const BallotPlan& plan) const {
    return !passed_up_ && (plan.in_short_group || (group_.settled() && children_.settled()));
  }
  // up: a message to the parent, but for what it says. False: this rank has no memory for its sum.
  bool pass_up(Message up, const Arguments& arguments, const BallotPlan& plan, const Ballots& ballots, Outbox& out);
  // Nothing is to be had from this rank any more: a rank that waits for it must not do so.
  void pass_up_nothing(Message up, const BallotPlan& plan, Outbox& out);
  void stop() { passed_up_ = true; }

  const Arrivals& group() const { return group_; }
  const Arrivals& children() const { return children_; }
  // In rank order, my own contribution at its own place.
  void add_group(Sum& sum, const BallotPlan& plan) const;
  // The ranks that those contributions lack.
  void note_missing(FailureList& failed, const Buffers& buffers) const;

 private:
  bool tell_of_decision(const Message& decided, Message& up, const Ballots& ballots, Buffers& buffers) const;

  Message mine_;
  Arrivals group_, children_;
  bool passed_up_ = false;
};

// Awaits them all, those that have failed already as failed.
void await(Arrivals& arrivals, const std::vector<Rank>& ranks, const Ballots& ballots, Buffers& buffers);

}  // namespace ucft::detail
