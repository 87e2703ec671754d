// Windows: the one-sided path between two ranks. Each of them has memory that only the other one writes, and there is one
// content in it at a time, which the next one overwrites. Where a mailbox is a queue, a window is a state.
//
//   line 0     how far the other end has read what we wrote into its window
//   line 1 ..  the content: 64-byte lines, stamped like a mailbox's, all with the number of the write that filled them
//
// A content exists when all of its lines carry their stamps, so nothing relies on the order within a write. It is written
// again only when it has been read. How far we have read travels with what we write, and else by publish().
//
// A window's memory belongs to one peer for as long as the job lasts, and is used again only for the same peer: what a
// rank that is wrongly taken for dead still writes, or a device has still to write of a dead one's, harms nobody. From one
// use to the next the stamps' generation grows.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/buffers.hpp"
#include "ucx_layer/mailbox.hpp"
#include "ucx_layer/shared_memory.hpp"

namespace ucft {

class Transport;

struct WindowHeader {
  std::uint32_t seen;    // the last write of the other direction that the writer has read
  std::uint32_t whole;   // the last write that filled all lines; later ones changed the first line only
};

inline std::uint64_t window_stamp(std::uint32_t generation, std::uint32_t number) { return std::uint64_t{generation} << 32 | number; }
inline std::uint32_t window_lines_of(std::size_t content_bytes) { return mailbox_lines_of(sizeof(WindowHeader) + content_bytes); }

// Raw memory, like a mailbox's two ends.
class WindowWriter {
 public:
  WindowWriter() = default;
  WindowWriter(MailboxLine* lines, std::uint32_t generation) : lines_(lines), generation_(generation) {}

  std::uint32_t written() const { return written_; }
  // The content, of always the same length. whole false: only what is in the first line may differ from what was written
  // last. Returns how many lines have been filled.
  std::uint32_t write(std::span<const std::byte> head, std::span<const std::byte> row, bool whole, std::uint32_t seen) {
    whole = whole || written_ == 0;
    ++written_;
    if (whole) whole_ = written_;
    const WindowHeader header{seen, whole_};
    const std::size_t room = MailboxLine::payload_bytes - sizeof header - head.size();
    const std::span<const std::byte> parts[] = {
        {reinterpret_cast<const std::byte*>(&header), sizeof header}, head, whole ? row : row.first(std::min(room, row.size()))};
    MailboxLine* line = lines_;
    fill_lines(parts, [&] { return line++; },
               [this](MailboxLine* filled) {
                 UCFT_TEST_POINT(line);
                 filled->stamp.store(window_stamp(generation_, written_), std::memory_order_release);
               });
    return static_cast<std::uint32_t>(line - lines_);
  }

 private:
  MailboxLine* lines_ = nullptr;
  std::uint32_t generation_ = 0, written_ = 0, whole_ = 0;
};

class WindowReader {
 public:
  WindowReader() = default;
  WindowReader(const MailboxLine* lines, std::uint32_t count, std::uint32_t generation) : lines_(lines), count_(count), generation_(generation) {}

  std::uint32_t read() const { return read_; }
  bool has_news() const {
    if (lines_[0].stamp.load(std::memory_order_acquire) != window_stamp(generation_, read_ + 1)) return false;
    const std::uint64_t whole = window_stamp(generation_, header().whole);
    for (std::uint32_t line = 1; line < count_; ++line)
      if (lines_[line].stamp.load(std::memory_order_acquire) != whole) return false;
    return true;
  }
  // Of what is there until consume().
  WindowHeader header() const {
    WindowHeader header;
    std::memcpy(&header, lines_[0].payload, sizeof header);
    return header;
  }
  void copy(std::size_t offset, void* target, std::size_t bytes) const {
    copy_lines([this](std::uint32_t line) -> const MailboxLine& { return lines_[line]; }, sizeof(WindowHeader) + offset,
               static_cast<std::byte*>(target), bytes);
  }
  void consume() { ++read_; }

 private:
  const MailboxLine* lines_ = nullptr;
  std::uint32_t count_ = 0, generation_ = 0, read_ = 0;
};

// Memory of this rank for what one peer writes.
struct WindowMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t generation = 0;
  bool taken = false;
};

// Our end of a pair of windows. Needs a peer that shares memory with us, or one whose device writes by itself (RDMA).
// Threads: one at a time, like the transport.
class Window {
 public:
  // For contents of head_bytes (at most 48) + row_bytes, the same at both ends.
  Window(Transport& transport, int peer, std::size_t head_bytes, std::size_t row_bytes);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // False: there was none, or the device can't register any more.
  bool has_memory() const { return mine_ != nullptr; }
  // What the other end needs to connect(): at most name_limit bytes, a multiple of 8.
  std::vector<std::byte> name() const;
  static constexpr std::size_t name_limit = 320;
  // False: the peer has ended, or the name makes no sense.
  bool connect(std::span<const std::byte> name);

  // The other end has read what was written last, and our device has let go of it.
  bool can_write() const;
  void write(std::span<const std::byte> head, std::span<const std::byte> row, bool whole);
  bool has_news() const { return mine_ != nullptr && reader_.has_news(); }
  void read(std::size_t offset, void* target, std::size_t bytes) const { reader_.copy(offset, target, bytes); }
  // Has been read: may be overwritten as soon as the other end knows.
  void consume();
  // Tells the other end how far we have read, if no write has.
  void publish();

 private:
  std::uint32_t seen_there() const;

  Transport& transport_;
  const int peer_;
  const std::uint32_t lines_;
  WindowMemory* mine_ = nullptr;
  WindowReader reader_;
  WindowWriter writer_;
  std::byte* there_ = nullptr;             // the peer's window: mapped; on the remote path the copy of it that we put from
  std::uint64_t inode_ = 0;                // mapped: of its segment
  BufferId copy_ = no_buffer;              // remote: there_
  std::uint64_t target_ = 0;               // remote: where it is in the peer
  SegmentName segment_{};
  std::vector<std::byte> key_;
  std::uint32_t generation_there_ = 0;
  std::uint32_t seen_ = 0, told_ = 0;      // of our writes: read by the other end; of its writes: it knows that we have read
};

}  // namespace ucft
