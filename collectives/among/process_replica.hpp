// A host, or a rank alone, as one process: an operation window of processes, driven by the process' journal alone.
// Each rank of the host has one of these, a replica. All that have read equally far are equal. So a dead speaker is
// replaced by a rank that has read to the end, not by a protocol. That rank knows every message that its predecessor
// may have sent, and says all of them again.
//
// Only the rank that speaks needs long values. Other replicas name them: they keep the steps that lead to them, and the
// memory that these read. When one of them has to speak, it takes the steps that are left.
//
// Messages between two hosts are numbered for each operation. Each is taken in once, in that order. So an operation
// sees neither repetitions nor gaps, whichever rank speaks. A message that both speakers have sent was the same.
//
// Invariants
//   - State and packets are a function of the entries applied. Nothing else may be asked here: no clock, no rank.
//   - Packets of an operation are kept until the window drops it: then every live host is through with it. Their values
//     go as soon as it is known that every host has taken them in (phases/circulant.hpp). Where all processes are ranks
//     alone no rank takes over: messages have no numbers, and packets go when they are sent.
//   - Memory: what the operations in the window need, and their packets. A replica that finds none is lost().
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "collectives/core/deferred_steps.hpp"
#include "collectives/among/journal.hpp"
#include "collectives/among/operation_window.hpp"

namespace ucft::detail {

class ProcessReplica {
 public:
  // To compute a shorter value is as fast as to wait until the rank that speaks says where it lies.
  static constexpr std::uint64_t usually_long = 64 * 1024 + 1;
  struct Size {
    Host me;
    Host hosts;
    int window = 8;
    Optimism optimism = false;
    std::uint64_t long_bytes = usually_long;  // from so many on a value is long
    // Each process is a rank alone: no rank takes over, so messages are not numbered, and packets not kept.
    bool are_ranks = false;
    bool has_replicas = true;
    std::vector<Rank> failing_together{};  // see OperationWindow::Size::hosts
    std::vector<Rank> absent{};            // see there
  };
  struct Packet {
    Host to;
    // Among those to that host in that operation: below 2^16 - 3, as it travels in 16 bits. The most are two pieces of
    // an allreduce for each of Optimism::most_pieces, and a few messages more. (An allgather has one for each of them,
    // and one for each of Optimism::most_streams.) Of ranks alone: the members that the operation was planned without.
    std::uint32_t place;
    Message message;  // one reference to value and list each
  };
  static constexpr OperationNumber internal = UINT64_MAX;  // the call of a barrier that the window posts by itself

  ProcessReplica(Size size, Buffers& buffers);

  // From here on this replica has all values, and not their names alone.
  void compute();

  // Two halves of one step, between which completed() is taken: what the first half finishes the second may drop.
  void apply(const JournalEntry& entry);
  void make_ready();
  // Whether the next call's contribution can be taken in.
  bool ready() const { return ready_; }
  OperationNumber calls() const { return calls_; }  // contributions so far
  bool wants_turn() const { return window_.wants_turn(); }
  // It has found no memory, which other replicas may have: its rank must leave the others to theirs.
  bool lost() const { return lost_; }
  const OperationWindow& window() const { return window_; }

  // A message from a host, by its place: too late, to be taken in now, or to be kept until those before it have come.
  enum class Admission : std::uint8_t { late, now, later };
  Admission admission(Host from, std::uint32_t place, OperationNumber operation) const;

  // Packets are numbered in the order in which they were made.
  std::uint64_t packets_begin() const { return packets_begin_; }
  std::uint64_t packets_end() const { return packets_begin_ + packets_.size(); }
  const Packet& packet(std::uint64_t number) const { return packets_[number - packets_begin_]; }

  // All have been sent.
  void note_sent();

  // Hosts that leave, and that nothing is needed of here any more, since this was last cleared.
  std::vector<Host>& let_go() { return let_go_; }

  // Operations that have finished since this was last cleared, internal ones included.
  const std::vector<OperationNumber>& completed() { return window_.completed(); }
  void clear_completed();
  const Operation& operation(OperationNumber number) const { return window_.operation(number); }
  OperationNumber call_of(OperationNumber number) const { return slot(number).call; }
  // Of a call that is through: whether its result is long, so that other replicas may not have it.
  bool has_long_result(OperationNumber number) const;
  // Ranks whose living hosts had lost them before the operation, as results have said.
  const std::vector<Rank>& missing_before(OperationNumber number) const { return slot(number).missing_before; }

  // A long result has been taken.
  void forget_unneeded() {
    if (!deferred_.empty()) deferred_.forget_unneeded(buffers_);
  }

  // All but rooms: a rank that lives on when this one has left may compute from them.
  void release_all();
  void release_rooms();

 private:
  struct Count {
    Host host;
    std::uint32_t sent = 0, taken = 0;
  };
  struct Slot {
    OperationNumber operation = UINT64_MAX, call = internal;
    std::uint64_t straight_bytes = 0;         // of an exchange: that this host gives. A short room may have parts of it
    std::vector<Count> counts;                // of those hosts that something was sent to, or came from
    std::vector<Rank> missing_before, named;  // ascending; named: ranks of living hosts, by the operation's result
  };
  const Slot& slot(OperationNumber number) const { return slots_[number & (slots_.size() - 1)]; }
  Slot& slot_for(OperationNumber number);
  Count& count_of(Host host, OperationNumber operation);
  void begin(OperationNumber number, OperationNumber call);
  void contribute(const ProcessContribution& contribution);
  Operation::Memory memory_for(const ProcessContribution& contribution, const std::vector<Rank>& missing_before);
  Message message_in(const JournalEntry& entry);
  void take_in(const Message& message);
  std::uint32_t planned_without(OperationNumber operation) const;
  void note_named();
  void pack();
  void forget_what_all_have();
  void forget_values_of(OperationNumber number);
  void drop_packet();
  void drop_packets();
  template <class IsOver>
  void give_back_rooms(IsOver is_over);

  Size size_;
  Buffers& buffers_;
  OperationWindow window_;
  Outbox outbox_;
  bool computes_ = false;
  DeferredSteps deferred_;
  std::vector<Slot> slots_;  // of the window's operations, and of those that may be heard of early
  struct Room {
    OperationNumber operation;
    BufferId block;  // one reference
  };
  std::vector<Room> rooms_;  // ProcessContribution::room
  std::deque<Packet> packets_;
  std::uint64_t packets_begin_ = 0;
  std::vector<Host> let_go_;
  OperationNumber calls_ = 0;
  std::size_t noted_ = 0;               // of window_.completed()
  std::vector<OperationNumber> taken_;  // their results are, and a host may not have them yet; of ranks alone: none
  bool ready_ = false, lost_ = false;
};

}  // namespace ucft::detail
