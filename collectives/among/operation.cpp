#include "collectives/among/operation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

std::vector<Rank> Operation::awaited() const {
  std::vector<Rank> ranks;
  if (!started_ || finished_) return ranks;
  if (row_->goes_straight) exchange_.add_awaited(ballots_, ranks);
  if (joins_later_) return ranks;
  optimistic_.add_awaited(ballots_, ranks);
  for (const Arrivals* arrivals : {&up_correction_.group(), &up_correction_.children(), &gather_.replies()})
    for (const Arrivals::Peer& peer : arrivals->peers())
      if (peer.state == Arrivals::State::awaited) ranks.push_back(peer.rank);
  if (ranks.empty() && members().contains(ballots_.promised()) && !ballots_.is_root())
    ranks.push_back(ballots_.promised());
  return ranks;
}

// ---- entry points ---------------------------------------------------------------------------------------------------

void Operation::start(OperationNumber number, const Arguments& arguments, const Membership& members,
                      const Surroundings& surroundings, const Memory& memory, Rank prev, Outbox& out) {
  arguments_ = arguments;
  row_ = &row_of(arguments.kind);
  blank_.operation = number;
  blank_.signature = arguments.signature();
  memory_ = memory;
  prev_ = prev;
  started_ = true;
  ballots_.begin(number, members, arguments.root, surroundings);
  if (row_->rooted() && !members.contains(arguments.root)) {  // all know it: members are agreed
    UCFT_SOMETIMES("the root of an operation is known to be dead before it begins");
    decision_.first_decided = decision_.accepted = ballots_.first();
    return give_up(Outcome::root_failed, out.buffers());
  }
  if (row_->goes_straight) return begin_exchange(out);
  if (OptimisticBallot::fits(arguments, ballots_)) return join_optimistic(out);
  ballots_.promise(ballots_.first());
  if (!row_->disseminates && ballots_.promised() != arguments.root) return give_up(Outcome::root_failed, out.buffers());
  join(out);
}

void Operation::on_message(const Message& message, Outbox& out) {
  if (!started_) return store(message, out.buffers());
  if (message.phase == Phase::mismatch) return on_mismatch(message, out);
  if (message.signature != blank_.signature || !has_right_length(message)) return on_mismatch(message, out);
  if (message.phase == Phase::waiting) return;
  if (ballots_.promised() == no_rank || all_have_it_ || !members().contains(message.peer)) return;
  if (OptimisticBallot::has(message.phase))
    return row_->goes_straight ? on_exchange(message, out) : on_optimistic(message, out);
  if (!members().contains(message.attempt)) return;
  if (message.phase == Phase::ask) return on_ask(message, out);
  if (ballots_.before(message.attempt, ballots_.promised())) return;  // of a root that has failed

  switch (message.phase) {
    case Phase::broadcast: return on_broadcast(message, out);
    case Phase::correction: return on_correction(message, out);
    case Phase::decided: return deliver(message, out);
    default: break;
  }
  if (message.attempt != ballots_.promised() || joins_later_) return store(message, out.buffers());
  if (message.phase == Phase::gather) return on_gather(message, out);
  on_contribution(message, out);
}

// False: the message is an orphan of a decision that did not survive. Its sender must be dead.
bool Operation::follows_the_same(const Message& message) const {
  return message.prev == prev_ || message.prev == any_rank || prev_ == any_rank;
}

// A rank that takes long data for short ones never gets a broadcast from the others: so it looks in any ballot.
void Operation::on_optimistic(const Message& message, Outbox& out) {
  if (!follows_the_same(message) || (row_->collects && !ballots_.is_optimistic())) return;
  if (!optimistic_.accepts(message, arguments_, ballots_)) return on_mismatch(message, out);
  if (!ballots_.is_optimistic()) return;
  if (!row_->collects && message.outcome != Outcome::success) return leave_optimistic(message, out);
  if (optimistic_.on_message(message, ballots_, out.buffers())) advance(out);
}

void Operation::on_contribution(const Message& message, Outbox& out) {
  if (!follows_the_same(message)) return;
  const bool awaited = message.phase == Phase::gather_reply ? gather_.on_message(message, out.buffers())
                                                            : up_correction_.on_message(message, out.buffers());
  if (awaited) advance(out);
}

// Signatures of different counts may be equal; lengths are not, but for sets of blocks.
bool Operation::has_right_length(const Message& message) const {
  if (OptimisticBallot::has_part(message.phase)) return true;  // the membership says, too: see on_optimistic()
  if (!message.has(has_value)) return !message.value;
  if (message.outcome != Outcome::success) return message.value.bytes == 0;
  return with_collective(arguments_.kind,
                         [&](auto collective) { return collective.accepts(arguments_, message.value.bytes); });
}

void Operation::on_failure(Rank rank, Outbox& out) {
  if (!started_ || ballots_.promised() == no_rank || all_have_it_ || !members().contains(rank)) return;
  if (ballots_.is_optimistic()) {  // also if it has delivered: others may not have
    if (!row_->disseminates && rank == arguments_.root) {
      if (!finished_) give_up(Outcome::root_failed, out.buffers());
      return;
    }
    if (delivered_) UCFT_SOMETIMES("a rank goes in an optimistic ballot that has delivered here");
    if (!finished_ && optimistic_.is_whole() && UCFT_SOMETIMES("a rank goes when all data are here, not all words"))
      deliver_optimistic(out.buffers());
    if (!finished_) UCFT_SOMETIMES("an optimistic ballot is left for one with a root");
    ballots_.promise(ballots_.first());
    return join(out);
  }
  if (rank == ballots_.promised()) {
    if (!row_->disseminates) {
      if (!finished_) give_up(Outcome::root_failed, out.buffers());
      return;
    }
    UCFT_SOMETIMES("the root of a ballot goes, and the next one takes its place");
    if (delivered_) UCFT_SOMETIMES("the root of a ballot goes when its decision is here");
    ballots_.promise(rank);
    joins_later_ = false;
    return join(out);
  }
  if (joins_later_) {
    dissemination_.on_failure(rank, ballots_);
    return go_on_with_exchange(out);
  }
  const bool was_awaited = up_correction_.on_failure(rank), was_asked = gather_.on_failure(rank);
  ask_if_cut_off(out);
  dissemination_.on_failure(rank, ballots_);
  if (was_awaited) UCFT_SOMETIMES("a rank goes that a ballot waits for");
  if (was_asked) UCFT_SOMETIMES("a rank goes that a root has asked");
  if (was_awaited || was_asked) advance(out);
}

void Operation::on_turn(Outbox& out, std::int64_t now_ns, bool may_gossip) {
  if (dissemination_.asks_at(now_ns)) dissemination_.ask(compose(Phase::ask), ballots_, out);
  dissemination_.on_turn(now_ns, may_gossip, decision_, blank_, arguments_, ballots_, out);
}

// By gossip the same decision may come again and again; one is enough to wait for the start with.
void Operation::store(const Message& message, Buffers& buffers) {
  const auto is_the_same = [&](const Message& stored) {
    return stored.has(by_gossip) && stored.attempt == message.attempt && stored.phase == message.phase;
  };
  if (message.has(by_gossip) && std::any_of(inbox_.begin(), inbox_.end(), is_the_same)) return;
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
  optimistic_.clear(buffers);
  exchange_.clear(buffers);
  buffers.release(std::exchange(set_, {}));
  buffers.release(memory_.room);
  buffers.release(memory_.input);
  buffers.release(memory_.result);
  buffers.release(memory_.landing);
  buffers.release(memory_.missing);
  memory_ = Memory{};
  decision_.release(buffers);
  started_ = finished_ = delivered_ = root_decided_ = mismatch_told_ = all_have_it_ = is_taken_ = joins_later_ = false;
  ballots_.end();
  dissemination_.reset();
  attempts_ = 0;
}

// ---- a ballot -------------------------------------------------------------------------------------------------------

void Operation::join_optimistic(Outbox& out) {
  ++attempts_;
  ballots_.promise_optimistic();
  Message mine;
  contribute(mine);
  if (!row_->collects) {
    mine.value = memory_.input;
    if (memory_.lacks) mine.blame(lacking());
    if (!memory_.lacks && memory_.root_died) mine.outcome = Outcome::root_failed;
  }
  if (!optimistic_.start(mine, memory_.result, memory_.landing, lacking(), arguments_, ballots_, out.buffers()))
    leave_optimistic(mine, out);
  else
    advance(out);
  drain_inbox(out);
}

// Delivered for ever, even if another rank decides on it again. When this rank knows that all have it, its part is
// over.
void Operation::advance_optimistic(Outbox& out) {
  const OptimisticBallot::State state = optimistic_.advance(arguments_, ballots_, out);
  if (state == OptimisticBallot::State::awaits) return;
  all_have_it_ = state == OptimisticBallot::State::all_have_it;
  if (!delivered_) deliver_optimistic(out.buffers());
  if (all_have_it_) forget_if_through(out.buffers());
}

void Operation::deliver_optimistic(Buffers& buffers) {
  const bool has_result = row_->disseminates || arguments_.root == me();
  if (has_result) {
    const Message result = optimistic_.result();
    if (has_culprit(result.outcome)) {
      decision_.lack_memory(result.culprit());
    } else {
      decision_.contributors = result.contributors;
      const bool has_landed = result.value && result.value.buffer == memory_.landing;
      if (result.value == memory_.input)
        buffers.retain(decision_.value = result.value);  // a broadcast's root keeps what it has given as it is
      else if (!has_landed || !all_have_it_)             // else nobody will ask for it
        decision_.keep_value(result.value, me(), memory_.result, buffers);
      decision_.failed_count = decision_.list_length = result.list_length;
      decision_.list = result.list;
      buffers.retain(result.list);
      decision_.truncated = result.has(list_truncated);
    }
    decision_.first_decided = decision_.accepted = optimistic_ballot;
    delivered_ = true;
  } else if (memory_.lacks) {
    decision_.lack_memory(lacking());
  }
  finish(buffers);
}

// Some rank can't take part. So all go on with the root's ballot, in which a rank needs no memory to pass on what
// others need.
void Operation::leave_optimistic(const Message& why, Outbox& out) {
  UCFT_SOMETIMES("a rank refuses an optimistic ballot");
  optimistic_.refuse(why, arguments_, ballots_, out);
  ballots_.promise(ballots_.first());
  join(out);
}

// Pieces may be on their way from the room for the result. Another ballot has those of an allgather in another order.
void Operation::clear_optimistic(Buffers& buffers) {
  optimistic_.clear(buffers);
  if (row_->has_own_lengths() && buffers.references(memory_.result) > 1)
    buffers.release(std::exchange(memory_.result, no_buffer));
}

// ---- a ballot with a root ----

// Takes part in the promised ballot: with what was decided, if this rank knows it, else with its input.
void Operation::join(Outbox& out) {
  attempts_ += !joins_later_;
  clear_optimistic(out.buffers());
  plan_.make(ballots_, arguments_.f, arguments_.shape);
  joins_later_ = row_->goes_straight && !delivered_ && !exchange_.has_all_that_live(ballots_);
  if (joins_later_) {
    up_correction_.join();
    return dissemination_.join();
  }
  Message& mine = up_correction_.join();
  contribute(mine);
  if (row_->goes_straight) give_set(mine, out.buffers());
  root_decided_ = false;
  gather_.clear(out.buffers());
  dissemination_.join();
  if (arguments_.by_gossip() && row_->disseminates && !delivered_ && !ballots_.is_root())
    dissemination_.wait(arguments_.gossip);
  if (contributes()) {
    up_correction_.start(plan_, ballots_, out);
  } else if (ballots_.is_root() && delivered_) {
    decide(out);
  } else if (ballots_.is_root()) {  // of a broadcast: its data are the decision
    if (memory_.lacks) {
      // Its data may be there, and not its result.
      decision_.lack_memory(lacking());
    } else if (memory_.root_died) {
      decision_.outcome = Outcome::root_failed;
    } else {
      decision_.contributors = 1;
      decision_.value = memory_.input;  // a copy, made when it was posted
      out.buffers().retain(memory_.input);
    }
    decision_.first_decided = ballots_.promised();
    decide(out);
  }
  ask_if_cut_off(out);
  advance(out);
  drain_inbox(out);
}

void Operation::contribute(Message& mine) const {
  mine = blank_;
  mine.phase = Phase::group;
  mine.attempt = ballots_.promised();
  mine.prev = prev_;
  if (delivered_) {
    decision_.write(mine);
    mine.flags |= is_decided;
    mine.accepted = decision_.accepted;
  } else if (row_->collects) {
    mine.contributors = memory_.contributors;
    mine.value = memory_.input;
    mine.list = memory_.missing;
    mine.list_length = memory_.missing_length;
    mine.flags = static_cast<std::uint8_t>(has_value | (memory_.missing_truncated ? list_truncated : 0));
    if (memory_.lacks) mine.blame(lacking());
  }
}

// Messages that came before the operation was started, or for a later ballot. A message that is still too early is
// stored again.
void Operation::drain_inbox(Outbox& out) {
  if (inbox_.empty()) return;
  std::vector<Message> messages;
  messages.swap(draining_);  // keeps its capacity for the next time
  messages.swap(inbox_);
  UCFT_SOMETIMES("messages came before their operation or their ballot");
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
  if (ballots_.is_optimistic()) return advance_optimistic(out);
  if (!contributes()) return;
  if (ballots_.is_root())
    advance_root(out);
  else
    advance_member(out);
  // Done with this ballot after the result is known (a later root's): what others lent must not wait for the operation
  // window.
  if (finished_ && (ballots_.is_root() ? root_decided_ : up_correction_.passed_up())) clear_arrivals(out.buffers());
}

void Operation::advance_member(Outbox& out) {
  if (!up_correction_.may_pass_up(plan_)) return;
  Message up = compose(Phase::up);
  up.prev = prev_;
  const bool has_memory = up_correction_.pass_up(up, arguments_, plan_, ballots_, out);
  if (row_->disseminates) return;
  if (!has_memory || memory_.lacks) decision_.lack_memory(lacking());
  finish(out.buffers());
}

void Operation::advance_root(Outbox& out) {
  if (root_decided_) return;
  if (delivered_) return decide(out);
  if (gather_.under_way()) {
    if (gather_.settled()) conclude_gather(out);
    return;
  }
  Sum sum(arguments_, ballots_, out.buffers());
  FailureList failed;
  switch (CleanSubtree::choose(up_correction_, plan_, sum, failed, out.buffers())) {
    case CleanSubtree::State::awaited: return;
    case CleanSubtree::State::found: return decide_sum(sum, failed, out);
    case CleanSubtree::State::none: break;
  }
  UCFT_SOMETIMES("no subtree is clean: the root asks all");
  gather_.start(compose(Phase::gather), ballots_, out);
  advance_root(out);  // nobody may be left to ask
}

void Operation::conclude_gather(Outbox& out) {
  Buffers& buffers = out.buffers();
  Sum sum(arguments_, ballots_, buffers);
  FailureList failed;
  gather_.add_decisions(sum);
  if (sum.decided() == nullptr && row_->collects) {
    if (gather_.new_failures(ballots_) > arguments_.f && !row_->from_root()) {
      UCFT_SOMETIMES("more than f ranks are missing");
      decision_.outcome = Outcome::too_many_failures;
    } else {
      gather_.add_contributions(sum, up_correction_.mine(), arguments_.f, ballots_);
      gather_.note_failures(failed, buffers);
      failed.note_missing(up_correction_.mine(), buffers);
    }
  }
  decide_sum(sum, failed, out);
}

void Operation::ask_if_cut_off(Outbox& out) {
  if (!ballots_.any_failed() || delivered_ || ballots_.is_root() || !row_->disseminates) return;
  dissemination_.ask_if_cut_off(compose(Phase::ask), arguments_, ballots_, out);
}

// ---- decisions ------------------------------------------------------------------------------------------------------

// The root's decision: an earlier one, or this sum. failed: ranks whose value it lacks.
void Operation::decide_sum(const Sum& sum, FailureList& failed, Outbox& out) {
  Buffers& buffers = out.buffers();
  if (sum.decided() != nullptr) {
    UCFT_SOMETIMES("a decision of an earlier root is adopted");
    decision_.take_over(*sum.decided(), me(), memory_.result, buffers);
    return decide(out);
  }
  if (!row_->collects && decision_.outcome == Outcome::success) decision_.outcome = Outcome::root_failed;
  if (sum.lacks_memory() != no_rank) decision_.lack_memory(sum.lacks_memory());
  if (decision_.outcome == Outcome::success && lacks_streams_of_root(sum.value(), buffers))
    decision_.outcome = Outcome::root_failed;
  CleanSubtree::note_elsewhere(up_correction_, plan_, failed, buffers);
  for (Rank rank : ballots_.failed_members()) failed.note(rank, true);
  decision_.failed_count = failed.size();
  decision_.list = failed.store(buffers, decision_.list_length);
  decision_.truncated = failed.truncated();
  decision_.first_decided = ballots_.promised();
  if (decision_.outcome == Outcome::success) {
    decision_.contributors = sum.contributors();
    decision_.keep_value(sum.value(), me(), memory_.result, buffers);
  }
  decide(out);
}

// The root has (or had) its decision in decision_: it tells the tree and all that have asked.
void Operation::decide(Outbox& out) {
  root_decided_ = true;
  decision_.accepted = ballots_.promised();
  delivered_ = true;
  if (!finished_) finish(out.buffers());
  if (row_->disseminates) dissemination_.tell(decision_, blank_, arguments_, plan_, ballots_, out);
}

void Operation::deliver(const Message& message, Outbox& out) {
  if (delivered_) {
    if (ballots_.before(decision_.accepted, message.attempt) &&
        UCFT_SOMETIMES("a decision comes again, of a later ballot"))
      decision_.accepted = message.attempt;
    return;
  }
  clear_optimistic(out.buffers());
  if (memory_.lacks && message.value) {
    Message without = message;
    without.value = {};
    decision_.take_over(without, me(), memory_.result, out.buffers());
    decision_.lack_memory(lacking());
  } else {
    decision_.take_over(message, me(), memory_.result, out.buffers());
  }
  decision_.accepted = message.attempt;
  delivered_ = true;
  // The root has what it needed. My parent may still count on a message from me: an empty one that nobody will use.
  if (!ballots_.is_optimistic() && contributes() && !ballots_.is_root() && !up_correction_.passed_up()) {
    Message up = compose(Phase::up);
    up.prev = prev_;
    up.flags = is_unclean;
    UCFT_SOMETIMES("a decision comes before this rank has passed up its part");
    up_correction_.pass_up_nothing(up, plan_, out);
  }
  joins_later_ = false;
  finish(out.buffers());
}

void Operation::finish(Buffers& buffers) {
  finished_ = true;
  dissemination_.stop_waiting();
  clear_arrivals(buffers);
  buffers.release(std::exchange(memory_.result, no_buffer));
  buffers.release(std::exchange(memory_.landing, no_buffer));
  buffers.release(std::exchange(memory_.room, no_buffer));
  if (!row_->disseminates) return;  // the root of a reduce may still ask for the input
  buffers.release(std::exchange(memory_.input, {}));
}

void Operation::forget_if_through(Buffers& buffers) {
  if (is_taken_ && all_have_it_) buffers.release(std::exchange(decision_.value, {}));
}

void Operation::give_up(Outcome outcome, Buffers& buffers) {
  decision_.outcome = outcome;
  finish(buffers);
}

void Operation::clear_arrivals(Buffers& buffers) {
  optimistic_.let_go_of_values(buffers);
  up_correction_.clear(buffers);
  gather_.clear(buffers);
}

// ---- messages -------------------------------------------------------------------------------------------------------

void Operation::on_broadcast(const Message& message, Outbox& out) {
  if (dissemination_.has_forwarded(message.attempt)) return;
  deliver(message, out);
  const std::int64_t age_ns = message.has(by_gossip) ? message.age_ns + arguments_.gossip.flight_ns : 0;
  dissemination_.forward(message.attempt, decision_, blank_, arguments_, plan_, ballots_, out, age_ns);
}

void Operation::on_correction(const Message& message, Outbox& out) {
  if (!delivered_) UCFT_SOMETIMES("a correction brings the decision");
  const bool was_delivered = delivered_;
  deliver(message, out);
  if (dissemination_.on_correction(message, was_delivered, arguments_, ballots_))
    dissemination_.forward(message.attempt, decision_, blank_, arguments_, plan_, ballots_, out);
}

// Only the root of a ballot answers for it.
void Operation::on_ask(const Message& message, Outbox& out) {
  if (message.attempt != me()) return;
  UCFT_SOMETIMES("a rank that was cut off asks a root");
  if (!delivered_ && UCFT_SOMETIMES("a rank that was cut off asks a root that has not decided"))
    return dissemination_.keep_asker(message.peer);
  Message answer = decision_message(Phase::decided);
  answer.attempt = message.attempt;
  out.send(message.peer, answer);
}

// A rank that has delivered meanwhile did so in a later ballot: this one's root is dead to it.
void Operation::on_gather(const Message& message, Outbox& out) {
  if (message.peer != ballots_.promised() || (delivered_ && !up_correction_.mine().has(is_decided))) return;
  Message reply = up_correction_.mine();
  reply.phase = Phase::gather_reply;
  out.send(message.peer, reply);
}

// A bug of the caller: no agreement is owed, but nobody must hang. Everyone is told once, and tells everyone once.
void Operation::on_mismatch(const Message& message, Outbox& out) {
  if (mismatch_told_) return;
  const bool is_told = message.phase == Phase::mismatch && members().contains(message.attempt);
  const Rank culprit = is_told ? message.attempt : message.peer;
  mismatch_told_ = true;
  UCFT_SOMETIMES("ranks call different operations");
  Message word = compose(Phase::mismatch);
  word.attempt = culprit;
  for (std::int32_t position = 0; position < members().size(); ++position) {
    const Rank rank = members().rank_at(position);
    if (rank != me() && !ballots_.has_failed(rank)) out.send(rank, word);
  }
  decision_.first_decided = any_rank;  // there may be several answers to this one
  if (finished_) return;
  decision_.culprit = culprit == me() ? message.peer : culprit;  // to this rank the others are those that differ
  decision_.accepted = ballots_.promised();
  delivered_ = root_decided_ = true;
  joins_later_ = false;
  up_correction_.stop();
  optimistic_.clear(out.buffers());  // it never says that it has all of the result
  give_up(Outcome::mismatch, out.buffers());
}

// A rank that sends nothing in what it has posted, as the root of a reduce, would never learn of a mismatch otherwise.
void Operation::say_waiting(Outbox& out) const {
  for (const Rank rank : awaited())
    if (!ballots_.has_failed(rank)) out.send(rank, compose(Phase::waiting));
}

// A message of the promised ballot.
Message Operation::compose(Phase phase) const {
  Message message = blank_;
  message.phase = phase;
  message.attempt = ballots_.promised();
  return message;
}

Message Operation::decision_message(Phase phase) const {
  Message message = compose(phase);
  decision_.write(message);
  return message;
}

}  // namespace ucft::detail
