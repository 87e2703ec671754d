#include "ucx_layer/runtime/engines/host_journal.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>
#include <utility>

#include "collectives/on_host/host_copy.hpp"
#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

namespace {

constexpr std::uint64_t wakes_after = 16;  // entries: others read them before the log is full
constexpr std::uint32_t looks_after = 16;  // turns: whether others need lent memory is not looked for in each
constexpr std::uint8_t was_needed = 1, may_gossip = 2;  // flags, of what is no message

}  // namespace

struct HostJournal::Head {
  // Its handles mean nothing. Of a contribution operation is the call. Of hosts that fail or leave peer, operation and
  // flags are about, from and was_needed. Of a turn flags are may_gossip.
  Message message;
  std::int64_t now_ns;
  HostPlace payload;  // from the slab of the rank that has appended; of data that have no room here
  std::uint32_t value_bytes, list_bytes;
  JournalEntry::What what;
  std::byte data[head_bytes - sizeof(Message) - 25];
};

HostJournal::HostJournal(std::uint32_t id, const std::vector<std::int32_t>& ranks, Rank me, Context& context,
                         std::function<const HostContribution*(OperationNumber)> contribution)
    : context_(context),
      slabs_(id, ranks, me, context.transport()),
      log_(me, static_cast<Rank>(ranks.size()), context.transport().slabs().bytes() / sizeof(HostWord), entry_words),
      buffers_(context.transport().buffers()),
      contribution_(std::move(contribution)) {
  static_assert(sizeof(Head) == head_bytes && std::is_trivially_copyable_v<Head>);
}

HostJournal::~HostJournal() {
  for (const Payloads* each : {&borrowed_, &lent_})
    for (const Payload& payload : *each) buffers_.release(payload.block);
}

std::uint64_t HostJournal::payload_bytes(const Head& head) {
  const std::uint64_t bytes = std::uint64_t{head.value_bytes} + head.list_bytes;
  return bytes > sizeof(Head::data) ? bytes : 0;
}

// ---- appending ------------------------------------------------------------------------------------------------------

// A rank that has said that it is out is as good as dead to the others: it stores nothing more.
bool HostJournal::may_append() const {
  return log_.speaks() && !is_there_ && dead_ == no_rank && !ended_ && !lacks_memory_ && log_.has_room() &&
         !context_.excluded();
}

void HostJournal::append(std::uint64_t position, const JournalEntry& entry) {
  assert(may_append() && position == log_.position());
  Head head{};
  head.message = entry.message;
  if (entry.what == JournalEntry::What::contribution) head.message.operation = entry.contribution.call;
  if (entry.what != JournalEntry::What::contribution && entry.what != JournalEntry::What::message) {
    head.message.peer = entry.about;
    head.message.operation = entry.from;
    head.message.flags =
        static_cast<std::uint8_t>((entry.was_needed ? was_needed : 0) | (entry.may_gossip ? may_gossip : 0));
  }
  head.now_ns = entry.now_ns;
  head.value_bytes = static_cast<std::uint32_t>(entry.value.size());
  head.list_bytes = static_cast<std::uint32_t>(entry.list.size());
  head.what = entry.what;
  const Slice payload = lay_out(entry, head);
  if (lacks_memory_) return;
  std::memcpy(head_.data(), &head, sizeof head);
  if (payload) UCFT_TEST_POINT(entry);
  log_.append(slabs_, head_.data(), head_bytes);
  if (log_.position() % wakes_after == 0) slabs_.wake();
  open(head, payload);
}

// Puts the data where all can read them. Returns where they are, if not in the head.
Slice HostJournal::lay_out(const JournalEntry& entry, Head& head) {
  const std::uint64_t bytes = payload_bytes(head);
  Slice payload = entry.appended;
  std::byte* to = head.data;
  if (bytes == 0) {
    payload = {};
  } else if (lies_where_all_read(entry)) {
    buffers_.retain(payload);
  } else {
    const std::uint64_t wanted = std::max(bytes, Buffers::private_limit + 1);
    payload = {buffers_.allocate(wanted), 0, static_cast<std::uint32_t>(bytes)};
    if (!payload) free_lent();
    if (!payload) payload.buffer = buffers_.allocate(wanted);
    lacks_memory_ |= !payload;
    if (lacks_memory_) return {};
    to = buffers_.data(payload);
  }
  if (payload) {
    lent_.push_back({log_.position(), payload.buffer});
    head.payload = slabs_.place_of(buffers_.data(payload));
    if (payload == entry.appended) return payload;
  }
  if (!entry.value.empty()) host_copy(to, entry.value.data(), entry.value.size());
  if (!entry.list.empty()) std::memcpy(to + entry.value.size(), entry.list.data(), entry.list.size());
  return payload;
}

// Blocks of more than Buffers::private_limit are in memory that all have mapped, unless they are adopted.
bool HostJournal::lies_where_all_read(const JournalEntry& entry) const {
  const BufferId block = entry.appended.buffer;
  if (block == no_buffer || !entry.list.empty()) return false;
  return !buffers_.is_adopted(block) && buffers_.bytes(block) > Buffers::private_limit &&
         reinterpret_cast<std::uintptr_t>(entry.value.data()) % sizeof(HostWord) == 0;
}

void HostJournal::free_lent() {
  log_.look_for_readers(slabs_);
  for (; !lent_.empty() && lent_.front().position < log_.let_go_by_all(); lent_.pop_front())
    buffers_.release(lent_.front().block);
}

// Nothing but the entry that is read refers to it: this rank needs it no more.
void HostJournal::give_back() {
  while (!borrowed_.empty() && borrowed_.front().position < log_.position() &&
         buffers_.references(borrowed_.front().block) == 1) {
    buffers_.release(borrowed_.front().block);
    borrowed_.pop_front();
  }
  const std::uint64_t needs = borrowed_.empty() ? log_.position() : borrowed_.front().position;
  if (std::exchange(needs_, needs) != needs) log_.let_go(slabs_, needs);
}

// ---- reading --------------------------------------------------------------------------------------------------------

const JournalEntry* HostJournal::at(std::uint64_t position) {
  if (is_there_ && position == log_.position() + 1) {
    is_there_ = false;
    log_.pass(slabs_);
    give_back();
    if (log_.speaks() && !log_.has_room()) log_.look_for_readers(slabs_);
  }
  read();
  if (!is_there_ || position != log_.position()) return nullptr;
  if (entry_.what == JournalEntry::What::contribution) {
    const HostContribution* const mine = contribution_(entry_.contribution.call);
    if (mine == nullptr) return nullptr;
    entry_.contribution = *mine;
  }
  return &entry_;
}

void HostJournal::read() {
  if (is_there_ || dead_ != no_rank || ended_ || lacks_memory_ || log_.speaks()) return;
  const HostLog::Look found = log_.look(slabs_);
  if (found == HostLog::Look::next_speaks) dead_ = log_.speaker() - 1;
  if (found != HostLog::Look::there) return;
  Head head;
  std::memcpy(head_.data(), log_.payload(slabs_, head_bytes), head_bytes);
  std::memcpy(&head, head_.data(), sizeof head);
  Slice payload;
  if (const std::uint64_t bytes = payload_bytes(head); bytes > 0) {
    payload = buffers_.whole(buffers_.adopt(slabs_.read(log_.speaker(), head.payload), bytes, untold));
    borrowed_.push_back({log_.position(), payload.buffer});
  }
  open(head, payload);
}

// payload: none if the head has the data.
void HostJournal::open(const Head& head, Slice payload) {
  const std::byte* const data = payload ? buffers_.data(payload) : head_.data() + offsetof(Head, data);
  entry_ = JournalEntry{};
  entry_.what = head.what;
  entry_.contribution.call = head.message.operation;
  entry_.message = head.message;
  entry_.about = head.message.peer;
  entry_.from = head.message.operation;
  entry_.was_needed = (head.message.flags & was_needed) != 0;
  entry_.may_gossip = (head.message.flags & may_gossip) != 0;
  entry_.now_ns = head.now_ns;
  entry_.value = {data, head.value_bytes};
  if (payload && head.value_bytes > 0) entry_.block = payload.part(0, head.value_bytes);
  entry_.list = {data + head.value_bytes, head.list_bytes};
  is_there_ = true;
  ended_ |= entry_.what == JournalEntry::What::end;
}

Rank HostJournal::advance() {
  if (log_.speaks() && (!log_.has_room() || (!lent_.empty() && ++turns_ % looks_after == 0))) free_lent();
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
