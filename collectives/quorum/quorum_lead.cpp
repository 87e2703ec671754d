// The part of a quorum allreduce that leads: decisions, handing over, and a new lead when one has gone.
#include <algorithm>
#include <utility>

#include "collectives/quorum/quorum.hpp"

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

// ---- decisions ------------------------------------------------------------------------------------------------------

void Quorum::advance() {
  for (;;) {
    if (!leads()) return;
    if (!collecting_) {
      if (!may_decide()) return;
      begin();
      if (!collecting_) return;  // another rank leads
    }
    if (!go_on()) return;
    decide();
  }
}

bool Quorum::may_decide() {
  const auto found = slots_.find(next_decision_);
  if (found == slots_.end()) return false;
  Slot& its = found->second;
  std::uint32_t here = 0, alive = 0;
  const Post* first = nullptr;
  for (Rank rank = 0; rank < ranks(); ++rank) {
    const Post& post = its.posts[static_cast<std::size_t>(rank)];
    alive += is_gone(rank) ? 0 : 1;
    if (!post.is_here) continue;
    if (here++ == 0) first = &post;
  }
  if (first == nullptr) return false;
  if (its.first_seen_ns < 0) its.first_seen_ns = now_ns_;
  its.is_over = its.is_over || now_ns_ - its.first_seen_ns >= first->deadline_ns;
  if (here < alive && !(its.is_over && here >= first->quorum)) return false;
  if (here < alive) UCFT_SOMETIMES("a quorum decides without a rank that lives");
  return next_decision_ < limits_.kept || all_have(next_decision_ - limits_.kept);
}

// All that live and are in it.
bool Quorum::all_have(OperationNumber number) const {
  const auto kept = kept_.find(number);
  if (kept == kept_.end()) return true;
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (!is_gone(rank) && have_[static_cast<std::size_t>(rank)] <= number &&
        quorum_body::is_in(buffers_, kept->second, rank))
      return false;
  return true;
}

bool Quorum::is_somebody_late(const Slice& result) const {
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (!is_gone(rank) && !quorum_body::is_in(buffers_, result, rank)) return true;
  return false;
}

// The first member whose post is not as that of most; no_rank: they are alike.
Rank Quorum::odd_one_out(const Slot& slot, const std::vector<Rank>& members) {
  const auto is_as = [&](Rank one, Rank other) {
    const Post &a = slot.posts[static_cast<std::size_t>(one)], &b = slot.posts[static_cast<std::size_t>(other)];
    return a.signature == b.signature && a.bytes == b.bytes;
  };
  const auto differs = [&](Rank usual) {
    return std::ranges::find_if(members, [&](Rank rank) { return !is_as(rank, usual); });
  };
  if (differs(members.front()) == members.end()) return no_rank;
  const Rank usual = *std::ranges::max_element(members, {}, [&](Rank rank) {
    return std::ranges::count_if(members, [&](Rank other) { return is_as(rank, other); });
  });
  return *differs(usual);
}

void Quorum::begin() {
  Slot& its = slots_.at(next_decision_);
  std::vector<Rank> members;
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (its.posts[static_cast<std::size_t>(rank)].is_here) members.push_back(rank);
  Post& own = its.posts[static_cast<std::size_t>(me_)];
  if (!own.is_here) return hand_over(members.front());
  if (!own.value) buffers_.retain(own.value = value_of_post(find(next_decision_)->body, own.bytes));  // begun before
  collecting_ = Collecting{};
  Collecting& now = *collecting_;
  now.members = std::move(members);
  now.is_in.resize(now.members.size());
  const Rank other = odd_one_out(its, now.members);
  if (other != no_rank) now.outcome = Outcome::mismatch;
  now.culprit = other;
  const std::uint64_t lists = 2 * quorum_body::words_of_set(ranks());
  if (now.outcome == Outcome::success)
    now.body = buffers_.whole(buffers_.allocate(quorum_body::value_at(lists) + own.bytes));
  if (now.body) return;
  if (now.outcome == Outcome::success) {
    now.outcome = Outcome::no_memory;
    now.culprit = me_;
  }
  now.body = buffers_.whole(buffers_.allocate_anywhere(quorum_body::value_at(lists)));
}

// This rank has not posted what is to be decided.
void Quorum::hand_over(Rank to) {
  const auto next = slots_.find(next_decision_);
  const bool is_over = next != slots_.end() && next->second.is_over;
  UCFT_SOMETIMES("a lead hands over");
  view_ = {view_.epoch, view_.turn + 1, to, me_};
  has_token_ = false;
  for (const auto& [number, body] : kept_)
    if (!all_have(number) || is_somebody_late(body)) hand(Kind::result, to, number, body);
  hand_posts_on(to);
  QuorumHead its = head();
  its.is_over = is_over ? 1 : 0;
  say(Kind::token, to, next_decision_, its, {have_.begin(), have_.end()});
  drop_slots();
  send_posts();
}

// Else ranks that had posted in time would be late because of the way.
void Quorum::hand_posts_on(Rank to) {
  for (auto& [number, its] : slots_)
    for (Rank rank = 0; rank < ranks(); ++rank) {
      const Post& post = its.posts[static_cast<std::size_t>(rank)];
      if (post.is_here && rank != me_ && rank != to) say_post(to, number, post, rank);
    }
}

// The others have waited for this rank.
void Quorum::hand_over_after(const Slice& result) {
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (rank != me_ && !is_gone(rank) && quorum_body::is_in(buffers_, result, rank)) return hand_over(rank);
}

// Adds the values in the order of ranks, as far as they are here. True: all.
bool Quorum::go_on() {
  Collecting& now = *collecting_;
  if (now.outcome != Outcome::success) return true;
  const Mine& mine = *find(next_decision_);
  std::vector<Post>& posts = slots_.at(next_decision_).posts;
  const Slice sum = now.body.part(quorum_body::value_at(2 * quorum_body::words_of_set(ranks())), mine.call.bytes);
  for (; now.next < now.members.size(); ++now.next) {
    Post& post = posts[static_cast<std::size_t>(now.members[now.next])];
    if (!post.is_here && UCFT_SOMETIMES("a rank goes whose value was counted on")) continue;  // it has gone
    if (!post.value) break;
    if (sum.bytes > 0 && now.is_empty)
      buffers_.copy(sum, post.value);
    else if (sum.bytes > 0)
      buffers_.combine(mine.call.reduction, sum, sum, post.value);
    now.is_empty = false;
    now.is_in[now.next] = true;
    buffers_.release(std::exchange(post.value, {}));
  }
  const std::size_t end = std::min(now.next + 2, now.members.size());
  for (now.pulled = std::max(now.pulled, now.next); now.pulled < end; ++now.pulled) {
    const Rank rank = now.members[now.pulled];
    const Post& post = posts[static_cast<std::size_t>(rank)];
    if (post.is_here && !post.value) say(Kind::pull, rank, next_decision_);
  }
  return now.next == now.members.size();
}

void Quorum::stop_collecting() {
  if (!collecting_) return;
  buffers_.release(collecting_->body);
  collecting_.reset();
}

void Quorum::forget_before(OperationNumber through) {
  while (!kept_.empty() && kept_.begin()->first < through) {
    buffers_.release(kept_.begin()->second);
    kept_.erase(kept_.begin());
  }
}

void Quorum::keep(OperationNumber number, Slice body) {
  if (kept_.contains(number)) return;
  buffers_.retain(body);
  kept_.emplace(number, body);
  if (kept_.size() > limits_.kept) forget_before(kept_.begin()->first + 1);
}

// The outcome of an operation that this rank has posted, or may post yet. No body: it is late.
void Quorum::tell(OperationNumber number, Slice body) {
  known_ = std::max(known_, number + 1);
  Mine* const its = find(number);
  if (its == nullptr || its->is_told) return;
  its->is_told = true;
  buffers_.retain(its->result = body);
  while (!mine_.empty() && mine_.front().is_told) {
    const Mine& first = mine_.front();
    completions_.push_back({first.call.id, first.number, first.result});
    buffers_.release(first.body);
    mine_.pop_front();
  }
  auto& have = have_[static_cast<std::size_t>(me_)];
  const OperationNumber now = mine_.empty() ? posted_ : mine_.front().number;
  if (std::exchange(have, now) != now) say_have();
}

// Others may need what it has, as the lead may be dead, or leave. Of a lead: the ranks that are late; and all, of a
// result that some rank in it may not have, since that may have promised to take nothing of this lead. Of another rank:
// all, of short results; of long ones the lead and two ranks.
void Quorum::leave() {
  has_left_ = true;
  int heirs = 0;
  for (Rank rank = 0; rank < ranks(); ++rank) {
    if (rank == me_ || is_gone(rank)) continue;
    const bool is_heir = rank == view_.lead || heirs++ < 2;
    say(Kind::closing, rank, known_);
    for (const auto& [number, body] : kept_)
      if (leads() ? !all_have(number) || have_[static_cast<std::size_t>(rank)] <= number
                  : is_heir || body.bytes <= limits_.eager_bytes)
        hand(Kind::result, rank, number, body);
  }
  has_token_ = false;
  for (auto& [number, its] : slots_) release(its);
  slots_.clear();
}

// ---- leads ----------------------------------------------------------------------------------------------------------

void Quorum::on_gone(Rank rank) {
  if (rank == me_ || is_gone(rank)) return;
  gone_[static_cast<std::size_t>(rank)] = true;
  for (auto& [number, its] : slots_)
    buffers_.release(std::exchange(its.posts[static_cast<std::size_t>(rank)], {}).value);
  if (recovery_) {
    recovery_->awaited[static_cast<std::size_t>(rank)] = false;
    for (auto& [number, wanted] : recovery_->wanted) {
      std::erase(wanted.holders, rank);
      if (wanted.asked == rank && UCFT_SOMETIMES("a rank goes that a new lead fetches a result from"))
        wanted.asked = no_rank;
    }
    go_on_with_recovery();
  }
  send_posts();
  recover_if_needed();
  advance();
}

// Some rank waits, no rank leads, and this one is the lowest, or would have been the lead.
void Quorum::recover_if_needed() {
  if (has_left_ || recovery_ || leads() || (has_lead() ? !is_lead_in_vain() : lowest() != me_)) return;
  if (slots_.empty() && std::ranges::all_of(mine_, &Mine::is_told)) return;
  promised_ = ((promised_ >> 20) + 1) << 20 | static_cast<std::uint64_t>(me_);
  stop_collecting();
  has_token_ = false;
  UCFT_SOMETIMES("a lead has gone, and another rank asks all");
  recovery_ = Recovery{};
  recovery_->awaited.resize(gone_.size());
  for (Rank rank = 0; rank < ranks(); ++rank) {
    if (rank == me_ || is_gone(rank)) continue;
    recovery_->awaited[static_cast<std::size_t>(rank)] = true;
    say(Kind::ask, rank, known_);
  }
  go_on_with_recovery();
}

void Quorum::answer_ask(Rank asker) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, body] : kept_) numbers.push_back(number);
  say(Kind::state, asker, known_, head(), numbers);
}

void Quorum::take_state(const QuorumLetter& letter, const QuorumHead& head) {
  if (!recovery_) return;
  recovery_->awaited[static_cast<std::size_t>(letter.peer)] = false;
  known_ = std::max(known_, letter.number);
  auto& have = have_[static_cast<std::size_t>(letter.peer)];
  have = std::max<OperationNumber>(have, head.have);
  for (std::uint64_t i = 0; i < head.list_words; ++i)
    if (const OperationNumber number = quorum_body::word(buffers_, letter.body, i); !kept_.contains(number))
      recovery_->wanted[number].holders.push_back(letter.peer);
  go_on_with_recovery();
}

void Quorum::go_on_with_recovery() {
  if (std::ranges::find(recovery_->awaited, true) != recovery_->awaited.end()) return;
  std::erase_if(recovery_->wanted, [](const auto& each) { return each.second.holders.empty(); });
  for (auto& [number, wanted] : recovery_->wanted)
    if (wanted.asked == no_rank) say(Kind::fetch, wanted.asked = wanted.holders.front(), number);
  if (!recovery_->wanted.empty() && UCFT_SOMETIMES("a new lead fetches results")) return;
  OperationNumber next = known_;
  if (!kept_.empty()) next = std::max(next, kept_.rbegin()->first + 1);
  recovery_.reset();
  view_ = {promised_, 0, me_, me_};
  has_token_ = true;
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (rank != me_ && !is_gone(rank)) say(Kind::lead, rank, next);
  lead_from(next);
}

// Others' posts may have come before.
void Quorum::lead_from(OperationNumber number) {
  next_decision_ = number;
  while (!slots_.empty() && slots_.begin()->first < number) {
    Slot& its = slots_.begin()->second;
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (rank != me_ && its.posts[static_cast<std::size_t>(rank)].is_here) answer_late(rank, slots_.begin()->first);
    release(its);
    slots_.erase(slots_.begin());
  }
  std::vector<OperationNumber> own;
  for (const Mine& mine : mine_)
    if (!mine.is_told) own.push_back(mine.number);
  for (const OperationNumber each : own)
    if (Mine* const mine = find(each); mine != nullptr && !mine->is_told) {
      mine->sent_to = me_;
      note_own(*mine);
    }
  advance();
}

void Quorum::decide() {
  Collecting& now = *collecting_;
  const OperationNumber number = next_decision_;
  Slot& slot = slots_.at(number);
  const std::uint64_t words = quorum_body::words_of_set(ranks());
  std::vector<std::uint64_t> sets(2 * words);
  const auto set = [&](std::uint64_t first, Rank rank) {
    sets[first + static_cast<std::uint64_t>(rank) / 64] |= std::uint64_t{1} << rank % 64;
  };
  for (std::size_t i = 0; i < now.members.size(); ++i)
    if (now.outcome != Outcome::success || now.is_in[i]) set(0, now.members[i]);
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (is_gone(rank)) set(words, rank);
  OperationNumber through = number;
  for (const auto& [each, body] : kept_)
    if (!all_have(each)) through = std::min(through, each);
  QuorumHead its = head();
  its.list_words = static_cast<std::uint32_t>(sets.size());
  its.bytes = now.outcome == Outcome::success ? find(number)->call.bytes : 0;
  its.signature = find(number)->call.signature;
  its.outcome = static_cast<std::uint8_t>(now.outcome);
  its.culprit = now.culprit;
  its.through = through;
  const Slice body = now.body;
  quorum_body::write(buffers_, body, its);
  for (std::size_t i = 0; i < sets.size(); ++i) quorum_body::write_word(buffers_, body, i, sets[i]);
  for (Rank rank = 0; rank < ranks(); ++rank)  // also those that have posted it meanwhile
    if (rank != me_ && slot.posts[static_cast<std::size_t>(rank)].is_here) hand(Kind::result, rank, number, body);
  while (!kept_.empty() && kept_.begin()->first < through && !is_somebody_late(kept_.begin()->second))
    forget_before(kept_.begin()->first + 1);
  const bool was_late = slot.has_late_lead;
  collecting_.reset();
  release(slot);
  slots_.erase(number);
  ++next_decision_;
  keep(number, body);
  tell(number, body);
  if (was_late && UCFT_SOMETIMES("the lead was late")) hand_over_after(body);
  buffers_.release(body);
}

}  // namespace ucft::detail
