#include "collectives/among/phases/piece_broadcast.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "collectives/catalogue/catalogue.hpp"
#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

bool PieceBroadcast::fits(const Arguments& arguments, const Ballots& ballots) {
  const Optimism& optimism = ballots.surroundings().optimism;
  const std::int32_t size = ballots.members().size();
  if (arguments.row().has_own_lengths()) return optimism.goes_in_pieces(arguments.bytes(), size);
  return arguments.row().from_root() && !arguments.by_gossip() && size > 1 &&
         arguments.bytes() > optimism.piece_bytes && !optimism.goes_whole(arguments.bytes(), size);
}

void PieceBroadcast::plan(const Arguments& arguments, const Ballots& ballots) {
  is_from_all_ = arguments.row().collects;
  root_ = arguments.root;
  const bool goes_to_root = arguments.row().to_root();
  bytes_ = arguments.bytes();
  piece_bytes_ = std::max<std::uint64_t>(ballots.surroundings().optimism.piece_of(bytes_), 1);
  const std::int32_t size = ballots.members().size();
  const std::int32_t first = is_from_all_ ? 0 : ballots.process_of(ballots.me(), arguments.root);
  const bool takes_all = is_from_all_ && (!goes_to_root || root_ == ballots.me());
  const std::int32_t end = takes_all ? size : first + 1;
  const bool is_planned = size_ == size && goes_to_root_ == goes_to_root &&
                          streams_.size() == static_cast<std::size_t>(end - first) &&
                          streams_.front().process() == first;
  size_ = size;
  goes_to_root_ = goes_to_root;
  if (is_planned) return;
  streams_.clear();
  for (std::int32_t process = first; process < end; ++process)
    if (goes_to_root)
      streams_.emplace_back(std::min(process, 1), 2);  // from its member to the root
    else
      streams_.emplace_back(process, size);
}

Rank PieceBroadcast::rank_at(std::size_t index, std::int32_t process, const Ballots& ballots) const {
  if (!goes_to_root_) return ballots.member_after(ballots.me(), process - streams_[index].process());
  return process == 0 ? ballots.member_after(ballots.me(), -static_cast<std::int32_t>(index)) : root_;
}

// Of a message that carries a piece; maybe of none that there is.
PieceBroadcast::Place PieceBroadcast::place_of(const Message& message, const Ballots& ballots) const {
  if (is_from_all_)
    return {static_cast<std::size_t>(ballots.process_of(ballots.me(), message.source)),
            static_cast<std::int64_t>(message.offset), message.of_bytes};
  return {0, static_cast<std::int64_t>(message.offset / piece_bytes_), bytes_};
}

void PieceBroadcast::start(const Message& blank, Slice own, Slice room, const Arguments& arguments,
                           const Ballots& ballots, Buffers& buffers) {
  clear(buffers);
  plan(arguments, ballots);
  data_ = room;
  buffers.retain(data_);
  blank_ = blank;
  is_active_ = true;
  begin(streams_.front(), is_from_all_ ? own.bytes : bytes_);
  moved_.push_back(0);
  if (own && own != room) buffers.copy(streams_.front().data(), own);
  closing_.start(ballots);
}

void PieceBroadcast::begin(PieceStream& stream, std::uint64_t bytes) {
  assert(used_ + bytes <= data_.bytes);
  stream.begin(data_.part(used_, bytes), piece_bytes_);
  used_ += bytes;
  whole_ += stream.is_whole();
}

void PieceBroadcast::refuse(const Message& why, const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  plan(arguments, ballots);
  Message message = why;
  message.phase = Phase::closing;
  for (std::int32_t target : streams_.front().targets()) out.send(ballots.rank_of(target, arguments.root), message);
}

bool PieceBroadcast::accepts(const Message& message, const Arguments& arguments, const Ballots& ballots) {
  plan(arguments, ballots);
  if (message.phase == Phase::closing) {
    if (message.value || message.outcome != Outcome::success) return !message.value && !is_from_all_;
    return message.contributors == (is_from_all_ ? 0 : PieceStream::pieces_in(bytes_, piece_bytes_));
  }
  if (message.phase != (is_from_all_ ? Phase::all_broadcast : Phase::allgather)) return false;
  if (is_from_all_ && !ballots.members().contains(message.source)) return false;
  const auto [index, piece, of_bytes] = place_of(message, ballots);
  if (index >= streams_.size()) return false;  // the root alone takes those of others
  const PieceStream& stream = streams_[index];
  if (is_from_all_ && !Blocks::accepts(arguments, of_bytes)) return false;
  if (is_active_ && (stream.has_begun() ? of_bytes != stream.data().bytes : used_ + of_bytes > data_.bytes))
    return false;
  const std::uint64_t begin = static_cast<std::uint64_t>(piece) * piece_bytes_;
  if (!is_from_all_ && message.offset != begin) return false;
  const std::int32_t from = goes_to_root_ ? (message.peer == message.source ? 0 : 1)
                                          : (ballots.process_of(message.peer, ballots.me()) + stream.process()) % size_;
  return begin < of_bytes && message.value.bytes == std::min(piece_bytes_, of_bytes - begin) &&
         stream.gets(piece, PieceStream::pieces_in(of_bytes, piece_bytes_), from);
}

bool PieceBroadcast::on_message(const Message& message, const Ballots& ballots, Buffers& buffers) {
  if (!is_active_) return false;
  if (message.phase == Phase::closing) return closing_.on_word(message.peer);
  const auto [index, piece, of_bytes] = place_of(message, ballots);
  PieceStream& stream = streams_[index];
  if (!stream.has_begun()) begin(stream, of_bytes);
  UCFT_SOMETIMES("a piece of long data comes");
  if (!stream.take(piece)) return false;
  whole_ += stream.is_whole();
  moved_.push_back(index);
  buffers.copy_part(stream.part(piece), message.value, of_bytes);
  return true;
}

void PieceBroadcast::advance(bool may_close, const Ballots& ballots, Outbox& out) {
  if (!goes_to_root_ || root_ != ballots.me())
    for (const std::size_t index : moved_) give(index, ballots, out);
  moved_.clear();
  if (may_close && is_whole() && !goes_to_root_) close(out);
}

void PieceBroadcast::give(std::size_t index, const Ballots& ballots, Outbox& out) {
  PieceStream& stream = streams_[index];
  Message message = blank_;
  message.flags = has_value;
  for (CirculantSchedule::Transfer next; (next = stream.give()).block != CirculantSchedule::no_block;) {
    message.value = stream.part(next.block);
    if (is_from_all_) {
      message.phase = Phase::all_broadcast;
      message.source = rank_at(index, 0, ballots);
      message.of_bytes = stream.data().bytes;
      message.offset = next.block;
    } else {
      message.phase = Phase::allgather;
      message.offset = message.value.offset - stream.data().offset;
    }
    out.send(rank_at(index, next.peer, ballots), message);
  }
}

void PieceBroadcast::close(Outbox& out) {
  Message word = blank_;
  word.phase = Phase::closing;
  if (!is_from_all_) word.contributors = static_cast<std::uint32_t>(PieceStream::pieces_in(bytes_, piece_bytes_));
  closing_.advance(word, out);
}

void PieceBroadcast::let_go_of_data(Buffers& buffers) { buffers.release(std::exchange(data_, {})); }

void PieceBroadcast::add_awaited(const Ballots& ballots, std::vector<Rank>& ranks) const {
  if (!is_active_) return;
  for (std::size_t index = 0; index < streams_.size(); ++index) {
    const PieceStream& stream = streams_[index];
    if (stream.is_whole()) continue;
    const Rank source = rank_at(index, stream.source(), ballots);
    if (std::ranges::find(ranks, source) == ranks.end()) ranks.push_back(source);
  }
}

void PieceBroadcast::clear(Buffers& buffers) {
  let_go_of_data(buffers);
  for (PieceStream& stream : streams_) stream.end();
  moved_.clear();
  closing_.clear();
  is_active_ = false;
  whole_ = 0;
  used_ = 0;
}

}  // namespace ucft::detail
