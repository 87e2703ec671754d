// Sends and receives of one rank in a communicator: which message a receive gets, and what becomes of both when the
// other rank dies. A value without I/O; point_to_point_driver.hpp moves the bytes.
//
//   eager    a short message, with its data. It is complete for its sender once these have left
//   offer    a longer one, or one for which the receiver may have no room: its length. The data stay with the sender
//   accept   the receiver has a receive for an offer: the data may come, as pieces. Or it wants none
//   piece    a part of these data
//   credit   so many bytes of eager messages have been received. Each other word has this number, too
//
// Order. Eager messages and offers from one rank to another are numbered, and matched in that order: of two messages
// that a receive could get it gets the one that was sent first, and of two receives that a message could end it ends
// the one that was posted first. Between messages of different ranks the order of arrival counts.
//
// Memory. A rank has at most `window_bytes` of eager messages of each other rank that nobody has received yet. Those
// that go beyond stay with their sender, as offers.
//
// Deaths. A rank is gone when it has failed, or has left. Messages that it had sent before, and that are here, are
// received. Then:
//   a send to it, or a receive from it, that is not complete ends with `gone`, and so does each later one;
//   a receive from any rank that gets nothing ends with `gone` once for each rank that is newly gone, and always if
//   all other ranks are (ULFM: MPI_ERR_PROC_FAILED_PENDING).
//
// Invariants:
// - A posted receive that waits could get none of the messages that are here.
// - Bytes that a sender counts as outstanding are eager messages on their way, or here, or credit on its way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "collectives/core/protocol.hpp"

namespace ucft::detail {

inline constexpr Rank any_source = -1;

struct Letter {
  enum class Kind : std::uint8_t { eager, offer, accept, refuse, piece, credit };
  Kind kind = Kind::credit;
  Rank peer = no_rank;       // to whom it goes, or from whom it comes
  std::uint64_t number = 0;  // of the message that it is about, from its sender to its receiver
  std::int32_t tag = 0;
  std::uint32_t credit = 0;              // bytes
  std::uint64_t offset = 0;              // piece
  std::uint64_t bytes = 0;               // eager, offer: of the whole message
  std::span<const std::byte> data = {};  // eager, piece. Of a letter that goes: of the caller's
  void* id = nullptr;                    // eager, that goes: of the send, which is complete once the letter has left
};

class PointToPoint {
 public:
  struct Limits {
    std::uint64_t eager_bytes = 16 * 1024, window_bytes = 256 * 1024;
  };
  // id: the driver's, of what was posted.
  using Id = void*;
  struct Completion {
    enum class Outcome : std::uint8_t { success, gone, truncated };
    Id id = nullptr;
    Outcome outcome = Outcome::success;
    Rank peer = no_rank;  // of a receive: whose message it is; gone: the rank that is
    std::uint64_t bytes = 0;
  };
  // A piece that may go now.
  struct Piece {
    Id id;
    Letter letter;
    bool is_last;
  };

  PointToPoint(Rank me, Rank ranks, Limits limits);
  PointToPoint(Rank me, Rank ranks) : PointToPoint(me, ranks, Limits{}) {}

  // Whether it would be sent as an eager message.
  bool is_eager(Rank to, std::uint64_t bytes) const {
    const Peer& its = peers_[static_cast<std::size_t>(to)];
    return bytes <= limits_.eager_bytes && its.outstanding + cost_of(bytes) <= limits_.window_bytes && !its.is_gone;
  }
  // data: until it is complete. can_copy: false: it is an offer.
  void send(Id id, Rank to, std::int32_t tag, std::span<const std::byte> data, bool can_copy = true);
  // The same of one that is_eager(): its letter, which is not among letters().
  Letter send_eager(Id id, Rank to, std::int32_t tag, std::span<const std::byte> data) {
    Peer& its = peer(to);
    its.outstanding += cost_of(data.size());
    return {.kind = Letter::Kind::eager,
            .peer = to,
            .number = its.sent++,
            .tag = tag,
            .credit = static_cast<std::uint32_t>(std::exchange(its.received, 0)),
            .bytes = data.size(),
            .data = data,
            .id = id};
  }
  // from: a rank, or any_source. room: until it is complete.
  void receive(Id id, Rank from, std::int32_t tag, std::span<std::byte> room);
  // A receive that no message is for yet is forgotten. False: it is none.
  bool cancel(Id id) {
    return std::erase_if(receives_, [&](const Receive& each) { return each.id == id; }) > 0;
  }
  void on_letter(const Letter& letter);
  // has_left: in order. A receive from any rank does not end because of that, unless all other ranks are gone.
  void on_gone(Rank rank, bool has_left = false);

  // The next piece of an accepted message, at most so long, but to none of the ranks in `full`. False: there is none.
  // The send is complete once all its pieces have left.
  bool take_piece(std::uint64_t most, Piece& piece, std::span<const Rank> full = {});
  bool has_pieces() const { return !accepted_.empty(); }

  std::vector<Letter>& letters() { return letters_; }              // to be sent, in this order
  std::vector<Completion>& completions() { return completions_; }  // to be told, in this order
  bool is_idle() const { return sends_.empty() && accepted_.empty() && receives_.empty() && incoming_.empty(); }
  std::vector<Rank> sources() const;  // of the receives that wait for a message; any_source: of any
  bool is_gone(Rank rank) const { return peers_[static_cast<std::size_t>(rank)].is_gone; }

 private:
  struct Send {  // an offer
    Id id;
    Rank to;
    std::uint64_t number;
    std::span<const std::byte> data;
    std::uint64_t gone = 0;  // bytes that have been taken
  };
  struct Receive {
    Id id;
    Rank from;
    std::int32_t tag;
    std::span<std::byte> room;
  };
  class Message {  // an eager message or an offer that nobody has received yet
   public:
    explicit Message(const Letter& letter) : letter_(letter), data_(letter.data.begin(), letter.data.end()) {
      letter_.data = data_;
    }
    Message(Message&&) = default;  // the data stay where they are
    Message& operator=(Message&&) = default;
    const Letter& letter() const { return letter_; }

   private:
    Letter letter_;
    std::vector<std::byte> data_;
  };
  struct Incoming {  // accepted
    Id id;
    bool is_from_any;
    std::span<std::byte> room;
    std::uint64_t bytes, come;
  };
  struct Peer {
    bool is_gone = false, is_reported = false;
    std::uint64_t sent = 0;         // numbers given to messages for it
    std::uint64_t outstanding = 0;  // bytes of eager messages that it may not have received
    std::uint64_t next = 0;         // number of the message of it that is matched next
    std::uint64_t received = 0;     // bytes of its eager messages, of which it has not been told
    std::map<std::uint64_t, Message> early;
  };

  Peer& peer(Rank rank) { return peers_[static_cast<std::size_t>(rank)]; }
  static bool fits(const Receive& receive, const Letter& message) {
    return receive.tag == message.tag && (receive.from == any_source || receive.from == message.peer);
  }
  // Of an eager message, in the window: an empty one takes memory, too.
  static constexpr std::uint64_t cost_of(std::uint64_t bytes) { return bytes + 64; }
  void say(Letter letter);
  bool match(const Letter& message);
  void give(const Receive& receive, const Letter& message);
  void end_gone(Id id, Rank rank, bool is_from_any) {
    if (is_from_any) peer(rank).is_reported = true;
    end(id, Completion::Outcome::gone, rank);
  }
  void end(Id id, Completion::Outcome outcome, Rank peer, std::uint64_t bytes = 0) {
    completions_.push_back({id, outcome, peer, bytes});
  }
  void note_received(Rank from, std::uint64_t bytes);
  bool report_gone(const Receive& receive);

  Rank me_;
  Limits limits_;
  std::vector<Peer> peers_;
  std::vector<Send> sends_;    // offers that wait to be accepted
  std::deque<Send> accepted_;  // whose pieces go, in this order
  std::deque<Receive> receives_;
  std::deque<Message> here_;
  std::map<std::pair<Rank, std::uint64_t>, Incoming> incoming_;
  std::vector<Letter> letters_;
  std::vector<Completion> completions_;
};

}  // namespace ucft::detail
