#include "collectives/topology/membership.hpp"

#include <algorithm>

namespace ucft::detail {

bool Membership::contains(std::int32_t rank) const {
  return rank >= 0 && rank < size_ && !std::binary_search(excluded_.begin(), excluded_.end(), rank);
}

std::int32_t Membership::position_of(std::int32_t rank) const {
  const auto before = std::lower_bound(excluded_.begin(), excluded_.end(), rank) - excluded_.begin();
  return rank - static_cast<std::int32_t>(before);
}

// excluded {1, 2}: position 0 -> 0, position 1 -> 3.
std::int32_t Membership::rank_at(std::int32_t position) const {
  std::int32_t rank = position;
  for (std::int32_t gone : excluded_) {
    if (gone > rank) break;
    ++rank;
  }
  return rank;
}

void Membership::exclude(std::int32_t rank) {
  if (!contains(rank)) return;
  excluded_.insert(std::lower_bound(excluded_.begin(), excluded_.end(), rank), rank);
}

}  // namespace ucft::detail
