// This rank's part in one ballot, as ranks. It has its group and its place in the reduce tree (Küttler, Härtig,
// sections 4.2 and 4.5), and its children in the broadcast tree. The plan is kept from one operation to the next while
// nothing has changed.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/core/ballots.hpp"
#include "collectives/topology/broadcast_topology.hpp"

namespace ucft::detail {

class BallotPlan {
 public:
  // The plan for the promised ballot.
  void make(const Ballots& ballots, std::int32_t f, const BroadcastShape& shape);

  bool in_short_group = false;
  bool has_complete_group = false;
  std::size_t place_in_group = 0;  // members of the group before me
  Rank parent = no_rank;           // of the root: none
  std::vector<Rank> group_peers, children, broadcast_children;

 private:
  bool made_ = false;
  Membership members_;
  Rank me_ = no_rank, ballot_ = no_rank;
  std::int32_t f_ = 0;
  BroadcastShape shape_;
};

void broadcast_children_of(Rank ballot, const Ballots& ballots, const BroadcastShape& shape,
                           std::vector<Rank>& children);

}  // namespace ucft::detail
