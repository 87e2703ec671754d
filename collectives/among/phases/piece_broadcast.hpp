// The optimistic ballot of a broadcast of long data: the root's data go in pieces, in the rounds of
// topology/circulant_schedule.hpp. Each member passes a piece on while the next one comes. All members have the data
// about when the root has sent them once. With two members the pieces go straight from one to the other, in a row.
//
//   allgather   a piece of the data, and its place in them. Each member gets each piece once
//   closing     its sender has all, and so have those that it has heard this from: when a member has one from each
//               process - s, s = 1, 2, 4 .., all members have the data. Says how many pieces there are
//   closing, without success
//               its sender can't take part: it has no memory, or as the root no data
//
// A member that has all pieces has the decision, and delivers it at once. It has sent all its pieces then. closing
// comes after that: no rank waits for it. It says when no rank needs the data from here any more.
//
// At the news of a member's death every rank that retains the operation leaves this ballot for one with a root, in
// which data go whole (operation.cpp). So it does when a member can't take part. Invariants:
//   - The data are the root's, in any ballot, so two ranks can't deliver different data.
//   - closing begins when this rank has all pieces. So a rank that is through knows that all members have delivered.
//   - A member gives its pieces in the order of rounds: the schedule is what keeps all of them busy.
#pragma once

#include <vector>

#include "collectives/catalogue/arguments.hpp"
#include "collectives/core/ballots.hpp"
#include "collectives/topology/circulant_schedule.hpp"

namespace ucft::detail {

class PieceBroadcast {
 public:
  // Whether it is meant for so much data, among so many members.
  static bool fits(const Arguments& arguments, const Ballots& ballots);

  // blank: what all messages have; data: the root's, or room for them. Takes a reference of its own.
  void start(const Message& blank, Slice data, const Arguments& arguments, const Ballots& ballots, Buffers& buffers);
  // Instead: this rank can't take part, for that reason. Tells those that it would have given to.
  void refuse(const Message& why, const Arguments& arguments, const Ballots& ballots, Outbox& out);
  // Whether a message of this ballot, from that sender, belongs to this operation. If not, the sender has posted a
  // different one.
  bool accepts(const Message& message, const Arguments& arguments, const Ballots& ballots);
  // False: not awaited.
  bool on_message(const Message& message, Buffers& buffers);
  // Goes as far as the arrivals allow.
  void advance(const Ballots& ballots, Outbox& out);

  bool is_active() const { return is_active_; }
  // This rank has all data, and has sent all that it gives.
  bool is_whole() const { return is_active_ && left_ == 0; }
  // All members have.
  bool is_through() const;
  Slice data() const { return data_; }
  // Delivered: only closing is left.
  void let_go_of_data(Buffers& buffers);
  // The rank whose piece the next round needs; no_rank: none.
  Rank awaited(const Ballots& ballots) const;
  void clear(Buffers& buffers);

 private:
  struct Closing {
    Rank target, source;
    bool has_come;
  };

  void plan(const Arguments& arguments, const Ballots& ballots);
  std::uint64_t begin_of(std::int64_t piece) const { return static_cast<std::uint64_t>(piece) * piece_bytes_; }
  std::uint64_t bytes_of(std::int64_t piece) const;
  std::int64_t piece_from(const Message& message, const Ballots& ballots) const;
  bool is_missing_in(std::int64_t round) const;
  void give_pieces(const Ballots& ballots, Outbox& out);
  void close(Outbox& out);

  CirculantSchedule schedule_;  // of this member, among size_ from root_ on
  std::int32_t process_ = -1, size_ = 0;
  Rank root_ = no_rank;
  std::uint64_t bytes_ = 0, piece_bytes_ = 1;
  std::int64_t pieces_ = 0;
  bool is_active_ = false;
  std::int64_t round_ = 0;     // the next one to give in
  std::int64_t expects_ = 0;   // the next one whose piece has not come
  std::int64_t left_ = 0;      // pieces to come
  std::vector<bool> is_here_;  // of each piece
  std::vector<Closing> closings_;
  std::size_t closed_ = 0;   // steps of closing that are over
  bool has_closed_ = false;  // given in the next one
  Message blank_;
  Slice data_;  // a reference
};

}  // namespace ucft::detail
