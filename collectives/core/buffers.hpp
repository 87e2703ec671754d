// Reference-counted blocks of memory, named by handle. A driver says where blocks come from: registered memory, or the
// heap in simulations. When memory that the driver has lent (adopt) is free again, it is told.
//
// Blocks of up to private_limit bytes never run out as long as there is a heap. A driver copies them into its messages,
// so they may lie anywhere. In a steady state nothing is allocated: freed blocks are reused last in, first out, by
// size. There are four sizes to a doubling of long blocks, else one: a power of two.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ucft::detail {

using BufferId = std::uint32_t;
inline constexpr BufferId no_buffer = 0;

// A part of a buffer: what a message carries, a rank gives, an operation leaves. It holds no reference by itself.
struct Slice {
  BufferId buffer = no_buffer;
  std::uint64_t offset = 0, bytes = 0;

  explicit operator bool() const { return buffer != no_buffer; }
  bool operator==(const Slice&) const = default;
  Slice part(std::uint64_t from, std::uint64_t length) const { return {buffer, offset + from, length}; }
};

// Memory that blocks are cut from. `allocate` returns nullptr when there is none; what it returned lives as long as
// the Buffers that asked.
struct ChunkSource {
  std::byte* (*allocate)(void* arg, std::size_t bytes);
  void* arg;
  std::size_t chunk_bytes = 256 * 1024;  // asked for at a time for small blocks; a power of two, at least 4096
};

class DeferredSteps;
class Reduction;

class Buffers {
 public:
  explicit Buffers(ChunkSource source);
  Buffers(Buffers&&) = default;
  Buffers& operator=(Buffers&&) = default;
  ~Buffers();

  static constexpr std::uint64_t private_limit = 2048;

  // A block with one reference; no_buffer if memory is exhausted.
  BufferId allocate(std::uint64_t bytes);
  BufferId copy_in(const void* data, std::uint64_t bytes);
  // Memory of somebody else, with one reference. When the last one goes, `tag` is in released().
  BufferId adopt(const std::byte* data, std::uint64_t bytes, std::uint64_t tag);
  // Lent memory goes: its bytes are copied to `room`, which becomes this block's memory. Takes over the reference to
  // room.
  void move_to(BufferId room, BufferId lent);
  // From the heap, as if it were lent: for what must be taken and can't be sent from there. no_buffer: none there,
  // either.
  BufferId allocate_private(std::uint64_t bytes);
  // In private memory, if there is no other.
  BufferId allocate_anywhere(std::uint64_t bytes);
  BufferId copy_anywhere(const std::byte* from, std::uint64_t bytes);

  // One more reference to the same bytes in a block of our own: memory that was lent is copied. Nothing if there is
  // none.
  Slice localize(Slice slice) {
    if (!slice || !is_adopted(slice.buffer)) {
      retain(slice);
      return slice;
    }
    const Slice copied = whole(allocate(slice.bytes));
    if (copied) copy(copied, slice);
    return copied;
  }
  Slice whole(BufferId id) const { return {id, 0, bytes(id)}; }

  void retain(Slice slice) { retain(slice.buffer); }
  void release(Slice slice) { release(slice.buffer); }
  std::byte* data(Slice slice) const { return data(slice.buffer) + slice.offset; }
  void retain(BufferId id) {
    if (id != no_buffer) ++blocks_[id].references;
  }
  void release(BufferId id) {
    if (id != no_buffer && --blocks_[id].references == 0) recycle(id);
  }
  std::byte* data(BufferId id) const { return blocks_[id].data; }

  // Values are copied and combined at once, or the deferred steps keep that for later. Slices of equal lengths; to is
  // exactly lower, or exactly higher, or overlaps neither.
  void copy(const Slice& to, const Slice& from) { copy_part(to, from, to.bytes); }
  // Of a value of so many bytes, of which this is a part.
  void copy_part(const Slice& to, const Slice& from, std::uint64_t of_bytes);
  void combine(const Reduction& reduction, const Slice& to, const Slice& lower, const Slice& higher) {
    combine_part(reduction, to, lower, higher, to.bytes);
  }
  void combine_part(const Reduction& reduction, const Slice& to, const Slice& lower, const Slice& higher,
                    std::uint64_t of_bytes);
  void defer_to(DeferredSteps* steps) { deferred_ = steps; }  // null: to none

  std::uint64_t bytes(BufferId id) const { return id == no_buffer ? 0 : blocks_[id].bytes; }
  std::uint32_t references(BufferId id) const { return blocks_[id].references; }
  bool is_adopted(BufferId id) const { return blocks_[id].size_class >= heap; }
  std::uint64_t tag(BufferId id) const { return blocks_[id].tag; }

  // Tags of lent memory that nobody uses any more. The driver takes and clears them.
  std::vector<std::uint64_t>& released() { return released_; }
  // Allocations for which there was no memory.
  std::uint64_t refused() const { return refused_; }
  // Blocks that somebody still holds (for leak checks).
  std::size_t in_use() const { return in_use_; }

 private:
  static constexpr std::uint8_t adopted = 0xff, heap = 0xfe;
  static constexpr unsigned smallest_class = 6;  // 64 bytes
  static constexpr unsigned last_single = 20;    // so many, or fewer, are the logarithm of their size
  static constexpr unsigned class_count = 129;   // up to 2^47 bytes

  struct Block {
    std::byte* data;
    std::uint64_t bytes;
    std::uint64_t tag;
    std::uint32_t references;
    std::uint8_t size_class;
  };

  static unsigned size_class_of(std::uint64_t bytes);
  static std::uint64_t size_of(unsigned size_class);
  unsigned free_class(unsigned size_class) const;
  BufferId refuse();
  BufferId new_entry();
  std::byte* carve(unsigned size_class);
  std::byte* carve_private(std::size_t size);
  void recycle(BufferId id);

  ChunkSource source_;
  std::vector<Block> blocks_;
  std::array<std::vector<BufferId>, class_count> free_;
  std::vector<BufferId> free_adopted_;
  std::vector<std::uint64_t> released_;
  std::byte* chunk_ = nullptr;
  std::size_t chunk_left_ = 0;
  std::size_t in_use_ = 0;
  std::uint64_t refused_ = 0;
  DeferredSteps* deferred_ = nullptr;
  std::vector<std::unique_ptr<std::byte[]>> private_chunks_;
};

}  // namespace ucft::detail
