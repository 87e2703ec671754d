// A mailbox: one writer, one reader, a ring of 64-byte lines in the reader's memory. No UCX here, only raw memory.
//
// Each line is 56 bytes of message and an 8-byte stamp (tag of the job, number of the line). A message exists when
// every one of its lines carries its stamp. So nothing relies on the order within or between writes. And a message that
// its writer left half-written when it died is never taken for one. Numbers never repeat, so an old line never counts.
//
// Flow control: the reader publishes the number of lines it has consumed in the writer's memory, every quarter ring and
// when it goes to sleep.
//
//   line number        1 2 3 | 4      message of 3 lines, message of 1 line
//   place in the ring  1 2 3 | 4      number modulo ring size
//
// Why not UCX's shared-memory active messages: with them all local senders share one queue per receiver. A sender that
// dies between reserving and publishing an entry blocks it for ever (tests/ucx/wedged_fifo_test shows it).
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

struct alignas(64) MailboxLine {
  static constexpr std::size_t payload_bytes = 56;
  std::byte payload[payload_bytes];
  std::atomic<std::uint64_t> stamp;
};
static_assert(sizeof(MailboxLine) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

// Lines of a ring: powers of two. The few are for jobs whose collectives read memory. Their messages are gossip, and
// news of ranks that have failed or left.
inline constexpr std::uint32_t mailbox_lines = 256, mailbox_few_lines = 64;
// Lines of one message, at most: there is room for it when all but less than a quarter ring has been given back.
inline constexpr std::uint32_t mailbox_longest = mailbox_few_lines - mailbox_few_lines / 4 + 1;

inline std::uint64_t mailbox_stamp(std::uint16_t tag, std::uint64_t number) {
  return (std::uint64_t{tag} << 48) | (number & 0xffffffffffffull);
}
constexpr std::uint32_t mailbox_lines_of(std::size_t bytes) {
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(1, (bytes + MailboxLine::payload_bytes - 1) / MailboxLine::payload_bytes));
}

// Fills lines with the parts, one after the other. next(): the line to go on with; publish(line): it is full, or the
// last.
template <class Next, class Publish>
void fill_lines(std::span<const std::span<const std::byte>> parts, Next next, Publish publish) {
  MailboxLine* line = next();
  std::size_t used = 0;
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      if (used == MailboxLine::payload_bytes) {
        publish(line);
        line = next();
        used = 0;
      }
      const std::size_t length = std::min(part.size(), MailboxLine::payload_bytes - used);
      std::memcpy(line->payload + used, part.data(), length);
      part = part.subspan(length);
      used += length;
    }
  }
  publish(line);
}

// Bytes `offset` .. of the message that was filled in. line_at(i): the i-th of those lines.
template <class LineAt>
void copy_lines(LineAt line_at, std::size_t offset, std::byte* target, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t within = offset % MailboxLine::payload_bytes;
    const std::size_t length = std::min(bytes, MailboxLine::payload_bytes - within);
    std::memcpy(target, line_at(static_cast<std::uint32_t>(offset / MailboxLine::payload_bytes)).payload + within,
                length);
    offset += length;
    target += length;
    bytes -= length;
  }
}

class MailboxWriter {
 public:
  MailboxWriter() = default;
  // ring: of so many lines, zero at first. consumed: where the reader publishes, zero at first.
  MailboxWriter(MailboxLine* ring, const std::atomic<std::uint64_t>* consumed, std::uint16_t tag, std::uint32_t lines)
      : ring_(ring), consumed_(consumed), lines_(lines), tag_(tag) {}

  // The number of the last line, and the place of a line.
  std::uint64_t written() const { return written_; }
  std::size_t place_of(std::uint64_t number) const { return number & (lines_ - 1); }

  bool has_room(std::uint32_t lines) {
    if (written_ + lines - consumed_seen_ <= lines_) return true;
    consumed_seen_ = consumed_->load(std::memory_order_acquire);
    return written_ + lines - consumed_seen_ <= lines_;
  }
  // A message of one line: the header and up to 8 bytes behind it. Requires has_room(1).
  template <class Header>
  void write_line(const Header& header, std::uint64_t word) {
    static_assert(sizeof header + sizeof word == MailboxLine::payload_bytes);
    MailboxLine* line = &ring_[place_of(++written_)];
    std::memcpy(line->payload, &header, sizeof header);
    std::memcpy(line->payload + sizeof header, &word, sizeof word);
    publish(line);
  }
  // The parts, one after the other. Requires has_room() for their total.
  void write(std::span<const std::span<const std::byte>> parts) {
    fill_lines(
        parts, [this] { return &ring_[place_of(++written_)]; }, [this](MailboxLine* line) { publish(line); });
  }

 private:
  void publish(MailboxLine* line) {
    UCFT_TEST_POINT(line);
    line->stamp.store(mailbox_stamp(tag_, written_), std::memory_order_release);
  }

  MailboxLine* ring_ = nullptr;
  const std::atomic<std::uint64_t>* consumed_ = nullptr;
  std::uint64_t written_ = 0, consumed_seen_ = 0;
  std::uint32_t lines_ = 0;
  std::uint16_t tag_ = 0;
};

class MailboxReader {
 public:
  MailboxReader() = default;
  // consumed: where this reader publishes, in the writer's memory.
  MailboxReader(const MailboxLine* ring, std::atomic<std::uint64_t>* consumed, std::uint16_t tag, std::uint32_t lines)
      : ring_(ring), consumed_(consumed), lines_(lines), tag_(tag) {}

  // Whether the line `ahead` of the next one is there.
  bool has_line(std::uint32_t ahead = 0) const {
    const std::uint64_t number = read_ + 1 + ahead;
    return line(ahead).stamp.load(std::memory_order_acquire) == mailbox_stamp(tag_, number);
  }
  // Whether the next `lines` lines are all there.
  bool has_lines(std::uint32_t lines) const {
    for (std::uint32_t ahead = 0; ahead < lines; ++ahead)
      if (!has_line(ahead)) return false;
    return true;
  }
  // The payload of a line that is there; valid until it is consumed.
  const std::byte* payload(std::uint32_t ahead = 0) const { return line(ahead).payload; }
  // Bytes `offset` .. of the message that begins at the next line.
  void copy(std::size_t offset, std::byte* target, std::size_t bytes) const {
    copy_lines([this](std::uint32_t ahead) -> const MailboxLine& { return line(ahead); }, offset, target, bytes);
  }
  void consume(std::uint32_t lines) {
    read_ += lines;
    if (read_ - published_ >= lines_ / 4) publish();
  }
  void publish() {
    if (published_ == read_) return;
    published_ = read_;
    consumed_->store(read_, std::memory_order_release);
  }

 private:
  const MailboxLine& line(std::uint32_t ahead) const { return ring_[(read_ + 1 + ahead) & (lines_ - 1)]; }

  const MailboxLine* ring_ = nullptr;
  std::atomic<std::uint64_t>* consumed_ = nullptr;
  std::uint64_t read_ = 0, published_ = 0;
  std::uint32_t lines_ = 0;
  std::uint16_t tag_ = 0;
};

}  // namespace ucft::detail
