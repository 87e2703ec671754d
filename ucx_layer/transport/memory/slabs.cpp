#include "ucx_layer/transport/memory/slabs.hpp"

#include <cassert>
#include <cstring>

#include "ucx_layer/transport/memory/first_segment.hpp"

namespace ucft::detail {

SlabPage* Slabs::first_page() const { return FirstSegment::slabs_in(segments_.first().data()); }

void Slabs::set_bytes(std::size_t bytes, int me) {
  constexpr std::size_t line = 64, lines_of_page = 64;
  bytes_ = bytes;
  if (const std::size_t lines = static_cast<std::size_t>(me) % lines_of_page; lines > 0) segments_.carve(lines * line);
}

std::byte* Slabs::open(std::uint32_t communicator) {
  assert(bytes_ > 0);
  SlabEntry* const entry = free_entry(communicator);
  if (entry == nullptr) return nullptr;
  if (free_.empty()) {
    std::byte* const fresh = segments_.carve(bytes_);
    if (fresh == nullptr) return nullptr;
    free_.push_back(fresh);
  }
  std::byte* const slab = free_.back();
  free_.pop_back();
  std::memset(slab, 0, bytes_);
  entry->address.store(reinterpret_cast<std::uint64_t>(slab), std::memory_order_relaxed);
  entry->key.store(SlabEntry::key_of(communicator), std::memory_order_release);
  return slab;
}

void Slabs::close(std::uint32_t communicator) {
  entry_of(communicator)->key.store(SlabEntry::key_of(communicator) | SlabEntry::closed, std::memory_order_release);
}

void Slabs::end(std::uint32_t communicator, std::byte* slab) {
  entry_of(communicator)->key.store(0, std::memory_order_release);
  free_.push_back(slab);
}

SlabEntry* Slabs::free_entry(std::uint32_t communicator) {
  for (SlabPage* page = first_page();;) {
    if (SlabEntry* const entry = page->find(communicator, 0)) return entry;
    std::uint64_t next = page->next.load(std::memory_order_relaxed);
    if (next == 0) {
      std::byte* const fresh = segments_.carve(sizeof(SlabPage));
      if (fresh == nullptr) return nullptr;
      std::memset(fresh, 0, sizeof(SlabPage));
      next = reinterpret_cast<std::uint64_t>(fresh);
      page->next.store(next, std::memory_order_release);
    }
    page = reinterpret_cast<SlabPage*>(next);
  }
}

SlabEntry* Slabs::entry_of(std::uint32_t communicator) const {
  SlabPage* page = first_page();
  while (true) {
    if (SlabEntry* const entry = page->find(communicator, SlabEntry::key_of(communicator))) return entry;
    page = reinterpret_cast<SlabPage*>(page->next.load(std::memory_order_relaxed));
    assert(page != nullptr && "not open");
  }
}

}  // namespace ucft::detail
