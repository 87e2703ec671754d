#include "collectives/among/phases/personal_exchange.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace ucft::detail {

void PersonalExchange::start(const Message& blank, Slice input, std::span<const Share> shares, Room room, Rank giver,
                             const Stream& mine, const Ballots& ballots, Outbox& out) {
  clear(out.buffers());
  const Membership& members = ballots.members();
  const Rank me = ballots.me();
  blank_ = blank;
  blank_.attempt = optimistic_ballot;
  streams_.resize(static_cast<std::size_t>(members.size()) + members.excluded().size());
  closing_.start(ballots);
  if (mine.outcome == Outcome::success) {
    room_ = out.buffers().whole(room.block);
    room_grows_ = room.grows;
    out.buffers().retain(room_);
  }
  if (giver != no_rank) {
    for (std::int32_t position = 0; position < members.size(); ++position)
      if (const Rank rank = members.rank_at(position); rank != giver) begin(stream_of(rank), 0, out.buffers());
    if (me != giver) return;
  }
  if (mine.outcome != Outcome::success) {
    stream_of(me) = mine;
    ++whole_;
  }
  std::vector<Share> by_member(shares.begin(), shares.end());
  std::ranges::stable_sort(by_member, {}, &Share::to);
  for (std::int32_t distance = 0; distance < members.size(); ++distance) {
    const Rank to = ballots.member_after(me, distance);
    if (to != me && ballots.has_failed(to)) continue;
    if (mine.outcome != Outcome::success) {
      Message word = blank_;
      word.phase = Phase::exchange;
      word.blame(mine.lacking);
      word.outcome = mine.outcome;
      if (to != me) out.send(to, word);
      continue;
    }
    const auto first = std::ranges::lower_bound(by_member, to, {}, &Share::to),
               behind = std::ranges::upper_bound(by_member, to, {}, &Share::to);
    give(to, input, {first, behind}, ballots, out);
  }
}

void PersonalExchange::give(Rank to, Slice input, std::span<const Share> shares, const Ballots& ballots, Outbox& out) {
  std::uint64_t bytes = 0;
  for (const Share& share : shares) bytes += share.bytes;
  if (to == ballots.me())
    begin(stream_of(to), bytes, out.buffers());
  else
    longest_ = std::max(longest_, bytes);
  const std::uint64_t most = ballots.surroundings().optimism.piece_of(bytes);
  Message message = blank_;
  message.phase = Phase::all_broadcast;
  message.source = ballots.me();
  message.of_bytes = bytes;
  if (bytes == 0 && to != ballots.me()) return out.send(to, message);
  message.flags = has_value;
  for (const Share& share : shares) {
    for (std::uint64_t done = 0; done < share.bytes;) {
      message.value = input.part(share.offset + done, std::min(most, share.bytes - done));
      if (to == ballots.me())
        take(stream_of(to), message.offset, message.value, out.buffers());
      else
        out.send(to, message);
      message.offset += message.value.bytes;
      done += message.value.bytes;
    }
  }
}

void PersonalExchange::begin(Stream& stream, std::uint64_t bytes, Buffers& buffers) {
  if (room_ && used_ + bytes > room_.bytes) grow(used_ + bytes, buffers);
  stream = {.begin = used_, .bytes = bytes, .has_begun = true, .is_whole = bytes == 0};
  whole_ += stream.is_whole;
  if (room_) used_ += bytes;
}

// Without memory there is no room any more, and what comes is not kept. The driver sees that a request was refused.
void PersonalExchange::grow(std::uint64_t bytes, Buffers& buffers) {
  const Slice larger = buffers.whole(buffers.allocate(bytes));
  if (larger && used_ > 0) buffers.copy_part(larger.part(0, used_), room_.part(0, used_), bytes);
  buffers.release(std::exchange(room_, larger));
}

void PersonalExchange::take(Stream& stream, std::uint64_t at, Slice piece, Buffers& buffers) {
  if (room_) buffers.copy_part(room_.part(stream.begin + at, piece.bytes), piece, stream.bytes);
  stream.come += piece.bytes;
  stream.is_whole = stream.come == stream.bytes;
  whole_ += stream.is_whole;
}

bool PersonalExchange::accepts(const Message& message) const {
  const Stream& its = stream(message.peer);
  if (message.phase == Phase::closing) return !message.value && message.contributors == 0;
  if (message.phase == Phase::exchange)
    return message.outcome != Outcome::success && !message.value && !its.has_begun && !its.is_whole;
  if (message.phase != Phase::all_broadcast || message.source != message.peer || its.is_whole) return false;
  const std::uint64_t all = message.of_bytes, piece = message.value.bytes;
  if (piece > all || message.offset > all - piece || (piece == 0) != (all == 0)) return false;
  const std::uint64_t most = room_grows_ ? std::max(bytes_limit, room_.bytes) : room_.bytes;
  if (its.has_begun) return its.bytes == all && its.come + piece <= its.bytes;
  return !room_ || (used_ <= most && all <= most - used_);
}

void PersonalExchange::on_message(const Message& message, Buffers& buffers) {
  Stream& its = stream_of(message.peer);
  switch (message.phase) {
    case Phase::exchange:
      its = without(message.outcome, message.culprit());
      ++whole_;
      return;
    case Phase::closing: closing_.on_word(message.peer); return;
    default: break;
  }
  if (!its.has_begun) {
    begin(its, message.of_bytes, buffers);
    longest_ = std::max(longest_, message.of_bytes);
  }
  if (!its.is_whole) take(its, message.offset, message.value, buffers);
}

bool PersonalExchange::has_all_that_live(const Ballots& ballots) const {
  for (std::int32_t position = 0; position < ballots.members().size(); ++position) {
    const Rank rank = ballots.members().rank_at(position);
    if (!stream(rank).is_whole && !ballots.has_failed(rank)) return false;
  }
  return true;
}

bool PersonalExchange::close(const Ballots& ballots, Outbox& out) {
  if (whole_ < ballots.members().size()) return false;
  const bool is_pair = ballots.members().size() == 2;
  if (is_pair && longest_ <= ballots.surroundings().optimism.piece_bytes) return true;
  Message word = blank_;
  word.phase = Phase::closing;
  return closing_.advance(word, out) || is_pair;
}

std::vector<std::uint64_t> PersonalExchange::set(std::uint64_t words) const {
  std::vector<std::uint64_t> bits(words);
  for (std::size_t rank = 0; rank < streams_.size(); ++rank)
    if (has(static_cast<Rank>(rank))) bits[rank / 64] |= std::uint64_t{1} << rank % 64;
  return bits;
}

void PersonalExchange::add_awaited(const Ballots& ballots, std::vector<Rank>& ranks) const {
  for (std::int32_t position = 0; position < ballots.members().size(); ++position)
    if (const Rank rank = ballots.members().rank_at(position); !stream(rank).is_whole && !ballots.has_failed(rank))
      ranks.push_back(rank);
  if (ranks.empty() && ballots.is_optimistic() && !closing_.is_through()) ranks.push_back(closing_.awaited());
}

// However much of it has come, it has one length, by which all replicas know whether it is long.
Slice PersonalExchange::data() const { return room_; }

Rank PersonalExchange::first_lacking() const {
  const auto found = std::ranges::find_if(streams_, [](const Stream& each) { return each.lacking != no_rank; });
  return found == streams_.end() ? no_rank : found->lacking;
}

void PersonalExchange::let_go_of_data(Buffers& buffers) { buffers.release(std::exchange(room_, {})); }

void PersonalExchange::clear(Buffers& buffers) {
  let_go_of_data(buffers);
  streams_.clear();
  whole_ = 0;
  closing_.clear();
  used_ = longest_ = 0;
}

}  // namespace ucft::detail
