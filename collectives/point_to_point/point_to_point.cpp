#include "collectives/point_to_point/point_to_point.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

PointToPoint::PointToPoint(Rank me, Rank ranks, Limits limits)
    : me_(me), limits_(limits), peers_(static_cast<std::size_t>(ranks)) {}

// ---- sending --------------------------------------------------------------------------------------------------------

void PointToPoint::say(Letter letter) {
  letter.credit = static_cast<std::uint32_t>(std::exchange(peer(letter.peer).received, 0));
  letters_.push_back(letter);
}

void PointToPoint::send(Id id, Rank to, std::int32_t tag, std::span<const std::byte> data, bool can_copy) {
  Peer& its = peer(to);
  if (its.is_gone) return end(id, Completion::Outcome::gone, to);
  if (can_copy && is_eager(to, data.size())) return letters_.push_back(send_eager(id, to, tag, data));
  sends_.push_back({id, to, its.sent++, data});
  say({.kind = Letter::Kind::offer, .peer = to, .number = sends_.back().number, .tag = tag, .bytes = data.size()});
}

bool PointToPoint::take_piece(std::uint64_t most, Piece& piece, std::span<const Rank> full) {
  const auto found =
      std::ranges::find_if(accepted_, [&](const Send& each) { return std::ranges::find(full, each.to) == full.end(); });
  if (found == accepted_.end()) return false;
  Send send = *found;
  accepted_.erase(found);
  const std::uint64_t bytes = std::min<std::uint64_t>(most, send.data.size() - send.gone);
  piece = {send.id, {}, send.gone + bytes == send.data.size()};
  piece.letter.kind = Letter::Kind::piece;
  piece.letter.peer = send.to;
  piece.letter.number = send.number;
  piece.letter.offset = send.gone;
  piece.letter.data = send.data.subspan(send.gone, bytes);
  piece.letter.credit = static_cast<std::uint32_t>(std::exchange(peer(send.to).received, 0));
  send.gone += bytes;
  if (!piece.is_last) accepted_.push_back(send);  // others have their turn
  return true;
}

// ---- receiving ------------------------------------------------------------------------------------------------------

void PointToPoint::receive(Id id, Rank from, std::int32_t tag, std::span<std::byte> room) {
  const Receive posted{id, from, tag, room};
  const auto found = std::ranges::find_if(here_, [&](const Message& each) { return fits(posted, each.letter()); });
  if (found != here_.end()) {
    const Message message = std::move(*found);
    here_.erase(found);
    return give(posted, message.letter());
  }
  if (!report_gone(posted)) receives_.push_back(posted);
}

// True: the receive has ended with that.
bool PointToPoint::report_gone(const Receive& receive) {
  if (receive.from != any_source) {
    if (!is_gone(receive.from)) return false;
    end(receive.id, Completion::Outcome::gone, receive.from);
    return true;
  }
  Rank named = no_rank;
  std::size_t gone = 0;
  for (Rank rank = 0; rank < static_cast<Rank>(peers_.size()); ++rank) {
    if (!is_gone(rank)) continue;
    ++gone;
    if (named == no_rank || (peer(named).is_reported && !peer(rank).is_reported)) named = rank;
  }
  const bool are_all_gone = gone + 1 == peers_.size();  // all but this one
  if (named == no_rank || (peer(named).is_reported && !are_all_gone)) return false;
  peer(named).is_reported = true;
  end(receive.id, Completion::Outcome::gone, named);
  return true;
}

void PointToPoint::give(const Receive& receive, const Letter& message) {
  const bool has_room = message.bytes <= receive.room.size();
  if (message.kind == Letter::Kind::offer) {
    if (is_gone(message.peer) && UCFT_SOMETIMES("a receive is for an offer of a rank that is gone"))
      return end_gone(receive.id, message.peer, receive.from == any_source);
    say({.kind = has_room ? Letter::Kind::accept : Letter::Kind::refuse,
         .peer = message.peer,
         .number = message.number});
    if (has_room && message.bytes > 0) {
      incoming_[{message.peer, message.number}] = {receive.id, receive.from == any_source, receive.room, message.bytes,
                                                   0};
      return;
    }
  } else {
    if (has_room && message.bytes > 0) std::memcpy(receive.room.data(), message.data.data(), message.bytes);
    note_received(message.peer, message.bytes);
  }
  end(receive.id, has_room ? Completion::Outcome::success : Completion::Outcome::truncated, message.peer,
      message.bytes);
}

void PointToPoint::note_received(Rank from, std::uint64_t bytes) {
  Peer& its = peer(from);
  its.received += cost_of(bytes);
  if (its.received >= limits_.window_bytes / 4 && !its.is_gone) say({.peer = from});
}

// False: no receive is for it.
bool PointToPoint::match(const Letter& message) {
  const auto found = std::ranges::find_if(receives_, [&](const Receive& each) { return fits(each, message); });
  if (found == receives_.end()) return false;
  const Receive receive = *found;
  receives_.erase(found);
  give(receive, message);
  return true;
}

void PointToPoint::on_letter(const Letter& letter) {
  Peer& its = peer(letter.peer);
  its.outstanding -= std::min<std::uint64_t>(letter.credit, its.outstanding);
  const auto is_about = [&](const Send& each) { return each.to == letter.peer && each.number == letter.number; };
  switch (letter.kind) {
    case Letter::Kind::credit: return;
    case Letter::Kind::accept:
    case Letter::Kind::refuse: {
      const auto found = std::ranges::find_if(sends_, is_about);
      if (found == sends_.end()) return;
      if (letter.kind == Letter::Kind::accept && !found->data.empty())
        accepted_.push_back(*found);
      else
        end(found->id, Completion::Outcome::success, letter.peer, found->data.size());
      sends_.erase(found);
      return;
    }
    case Letter::Kind::piece: {
      const auto found = incoming_.find({letter.peer, letter.number});
      if (found == incoming_.end()) return;
      Incoming& its_data = found->second;
      if (letter.offset > its_data.bytes || letter.data.size() > its_data.bytes - letter.offset) return;
      if (!letter.data.empty())
        std::memcpy(its_data.room.data() + letter.offset, letter.data.data(), letter.data.size());
      its_data.come += letter.data.size();
      if (its_data.come < its_data.bytes) return;
      end(its_data.id, Completion::Outcome::success, letter.peer, its_data.bytes);
      incoming_.erase(found);
      return;
    }
    case Letter::Kind::eager:
    case Letter::Kind::offer: break;
  }
  if (letter.number < its.next) return;
  if (letter.number > its.next) {
    UCFT_SOMETIMES("a message has overtaken another one");
    its.early.emplace(letter.number, letter);
    return;
  }
  ++its.next;
  UCFT_SOMETIMES("a message comes");
  if (!match(letter)) here_.emplace_back(letter);
  for (auto first = its.early.begin(); first != its.early.end() && first->first == its.next;
       first = its.early.begin()) {
    ++its.next;
    Message message = std::move(first->second);
    its.early.erase(first);
    if (!match(message.letter())) here_.push_back(std::move(message));
  }
}

// ---- deaths ---------------------------------------------------------------------------------------------------------

// All has come that it had sent, and that can still come. An offer stays, for the receive that it is for. That one must
// not get the next message.
void PointToPoint::on_gone(Rank rank, bool has_left) {
  if (rank == me_ || std::exchange(peer(rank).is_gone, true)) return;
  peer(rank).is_reported = has_left;
  peer(rank).early.clear();
  const auto fail_send = [&](const Send& each) {
    if (each.to == rank && UCFT_SOMETIMES("a rank goes that a message is offered to"))
      end(each.id, Completion::Outcome::gone, rank);
    return each.to == rank;
  };
  std::erase_if(sends_, fail_send);
  std::erase_if(accepted_, fail_send);
  std::erase_if(incoming_, [&](const auto& each) {
    if (each.first.first == rank && UCFT_SOMETIMES("a rank goes in the middle of a long message"))
      end_gone(each.second.id, rank, each.second.is_from_any);
    return each.first.first == rank;
  });
  std::erase_if(receives_, [&](const Receive& each) {
    return (each.from == rank || each.from == any_source) && report_gone(each);
  });
}

std::vector<Rank> PointToPoint::sources() const {
  std::vector<Rank> ranks;
  for (const Receive& each : receives_)
    if (std::ranges::find(ranks, each.from) == ranks.end()) ranks.push_back(each.from);
  return ranks;
}

}  // namespace ucft::detail
