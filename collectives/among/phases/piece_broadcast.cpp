#include "collectives/among/phases/piece_broadcast.hpp"

#include <algorithm>
#include <utility>

namespace ucft::detail {

bool PieceBroadcast::fits(const Arguments& arguments, const Ballots& ballots) {
  const Optimism& optimism = ballots.surroundings().optimism;
  const std::int32_t size = ballots.members().size();
  return !arguments.row().collects && !arguments.by_gossip() && size > 1 && arguments.bytes() > optimism.piece_bytes &&
         !optimism.goes_whole(arguments.bytes(), size);
}

// ---- which member gives which piece ---------------------------------------------------------------------------------

void PieceBroadcast::plan(const Arguments& arguments, const Ballots& ballots) {
  bytes_ = arguments.bytes();
  piece_bytes_ = std::max<std::uint64_t>(ballots.surroundings().optimism.piece_of(bytes_), 1);
  pieces_ = static_cast<std::int64_t>((bytes_ + piece_bytes_ - 1) / piece_bytes_);
  root_ = arguments.root;
  const std::int32_t size = ballots.members().size(), process = ballots.process_of(ballots.me(), root_);
  if (std::exchange(size_, size) == size && std::exchange(process_, process) == process) return;
  process_ = process;
  schedule_ = CirculantSchedule(process, size);
}

std::uint64_t PieceBroadcast::bytes_of(std::int64_t piece) const {
  return std::min(piece_bytes_, bytes_ - begin_of(piece));
}

// The piece that it is, if it is one of this operation's and its sender gives it to this rank; else no_block.
std::int64_t PieceBroadcast::piece_from(const Message& message, const Ballots& ballots) const {
  const auto piece = static_cast<std::int64_t>(message.offset / piece_bytes_);
  if (process_ == 0 || piece >= pieces_ || message.offset != begin_of(piece) || message.value.bytes != bytes_of(piece))
    return CirculantSchedule::no_block;
  const std::int32_t from = ballots.process_of(message.peer, root_);
  // It comes in its own phase, or one of those before and after.
  const std::int64_t q = schedule_.phase(), last = schedule_.rounds(pieces_) - 1;
  for (std::int64_t round = std::max<std::int64_t>(piece - q, 0); round <= std::min(piece + 2 * q, last); ++round)
    if (const auto [peer, block] = schedule_.gotten(round, pieces_); block == piece)
      return peer == from ? piece : CirculantSchedule::no_block;
  return CirculantSchedule::no_block;
}

// ---- as an event-driven machine -------------------------------------------------------------------------------------

void PieceBroadcast::start(const Message& blank, Slice data, const Arguments& arguments, const Ballots& ballots,
                           Buffers& buffers) {
  clear(buffers);
  plan(arguments, ballots);
  data_ = data;
  buffers.retain(data_);
  blank_ = blank;
  is_active_ = true;
  is_here_.assign(static_cast<std::size_t>(pieces_), process_ == 0);
  left_ = process_ == 0 ? 0 : pieces_;
  while (left_ > 0 && !is_missing_in(expects_)) ++expects_;
  for (std::int32_t distance = 1; distance < size_; distance *= 2)
    closings_.push_back(
        {ballots.member_after(ballots.me(), distance), ballots.member_after(ballots.me(), -distance), false});
}

void PieceBroadcast::refuse(const Message& why, const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  plan(arguments, ballots);
  Message message = why;
  message.phase = Phase::closing;
  for (std::int32_t target : schedule_.targets()) out.send(ballots.rank_of(target, root_), message);
}

bool PieceBroadcast::accepts(const Message& message, const Arguments& arguments, const Ballots& ballots) {
  plan(arguments, ballots);
  if (message.phase == Phase::allgather) return piece_from(message, ballots) != CirculantSchedule::no_block;
  if (message.phase != Phase::closing || message.value) return false;
  return message.outcome != Outcome::success || message.contributors == static_cast<std::uint32_t>(pieces_);
}

bool PieceBroadcast::on_message(const Message& message, Buffers& buffers) {
  if (!is_active_) return false;
  if (message.phase == Phase::closing) {
    const auto found = std::ranges::find(closings_, message.peer, &Closing::source);
    if (found == closings_.end() || found->has_come) return false;
    found->has_come = true;
    return true;
  }
  const auto piece = static_cast<std::size_t>(message.offset / piece_bytes_);
  if (is_here_[piece]) return false;
  is_here_[piece] = true;
  --left_;
  while (left_ > 0 && !is_missing_in(expects_)) ++expects_;
  buffers.copy_part(data_.part(message.offset, message.value.bytes), message.value, bytes_);
  return true;
}

void PieceBroadcast::advance(const Ballots& ballots, Outbox& out) {
  give_pieces(ballots, out);
  if (is_whole()) close(out);
}

void PieceBroadcast::give_pieces(const Ballots& ballots, Outbox& out) {
  for (; round_ < schedule_.rounds(pieces_); ++round_) {
    const auto [target, piece] = schedule_.given(round_, pieces_);
    if (piece == CirculantSchedule::no_block) continue;
    if (!is_here_[static_cast<std::size_t>(piece)]) return;
    Message message = blank_;
    message.phase = Phase::allgather;
    message.flags = has_value;
    message.offset = static_cast<std::uint32_t>(begin_of(piece));
    message.value = data_.part(begin_of(piece), bytes_of(piece));
    out.send(ballots.rank_of(target, root_), message);
  }
}

void PieceBroadcast::close(Outbox& out) {
  for (; closed_ < closings_.size(); ++closed_, has_closed_ = false) {
    if (!std::exchange(has_closed_, true)) {
      Message message = blank_;
      message.phase = Phase::closing;
      message.contributors = static_cast<std::uint32_t>(pieces_);
      out.send(closings_[closed_].target, message);
    }
    if (!closings_[closed_].has_come) return;
  }
}

bool PieceBroadcast::is_through() const { return is_whole() && closed_ == closings_.size(); }

void PieceBroadcast::let_go_of_data(Buffers& buffers) { buffers.release(std::exchange(data_, {})); }

Rank PieceBroadcast::awaited(const Ballots& ballots) const {
  if (!is_active_ || left_ == 0) return no_rank;
  return ballots.rank_of(schedule_.gotten(expects_, pieces_).peer, root_);
}

bool PieceBroadcast::is_missing_in(std::int64_t round) const {
  const std::int64_t piece = schedule_.gotten(round, pieces_).block;
  return piece != CirculantSchedule::no_block && !is_here_[static_cast<std::size_t>(piece)];
}

void PieceBroadcast::clear(Buffers& buffers) {
  let_go_of_data(buffers);
  is_here_.clear();
  closings_.clear();
  is_active_ = has_closed_ = false;
  round_ = expects_ = left_ = 0;
  closed_ = 0;
}

}  // namespace ucft::detail
