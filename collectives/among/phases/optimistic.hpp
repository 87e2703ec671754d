// The optimistic ballot: what a library without fault tolerance would do, as long as no rank dies. It comes before all
// ballots that have a root (ballots.hpp), and has the number optimistic_ballot. Its result has the contributions of all
// members.
//
//   allreduce, barrier, allgather    recursive doubling. Of m members the first 2r, m = 2^k + r, fold: those at even
//                                    positions give to their right neighbours, and get the result from them. ceil(log2
//                                    m) steps if m is a power of two, else k + 2
//   reduce                           a binomial tree
//
//   5 members: r = 1, k = 2        0 -> 1;   1 <-> 2, 3 <-> 4;   1 <-> 3, 2 <-> 4;   1 -> 0
//
// Sums are made in the order of members, so all ranks have the same bits. (They may differ from those of a ballot with
// a root, which adds in the order of its tree: docs/failure_model.md.)
//
// At the news of a member's death every rank that retains the operation leaves this ballot and joins one with a root. A
// rank that has delivered does so, too, with what it has (operation.cpp). Invariants:
//   - A rank that has joined another ballot takes and sends nothing of this one: joining is the promise not to deliver
//     from it.
//   - Each step has a partner of its own, so a message needs no number of its step.
//   - Memory for all sums is there before the first message is sent. A rank that has none says so instead of a value,
//     and all learn of it.
#pragma once

#include <vector>

#include "collectives/among/phases/sum.hpp"

namespace ucft::detail {

class Optimistic {
 public:
  // mine: this rank's contribution, but for phase and ballot. References stay with the caller.
  void start(const Message& mine, const Arguments& arguments, const Ballots& ballots, Buffers& buffers);
  // False: not awaited.
  bool on_message(const Message& message, Buffers& buffers) { return arrivals_.deliver(message, buffers); }
  // Goes as far as the arrivals allow. True: to the end; then partial() is the result, or at a member of a reduce what
  // it has passed up.
  bool advance(const Arguments& arguments, const Ballots& ballots, Outbox& out);
  const Message& partial() const { return partial_; }
  const Arrivals& arrivals() const { return arrivals_; }
  void clear(Buffers& buffers);

 private:
  enum class What : std::uint8_t {
    give,        // what there is so far
    take_lower,  // a sum of members before those that this rank has, or after them
    take_higher,
    take_result
  };
  struct Step {
    What what;
    Rank peer;
  };

  bool is_tree() const { return root_ != no_rank; }
  void plan(const Arguments& arguments, const Ballots& ballots);
  void plan_doubling(const Ballots& ballots);
  void plan_tree(const Ballots& ballots, Rank root);
  void reserve(const Arguments& arguments, const Ballots& ballots, Buffers& buffers);
  void take(const Step& step, const Message& message, const Arguments& arguments, const Ballots& ballots,
            Buffers& buffers);
  void add(const Message& lower, const Message& higher, const Arguments& arguments, const Ballots& ballots,
           Buffers& buffers);
  void join_lists(const Message& lower, const Message& higher, Buffers& buffers);

  std::vector<Step> steps_;  // for members_, and root_ if it is a tree
  Membership members_;
  Rank root_ = no_rank;
  bool is_planned_ = false;
  std::size_t at_ = 0;           // the next step
  Message partial_;              // one reference to its value, and its list
  std::vector<BufferId> rooms_;  // for sums to come
  std::vector<Rank> awaited_;
  Arrivals arrivals_;
};

}  // namespace ucft::detail
