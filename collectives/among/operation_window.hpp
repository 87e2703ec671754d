// The operations of one communicator on one rank: numbers, and the operation window (those that may still need this
// rank). It also keeps the members of the next operation, and messages that come too early or too late.
//
//   dropped | retained: finished, may be asked for | in flight | not started: early messages wait | refused
//           ^dropped_upto                                      ^next                     dropped_upto + slots^
//
//   s may start once s-W is finished here (its failures decide who takes part in s) and s-2W is dropped. A decision of
//   a contributing operation c (allreduce, barrier, allgather) proves that every live rank has joined c, and so has
//   finished all of 0 .. c-W: they are dropped. Rooted operations prove nothing of the sort. So after W/2 of them in a
//   row a barrier is posted on their behalf. It runs beside the following operations; it also agrees on the failures of
//   that stretch. Nor does a mismatch prove it. Behind one nothing is dropped before an operation needs its place.
//
// Leaving: a rank that leaves says from which operation on it posts nothing. When all before that one are finished
// here, it counts as failed in those from there on, but not against f. It may go when each rank that lives has come so
// far: nobody needs it any more.
//
// Memory: slots = 4W operations. All ranks post the same operations in the same order.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/among/operation.hpp"

namespace ucft::detail {

class OperationWindow {
 public:
  struct Size {
    Rank me;
    Rank ranks;
    int window = 8;  // W: operations in flight; at least 2
    Optimism optimism = false;
    std::vector<Rank>
        hosts{};  // of each rank, the same on all: f counts those that fail as a whole. Empty: f counts ranks
    std::vector<Rank> absent{};  // the same on all: members of no operation, and never counted
  };
  OperationWindow(Size size, Buffers& buffers);

  // Whether an operation can be posted now: not by a rank that has left. Posts the barrier of a stretch of rooted
  // operations when it is due.
  bool ready(Outbox& out);
  // Requires ready(). Takes over one reference to each block of memory.
  OperationNumber post(const Arguments& arguments, const Operation::Memory& memory, Outbox& out);

  // False: the sender is too far ahead; the message has to wait where it is.
  bool acceptable(OperationNumber number) const { return has_left_ || number < dropped_upto_ + slots_.size(); }
  void on_message(const Message& message, Outbox& out);
  // Once per rank is enough; more change nothing.
  void on_failure(Rank rank, Outbox& out);
  // That rank posts nothing from operation `from` on, and takes part in those before until it is gone: see
  // take_leaver().
  void on_leave(Rank rank, OperationNumber from);
  // A rank that said that it leaves, and of which nothing is needed here any more: all before its `from` are finished.
  // From now on it counts as failed in those from there on. no_rank: there is none. To be asked again after each event,
  // until then.
  Rank take_leaver(Outbox& out);
  // True of a rank that said that it leaves, until take_leaver() has given it.
  bool is_needed(Rank rank) const { return std::ranges::find(leavers_, rank, &Leaver::rank) != leavers_.end(); }
  // The rank has gone. was_needed: some rank may not have come so far. So it counts as failed in all operations, though
  // not against f.
  void on_left(Rank rank, bool was_needed, Outbox& out);
  // This rank posts nothing any more, and goes on to answer. All that it has posted is finished, else others might
  // forget what it waits for. Exception: a rank that goes at once.
  void leave() { has_left_ = true; }
  bool has_left() const { return has_left_; }
  // A turn to every operation that wants one. now_ns: the time, by a clock of this rank's own, for operations that wait
  // for a time (correction_delay_us, gossip). -1: that time has come, the driver sees to it itself.
  // may_gossip: all that this rank has sent has left.
  void on_turn(Outbox& out, std::int64_t now_ns = -1, bool may_gossip = true);
  bool wants_turn() const { return correcting_ > 0; }
  // The oldest operation that is not finished has waited for long: tells the ranks that it awaits what this rank has
  // posted, so that a mismatch shows which no other message would show.
  void say_waiting(Outbox& out) const;

  // Numbers of operations that have finished since clear_completed(), internal ones included. After it the values of
  // some are gone.
  const std::vector<OperationNumber>& completed() const { return completed_; }
  void clear_completed();
  // The operation must be in the window.
  const Operation& operation(OperationNumber number) const { return slot(number); }

  const FailedRanks& failed() const { return failed_; }
  // The ranks that take part in the next operation.
  const Membership& members() const { return members_; }
  OperationNumber next() const { return next_; }
  OperationNumber dropped_upto() const { return dropped_upto_; }
  OperationNumber finished_upto() const;  // all before it are
  // All that was posted is finished.
  bool idle() const { return unfinished_ == 0; }
  // Some operation in the window has a failed member: others may need answers from this rank.
  bool must_answer() const { return !failed_.ranks().empty() && dropped_upto_ < next_; }
  // Some decision has named this rank as failed: the others go on without it. Nothing may be posted any more.
  bool is_out() const { return is_out_; }
  void release_all();

 private:
  Operation& slot(OperationNumber number) { return slots_[number & (slots_.size() - 1)]; }
  const Operation& slot(OperationNumber number) const { return slots_[number & (slots_.size() - 1)]; }
  bool can_start(OperationNumber number) const;
  void start(const Arguments& arguments, const Operation::Memory& memory, Outbox& out);
  void exclude_failures_of(OperationNumber number);
  void settle(OperationNumber number, bool was_finished);
  bool has_finished_before(OperationNumber number) const;
  void fail_in(Rank rank, OperationNumber from, OperationNumber end, Outbox& out);
  void drop_up_to(OperationNumber end);
  void count_turn(bool before, bool after) { correcting_ += static_cast<int>(after) - static_cast<int>(before); }

  Rank me_;
  OperationNumber window_;
  Optimism optimism_;
  std::vector<Rank> hosts_;
  Buffers& buffers_;
  std::vector<Operation> slots_;
  OperationNumber next_ = 0, dropped_upto_ = 0;
  OperationNumber may_drop_upto_ = 0;  // behind mismatches, if there is need
  int unfinished_ = 0, correcting_ = 0;
  bool is_out_ = false, has_left_ = false;
  OperationNumber rooted_in_a_row_ = 0;
  std::int32_t rooted_f_ = 0;
  Membership members_;
  FailedRanks failed_, reported_;  // reported_: named by some decision, or left
  std::vector<Leaver> leavers_;    // that something is still needed of
  std::vector<Leaver> let_go_{};   // that it is not
  std::vector<OperationNumber> completed_;
};

}  // namespace ucft::detail
