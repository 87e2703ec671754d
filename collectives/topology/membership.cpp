#include "collectives/topology/membership.hpp"

#include <algorithm>

namespace ucft::detail {

bool Membership::remains(std::int32_t rank) const {
  return !std::binary_search(excluded_.begin(), excluded_.end(), rank);
}

std::int32_t Membership::excluded_below(std::int32_t rank) const {
  return static_cast<std::int32_t>(std::lower_bound(excluded_.begin(), excluded_.end(), rank) - excluded_.begin());
}

// excluded {1, 2}: position 0 -> 0, position 1 -> 3.
std::int32_t Membership::member_at(std::int32_t position) const {
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
