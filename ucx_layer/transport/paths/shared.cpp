#include "ucx_layer/transport/paths/shared.hpp"

#include <fmt/core.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <climits>

namespace ucft::detail {

namespace {

void futex_wake(std::atomic<std::uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

bool SharedPath::connect(int peer, const RangeName& range, std::string& error) {
  auto link = std::make_unique<SharedLink>();
  if (!link->mapped.open(range, error)) {
    error = fmt::format("rank {}'s memory can't be mapped: {}", peer, error);
    return false;
  }
  std::byte* there = link->mapped.at(range.address);
  link->control = FirstSegment::control_in(there);
  if (link->control->cookie != station_.cookie) {
    error = fmt::format("rank {}'s memory belongs to another job", peer);
    return false;
  }
  const int mailbox = mailbox_there(peer);
  link->pulled_there = first_.pulled_in(there, mailbox);
  if (sleepers_ == nullptr && peer < station_.me) sleepers_ = link->control->sleepers;
  add(peer, std::move(link), first_.ring_in(there, mailbox), first_.credit_in(there, mailbox));
  return true;
}

bool SharedPath::poll() {
  const bool active = poll_rings();
  if (waiting_ > 0) {
    advance_waiting();
    ring_doorbells();
  }
  return active;
}

void SharedPath::unmap() {
  for (int peer : peers()) link_of(peer).mapped.close();
}

std::byte* SharedPath::memory_of(int peer, std::uint64_t address, std::uint64_t bytes) const {
  if (!has(peer)) return nullptr;
  const MappedRange& mapped = link_of(peer).mapped;
  return mapped.contains(address, bytes) ? mapped.at(address) : nullptr;
}

void SharedPath::wrote(int peer, SharedLink& link) {
  if (link.touched) return;
  link.touched = true;
  touched_.push_back(peer);
}

// A store wakes no rank: a rank that was written to and sleeps is woken here. Our lines must be visible before we look
// at `sleeping`. A fence for that would wait until the line has travelled, in every message. So the sleeper makes all
// of us fence (membarrier) after it has set the word, and looks at its rings again.
void SharedPath::ring_doorbells() {
  if (touched_.empty()) return;
  if (sleeper_fences_)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int peer : touched_) {
    SharedLink& link = link_of(peer);
    link.touched = false;
    wake_up(link);
  }
  touched_.clear();
}

void SharedPath::wake_up(SharedLink& link) {
  if (link.control->sleeping.load(std::memory_order_relaxed) == 0) return;
  link.control->sleeping.store(0, std::memory_order_relaxed);
  futex_wake(&link.control->sleeping);
}

void SharedPath::wake_sleepers(std::size_t word, std::uint64_t bits) {
  constexpr int apart = 64 * ControlPage::sleeper_words;
  for (; bits != 0; bits &= bits - 1)
    for (int rank = static_cast<int>(word) * 64 + std::countr_zero(bits); rank < station_.ranks; rank += apart)
      if (has(rank)) wake_up(link_of(rank));
}

void SharedPath::note_sleep(int rank, bool sleeps) {
  Ranks bit{};
  include(rank, bit);
  for (std::size_t word = 0; word < words_of_sleepers_; ++word) {
    if (bit[word] == 0) continue;
    if (sleeps)
      sleepers()[word].fetch_or(bit[word]);
    else
      sleepers()[word].fetch_and(~bit[word]);
  }
}

SlabView SharedPath::slab_of(int peer, std::uint32_t communicator, std::size_t bytes) const {
  if (!has(peer)) return {};
  const SharedLink& link = link_of(peer);
  auto* page = FirstSegment::slabs_in(reinterpret_cast<std::byte*>(link.control));
  while (page != nullptr) {
    if (const SlabEntry* const entry = page->find(communicator, SlabEntry::key_of(communicator)))
      return {true, (entry->key.load(std::memory_order_acquire) & SlabEntry::closed) != 0,
              memory_of(peer, entry->address.load(std::memory_order_relaxed), bytes)};
    const std::uint64_t next = page->next.load(std::memory_order_acquire);
    page = next == 0 ? nullptr : reinterpret_cast<SlabPage*>(memory_of(peer, next, sizeof(SlabPage)));
  }
  return {};
}

bool SharedPath::take_payload(int peer, SharedLink& link, const WireHeader& header) {
  MailboxReader& reader = reader_of(peer);
  Message message = parse(reader, header);
  message.value = map_payload(peer, link);
  // The owner has so many tickets. Payloads that we keep for one operation must not block its next message.
  if (message.value && link.views > static_cast<int>(pull_tickets) / 2) {
    const BufferId copy = station_.buffers.copy_in(station_.buffers.data(message.value), message.value.bytes);
    if (copy != no_buffer) {
      station_.buffers.release(message.value);
      message.value = station_.buffers.whole(copy);
    }
  }
  consume(peer, link, reader, header);
  if (message.value) deliver(peer, header, message);
  release(message);
  return true;
}

// Not copied: the value is the peer's own memory, until the last reference to the buffer goes (give_back).
Slice SharedPath::map_payload(int peer, SharedLink& link) {
  WireDescriptor descriptor;
  reader_of(peer).copy(sizeof(WireHeader), reinterpret_cast<std::byte*>(&descriptor), sizeof descriptor);
  if (descriptor.ticket >= pull_tickets || descriptor.bytes == 0 || descriptor.bytes > value_limit ||
      !link.mapped.contains(descriptor.address, descriptor.bytes)) {
    station_.rejects.note(Malformed::length, peer);
    return {};
  }
  ++link.views;
  const std::uint64_t tag = std::uint64_t{static_cast<std::uint32_t>(peer)} << 40 |
                            std::uint64_t{descriptor.ticket} << 32 | descriptor.generation;
  return station_.buffers.whole(station_.buffers.adopt(link.mapped.at(descriptor.address), descriptor.bytes, tag));
}

void SharedPath::give_back(std::uint64_t tag) {
  SharedLink& link = link_of(static_cast<int>(tag >> 40));
  --link.views;
  link.pulled_there[(tag >> 32) & 0xff].store(static_cast<std::uint32_t>(tag), std::memory_order_release);
}

}  // namespace ucft::detail
