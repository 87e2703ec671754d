// The shared path: lines in a ring in the peer's memory; payloads above one message stay with their sender, and are read from
// there. The remote path writes and reads the same rings.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "ucx_layer/transport/paths/calls.hpp"

namespace ucft::detail {

namespace {

void futex_wake(std::atomic<std::uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::span<const std::byte> bytes_of(const auto& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(value)};
}

}  // namespace

// Into the ring at once, with no reference kept; false if there is no room.
bool Transport::try_write(Peer& peer, const Queued& message) {
  WireHeader header = message.header;
  const std::uint64_t value_bytes = message.value.bytes;
  if (value_bytes > inline_limit) {
    const int ticket = free_ticket(peer);
    return ticket >= 0 && write_descriptor(peer, message, static_cast<std::uint32_t>(ticket));
  }
  header.value_bytes = static_cast<std::uint32_t>(value_bytes);
  const std::uint64_t body = body_bytes(header);
  if (body == value_bytes && (body == 8 || body == 0)) {  // the common case
    if (!has_room(peer, 1)) return false;
    std::uint64_t word = 0;
    if (body == 8) std::memcpy(&word, buffers_->data(message.value), sizeof word);
    peer.writer.write_line(header, word);
    touch(peer);
    return true;
  }
  if (!has_room(peer, mailbox_lines_of(sizeof header + body))) return false;
  const bool ballots = (header.transport_flags & has_ballots) != 0;
  const std::span<const std::byte> parts[] = {
      bytes_of(header),
      {buffers_->data(message.value), value_bytes},
      ballots ? bytes_of(message.ballots) : std::span<const std::byte>{},
      {buffers_->data(message.list), header.list_length * sizeof(std::uint32_t)}};
  peer.writer.write(parts);
  touch(peer);
  return true;
}

int Transport::free_ticket(Peer& peer) const {
  for (int ticket = 0; ticket < tickets && peer.pulls_open < tickets; ++ticket)
    if (peer.pulls[static_cast<std::size_t>(ticket)].value == no_buffer) return ticket;
  return -1;
}

bool Transport::write_descriptor(Peer& peer, const Queued& message, std::uint32_t ticket) {
  Pull& pull = peer.pulls[ticket];
  const std::uint64_t bytes = message.value.bytes;
  const Segment* segment = segment_of(buffers_->data(message.value), bytes);
  assert(segment != nullptr && "a value lives in memory that peers can map");
  std::span<const std::byte> key;
  if (peer.remote != nullptr) {
    const Registration* registration = registration_of(*segment);
    if (registration == nullptr) {  // e.g. the limit of locked memory: as a message it goes, too
      Queued whole = message;
      buffers_->retain(whole.value);
      buffers_->retain(whole.list);
      send_am(peer, whole);
      return true;
    }
    key = registration->key;
  }
  const WireDescriptor descriptor{reinterpret_cast<std::uint64_t>(buffers_->data(message.value)), bytes, ticket,
                                  pull.generation + 1, segment->name()};
  WireHeader header = message.header;
  header.transport_flags |= has_descriptor;
  header.value_bytes = static_cast<std::uint32_t>(sizeof descriptor + key.size());
  if (!has_room(peer, mailbox_lines_of(sizeof header + body_bytes(header)))) return false;
  const bool ballots = (header.transport_flags & has_ballots) != 0;
  const std::span<const std::byte> parts[] = {
      bytes_of(header),
      bytes_of(descriptor),
      key,
      ballots ? bytes_of(message.ballots) : std::span<const std::byte>{},
      {buffers_->data(message.list), header.list_length * sizeof(std::uint32_t)}};
  peer.writer.write(parts);
  touch(peer);
  ++pull.generation;
  pull.value = message.value.buffer;
  buffers_->retain(message.value);
  ++peer.pulls_open;
  ++waiting_;
  return true;
}

// After a line was written.
void Transport::touch(Peer& peer) {
  if (peer.remote != nullptr) return put_lines(peer);
  if (peer.touched) return;
  peer.touched = true;
  touched_.push_back(index_of(peer));
}

// A store wakes nobody: whoever was written to and sleeps is woken here. Our lines must be visible before we look at
// `sleeping`. A fence for that would wait until the line has travelled, in every message; so the sleeper makes all of us
// fence (membarrier) after it has set the word, and looks at its rings again.
void Transport::ring_doorbells() {
  if (touched_.empty()) return;
  if (setup_.sleeper_fences)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int index : touched_) {
    Peer& peer = peer_at(index);
    peer.touched = false;
    if (peer.control->sleeping.load(std::memory_order_relaxed) == 0) continue;
    peer.control->sleeping.store(0, std::memory_order_relaxed);
    futex_wake(&peer.control->sleeping);
  }
  touched_.clear();
}

// At most one message. Its lines are consumed once its bytes are ours.
bool Transport::poll_mailbox(Peer& peer) {
  MailboxReader& reader = reader_of(peer);
  if (!reader.has_line() || (peer.remote != nullptr && peer.remote->pull != nullptr)) return false;
  WireHeader header;
  std::memcpy(&header, reader.payload(), sizeof header);
  const Malformed wrong = examine(header, setup_.cookie, body_bytes(header), inline_limit);
  if (wrong != Malformed::no) {
    note_malformed(wrong, index_of(peer));
    reader.consume(1);
    put_credit(peer);
    return true;
  }
  const std::uint64_t body = body_bytes(header);
  const std::uint32_t lines = mailbox_lines_of(sizeof header + body);
  if (lines > 1 && !reader.has_lines(lines)) return false;
  if (header.phase >= static_cast<std::uint8_t>(Control::hello)) {
    reader.consume(lines);
    put_credit(peer);
    setup_.sink.control(setup_.sink.arg, header, index_of(peer));
    return true;
  }
  if (!setup_.sink.accepts(setup_.sink.arg, header, index_of(peer))) return false;
  if (peer.remote != nullptr && (header.transport_flags & has_descriptor) != 0) return start_pull(peer, header);

  std::int32_t ballots[2] = {no_rank, no_rank};
  std::size_t offset = sizeof header + header.value_bytes;
  if ((header.transport_flags & has_ballots) != 0) {
    reader.copy(offset, reinterpret_cast<std::byte*>(ballots), sizeof ballots);
    offset += sizeof ballots;
  }
  Message message = parse_header(header, ballots);
  if (header.list_length > 0) {
    message.list = buffers_->allocate(header.list_length * sizeof(std::uint32_t));
    reader.copy(offset, buffers_->data(message.list), header.list_length * sizeof(std::uint32_t));
  }
  bool complete = true;
  if ((header.transport_flags & has_descriptor) != 0) {
    message.value = buffers_->whole(map_payload(peer));
    complete = static_cast<bool>(message.value);
    if (complete) copy_if_crowded(peer, message);
  } else if (header.value_bytes > 0) {
    message.value = {read_value(peer, header), 0, header.value_bytes};
  }
  reader.consume(lines);
  put_credit(peer);
  if (complete) setup_.sink.deliver(setup_.sink.arg, header, message, index_of(peer));
  buffers_->release(message.value);
  buffers_->release(message.list);
  return true;
}

BufferId Transport::read_value(Peer& peer, const WireHeader& header) {
  const BufferId value = buffers_->allocate(header.value_bytes);  // inline, so there is a private block at least
  if (header.value_bytes == 8)
    std::memcpy(buffers_->data(value), reader_of(peer).payload() + sizeof header, 8);
  else
    reader_of(peer).copy(sizeof header, buffers_->data(value), header.value_bytes);
  return value;
}

// Not copied: the value is the peer's own memory, until the last reference to the buffer goes (give_back).
BufferId Transport::map_payload(Peer& peer) {
  WireDescriptor descriptor;
  reader_of(peer).copy(sizeof(WireHeader), reinterpret_cast<std::byte*>(&descriptor), sizeof descriptor);
  if (descriptor.ticket >= tickets || descriptor.bytes == 0) {
    note_malformed(Malformed::length, index_of(peer));
    return no_buffer;
  }
  if (!peer.mapped.contains(descriptor.address, descriptor.bytes)) {
    note_malformed(Malformed::length, index_of(peer));
    return no_buffer;
  }
  ++peer.views;
  const std::uint64_t tag = std::uint64_t{static_cast<std::uint32_t>(index_of(peer))} << 40 |
                            std::uint64_t{descriptor.ticket} << 32 | descriptor.generation;
  return buffers_->adopt(peer.mapped.at(descriptor.address), descriptor.bytes, tag);
}

// The owner has so many tickets. What we keep of one operation must not block the next message of the same one.
void Transport::copy_if_crowded(Peer& peer, Message& message) {
  if (peer.views <= tickets / 2) return;
  const BufferId copy = buffers_->copy_in(buffers_->data(message.value), message.value.bytes);
  if (copy == no_buffer) return;
  buffers_->release(message.value);
  message.value = buffers_->whole(copy);
}

// Tells owners that their payloads have been read, and UCX that its data can go.
void Transport::give_back() {
  std::vector<std::uint64_t>& released = buffers_->released();
  if (released.empty()) return;
  for (std::uint64_t tag : released) {
    if (tag >> 63) {
      if (tag != ~std::uint64_t{0})
        ucp_am_data_release(ucx_.worker(), reinterpret_cast<void*>(tag & ~(std::uint64_t{1} << 63)));
      continue;
    }
    Peer& peer = peer_at(static_cast<int>(tag >> 40));
    --peer.views;
    peer.pulled_there[(tag >> 32) & 0xff].store(static_cast<std::uint32_t>(tag), std::memory_order_release);
  }
  released.clear();
}

void Transport::collect_pulls(Peer& peer) {
  for (std::size_t ticket = 0; ticket < tickets && peer.pulls_open > 0; ++ticket) {
    Pull& pull = peer.pulls[ticket];
    if (pull.value == no_buffer || peer.pulled_here[ticket].load(std::memory_order_acquire) != pull.generation)
      continue;
    buffers_->release(pull.value);
    pull.value = no_buffer;
    --peer.pulls_open;
    --waiting_;
  }
}

void Transport::advance_waiting() {
  for (int index : mailbox_peers_) {
    Peer& peer = peer_at(index);
    if (peer.pulls_open > 0) collect_pulls(peer);
    while (!peer.backlog.empty() && try_write(peer, peer.backlog.front())) {
      drop(peer.backlog.front());
      peer.backlog.pop_front();
      --waiting_;
    }
  }
  ring_doorbells();
}

void Transport::publish_credit() {
  for (int index : mailbox_peers_) {
    readers_[static_cast<std::size_t>(index)].publish();
    put_credit(peer_at(index));
  }
}

}  // namespace ucft::detail
