// The part of a context that its engines share which work in memory of this host (HostEngine): the engines that have
// something to do, memory for sums on their way, and how operations of given ranks lie in slabs.
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/on_host/host_slab.hpp"
#include "collectives/on_host/host_tree.hpp"

namespace ucft::detail {

class HostEngine;
struct HostShape;
struct Job;

class HostWork {
 public:
  explicit HostWork(const Job& job) : job_(job) {}

  // Whether these ranks can have operations in shared memory: the same on all of them.
  bool reads_memory_of_all(const std::vector<std::int32_t>& ranks) const;
  HostShape shape(const std::vector<std::int32_t>& ranks);
  std::uint64_t slab_bytes() const { return slab_layout().words() * sizeof(HostWord); }

  // Of a level of a tree; valid until more is wanted of that level.
  std::byte* scratch(int level, std::uint64_t bytes) {
    const auto place = static_cast<std::size_t>(level);
    if (place >= scratch_.size() || scratch_[place].size() < bytes) [[unlikely]]
      enlarge_scratch(place, bytes);
    return scratch_[place].data();
  }

  bool empty() const { return engines_.empty(); }
  void want(HostEngine& engine) {  // until it wants no progress any more
    if (std::find(engines_.begin(), engines_.end(), &engine) == engines_.end()) engines_.push_back(&engine);
  }
  void forget(const HostEngine& engine) { std::erase(engines_, &engine); }
  // True if anything was done.
  bool progress();

 private:
  HostLayout slab_layout() const;
  void enlarge_scratch(std::size_t level, std::uint64_t bytes);

  const Job& job_;
  std::vector<HostEngine*> engines_;  // that have something to do
  std::map<std::pair<std::int32_t, std::int32_t>, std::shared_ptr<const HostTree>>
      trees_;  // by ranks and degree, of ranks that are all bound to one place, or to none
  std::vector<std::vector<std::byte>> scratch_;  // by level
};

}  // namespace ucft::detail
