// RMA windows: the one-sided way between two ranks. Each of them has memory that only the other one writes, and there
// is one content in it at a time, which the next one overwrites. Where a mailbox is a queue, a window is a state.
//
//   line 0     how far the other end has read what we wrote into its window; stamped like the content, by its writer
//   line 1 ..  the content: a head, and a row; in the first of these lines alone if they fit
//
// The first line has a stamp, like a mailbox's, which is written last. That is enough where memory is shared; a device
// promises no order within a write, so there all lines have stamps (WindowLayout::stamped). A content is written again
// only when it has been read. How far we have read travels with what we write, and else by publish().
//
// A window's memory belongs to one peer for as long as the job lasts, and is used again only for the same peer. So late
// writes harm nobody. Such a write comes from a rank that is wrongly taken for dead, or from a device that carries out
// a dead rank's. From one use to the next the stamps' generation grows.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/core/buffers.hpp"
#include "ucx_layer/transport/memory/mailbox.hpp"
#include "ucx_layer/transport/memory/shared_memory.hpp"

namespace ucft::detail {

struct WindowHeader {
  std::uint32_t seen;   // the last write of the other direction that the writer has read
  std::uint32_t whole;  // the last write that had a row; 0: none yet
};

struct WindowLayout {
  std::size_t head_bytes, row_bytes;
  bool stamped;  // every line, else the first alone

  static constexpr std::size_t longest_head = MailboxLine::payload_bytes - sizeof(WindowHeader);
  bool is_one_line() const { return head_bytes + row_bytes <= longest_head; }
  std::uint32_t lines() const {
    if (is_one_line()) return 1;
    if (stamped) return mailbox_lines_of(sizeof(WindowHeader) + head_bytes + row_bytes);
    return static_cast<std::uint32_t>(1 + (row_bytes + sizeof(MailboxLine) - 1) / sizeof(MailboxLine));
  }
};

inline std::uint64_t window_stamp(std::uint32_t generation, std::uint32_t number) {
  return std::uint64_t{generation} << 32 | number;
}

// Raw memory, like a mailbox's two ends.
class WindowWriter {
 public:
  WindowWriter() = default;
  WindowWriter(const WindowLayout& layout, MailboxLine* lines, std::uint32_t generation)
      : layout_(layout), lines_(lines), generation_(generation) {}

  std::uint32_t written() const { return written_; }
  // row: at most row_bytes, of which the rest is any; empty if it is the same as before. Returns how many lines have
  // been written.
  std::uint32_t write(std::span<const std::byte> head, std::span<const std::byte> row, std::uint32_t seen) {
    ++written_;
    if (!row.empty()) whole_ = written_;
    const WindowHeader header{seen, whole_};
    const std::span<const std::byte> header_bytes{reinterpret_cast<const std::byte*>(&header), sizeof header};
    if (layout_.stamped && !layout_.is_one_line() && !row.empty()) {
      MailboxLine* line = lines_;
      rest_.resize(layout_.row_bytes - row.size());  // every line has a stamp
      const std::span<const std::byte> parts[] = {header_bytes, head, row, rest_};
      fill_lines(
          parts, [&] { return line++; }, [this](MailboxLine* filled) { publish(filled); });
      return static_cast<std::uint32_t>(line - lines_);
    }
    std::memcpy(lines_->payload, header_bytes.data(), header_bytes.size());
    std::memcpy(lines_->payload + sizeof header, head.data(), head.size());
    if (!row.empty()) {
      UCFT_TEST_POINT(line);
      std::memcpy(layout_.is_one_line() ? lines_->payload + sizeof header + head.size()
                                        : reinterpret_cast<std::byte*>(lines_ + 1),
                  row.data(), row.size());
    }
    publish(lines_);
    return row.empty() ? 1 : layout_.lines();
  }

 private:
  void publish(MailboxLine* line) {
    UCFT_TEST_POINT(line);
    line->stamp.store(window_stamp(generation_, written_), std::memory_order_release);
  }

  WindowLayout layout_{};
  MailboxLine* lines_ = nullptr;
  std::uint32_t generation_ = 0, written_ = 0, whole_ = 0;
  std::vector<std::byte> rest_;
};

class WindowReader {
 public:
  WindowReader() = default;
  WindowReader(const WindowLayout& layout, const MailboxLine* lines, std::uint32_t generation)
      : layout_(layout), lines_(lines), stamps_(layout.stamped ? layout.lines() : 1), generation_(generation) {}

  std::uint32_t read() const { return read_; }
  bool has_news() const {
    if (lines_->stamp.load(std::memory_order_acquire) != window_stamp(generation_, read_ + 1)) return false;
    const std::uint32_t whole = header().whole;
    for (std::uint32_t line = 1; line < stamps_ && whole != 0; ++line)
      if (lines_[line].stamp.load(std::memory_order_acquire) != window_stamp(generation_, whole)) return false;
    return true;
  }
  // The header of the content that is there until consume().
  WindowHeader header() const {
    WindowHeader header;
    std::memcpy(&header, lines_->payload, sizeof header);
    return header;
  }
  const std::byte* head() const { return lines_->payload + sizeof(WindowHeader); }
  // The row that was written last: where it is, or copied to `scratch`. Aligned to 8 if the head's length is.
  const std::byte* row(std::vector<std::byte>& scratch) const {
    if (layout_.is_one_line()) return head() + layout_.head_bytes;
    const auto* in_place = reinterpret_cast<const std::byte*>(lines_ + 1);
    if (!layout_.stamped && layout_.row_bytes > copied_limit) return in_place;
    scratch.resize(layout_.row_bytes);
    if (!layout_.stamped) {
      std::memcpy(scratch.data(), in_place, layout_.row_bytes);
      return scratch.data();
    }
    copy_lines([this](std::uint32_t line) -> const MailboxLine& { return lines_[line]; },
               sizeof(WindowHeader) + layout_.head_bytes, scratch.data(), scratch.size());
    return scratch.data();
  }
  void consume() { ++read_; }

 private:
  // One wide pass over lines that are in the writer's cache: up to here that is faster than an algorithm's loops in
  // place.
  static constexpr std::size_t copied_limit = 16384;

  WindowLayout layout_{};
  const MailboxLine* lines_ = nullptr;
  std::uint32_t stamps_ = 0, generation_ = 0, read_ = 0;
};

}  // namespace ucft::detail
