#include "collectives/quorum/quorum.hpp"

#include <algorithm>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

bool quorum_body::is_sound(const Buffers& buffers, const QuorumLetter& letter, Rank ranks) {
  if (!letter.body || letter.body.bytes < sizeof(QuorumHead)) return false;
  const QuorumHead its = head(buffers, letter.body);
  const std::uint64_t lists = its.list_words <= std::uint64_t{1} << 24 ? its.list_words : UINT32_MAX;
  const auto is_rank = [ranks](Rank rank) { return rank >= 0 && rank < ranks; };
  const auto is_rank_or_none = [&](Rank rank) { return rank == no_rank || is_rank(rank); };
  if (!is_rank_or_none(its.culprit) || !is_rank_or_none(its.of)) return false;
  if (!is_rank(its.lead) || !is_rank(its.by) || letter.body.bytes < sizeof(QuorumHead) + lists * 8) return false;
  const bool has_value = letter.kind == QuorumLetter::Kind::value || letter.kind == QuorumLetter::Kind::result ||
                         (letter.kind == QuorumLetter::Kind::post && its.has_value != 0);
  if (has_value && (its.bytes > bytes_limit || letter.body.bytes < value_at(lists) + its.bytes)) return false;
  if (letter.kind == QuorumLetter::Kind::result)
    return its.list_words == 2 * words_of_set(ranks) && its.outcome <= static_cast<std::uint8_t>(Outcome::no_memory);
  return letter.kind != QuorumLetter::Kind::token || its.list_words == static_cast<std::uint64_t>(ranks);
}

Quorum::Quorum(Rank me, Rank ranks, Buffers& buffers, Limits limits)
    : me_(me),
      buffers_(buffers),
      limits_(limits),
      gone_(static_cast<std::size_t>(ranks)),
      have_(static_cast<std::size_t>(ranks)),
      has_token_(me == 0) {}

void Quorum::clear() {
  stop_collecting();
  recovery_.reset();
  for (auto& [number, its] : slots_) release(its);
  slots_.clear();
  for (const Mine& mine : mine_) {
    buffers_.release(mine.body);
    buffers_.release(mine.result);
  }
  mine_.clear();
  for (const auto& [number, body] : kept_) buffers_.release(body);
  kept_.clear();
  for (const QuorumLetter& letter : std::exchange(letters_, {})) buffers_.release(letter.body);
  for (const Completion& completion : std::exchange(completions_, {})) buffers_.release(completion.result);
}

Rank Quorum::lowest() const {
  Rank rank = 0;
  while (rank != me_ && is_gone(rank)) ++rank;
  return rank;
}

Quorum::Slot& Quorum::slot(OperationNumber number) {
  Slot& its = slots_[number];
  its.posts.resize(gone_.size());
  return its;
}

void Quorum::release(Slot& slot) {
  for (Post& post : slot.posts) buffers_.release(std::exchange(post, {}).value);
}

Quorum::Mine* Quorum::find(OperationNumber number) {
  if (mine_.empty() || number < mine_.front().number || number >= posted_) return nullptr;
  return &mine_[number - mine_.front().number];
}

// ---- what is said ---------------------------------------------------------------------------------------------------

QuorumHead Quorum::head() const {
  QuorumHead head;
  head.epoch = view_.epoch;
  head.turn = view_.turn;
  head.lead = view_.lead;
  head.by = view_.by;
  head.have = have_[static_cast<std::size_t>(me_)];
  return head;
}

void Quorum::say(Kind kind, Rank to, OperationNumber number, QuorumHead head, const std::vector<std::uint64_t>& list) {
  head.list_words = static_cast<std::uint32_t>(list.size());
  const Slice body = buffers_.whole(buffers_.allocate_anywhere(sizeof head + list.size() * 8));
  if (!body) return;  // not even the heap has any
  quorum_body::write(buffers_, body, head);
  for (std::size_t i = 0; i < list.size(); ++i) quorum_body::write_word(buffers_, body, i, list[i]);
  letters_.push_back({kind, to, number, promised_, body});
}

// body: as it is, one more reference.
void Quorum::hand(Kind kind, Rank to, OperationNumber number, Slice body) {
  buffers_.retain(body);
  letters_.push_back({kind, to, number, promised_, body});
}

void Quorum::post(const Call& call, BufferId body) {
  QuorumHead its;
  its.lead = view_.lead;
  its.bytes = call.bytes;
  quorum_body::write(buffers_, buffers_.whole(body), its);
  mine_.push_back({call, posted_++, body});
  mine_.back().posted_at_ns = now_ns_;
  const OperationNumber number = mine_.back().number;
  if (const auto kept = kept_.find(number); kept != kept_.end()) return tell(number, kept->second);
  send_post(mine_.back());
  recover_if_needed();
  advance();
}

// Those that the rank to which they were sent does not lead any more.
void Quorum::send_posts() {
  const Rank to = target();
  for (std::size_t i = 0; i < mine_.size(); ++i)
    if (!mine_[i].is_told && mine_[i].sent_to != to) send_post(mine_[i]);
}

// The value holds no reference.
Quorum::Post Quorum::post_of(const Mine& mine) {
  const Call& call = mine.call;
  return {true, call.bytes, call.signature, call.quorum, call.deadline_ns, value_of_post(mine.body, call.bytes)};
}

void Quorum::send_post(Mine& mine) {
  mine.sent_to = target();
  if (mine.sent_to == me_) return note_own(mine);
  Post post = post_of(mine);
  if (post.bytes > limits_.eager_bytes) post.value = {};
  say_post(mine.sent_to, mine.number, post, no_rank);
}

// With its value, if it has one and there is memory. of: another rank's.
void Quorum::say_post(Rank to, OperationNumber number, const Post& post, Rank of) {
  QuorumHead its = head();
  its.of = of;
  its.bytes = post.bytes;
  its.deadline_ns = post.deadline_ns;
  its.quorum = post.quorum;
  its.signature = post.signature;
  Slice body;
  if (post.value) body = buffers_.whole(allocate_post(post.bytes));
  its.has_value = body ? 1 : 0;
  if (!body) return say(Kind::post, to, number, its);
  if (post.bytes > 0) buffers_.copy(value_of_post(body.buffer, post.bytes), post.value);
  quorum_body::write(buffers_, body, its);
  letters_.push_back({Kind::post, to, number, promised_, body});
}

void Quorum::note_own(const Mine& mine) {
  if (leads() && mine.number < next_decision_) {
    const auto kept = kept_.find(mine.number);
    return tell(mine.number, kept == kept_.end() ? Slice{} : kept->second);
  }
  Post& post = slot(mine.number).posts[static_cast<std::size_t>(me_)];
  if (post.is_here) return;
  post = post_of(mine);
  buffers_.retain(post.value);
}

// Of an operation that was decided without it, or whose result it has not had yet.
void Quorum::answer_late(Rank rank, OperationNumber number) {
  UCFT_SOMETIMES("a rank is late for a quorum");
  if (const auto kept = kept_.find(number); kept != kept_.end())
    hand(Kind::result, rank, number, kept->second);
  else
    say(Kind::forgotten, rank, number);
}

// Their senders send them again, to the lead that they hear of.
void Quorum::drop_slots() {
  std::vector<bool> told(gone_.size());
  for (auto& [number, its] : slots_) {
    for (Rank rank = 0; rank < ranks(); ++rank) {
      const auto place = static_cast<std::size_t>(rank);
      if (!its.posts[place].is_here || rank == me_ || told[place]) continue;
      told[place] = true;
      say(Kind::lead, rank, next_decision_);
    }
    release(its);
  }
  slots_.clear();
  for (Mine& mine : mine_)
    if (mine.sent_to == me_) mine.sent_to = no_rank;
}

// A lead decides. Others say that their deadline has passed.
void Quorum::on_turn() {
  if (leads()) return advance();
  if (!wants_time()) return;
  Mine& first = mine_.front();
  if (now_ns_ - first.posted_at_ns < std::max(first.call.deadline_ns, limits_.overdue_ns)) return;
  first.is_overdue = true;
  if (has_lead() && view_.lead != me_) say(Kind::overdue, view_.lead, first.number);
}

// ---- what comes -----------------------------------------------------------------------------------------------------

void Quorum::on_letter(const QuorumLetter& letter) {
  if (letter.peer == me_ || is_gone(letter.peer) || !quorum_body::is_sound(buffers_, letter, ranks())) return;
  note_promise(letter.promised);
  const QuorumHead its = quorum_body::head(buffers_, letter.body);
  auto& have = have_[static_cast<std::size_t>(letter.peer)];
  if (letter.kind == Kind::post || letter.kind == Kind::have) have = std::max<OperationNumber>(have, its.have);
  const bool is_old = letter.promised < promised_;
  const bool is_awaited = recovery_ && recovery_->awaited[static_cast<std::size_t>(letter.peer)];
  if (is_old && !is_awaited && letter.kind != Kind::post && letter.kind != Kind::closing)
    say(Kind::lead, letter.peer, letter.number);  // which says what this rank has promised
  switch (letter.kind) {
    case Kind::post: take_post(letter, its); break;
    case Kind::pull:
      if (const Mine* const mine = find(letter.number); mine != nullptr && !mine->is_told)
        hand(Kind::value, letter.peer, letter.number, buffers_.whole(mine->body));
      break;
    case Kind::value: take_value(letter, its); break;
    case Kind::result:
      // A rank whose answer is awaited has promised nothing yet: it may have what it leaves to others.
      if (!is_old || is_awaited) take_result(letter, its);
      break;
    case Kind::have:
      if (!leads() && has_lead() && view_of(its) < view_) say(Kind::lead, letter.peer, letter.number);
      advance();
      break;
    case Kind::forgotten:
      if (is_old) break;
      if (recovery_) {
        const auto wanted = recovery_->wanted.find(letter.number);
        if (wanted != recovery_->wanted.end()) std::erase(wanted->second.holders, letter.peer);
        if (wanted != recovery_->wanted.end()) wanted->second.asked = no_rank;
        go_on_with_recovery();
        break;
      }
      tell(letter.number, {});
      break;
    case Kind::lead:  // it may have dropped what this rank had sent
      for (Mine& mine : mine_)
        if (mine.sent_to == letter.peer) mine.sent_to = no_rank;
      adopt(view_of(its));
      send_posts();
      break;
    case Kind::token:
      if (!is_old) take_token(letter, its);
      break;
    case Kind::ask:
      if (!is_old) answer_ask(letter.peer);
      break;
    case Kind::state:
      if (!is_old) take_state(letter, its);
      break;
    case Kind::fetch: answer_late(letter.peer, letter.number); break;
    case Kind::overdue:
      if (!leads() || letter.number < next_decision_ || letter.number > next_decision_ + 64) break;
      if (Slot& late = slot(letter.number); !late.posts[static_cast<std::size_t>(me_)].is_here)
        late.has_late_lead = true;
      break;
    case Kind::closing: known_ = std::max(known_, letter.number); break;
  }
  recover_if_needed();
}

// A rank wants to lead, or leads, in that epoch: no earlier lead is one any more.
void Quorum::note_promise(std::uint64_t epoch) {
  if (epoch <= promised_) return;
  if (leads()) UCFT_SOMETIMES("a rank gives up its lead");
  promised_ = epoch;
  stop_collecting();
  recovery_.reset();
  has_token_ = false;
  drop_slots();
  for (Mine& mine : mine_) mine.sent_to = no_rank;  // nothing of an earlier lead is taken
  send_posts();
}

void Quorum::adopt(const QuorumView& view) {
  if (view.epoch < promised_ || view <= view_) return;
  view_ = view;
  promised_ = view.epoch;
  has_token_ = false;
  recovery_.reset();
  stop_collecting();
  if (view_.lead != me_) drop_slots();
  send_posts();
  say_have();
}

// A new lead has not heard it.
void Quorum::say_have() {
  if (has_lead() && view_.lead != me_ && have_[static_cast<std::size_t>(me_)] > 0) say(Kind::have, view_.lead, posted_);
}

void Quorum::take_post(const QuorumLetter& letter, const QuorumHead& head) {
  const QuorumView its = view_of(head);
  adopt(its);
  if (head.of != no_rank && (letter.promised < promised_ || view_.lead != me_)) return;  // it is sent again
  const bool can_adopt = view_.epoch >= letter.promised;
  const bool knows_less = (its < view_ && view_.lead != me_ && can_adopt) || letter.promised < promised_;
  if (!leads() && knows_less && head.of == no_rank) return say(Kind::lead, letter.peer, letter.number);
  const Rank from = head.of == no_rank ? letter.peer : head.of;
  if (from == me_ || is_gone(from)) return;
  if (leads() && letter.number < next_decision_) return answer_late(from, letter.number);
  Post& post = slot(letter.number).posts[static_cast<std::size_t>(from)];
  if (post.is_here && UCFT_SOMETIMES("a post comes again")) return;
  post = {true, head.bytes, head.signature, head.quorum, head.deadline_ns, {}};
  if (head.has_value != 0) post.value = buffers_.localize(quorum_body::value(letter.body, head));
  advance();
}

void Quorum::take_value(const QuorumLetter& letter, const QuorumHead& head) {
  const auto found = slots_.find(letter.number);
  if (found == slots_.end()) return;
  Post& post = found->second.posts[static_cast<std::size_t>(letter.peer)];
  if (!post.is_here || post.value || post.bytes != head.bytes) return;
  post.value = quorum_body::value(letter.body, head);
  buffers_.retain(post.value);
  advance();
}

void Quorum::take_result(const QuorumLetter& letter, const QuorumHead& head) {
  adopt(view_of(head));
  const Slice body = buffers_.localize(letter.body);  // its sender may go
  if (body) keep(letter.number, body);
  tell(letter.number, body ? body : letter.body);
  buffers_.release(body);
  if (!recovery_) return forget_before(head.through);
  recovery_->wanted.erase(letter.number);
  go_on_with_recovery();
}

void Quorum::take_token(const QuorumLetter& letter, const QuorumHead& head) {
  adopt(view_of(head));
  if (view_ != view_of(head) || view_.lead != me_) return;
  for (std::size_t rank = 0; rank < have_.size(); ++rank)
    have_[rank] = std::max<OperationNumber>(have_[rank], quorum_body::word(buffers_, letter.body, rank));
  for (Rank rank = 0; rank < ranks(); ++rank)  // the ranks that have yet to say that they have a result
    if (rank != me_ && !is_gone(rank) && std::ranges::any_of(kept_, [&](const auto& kept) {
          return have_[static_cast<std::size_t>(rank)] <= kept.first && quorum_body::is_in(buffers_, kept.second, rank);
        }))
      say(Kind::lead, rank, letter.number);
  has_token_ = true;
  if (head.is_over != 0) slot(letter.number).is_over = true;
  lead_from(letter.number);
}

}  // namespace ucft::detail
