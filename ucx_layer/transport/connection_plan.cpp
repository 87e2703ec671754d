#include "ucx_layer/transport/connection_plan.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace ucft::detail {

namespace {

// As Optimistic::plan_doubling() has them.
void add_doubling(std::int32_t size, std::int32_t me, std::vector<std::int32_t>& found) {
  const auto doubled = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(size)));
  const std::int32_t folded = size - doubled;
  if (me < 2 * folded) found.push_back(me ^ 1);
  if (me < 2 * folded && me % 2 == 0) return;
  const std::int32_t place = me < 2 * folded ? me / 2 : me - folded;
  for (std::int32_t distance = 1; distance < doubled; distance *= 2) {
    const std::int32_t other = place ^ distance;
    found.push_back(other < folded ? 2 * other + 1 : other + folded);
  }
}

}  // namespace

std::vector<std::int32_t> process_neighbours(std::int32_t size, std::int32_t me, std::int32_t f) {
  std::vector<std::int32_t> found;
  const auto add = [&](std::int64_t distance) {
    found.push_back(static_cast<std::int32_t>((me + distance) % size));
    found.push_back(static_cast<std::int32_t>((me + size - distance) % size));
  };
  for (std::int64_t distance = 1; distance <= f && distance < size; ++distance) add(distance);
  for (std::int64_t power = 1; power < size; power *= 2)
    for (const std::int64_t distance : {power, power * (f + 1)})
      if (distance < size) add(distance);
  add_doubling(size, me, found);
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::erase(found, me);
  return found;
}

ConnectionPlan::ConnectionPlan(const std::vector<std::uint64_t>& group_of, std::int32_t me, std::int32_t f,
                               std::int32_t all_upto) {
  std::map<std::uint64_t, std::size_t> number;
  std::vector<std::vector<std::int32_t>> groups;  // by their lowest ranks
  for (std::size_t rank = 0; rank < group_of.size(); ++rank) {
    const auto [found, is_new] = number.try_emplace(group_of[rank], groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(static_cast<std::int32_t>(rank));
  }
  const std::size_t mine = number.at(group_of[static_cast<std::size_t>(me)]),
                    least = std::ranges::min_element(groups, {}, &std::vector<std::int32_t>::size)->size();
  all_ = group_of.size() - least <= static_cast<std::size_t>(std::max(all_upto, 0));
  if (all_) {
    for (std::size_t rank = 0; rank < group_of.size(); ++rank)
      if (number.at(group_of[rank]) != mine) peers_.push_back(static_cast<std::int32_t>(rank));
    return;
  }
  near_.push_back(groups[mine]);
  for (const std::int32_t group :
       process_neighbours(static_cast<std::int32_t>(groups.size()), static_cast<std::int32_t>(mine), f))
    near_.push_back(groups[static_cast<std::size_t>(group)]);
  constexpr std::size_t connected = 2;  // who speaks, and its deputy
  if (std::ranges::find(near_[0], me) - near_[0].begin() >= static_cast<std::ptrdiff_t>(connected)) return;
  for (std::size_t i = 1; i < near_.size(); ++i)
    peers_.insert(peers_.end(), near_[i].begin(),
                  near_[i].begin() + static_cast<std::ptrdiff_t>(std::min(connected, near_[i].size())));
  std::ranges::sort(peers_);
}

bool ConnectionPlan::includes(std::int32_t rank) const { return std::ranges::binary_search(peers_, rank); }

}  // namespace ucft::detail
