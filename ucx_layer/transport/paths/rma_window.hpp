// RMA windows on a path: those of ucx_layer/transport/memory/window.hpp, between this rank and a peer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ucx_layer/transport/memory/segments.hpp"
#include "ucx_layer/transport/memory/window.hpp"

namespace ucft::detail {

class Connections;
class Registrations;
class RemotePath;
class SharedPath;

// Memory of this rank that one peer writes.
struct WindowMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t generation = 0;
  bool taken = false;
};

// The RMA windows' memory of this rank, by peer, and the paths that they are on.
class Windows {
 public:
  struct Paths {
    Buffers& buffers;
    Segments& segments;
    SharedPath& shared;
    RemotePath* remote = nullptr;  // nullptr, these three: there is no device
    Connections* connections = nullptr;
    Registrations* registrations = nullptr;
  };
  Windows(const Paths& paths, int ranks) : paths_(paths), memory_(static_cast<std::size_t>(ranks)) {}
  void reach_by(RemotePath* remote, Connections* connections, Registrations* registrations);

  bool can_reach(int peer) const;                   // by stores, or by puts
  WindowMemory* take(int peer, std::size_t bytes);  // nullptr: no memory, or the peer is gone
  Paths& paths() { return paths_; }

 private:
  Paths paths_;
  std::vector<std::vector<std::unique_ptr<WindowMemory>>> memory_;  // by rank
};

// Our end of a pair of windows. Needs a peer that shares memory with us, or one whose device writes by itself (RDMA).
// Threads: one at a time, like the transport.
class RmaWindow {
 public:
  // For heads (at most WindowLayout::longest_head bytes) of the same length, and rows of at most so many bytes, at both
  // ends.
  RmaWindow(Windows& windows, int peer, std::size_t head_bytes, std::size_t row_bytes);
  ~RmaWindow();
  RmaWindow(const RmaWindow&) = delete;
  RmaWindow& operator=(const RmaWindow&) = delete;

  // False: there was none, or the device can't register any more.
  bool has_memory() const { return mine_ != nullptr; }
  // The name that the other end needs to connect(): at most name_limit bytes, a multiple of 8.
  std::vector<std::byte> name() const;
  static constexpr std::size_t name_limit = 320;
  // impossible: we can't use its key, or the name makes no sense. Then nothing can ever be written.
  enum class Connected : std::uint8_t { yes, connection_lost, impossible };
  Connected connect(std::span<const std::byte> name);

  // The other end has read the last content, and our device has let go of it.
  bool can_write() const;
  bool is_at_rest() const;  // our device has nothing of ours under way
  // row: empty if it is the same as before.
  void write(std::span<const std::byte> head, std::span<const std::byte> row);
  bool has_news() const { return mine_ != nullptr && reader_.has_news(); }
  // Valid until consume(): then it may be overwritten as soon as the other end knows.
  const std::byte* head() const { return reader_.head(); }
  const std::byte* row(std::vector<std::byte>& scratch) const { return reader_.row(scratch); }
  void consume();
  // Tells the other end how far we have read, if no write has.
  void publish();

 private:
  std::uint32_t seen_there() const;
  void put(Slice content, std::size_t offset);

  Windows::Paths& paths_;
  const int peer_;
  const bool mapped_;  // the peer's memory; else it is written by puts
  const WindowLayout layout_;
  WindowMemory* mine_ = nullptr;
  WindowReader reader_;
  WindowWriter writer_;
  std::byte* there_ = nullptr;  // the peer's window: mapped; on the remote path the copy of it that we put from
  BufferId copy_ = no_buffer;   // remote: there_
  // Remote: the word of publish(). It may be on its way, and grow, while content is written.
  BufferId told_copy_ = no_buffer;
  std::uint64_t target_ = 0;  // remote: where it is in the peer
  SegmentName segment_{};
  std::vector<std::byte> key_;
  std::uint32_t generation_there_ = 0;  // of the peer's window
  std::uint32_t seen_ = 0,
                told_ = 0;  // of our writes: read by the other end; of its writes: it knows that we have read
};

}  // namespace ucft::detail
