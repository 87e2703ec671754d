// The operations of one communicator on one rank: numbers, the operation window (those that may still need this rank),
// who takes part in the next one, and messages that come too early or too late.
//
//   dropped | retained: finished, may be asked for | in flight | not started: early messages wait | refused
//           ^dropped_upto                                      ^next                               ^dropped_upto + slots
//
//   s may start once s-W is finished here (its failures decide who takes part in s) and s-2W is dropped.
//   A decision of a contributing operation c (allreduce, barrier, allgather) proves that every live rank has joined c, and so has
//   finished all of 0 .. c-W: they are dropped.
//   Rooted operations prove nothing of the sort, so after W/2 of them in a row a barrier is posted on their behalf. It
//   runs beside the following operations; it also agrees on the failures of that stretch.
//
// Memory: slots = 4W operations. All ranks post the same operations in the same order.
#pragma once

#include <memory>
#include <vector>

#include "collectives/operation.hpp"

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
  };
  OperationWindow(Size size, Buffers& buffers);

  // Whether an operation can be posted now. Posts the barrier of a stretch of rooted operations when it is due.
  bool ready(Outbox& out);
  // Requires ready(). Takes over one reference to each block of memory.
  OperationNumber post(const Arguments& arguments, const Operation::Memory& memory, Outbox& out);

  // False: the sender is too far ahead; the message has to wait where it is.
  bool acceptable(OperationNumber number) const { return number < dropped_upto_ + slots_.size(); }
  void on_message(const Message& message, Outbox& out);
  // Once per rank is enough; more change nothing.
  void on_failure(Rank rank, Outbox& out);
  // After the last barrier has been posted, on which the communicator ends: a rank has destroyed it, so it is through. That
  // is no failure: what that rank has sent, and what others pass on, still counts.
  void on_gone(Outbox& out);
  // A turn to every operation that wants one. now_ns: the time, by a clock of this rank's own, for those that wait for one
  // (correction_delay_us, gossip); -1: it has come, the driver sees to that itself.
  void on_turn(Outbox& out, std::int64_t now_ns = -1);
  bool wants_turn() const { return correcting_ > 0; }

  // Numbers of operations that have finished since clear_completed(), internal ones included. After it the values of some are gone.
  const std::vector<OperationNumber>& completed() const { return completed_; }
  void clear_completed();
  // Of an operation that is in the window.
  const Operation& operation(OperationNumber number) const { return slot(number); }

  const FailedRanks& failed() const { return failed_; }
  // Who takes part in the next operation.
  const Membership& members() const { return members_; }
  OperationNumber next() const { return next_; }
  OperationNumber dropped_upto() const { return dropped_upto_; }
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
  template <class Change>
  void for_each_retained(Change change) {  // oldest first
    for (OperationNumber number = dropped_upto_; number < next_; ++number) {
      Operation& operation = slot(number);
      const bool was_finished = operation.finished(), wanted_turn = operation.wants_turn();
      change(operation);
      count_turn(wanted_turn, operation.wants_turn());
      settle(number, was_finished);
    }
  }
  void drop_up_to(OperationNumber end);
  void count_turn(bool before, bool after) { correcting_ += static_cast<int>(after) - static_cast<int>(before); }

  Rank me_;
  OperationNumber window_;
  Optimism optimism_;
  std::vector<Rank> hosts_;
  Buffers& buffers_;
  std::vector<Operation> slots_;
  OperationNumber next_ = 0, dropped_upto_ = 0;
  int unfinished_ = 0, correcting_ = 0;
  bool is_out_ = false;
  OperationNumber rooted_in_a_row_ = 0;
  std::int32_t rooted_f_ = 0;
  Membership members_;
  FailedRanks failed_, reported_;  // reported_: named by some decision
  std::vector<OperationNumber> completed_;
};

}  // namespace ucft::detail
