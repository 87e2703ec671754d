#include "ucx_layer/runtime/point_to_point_driver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/core/sometimes.hpp"
#include "ucx_layer/runtime/communicator.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

PointToPointDriver::PointToPointDriver(Communicator& communicator)
    : communicator_(communicator), value_(communicator.rank(), communicator.size()) {}

PointToPointDriver::~PointToPointDriver() {
  Buffers& buffers = communicator_.context().transport().buffers();
  for (const Leaving& each : leaving_) buffers.release(each.block);
}

void PointToPointDriver::post(PointToPointCall& call) {
  call.is_complete = false;
  if (call.is_send) {
    const bool is_eager = value_.is_eager(call.peer, call.bytes);
    if (is_eager && call.bytes <= Buffers::private_limit && call.peer != communicator_.rank()) {
      send(value_.send_eager(&call, call.peer, call.tag, {call.memory, call.bytes}));
      communicator_.context().transport().ring_doorbells();
      return note_pending(call);
    }
    bool can_copy = true;
    if (is_eager && call.bytes > Buffers::private_limit) {
      next_block_ = communicator_.context().transport().buffers().copy_in(call.memory, call.bytes);
      can_copy = next_block_ != no_buffer;
    }
    value_.send(&call, call.peer, call.tag, {call.memory, call.bytes}, can_copy);
  } else {
    value_.receive(&call, call.peer, call.tag, {call.memory, call.bytes});
  }
  flush();
  note_pending(call);
}

void PointToPointDriver::note_pending(PointToPointCall& call) {
  if (call.is_complete) return;
  pending_.push_back(&call);
  communicator_.context().communicators().note_pending(1);
}

bool PointToPointDriver::cancel(PointToPointCall& call) {
  if (!value_.cancel(&call)) return false;
  end(call, UCFT_INPROGRESS, no_rank, 0);
  return true;
}

void PointToPointDriver::on_message(const WireHeader& header, const Message& message) {
  Letter letter = parse_letter(header);
  const Buffers& buffers = communicator_.context().transport().buffers();
  if (message.value) letter.data = {buffers.data(message.value), message.value.bytes};
  if (letter.kind == Letter::Kind::eager && letter.data.size() != letter.bytes)
    return communicator_.context().communicators().note_stale();
  value_.on_letter(letter);
  flush();
}

void PointToPointDriver::on_gone(Rank rank, bool has_left) {
  value_.on_gone(rank, has_left);
  flush();
}

bool PointToPointDriver::on_turn() {
  if (leaving_.empty() && !value_.has_pieces()) return false;
  const bool has_left = note_left();
  flush();
  return has_left;
}

void PointToPointDriver::hand_over(const Letter& letter, Slice value) {
  communicator_.note_letter_to(letter.peer);
  communicator_.context().transport().send(
      communicator_.context_rank(letter.peer), letter, value,
      {communicator_.context().cookie(), communicator_.id(), 0, communicator_.rank()});
}

void PointToPointDriver::send(const Letter& letter) {
  Buffers& buffers = communicator_.context().transport().buffers();
  const BufferId longer = std::exchange(next_block_, no_buffer);
  if (letter.peer == communicator_.rank()) {
    value_.on_letter(letter);
    buffers.release(longer);
    if (letter.id != nullptr) end(*static_cast<PointToPointCall*>(letter.id), UCFT_OK, letter.peer, letter.bytes);
    return;
  }
  if (letter.kind != Letter::Kind::eager) return hand_over(letter, {});
  const BufferId block = longer != no_buffer   ? longer
                         : letter.data.empty() ? buffers.allocate(1)  // so that it can be seen to leave
                                               : buffers.copy_in(letter.data.data(), letter.data.size());
  hand_over(letter, {block, 0, letter.bytes});
  auto* const call = static_cast<PointToPointCall*>(letter.id);
  if (buffers.references(block) > 1 && UCFT_SOMETIMES("a short message has not left when its send returns"))
    return leaving_.push_back({block, letter.peer, call, true});
  buffers.release(block);
  end(*call, UCFT_OK, letter.peer, letter.bytes);
}

// True if something has left. So has anything for a rank that is gone: nobody knows whether that rank got it. The last
// part of a call waits for the others, which may leave later.
bool PointToPointDriver::note_left() {
  Buffers& buffers = communicator_.context().transport().buffers();
  const std::size_t before = leaving_.size();
  const auto is_free = [&](const Leaving& each) { return buffers.references(each.block) == 1; };
  std::erase_if(leaving_, [&](const Leaving& each) {
    if (each.is_last || !is_free(each)) return false;
    buffers.release(each.block);
    return true;
  });
  const auto has_others = [&](const Leaving& last) {
    return std::ranges::any_of(leaving_, [&](const Leaving& each) { return !each.is_last && each.call == last.call; });
  };
  for (std::size_t i = 0; i < leaving_.size();) {
    const Leaving each = leaving_[i];
    if (!each.is_last || !is_free(each) || has_others(each)) {
      ++i;
      continue;
    }
    leaving_.erase(leaving_.begin() + static_cast<std::ptrdiff_t>(i));
    buffers.release(each.block);
    if (each.call != nullptr) end(*each.call, UCFT_OK, each.to, each.call->bytes);
  }
  return leaving_.size() != before;
}

// A rank that takes none stops none of those to others.
void PointToPointDriver::send_pieces() {
  Buffers& buffers = communicator_.context().transport().buffers();
  std::vector<Rank> full;
  for (const Leaving& each : leaving_)
    if (std::ranges::count(leaving_, each.to, &Leaving::to) >= pieces_in_flight &&
        std::ranges::find(full, each.to) == full.end())
      full.push_back(each.to);
  while (value_.has_pieces()) {
    const BufferId longer = buffers.allocate(piece_bytes);
    PointToPoint::Piece piece;
    if (!value_.take_piece(longer != no_buffer ? piece_bytes : Buffers::private_limit, piece, full))
      return buffers.release(longer);
    const Letter& letter = piece.letter;
    const BufferId block = longer != no_buffer ? longer : buffers.allocate(letter.data.size());
    std::memcpy(buffers.data(block), letter.data.data(), letter.data.size());
    auto* const call = static_cast<PointToPointCall*>(piece.id);
    if (letter.peer == communicator_.rank()) {
      value_.on_letter(letter);
      buffers.release(block);
      if (piece.is_last) end(*call, UCFT_OK, letter.peer, call->bytes);
      continue;
    }
    hand_over(letter, {block, 0, letter.data.size()});
    leaving_.push_back({block, letter.peer, call, piece.is_last});
    if (std::ranges::count(leaving_, letter.peer, &Leaving::to) >= pieces_in_flight) full.push_back(letter.peer);
  }
}

// Letters to this rank itself make others.
void PointToPointDriver::flush() {
  if (value_.letters().empty() && !value_.has_pieces() && leaving_.empty()) return complete();
  const auto send_letters = [&] {
    for (std::size_t i = 0; i < value_.letters().size(); ++i) send(Letter(value_.letters()[i]));
    value_.letters().clear();
  };
  send_letters();
  if (!leaving_.empty()) note_left();
  if (value_.has_pieces()) {
    send_pieces();
    send_letters();
  }
  communicator_.context().transport().ring_doorbells();
  complete();
}

void PointToPointDriver::complete() {
  using Outcome = PointToPoint::Completion::Outcome;
  for (const PointToPoint::Completion& each : value_.completions())
    end(*static_cast<PointToPointCall*>(each.id),
        each.outcome == Outcome::success ? UCFT_OK
        : each.outcome == Outcome::gone  ? UCFT_ERR_PEER_FAILED
                                         : UCFT_ERR_TRUNCATED,
        each.peer, each.bytes);
  value_.completions().clear();
}

void PointToPointDriver::end(PointToPointCall& call, ucft_status_t status, Rank other, std::uint64_t received) {
  call.status = status;
  call.other = other;
  call.received = received;
  call.is_complete = true;
  if (call.request != nullptr) {
    call.request->status = status;
    call.request->state = Request::State::complete;
  }
  if (pending_.size() <= 1) awaited_since_ = {};
  if (std::erase(pending_, &call) > 0) communicator_.context().communicators().note_pending(-1);
}

std::string PointToPointDriver::describe(const PointToPointCall& call) {
  const std::string other =
      call.peer == any_source ? "any" : fmt::format("{}", call.communicator->context_rank(call.peer));
  return fmt::format("{} {}, tag {}", call.is_send ? "send to" : "recv from", other, call.tag);
}

void PointToPointDriver::ask_awaited(std::chrono::steady_clock::time_point now) {
  constexpr auto long_enough = std::chrono::milliseconds(50);
  if (communicator_.is_on_host()) return;
  if (awaited_since_ == std::chrono::steady_clock::time_point{}) awaited_since_ = now;
  if (now - awaited_since_ < long_enough) return;
  awaited_since_ = now;
  for (const Rank source : value_.sources())
    for (Rank rank = 0; rank < communicator_.size(); ++rank)
      if ((source == any_source || source == rank) && rank != communicator_.rank() && !value_.is_gone(rank))
        communicator_.ask_whether_left(rank);
}

void PointToPointDriver::exclude_self(ucft_status_t why) {
  for (const Leaving& each : leaving_) communicator_.context().transport().buffers().release(each.block);
  leaving_.clear();
  while (!pending_.empty()) end(*pending_.back(), why, no_rank, 0);
  value_ = PointToPoint(communicator_.rank(), communicator_.size());
}

}  // namespace ucft::detail
