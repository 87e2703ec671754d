#include "collectives/operation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ucft::detail {

// Differs, very likely, where ranks posted different things. Computed for every operation, so short: the fields packed
// into words, each mixed in by one multiplication.
std::uint16_t Arguments::signature() const {
  const auto word = [](auto a, auto b, auto c, auto d) {
    return static_cast<std::uint64_t>(a) << 48 ^ static_cast<std::uint64_t>(b) << 40 ^ static_cast<std::uint64_t>(c) << 32 ^
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(d));
  };
  // A longer correction delay shares bits with the count, whose difference shows in a message's length as well.
  std::uint64_t hash = count ^ static_cast<std::uint64_t>(correction_delay_us) << 18 ^
                       static_cast<std::uint64_t>(shape.delay_quarters) << 50;
  hash = (hash ^ word(kind, reduction.type, reduction.op, root)) * 0x9e3779b97f4a7c15ull;
  hash = (hash ^ hash >> 32 ^ word(shape.tree, shape.numbering, failure_info, shape.arity)) * 0x9e3779b97f4a7c15ull;
  hash = (hash ^ hash >> 32 ^ word(correction, 0, correction_distance, f)) * 0x9e3779b97f4a7c15ull;
  return static_cast<std::uint16_t>(hash >> 48);
}

bool FailedRanks::contains(Rank rank) const {
  return !ranks_.empty() && std::binary_search(ranks_.begin(), ranks_.end(), rank);
}

bool FailedRanks::insert(Rank rank) {
  const auto place = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  if (place != ranks_.end() && *place == rank) return false;
  ranks_.insert(place, rank);
  return true;
}

// ---- ballots and plans ----------------------------------------------------------------------------------------------

// Distance of a member from the first candidate, going up and around: the order of ballots.
std::int32_t Operation::ordinal(Rank rank) const {
  const std::int32_t distance = members_.position_of(rank) - first_position_;
  return distance >= 0 ? distance : distance + members_.size();
}

// The first member from `from` on, in ballot order, that is not known to have failed. This rank is one, so it ends.
Rank Operation::next_candidate(Rank from) const {
  std::int32_t position = members_.position_of(from);
  for (std::int32_t tried = 0; tried < members_.size(); ++tried) {
    const Rank candidate = members_.rank_at(position);
    if (!surroundings_.failed->contains(candidate)) return candidate;
    position = position + 1 == members_.size() ? 0 : position + 1;
  }
  assert(false && "every member is known to have failed, this rank included");
  return surroundings_.me;
}

// The papers' process number: the root is 0, the others follow in rank order.
std::int32_t Operation::process_of(Rank rank, Rank ballot) const {
  const std::int32_t distance = members_.position_of(rank) - members_.position_of(ballot);
  return distance >= 0 ? distance : distance + members_.size();
}

Rank Operation::rank_of(std::int32_t process, Rank ballot) const {
  const std::int32_t position = members_.position_of(ballot) + process;
  return members_.rank_at(position < members_.size() ? position : position - members_.size());
}

void Operation::broadcast_children_of(Rank ballot, std::vector<Rank>& children) const {
  const BroadcastTopology tree(arguments_.shape, members_.size());
  tree.children(process_of(surroundings_.me, ballot), children);
  for (Rank& child : children) child = rank_of(child, ballot);
}

void Operation::make_plan(Rank ballot) {
  const Rank first = arguments_.root;
  if (plan_.valid && plan_.ballot == ballot && plan_.me == surroundings_.me && plan_.first == first &&
      plan_.f == arguments_.f && plan_.shape == arguments_.shape && plan_.members == members_)
    return;
  plan_.valid = true;
  plan_.members = members_;
  plan_.me = surroundings_.me;
  plan_.first = first;
  plan_.ballot = ballot;
  plan_.f = arguments_.f;
  plan_.shape = arguments_.shape;

  const ReduceTopology topology(members_.size(), arguments_.f);
  const std::int32_t process = process_of(surroundings_.me, ballot);
  plan_.in_short_group = topology.in_short_group(process);
  plan_.has_complete_group = topology.complete_groups() > 0;
  topology.group_members(process, plan_.group_peers);
  const auto mine = std::find(plan_.group_peers.begin(), plan_.group_peers.end(), process);
  plan_.place_in_group = static_cast<std::size_t>(mine - plan_.group_peers.begin());
  plan_.group_peers.erase(mine);
  for (Rank& peer : plan_.group_peers) peer = rank_of(peer, ballot);
  topology.children(process, plan_.children);
  for (Rank& child : plan_.children) child = rank_of(child, ballot);
  plan_.parent = process == 0 ? no_rank : rank_of(topology.parent(process), ballot);
  broadcast_children_of(ballot, plan_.broadcast_children);
}

// ---- entry points ---------------------------------------------------------------------------------------------------

void Operation::start(OperationNumber number, const Arguments& arguments, const Membership& members,
                      Surroundings surroundings, const Memory& memory, Rank prev, Outbox& out) {
  number_ = number;
  arguments_ = arguments;
  signature_ = arguments.signature();
  members_ = members;
  surroundings_ = surroundings;
  memory_ = memory;
  prev_ = prev;
  started_ = true;

  const bool root_is_member = members_.contains(arguments.root);
  first_position_ = members_.position_of(arguments.root);
  if (first_position_ == members_.size()) first_position_ = 0;
  const Rank first = members_.rank_at(first_position_);
  if (arguments.rooted() && !root_is_member) {   // all know it: members are agreed
    give_up(Outcome::root_failed);
    decision_.first_decided = decision_.accepted = first;
    finish(out.buffers());
    return;
  }
  promised_ = next_candidate(first);
  if (arguments.kind == Kind::reduce && promised_ != arguments.root) {
    give_up(Outcome::root_failed);
    finish(out.buffers());
    return;
  }
  join(out);
}

void Operation::on_message(const Message& message, Outbox& out) {
  if (!started_) return store(message, out.buffers());
  if (message.phase == Phase::mismatch)
    return on_mismatch(members_.contains(message.attempt) ? message.attempt : message.peer, out);
  if (message.signature != signature_ || !has_right_length(message, out.buffers())) return on_mismatch(message.peer, out);
  if (promised_ == no_rank || !members_.contains(message.peer) || !members_.contains(message.attempt)) return;
  if (message.phase == Phase::ask) return on_ask(message, out);
  if (before(message.attempt, promised_)) return;   // of a root that has failed

  switch (message.phase) {
    case Phase::broadcast:
      return on_broadcast(message, out);
    case Phase::correction:
      return on_correction(message, out);
    case Phase::decided:
      return deliver(message, out);
    default:
      break;
  }
  if (message.attempt != promised_) return store(message, out.buffers());
  if (message.phase == Phase::gather) return on_gather(message, out);
  if (message.prev != prev_ && message.prev != any_rank && prev_ != any_rank) return;   // an orphan of a decision that did not survive: its sender must be dead
  Arrivals& arrivals = message.phase == Phase::group ? group_ : message.phase == Phase::up ? children_ : gather_;
  if (arrivals.deliver(message, out.buffers())) advance(out);
}

// Signatures of different counts may be equal; lengths are not.
bool Operation::has_right_length(const Message& message, const Buffers& buffers) const {
  if (!message.has(has_value)) return true;
  const bool carries = arguments_.kind != Kind::barrier && message.outcome == Outcome::success;
  return buffers.bytes(message.value) == (carries ? arguments_.bytes() : 0);
}

void Operation::on_failure(Rank rank, Outbox& out) {
  if (!started_ || promised_ == no_rank || !members_.contains(rank)) return;
  if (rank == promised_) {
    if (arguments_.kind == Kind::reduce) {
      if (finished_) return;
      give_up(Outcome::root_failed);
      return finish(out.buffers());
    }
    promised_ = next_candidate(rank);
    return join(out);
  }
  const bool changed = group_.fail(rank) | children_.fail(rank) | gather_.fail(rank);
  ask_if_cut_off(out);
  if (rank == coloured_by_) panic_if_alone();
  if (changed) advance(out);
}

// As if the decision had come: whoever waits for it from this rank gets it. In another ballot than this rank's it may be
// refused there; that ballot has another root because of a failure, and then all hear of the end themselves.
void Operation::on_gone(Outbox& out) {
  if (finished_ || arguments_.kind != Kind::barrier) return;
  Message decision = compose(Phase::broadcast, promised_);
  decision.first_decided = promised_;
  decision.flags = has_value;
  deliver(decision, out);
  if (is_root())
    decide(out);
  else
    spread(promised_, out);
}

void Operation::store(const Message& message, Buffers& buffers) {
  buffers.retain(message.value);
  buffers.retain(message.list);
  inbox_.push_back(message);
}

void Operation::reset(Buffers& buffers) {
  for (Message& message : inbox_) {
    buffers.release(message.value);
    buffers.release(message.list);
  }
  inbox_.clear();
  clear_arrivals(buffers);
  buffers.release(memory_.input);
  buffers.release(memory_.result);
  buffers.release(decision_.value);
  buffers.release(decision_.list);
  memory_ = Memory{};
  decision_ = Decision{};
  started_ = finished_ = delivered_ = false;
  up_sent_ = root_decided_ = gathering_ = asked_ = mismatch_told_ = false;
  promised_ = correction_ballot_ = coloured_by_ = no_rank;
  if (arguments_.correction != Correction::none) correction_.reset({});
  attempts_ = 0;
  askers_.clear();
  forwarded_.clear();
}

// ---- a ballot -------------------------------------------------------------------------------------------------------

// Takes part in the ballot of promised_: with what was decided, if this rank knows it, else with its input.
void Operation::join(Outbox& out) {
  ++attempts_;
  make_plan(promised_);
  freeze_contribution();
  up_sent_ = root_decided_ = gathering_ = asked_ = false;
  gather_.clear(out.buffers());
  if (contributes()) {
    await(group_, plan_.group_peers, out.buffers());
    await(children_, plan_.children, out.buffers());
    for (Rank peer : plan_.group_peers)
      if (!surroundings_.failed->contains(peer)) out.send(peer, compose_contribution(Phase::group));
  } else if (is_root()) {
    if (memory_.lacks)
      lack_memory(surroundings_.me);
    else
      decision_.contributors = 1;
    decision_.value = memory_.input;   // a copy, made when it was posted
    out.buffers().retain(memory_.input);
    decision_.first_decided = promised_;
    decide(out);
  }
  ask_if_cut_off(out);
  advance(out);
  drain_inbox(out);
}

void Operation::freeze_contribution() {
  joined_ = Message{};
  if (delivered_) {
    joined_ = compose_decision(Phase::group, promised_);
    joined_.flags |= is_decided;
    joined_.accepted = decision_.accepted;
  } else if (arguments_.kind != Kind::broadcast) {
    joined_.value = memory_.input;
    joined_.flags = memory_.lacks ? 0 : has_value;
    joined_.contributors = 1;
    if (memory_.lacks) {
      joined_.outcome = Outcome::no_memory;
      joined_.contributors = static_cast<std::uint32_t>(surroundings_.me + 1);
    }
  }
}

void Operation::await(Arrivals& arrivals, const std::vector<Rank>& ranks, Buffers& buffers) {
  arrivals.await(ranks, buffers);
  if (surroundings_.failed->ranks().empty()) return;
  for (Rank rank : ranks)
    if (surroundings_.failed->contains(rank)) arrivals.fail(rank);
}

// Messages that came before the operation was started, or for a later ballot. What is still too early is stored again.
void Operation::drain_inbox(Outbox& out) {
  if (inbox_.empty()) return;
  std::vector<Message> messages;
  messages.swap(draining_);   // keeps its capacity for the next time
  messages.swap(inbox_);
  for (const Message& message : messages) {
    on_message(message, out);
    out.buffers().release(message.value);
    out.buffers().release(message.list);
  }
  messages.clear();
  if (draining_.capacity() < messages.capacity()) draining_.swap(messages);
}

// Goes as far as the arrivals allow.
void Operation::advance(Outbox& out) {
  if (!contributes()) return;
  if (is_root())
    advance_root(out);
  else
    advance_member(out);
  // Done with this ballot after the result is known (a later root's): what others lent must not wait for the window.
  if (finished_ && (is_root() ? root_decided_ : up_sent_)) clear_arrivals(out.buffers());
}

// Algorithm 3. A member of the short group has sent its value to the root itself: it passes only its children's sum up,
// and it has no children.
void Operation::advance_member(Outbox& out) {
  if (up_sent_) return;
  if (plan_.in_short_group) return pass_up_nothing(out);
  if (group_.settled() && children_.settled()) pass_up(out);
}

void Operation::pass_up(Outbox& out) {
  Buffers& buffers = out.buffers();
  Sum sum;
  std::vector<std::uint32_t> failures;
  std::uint32_t failed_count = 0;
  bool unclean = false, truncated = false;
  add_group(sum, buffers);
  for (const Arrivals::Peer& peer : group_.peers()) {
    if (peer.state != Arrivals::State::failed) continue;
    note_failure(failures, peer.rank, false);
    ++failed_count;
  }
  for (const Arrivals::Peer& child : children_.peers()) {
    if (child.state == Arrivals::State::failed) {
      unclean = true;
      ++failed_count;
      note_failure(failures, child.rank, true);   // its group may have its value
      continue;
    }
    add(sum, child.message, buffers);
    note_list(failures, child.message, buffers);
    failed_count += child.message.failed_count;
    unclean |= child.message.has(is_unclean);
    truncated |= child.message.has(list_truncated);
  }

  Message up = compose(Phase::up, promised_);
  if (sum.decided != nullptr) {
    up = *sum.decided;
    up.phase = Phase::up;
    up.flags = static_cast<std::uint8_t>(up.flags & ~is_unclean);
    up.value = buffers.localize(up.value);
    if (up.value == no_buffer && sum.decided->value != no_buffer) {   // what it is can't be said; that there is one, can
      up.outcome = Outcome::no_memory;
      up.contributors = static_cast<std::uint32_t>(surroundings_.me + 1);
      up.flags = static_cast<std::uint8_t>(up.flags & ~has_value);
    }
  } else if (sum.lacks_memory != no_rank) {
    up.outcome = Outcome::no_memory;
    up.contributors = static_cast<std::uint32_t>(sum.lacks_memory + 1);
  } else {
    up.value = sum.value;
    up.contributors = sum.contributors;
    up.flags = sum.any ? has_value : 0;
  }
  if (sum.decided == nullptr && arguments_.failure_info != FailureInfo::bit) up.failed_count = failed_count;
  if (sum.decided == nullptr && arguments_.failure_info == FailureInfo::list) {
    truncated |= failures.size() > failure_list_limit;
    up.list_length = static_cast<std::uint32_t>(std::min<std::size_t>(failures.size(), failure_list_limit));
    up.list = make_list(failures, buffers);
    if (up.list == no_buffer && up.list_length > 0) up.list_length = 0, truncated = true;   // no memory, not even of the heap
    if (truncated) up.flags |= list_truncated;
  }
  up.operation = number_;
  up.attempt = promised_;
  up.signature = signature_;
  up.prev = prev_;
  if (unclean) up.flags |= is_unclean;
  out.send(plan_.parent, up);
  buffers.release(sum.decided == nullptr ? up.list : up.value);
  if (sum.fresh) buffers.release(sum.value);
  up_sent_ = true;
  if (arguments_.kind != Kind::reduce) return;
  if (sum.lacks_memory == surroundings_.me) lack_memory(surroundings_.me);
  finish(buffers);
}

void Operation::pass_up_nothing(Outbox& out) {
  Message up = compose(Phase::up, promised_);
  up.prev = prev_;
  out.send(plan_.parent, up);
  up_sent_ = true;
  if (arguments_.kind != Kind::reduce) return;
  if (memory_.lacks) lack_memory(surroundings_.me);
  finish(out.buffers());
}

// Algorithm 2: the first child whose subtree is clean has the sum of everything, but for the root's own group.
void Operation::advance_root(Outbox& out) {
  if (root_decided_) return;
  if (delivered_) return decide(out);
  if (gathering_) {
    if (gather_.settled()) conclude_gather(out);
    return;
  }
  if (!group_.settled()) return;
  Buffers& buffers = out.buffers();
  Sum sum;
  if (!plan_.has_complete_group) {   // all are in my group
    add_group(sum, buffers);
    return decide_sum(sum, {}, false, out);
  }
  for (const Arrivals::Peer& child : children_.peers()) {
    if (child.state != Arrivals::State::delivered || child.message.has(is_unclean)) continue;
    if (plan_.in_short_group) {   // its sum always comes last
      add(sum, child.message, buffers);
      Sum group;
      add_group(group, buffers);
      add_sum(sum, group, buffers);
    } else {
      add_group(sum, buffers);
      add(sum, child.message, buffers);
    }
    std::vector<std::uint32_t> missing;
    note_list(missing, child.message, buffers);
    return decide_sum(sum, missing, child.message.has(list_truncated), out);
  }
  if (children_.settled()) start_gather(out);
}

// No subtree is clean. Either more than f ranks failed, or some of them in earlier operations, whose failures have not
// reached the plan yet. The root asks every survivor: one of them may hold a decision of an earlier root.
void Operation::start_gather(Outbox& out) {
  gathering_ = true;
  std::vector<Rank> others;
  for (std::int32_t position = 0; position < members_.size(); ++position)
    if (members_.rank_at(position) != surroundings_.me) others.push_back(members_.rank_at(position));
  await(gather_, others, out.buffers());
  for (const Arrivals::Peer& peer : gather_.peers())
    if (peer.state == Arrivals::State::awaited) out.send(peer.rank, compose(Phase::gather, promised_));
  advance(out);
}

// A rank that has delivered meanwhile did so in a later ballot: this one's root is dead to it.
void Operation::on_gather(const Message& message, Outbox& out) {
  if (message.peer != promised_ || (delivered_ && !joined_.has(is_decided))) return;
  out.send(message.peer, compose_contribution(Phase::gather_reply));
}

void Operation::conclude_gather(Outbox& out) {
  Buffers& buffers = out.buffers();
  Sum sum;
  for (const Arrivals::Peer& peer : gather_.peers())
    if (peer.state == Arrivals::State::delivered && peer.message.has(is_decided)) add(sum, peer.message, buffers);
  std::vector<std::uint32_t> missing;
  if (sum.decided == nullptr && arguments_.kind != Kind::broadcast) {
    if (too_many_failed()) {
      give_up(Outcome::too_many_failures);
    } else {
      add_gathered(sum, buffers);
      for (const Arrivals::Peer& peer : gather_.peers())
        if (peer.state == Arrivals::State::failed) note_failure(missing, peer.rank, false);
    }
  }
  decide_sum(sum, missing, false, out);
}

bool Operation::too_many_failed() const {
  std::int32_t new_failures = 0;
  for (const Arrivals::Peer& peer : gather_.peers())
    new_failures += peer.state == Arrivals::State::failed && !surroundings_.reported->contains(peer.rank);
  return new_failures > arguments_.f;
}

// The sum that a clean subtree would have sent, in the same order, so with the same bits.
void Operation::add_gathered(Sum& sum, Buffers& buffers) {
  const ReduceTopology topology(members_.size(), arguments_.f);
  const bool short_group = topology.in_short_group(0);
  if (!short_group) add(sum, joined_, buffers);
  add_gathered_subtree(sum, 1, buffers);
  if (short_group) add_gathered_group(sum, 0, buffers);
}

void Operation::add_gathered_subtree(Sum& sum, std::int32_t process, Buffers& buffers) {
  const ReduceTopology topology(members_.size(), arguments_.f);
  if (topology.in_short_group(process)) return;   // the root adds it, last
  Sum subtree;
  add_gathered_group(subtree, process, buffers);
  std::vector<std::int32_t> children;
  topology.children(process, children);
  for (std::int32_t child : children) add_gathered_subtree(subtree, child, buffers);
  add_sum(sum, subtree, buffers);
}

void Operation::add_gathered_group(Sum& sum, std::int32_t process, Buffers& buffers) {
  std::vector<std::int32_t> group;
  ReduceTopology(members_.size(), arguments_.f).group_members(process, group);
  Sum group_sum;
  for (std::int32_t member : group)
    if (const Message* contribution = gathered_from(rank_of(member, promised_)))
      add(group_sum, *contribution, buffers);
  add_sum(sum, group_sum, buffers);
}

const Message* Operation::gathered_from(Rank rank) const {
  if (rank == surroundings_.me) return &joined_;
  for (const Arrivals::Peer& peer : gather_.peers())
    if (peer.rank == rank) return peer.state == Arrivals::State::delivered ? &peer.message : nullptr;
  return nullptr;
}

// ---- sums -----------------------------------------------------------------------------------------------------------

// sum = sum + contribution, in this order. A decision absorbs everything; of two, the one accepted at the later ballot.
void Operation::add(Sum& sum, const Message& contribution, Buffers& buffers) {
  if (contribution.has(is_decided)) {
    if (sum.decided == nullptr || before(sum.decided->accepted, contribution.accepted)) sum.decided = &contribution;
    return;
  }
  if (sum.decided != nullptr || sum.lacks_memory != no_rank) return;
  if (contribution.outcome == Outcome::no_memory) sum.lacks_memory = static_cast<Rank>(contribution.contributors) - 1;
  if (!contribution.has(has_value)) return;
  sum.contributors += contribution.contributors;
  if (!sum.any) {
    sum.any = true;
    sum.value = contribution.value;
    return;
  }
  if (arguments_.count == 0) return;
  const BufferId target = sum.fresh ? sum.value : buffers.allocate(arguments_.bytes());
  if (target == no_buffer) {
    sum.lacks_memory = surroundings_.me;
    return;
  }
  combine(arguments_.reduction, buffers.data(target), buffers.data(sum.value), buffers.data(contribution.value),
          arguments_.count);
  sum.value = target;
  sum.fresh = true;
}

// sum = sum + part. Takes over what part has allocated.
void Operation::add_sum(Sum& sum, Sum& part, Buffers& buffers) {
  Message message;
  message.value = part.value;
  message.contributors = part.contributors;
  message.flags = part.any ? has_value : 0;
  if (part.lacks_memory != no_rank) {
    message.outcome = Outcome::no_memory;
    message.contributors = static_cast<std::uint32_t>(part.lacks_memory + 1);
    message.flags = 0;
  }
  add(sum, part.decided != nullptr ? *part.decided : message, buffers);
  if (!part.fresh) return;
  if (sum.value == part.value)
    sum.fresh = true;
  else
    buffers.release(part.value);
}

// In rank order, my own contribution at its own place.
void Operation::add_group(Sum& sum, Buffers& buffers) {
  if (joined_.has(is_decided)) add(sum, joined_, buffers);   // absorbs: nothing is combined any more
  std::size_t place = 0;
  for (const Arrivals::Peer& peer : group_.peers()) {
    if (place++ == plan_.place_in_group) add(sum, joined_, buffers);
    if (peer.state == Arrivals::State::delivered) add(sum, peer.message, buffers);
  }
  if (place == plan_.place_in_group) add(sum, joined_, buffers);
}

// The root's decision: an earlier one, or this sum. missing_in_subtree: ranks whose value the chosen subtree lacks.
void Operation::decide_sum(Sum& sum, std::span<const std::uint32_t> missing_in_subtree, bool subtree_truncated,
                           Outbox& out) {
  Buffers& buffers = out.buffers();
  if (sum.decided != nullptr) {
    take_over(*sum.decided, buffers);
    if (sum.fresh) buffers.release(sum.value);
    return decide(out);
  }

  if (arguments_.kind == Kind::broadcast && decision_.outcome == Outcome::success) give_up(Outcome::root_failed);
  if (sum.lacks_memory != no_rank) lack_memory(sum.lacks_memory);
  std::vector<std::uint32_t> failed(missing_in_subtree.begin(), missing_in_subtree.end());
  decision_.truncated = subtree_truncated;
  if (plan_.in_short_group)
    for (const Arrivals::Peer& peer : group_.peers())
      if (peer.state == Arrivals::State::failed) note_failure(failed, peer.rank, false);
  std::vector<std::uint32_t> elsewhere;   // seen in other subtrees; the chosen one may have their values
  for (const Arrivals::Peer& child : children_.peers())
    if (child.state == Arrivals::State::delivered) note_list(elsewhere, child.message, buffers);
  for (std::uint32_t entry : elsewhere) note_failure(failed, static_cast<Rank>(entry & ~contributed_bit), true);
  for (Rank rank : surroundings_.failed->ranks())
    if (members_.contains(rank)) note_failure(failed, rank, true);
  decision_.truncated |= failed.size() > failure_list_limit;
  decision_.failed_count = static_cast<std::uint32_t>(failed.size());
  decision_.list_length = static_cast<std::uint32_t>(std::min<std::size_t>(failed.size(), failure_list_limit));
  decision_.list = make_list(failed, buffers);
  if (decision_.list == no_buffer && decision_.list_length > 0) decision_.list_length = 0, decision_.truncated = true;
  decision_.first_decided = promised_;
  if (decision_.outcome == Outcome::success) {
    decision_.contributors = sum.contributors;
    keep_result(sum.value, buffers);
  }
  if (sum.fresh) buffers.release(sum.value);
  decide(out);
}

// ---- failure information (section 4.4) ------------------------------------------------------------------------------

void Operation::note_failure(std::vector<std::uint32_t>& list, Rank rank, bool contributed) const {
  const auto same = [&](std::uint32_t entry) { return static_cast<Rank>(entry & ~contributed_bit) == rank; };
  if (std::any_of(list.begin(), list.end(), same)) return;
  list.push_back(static_cast<std::uint32_t>(rank) | (contributed ? contributed_bit : 0));
}

void Operation::note_list(std::vector<std::uint32_t>& list, const Message& message, const Buffers& buffers) const {
  if (message.list_length == 0) return;
  const auto* entries = reinterpret_cast<const std::uint32_t*>(buffers.data(message.list));
  list.insert(list.end(), entries, entries + message.list_length);
}

BufferId Operation::make_list(const std::vector<std::uint32_t>& list, Buffers& buffers) const {
  const std::size_t length = std::min<std::size_t>(list.size(), failure_list_limit);
  return length == 0 ? no_buffer : buffers.copy_in(list.data(), length * sizeof(std::uint32_t));
}

// ---- decisions ------------------------------------------------------------------------------------------------------

// The root of promised_ has (or had) its decision in decision_: tell the tree and whoever asked.
void Operation::decide(Outbox& out) {
  root_decided_ = true;
  decision_.accepted = promised_;
  delivered_ = true;
  if (!finished_) finish(out.buffers());
  if (arguments_.kind == Kind::reduce) return;
  for (Rank child : plan_.broadcast_children)
    if (!surroundings_.failed->contains(child)) out.send(child, compose_decision(Phase::broadcast, promised_));
  for (Rank asker : askers_) out.send(asker, compose_decision(Phase::decided, promised_));
  askers_.clear();
  start_correction(promised_);
}

void Operation::on_broadcast(const Message& message, Outbox& out) {
  const Rank ballot = message.attempt;
  if (std::find(forwarded_.begin(), forwarded_.end(), ballot) != forwarded_.end()) return;
  deliver(message, out);
  spread(ballot, out);
}

void Operation::spread(Rank ballot, Outbox& out) {
  forwarded_.push_back(ballot);
  std::vector<Rank> later_children;
  if (ballot != promised_) broadcast_children_of(ballot, later_children);
  for (Rank child : ballot == promised_ ? plan_.broadcast_children : later_children)
    if (!surroundings_.failed->contains(child)) out.send(child, compose_decision(Phase::broadcast, ballot));
  start_correction(ballot);
}

// The decision that a message carries becomes this rank's, with references of its own.
void Operation::take_over(const Message& message, Buffers& buffers) {
  decision_ = Decision{};
  decision_.outcome = message.outcome;
  decision_.truncated = message.has(list_truncated);
  decision_.first_decided = message.first_decided;
  if (has_culprit(message.outcome))
    decision_.culprit = static_cast<Rank>(message.contributors) - 1;
  else
    decision_.contributors = message.contributors;
  decision_.failed_count = message.failed_count;
  decision_.list_length = message.list_length;
  decision_.list = message.list;
  buffers.retain(decision_.list);
  keep_result(message.value, buffers);
}

// In a block of our own: what was lent must not wait for the window. Without memory this rank, and those that have it from
// this one, get the decision without its value: its failures count all the same.
void Operation::keep_result(BufferId value, Buffers& buffers) {
  if (value == no_buffer) return;
  if (buffers.is_adopted(value) && memory_.result != no_buffer) {
    std::memcpy(buffers.data(memory_.result), buffers.data(value), buffers.bytes(value));
    decision_.value = std::exchange(memory_.result, no_buffer);
  } else {
    decision_.value = buffers.localize(value);
  }
  if (decision_.value == no_buffer) lack_memory(surroundings_.me);
}

void Operation::lack_memory(Rank culprit) {
  decision_.outcome = Outcome::no_memory;
  decision_.culprit = culprit;
  decision_.contributors = 0;
}

void Operation::deliver(const Message& message, Outbox& out) {
  if (delivered_) {
    if (before(decision_.accepted, message.attempt)) decision_.accepted = message.attempt;
    return;
  }
  take_over(message, out.buffers());
  decision_.accepted = message.attempt;
  delivered_ = true;
  // The root has what it needed. My parent may still count on a message from me: an empty one that nobody will use.
  if (contributes() && !is_root() && !up_sent_) {
    Message up = compose(Phase::up, promised_);
    up.prev = prev_;
    up.flags = is_unclean;
    out.send(plan_.parent, up);
    up_sent_ = true;
  }
  finish(out.buffers());
}

void Operation::clear_arrivals(Buffers& buffers) {
  group_.clear(buffers);
  children_.clear(buffers);
  gather_.clear(buffers);
}

void Operation::finish(Buffers& buffers) {
  finished_ = true;
  clear_arrivals(buffers);
  buffers.release(std::exchange(memory_.result, no_buffer));
  if (arguments_.kind == Kind::reduce) return;   // its root may still ask for the input
  buffers.release(std::exchange(memory_.input, no_buffer));
}

void Operation::give_up(Outcome outcome) { decision_.outcome = outcome; }

// Backstop: an ancestor in the broadcast tree is dead, so nothing may ever come down to me.
void Operation::ask_if_cut_off(Outbox& out) {
  if (asked_ || delivered_ || is_root() || arguments_.kind == Kind::reduce) return;
  if (surroundings_.failed->ranks().empty()) return;
  const BroadcastTopology tree(arguments_.shape, members_.size());
  std::int32_t process = process_of(surroundings_.me, promised_);
  while ((process = tree.parent(process)) != 0) {
    if (!surroundings_.failed->contains(rank_of(process, promised_))) continue;
    asked_ = true;
    out.send(promised_, compose(Phase::ask, promised_));
    return;
  }
}

// Only the root of a ballot answers for it.
void Operation::on_ask(const Message& message, Outbox& out) {
  if (message.attempt != surroundings_.me) return;
  if (delivered_)
    out.send(message.peer, compose_decision(Phase::decided, message.attempt));
  else
    askers_.push_back(message.peer);
}

// A bug of the caller: no agreement is owed, but nobody must hang. Everyone is told once, and tells everyone once.
void Operation::on_mismatch(Rank culprit, Outbox& out) {
  if (mismatch_told_) return;
  mismatch_told_ = true;
  for (std::int32_t position = 0; position < members_.size(); ++position) {
    const Rank rank = members_.rank_at(position);
    if (rank != surroundings_.me && !surroundings_.failed->contains(rank))
      out.send(rank, compose(Phase::mismatch, culprit));
  }
  decision_.first_decided = any_rank;   // there may be several answers to this one
  if (finished_) return;
  give_up(Outcome::mismatch);
  decision_.culprit = culprit;
  decision_.accepted = promised_;
  delivered_ = root_decided_ = up_sent_ = true;
  finish(out.buffers());
}

// ---- messages -------------------------------------------------------------------------------------------------------

Message Operation::compose(Phase phase, Rank attempt) const {
  Message message;
  message.operation = number_;
  message.phase = phase;
  message.attempt = attempt;
  message.signature = signature_;
  return message;
}

Message Operation::compose_decision(Phase phase, Rank attempt) const {
  Message message = compose(phase, attempt);
  message.first_decided = decision_.first_decided;
  message.outcome = decision_.outcome;
  message.contributors = has_culprit(decision_.outcome) ? static_cast<std::uint32_t>(decision_.culprit + 1) : decision_.contributors;
  message.failed_count = decision_.failed_count;
  message.list_length = decision_.list_length;
  message.value = decision_.value;
  message.list = decision_.list;
  message.flags = static_cast<std::uint8_t>((decision_.outcome == Outcome::success ? has_value : 0) |
                                            (decision_.truncated ? list_truncated : 0));
  return message;
}

Message Operation::compose_contribution(Phase phase) const {
  Message message = joined_;
  message.operation = number_;
  message.phase = phase;
  message.attempt = promised_;
  message.signature = signature_;
  message.prev = prev_;
  return message;
}

// ---- correction -----------------------------------------------------------------------------------------------------

void Operation::enter_correction(Rank ballot) {
  if (correction_ballot_ == ballot) return;
  correction_ballot_ = ballot;
  coloured_by_ = no_rank;
  correction_.reset({arguments_.correction, arguments_.correction_distance, arguments_.f, members_.size()});
}

// A process coloured by the tree sends along the ring; one coloured by correction delivers and stays silent.
void Operation::start_correction(Rank ballot) {
  if (arguments_.correction == Correction::none) return;
  enter_correction(ballot);
  coloured_by_ = no_rank;
  turn_wanted_since_us_ = -1;
  correction_.start();
}

void Operation::on_correction(const Message& message, Outbox& out) {
  const bool was_delivered = delivered_;
  deliver(message, out);
  if (!note_correction(message)) return;
  // The opportunistic forms: whoever has the value spreads it, so one correction saves all below a dead process. The
  // other forms measure gaps, which ranks that only correction has reached must not hide.
  if (!was_delivered && is_opportunistic(arguments_.correction)) return spread(message.attempt, out);
  if (arguments_.correction != Correction::failure_proof) return;
  if (message.has(panics)) return correction_.panic();
  if (message.has(lets_go))
    coloured_by_ = no_rank;
  else if (!was_delivered)
    coloured_by_ = message.peer;
  panic_if_alone();
}

// A right-moving message tells how near a process coloured by the tree is on my left; one that panics need not be one.
// False: of an earlier ballot than the one that this rank corrects in.
bool Operation::note_correction(const Message& message) {
  if (correction_ballot_ != no_rank && before(message.attempt, correction_ballot_)) return false;
  enter_correction(message.attempt);
  if (message.has(panics)) return true;
  const std::int32_t size = members_.size();
  const bool from_left = message.has(moves_right);
  const std::int32_t difference =
      process_of(surroundings_.me, message.attempt) - process_of(message.peer, message.attempt);
  correction_.hear(from_left, ((from_left ? difference : -difference) + size) % size);
  return true;
}

// Failure-proof: the one that coloured me is dead, and may have reached nobody else. Of a ballot whose root is dead as
// well nobody would take it.
void Operation::panic_if_alone() {
  if (coloured_by_ == no_rank || !surroundings_.failed->contains(coloured_by_)) return;
  if (!before(correction_ballot_, promised_)) correction_.panic();
}

bool Operation::turn_is_due(std::int64_t now_us) {
  if (correction_.panics()) return true;
  if (turn_wanted_since_us_ < 0) turn_wanted_since_us_ = now_us;
  return now_us - turn_wanted_since_us_ >= arguments_.correction_delay_us;
}

void Operation::on_turn(Outbox& out) {
  if (!wants_turn()) return;
  const auto send = correction_.turn();
  if (!send) return;
  const std::int32_t size = members_.size();
  const std::int32_t mine = process_of(surroundings_.me, correction_ballot_);
  const Rank target = rank_of((mine + (send->right ? send->distance : size - send->distance)) % size, correction_ballot_);
  if (surroundings_.failed->contains(target)) return;
  Message message = compose_decision(Phase::correction, correction_ballot_);
  if (send->right) message.flags |= moves_right;
  if (send->word == RingCorrection::Word::exit) message.flags |= lets_go;
  if (send->word == RingCorrection::Word::panic) message.flags |= panics;
  out.send(target, message);
}

}  // namespace ucft::detail
