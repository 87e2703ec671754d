// An exchange: each member has a stream of bytes for each other one, and sends it straight there, in pieces. Delivered
// are the streams of a set of members, the same set on all survivors (docs/algorithms.md, "Exchange, close or agree").
//
//   all_broadcast   a piece of what its sender has for this rank: its place, and the length of the whole
//   exchange        without a value: its sender gives nothing. It has no memory for its part, or its rank that was to
//                   give has died
//   closing         its sender has the streams of all members, and so have those that it has heard this from: as in
//                   circulant.hpp
//
// Streams are sent in any case, also if some member is known to be dead. The rest is operation.cpp's:
//
//   nobody dies     a rank that has all streams closes. Once it is through, all members have all streams: it delivers
//   somebody dies   all join a ballot with a root. A rank gives the set of members whose streams it has, as soon as
//                   these are all that live. The sum of sets are those members that are in each
//
// Why all survivors have what is decided: a live member's stream comes to each of them, and each waits for it. A dead
// one is in the set only if each rank whose set was counted has its stream, and the root counts all that live. A rank
// that got through the closing has delivered the set of all members. Then each rank had all streams before it closed,
// so each set that is given has all members.
//
// Invariants: a rank that has given a set takes in further streams, but the set stays. A stream lies in the room as a
// whole, from where its first piece has put it.
//
// An empty stream is a piece without a value. Lengths may be known to their senders alone. Then the room may be too
// short, and grows.
//
// One member may be the only giver. The streams of the others are empty, and there from the start, so they send none.
// Then all turns on one bit of the set, the giver's. The decision is its streams for all, or root_failed for all.
//
// Two members wait for no closing. If one of them dies, no other survivor has to agree with the one that is left. A
// word goes all the same if one of their streams is longer than a piece. It says that the data may be forgotten.
#pragma once

#include <span>
#include <vector>

#include "collectives/among/phases/closing.hpp"
#include "collectives/core/ballots.hpp"

namespace ucft::detail {

class PersonalExchange {
 public:
  // A part of this rank's input, for that member. A stream is the shares of one member in their order.
  struct Share {
    Rank to;
    std::uint64_t offset, bytes;
  };
  struct Room {
    BufferId block = no_buffer;
    bool grows = false;  // it may be too short for what comes
  };
  struct Stream {
    std::uint64_t begin = 0, bytes = 0;  // in data()
    std::uint64_t come = 0;              // of these bytes
    bool has_begun = false, is_whole = false;
    Outcome outcome = Outcome::success;  // else nothing is given: why, and
    Rank lacking = no_rank;              // of no_memory: the rank that has none
  };
  // One that gives nothing.
  static constexpr Stream without(Outcome why, Rank lacking = no_rank) {
    return {.is_whole = true, .outcome = why, .lacking = lacking};
  }

  // blank: what all messages have. room: for the streams of all, and what this rank gives to itself. References stay
  // with the caller. Sends the shares. giver: the only one; no_rank: all give. mine: has an outcome if this rank gives
  // nothing, without() or {}.
  void start(const Message& blank, Slice input, std::span<const Share> shares, Room room, Rank giver,
             const Stream& mine, const Ballots& ballots, Outbox& out);
  // Whether a message of this operation, from that sender, can be one of an exchange with this room. If not, the sender
  // gives something else than this rank expects.
  bool accepts(const Message& message) const;
  void on_message(const Message& message, Buffers& buffers);
  // This rank has the stream of each member that lives.
  bool has_all_that_live(const Ballots& ballots) const;
  // Goes as far as the arrivals allow. True: all members have all streams; or there are two, and this rank has.
  bool close(const Ballots& ballots, Outbox& out);

  // All members have all streams, as far as this rank knows: none needs anything of it any more.
  bool all_have_data() const { return !streams_.empty() && closing_.is_through(); }

  // Whether this rank has the stream of that one, whole.
  bool has(Rank rank) const { return stream(rank).is_whole && stream(rank).outcome == Outcome::success; }
  // The members whose streams this rank has, a bit each, in `words` words. One that gives nothing has none.
  std::vector<std::uint64_t> set(std::uint64_t words) const;
  // The stream of that rank.
  const Stream& stream(Rank rank) const { return streams_[static_cast<std::size_t>(rank)]; }
  Slice data() const;  // the whole room, with the streams in it
  // Delivered, and taken.
  void let_go_of_data(Buffers& buffers);
  // The one named by the lowest member that has no memory for its part; no_rank: there is none.
  Rank first_lacking() const;
  void add_awaited(const Ballots& ballots, std::vector<Rank>& ranks) const;
  void clear(Buffers& buffers);

 private:
  Stream& stream_of(Rank rank) { return streams_[static_cast<std::size_t>(rank)]; }
  void begin(Stream& stream, std::uint64_t bytes, Buffers& buffers);
  void grow(std::uint64_t bytes, Buffers& buffers);
  void take(Stream& stream, std::uint64_t at, Slice piece, Buffers& buffers);
  void give(Rank to, Slice input, std::span<const Share> shares, const Ballots& ballots, Outbox& out);

  Message blank_;
  Slice room_;  // a reference; none: this rank has no memory for it
  bool room_grows_ = false;
  std::uint64_t used_ = 0;
  std::uint64_t longest_ = 0;    // of the streams of a pair
  std::vector<Stream> streams_;  // by rank
  std::int32_t whole_ = 0;       // of these, all of members
  Closing closing_;
};

}  // namespace ucft::detail
