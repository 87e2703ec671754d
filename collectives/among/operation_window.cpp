#include "collectives/among/operation_window.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

OperationWindow::OperationWindow(Size size, Buffers& buffers)
    : me_(size.me),
      window_(static_cast<OperationNumber>(size.window)),
      optimism_(size.optimism),
      hosts_(std::move(size.hosts)),
      buffers_(buffers),
      slots_(std::bit_ceil(static_cast<std::size_t>(size.window) * 4)),
      members_(size.ranks) {
  assert(hosts_.empty() || hosts_.size() == static_cast<std::size_t>(size.ranks));
  for (const Rank rank : size.absent) {
    members_.exclude(rank);
    failed_.insert(rank);
    reported_.insert(rank);
  }
  assert(size.window >= 2 && "rooted operations need an internal barrier in between");
}

void OperationWindow::clear_completed() {
  for (OperationNumber number : completed_)
    if (number >= dropped_upto_) slot(number).let_go(buffers_);
  completed_.clear();
}

bool OperationWindow::can_start(OperationNumber number) const {
  if (number >= window_ && !slot(number - window_).finished()) return false;
  return number < 2 * window_ || number - 2 * window_ < std::max(dropped_upto_, may_drop_upto_);
}

bool OperationWindow::ready(Outbox& out) {
  if (has_left_) return false;
  if (rooted_in_a_row_ >= window_ / 2 && can_start(next_) && !is_out_) {
    Arguments barrier;
    barrier.kind = Kind::barrier;
    barrier.f = rooted_f_;
    rooted_in_a_row_ = 0;
    rooted_f_ = 0;
    UCFT_SOMETIMES("rooted operations in a row are followed by a barrier");
    start(barrier, {}, out);
  }
  return !is_out_ && rooted_in_a_row_ < window_ / 2 && can_start(next_);
}

OperationNumber OperationWindow::post(const Arguments& arguments, const Operation::Memory& memory, Outbox& out) {
  assert(rooted_in_a_row_ < window_ / 2 && "post without ready()");
  const bool rooted = arguments.counts_as_rooted();
  rooted_in_a_row_ = rooted ? rooted_in_a_row_ + 1 : 0;
  rooted_f_ = rooted ? std::max(rooted_f_, arguments.f) : 0;
  start(arguments, memory, out);
  return next_ - 1;
}

void OperationWindow::start(const Arguments& arguments, const Operation::Memory& memory, Outbox& out) {
  const OperationNumber number = next_++;
  if (number >= 2 * window_) drop_up_to(number - 2 * window_ + 1);
  Rank prev = no_rank;
  if (number >= window_) {
    exclude_failures_of(number - window_);
    const Operation& earlier = slot(number - window_);
    if (earlier.row().disseminates) prev = earlier.decision().first_decided;
  }
  ++unfinished_;
  Operation& operation = slot(number);
  operation.start(number, arguments, members_,
                  {me_, &failed_, &reported_, &let_go_, optimism_, hosts_.empty() ? nullptr : &hosts_}, memory, prev,
                  out);
  count_turn(false, operation.wants_turn());
  settle(number, false);
}

// Membership rides on results: all that have this one plan the next operations without the same ranks. A failure that
// the root of a reduce knows is known to no other rank.
void OperationWindow::exclude_failures_of(OperationNumber number) {
  const Operation& operation = slot(number);
  if (!operation.row().disseminates || operation.decision().list_length == 0) return;
  const auto* list = reinterpret_cast<const std::uint32_t*>(buffers_.data(operation.decision().list));
  for (std::uint32_t i = 0; i < operation.decision().list_length; ++i)
    if ((list[i] & of_living_host) == 0) members_.exclude(static_cast<Rank>(list[i] & ~contributed_bit));
}

void OperationWindow::on_message(const Message& message, Outbox& out) {
  assert(acceptable(message.operation));
  if (message.operation < dropped_upto_) return;  // nobody alive can need an answer
  Operation& operation = slot(message.operation);
  if (message.operation >= next_) {
    UCFT_SOMETIMES("a message is for an operation that is yet to be posted");
    if (!has_left_) operation.store(message, buffers_);
    return;
  }
  const bool was_finished = operation.finished(), wanted_turn = operation.wants_turn();
  operation.on_message(message, out);
  count_turn(wanted_turn, operation.wants_turn());
  settle(message.operation, was_finished);
}

// Operations that the rank has left before know that already.
void OperationWindow::on_failure(Rank rank, Outbox& out) {
  if (!failed_.insert(rank)) return;
  const auto let_go = std::ranges::find(let_go_, rank, &Leaver::rank);
  fail_in(rank, 0, let_go == let_go_.end() ? UINT64_MAX : let_go->from, out);
}

// Oldest first.
void OperationWindow::fail_in(Rank rank, OperationNumber from, OperationNumber end, Outbox& out) {
  for (OperationNumber number = std::max(from, dropped_upto_); number < std::min(end, next_);
       number = std::max(number + 1, dropped_upto_)) {
    Operation& operation = slot(number);
    const bool was_finished = operation.finished(), wanted_turn = operation.wants_turn();
    operation.on_failure(rank, out);
    count_turn(wanted_turn, operation.wants_turn());
    settle(number, was_finished);
  }
}

void OperationWindow::on_leave(Rank rank, OperationNumber from) {
  if (std::ranges::find(leavers_, rank, &Leaver::rank) == leavers_.end()) leavers_.push_back({rank, from});
}

Rank OperationWindow::take_leaver(Outbox& out) {
  const auto found = std::ranges::find_if(leavers_, [&](const Leaver& each) { return has_finished_before(each.from); });
  if (found == leavers_.end()) return no_rank;
  const Leaver leaver = *found;
  leavers_.erase(found);
  reported_.insert(leaver.rank);
  if (failed_.contains(leaver.rank)) return leaver.rank;
  if (!idle()) UCFT_SOMETIMES("a member leaves while operations run");
  let_go_.push_back(leaver);
  fail_in(leaver.rank, leaver.from, UINT64_MAX, out);
  return leaver.rank;
}

// A rank that has left itself finishes nothing more than what it has posted.
bool OperationWindow::has_finished_before(OperationNumber end) const {
  return (end <= next_ || has_left_) && finished_upto() >= std::min(end, next_);
}

void OperationWindow::on_left(Rank rank, bool was_needed, Outbox& out) {
  std::erase_if(leavers_, [&](const Leaver& each) { return each.rank == rank; });
  reported_.insert(rank);
  if (was_needed || std::ranges::find(let_go_, rank, &Leaver::rank) == let_go_.end()) on_failure(rank, out);
}

void OperationWindow::on_turn(Outbox& out, std::int64_t now_ns, bool may_gossip) {
  for (OperationNumber number = dropped_upto_; number < next_ && correcting_ > 0; ++number) {
    Operation& operation = slot(number);
    if (!operation.wants_turn()) continue;
    operation.on_turn(out, now_ns, may_gossip);
    count_turn(true, operation.wants_turn());
  }
}

OperationNumber OperationWindow::finished_upto() const {
  OperationNumber number = dropped_upto_;
  while (number < next_ && slot(number).finished()) ++number;
  return number;
}

void OperationWindow::say_waiting(Outbox& out) const {
  if (const OperationNumber oldest = finished_upto(); oldest < next_) slot(oldest).say_waiting(out);
}

void OperationWindow::settle(OperationNumber number, bool was_finished) {
  const Operation& operation = slot(number);
  if (was_finished || !operation.finished()) return;
  --unfinished_;
  completed_.push_back(number);
  if (operation.decision().list_length > 0) {
    const auto* list = reinterpret_cast<const std::uint32_t*>(buffers_.data(operation.decision().list));
    for (std::uint32_t i = 0; i < operation.decision().list_length; ++i) {
      if ((list[i] & of_living_host) != 0 && UCFT_SOMETIMES("a rank is missing whose host lives")) continue;
      reported_.insert(static_cast<Rank>(list[i] & ~contributed_bit));
      is_out_ = is_out_ || static_cast<Rank>(list[i] & ~contributed_bit) == me_;
    }
  }
  if (operation.arguments().counts_as_rooted() || number < window_) return;
  const OperationNumber end = number - window_ + 1;
  if (operation.decision().outcome == Outcome::mismatch)
    may_drop_upto_ = std::max(may_drop_upto_, end);
  else
    drop_up_to(end);
}

void OperationWindow::drop_up_to(OperationNumber end) {
  for (; dropped_upto_ < end; ++dropped_upto_) {
    Operation& operation = slot(dropped_upto_);
    count_turn(operation.wants_turn(), false);
    operation.reset(buffers_);
  }
}

void OperationWindow::release_all() {
  for (Operation& operation : slots_) operation.reset(buffers_);
}

}  // namespace ucft::detail
