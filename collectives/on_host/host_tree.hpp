// The shape in which the ranks of one host combine: a tree rooted at rank 0, in which the root of a subtree is its
// lowest rank. A subtree is a range of ranks, and V + P of the children, in their order, is in the order of ranks.
// Exception: ranks that share a package, a NUMA node or a cache may not be numbered one after the other. Operators are
// commutative, so any order will do.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "collectives/on_host/host_site.hpp"
#include "collectives/core/protocol.hpp"

namespace ucft::detail {

class HostTree {
 public:
  // Every rank reads every value and combines them itself: no partial results.
  static HostTree flat(Rank ranks) {
    HostTree tree(ranks, 0);
    for (Rank rank = 1; rank < ranks; ++rank) tree.children_[0].push_back(rank);
    return tree;
  }
  // Inner nodes have up to `degree` children with subtrees of about the same size. 0: flat.
  static HostTree of_degree(Rank ranks, int degree) {
    assert(degree >= 0);
    if (degree == 0) return flat(ranks);
    return of_sites(std::vector<HostSite>(static_cast<std::size_t>(ranks)), degree);
  }
  // Rank r runs at sites[r]. The ranks of a package combine among themselves. So do those of a NUMA node and of a cache
  // within it: one value leaves each of them. The limit of `degree` children holds at each of these levels, and within
  // a cache. 0: flat.
  static HostTree of_sites(std::span<const HostSite> sites, int degree) {
    assert(degree >= 0 && !sites.empty());
    const Rank ranks = static_cast<Rank>(sites.size());
    if (degree == 0) return flat(ranks);
    HostTree tree(ranks, degree);
    std::vector<Rank> all(sites.size());
    std::iota(all.begin(), all.end(), 0);
    tree.join(all, sites, levels);
    return tree;
  }

  Rank ranks() const { return static_cast<Rank>(children_.size()); }
  bool is_flat() const { return degree_ == 0; }
  std::span<const Rank> children(Rank rank) const { return children_[static_cast<std::size_t>(rank)]; }
  bool is_inner(Rank rank) const { return !children(rank).empty(); }
  // Nodes on the longest way from the root to a leaf.
  int depth(Rank root = 0) const {
    int below = 0;
    for (Rank child : children(root)) below = std::max(below, depth(child));
    return 1 + below;
  }

 private:
  HostTree(Rank ranks, int degree) : degree_(degree), children_(static_cast<std::size_t>(ranks)) {}

  using Level = std::int16_t HostSite::*;
  static constexpr Level levels[] = {&HostSite::package, &HostSite::numa, &HostSite::cache};

  // Packages {0, 2, 4, 6} and {1, 3, 5, 7}, degree 2: 0 has 2 (2, 4), 6, and 1, which has 3 (3, 5) and 7. Children
  // within are added first: they are the nearest.
  void join(std::span<const Rank> ranks, std::span<const HostSite> sites, std::span<const Level> by) {
    if (by.empty()) return split(ranks);
    std::map<std::int16_t, std::size_t> places;
    std::vector<std::vector<Rank>> groups;  // in the order of their lowest ranks
    for (Rank rank : ranks) {
      const auto [place, is_new] = places.try_emplace(sites[static_cast<std::size_t>(rank)].*by[0], groups.size());
      if (is_new) groups.emplace_back();
      groups[place->second].push_back(rank);
    }
    std::vector<Rank> roots;
    for (const std::vector<Rank>& group : groups) {
      join(group, sites, by.subspan(1));
      roots.push_back(group[0]);
    }
    split(roots);
  }

  // The first is the root of the others. 7 ranks of degree 2: 0 has 1 (1, 2, 3) and 4 (4, 5, 6).
  void split(std::span<const Rank> ranks) {
    std::span<const Rank> rest = ranks.subspan(1);
    for (auto parts = static_cast<std::size_t>(degree_); !rest.empty(); --parts) {
      const std::size_t length = (rest.size() + parts - 1) / parts;
      children_[static_cast<std::size_t>(ranks[0])].push_back(rest[0]);
      split(rest.first(length));
      rest = rest.subspan(length);
    }
  }

  int degree_;
  std::vector<std::vector<Rank>> children_;
};

}  // namespace ucft::detail
