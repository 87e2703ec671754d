#include "collectives/ballots.hpp"

#include <algorithm>

namespace ucft::detail {

bool FailedRanks::is_among_them(Rank rank) const { return std::binary_search(ranks_.begin(), ranks_.end(), rank); }

bool FailedRanks::insert(Rank rank) {
  const auto place = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  if (place != ranks_.end() && *place == rank) return false;
  ranks_.insert(place, rank);
  return true;
}

void Ballots::begin(const Membership& members, Rank root, const Surroundings& surroundings) {
  members_ = members;
  surroundings_ = surroundings;
  promised_ = no_rank;
  first_position_ = members_.position_of(root);
  if (first_position_ == members_.size()) first_position_ = 0;
}

bool Ballots::any_member_failed() const {
  return any_failed() &&
         std::ranges::any_of(surroundings_.failed->ranks(), [this](Rank rank) { return members_.contains(rank); });
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
