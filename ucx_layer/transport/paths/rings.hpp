// The common part of the shared and the remote path. It has a ring of lines in each direction, payloads that stay with
// their sender until they are fetched (tickets), and messages that wait for room.
//
// A path of rings, Self, derives from RingPath<Self, Link> and says what is its own:
//   has_room(link, lines)     beyond what the ring's writer knows
//   wrote(peer, link)         lines have been written
//   read(peer, link)          lines have been consumed
//   is_fetching(link)         the next message waits for its payload: nothing behind it is read
//   key_of(segment, key)      what a peer needs to fetch from it, beyond the descriptor; false: it can't
//   send_otherwise(peer, message)                then: by another way
//   take_payload(peer, link, header)             a message with a descriptor has come; true if anything was done
// and derives its Link from RingLink.
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "ucx_layer/transport/memory/first_segment.hpp"
#include "ucx_layer/transport/memory/mailbox.hpp"
#include "ucx_layer/transport/memory/segments.hpp"
#include "ucx_layer/transport/paths/path.hpp"

namespace ucft::detail {

inline constexpr std::size_t inline_limit = 2048;  // value bytes that travel in the ring
static_assert(inline_limit <= Buffers::private_limit);
static_assert(mailbox_lines_of(sizeof(WireHeader) + inline_limit + sizeof(Outgoing::tail) +
                               failure_list_limit * sizeof(std::uint32_t)) <= mailbox_longest);

struct RingLink {
  struct Pull {
    BufferId value = no_buffer;
    std::uint32_t generation = 0;
  };
  bool forgotten = false;
  MailboxWriter writer;
  std::atomic<std::uint32_t>* pulled = nullptr;  // [pull_tickets], here: the peer has read that generation
  std::array<Pull, pull_tickets> pulls;
  int pulls_open = 0;
  std::deque<Outgoing> backlog;
};

template <class Self, class Link>
class RingPath : public Path {
 public:
  RingPath(const Station& station, Segments& segments)
      : station_(station),
        segments_(segments),
        first_(station.mailboxes.count, station.ring_lines),
        links_(static_cast<std::size_t>(station.ranks)),
        readers_(static_cast<std::size_t>(station.ranks)) {}

  void send(int peer, const Outgoing& message) final {
    Link& link = link_of(peer);
    if (link.backlog.empty() && try_write(peer, link, message)) return;
    station_.buffers.retain(message.value);
    station_.buffers.retain(message.list);
    link.backlog.push_back(message);
    ++waiting_;
  }
  void drain(int peer) final {
    while (!link_of(peer).forgotten && take(peer)) {}
  }
  std::int64_t waiting() const final { return waiting_; }

  bool has(int peer) const { return links_[static_cast<std::size_t>(peer)] != nullptr; }
  bool is_forgotten(int peer) const { return link_of(peer).forgotten; }
  const std::vector<int>& peers() const { return peers_; }
  // Before sleeping: gives all credit back.
  void publish_credit() {
    for (int peer : peers_) {
      reader_of(peer).publish();
      self().read(peer, link_of(peer));
    }
  }

 protected:
  Link& link_of(int peer) const { return *links_[static_cast<std::size_t>(peer)]; }
  MailboxReader& reader_of(int peer) { return readers_[static_cast<std::size_t>(peer)]; }
  std::byte* here() const { return segments_.first().data(); }
  int mailbox_there(int peer) const { return station_.mailboxes.there[static_cast<std::size_t>(peer)]; }

  // written: the ring that we fill; credit: where we say how far we have read the peer's.
  void add(int peer, std::unique_ptr<Link> link, MailboxLine* written, std::atomic<std::uint64_t>* credit) {
    const std::uint16_t tag = ring_tag(station_.cookie);
    const int mailbox = station_.mailboxes.here[static_cast<std::size_t>(peer)];
    link->writer = MailboxWriter(written, first_.credit_in(here(), mailbox), tag, station_.ring_lines);
    link->pulled = first_.pulled_in(here(), mailbox);
    reader_of(peer) = MailboxReader(first_.ring_in(here(), mailbox), credit, tag, station_.ring_lines);
    links_[static_cast<std::size_t>(peer)] = std::move(link);
    peers_.push_back(peer);
  }

  bool poll_rings() {
    bool active = false;
    for (int peer : peers_)
      if (readers_[static_cast<std::size_t>(peer)].has_line() && !link_of(peer).forgotten) active |= take(peer);
    return active;
  }

  void advance_waiting() {
    for (int peer : peers_) {
      Link& link = link_of(peer);
      if (link.pulls_open > 0) collect_pulls(link);
      while (!link.backlog.empty() && try_write(peer, link, link.backlog.front())) {
        release(link.backlog.front());
        link.backlog.pop_front();
        --waiting_;
      }
    }
  }

  void forget_link(Link& link) {
    link.forgotten = true;
    waiting_ -= static_cast<std::int64_t>(link.backlog.size()) + link.pulls_open;
    for (const Outgoing& message : link.backlog) release(message);
    link.backlog.clear();
    for (RingLink::Pull& pull : link.pulls) {
      station_.buffers.release(pull.value);
      pull.value = no_buffer;
    }
    link.pulls_open = 0;
  }

  // The message at the head of the ring, but for its value. (A list is so short that there is a private block.)
  Message parse(MailboxReader& reader, const WireHeader& header) {
    Tail tail{};
    std::size_t offset = sizeof header + header.value_bytes;
    if ((header.transport_flags & has_tail) != 0) {
      reader.copy(offset, reinterpret_cast<std::byte*>(&tail), sizeof tail);
      offset += sizeof tail;
    }
    Message message = parse_header(header, tail);
    if (header.list_length() > 0) {
      message.list = station_.buffers.allocate(header.list_length() * sizeof(std::uint32_t));
      reader.copy(offset, station_.buffers.data(message.list), header.list_length() * sizeof(std::uint32_t));
    }
    return message;
  }
  void consume(int peer, Link& link, MailboxReader& reader, const WireHeader& header) {
    reader.consume(mailbox_lines_of(sizeof header + body_bytes(header)));
    self().read(peer, link);
  }
  void deliver(int peer, const WireHeader& header, const Message& message) {
    station_.sink.deliver(station_.sink.arg, header, message, peer);
  }
  void release(const auto& message) {
    station_.buffers.release(message.value);
    station_.buffers.release(message.list);
  }

  const Station station_;
  Segments& segments_;
  const FirstSegment first_;
  std::int64_t waiting_ = 0;  // backlog entries, open pulls, calls of Self's

 private:
  Self& self() { return static_cast<Self&>(*this); }
  static std::span<const std::byte> bytes_of(const auto& value) {
    return {reinterpret_cast<const std::byte*>(&value), sizeof(value)};
  }

  bool has_room(Link& link, std::uint32_t lines) { return link.writer.has_room(lines) && self().has_room(link, lines); }

  // Into the ring at once, with no reference kept; false if there is no room.
  bool try_write(int peer, Link& link, const Outgoing& message) {
    WireHeader header = message.header;
    const std::uint64_t value_bytes = message.value.bytes;
    if (value_bytes > inline_limit) {
      const int ticket = free_ticket(link);
      return ticket >= 0 && write_descriptor(peer, link, message, static_cast<std::uint32_t>(ticket));
    }
    header.value_bytes = static_cast<std::uint32_t>(value_bytes);
    const std::uint64_t body = body_bytes(header);
    if (body == value_bytes && (body == 8 || body == 0)) {  // the common case
      if (!has_room(link, 1)) return false;
      std::uint64_t word = 0;
      if (body == 8) std::memcpy(&word, station_.buffers.data(message.value), sizeof word);
      link.writer.write_line(header, word);
    } else {
      if (!has_room(link, mailbox_lines_of(sizeof header + body))) return false;
      write(link, header, {station_.buffers.data(message.value), value_bytes}, {}, message);
    }
    self().wrote(peer, link);
    return true;
  }

  // value, or a descriptor and a key.
  void write(Link& link, const WireHeader& header, std::span<const std::byte> value, std::span<const std::byte> key,
             const Outgoing& message) {
    const bool has_numbers = (header.transport_flags & has_tail) != 0;
    const std::span<const std::byte> parts[] = {
        bytes_of(header),
        value,
        key,
        has_numbers ? bytes_of(message.tail) : std::span<const std::byte>{},
        {station_.buffers.data(message.list), header.list_length() * sizeof(std::uint32_t)}};
    link.writer.write(parts);
  }

  static int free_ticket(Link& link) {
    for (std::size_t ticket = 0; ticket < pull_tickets && link.pulls_open < static_cast<int>(pull_tickets); ++ticket)
      if (link.pulls[ticket].value == no_buffer) return static_cast<int>(ticket);
    return -1;
  }

  bool write_descriptor(int peer, Link& link, const Outgoing& message, std::uint32_t ticket) {
    RingLink::Pull& pull = link.pulls[ticket];
    const std::byte* data = station_.buffers.data(message.value);
    const std::uint64_t bytes = message.value.bytes;
    const Segment* segment = segments_.payload_segment(data, bytes);
    assert(segment != nullptr && "a value lives in memory that peers can map");
    std::span<const std::byte> key;
    if (!self().key_of(*segment, key)) {
      self().send_otherwise(peer, message);
      return true;
    }
    const WireDescriptor descriptor{reinterpret_cast<std::uint64_t>(data), bytes, ticket, pull.generation + 1,
                                    segment->name()};
    WireHeader header = message.header;
    header.transport_flags |= has_descriptor;
    header.value_bytes = static_cast<std::uint32_t>(sizeof descriptor + key.size());
    if (!has_room(link, mailbox_lines_of(sizeof header + body_bytes(header)))) return false;
    write(link, header, bytes_of(descriptor), key, message);
    self().wrote(peer, link);
    ++pull.generation;
    pull.value = message.value.buffer;
    station_.buffers.retain(message.value);
    ++link.pulls_open;
    ++waiting_;
    return true;
  }

  void collect_pulls(Link& link) {
    for (std::size_t ticket = 0; ticket < pull_tickets && link.pulls_open > 0; ++ticket) {
      RingLink::Pull& pull = link.pulls[ticket];
      if (pull.value == no_buffer || link.pulled[ticket].load(std::memory_order_acquire) != pull.generation) continue;
      station_.buffers.release(pull.value);
      pull.value = no_buffer;
      --link.pulls_open;
      --waiting_;
    }
  }

  // At most one message. Its lines are consumed once its bytes are ours.
  bool take(int peer) {
    Link& link = link_of(peer);
    MailboxReader& reader = reader_of(peer);
    if (!reader.has_line() || self().is_fetching(link)) return false;
    WireHeader header;
    std::memcpy(&header, reader.payload(), sizeof header);
    const Malformed wrong = examine(header, station_.cookie, body_bytes(header), inline_limit);
    if (wrong != Malformed::no) {
      station_.rejects.note(wrong, peer);
      reader.consume(1);
      self().read(peer, link);
      return true;
    }
    const std::uint32_t lines = mailbox_lines_of(sizeof header + body_bytes(header));
    if (lines > 1 && !reader.has_lines(lines)) return false;
    if (header.is_control()) {
      reader.consume(lines);
      self().read(peer, link);
      station_.sink.control(station_.sink.arg, header, peer);
      return true;
    }
    if (!station_.sink.accepts(station_.sink.arg, header, peer)) return false;
    if ((header.transport_flags & has_descriptor) != 0) return self().take_payload(peer, link, header);
    Message message = parse(reader, header);
    if (header.value_bytes > 0) message.value = {inline_value(reader, header), 0, header.value_bytes};
    reader.consume(lines);
    self().read(peer, link);
    deliver(peer, header, message);
    release(message);
    return true;
  }

  BufferId inline_value(MailboxReader& reader, const WireHeader& header) {
    const BufferId value = station_.buffers.allocate(header.value_bytes);  // so short that there is a private block
    if (header.value_bytes == 8)
      std::memcpy(station_.buffers.data(value), reader.payload() + sizeof header, 8);
    else
      reader.copy(sizeof header, station_.buffers.data(value), header.value_bytes);
    return value;
  }

  std::vector<std::unique_ptr<Link>> links_;  // by rank; nullptr: on another path
  std::vector<MailboxReader> readers_;        // by rank, close together: every poll looks at all of them
  std::vector<int> peers_;
};

}  // namespace ucft::detail
