#include "collectives/among/phases/optimistic_ballot.hpp"

#include <algorithm>

#include "collectives/catalogue/catalogue.hpp"

namespace ucft::detail {

// A call that would need more memory goes along trees. Their inner ranks keep one copy of the data, not one for each
// step.
bool OptimisticBallot::fits(const Arguments& arguments, const Ballots& ballots) {
  const Optimism& optimism = ballots.surroundings().optimism;
  const CatalogueRow& row = arguments.row();
  const std::int32_t size = ballots.members().size();
  if (!optimism.begins || size < 2 || ballots.any_member_failed()) return false;
  if (!row.collects) return PieceBroadcast::fits(arguments, ballots);
  if (!row.disseminates || Circulant::fits(arguments, ballots)) return true;
  const std::uint64_t bytes =
      with_collective(arguments.kind, [&](auto collective) { return collective.result_bytes(arguments, size); });
  return optimism.goes_whole(bytes, size) || (!row.reduces && bytes * optimism.steps(size) <= optimism.set_bytes);
}

namespace {

// The fields that all messages of an operation have.
Message blank_of(const Message& mine) {
  Message blank;
  blank.operation = mine.operation;
  blank.signature = mine.signature;
  blank.attempt = optimistic_ballot;
  blank.prev = mine.prev;
  return blank;
}

}  // namespace

bool OptimisticBallot::start(Message& mine, BufferId& room, Rank lacking, const Arguments& arguments,
                             const Ballots& ballots, Buffers& buffers) {
  if (!arguments.row().collects) {
    if (mine.outcome != Outcome::success) return false;
    const bool gives = arguments.root == ballots.me();
    if (!gives && room == no_buffer) room = buffers.allocate(arguments.bytes());
    const Slice data = gives ? mine.value : buffers.whole(room);
    if (data)
      pieces_.start(blank_of(mine), data, arguments, ballots, buffers);
    else
      mine.blame(lacking);
    return bool{data};
  }
  if (Circulant::fits(arguments, ballots) && mine.outcome == Outcome::success) {
    if (!blocks_.start(blank_of(mine), mine.value, arguments, ballots, buffers)) mine.blame(lacking);
    mine.value = {};
    mine.flags = static_cast<std::uint8_t>(mine.flags & ~has_value);
  }
  exchange_.start(mine, arguments, ballots, buffers);
  is_exchanging_ = true;
  return true;
}

// In blocks, words travel without a value. Otherwise all have one.
bool OptimisticBallot::accepts(const Message& message, const Arguments& arguments, const Ballots& ballots) {
  if (!arguments.row().collects)
    return PieceBroadcast::fits(arguments, ballots) && pieces_.accepts(message, arguments, ballots);
  if (has_part(message.phase)) return blocks_.accepts(message, arguments, ballots);
  return message.outcome != Outcome::success || message.has(has_value) != Circulant::fits(arguments, ballots);
}

bool OptimisticBallot::on_message(const Message& message, Buffers& buffers) {
  if (pieces_.is_active()) return pieces_.on_message(message, buffers);
  return has_part(message.phase) ? blocks_.on_message(message, buffers) : exchange_.on_message(message, buffers);
}

OptimisticBallot::State OptimisticBallot::advance(const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  if (pieces_.is_active()) {
    pieces_.advance(ballots, out);
    return pieces_.is_through() ? State::all_have_it : pieces_.is_whole() ? State::has_result : State::awaits;
  }
  if (!is_exchanging_) return State::awaits;
  const bool is_agreed = exchange_.advance(arguments, ballots, out);
  const bool is_broken_off = is_agreed && has_culprit(exchange_.partial().outcome);
  if (!blocks_.is_active() || is_broken_off) return is_agreed ? State::has_result : State::awaits;
  return blocks_.advance(is_agreed, arguments, ballots, out) ? State::all_have_it : State::awaits;
}

Message OptimisticBallot::result() const {
  Message result = exchange_.partial();
  if (pieces_.is_active()) {
    result = {};
    result.contributors = 1;
    result.value = pieces_.data();
  } else if (blocks_.is_active()) {
    result.value = blocks_.sum();
  }
  return result;
}

void OptimisticBallot::add_awaited(const Ballots& ballots, std::vector<Rank>& ranks) const {
  for (const Arrivals::Peer& peer : exchange_.arrivals().peers())
    if (peer.state == Arrivals::State::awaited) ranks.push_back(peer.rank);
  for (const Rank source : {blocks_.awaited(ballots), pieces_.awaited(ballots)})
    if (source != no_rank && std::ranges::find(ranks, source) == ranks.end()) ranks.push_back(source);
}

void OptimisticBallot::refuse(const Message& why, const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  pieces_.refuse(why, arguments, ballots, out);
}

void OptimisticBallot::let_go_of_values(Buffers& buffers) {
  is_exchanging_ = false;
  exchange_.clear(buffers);
  blocks_.clear(buffers);
  if (pieces_.is_whole())
    pieces_.let_go_of_data(buffers);
  else
    pieces_.clear(buffers);
}

void OptimisticBallot::clear(Buffers& buffers) {
  let_go_of_values(buffers);
  pieces_.clear(buffers);
}

}  // namespace ucft::detail
