#include "collectives/core/ballots.hpp"

#include <algorithm>

namespace ucft::detail {

bool FailedRanks::is_among_them(Rank rank) const { return std::binary_search(ranks_.begin(), ranks_.end(), rank); }

bool FailedRanks::insert(Rank rank) {
  const auto place = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  if (place != ranks_.end() && *place == rank) return false;
  ranks_.insert(place, rank);
  return true;
}

void Ballots::begin(OperationNumber number, const Membership& members, Rank root, const Surroundings& surroundings) {
  number_ = number;
  members_ = members;
  surroundings_ = surroundings;
  promised_ = no_rank;
  first_position_ = members_.position_of(root);
  if (first_position_ == members_.size()) first_position_ = 0;
}

bool Ballots::is_among_leavers(Rank rank) const {
  return std::ranges::any_of(*surroundings_.left,
                             [&](const Leaver& each) { return each.rank == rank && each.from <= number_; });
}

std::vector<Rank> Ballots::failed_members() const {
  std::vector<Rank> failed = surroundings_.failed->ranks();
  for (std::size_t i = 0; any_left() && i < surroundings_.left->size(); ++i)
    if (const auto& [rank, from] = (*surroundings_.left)[i]; from <= number_ && !surroundings_.failed->contains(rank))
      failed.push_back(rank);
  std::erase_if(failed, [this](Rank rank) { return !members_.contains(rank); });
  std::ranges::sort(failed);
  return failed;
}

void Ballots::promise_first_alive(Rank from) {
  std::int32_t position = members_.position_of(from);
  for (std::int32_t tried = 0; tried < members_.size(); ++tried) {
    promised_ = members_.rank_at(position);
    if (!has_failed(promised_)) return;
    position = position + 1 == members_.size() ? 0 : position + 1;
  }
  assert(false && "every member is known to have failed, this rank included");
  promised_ = surroundings_.me;
}

}  // namespace ucft::detail
