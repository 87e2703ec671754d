// Handles of the C API: an index and a generation. The generation tells a closed handle from a later one in the same
// place. Looking up a handle takes no lock. Making or closing one takes a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ucft::detail {

template <class Object, class Handle, std::uint64_t kind>
class HandleTable {
 public:
  static constexpr std::uint32_t capacity = 1u << 16;

  // null: the table is full.
  Handle open(Object* object) {
    const std::lock_guard lock(mutex_);
    std::uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (used_ < capacity) {
      index = used_++;
    } else {
      return nullptr;
    }
    entries_[index].object.store(object, std::memory_order_release);
    return encode(index, entries_[index].generation.load(std::memory_order_relaxed));
  }
  // null: closed, or never a handle.
  Object* find(Handle handle) const {
    const auto bits = reinterpret_cast<std::uint64_t>(handle);
    const auto index = static_cast<std::uint32_t>(bits & (capacity - 1));
    if (bits >> 60 != kind) return nullptr;
    const Entry& entry = entries_[index];
    if (((bits >> 16) & generation_mask) != entry.generation.load(std::memory_order_acquire)) return nullptr;
    return entry.object.load(std::memory_order_acquire);
  }
  // An open handle has another object from now on.
  void replace(Handle handle, Object* object) {
    const auto index = static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(handle) & (capacity - 1));
    entries_[index].object.store(object, std::memory_order_release);
  }
  void close(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(handle) & (capacity - 1));
    Entry& entry = entries_[index];
    entry.object.store(nullptr, std::memory_order_release);
    entry.generation.store((entry.generation.load(std::memory_order_relaxed) + 1) & generation_mask,
                           std::memory_order_release);
    free_.push_back(index);
  }
  // Handles whose object satisfies the condition.
  template <class Condition>
  std::vector<Handle> all(Condition condition) const {
    std::vector<Handle> found;
    const std::lock_guard lock(mutex_);
    for (std::uint32_t index = 0; index < used_; ++index) {
      Object* object = entries_[index].object.load(std::memory_order_acquire);
      if (object != nullptr && condition(object))
        found.push_back(encode(index, entries_[index].generation.load(std::memory_order_relaxed)));
    }
    return found;
  }

 private:
  static constexpr std::uint64_t generation_mask = (std::uint64_t{1} << 40) - 1;
  struct Entry {
    std::atomic<Object*> object{nullptr};
    std::atomic<std::uint64_t> generation{0};
  };
  static Handle encode(std::uint32_t index, std::uint64_t generation) {
    return reinterpret_cast<Handle>(kind << 60 | generation << 16 | index);
  }

  std::array<Entry, capacity> entries_{};
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
  mutable std::mutex mutex_;
};

}  // namespace ucft::detail
