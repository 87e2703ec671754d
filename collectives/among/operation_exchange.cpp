// The part of an operation whose data go straight from member to member (phases/personal_exchange.hpp).
#include <cstring>
#include <utility>

#include "collectives/among/operation.hpp"

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

namespace {

// Of a set of members, a bit each.
bool is_in(Slice set, Rank member, const Buffers& buffers) {
  std::uint64_t word = 0;
  if (set) std::memcpy(&word, buffers.data(set) + static_cast<std::uint64_t>(member) / 64 * sizeof word, sizeof word);
  return (word >> member % 64 & 1) != 0;
}

}  // namespace

void Operation::begin_exchange(Outbox& out) {
  Message blank = blank_;
  blank.prev = prev_;
  PersonalExchange::Stream mine;
  if (memory_.lacks)
    mine = PersonalExchange::without(Outcome::no_memory, lacking());
  else if (memory_.root_died)
    mine = PersonalExchange::without(Outcome::root_failed);
  exchange_.start(blank, memory_.input, memory_.shares, {memory_.room, memory_.room_grows},
                  row_->from_root() ? arguments_.root : no_rank, mine, ballots_, out);
  if (ballots_.any_member_failed()) {
    UCFT_SOMETIMES("an exchange begins when a rank has failed");
    ballots_.promise(ballots_.first());
    join(out);
  } else {
    ++attempts_;
    ballots_.promise_optimistic();
    go_on_with_exchange(out);
  }
  drain_inbox(out);
}

void Operation::on_exchange(const Message& message, Outbox& out) {
  if (!follows_the_same(message)) UCFT_SOMETIMES("a stream comes of an orphaned decision");
  if (!follows_the_same(message) || mismatch_told_ || (finished_ && message.phase != Phase::closing)) return;
  if (!exchange_.accepts(message)) return on_mismatch(message, out);
  exchange_.on_message(message, out.buffers());
  go_on_with_exchange(out);
}

void Operation::go_on_with_exchange(Outbox& out) {
  if (joins_later_ && exchange_.has_all_that_live(ballots_) &&
      UCFT_SOMETIMES("an exchange that lost a rank has all of the others"))
    return join(out);
  if (!ballots_.is_optimistic() || !exchange_.close(ballots_, out) || finished_) return;
  Buffers& buffers = out.buffers();
  if (const Rank lacking = exchange_.first_lacking(); lacking != no_rank) {
    UCFT_SOMETIMES("a rank lacks memory for an exchange");
    decision_.lack_memory(lacking);
  } else if (memory_.lacks) {  // it gives nothing, so it has not told the others
    decision_.lack_memory(this->lacking());
  } else if (row_->from_root() && !exchange_.has(arguments_.root)) {
    decision_.outcome = Outcome::root_failed;
  } else {
    const std::vector<std::uint64_t> set = exchange_.set(arguments_.count);
    decision_.value = buffers.whole(std::exchange(memory_.result, no_buffer));
    std::memcpy(buffers.data(decision_.value), set.data(), arguments_.bytes());
  }
  decision_.first_decided = decision_.accepted = optimistic_ballot;
  delivered_ = true;
  finish(buffers);
}

// The set of members whose streams this rank has. It has joined a ballot with what it has decided, or gives this.
void Operation::give_set(Message& mine, Buffers& buffers) {
  if (delivered_ || memory_.lacks) return;
  const std::vector<std::uint64_t> set = exchange_.set(arguments_.count);
  buffers.release(std::exchange(set_, buffers.whole(buffers.copy_in(set.data(), arguments_.bytes()))));
  mine.value = set_;
  if (!set_) mine.blame(lacking());
}

bool Operation::lacks_streams_of_root(Slice set, const Buffers& buffers) const {
  return row_->goes_straight && row_->from_root() && !is_in(set, arguments_.root, buffers);
}

const PersonalExchange::Stream* Operation::stream_of(Rank member, const Buffers& buffers) const {
  const bool counts = decision_.outcome == Outcome::success && is_in(decision_.value, member, buffers);
  return counts ? &exchange_.stream(member) : nullptr;
}

}  // namespace ucft::detail
