#include "collectives/among/phases/ballot_plan.hpp"

#include <algorithm>

#include "collectives/topology/reduce_topology.hpp"

namespace ucft::detail {

void broadcast_children_of(Rank ballot, const Ballots& ballots, const BroadcastShape& shape,
                           std::vector<Rank>& children) {
  const BroadcastTopology tree(shape, ballots.members().size());
  tree.children(ballots.process_of(ballots.me(), ballot), children);
  for (Rank& child : children) child = ballots.rank_of(child, ballot);
}

void BallotPlan::make(const Ballots& ballots, std::int32_t f, const BroadcastShape& shape) {
  const Rank ballot = ballots.promised();
  if (made_ && ballot_ == ballot && me_ == ballots.me() && f_ == f && shape_ == shape && members_ == ballots.members())
    return;
  made_ = true;
  members_ = ballots.members();
  me_ = ballots.me();
  ballot_ = ballot;
  f_ = f;
  shape_ = shape;

  const ReduceTopology topology(members_.size(), f);
  const std::int32_t process = ballots.process_of(me_, ballot);
  in_short_group = topology.in_short_group(process);
  has_complete_group = topology.complete_groups() > 0;
  topology.group_members(process, group_peers);
  const auto mine = std::find(group_peers.begin(), group_peers.end(), process);
  place_in_group = static_cast<std::size_t>(mine - group_peers.begin());
  group_peers.erase(mine);
  for (Rank& peer : group_peers) peer = ballots.rank_of(peer, ballot);
  topology.children(process, children);
  for (Rank& child : children) child = ballots.rank_of(child, ballot);
  parent = process == 0 ? no_rank : ballots.rank_of(topology.parent(process), ballot);
  broadcast_children_of(ballot, ballots, shape, broadcast_children);
}

}  // namespace ucft::detail
