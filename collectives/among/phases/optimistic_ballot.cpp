#include "collectives/among/phases/optimistic_ballot.hpp"

#include <algorithm>

#include "collectives/catalogue/catalogue.hpp"

namespace ucft::detail {

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

// The data don't go with the exchange.
bool goes_apart(const Arguments& arguments, const Ballots& ballots) {
  return Circulant::fits(arguments, ballots) || PieceBroadcast::fits(arguments, ballots);
}

}  // namespace

// A call that would need more memory goes along trees. Their inner ranks keep one copy of the data, not one for each
// step.
bool OptimisticBallot::fits(const Arguments& arguments, const Ballots& ballots) {
  const Optimism& optimism = ballots.surroundings().optimism;
  const CatalogueRow& row = arguments.row();
  const std::int32_t size = ballots.members().size();
  if (!optimism.begins || size < 2 || ballots.any_member_failed()) return false;
  if (goes_apart(arguments, ballots)) return true;
  if (!row.collects || !row.disseminates) return row.collects;
  const std::uint64_t bytes =
      with_collective(arguments.kind, [&](auto collective) { return collective.result_bytes(arguments, size); });
  return optimism.goes_whole(bytes, size) || (!row.reduces && bytes * optimism.steps(size) <= optimism.set_bytes);
}

bool OptimisticBallot::start(Message& mine, BufferId& room, BufferId landing, Rank lacking, const Arguments& arguments,
                             const Ballots& ballots, Buffers& buffers) {
  if (mine.outcome == Outcome::success && !start_parts(mine, room, landing, arguments, ballots, buffers))
    mine.blame(lacking);
  if (!arguments.row().collects) return mine.outcome == Outcome::success;
  if (goes_apart(arguments, ballots)) {
    mine.value = {};
    mine.flags = static_cast<std::uint8_t>(mine.flags & ~has_value);
  }
  exchange_.start(mine, arguments, ballots, buffers);
  is_exchanging_ = true;
  return true;
}

// False: there is no memory for it.
bool OptimisticBallot::start_parts(const Message& mine, BufferId& room, BufferId landing, const Arguments& arguments,
                                   const Ballots& ballots, Buffers& buffers) {
  if (Circulant::fits(arguments, ballots))
    return blocks_.start(blank_of(mine), mine.value, landing, arguments, ballots, buffers);
  if (!PieceBroadcast::fits(arguments, ballots)) return true;
  // Data that are here, and stay where they are.
  const bool is_root = arguments.root == ballots.me();
  const bool has_all = arguments.row().from_root() ? is_root : arguments.row().to_root() && !is_root;
  if (!has_all && room == no_buffer)
    room = buffers.allocate(with_collective(
        arguments.kind, [&](auto each) { return each.result_bytes(arguments, ballots.members().size()); }));
  const Slice data = has_all ? mine.value : buffers.whole(room);
  if (!data || (arguments.row().collects && !mine.value)) return false;
  pieces_.start(blank_of(mine), mine.value, data, arguments, ballots, buffers);
  return true;
}

// Words about data that go apart travel without a value. All others have one.
bool OptimisticBallot::accepts(const Message& message, const Arguments& arguments, const Ballots& ballots) {
  if (arguments.row().collects && message.phase == Phase::exchange)
    return message.outcome != Outcome::success || message.has(has_value) != goes_apart(arguments, ballots);
  if (PieceBroadcast::fits(arguments, ballots)) return pieces_.accepts(message, arguments, ballots);
  return arguments.row().collects && blocks_.accepts(message, arguments, ballots);
}

bool OptimisticBallot::on_message(const Message& message, const Ballots& ballots, Buffers& buffers) {
  if (message.phase == Phase::exchange) return exchange_.on_message(message, buffers);
  return pieces_.is_active() ? pieces_.on_message(message, ballots, buffers) : blocks_.on_message(message, buffers);
}

OptimisticBallot::State OptimisticBallot::advance(const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  if (!is_exchanging_ && !pieces_.is_active()) return State::awaits;
  const bool is_agreed = !is_exchanging_ || exchange_.advance(arguments, ballots, out);
  if (is_exchanging_ && is_agreed && has_culprit(exchange_.partial().outcome)) {
    blocks_.clear(out.buffers());
    pieces_.clear(out.buffers());
  }
  if (blocks_.is_active())
    return blocks_.advance(is_agreed, arguments, ballots, out) ? State::all_have_it : State::awaits;
  if (!pieces_.is_active()) return is_agreed ? State::has_result : State::awaits;
  pieces_.advance(is_agreed, ballots, out);
  if (!is_agreed || !pieces_.is_whole()) return State::awaits;
  return pieces_.is_through() ? State::all_have_it : State::has_result;
}

Message OptimisticBallot::result() const {
  Message result;
  result.contributors = 1;
  if (is_exchanging_) result = exchange_.partial();
  if (pieces_.is_active()) result.value = pieces_.data();
  if (blocks_.is_active()) result.value = blocks_.sum();
  return result;
}

void OptimisticBallot::add_awaited(const Ballots& ballots, std::vector<Rank>& ranks) const {
  for (const Arrivals::Peer& peer : exchange_.arrivals().peers())
    if (peer.state == Arrivals::State::awaited) ranks.push_back(peer.rank);
  if (const Rank source = blocks_.awaited(ballots);
      source != no_rank && std::ranges::find(ranks, source) == ranks.end())
    ranks.push_back(source);
  pieces_.add_awaited(ballots, ranks);
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
