// Quorum allreduces of one rank in a communicator: an operation is decided once `quorum` ranks have posted it and its
// deadline has passed, or once all that live have. A rank that posts it later is late: its value is not in the result,
// as all agree, and it stays a member. A value without I/O; quorum_driver.hpp moves the bytes.
//
// One rank leads. Each rank sends it what it posts; the lead combines the values in the order of ranks, and sends the
// result to those whose values are in it. So the ranks that are late have no part in what the others wait for.
//
//   lead is late        it hands the lead to a rank that has posted, which decides at once and leads from then on. A
//                       lead that finds when it posts that others have waited for longer than their deadline decides,
//                       and hands over then. So a slow rank costs the time of one answer, not more in the next
//   a rank is late      it posts, and gets the result, if that is kept: of the last `kept` operations
//   lead has gone       a rank that waits tells the lowest rank that lives. That one asks all, which promise to take
//                       nothing of an earlier lead any more. It gets the results that any of them has, and leads
//
// Which ranks are gone is known for certain (timeout_detector): a rank that is gone sends nothing more. Views are
// ordered: a rank that hears of a later lead sends again to that one what it waits for.
//
// Invariants:
// - A rank that leads in an epoch has promised no later one, and holds every result that any live rank holds, and that
//   some live rank may wait for.
// - Once a live rank knows the outcome of an operation, no lead decides that one again.
// - The lead decides operation k only if all live ranks in k - `kept` have that result. So no memory grows with a rank
//   that stops.
// - The value of a rank counts if its post is with the lead when the operation is decided.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "collectives/quorum/quorum_letter.hpp"
#include "collectives/reduction/reduction.hpp"

namespace ucft::detail {

struct QuorumView {
  std::uint64_t epoch = 0;
  std::uint64_t turn = 0;  // counts the leads of an epoch
  Rank lead = 0;
  Rank by = 0;  // that has handed it the lead; itself: nobody

  auto operator<=>(const QuorumView&) const = default;
};

class Quorum {
 public:
  struct Limits {
    std::uint64_t eager_bytes = 16 * 1024;  // a longer value is sent when the lead wants it
    OperationNumber kept = 4;
    std::int64_t overdue_ns = 50'000;  // a rank has waited for so long at least when it says that its deadline is over
  };
  using Id = void*;  // the driver's
  struct Call {
    Id id = nullptr;
    Reduction reduction{};
    std::uint64_t bytes = 0;  // of the value, in carriers
    std::uint16_t signature = 0;
    std::uint32_t quorum = 1;
    std::int64_t deadline_ns = 0;  // from the first post that the lead hears of
  };
  struct Completion {
    Id id = nullptr;
    OperationNumber number = 0;
    Slice result;  // of the operation, one reference; none: it is not kept any more, and the rank is late
  };

  Quorum(Rank me, Rank ranks, Buffers& buffers, Limits limits);
  Quorum(Rank me, Rank ranks, Buffers& buffers) : Quorum(me, ranks, buffers, Limits{}) {}
  ~Quorum() { clear(); }
  Quorum(const Quorum&) = delete;
  Quorum& operator=(const Quorum&) = delete;

  // A body for a post of that length: the value goes to body_value(). no_buffer: there is no memory.
  BufferId allocate_post(std::uint64_t bytes) { return buffers_.allocate(quorum_body::value_at(0) + bytes); }
  static Slice value_of_post(BufferId body, std::uint64_t bytes) { return {body, quorum_body::value_at(0), bytes}; }
  // body: takes over one reference.
  void post(const Call& call, BufferId body);
  // Of another rank. The letter's body stays the driver's.
  void on_letter(const QuorumLetter& letter);
  // In order: what it has sent has come, or does not come any more.
  void on_gone(Rank rank);
  // The time only goes on. Before the others, and while wants_time().
  void on_time(std::int64_t now_ns) { now_ns_ = now_ns; }
  void on_turn();
  bool wants_time() const {
    return leads() ? !collecting_ && has_posts(next_decision_)
                   : !mine_.empty() && !mine_.front().is_told && !mine_.front().is_overdue;
  }
  // This rank posts nothing more; all that it has posted is complete.
  void leave();
  bool is_recovering() const { return recovery_.has_value(); }
  bool holds_posts() const {
    return std::ranges::any_of(slots_, [](const auto& each) { return each.second.has_posts(); });
  }

  std::vector<QuorumLetter>& letters() { return letters_; }        // to be sent, in this order
  std::vector<Completion>& completions() { return completions_; }  // to be told, in this order
  OperationNumber posted() const { return posted_; }
  bool is_idle() const { return mine_.empty(); }
  Rank lead() const { return view_.lead; }
  bool is_gone(Rank rank) const { return gone_[static_cast<std::size_t>(rank)]; }
  bool leads() const { return has_token_ && view_.lead == me_ && !recovery_; }
  void clear();

 private:
  using Kind = QuorumLetter::Kind;
  struct Mine {
    Call call;
    OperationNumber number;
    BufferId body;  // one reference
    Rank sent_to = no_rank;
    std::int64_t posted_at_ns = 0;
    bool is_told = false, is_overdue = false;
    Slice result{};  // told: one reference, or none
  };
  struct Post {
    bool is_here = false;
    std::uint64_t bytes = 0;
    std::uint16_t signature = 0;
    std::uint32_t quorum = 0;
    std::int64_t deadline_ns = 0;
    Slice value{};  // one reference; none: it is pulled
  };
  struct Slot {  // of an operation that is not decided
    std::vector<Post> posts;
    std::int64_t first_seen_ns = -1;
    bool is_over = false, has_late_lead = false;

    bool has_posts() const { return std::ranges::any_of(posts, &Post::is_here); }
  };
  struct Collecting {  // the operation that is decided now
    std::vector<Rank> members;
    std::vector<bool> is_in;  // by member: its value is in the sum
    std::size_t next = 0, pulled = 0;
    Slice body;  // the result, as far as it is made; one reference
    bool is_empty = true;
    Outcome outcome = Outcome::success;
    Rank culprit = no_rank;
  };
  struct Recovery {
    std::vector<bool> awaited;  // by rank: an answer
    struct Wanted {
      std::vector<Rank> holders;
      Rank asked = no_rank;
    };
    std::map<OperationNumber, Wanted> wanted;  // results that this rank does not have
  };

  Rank ranks() const { return static_cast<Rank>(gone_.size()); }
  Rank lowest() const;  // that lives
  bool has_lead() const { return promised_ == view_.epoch && !is_gone(view_.lead); }
  Rank target() const { return has_lead() ? view_.lead : lowest(); }  // of posts
  // The rank that was to hand it over has gone before.
  bool is_lead_in_vain() const { return view_.lead == me_ && !has_token_ && is_gone(view_.by); }
  static QuorumView view_of(const QuorumHead& head) { return {head.epoch, head.turn, head.lead, head.by}; }
  Slot& slot(OperationNumber number);
  void release(Slot& slot);
  bool has_posts(OperationNumber number) const {
    const auto found = slots_.find(number);
    return found != slots_.end() && found->second.has_posts();
  }
  void drop_slots();
  void hand_posts_on(Rank to);
  Mine* find(OperationNumber number);

  QuorumHead head() const;
  void say(Kind kind, Rank to, OperationNumber number, QuorumHead head, const std::vector<std::uint64_t>& list = {});
  void say(Kind kind, Rank to, OperationNumber number) { say(kind, to, number, head()); }
  void hand(Kind kind, Rank to, OperationNumber number, Slice body);
  void send_posts();
  void say_have();
  void send_post(Mine& mine);
  static Post post_of(const Mine& mine);
  void say_post(Rank to, OperationNumber number, const Post& post, Rank of);
  void note_own(const Mine& mine);
  void note_post(Rank from, OperationNumber number, const Post& post);
  void answer_late(Rank rank, OperationNumber number);

  void note_promise(std::uint64_t epoch);
  void adopt(const QuorumView& view);
  void take_post(const QuorumLetter& letter, const QuorumHead& head);
  void take_value(const QuorumLetter& letter, const QuorumHead& head);
  void take_result(const QuorumLetter& letter, const QuorumHead& head);
  void take_token(const QuorumLetter& letter, const QuorumHead& head);
  void take_state(const QuorumLetter& letter, const QuorumHead& head);
  void answer_ask(Rank asker);

  void advance();
  bool may_decide();
  static Rank odd_one_out(const Slot& slot, const std::vector<Rank>& members);
  void begin();
  void hand_over(Rank to);
  void hand_over_after(const Slice& result);
  bool go_on();
  void decide();
  void stop_collecting();
  bool all_have(OperationNumber number) const;
  bool is_somebody_late(const Slice& result) const;
  void keep(OperationNumber number, Slice body);
  void forget_before(OperationNumber through);
  void tell(OperationNumber number, Slice body);

  void recover_if_needed();
  void go_on_with_recovery();
  void lead_from(OperationNumber number);

  const Rank me_;
  Buffers& buffers_;
  const Limits limits_;
  std::vector<bool> gone_;             // by rank
  std::vector<OperationNumber> have_;  // by rank, as the lead knows it
  QuorumView view_;
  std::uint64_t promised_ = 0;
  bool has_token_;
  OperationNumber posted_ = 0;
  OperationNumber next_decision_ = 0;  // of the lead
  OperationNumber known_ = 0;          // all outcomes before it may be known to live ranks, or to those that left
  std::int64_t now_ns_ = 0;
  std::deque<Mine> mine_;
  std::map<OperationNumber, Slot> slots_;
  std::optional<Collecting> collecting_;
  std::optional<Recovery> recovery_;
  bool has_left_ = false;
  std::map<OperationNumber, Slice> kept_;  // results; one reference each
  std::vector<QuorumLetter> letters_;
  std::vector<Completion> completions_;
};

}  // namespace ucft::detail
