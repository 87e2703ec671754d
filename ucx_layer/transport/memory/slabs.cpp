#include "ucx_layer/transport/memory/slabs.hpp"

#include <cassert>
#include <cstring>

#include "ucx_layer/transport/memory/first_segment.hpp"

namespace ucft::detail {

SlabPage* Slabs::first_page() const { return FirstSegment::slabs_in(segments_.first().data()); }

SlabView Slabs::open(std::uint32_t communicator) {
  assert(bytes_ > 0);
  SlabEntry* const entry = free_entry(communicator);
  if (entry == nullptr) return {};
  std::byte* slab = nullptr;
  if (!free_.empty()) {
    slab = free_.back();
    free_.pop_back();
  } else {
    slab = segments_.carve(bytes_);
  }
  if (slab != nullptr) std::memset(slab, 0, bytes_);
  entry->address.store(reinterpret_cast<std::uint64_t>(slab), std::memory_order_relaxed);
  entry->key.store(std::uint64_t{communicator} + 1, std::memory_order_release);
  return {true, false, slab};
}

void Slabs::close(std::uint32_t communicator) {
  entry_of(communicator)->key.store((std::uint64_t{communicator} + 1) | SlabEntry::closed, std::memory_order_release);
}

void Slabs::end(std::uint32_t communicator, const SlabView& view) {
  entry_of(communicator)->key.store(0, std::memory_order_release);
  if (view.data != nullptr) free_.push_back(view.data);
}

SlabEntry* Slabs::free_entry(std::uint32_t communicator) {
  for (SlabPage* page = first_page();;) {
    for (std::size_t probe = 0; probe < SlabPage::probes; ++probe) {
      SlabEntry& entry = page->place(communicator, probe);
      if (entry.key.load(std::memory_order_relaxed) == 0) return &entry;
    }
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
    for (std::size_t probe = 0; probe < SlabPage::probes; ++probe) {
      SlabEntry& entry = page->place(communicator, probe);
      if ((entry.key.load(std::memory_order_relaxed) & ~SlabEntry::closed) == std::uint64_t{communicator} + 1)
        return &entry;
    }
    page = reinterpret_cast<SlabPage*>(page->next.load(std::memory_order_relaxed));
    assert(page != nullptr && "not open");
  }
}

}  // namespace ucft::detail
