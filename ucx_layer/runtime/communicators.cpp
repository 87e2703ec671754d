#include "ucx_layer/runtime/communicators.hpp"

#include <algorithm>
#include <numeric>

#include "collectives/core/sometimes.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

Transport& Communicators::transport() { return context_.transport(); }

Communicator* Communicators::create_for_all(std::int32_t ranks) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return create(communicator_id::for_all_bit | made_for_all_++, std::move(all));
}

Communicator* Communicators::create(std::uint32_t id, std::vector<std::int32_t> ranks, std::vector<Rank> absent) {
  end_closed();
  ++made_;
  Communicator* const created =
      communicators_.emplace_back(std::make_unique<Communicator>(context_, id, std::move(ranks), std::move(absent)))
          .get();
  if (!created->is_on_host()) turning_.push_back(created);
  if (!created->has_slab())
    context_.stand_aside("this rank has no shared memory for a communicator: the others go on without it");
  if (communicator_id::place_in(id) == 0) say_opened();
  const auto take_early = [&](bool letters) {
    for (const Early& each : std::exchange(early_, {})) {
      if (each.header.communicator != id || each.header.is_of_letter() != letters) {
        early_.push_back(each);
        continue;
      }
      if (letters && has_right_sender(each.header, *created, each.peer))
        created->on_message(each.header, each.message);  // also of a rank that has gone since: it had sent it before
      else if (!letters && created->accepts(each.header))
        deliver(each.header, each.message, each.peer);
      release(each);
    }
  };
  take_early(true);
  created->end_opening();
  for (std::int32_t peer = 0; peer < context_.size(); ++peer) {
    if (context_.is_final(peer) && UCFT_SOMETIMES("a communicator is made with a rank that is dead"))
      created->on_death(peer);
    if (departures_.has_left(peer))
      created->on_left(peer, true);
    else if (departures_.has_failed(peer))
      created->on_failure(peer);
  }
  if (communicator_id::place_in(id) == 0)
    for (const WireHeader& word : std::exchange(early_words_, {})) on_control(word);
  take_early(false);
  transport().give_back();  // a sender may wait for that, and this rank may go outside of ucft now
  return created;
}

// peer: by whose path it came; -1: not known.
bool Communicators::has_right_sender(const WireHeader& header, const Communicator& communicator, int peer) {
  if (header.sender < communicator.size() && (peer < 0 || communicator.context_rank(header.sender) == peer))
    return true;
  note_stale();
  return false;
}

void Communicators::release(const Early& early) {
  transport().buffers().release(early.message.value);
  transport().buffers().release(early.message.list);
}

// With release order, after the stores that make them visible: see HostLease.
void Communicators::say_opened() {
  transport().control()->opened.store(next_id_, std::memory_order_release);
  transport().control()->opened_for_all.store(made_for_all_, std::memory_order_release);
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
  left_.clear();
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

// A communicator whose memory others read stays until all have left; one with messages until each has said that it
// needs no more.
void Communicators::destroy(Communicator* communicator) {
  const auto found = std::ranges::find_if(communicators_, [&](const auto& each) { return each.get() == communicator; });
  std::unique_ptr<Communicator> ours = std::move(*found);
  communicators_.erase(found);
  posted_before_ += ours->posted();
  if (ours->has_gossip())
    for (Communicator* each : ours->gossip().take_agreements()) destroy(each);
  if (!context_.excluded()) ours->leave();
  if (!ours->is_on_host() && !context_.excluded()) {
    left_.push_back(std::move(ours));
    sweep_left();
  } else {
    retire(std::move(ours));
  }
  end_closed();
}

void Communicators::leave_all() {
  while (!communicators_.empty()) destroy(communicators_.front().get());
}

// No rank sends it messages any more.
void Communicators::retire(std::unique_ptr<Communicator> communicator) {
  if (last_found_ == communicator.get()) last_found_ = nullptr;
  std::erase(turning_, communicator.get());
  gossiping_ -= communicator->has_gossip();
  if (!communicator->is_on_host()) {
    gone_.push_back({communicator->id(), communicator->ranks(), communicator->left()});
    if (gone_.size() > gone_limit) gone_.pop_front();
  }
  communicator->retire();
  if (communicator->shares_memory()) closed_.push_back(std::move(communicator));
}

void Communicators::sweep_left() {
  for (std::size_t i = 0; i < left_.size();) {
    if (!left_[i]->is_through() && !context_.excluded()) {
      ++i;
      continue;
    }
    std::unique_ptr<Communicator> ours = std::move(left_[i]);
    left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(i));
    retire(std::move(ours));
    i = 0;
  }
}

void Communicators::note_gossip(Communicator& communicator) {
  ++gossiping_;
  note_messages(communicator);
}

void Communicators::note_messages(Communicator& communicator) {
  if (communicator.is_on_host() && std::ranges::find(turning_, &communicator) == turning_.end())
    turning_.push_back(&communicator);
}

// A few at a time, in turns: so the cost of a communicator does not grow with their number. A rank that is out leaves
// all as it is.
void Communicators::end_closed() {
  if (context_.excluded()) return;
  for (std::size_t i = std::min<std::size_t>(closed_.size(), 4); i > 0; --i) {
    std::unique_ptr<Communicator> oldest = std::move(closed_.front());
    closed_.pop_front();
    if (!oldest->end()) closed_.push_back(std::move(oldest));
  }
}

Communicator* Communicators::find_other(std::uint32_t id) {
  for (const auto* all : {&communicators_, &left_})
    for (const auto& each : *all)
      if (each->id() == id) return last_found_ = each.get();
  const std::uint32_t place = communicator_id::place_in(id);
  if (place == 0 || place > GossipDriver::in_flight) return nullptr;
  Communicator* caller = find_other(communicator_id::callers(id));  // another rank was the first to need it
  return caller == nullptr || caller->has_left() ? nullptr : &caller->gossip().agreements(static_cast<int>(place) - 1);
}

bool Communicators::is_future(std::uint32_t id) const {
  id = communicator_id::callers(id);
  return (id & communicator_id::for_all_bit) != 0 ? (id & ~communicator_id::for_all_bit) >= made_for_all_
                                                  : id >= next_id_;
}

bool Communicators::accepts(const WireHeader& header) {
  if (const Communicator* communicator = find(header.communicator)) return communicator->accepts(header);
  // A sender's window bounds letters.
  return !is_future(header.communicator) || early_.size() < early_limit || header.is_of_letter();
}

void Communicators::deliver(const WireHeader& header, const Message& message, int peer) {
  if (has_ended_) return;
  Communicator* communicator = find(header.communicator);
  if (communicator == nullptr) {
    if (!is_future(header.communicator)) return answer_late(header, peer);
    transport().buffers().retain(message.value);
    transport().buffers().retain(message.list);
    UCFT_SOMETIMES("a message comes for a communicator that is yet to be made");
    early_.push_back({header, message, peer});
    return;
  }
  if (!has_right_sender(header, *communicator, peer)) return;
  if (transport().is_forgotten(communicator->context_rank(header.sender)) &&
      UCFT_SOMETIMES("a message comes of a rank that was given up"))
    return note_stale();  // fenced
  communicator->on_message(header, message);
}

void Communicators::on_control(const WireHeader& header) {
  const auto control = static_cast<Control>(header.phase);
  const std::int32_t rank = header.sender;
  const bool is_word = control == Control::leaves_communicator;
  if (departures_.is_gone(rank) || has_ended_) return;  // its word doesn't count any more
  Communicator* const communicator = find(header.communicator);
  if (communicator != nullptr && is_word)
    return communicator->on_leaves(rank, {header.operation, static_cast<OperationNumber>(header.control.about)},
                                   (header.flags & 1) != 0, header.control.letters);
  if (communicator != nullptr && control == Control::lets_go) return communicator->on_let_go(rank);
  if (communicator != nullptr) return communicator->answer_whether_left(rank);
  if (is_future(header.communicator)) {
    if (is_word && UCFT_SOMETIMES("a rank leaves a communicator that this one has yet to make"))
      early_words_.push_back(header);
    return;
  }
  if (is_word) transport().send_control(rank, Control::lets_go, header.communicator);
  if (control == Control::has_left && UCFT_SOMETIMES("a rank asks whether this one has left"))
    answer_gone(header.communicator, rank);
  transport().ring_doorbells();
}

void Communicators::on_death(std::int32_t rank) {
  for (const auto* all : {&communicators_, &left_})
    for (const auto& each : *all) each->on_death(rank);
  for (const auto& each : closed_) each->on_death(rank);
}

void Communicators::on_failure(std::int32_t rank) {
  context_.note_death(rank);
  if (has_ended_) return;
  for (const auto* all : {&communicators_, &left_})
    for (const auto& each : *all) each->on_failure(rank);
}

void Communicators::on_left(std::int32_t rank, bool was_needed) {
  if (has_ended_) return;
  for (const auto* all : {&communicators_, &left_})
    for (const auto& each : *all) each->on_left(rank, was_needed);
}

void Communicators::exclude_self(ucft_status_t why) {
  for (const auto* all : {&communicators_, &left_})
    for (const auto& each : *all) each->exclude_self(why);
}

// A message for a communicator that this rank is through with: its sender has not heard so.
void Communicators::answer_late(const WireHeader& header, int peer) {
  const auto found = std::ranges::find(gone_, header.communicator, &Gone::id);
  if (found == gone_.end() || static_cast<std::size_t>(header.sender) >= found->ranks.size()) return;
  UCFT_SOMETIMES("a message comes for a communicator that was left");
  answer_gone(header.communicator, peer >= 0 ? peer : found->ranks[static_cast<std::size_t>(header.sender)]);
  transport().ring_doorbells();
}

void Communicators::answer_gone(std::uint32_t id, std::int32_t rank) {
  const auto found = std::ranges::find(gone_, id, &Gone::id);
  if (found == gone_.end()) return;
  transport().send_control(rank, Control::leaves_communicator, id, word_of(found->left, true));
}

}  // namespace ucft::detail
