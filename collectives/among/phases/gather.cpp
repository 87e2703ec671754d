#include "collectives/among/phases/gather.hpp"

#include <algorithm>

#include "collectives/topology/reduce_topology.hpp"

namespace ucft::detail {

void Gather::start(const Message& question, const Ballots& ballots, Outbox& out) {
  under_way_ = true;
  std::vector<Rank> others;
  for (std::int32_t position = 0; position < ballots.members().size(); ++position)
    if (ballots.members().rank_at(position) != ballots.me()) others.push_back(ballots.members().rank_at(position));
  await(replies_, others, ballots, out.buffers());
  for (const Arrivals::Peer& peer : replies_.peers())
    if (peer.state == Arrivals::State::awaited) out.send(peer.rank, question);
}

void Gather::clear(Buffers& buffers) {
  replies_.clear(buffers);
  under_way_ = false;
}

void Gather::add_decisions(Sum& sum) const {
  for (const Arrivals::Peer& peer : replies_.peers())
    if (peer.state == Arrivals::State::delivered && peer.message.has(is_decided)) sum.add(peer.message);
}

std::int32_t Gather::new_failures(const Ballots& ballots) const {
  const Surroundings& here = ballots.surroundings();
  const auto unit_of = [&](Rank rank) {
    return here.hosts == nullptr ? rank : (*here.hosts)[static_cast<std::size_t>(rank)];
  };
  std::vector<Rank> living{unit_of(here.me)}, failed;
  for (const Arrivals::Peer& peer : replies_.peers())
    if (peer.state == Arrivals::State::delivered)
      living.push_back(unit_of(peer.rank));
    else if (!here.reported->contains(peer.rank))
      failed.push_back(unit_of(peer.rank));
  std::ranges::sort(living);
  std::ranges::sort(failed);
  failed.erase(std::unique(failed.begin(), failed.end()), failed.end());
  return static_cast<std::int32_t>(
      std::ranges::count_if(failed, [&](Rank unit) { return !std::ranges::binary_search(living, unit); }));
}

void Gather::note_failures(FailureList& failed, const Buffers& buffers) const {
  for (const Arrivals::Peer& peer : replies_.peers())
    if (peer.state == Arrivals::State::failed)
      failed.note(peer.rank, false);
    else
      failed.note_missing(peer.message, buffers);
}

struct Gather::Tree {
  ReduceTopology topology;
  const Message& mine;
  const Ballots& ballots;
};

void Gather::add_contributions(Sum& sum, const Message& mine, std::int32_t f, const Ballots& ballots) const {
  const Tree tree{ReduceTopology(ballots.members().size(), f), mine, ballots};
  const bool short_group = tree.topology.in_short_group(0);
  if (!short_group) sum.add(mine);
  add_subtree(sum, 1, tree);
  if (short_group) add_group(sum, 0, tree);
}

void Gather::add_subtree(Sum& sum, std::int32_t process, const Tree& tree) const {
  if (tree.topology.in_short_group(process)) return;  // the root adds it, last
  Sum subtree = sum.another();
  add_group(subtree, process, tree);
  std::vector<std::int32_t> children;
  tree.topology.children(process, children);
  for (std::int32_t child : children) add_subtree(subtree, child, tree);
  sum.add(subtree);
}

void Gather::add_group(Sum& sum, std::int32_t process, const Tree& tree) const {
  std::vector<std::int32_t> members;
  tree.topology.group_members(process, members);
  Sum group = sum.another();
  for (std::int32_t member : members) {
    const Rank rank = tree.ballots.rank_of(member, tree.ballots.promised());
    if (rank == tree.ballots.me()) group.add(tree.mine);
    for (const Arrivals::Peer& peer : replies_.peers())
      if (peer.rank == rank && peer.state == Arrivals::State::delivered) group.add(peer.message);
  }
  sum.add(group);
}

}  // namespace ucft::detail
