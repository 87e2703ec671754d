// The shape in which the ranks of one host combine: a tree rooted at rank 0 in which every subtree is a range of ranks, its
// root the lowest. So V + P of the children, in their order, is in the order of ranks.
#pragma once

#include <algorithm>
#include <cassert>
#include <span>
#include <vector>

#include "collectives/protocol.hpp"

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
    HostTree tree(ranks, degree);
    tree.split(0, ranks, degree);
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

  // 7 ranks of degree 2: 0 has 1 (1, 2, 3) and 4 (4, 5, 6).
  void split(Rank root, Rank end, int degree) {
    Rank begin = root + 1;
    for (int parts = degree; parts > 0 && begin < end; --parts) {
      const Rank length = (end - begin + parts - 1) / parts;
      children_[static_cast<std::size_t>(root)].push_back(begin);
      split(begin, begin + length, degree);
      begin += length;
    }
  }

  int degree_;
  std::vector<std::vector<Rank>> children_;
};

}  // namespace ucft::detail
