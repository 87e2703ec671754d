#include "ucx_layer/runtime/host_journal.hpp"

#include <cstring>
#include <utility>

#include "ucx_layer/runtime/communicator.hpp"

namespace ucft::detail {

namespace {

constexpr std::uint8_t was_needed = 1, may_gossip = 2;  // flags, of what is no message

}  // namespace

struct HostJournal::Head {
  // Its handles mean nothing. Of a contribution operation is the call. Of hosts that fail or leave peer, operation and
  // flags are about, from and was_needed. Of a turn flags are may_gossip.
  Message message;
  std::int64_t now_ns;
  std::uint32_t value_bytes, list_bytes;
  JournalEntry::What what;
  std::byte data[head_bytes - sizeof(Message) - 17];
};

HostJournal::HostJournal(Communicator* ranks, Buffers& buffers,
                         std::function<const HostContribution*(OperationNumber)> contribution)
    : ranks_(ranks), buffers_(buffers), contribution_(std::move(contribution)) {
  static_assert(sizeof(Head) == head_bytes && std::is_trivially_copyable_v<Head>);
}

bool HostJournal::speaks() const { return ranks_ == nullptr || ranks_->rank() == speaker_; }

// ---- writing --------------------------------------------------------------------------------------------------------

void HostJournal::append(std::uint64_t position, const JournalEntry& entry) {
  assert(may_append() && position == position_);
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
  payload_bytes_ = payload_of(head);
  if (payload_bytes_ > 0 && entry.list.empty()) {
    payload_ = entry.value.data();
  } else {
    if (!make_room()) return;
    std::byte* const data = payload_bytes_ > 0 ? buffers_.data(block_) : head.data;
    if (!entry.value.empty()) std::memcpy(data, entry.value.data(), entry.value.size());
    if (!entry.list.empty()) std::memcpy(data + entry.value.size(), entry.list.data(), entry.list.size());
  }
  std::memcpy(head_.data(), &head, sizeof head);
  writes_ = true;
  write();
}

std::size_t HostJournal::payload_of(const Head& head) {
  const std::size_t bytes = std::size_t{head.value_bytes} + head.list_bytes;
  return bytes > sizeof(Head::data) ? bytes : 0;
}

bool HostJournal::make_room() {
  if (payload_bytes_ == 0) return true;
  block_ = buffers_.allocate_anywhere(payload_bytes_);
  lacks_memory_ |= block_ == no_buffer;
  if (!lacks_memory_) payload_ = buffers_.data(block_);
  return !lacks_memory_;
}

void HostJournal::give_back() { buffers_.release(std::exchange(block_, no_buffer)); }

// False: not now.
bool HostJournal::post(Request& request, const std::byte* data, std::size_t bytes) {
  request.communicator = ranks_;
  request.arguments = Arguments{};
  request.arguments.kind = Kind::broadcast;
  request.arguments.reduction = {DataType::uint8, Operator::none};
  request.arguments.count = bytes;
  request.arguments.root = speaker_;
  request.send = request.receive = const_cast<std::byte*>(data);  // of which its root alone reads
  request.shortcut.reset();
  ranks_->plan(request);
  return ranks_->post(request) == UCFT_OK;
}

// Where there is no memory for a broadcast no rank gets it, and all know. The next speaker finds the news in it by
// itself.
void HostJournal::write() {
  if (ranks_ != nullptr) {
    if (request_.pending()) return;
    if (written_ == Written::nothing) {
      if (!post(request_, head_.data(), head_bytes)) return;
      written_ = Written::head;
      if (request_.pending()) return;
    }
    if (written_ == Written::head && request_.status == UCFT_OK && payload_bytes_ > 0) {
      if (!post(request_, payload_, payload_bytes_)) return;
      written_ = Written::payload;
      if (request_.pending()) return;
    }
    written_ = Written::nothing;
    lacks_memory_ |= request_.status != UCFT_OK;
    if (lacks_memory_) return;
  }
  writes_ = false;
  open();
}

// ---- reading --------------------------------------------------------------------------------------------------------

void HostJournal::open() {
  Head head;
  std::memcpy(&head, head_.data(), sizeof head);
  const std::byte* const data = payload_bytes_ > 0 ? payload_ : head_.data() + offsetof(Head, data);
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
  if (block_ != no_buffer && head.value_bytes > 0) entry_.block = {block_, 0, head.value_bytes};
  entry_.list = {data + head.value_bytes, head.list_bytes};
  is_there_ = true;
  ended_ |= entry_.what == JournalEntry::What::end;
}

const JournalEntry* HostJournal::at(std::uint64_t position) {
  if (is_there_ && position == position_ + 1) {
    is_there_ = false;
    ++position_;
    give_back();
    if (!speaks()) read();
  }
  if (!is_there_ || position != position_) return nullptr;
  if (entry_.what == JournalEntry::What::contribution) {
    const HostContribution* const mine = contribution_(entry_.contribution.call);
    if (mine == nullptr) return nullptr;
    entry_.contribution = *mine;
  }
  return &entry_;
}

// The next head, or what belongs to the one that has come.
void HostJournal::read() {
  while (!is_there_ && !ended_ && !speaks()) {
    if (!reads_) {
      const std::size_t bytes = in_payload_ ? payload_bytes_ : head_bytes;
      if (!post(request_, in_payload_ ? payload_ : head_.data(), bytes)) return;
      reads_ = true;
    }
    if (request_.pending()) return;
    if (request_.status != UCFT_OK) return;  // see advance()
    reads_ = false;
    if (!in_payload_) {
      Head head;
      std::memcpy(&head, head_.data(), sizeof head);
      payload_bytes_ = payload_of(head);
      if (!make_room()) return;
      in_payload_ = payload_bytes_ > 0;
      if (in_payload_) continue;
    }
    in_payload_ = false;
    open();
  }
}

// A speaker that is found dead here is found dead by the others, too, at the same place. So all agree on the next one.
bool HostJournal::advance() {
  if (lacks_memory_) return false;
  if (writes_) write();
  read();
  if (!reads_ || request_.pending() || request_.status == UCFT_OK) return false;
  reads_ = in_payload_ = false;
  give_back();
  if (request_.status != UCFT_ERR_ROOT_FAILED) return false;
  ++speaker_;
  return true;
}

}  // namespace ucft::detail
