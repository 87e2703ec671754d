// The optimistic ballot of long data that go from one member to all, in pieces (piece_stream.hpp). Each member passes a
// piece on while the next one comes. There are three such operations:
//
//   broadcast   the root's data. All members have them about when the root has sent them once
//   allgather   the contributions of all members, each from its member, at the same time. A member needs room for the
//               result, and no other. Optimistic tells the rest of the result, meanwhile
//   gather      the same, but each member's pieces go straight to the root, which alone has room for them
//
//   allgather      a piece of a broadcast, and its place in the data. Each member gets each piece once
//   all_broadcast  a piece of an allgather or gather: which member's, the length of all that this member gives, and its
//                  place. A host's length is not known to others before, since ranks may be missing there
//   closing        its sender has all, and so have those that it has heard this from: when a member has one from each
//                  process - s, s = 1, 2, 4 .., all members have the data. Of a broadcast it says how many pieces there
//                  are. A gather has none
//   closing, without success
//                  of a broadcast: its sender can't take part: it has no memory, or as the root no data
//
// A member that has all has the decision, and delivers it at once. It has sent all its pieces then. closing comes after
// that: no rank waits for it. It says when no rank needs the data from here any more.
//
// At the news of a member's death every rank that retains the operation leaves this ballot for one with a root, in
// which data go whole (operation.cpp). So it does when a member can't take part in a broadcast. Invariants:
//   - A member gives the same data in any ballot. So two ranks can't deliver different data of one member.
//   - Contributions lie in the result in the order in which their first pieces have come: it is a set.
//   - closing begins when this rank has all of the result. So a rank that is through knows that all members have
//     delivered.
#pragma once

#include <vector>

#include "collectives/among/phases/closing.hpp"
#include "collectives/among/phases/piece_stream.hpp"
#include "collectives/catalogue/arguments.hpp"
#include "collectives/core/ballots.hpp"

namespace ucft::detail {

class PieceBroadcast {
 public:
  // Whether it is meant for so much data, among so many members.
  static bool fits(const Arguments& arguments, const Ballots& ballots);

  // blank: what all messages have; own: this rank's data, if it gives any; room: for the result, or the root's data
  // themselves. Takes a reference of its own to room.
  void start(const Message& blank, Slice own, Slice room, const Arguments& arguments, const Ballots& ballots,
             Buffers& buffers);
  // Instead: this rank can't take part, for that reason. Tells those that it would have given to.
  void refuse(const Message& why, const Arguments& arguments, const Ballots& ballots, Outbox& out);
  // Whether a message of this ballot, from that sender, belongs to this operation. If not, the sender has posted a
  // different one.
  bool accepts(const Message& message, const Arguments& arguments, const Ballots& ballots);
  // False: not awaited.
  bool on_message(const Message& message, const Ballots& ballots, Buffers& buffers);
  // Goes as far as the arrivals allow. may_close: this rank lacks nothing else of the result.
  void advance(bool may_close, const Ballots& ballots, Outbox& out);

  bool is_active() const { return is_active_; }
  // This rank has all data, and has sent all that it gives.
  bool is_whole() const { return is_active_ && whole_ == streams_.size(); }
  // All members have.
  bool is_through() const { return is_whole() && closing_.is_through(); }
  Slice data() const { return data_.part(0, used_); }
  // Delivered: only closing is left.
  void let_go_of_data(Buffers& buffers);
  // The ranks whose pieces the next rounds need. Of a member of which none has come it is that member.
  void add_awaited(const Ballots& ballots, std::vector<Rank>& ranks) const;
  void clear(Buffers& buffers);

 private:
  struct Place {
    std::size_t stream;
    std::int64_t piece;
    std::uint64_t of_bytes;
  };

  void plan(const Arguments& arguments, const Ballots& ballots);
  // The rank that is that process of a stream.
  Rank rank_at(std::size_t index, std::int32_t process, const Ballots& ballots) const;
  Place place_of(const Message& message, const Ballots& ballots) const;
  void begin(PieceStream& stream, std::uint64_t bytes);
  void give(std::size_t index, const Ballots& ballots, Outbox& out);
  void close(Outbox& out);

  // Of an allgather that of the member i places before this one is the i-th: there this rank is process i. Of a gather
  // there are two processes: that member, and the root.
  std::vector<PieceStream> streams_;
  std::vector<std::size_t> moved_;  // those that may give more since advance()
  std::int32_t size_ = 0;
  bool is_from_all_ = false, goes_to_root_ = false;
  Rank root_ = no_rank;
  std::uint64_t bytes_ = 0, piece_bytes_ = 1;  // bytes_: of a broadcast
  bool is_active_ = false;
  std::size_t whole_ = 0;  // streams
  Closing closing_;
  Message blank_;
  Slice data_;              // a reference
  std::uint64_t used_ = 0;  // bytes of it
};

}  // namespace ucft::detail
