#include "collectives/among/phases/circulant.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

// ---- who gives what to whom -----------------------------------------------------------------------------------------

bool Circulant::fits(const Arguments& arguments, const Ballots& ballots) {
  const std::int32_t size = ballots.members().size();
  return arguments.row().reduces && arguments.row().disseminates &&
         arguments.count >= static_cast<std::uint64_t>(size) &&
         !ballots.surroundings().optimism.goes_whole(arguments.bytes(), size);
}

void Circulant::plan(const Ballots& ballots) {
  if (std::exchange(size_, ballots.members().size()) == ballots.members().size()) return;
  skips_.clear();
  for (std::int32_t blocks = size_; blocks > 1; blocks = skips_.back().distance) {
    const auto distance = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(blocks - 1)));
    skips_.push_back({distance, blocks - distance});
  }
}

Phase Circulant::phase_of(std::size_t step) const {
  constexpr Phase phases[] = {Phase::reduce_scatter, Phase::allgather, Phase::closing};
  return phases[step / skips_.size()];
}

const Circulant::Skip& Circulant::skip_of(std::size_t step) const {
  const std::size_t at = step % skips_.size();
  return skips_[phase_of(step) == Phase::allgather ? skips_.size() - 1 - at : at];
}

Rank Circulant::source_of(std::size_t step, const Ballots& ballots) const {
  const std::int32_t distance = skip_of(step).distance;
  return ballots.member_after(ballots.me(), phase_of(step) == Phase::allgather ? distance : -distance);
}

Rank Circulant::target_of(std::size_t step, const Ballots& ballots) const {
  const std::int32_t distance = skip_of(step).distance;
  return ballots.member_after(ballots.me(), phase_of(step) == Phase::allgather ? -distance : distance);
}

std::size_t Circulant::step_of(Phase phase, Rank from, const Ballots& ballots) const {
  for (std::size_t step = 0; step < steps(); ++step)
    if (phase_of(step) == phase && source_of(step, ballots) == from) return step;
  return no_step;
}

Circulant::Runs Circulant::runs_of(std::int32_t first, std::int32_t blocks, const Arguments& arguments,
                                   const Ballots& ballots) const {
  const std::int32_t begin = (ballots.members().position_of(ballots.me()) + first) % size_;
  const std::int32_t end = std::min(begin + blocks, size_), rest = begin + blocks - end;
  const auto byte_of = [&](std::int32_t block) {
    return arguments.count * static_cast<std::uint64_t>(block) / static_cast<std::uint64_t>(size_) *
           arguments.reduction.carrier_bytes();
  };
  return {{{byte_of(begin), byte_of(end)}, {0, byte_of(rest)}}};
}

Circulant::Runs Circulant::given(std::size_t step, const Arguments& arguments, const Ballots& ballots) const {
  const auto [distance, blocks] = skip_of(step);
  return runs_of(phase_of(step) == Phase::reduce_scatter ? distance : 0, blocks, arguments, ballots);
}

Circulant::Runs Circulant::awaited(std::size_t step, const Arguments& arguments, const Ballots& ballots) const {
  const auto [distance, blocks] = skip_of(step);
  return runs_of(phase_of(step) == Phase::allgather ? distance : 0, blocks, arguments, ballots);
}

namespace {

std::uint64_t piece_bytes(const Arguments& arguments, const Ballots& ballots) {
  const std::uint64_t element = arguments.reduction.carrier_bytes();
  return std::max<std::uint64_t>(ballots.surroundings().optimism.piece_of(arguments.bytes()) / element, 1) * element;
}

}  // namespace

// ---- as an event-driven machine -------------------------------------------------------------------------------------

bool Circulant::start(const Message& blank, Slice input, BufferId lent, const Arguments& arguments,
                      const Ballots& ballots, Buffers& buffers) {
  clear(buffers);
  plan(ballots);
  buffers.retain(lent);
  const BufferId room = lent != no_buffer ? lent : buffers.allocate(arguments.bytes());
  if (room == no_buffer) return false;
  sum_ = buffers.whole(room);
  input_ = input;
  buffers.retain(input_);
  blank_ = blank;
  blank_.flags = has_value;
  is_active_ = true;
  return true;
}

// The first to be written are the blocks to which the first step adds nothing.
bool Circulant::may_write(bool is_agreed, const Arguments& arguments, const Ballots& ballots, Buffers& buffers) {
  if (has_written_ || (buffers.is_adopted(sum_.buffer) && !is_agreed)) return has_written_;
  has_written_ = true;
  const Skip& first = skips_.front();
  for (const auto& [begin, end] : runs_of(first.blocks, first.distance - first.blocks, arguments, ballots).runs)
    buffers.copy_part(sum_.part(begin, end - begin), input_.part(begin, end - begin), arguments.bytes());
  return true;
}

bool Circulant::accepts(const Message& message, const Arguments& arguments, const Ballots& ballots) {
  if (!fits(arguments, ballots)) return false;
  plan(ballots);
  const std::size_t step = step_of(message.phase, message.peer, ballots);
  if (step == no_step) return false;
  if (message.phase == Phase::closing) return !message.value;
  const std::uint64_t most = piece_bytes(arguments, ballots);
  return std::ranges::any_of(awaited(step, arguments, ballots).runs, [&](const Run& run) {
    return message.offset >= run.begin && message.offset < run.end && (message.offset - run.begin) % most == 0 &&
           message.value.bytes == std::min(most, run.end - message.offset);
  });
}

bool Circulant::on_message(const Message& message, Buffers& buffers) {
  if (!is_active_) return false;
  buffers.retain(message.value);
  kept_.push_back(message);
  return true;
}

bool Circulant::advance(bool is_agreed, const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  for (; at_ < steps(); ++at_, has_given_ = false) {
    if (at_ == 2 * skips_.size() && !is_agreed && UCFT_SOMETIMES("a long sum has all of its blocks, not all words"))
      return false;
    if (!std::exchange(has_given_, true)) {
      if (at_ != skips_.size()) give(arguments, ballots, out);
      left_ = phase_of(at_) == Phase::closing ? 1 : awaited(at_, arguments, ballots).bytes();
    }
    if (!may_write(is_agreed, arguments, ballots, out.buffers())) return false;
    const Phase phase = phase_of(at_);
    const Rank source = source_of(at_, ballots);
    const bool turns = at_ + 1 == skips_.size();
    std::erase_if(kept_, [&](const Message& message) {
      if (message.phase != phase || message.peer != source) return false;
      take(message, arguments, out.buffers());
      if (turns) give_piece(message.offset, message.value.bytes, sum_, skips_.size(), ballots, out);
      return true;
    });
    if (left_ > 0) return false;
  }
  return true;
}

void Circulant::give(const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  if (phase_of(at_) == Phase::closing) {
    Message message = blank_;
    message.phase = Phase::closing;
    message.flags = 0;
    return out.send(target_of(at_, ballots), message);
  }
  const std::uint64_t most = piece_bytes(arguments, ballots);
  for (const auto& [begin, end] : given(at_, arguments, ballots).runs)
    for (std::uint64_t at = begin; at < end; at += most)
      give_piece(at, std::min(most, end - at), at_ == 0 ? input_ : sum_, at_, ballots, out);
}

void Circulant::give_piece(std::uint64_t at, std::uint64_t bytes, Slice from, std::size_t step, const Ballots& ballots,
                           Outbox& out) {
  Message message = blank_;
  message.phase = phase_of(step);
  message.offset = at;
  message.value = from.part(at, bytes);
  out.send(target_of(step, ballots), message);
}

// The first sums are made of the input, which stays as it is.
void Circulant::take(const Message& piece, const Arguments& arguments, Buffers& buffers) {
  if (piece.phase == Phase::closing) {
    --left_;
    return;
  }
  left_ -= piece.value.bytes;
  const Slice to = sum_.part(piece.offset, piece.value.bytes);
  if (piece.phase == Phase::reduce_scatter)
    buffers.combine_part(arguments.reduction, to, at_ == 0 ? input_.part(piece.offset, piece.value.bytes) : to,
                         piece.value, arguments.bytes());
  else
    buffers.copy_part(to, piece.value, arguments.bytes());
  buffers.release(piece.value);
}

Rank Circulant::awaited(const Ballots& ballots) const {
  return is_active_ && at_ < steps() ? source_of(at_, ballots) : no_rank;
}

void Circulant::clear(Buffers& buffers) {
  for (const Message& message : kept_) buffers.release(message.value);
  kept_.clear();
  buffers.release(std::exchange(input_, {}));
  buffers.release(std::exchange(sum_, {}));
  is_active_ = has_written_ = has_given_ = false;
  at_ = 0;
}

}  // namespace ucft::detail
