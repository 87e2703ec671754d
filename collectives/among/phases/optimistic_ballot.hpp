// The optimistic ballot of one operation on one rank, whichever way its data go. Rules: docs/algorithms.md.
//
//   exchange            optimistic.hpp: contributions that are short, or those of a reduce, whole
//   exchange, blocks    circulant.hpp: a long allreduce. The exchange tells the rest of the result, meanwhile
//   exchange, pieces    piece_broadcast.hpp: an allgather of long blocks. The same
//   pieces              piece_broadcast.hpp: a long broadcast
//
// An operation that is long in none of these ways begins with a ballot that has a root. So does one that knows of a
// death. Invariant: after clear() this rank takes and sends nothing of this ballot.
#pragma once

#include <vector>

#include "collectives/among/phases/circulant.hpp"
#include "collectives/among/phases/optimistic.hpp"
#include "collectives/among/phases/piece_broadcast.hpp"

namespace ucft::detail {

class OptimisticBallot {
 public:
  enum class State : std::uint8_t { awaits, has_result, all_have_it };

  // Whether an operation begins with this ballot.
  static bool fits(const Arguments& arguments, const Ballots& ballots);
  static bool has(Phase phase) { return phase == Phase::exchange || has_part(phase); }
  // Of a part of long data, whose length is its own.
  static bool has_part(Phase phase) { return Circulant::has(phase) || phase == Phase::all_broadcast; }

  // mine: this rank's contribution, or of a broadcast the root's data; references stay with the caller. room: for the
  // data of others; made here if there is none. landing: lent for a sum in blocks, or none. lacking: the rank to name
  // if there is no memory. False: this rank can't take part, for the reason that `mine` says then.
  bool start(Message& mine, BufferId& room, BufferId landing, Rank lacking, const Arguments& arguments,
             const Ballots& ballots, Buffers& buffers);
  // Whether a message can be one of this operation. If not, its sender has posted a different one.
  bool accepts(const Message& message, const Arguments& arguments, const Ballots& ballots);
  // False: not awaited.
  bool on_message(const Message& message, const Ballots& ballots, Buffers& buffers);
  // Goes as far as the arrivals allow.
  State advance(const Arguments& arguments, const Ballots& ballots, Outbox& out);
  // True as soon as this rank has all of the result, and may have said so.
  bool is_whole() const { return blocks_.is_whole(); }
  // Its value is the ballot's, until this lets go of it.
  Message result() const;
  // Those whose messages this rank needs next.
  void add_awaited(const Ballots& ballots, std::vector<Rank>& ranks) const;
  // This rank, or the one that has said so, can't take part: tells those that it would have given to.
  void refuse(const Message& why, const Arguments& arguments, const Ballots& ballots, Outbox& out);
  // This rank has its result, and may have to tell the others so.
  void let_go_of_values(Buffers& buffers);
  void clear(Buffers& buffers);

 private:
  bool start_parts(const Message& mine, BufferId& room, BufferId landing, const Arguments& arguments,
                   const Ballots& ballots, Buffers& buffers);

  bool is_exchanging_ = false;
  Optimistic exchange_;
  Circulant blocks_;
  PieceBroadcast pieces_;
};

}  // namespace ucft::detail
