#include "collectives/renewal/renewal_vote.hpp"

#include <algorithm>

namespace ucft::detail {

RenewalVote RenewalVote::of(std::uint32_t epoch, bool is_over, std::uint32_t next_id) {
  const auto named = static_cast<std::int64_t>(epoch);
  return {named, -named, is_over ? 1 : 0, static_cast<std::int64_t>(next_id)};
}

RenewalVote::Outcome RenewalVote::outcome() const {
  if (epoch != 0 && epoch == -minus_epoch) return Outcome::adopt;
  return is_over != 0 ? Outcome::same_seats : Outcome::again;
}

bool RenewalVote::is_split() const { return epoch != -minus_epoch; }

bool was_admitted(const std::vector<std::int32_t>& newcomers, std::uint32_t contributors, bool missing_known,
                  const std::vector<std::int32_t>& missing) {
  const auto all = static_cast<std::uint32_t>(newcomers.size());
  if (contributors > all || !missing_known) return contributors > all;
  const auto absent = static_cast<std::uint32_t>(std::ranges::count_if(
      missing, [&](std::int32_t rank) { return std::ranges::find(newcomers, rank) != newcomers.end(); }));
  return contributors > all - absent;
}

}  // namespace ucft::detail
