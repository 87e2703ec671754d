// The tree of a host's ranks: by number alone, and by where they run.
#include "collectives/on_host/host_tree.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace ucft::detail::test {
namespace {

using Sites = std::vector<HostSite>;

std::vector<Rank> children_of(const HostTree& tree, Rank rank) {
  return {tree.children(rank).begin(), tree.children(rank).end()};
}

std::vector<Rank> parents_of(const HostTree& tree) {
  std::vector<Rank> parents(static_cast<std::size_t>(tree.ranks()), -1);
  for (Rank rank = 0; rank < tree.ranks(); ++rank)
    for (Rank child : tree.children(rank)) {
      EXPECT_EQ(parents[static_cast<std::size_t>(child)], -1) << child << " has two parents";
      parents[static_cast<std::size_t>(child)] = rank;
    }
  return parents;
}

// A group at level 1, 2, 3: the ranks of a package, of a NUMA node of it, of a cache of that.
using Group = std::tuple<int, int, int, int>;
Group group_of(const HostSite& site, int level) {
  return {level, site.package, level >= 2 ? site.numa : 0, level >= 3 ? site.cache : 0};
}

// The outermost level at which an edge leaves a group; 4: within a cache.
int level_of(const HostSite& parent, const HostSite& child) {
  for (int level = 1; level <= 3; ++level)
    if (group_of(parent, level) != group_of(child, level)) return level;
  return 4;
}

void check(const Sites& sites, int degree, const std::string& what) {
  SCOPED_TRACE(what + ", degree " + std::to_string(degree));
  const HostTree tree = HostTree::of_sites(sites, degree);
  const auto site = [&](Rank rank) { return sites[static_cast<std::size_t>(rank)]; };
  ASSERT_EQ(tree.ranks(), static_cast<Rank>(sites.size()));
  const std::vector<Rank> parents = parents_of(tree);
  EXPECT_EQ(parents[0], -1);
  std::map<Group, int> entered;
  std::map<std::pair<Rank, int>, int> children;  // of a rank, at a level
  for (Rank rank = 1; rank < tree.ranks(); ++rank) {
    const Rank parent = parents[static_cast<std::size_t>(rank)];
    ASSERT_GE(parent, 0) << rank << " is not reached";
    ASSERT_LT(parent, rank);  // so there is no circle
    const int outermost = level_of(site(parent), site(rank));
    EXPECT_LE(++children[std::pair(parent, outermost)], degree) << parent << " at level " << outermost;
    for (int level = outermost; level <= 3; ++level) ++entered[group_of(site(rank), level)];
  }
  std::set<Group> groups;
  for (Rank rank = 0; rank < tree.ranks(); ++rank)
    for (int level = 1; level <= 3; ++level) {
      const Group group = group_of(site(rank), level);
      if (!groups.insert(group).second) continue;
      EXPECT_EQ(entered[group], group == group_of(site(0), level) ? 0 : 1)
          << "the group of " << rank << " at level " << level;
    }
}

struct Shape {
  int packages, numas, caches, ranks;  // in each of the former
  int total() const { return packages * numas * caches * ranks; }
};

// Numbers of NUMA nodes and caches are of the host, not of a package.
Sites in_order(const Shape& shape) {
  Sites sites;
  for (int rank = 0; rank < shape.total(); ++rank) {
    const int cache = rank / shape.ranks, numa = cache / shape.caches;
    sites.push_back({static_cast<std::int16_t>(numa / shape.numas), static_cast<std::int16_t>(numa),
                     static_cast<std::int16_t>(cache)});
  }
  return sites;
}

// Round robin over groups of that many ranks.
Sites dealt(const Sites& sites, int length) {
  Sites all;
  const auto step = static_cast<std::size_t>(length);
  for (std::size_t first = 0; first < step; ++first)
    for (std::size_t rank = first; rank < sites.size(); rank += step) all.push_back(sites[rank]);
  return all;
}

TEST(HostTree, SubtreesAreRangesOfRanks) {
  for (Rank ranks = 1; ranks <= 40; ++ranks)
    for (int degree = 1; degree <= 5; ++degree) {
      const HostTree tree = HostTree::of_degree(ranks, degree);
      const std::function<Rank(Rank)> end_of = [&](Rank root) {
        Rank next = root + 1;
        EXPECT_LE(tree.children(root).size(), static_cast<std::size_t>(degree));
        for (Rank child : tree.children(root)) {
          EXPECT_EQ(child, next);
          next = end_of(child);
        }
        return next;
      };
      EXPECT_EQ(end_of(0), ranks) << degree;
    }
}

TEST(HostTree, OneSiteIsATreeByNumber) {
  const HostTree seven = HostTree::of_degree(7, 2);
  EXPECT_EQ(children_of(seven, 0), (std::vector<Rank>{1, 4}));
  EXPECT_EQ(children_of(seven, 1), (std::vector<Rank>{2, 3}));
  for (Rank ranks = 1; ranks <= 70; ++ranks)
    for (int degree = 0; degree <= 9; ++degree) {
      const HostTree tree = HostTree::of_sites(Sites(static_cast<std::size_t>(ranks), {1, 0, 2}), degree);
      const HostTree expected = HostTree::of_degree(ranks, degree);
      EXPECT_EQ(tree.is_flat(), expected.is_flat());
      for (Rank rank = 0; rank < ranks; ++rank) EXPECT_EQ(children_of(tree, rank), children_of(expected, rank));
    }
}

TEST(HostTree, TheNearestChildrenComeFirst) {
  const HostTree ordered = HostTree::of_sites(in_order({2, 1, 2, 4}), 8);
  EXPECT_EQ(children_of(ordered, 0), (std::vector<Rank>{1, 2, 3, 4, 8}));
  EXPECT_EQ(children_of(ordered, 8), (std::vector<Rank>{9, 10, 11, 12}));
  const HostTree robin = HostTree::of_sites(dealt(in_order({2, 1, 1, 4}), 4), 2);
  EXPECT_EQ(children_of(robin, 0), (std::vector<Rank>{2, 6, 1}));
  EXPECT_EQ(children_of(robin, 1), (std::vector<Rank>{3, 7}));
  EXPECT_EQ(children_of(robin, 2), (std::vector<Rank>{4}));
  EXPECT_EQ(children_of(robin, 3), (std::vector<Rank>{5}));
}

TEST(HostTree, OneValueLeavesEachPackageNumaNodeAndCache) {
  const Shape shapes[] = {{2, 2, 2, 4}, {2, 1, 8, 8}, {2, 1, 1, 64}, {1, 4, 1, 3}, {20, 1, 1, 2}, {3, 5, 7, 1}};
  for (const Shape& shape : shapes)
    for (int degree : {1, 2, 3, 8, 16}) {
      const Sites ordered = in_order(shape);
      const std::string name = std::to_string(shape.packages) + " packages of " + std::to_string(shape.numas) + " x " +
                               std::to_string(shape.caches) + " x " + std::to_string(shape.ranks);
      check(ordered, degree, name + ", in order");
      check(dealt(ordered, shape.total() / shape.packages), degree, name + ", packages in turn");
      check(dealt(ordered, shape.ranks), degree, name + ", caches in turn");
    }
}

TEST(HostTree, RanksOfUnknownSitesAreAGroup) {
  Sites sites = in_order({2, 2, 2, 4});
  for (std::size_t rank = 0; rank < sites.size(); rank += 3) sites[rank] = {};  // nothing is known
  for (std::size_t rank = 1; rank < sites.size(); rank += 5)
    sites[rank].cache = -1;  // of a NUMA node, on several caches
  for (int degree : {1, 2, 8}) check(sites, degree, "some unknown");
  const HostTree tree = HostTree::of_sites(Sites{{0, 0, 0}, {}, {0, 0, 0}, {}, {0, 0, -1}}, 8);
  EXPECT_EQ(children_of(tree, 0), (std::vector<Rank>{2, 4, 1}));
  EXPECT_EQ(children_of(tree, 1), (std::vector<Rank>{3}));
}

}  // namespace
}  // namespace ucft::detail::test
