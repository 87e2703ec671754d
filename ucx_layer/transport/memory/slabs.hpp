// Slabs: pieces of shared memory of one size, each for a communicator, that peers find by the communicator's number.
//
// The directory is in pages, the first of them in the first segment; each names the next. An entry is written by its
// owner alone. The owner first writes where the slab is, then whose it is, which makes the entry valid. Nothing of UCX
// here, and no locks: peers look at any time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ucx_layer/transport/memory/segments.hpp"

namespace ucft::detail {

struct SlabEntry {
  static constexpr std::uint64_t closed = std::uint64_t{1} << 63;
  static constexpr std::uint64_t key_of(std::uint32_t communicator) { return std::uint64_t{communicator} + 1; }

  std::atomic<std::uint64_t> key;      // 1 + communicator, and `closed`; 0: free
  std::atomic<std::uint64_t> address;  // in its owner
};

struct SlabPage {
  static constexpr std::size_t size = 255, probes = 8;

  std::atomic<std::uint64_t> next;  // address in its owner; 0: none yet
  std::uint64_t unused;
  SlabEntry entries[size];

  // Among the `probes` places where that communicator's entry may be, the first with that key but for `closed`; null:
  // none.
  SlabEntry* find(std::uint32_t communicator, std::uint64_t wanted) {
    for (std::size_t probe = 0; probe < probes; ++probe) {
      SlabEntry& entry = entries[((communicator * 0x9e3779b1u >> 8) + probe) % size];
      if ((entry.key.load(std::memory_order_acquire) & ~SlabEntry::closed) == wanted) return &entry;
    }
    return nullptr;
  }
};
static_assert(sizeof(SlabPage) == 4096);

// A view of the slab that one rank has for a communicator.
struct SlabView {
  bool is_there = false;      // not yet, or no more
  bool is_closed = false;     // its owner reads no other slab of this communicator any more
  std::byte* data = nullptr;  // in this process; null: it is not there
};

// This rank's.
class Slabs {
 public:
  explicit Slabs(Segments& segments) : segments_(segments) {}

  // All slabs have that length. Before the first is opened. me: so that ranks' slabs begin at different lines of a
  // page. Else the words that one operation reads of all ranks would be in one set of a cache. With more ranks than the
  // set has ways they would not stay there.
  void set_bytes(std::size_t bytes, int me);
  std::size_t bytes() const { return bytes_; }
  // Zeroed, and found by peers from now on. nullptr: there is no memory for it; then neither of the others is called.
  std::byte* open(std::uint32_t communicator);
  void close(std::uint32_t communicator);
  // No rank may need it any more.
  void end(std::uint32_t communicator, std::byte* slab);

 private:
  SlabPage* first_page() const;
  SlabEntry* free_entry(std::uint32_t communicator);
  SlabEntry* entry_of(std::uint32_t communicator) const;

  Segments& segments_;
  std::size_t bytes_ = 0;
  std::vector<std::byte*> free_;
};

}  // namespace ucft::detail
