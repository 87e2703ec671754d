// One collective operation on one rank: up-correction reduce, corrected-tree broadcast, and root safety.
//
// Sources: Küttler, Härtig, "Fault-tolerant Reduce and Allreduce operations based on correction", Algorithms 1-5
// (reduce, allreduce with root retry); Küttler et al., "Corrected trees for reliable group communication" (broadcast).
// docs/algorithms.md explains the ballots, which are ours: the paper needs f+1 candidates that don't die during the
// operation, and here any process may die between any two sends.
//
//   kind        contributions         decision of the first root        if that root dies
//   allreduce   values                their sum, broadcast              next rank is root
//   barrier     empty                 nothing, broadcast                next rank is root
//   broadcast   none                  the root's data, broadcast        next rank asks all: decided data, or root_failed
//   reduce      values                their sum, kept                   over: root_failed
//
// Invariants
//   - A ballot is the rank of its root. Ballots are ordered by distance from the first root; promised_ only grows.
//   - What a rank contributes to a ballot is fixed when it joins it (joined_).
//   - A rank delivers once. Only `broadcast`, `correction` and `decided` of an acceptable ballot deliver.
//   - A rank that has delivered goes on answering until the window drops the operation.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/protocol.hpp"
#include "collectives/reduction/reduction.hpp"
#include "collectives/ring_correction.hpp"
#include "collectives/topology/broadcast_topology.hpp"
#include "collectives/topology/membership.hpp"
#include "collectives/topology/reduce_topology.hpp"

namespace ucft::detail {

enum class Kind : std::uint8_t { allreduce, barrier, broadcast, reduce };
enum class FailureInfo : std::uint8_t { list, count, bit };

struct Arguments {
  Kind kind = Kind::allreduce;
  Reduction reduction{};
  std::uint64_t count = 0;
  Rank root = 0;   // allreduce, barrier: the first candidate
  std::int32_t f = 1;
  BroadcastShape shape{};
  Correction correction = Correction::none;
  std::int32_t correction_distance = 2;
  std::int64_t correction_delay_us = 0;   // phased: corrections begin this long after the value has come; 0: overlapped.
                                          // For the driver, which gives no turn before
  FailureInfo failure_info = FailureInfo::list;

  std::uint64_t bytes() const { return count * element_bytes(reduction.type); }
  bool rooted() const { return kind == Kind::broadcast || kind == Kind::reduce; }
  std::uint16_t signature() const;
};

// Ranks known to have failed, ascending.
class FailedRanks {
 public:
  bool contains(Rank rank) const;
  bool insert(Rank rank);   // false: known already
  const std::vector<Rank>& ranks() const { return ranks_; }

 private:
  std::vector<Rank> ranks_;
};

// What an operation came to.
struct Decision {
  Outcome outcome = Outcome::success;
  bool truncated = false;           // the list has only failure_list_limit entries
  Rank first_decided = no_rank;     // the ballot that found it
  Rank accepted = no_rank;          // the last ballot at which this rank accepted it
  Rank culprit = no_rank;           // of a mismatch, or who has no memory
  std::uint32_t contributors = 0;
  std::uint32_t failed_count = 0;
  std::uint32_t list_length = 0;
  BufferId value = no_buffer;
  BufferId list = no_buffer;        // failed ranks, see contributed_bit
};

class Operation {
 public:
  struct Surroundings {
    Rank me;
    const FailedRanks* failed;
    const FailedRanks* reported;   // those that some decision has named: they don't count against f any more
  };

  // What a rank has for its part; start() takes over one reference to each.
  struct Memory {
    BufferId input = no_buffer;    // no_buffer: no data on this rank
    BufferId result = no_buffer;   // a block for it; without one, memory that runs out meanwhile may leave this rank without
    bool lacks = false;            // there is none for its part: allreduce and reduce fail on all, a broadcast here and below
  };
  // prev: see Message.
  void start(OperationNumber number, const Arguments& arguments, const Membership& members, Surroundings surroundings,
             const Memory& memory, Rank prev, Outbox& out);
  void on_message(const Message& message, Outbox& out);
  void on_failure(Rank rank, Outbox& out);
  // Some rank has been through the last barrier of the communicator, which all have entered: so this barrier, that one or
  // an earlier one, was decided. With what list nobody will ask any more.
  void on_gone(Outbox& out);
  // Called after all sends are on their way and all arrivals were handled, while wants_turn().
  void on_turn(Outbox& out);

  // Before start: keeps the message until then.
  void store(const Message& message, Buffers& buffers);
  void reset(Buffers& buffers);

  bool started() const { return started_; }
  bool finished() const { return finished_; }
  bool wants_turn() const { return correction_.wants_turn(); }
  // Whether the turn that it wants is due: correction_delay_us after it was offered for the first time.
  bool turn_is_due(std::int64_t now_us);
  const Arguments& arguments() const { return arguments_; }
  const Membership& members() const { return members_; }
  const Decision& decision() const { return decision_; }
  std::uint32_t attempts() const { return attempts_; }
  std::size_t stored() const { return inbox_.size(); }

 private:
  // Everyone's part in one ballot, as ranks. Kept from one use of this slot to the next while nothing has changed.
  struct Plan {
    bool valid = false;
    Membership members;
    Rank me = no_rank, first = no_rank, ballot = no_rank;
    std::int32_t f = 0;
    BroadcastShape shape;

    bool in_short_group = false;
    bool has_complete_group = false;
    std::size_t place_in_group = 0;      // members of the group before me
    Rank parent = no_rank;
    std::vector<Rank> group_peers, children, broadcast_children;
  };
  // A sum under construction. Combines into fresh memory, never into an operand.
  struct Sum {
    BufferId value = no_buffer;
    bool fresh = false, any = false;
    std::uint32_t contributors = 0;
    const Message* decided = nullptr;    // the one accepted last, if any
    Rank lacks_memory = no_rank;         // this rank has none: there is no sum
  };

  bool has_right_length(const Message& message, const Buffers& buffers) const;

  // Ballots
  std::int32_t ordinal(Rank rank) const;
  bool before(Rank a, Rank b) const { return ordinal(a) < ordinal(b); }
  Rank next_candidate(Rank from) const;
  std::int32_t process_of(Rank rank, Rank ballot) const;
  Rank rank_of(std::int32_t process, Rank ballot) const;
  void make_plan(Rank ballot);
  void broadcast_children_of(Rank ballot, std::vector<Rank>& children) const;

  void join(Outbox& out);
  void freeze_contribution();
  void await(Arrivals& arrivals, const std::vector<Rank>& ranks, Buffers& buffers);
  void drain_inbox(Outbox& out);
  void advance(Outbox& out);
  void advance_member(Outbox& out);
  void advance_root(Outbox& out);
  void start_gather(Outbox& out);
  void conclude_gather(Outbox& out);
  bool too_many_failed() const;
  void add_gathered(Sum& sum, Buffers& buffers);
  void add_gathered_group(Sum& sum, std::int32_t process, Buffers& buffers);
  void add_gathered_subtree(Sum& sum, std::int32_t process, Buffers& buffers);
  void add_sum(Sum& sum, Sum& part, Buffers& buffers);
  void pass_up(Outbox& out);
  void pass_up_nothing(Outbox& out);

  // Sums
  const Message* gathered_from(Rank rank) const;
  void add(Sum& sum, const Message& contribution, Buffers& buffers);
  void add_group(Sum& sum, Buffers& buffers);
  void decide_sum(Sum& sum, std::span<const std::uint32_t> missing_in_subtree, bool subtree_truncated, Outbox& out);

  // Failure information
  void note_failure(std::vector<std::uint32_t>& list, Rank rank, bool contributed) const;
  void note_list(std::vector<std::uint32_t>& list, const Message& message, const Buffers& buffers) const;
  BufferId make_list(const std::vector<std::uint32_t>& list, Buffers& buffers) const;

  // Decisions
  void decide(Outbox& out);
  void take_over(const Message& message, Buffers& buffers);
  void keep_result(BufferId value, Buffers& buffers);
  void deliver(const Message& message, Outbox& out);
  void finish(Buffers& buffers);
  void clear_arrivals(Buffers& buffers);
  void give_up(Outcome outcome);
  void lack_memory(Rank culprit);
  void on_broadcast(const Message& message, Outbox& out);
  void on_ask(const Message& message, Outbox& out);
  void on_gather(const Message& message, Outbox& out);
  void ask_if_cut_off(Outbox& out);
  void on_mismatch(Rank culprit, Outbox& out);
  Message compose(Phase phase, Rank attempt) const;
  Message compose_decision(Phase phase, Rank attempt) const;
  Message compose_contribution(Phase phase) const;

  // Correction on the ring of processes
  void spread(Rank ballot, Outbox& out);
  void start_correction(Rank ballot);
  void on_correction(const Message& message, Outbox& out);
  bool note_correction(const Message& message);
  void enter_correction(Rank ballot);
  void panic_if_alone();

  bool is_root() const { return promised_ == surroundings_.me; }
  bool contributes() const { return !(arguments_.kind == Kind::broadcast && promised_ == arguments_.root); }

  OperationNumber number_ = 0;
  Arguments arguments_;
  std::uint16_t signature_ = 0;
  Membership members_;
  Surroundings surroundings_{no_rank, nullptr, nullptr};
  std::int32_t first_position_ = 0;   // of the first candidate
  Rank prev_ = no_rank;
  Memory memory_;

  bool started_ = false, finished_ = false, delivered_ = false;
  Decision decision_;

  // This ballot
  Rank promised_ = no_rank;
  std::uint32_t attempts_ = 0;
  Plan plan_;
  Message joined_;                    // references belong to memory_ or decision_
  Arrivals group_, children_, gather_;
  bool up_sent_ = false, root_decided_ = false, gathering_ = false, asked_ = false;

  std::vector<Rank> askers_, forwarded_;
  std::vector<Message> inbox_, draining_;
  bool mismatch_told_ = false;

  // Correction
  RingCorrection correction_;
  Rank correction_ballot_ = no_rank;
  Rank coloured_by_ = no_rank;         // failure-proof: reached by this one's correction alone, and not let go yet
  std::int64_t turn_wanted_since_us_ = -1;
};

}  // namespace ucft::detail
