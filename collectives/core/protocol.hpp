// The whole vocabulary of the algorithms: ranks, messages, the outbox, arrivals.
//
// An algorithm is a plain value: (state, event) -> (state, sends). It has no clock, no thread and no I/O. Two drivers
// (ucx_layer, simulator) run the same object code. Memory is named by handle (buffers.hpp), never by pointer.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/core/buffers.hpp"

namespace ucft::detail {

using Rank = std::int32_t;              // in a communicator: 0 .. n-1
using OperationNumber = std::uint64_t;  // in a communicator: 0, 1, 2 ... in posting order

inline constexpr Rank no_rank = -1;
inline constexpr Rank any_rank = -2;           // prev of an operation after a mismatch: compares equal to every other
inline constexpr Rank optimistic_ballot = -3;  // the one without a root, before all others (phases/optimistic.hpp)

enum class Phase : std::uint8_t {
  group,           // up-correction: my contribution, to every peer of my group
  up,              // tree phase: the sum of my subtree, to my parent
  broadcast,       // the decision, down the broadcast tree
  correction,      // the decision, along the ring of ranks; forwarded in the opportunistic forms only
  ask,             // to the root: what was decided? (backstop)
  decided,         // the answer to ask
  gather,          // root to all: no subtree was clean, tell me what you have (more than f failures)
  gather_reply,    // the answer to gather
  mismatch,        // some rank posted a different operation under this number
  exchange,        // the optimistic ballot: the sum of those that I have heard from
  reduce_scatter,  // of long data there: a piece of such a sum
  allgather,       // a piece of the result
  closing,         // its sender has all of the result, and so have those that it has heard this from
  waiting,         // its sender has waited for this rank for long: a signature to compare, and nothing else
  all_broadcast,   // of long contributions to an allgather: a piece of one
};
inline constexpr int phase_count = 15;

// A part of a value. How many values it is the sum of is told by another message.
constexpr bool carries_piece(Phase phase) {
  return phase == Phase::reduce_scatter || phase == Phase::allgather || phase == Phase::all_broadcast;
}

enum class Outcome : std::uint8_t { success, root_failed, too_many_failures, mismatch, no_memory };

// No rank is in the sum then, and some rank is to blame: Message::culprit().
constexpr bool has_culprit(Outcome outcome) { return outcome == Outcome::mismatch || outcome == Outcome::no_memory; }

enum MessageFlags : std::uint8_t {
  has_value = 1,       // a value rides along (absent: the empty sum)
  is_decided = 2,      // the value is an earlier decision, not a contribution
  is_unclean = 4,      // a process of this subtree failed to send: the sum may lack values
  list_truncated = 8,  // more failures than a list holds
  moves_right = 16,    // correction: from a lower process number to a higher one, around the ring
  panics = 32,         // correction (failure-proof): pass the decision on to all
  lets_go = 64,        // correction (failure-proof): the exit signal; its sender has finished its correction
  by_gossip = 128      // broadcast: to a process by chance; age_ns counts
};

// An entry of a failure list: the rank, and whether its value is in the sum all the same (it died after it sent it).
inline constexpr std::uint32_t contributed_bit = 0x80000000u;
// Where processes are hosts (among/process_replica.hpp): an entry that is not a process but a rank, of the ranks of all
// hosts. Its host lives and has gone on without it. Its value is in no sum.
inline constexpr std::uint32_t of_living_host = 0x40000000u;
inline constexpr std::uint32_t failure_list_limit = 64;
// Data of an operation, of all ranks together, in bytes. Set by the records of blocks (catalogue/blocks.hpp).
inline constexpr std::uint64_t bytes_limit = (std::uint64_t{1} << 40) - 1;

// The message that travels, without what it carries. In an outbox `peer` is the receiver, in on_message the sender.
struct MessageHead {
  OperationNumber operation = 0;
  Rank peer = no_rank;
  Rank attempt = no_rank;  // the ballot: the rank of the root, not a counter
  Rank prev = no_rank;     // contributions: the ballot that first decided operation - W, at the sender
  union {
    Rank first_decided = no_rank;  // decisions: the ballot that first decided it
    Rank source;                   // all_broadcast: the member whose contribution the value is a piece of
  };
  Rank accepted = no_rank;  // contributions with is_decided: the last ballot at which the sender accepted it
  std::int32_t age_ns = 0;  // by_gossip: of the broadcast, as its sender reckons it
  union {
    std::uint64_t of_bytes = 0;  // all_broadcast: of all pieces of that contribution
    std::uint32_t contributors;  // else: values in the sum
  };
  // reduce_scatter, allgather: where the value begins in all of it, in bytes. all_broadcast: the same
  // of an exchange, else which piece it is.
  std::uint64_t offset = 0;
  std::uint32_t failed_count = 0;  // failures known (schemes list and count)
  std::uint32_t list_length = 0;   // entries of list
  std::uint16_t signature = 0;     // of the operation's arguments: differs where ranks posted different things
  Phase phase = Phase::group;
  std::uint8_t flags = 0;
  // Of contributions: no_memory, if their sender or a rank below it had none for the sum.
  Outcome outcome = Outcome::success;

  bool has(MessageFlags flag) const { return (flags & flag) != 0; }

  // Only for an outcome that has one: `contributors` holds 1 + the rank.
  Rank culprit() const { return static_cast<Rank>(contributors) - 1; }
};

struct Message : MessageHead {
  Slice value;                // its length is the message's: those of one operation may differ
  BufferId list = no_buffer;  // std::uint32_t entries: see contributed_bit. A contribution's: those of_living_host

  // Instead of a value: that this rank has no memory for it.
  void blame(Rank rank) {
    outcome = Outcome::no_memory;
    contributors = static_cast<std::uint32_t>(rank + 1);
    value = {};
    flags = static_cast<std::uint8_t>(flags & ~has_value);
  }
};

// Collects sends. Each holds a reference to its buffers until the driver releases it.
class Outbox {
 public:
  explicit Outbox(Buffers& buffers) : buffers_(buffers) { sends_.reserve(64); }

  void send(Rank to, const Message& message) {
    buffers_.retain(message.value);
    buffers_.retain(message.list);
    sends_.push_back(message);
    sends_.back().peer = to;
  }
  std::span<const Message> sends() const { return sends_; }
  bool empty() const { return sends_.empty(); }
  void clear() { sends_.clear(); }
  Buffers& buffers() { return buffers_; }

 private:
  Buffers& buffers_;
  std::vector<Message> sends_;
};

// A set of peers. Each is awaited until it delivers or is reported failed; of these two events the second changes
// nothing.
class Arrivals {
 public:
  enum class State : std::uint8_t { awaited, delivered, failed };
  struct Peer {
    Rank rank;
    State state;
    Message message;  // owns references while delivered
  };

  void await(std::span<const Rank> ranks, Buffers& buffers) {
    clear(buffers);
    for (Rank rank : ranks) peers_.push_back({rank, State::awaited, {}});
    awaited_ = static_cast<int>(ranks.size());
  }
  // Takes references of its own. False if the sender is not awaited here.
  bool deliver(const Message& message, Buffers& buffers) {
    Peer* peer = find(message.peer);
    if (peer == nullptr || peer->state != State::awaited) return false;
    peer->state = State::delivered;
    peer->message = message;
    buffers.retain(message.value);
    buffers.retain(message.list);
    --awaited_;
    return true;
  }
  bool fail(Rank rank) {
    Peer* peer = find(rank);
    if (peer == nullptr || peer->state != State::awaited) return false;
    peer->state = State::failed;
    --awaited_;
    return true;
  }
  bool settled() const { return awaited_ == 0; }
  const Message* delivered_by(Rank rank) const {  // nullptr: not yet
    for (const Peer& peer : peers_)
      if (peer.rank == rank && peer.state == State::delivered) return &peer.message;
    return nullptr;
  }
  std::span<const Peer> peers() const { return peers_; }
  void clear(Buffers& buffers) {
    for (Peer& peer : peers_) {
      buffers.release(peer.message.value);
      buffers.release(peer.message.list);
    }
    peers_.clear();
    awaited_ = 0;
  }

 private:
  Peer* find(Rank rank) {
    for (Peer& peer : peers_)
      if (peer.rank == rank) return &peer;
    return nullptr;
  }

  std::vector<Peer> peers_;
  int awaited_ = 0;
};

}  // namespace ucft::detail
