#include "ucx_layer/runtime/engines/places.hpp"

#include <algorithm>
#include <numeric>

namespace ucft::detail {

Places::Places(const std::vector<std::int32_t>& hosts, Rank ranks, Rank me)
    : rank_at_(static_cast<std::size_t>(ranks)), place_of_(rank_at_.size()) {
  std::iota(rank_at_.begin(), rank_at_.end(), 0);
  const auto host_of = [&](Rank rank) { return hosts.empty() ? rank : hosts[static_cast<std::size_t>(rank)]; };
  std::ranges::stable_sort(rank_at_, {}, host_of);
  Host process = -1;
  for (Rank place = 0; place < ranks; ++place) {
    const Rank rank = rank_at(place);
    if (place == 0 || host_of(rank) != host_of(rank_at(place - 1))) ++process, ranks_of_.push_back(0);
    ++ranks_of_.back();
    place_of_[static_cast<std::size_t>(rank)] = place;
    processes_.push_back(process);
    if (host_of(rank) == host_of(me) && here_++ == 0) first_here_ = place;
  }
}

}  // namespace ucft::detail
