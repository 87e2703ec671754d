#include "ucx_layer/runtime/engines/host_journal.hpp"

#include <cassert>
#include <cstring>
#include <utility>

#include "collectives/core/sometimes.hpp"
#include "collectives/on_host/host_copy.hpp"
#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

namespace {

constexpr std::uint64_t wakes_after = 16;  // entries: others read them before the log is full
constexpr std::uint32_t looks_after = 16;  // turns: whether others need lent memory is not looked for in each

}  // namespace

HostJournal::HostJournal(std::uint32_t id, const std::vector<std::int32_t>& ranks, Rank me, Context& context,
                         std::function<const ProcessContribution*(OperationNumber)> contribution)
    : context_(context),
      slabs_(id, ranks, me, context.transport()),
      log_(me, static_cast<Rank>(ranks.size()), context.transport().slabs().bytes() / sizeof(HostWord),
           JournalHead::slot_words),
      buffers_(context.transport().buffers()),
      payloads_(buffers_),
      contribution_(std::move(contribution)) {}

// ---- appending ------------------------------------------------------------------------------------------------------

// A rank that has said that it is out is as good as dead to the others: it stores nothing more.
bool HostJournal::may_append() const {
  return log_.speaks() && !is_there_ && dead_ == no_rank && !ended_ && !lacks_memory_ && log_.has_room() &&
         !context_.excluded();
}

void HostJournal::append(std::uint64_t position, const JournalEntry& entry) {
  assert(may_append() && position == log_.position());
  JournalHead head = JournalHead::of(entry);
  const Slice payload = lay_out(entry, head);
  if (lacks_memory_) return;
  std::memcpy(head_.data(), &head, sizeof head);
  if (payload) UCFT_TEST_POINT(entry);
  log_.append(slabs_, head_.data(), head_.size());
  if (log_.position() % wakes_after == 0) slabs_.wake();
  open(head, payload);
}

// Puts the data where all can read them. Returns where they are, if not in the head.
Slice HostJournal::lay_out(const JournalEntry& entry, JournalHead& head) {
  const std::uint64_t bytes = head.payload_bytes();
  const bool lies_well = bytes > 0 && entry.list.empty() && payloads_.lies_where_all_read(entry.block, entry.value);
  Slice payload;
  if (lies_well) {
    payload = entry.block;
    buffers_.retain(payload);
  } else if (bytes > 0) {
    payload = payloads_.allocate(bytes);
    if (!payload && UCFT_SOMETIMES("memory of a log is taken back")) take_back_lent();
    if (!payload) payload = payloads_.allocate(bytes);
    lacks_memory_ |= !payload;
    if (lacks_memory_) return {};
  }
  if (payload) {
    payloads_.lend(log_.position(), payload);
    head.payload = slabs_.place_of(buffers_.data(payload));
    if (lies_well) return payload;
  }
  std::byte* const to = payload ? buffers_.data(payload) : head.data;
  if (!entry.value.empty()) host_copy(to, entry.value.data(), entry.value.size());
  if (!entry.list.empty()) std::memcpy(to + entry.value.size(), entry.list.data(), entry.list.size());
  return payload;
}

void HostJournal::take_back_lent() {
  log_.look_for_readers(slabs_);
  payloads_.take_back(log_.let_go_by_all());
}

void HostJournal::give_back() {
  const std::uint64_t needs = payloads_.give_back(log_.position());
  if (std::exchange(needs_, needs) != needs) log_.let_go(slabs_, needs);
}

// ---- reading --------------------------------------------------------------------------------------------------------

const JournalEntry* HostJournal::at(std::uint64_t position) {
  if (is_there_ && position == log_.position() + 1) {
    is_there_ = false;
    log_.pass(slabs_);
    give_back();
    if (log_.speaks() && !log_.has_room() && UCFT_SOMETIMES("a log is full")) log_.look_for_readers(slabs_);
  }
  read();
  if (!is_there_ || position != log_.position()) return nullptr;
  if (entry_.what == JournalEntry::What::contribution) {
    const ProcessContribution* const mine = contribution_(entry_.from);
    if (mine == nullptr) return nullptr;
    entry_.contribution = mine;
  }
  return &entry_;
}

void HostJournal::read() {
  if (is_there_ || dead_ != no_rank || ended_ || lacks_memory_ || log_.speaks()) return;
  const HostLog::Look found = log_.look(slabs_);
  if (found == HostLog::Look::next_speaks && UCFT_SOMETIMES("a reader finds that a log has no more of its writer"))
    dead_ = log_.speaker() - 1;
  if (found != HostLog::Look::there) return;
  JournalHead head;
  std::memcpy(head_.data(), log_.payload(slabs_, head_.size()), head_.size());
  std::memcpy(&head, head_.data(), sizeof head);
  Slice payload;
  if (const std::uint64_t bytes = head.payload_bytes(); bytes > 0)
    payload = payloads_.borrow(log_.position(), slabs_.read(log_.speaker(), head.payload), bytes);
  open(head, payload);
}

// payload: none if the head has the data.
void HostJournal::open(const JournalHead& head, Slice payload) {
  entry_ = head.entry(payload ? buffers_.data(payload) : head_.data() + offsetof(JournalHead, data));
  if (payload && head.value_bytes > 0) entry_.block = payload.part(0, head.value_bytes);
  is_there_ = true;
  ended_ |= entry_.what == JournalEntry::What::end;
}

Rank HostJournal::advance() {
  if (log_.speaks() && (!log_.has_room() || (payloads_.has_lent() && ++turns_ % looks_after == 0))) take_back_lent();
  give_back();
  read();
  return std::exchange(dead_, no_rank);
}

void HostJournal::leave() {
  if (!slabs_.is_there()) return;
  slabs_.say_left(0);
  slabs_.close();
}

}  // namespace ucft::detail
