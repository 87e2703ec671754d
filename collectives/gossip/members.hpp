// The ranks that gossip in an operation since it last began, and their topology. The members are the ranks that were
// agreed to live then. A rank's place in their list is its rank in the topology, so a dead rank cuts no other rank off.
// Of several ranks of a host only the first that lives is a member: it speaks for the host.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "collectives/gossip/neighbourhood.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail {

// The ranks that gossip begins with, in 48 bits: exact as a double.
inline std::uint64_t view_of(const std::vector<bool>& dead) {
  std::uint64_t hash = mixed(dead.size(), 0);
  for (std::size_t rank = 0; rank < dead.size(); ++rank)
    if (dead[rank]) hash = mixed(hash, rank + 1);
  return hash >> 16;
}

// The ranks of this one's host, ascending. hosts: see GossipMembers; not empty.
inline std::vector<Rank> ranks_of_host(std::span<const Rank> hosts, Rank me) {
  std::vector<Rank> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts[rank] == hosts[static_cast<std::size_t>(me)]) ranks.push_back(static_cast<Rank>(rank));
  return ranks;
}

class GossipMembers {
 public:
  // all: the topology of the whole communicator. dead: by rank. hosts: by rank, the number of its host, below that of
  // ranks; empty: each is one.
  GossipMembers(const Neighbourhood& all, const std::vector<bool>& dead, std::span<const Rank> hosts = {})
      : ranks_(dead.size()) {
    std::vector<bool> have_one(hosts.size());
    for (std::size_t rank = 0; rank < dead.size(); ++rank) {
      if (dead[rank]) continue;
      if (!hosts.empty()) {
        const auto host = static_cast<std::size_t>(hosts[rank]);
        if (have_one[host]) continue;
        have_one[host] = true;
      }
      members_.push_back(static_cast<Rank>(rank));
    }
    neighbourhood_ = mended(all, count());
  }

  Rank count() const { return static_cast<Rank>(members_.size()); }
  const Neighbourhood& neighbourhood() const { return neighbourhood_; }
  Rank rank_at(Rank place) const { return members_[static_cast<std::size_t>(place)]; }
  Rank place_of(Rank rank) const {  // no_rank: none of them
    if (members_.size() == ranks_) return rank;
    const auto found = std::lower_bound(members_.begin(), members_.end(), rank);
    return found == members_.end() || *found != rank ? no_rank : static_cast<Rank>(found - members_.begin());
  }
  // The neighbours of a member, ascending.
  std::vector<Rank> neighbours_of_rank(Rank rank) const {
    std::vector<Rank> found = neighbours_of(neighbourhood_, place_of(rank));
    for (Rank& each : found) each = rank_at(each);
    return found;
  }
  // The speaker for a rank that is no member itself.
  Rank speaker_of(Rank rank, std::span<const Rank> hosts) const {
    const auto host_of = [&](Rank each) { return hosts[static_cast<std::size_t>(each)]; };
    return *std::ranges::find(members_, host_of(rank), host_of);
  }
  bool is_any_of(const std::vector<bool>& dead) const {  // by rank
    return std::ranges::any_of(members_, [&](Rank rank) { return dead[static_cast<std::size_t>(rank)]; });
  }
  bool is_connected_without(const std::vector<bool>& dead) const {  // by rank
    std::vector<bool> places(members_.size());
    for (std::size_t place = 0; place < members_.size(); ++place)
      places[place] = dead[static_cast<std::size_t>(members_[place])];
    return detail::is_connected_without(neighbourhood_, places);
  }

 private:
  std::size_t ranks_;
  std::vector<Rank> members_;
  Neighbourhood neighbourhood_;
};

}  // namespace ucft::detail
