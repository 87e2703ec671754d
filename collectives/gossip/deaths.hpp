// The dead ranks of a gossip operation: as this rank knows them, and as all have agreed.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "collectives/core/protocol.hpp"

namespace ucft::detail {

// The result of an agreement, the same on all survivors.
struct GossipAgreed {
  std::span<const double> table;  // the largest of each entry; the last ones say which ranks are known to be dead
  std::span<const Rank> missing;  // the ranks that have not contributed to it
  std::uint32_t contributors;
};

class GossipDeaths {
 public:
  GossipDeaths(std::span<const Rank> known, Rank ranks)
      : known_(static_cast<std::size_t>(ranks)), agreed_(known_.size()), at_start_(known_.size()) {
    for (Rank rank : known) learn(rank);
  }

  std::size_t ranks() const { return known_.size(); }
  bool learn(Rank rank) {  // false: it was known
    if (is_known(rank)) return false;
    known_[static_cast<std::size_t>(rank)] = true;
    return true;
  }
  bool is_known(Rank rank) const { return known_[static_cast<std::size_t>(rank)]; }
  const std::vector<bool>& known() const { return known_; }
  const std::vector<bool>& agreed() const { return agreed_; }
  const std::vector<bool>& at_start() const { return at_start_; }  // agreed on when it started
  void start() { at_start_ = agreed_; }

  // From now on those ranks are agreed to be dead that any rank knew to be dead, or that are missing from the
  // agreement. True if all that the agreement before left alive have taken part, and none of them knew of a death.
  bool agree(const GossipAgreed& agreed) {
    const std::vector<bool> before = agreed_;
    const std::span<const double> said = agreed.table.last(ranks());
    for (std::size_t rank = 0; rank < ranks(); ++rank) agreed_[rank] = said[rank] > 0;
    for (Rank rank : agreed.missing) agreed_[static_cast<std::size_t>(rank)] = true;
    return agreed_ == before && agreed.contributors == alive(before);
  }

  static std::uint32_t alive(const std::vector<bool>& dead) {
    return static_cast<std::uint32_t>(std::count(dead.begin(), dead.end(), false));
  }

 private:
  std::vector<bool> known_, agreed_, at_start_;
};

}  // namespace ucft::detail
