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
                               std::int32_t all_upto, const std::vector<bool>& absent)
    : me_(me), f_(f) {
  std::map<std::uint64_t, std::size_t> number;
  std::size_t present = 0;
  for (std::size_t rank = 0; rank < group_of.size(); ++rank) {
    if (!absent.empty() && absent[rank]) {
      group_of_.push_back(no_group);
      continue;
    }
    ++present;
    const auto [found, is_new] = number.try_emplace(group_of[rank], groups_.size());
    if (is_new) groups_.emplace_back();
    groups_[found->second].push_back(static_cast<std::int32_t>(rank));
    group_of_.push_back(found->second);
  }
  const std::size_t least = std::ranges::min_element(groups_, {}, &std::vector<std::int32_t>::size)->size();
  all_ = present - least <= static_cast<std::size_t>(std::max(all_upto, 0));
  peers_ = peers_of(me);
  if (all_) return;
  const std::size_t mine = group_of_[static_cast<std::size_t>(me)];
  near_.push_back(groups_[mine]);
  for (const std::int32_t group : neighbours_of(mine)) near_.push_back(groups_[static_cast<std::size_t>(group)]);
}

std::vector<std::int32_t> ConnectionPlan::neighbours_of(std::size_t group) const {
  return process_neighbours(static_cast<std::int32_t>(groups_.size()), static_cast<std::int32_t>(group), f_);
}

std::vector<std::int32_t> ConnectionPlan::peers_of(std::int32_t rank) const {
  std::vector<std::int32_t> peers;
  const std::size_t group = group_of_[static_cast<std::size_t>(rank)];
  if (all_) {
    for (std::size_t other = 0; other < group_of_.size(); ++other)
      if (group_of_[other] != group && group_of_[other] != no_group) peers.push_back(static_cast<std::int32_t>(other));
    return peers;
  }
  constexpr std::size_t connected = 2;  // who speaks, and its deputy
  if (std::ranges::find(groups_[group], rank) - groups_[group].begin() >= static_cast<std::ptrdiff_t>(connected))
    return peers;
  for (const std::int32_t each : neighbours_of(group)) {
    const std::vector<std::int32_t>& there = groups_[static_cast<std::size_t>(each)];
    peers.insert(peers.end(), there.begin(),
                 there.begin() + static_cast<std::ptrdiff_t>(std::min(connected, there.size())));
  }
  std::ranges::sort(peers);
  return peers;
}

std::vector<std::int32_t> ConnectionPlan::mailboxes_of(std::int32_t rank) const {
  std::vector<std::int32_t> mailboxes = peers_of(rank);
  for (const std::int32_t other : groups_[group_of_[static_cast<std::size_t>(rank)]])
    if (other != rank) mailboxes.push_back(other);
  std::ranges::sort(mailboxes);
  return mailboxes;
}

MailboxPlaces ConnectionPlan::mailboxes() const {
  const auto ranks = static_cast<int>(group_of_.size());
  if (all_) return MailboxPlaces::of_all(ranks, me_);
  const std::vector<std::int32_t> mine = mailboxes_of(me_);
  MailboxPlaces places{static_cast<int>(mine.size()), std::vector<int>(group_of_.size(), -1),
                       std::vector<int>(group_of_.size(), -1)};
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const std::vector<std::int32_t> theirs = mailboxes_of(mine[i]);
    places.here[static_cast<std::size_t>(mine[i])] = static_cast<int>(i);
    places.there[static_cast<std::size_t>(mine[i])] =
        static_cast<int>(std::ranges::lower_bound(theirs, me_) - theirs.begin());
  }
  return places;
}

bool ConnectionPlan::includes(std::int32_t rank) const { return std::ranges::binary_search(peers_, rank); }

}  // namespace ucft::detail
