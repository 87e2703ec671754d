// The root's last way to a decision, when no subtree is clean: it asks every survivor what that rank has. Three cases
// lead here. More than f ranks failed. Or some failed in earlier operations, whose failures have not reached the plan
// yet. Or an earlier root's decision is somewhere. (Not in the paper, which assumes at most f failures:
// docs/algorithms.md.)
#pragma once

#include "collectives/among/phases/up_correction.hpp"

namespace ucft::detail {

class Gather {
 public:
  // question: a message, but for its receiver.
  void start(const Message& question, const Ballots& ballots, Outbox& out);
  bool on_message(const Message& reply, Buffers& buffers) { return replies_.deliver(reply, buffers); }
  bool on_failure(Rank rank) { return replies_.fail(rank); }
  void clear(Buffers& buffers);

  bool under_way() const { return under_way_; }
  bool settled() const { return replies_.settled(); }
  const Arrivals& replies() const { return replies_; }
  // Once it is settled. mine: this rank's contribution.
  void add_decisions(Sum& sum) const;
  // The sum that a clean subtree would have sent, in the same order, so with the same bits.
  void add_contributions(Sum& sum, const Message& mine, std::int32_t f, const Ballots& ballots) const;
  // Failures that no decision has named: hosts of which no rank is left; where hosts are not known, ranks.
  std::int32_t new_failures(const Ballots& ballots) const;
  void note_failures(FailureList& failed, const Buffers& buffers) const;

 private:
  struct Tree;
  void add_subtree(Sum& sum, std::int32_t process, const Tree& tree) const;
  void add_group(Sum& sum, std::int32_t process, const Tree& tree) const;

  Arrivals replies_;
  bool under_way_ = false;
};

}  // namespace ucft::detail
