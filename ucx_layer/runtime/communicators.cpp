#include "ucx_layer/runtime/communicators.hpp"

#include <algorithm>
#include <numeric>

#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

namespace {

constexpr std::uint32_t for_all_bit = 0x80000000u;

}  // namespace

Transport& Communicators::transport() { return context_.transport(); }

Communicator* Communicators::create_for_all(std::int32_t ranks) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return create(for_all_bit | made_for_all_++, std::move(all));
}

Communicator* Communicators::create(std::uint32_t id, std::vector<std::int32_t> ranks) {
  end_slabs();
  ++made_;
  auto made = std::make_unique<Communicator>(context_, id, std::move(ranks));  // and its parts
  Communicator* const created = communicators_.emplace_back(std::move(made)).get();
  if (!created->is_on_host()) turning_.push_back(created);
  if (created->lacks_slab())
    context_.stand_aside("this rank has no shared memory for a communicator: the others go on without it");
  for (std::int32_t peer = 0; peer < context_.size(); ++peer)
    if (departures_.is_gone(peer)) created->on_failure(peer);
  for (const Early& each : std::exchange(early_, {})) {
    if (each.header.communicator != id) {
      early_.push_back(each);
      continue;
    }
    if (created->accepts(each.header)) deliver(each.header, each.message, each.peer);
    release(each);
  }
  return created;
}

void Communicators::release(const Early& early) {
  transport().buffers().release(early.message.value);
  transport().buffers().release(early.message.list);
}

Communicator* Communicators::next_in_turn() {
  if (turning_.empty()) return nullptr;
  if (++in_turn_ >= turning_.size()) in_turn_ = 0;
  return turning_[in_turn_];
}

void Communicators::clear() {
  for (const Early& each : early_) release(each);
  early_.clear();
  turning_.clear();
  communicators_.clear();
  closed_.clear();
}

std::vector<Communicator*> Communicators::all() const {
  std::vector<Communicator*> all;
  for (const auto& each : communicators_) all.push_back(each.get());
  return all;
}

std::uint64_t Communicators::posted() const {
  std::uint64_t posted = posted_before_;
  for (const auto& each : communicators_) posted += each->posted();
  return posted;
}

void Communicators::destroy(Communicator* communicator) {
  for (Communicator* part : communicator->parts()) destroy(part);
  if (last_found_ == communicator) last_found_ = nullptr;
  posted_before_ += communicator->posted();
  if (!communicator->is_on_host()) {
    destroyed_.emplace_back(communicator->id(), communicator->ranks());
    if (destroyed_.size() > destroyed_limit) destroyed_.pop_front();
    for (std::int32_t rank : communicator->ranks())
      if (departures_.is_gone(rank)) tell_gone(communicator->id(), communicator->ranks(), rank);
    transport().ring_doorbells();
  } else if (
      !context_.excluded()) {  // else it had no part in any last barrier, and others may go on reading what it has left
    closed_.push_back(communicator->close());
    end_slabs();
  }
  gossiping_ -= communicator->has_gossip();
  std::erase(turning_, communicator);
  std::erase_if(communicators_, [&](const auto& each) { return each.get() == communicator; });
}

void Communicators::note_gossip(Communicator& communicator) {
  ++gossiping_;
  if (communicator.is_on_host()) turning_.push_back(&communicator);
}

// A few at a time, in turns: so the cost of a communicator does not grow with their number.
void Communicators::end_slabs() {
  if (context_.excluded()) return;
  for (std::size_t i = std::min<std::size_t>(closed_.size(), 4); i > 0; --i) {
    std::unique_ptr<HostSlabs> oldest = std::move(closed_.front());
    closed_.pop_front();
    if (!oldest->end()) closed_.push_back(std::move(oldest));
  }
}

Communicator* Communicators::find_other(std::uint32_t id) {
  for (const auto& each : communicators_)
    if (each->id() == id) return last_found_ = each.get();
  const std::uint32_t place = communicator_id::place_in(id);
  if (place == 0 || place > GossipDriver::in_flight) return nullptr;
  Communicator* caller = find_other(communicator_id::callers(id));  // another rank was the first to need it
  return caller == nullptr ? nullptr : &caller->gossip().agreements(static_cast<int>(place) - 1);
}

bool Communicators::is_future(std::uint32_t id) const {
  id = communicator_id::callers(id);
  return (id & for_all_bit) != 0 ? (id & ~for_all_bit) >= made_for_all_ : id >= next_id_;
}

bool Communicators::accepts(const WireHeader& header) {
  if (const Communicator* communicator = find(header.communicator)) return communicator->accepts(header);
  return !is_future(header.communicator) || early_.size() < early_limit;
}

void Communicators::deliver(const WireHeader& header, const Message& message, int peer) {
  Communicator* communicator = find(header.communicator);
  if (communicator == nullptr) {
    if (!is_future(header.communicator)) return answer_gone(header, peer);
    transport().buffers().retain(message.value);
    transport().buffers().retain(message.list);
    early_.push_back({header, message, peer});
    return;
  }
  if (header.sender >= communicator->size()) return note_stale();
  const std::int32_t sender = communicator->context_rank(header.sender);
  if (peer >= 0 && sender != peer) return note_stale();
  if (transport().is_forgotten(sender)) return note_stale();  // fenced
  communicator->on_message(header, message);
}

void Communicators::on_gone(std::uint32_t id, std::int32_t rank) {
  if (departures_.is_gone(rank)) return;  // its word doesn't count any more
  if (Communicator* communicator = find(id)) communicator->on_gone(rank);
}

void Communicators::on_departure(std::int32_t rank, bool has_left) {
  if (!has_left) context_.note_death(rank);
  for (const auto& each : communicators_) has_left ? each->on_gone(rank) : each->on_failure(rank);
  for (const auto& [id, ranks] : destroyed_) tell_gone(id, ranks, rank);
}

// A late message for a communicator that this rank has destroyed: it has been through the last barrier, so nobody is
// owed more than the word that it is gone, which says that the last barrier was decided (OperationWindow::on_gone).
void Communicators::answer_gone(const WireHeader& header, int peer) {
  for (const auto& [id, ranks] : destroyed_) {
    if (id != header.communicator || static_cast<std::size_t>(header.sender) >= ranks.size()) continue;
    const int sender = peer >= 0 ? peer : ranks[static_cast<std::size_t>(header.sender)];
    transport().send_control(sender, Control::gone, header.communicator, context_.rank());
    transport().ring_doorbells();
    return;
  }
}

// A member of a destroyed communicator has failed: whoever is still in its last barrier may have lost a root, and must
// not wait for this rank, which has been through. Where not all are connected, and all are members, it is enough to tell those along
// the graph that news travel: they are through then, and tell others. Of a rank that has left whoever waits for it has heard itself.
void Communicators::tell_gone(std::uint32_t id, const std::vector<std::int32_t>& ranks, std::int32_t departed) {
  if (std::find(ranks.begin(), ranks.end(), departed) == ranks.end()) return;
  const bool along = departures_.tells_along();
  const bool all_are_members = ranks.size() == static_cast<std::size_t>(context_.size());
  for (std::int32_t rank : along&& all_are_members ? departures_.near() : ranks)
    if (rank != context_.rank() && !(along && departures_.has_left(departed) && transport().is_unconnected(rank)))
      transport().send_control(rank, Control::gone, id, context_.rank());
}

}  // namespace ucft::detail
