#include "collectives/among/phases/clean_subtree.hpp"

namespace ucft::detail {

// Algorithm 2.
CleanSubtree::State CleanSubtree::choose(const UpCorrection& up, const BallotPlan& plan, Sum& sum, FailureList& failed,
                                         Buffers& buffers) {
  if (!up.group().settled()) return State::awaited;
  if (!plan.has_complete_group) {  // all are in my group
    up.add_group(sum, plan);
    up.note_missing(failed, buffers);
    return State::found;
  }
  for (const Arrivals::Peer& child : up.children().peers()) {
    if (child.state != Arrivals::State::delivered || child.message.has(is_unclean)) continue;
    if (plan.in_short_group) {  // its sum always comes last
      Sum group = sum.another();
      up.add_group(group, plan);
      sum.add(child.message);
      sum.add(group);
    } else {
      up.add_group(sum, plan);
      sum.add(child.message);
    }
    up.note_missing(failed, buffers);
    failed.append(child.message, buffers);
    return State::found;
  }
  return up.children().settled() ? State::none : State::awaited;
}

void CleanSubtree::note_elsewhere(const UpCorrection& up, const BallotPlan& plan, FailureList& failed,
                                  const Buffers& buffers) {
  if (plan.in_short_group)
    for (const Arrivals::Peer& peer : up.group().peers())
      if (peer.state == Arrivals::State::failed) failed.note(peer.rank, false);
  for (const Arrivals::Peer& child : up.children().peers())
    if (child.state == Arrivals::State::delivered) failed.note_elsewhere(child.message, buffers);
}

}  // namespace ucft::detail
