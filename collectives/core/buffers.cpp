#include "collectives/core/buffers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "collectives/core/deferred_steps.hpp"

namespace ucft::detail {

Buffers::Buffers(ChunkSource source) : source_(source) {
  blocks_.push_back({});  // no_buffer
}

unsigned Buffers::size_class_of(std::uint64_t bytes) {
  const unsigned needed = bytes <= 1 ? 0 : static_cast<unsigned>(std::bit_width(bytes - 1));
  if (needed <= last_single) return std::max(needed, smallest_class);
  const unsigned step = needed - 3;  // an eighth of the next power of two
  const auto steps = static_cast<unsigned>(((bytes - 1) >> step) + 1);
  return last_single + (needed - 1 - last_single) * 4 + steps - 4;
}

std::uint64_t Buffers::size_of(unsigned size_class) {
  if (size_class <= last_single) return std::uint64_t{1} << size_class;
  const unsigned above = size_class - 1 - last_single;
  return std::uint64_t{5 + above % 4} << (last_single + 1 + above / 4 - 3);
}

// With a block that is free, of the sizes of this doubling; else the smallest one.
unsigned Buffers::free_class(unsigned size_class) const {
  if (size_class <= last_single) return size_class;
  const unsigned last = size_class + 3 - (size_class - 1 - last_single) % 4;
  for (unsigned each = size_class; each <= last; ++each)
    if (!free_[each].empty()) return each;
  return size_class;
}

BufferId Buffers::new_entry() {
  blocks_.push_back({});
  return static_cast<BufferId>(blocks_.size() - 1);
}

// Small blocks share a chunk; one that would fill a quarter of it gets a chunk of its own.
std::byte* Buffers::carve(unsigned size_class) {
  const std::size_t size = size_of(size_class);
  const bool shares = size <= source_.chunk_bytes / 4;
  if (!shares || chunk_left_ < size) {
    std::byte* chunk = source_.allocate(source_.arg, shares ? source_.chunk_bytes : size);
    if (chunk == nullptr) return size <= private_limit ? carve_private(size) : nullptr;
    if (!shares) return chunk;
    chunk_ = chunk;
    chunk_left_ = source_.chunk_bytes;
  }
  std::byte* block = chunk_;
  chunk_ += size;
  chunk_left_ -= size;
  return block;
}

std::byte* Buffers::carve_private(std::size_t size) {
  private_chunks_.emplace_back(new (std::nothrow) std::byte[size]);
  return private_chunks_.back().get();
}

Buffers::~Buffers() {
  for (Block& each : blocks_)
    if (each.size_class == heap && each.references > 0) delete[] each.data;
}

BufferId Buffers::allocate_private(std::uint64_t bytes) {
  auto* memory = new (std::nothrow) std::byte[std::max<std::uint64_t>(bytes, 1)];
  if (memory == nullptr) return no_buffer;
  const BufferId id = adopt(memory, bytes, 0);
  blocks_[id].size_class = heap;
  return id;
}

BufferId Buffers::allocate_anywhere(std::uint64_t bytes) {
  const BufferId id = allocate(bytes);
  return id != no_buffer ? id : allocate_private(bytes);
}

BufferId Buffers::copy_anywhere(const std::byte* from, std::uint64_t bytes) {
  const BufferId id = allocate_anywhere(bytes);
  if (id != no_buffer && bytes > 0) std::memcpy(data(id), from, bytes);
  return id;
}

void Buffers::move_to(BufferId room, BufferId lent) {
  assert(blocks_[lent].size_class == adopted && blocks_[room].references == 1 && bytes(room) == bytes(lent));
  std::memcpy(data(room), data(lent), bytes(lent));
  std::swap(blocks_[room], blocks_[lent]);
  std::swap(blocks_[room].references, blocks_[lent].references);
  release(room);
}

BufferId Buffers::refuse() {
  ++refused_;
  return no_buffer;
}

BufferId Buffers::allocate(std::uint64_t bytes) {
  const unsigned least = size_class_of(bytes);
  if (least >= class_count) return refuse();
  const unsigned size_class = free_class(least);
  BufferId id;
  if (!free_[size_class].empty()) {
    id = free_[size_class].back();
    free_[size_class].pop_back();
  } else {
    std::byte* memory = carve(size_class);
    if (memory == nullptr) return refuse();
    id = new_entry();
    blocks_[id].data = memory;
    blocks_[id].size_class = static_cast<std::uint8_t>(size_class);
  }
  blocks_[id].bytes = bytes;
  blocks_[id].references = 1;
  ++in_use_;
  return id;
}

BufferId Buffers::copy_in(const void* data, std::uint64_t bytes) {
  const BufferId id = allocate(bytes);
  if (id != no_buffer && bytes > 0) std::memcpy(blocks_[id].data, data, bytes);
  return id;
}

BufferId Buffers::adopt(const std::byte* data, std::uint64_t bytes, std::uint64_t tag) {
  BufferId id;
  if (!free_adopted_.empty()) {
    id = free_adopted_.back();
    free_adopted_.pop_back();
  } else {
    id = new_entry();
  }
  blocks_[id] = {const_cast<std::byte*>(data), bytes, tag, 1, adopted};
  ++in_use_;
  return id;
}

void Buffers::recycle(BufferId id) {
  --in_use_;
  if (is_adopted(id)) {
    if (blocks_[id].size_class == adopted)
      released_.push_back(blocks_[id].tag);
    else
      delete[] blocks_[id].data;
    free_adopted_.push_back(id);
  } else {
    free_[blocks_[id].size_class].push_back(id);
  }
}

void Buffers::copy_part(const Slice& to, const Slice& from, std::uint64_t of_bytes) {
  const DeferredSteps::Step step{.copies = true, .of_bytes = of_bytes, .to = to, .higher = from};
  if (deferred_ == nullptr || !deferred_->keep(step, *this)) step.take(*this);
}

void Buffers::combine_part(const Reduction& reduction, const Slice& to, const Slice& lower, const Slice& higher,
                           std::uint64_t of_bytes) {
  const DeferredSteps::Step step{
      .copies = false, .reduction = reduction, .of_bytes = of_bytes, .to = to, .lower = lower, .higher = higher};
  if (deferred_ == nullptr || !deferred_->keep(step, *this)) step.take(*this);
}

}  // namespace ucft::detail
