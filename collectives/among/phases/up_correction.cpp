#include "collectives/among/phases/up_correction.hpp"

namespace ucft::detail {

void await(Arrivals& arrivals, const std::vector<Rank>& ranks, const Ballots& ballots, Buffers& buffers) {
  arrivals.await(ranks, buffers);
  if (!ballots.any_failed()) return;
  for (Rank rank : ranks)
    if (ballots.has_failed(rank)) arrivals.fail(rank);
}

// Algorithm 1.
void UpCorrection::start(const BallotPlan& plan, const Ballots& ballots, Outbox& out) {
  await(group_, plan.group_peers, ballots, out.buffers());
  await(children_, plan.children, ballots, out.buffers());
  for (Rank peer : plan.group_peers)
    if (!ballots.has_failed(peer)) out.send(peer, mine_);
}

bool UpCorrection::on_message(const Message& message, Buffers& buffers) {
  return (message.phase == Phase::group ? group_ : children_).deliver(message, buffers);
}

void UpCorrection::clear(Buffers& buffers) {
  group_.clear(buffers);
  children_.clear(buffers);
}

void UpCorrection::add_group(Sum& sum, const BallotPlan& plan) const {
  if (mine_.has(is_decided)) sum.add(mine_);  // absorbs: nothing is combined any more
  std::size_t place = 0;
  for (const Arrivals::Peer& peer : group_.peers()) {
    if (place++ == plan.place_in_group) sum.add(mine_);
    if (peer.state == Arrivals::State::delivered) sum.add(peer.message);
  }
  if (place == plan.place_in_group) sum.add(mine_);
}

void UpCorrection::note_missing(FailureList& failed, const Buffers& buffers) const {
  failed.note_missing(mine_, buffers);
  for (const Arrivals::Peer& peer : group_.peers())
    if (peer.state == Arrivals::State::delivered) failed.note_missing(peer.message, buffers);
}

// Algorithm 3.
bool UpCorrection::pass_up(Message up, const Arguments& arguments, const BallotPlan& plan, const Ballots& ballots,
                           Outbox& out) {
  if (plan.in_short_group) {
    pass_up_nothing(up, plan, out);
    return mine_.outcome != Outcome::no_memory || mine_.has(is_decided);
  }
  Buffers& buffers = out.buffers();
  Sum sum(arguments, ballots, buffers);
  FailureList failures;
  std::uint32_t failed_count = 0;
  bool unclean = false;
  add_group(sum, plan);
  note_missing(failures, buffers);
  for (const Arrivals::Peer& peer : group_.peers()) {
    if (peer.state != Arrivals::State::failed) continue;
    failures.note(peer.rank, false);
    ++failed_count;
  }
  for (const Arrivals::Peer& child : children_.peers()) {
    if (child.state == Arrivals::State::failed) {
      unclean = true;
      ++failed_count;
      failures.note(child.rank, true);  // its group may have its value
      continue;
    }
    sum.add(child.message);
    failures.append(child.message, buffers);
    failed_count += child.message.failed_count;
    unclean |= child.message.has(is_unclean);
  }

  bool owns_value = false;
  if (sum.decided() != nullptr) {
    owns_value = tell_of_decision(*sum.decided(), up, ballots, buffers);
  } else {
    if (sum.lacks_memory() != no_rank) {
      up.blame(sum.lacks_memory());
    } else {
      up.value = sum.value();
      up.contributors = sum.contributors();
      up.flags = sum.any() ? has_value : 0;
    }
    if (arguments.failure_info != FailureInfo::bit) up.failed_count = failed_count;
    if (arguments.failure_info == FailureInfo::list) {
      up.list = failures.store(buffers, up.list_length);
      if (failures.truncated()) up.flags |= list_truncated;
    }
  }
  if (unclean) up.flags |= is_unclean;
  out.send(plan.parent, up);
  if (sum.decided() == nullptr) buffers.release(up.list);
  if (owns_value) buffers.release(up.value);
  passed_up_ = true;
  return sum.decided() != nullptr || sum.lacks_memory() != ballots.me();
}

// True: up.value has a reference of its own.
bool UpCorrection::tell_of_decision(const Message& decided, Message& up, const Ballots& ballots,
                                    Buffers& buffers) const {
  const Message blank = up;
  up = decided;
  up.operation = blank.operation;
  up.signature = blank.signature;
  up.phase = blank.phase;
  up.attempt = blank.attempt;
  up.prev = blank.prev;
  up.flags = static_cast<std::uint8_t>(up.flags & ~is_unclean);
  up.value = buffers.localize(up.value);
  if (up.value || !decided.value) return true;
  up.blame(ballots.me());  // what it is can't be said; that there is one, can
  return false;
}

void UpCorrection::pass_up_nothing(Message up, const BallotPlan& plan, Outbox& out) {
  out.send(plan.parent, up);
  passed_up_ = true;
}

}  // namespace ucft::detail
