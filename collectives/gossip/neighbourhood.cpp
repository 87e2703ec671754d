#include "collectives/gossip/neighbourhood.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <numbers>

#include "collectives/gossip/permutation.hpp"

namespace ucft::detail {

namespace {

constexpr const char* names[] = {"complete", "hypercube", "torus_2d", "torus_3d",
                                 "ring",     "bus",       "tree",     "random_regular"};
static_assert(std::size(names) == gossip_topology_count);

// The largest divisor that is no larger than the root.
Rank divisor_near_root(Rank number, double root) {
  for (auto side = static_cast<Rank>(std::floor(root + 1e-9)); side > 1; --side)
    if (number % side == 0) return side;
  return 1;
}

Rank walk(Rank position, Rank side, int step) { return (position + side + step) % side; }

double gap_of_ring(double side) { return 1 - std::cos(2 * std::numbers::pi / side); }

int dimensions_of(GossipTopology topology) {
  return topology == GossipTopology::torus_2d ? 2 : topology == GossipTopology::torus_3d ? 3 : 1;
}
Rank hops_around(Rank side, Rank from, Rank to) {
  const Rank between = std::abs(from - to);
  return std::min(between, side - between);
}

}  // namespace

TorusSides torus_sides(Rank ranks, int dimensions) {
  TorusSides sides{{1, 1, 1}};
  const Rank last = divisor_near_root(ranks, std::pow(ranks, 1.0 / dimensions));
  if (dimensions == 2) {
    sides.side[0] = ranks / last;
    sides.side[1] = last;
    return sides;
  }
  const Rank middle = divisor_near_root(ranks / last, std::sqrt(ranks / last));
  sides = {{ranks / last / middle, middle, last}};
  std::sort(sides.side, sides.side + 3, std::greater<>());
  return sides;
}

std::string problem_with(const Neighbourhood& neighbourhood) {
  const Rank n = neighbourhood.ranks;
  if (n < 1) return fmt::format("{} ranks: at least one is needed", n);
  if (neighbourhood.reach < 1) return fmt::format("a reach of {} hops: at least 1", neighbourhood.reach);
  if (neighbourhood.reach > 1 && neighbourhood.topology == GossipTopology::complete)
    return fmt::format("a reach of {} hops: on complete nobody is further than 1", neighbourhood.reach);
  switch (neighbourhood.topology) {
    case GossipTopology::hypercube:
      if (!std::has_single_bit(static_cast<std::uint32_t>(n)))
        return fmt::format("a hypercube of {} ranks: not a power of two", n);
      break;
    case GossipTopology::torus_2d:
    case GossipTopology::torus_3d: {
      const int dimensions = dimensions_of(neighbourhood.topology);
      if (n > 1 && torus_sides(n, dimensions).side[dimensions - 1] == 1)
        return fmt::format("a torus of {} ranks in {} dimensions: {} has no such divisors", n, dimensions, n);
      break;
    }
    case GossipTopology::tree:
      if (neighbourhood.arity < 1) return fmt::format("a tree of arity {}: at least 1", neighbourhood.arity);
      break;
    case GossipTopology::random_regular:
      if (neighbourhood.degree < 2)
        return fmt::format("random_regular of degree {}: at least 2, else it is not connected", neighbourhood.degree);
      if (n > 1 && neighbourhood.degree >= n)
        return fmt::format("random_regular of degree {}: at most {} with {} ranks", neighbourhood.degree, n - 1, n);
      if (neighbourhood.degree % 2 == 1 && n % 2 == 1)
        return fmt::format("random_regular of degree {}: {} ranks can't be paired", neighbourhood.degree, n);
      break;
    default: break;
  }
  return "";
}

namespace {

// The ranks one hop away, the rank itself perhaps among them; in any order, some more than once.
std::vector<Rank> next_to(const Neighbourhood& neighbourhood, Rank rank) {
  const Rank n = neighbourhood.ranks;
  std::vector<Rank> found;
  const auto torus = [&](int dimensions) {
    const TorusSides sides = torus_sides(n, dimensions);
    for (Rank stride = 1, dimension = 0; dimension < dimensions; stride *= sides.side[dimension++]) {
      const Rank side = sides.side[dimension], position = rank / stride % side;
      for (int step : {-1, 1}) found.push_back(rank + (walk(position, side, step) - position) * stride);
    }
  };
  switch (neighbourhood.topology) {
    case GossipTopology::complete:
      for (Rank other = 0; other < n; ++other) found.push_back(other);
      break;
    case GossipTopology::hypercube:
      for (Rank bit = 1; bit < n && bit > 0; bit *= 2) found.push_back(rank ^ bit);
      break;
    case GossipTopology::torus_2d: torus(2); break;
    case GossipTopology::torus_3d: torus(3); break;
    case GossipTopology::ring:
      for (int step : {-1, 1}) found.push_back(walk(rank, n, step));
      break;
    case GossipTopology::bus:
      if (rank > 0) found.push_back(rank - 1);
      if (rank + 1 < n) found.push_back(rank + 1);
      break;
    case GossipTopology::tree: {
      if (rank > 0) found.push_back((rank - 1) / neighbourhood.arity);
      const std::int64_t first = std::int64_t{rank} * neighbourhood.arity + 1;
      for (std::int64_t child = first; child < first + neighbourhood.arity && child < n; ++child)
        found.push_back(static_cast<Rank>(child));
      break;
    }
    case GossipTopology::random_regular:
      for (int cycle = 0; cycle < neighbourhood.degree / 2; ++cycle) {
        const Permutation order(static_cast<std::uint64_t>(n),
                                mixed(neighbourhood.seed, static_cast<std::uint64_t>(cycle)));
        found.push_back(static_cast<Rank>(order.next(static_cast<std::uint64_t>(rank))));
        found.push_back(static_cast<Rank>(order.previous(static_cast<std::uint64_t>(rank))));
      }
      if (neighbourhood.degree % 2 == 1 && n > 1) {
        const Permutation order(static_cast<std::uint64_t>(n), mixed(neighbourhood.seed, ~std::uint64_t{0}));
        found.push_back(static_cast<Rank>(order.at(order.place_of(static_cast<std::uint64_t>(rank)) ^ 1)));
      }
      break;
  }
  return found;
}

void sort_once(std::vector<Rank>& ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

}  // namespace

std::vector<Rank> neighbours_of(const Neighbourhood& neighbourhood, Rank rank) {
  std::vector<Rank> found = next_to(neighbourhood, rank);
  sort_once(found);
  std::vector<Rank> last = found;  // those as far away as has been gone
  for (int hop = 1; hop < neighbourhood.reach && !last.empty(); ++hop) {
    std::vector<Rank> further, all;
    for (Rank each : last)
      for (Rank other : next_to(neighbourhood, each)) further.push_back(other);
    sort_once(further);
    last.clear();
    std::set_difference(further.begin(), further.end(), found.begin(), found.end(), std::back_inserter(last));
    std::set_union(found.begin(), found.end(), last.begin(), last.end(), std::back_inserter(all));
    found = std::move(all);
  }
  std::erase(found, rank);
  return found;
}

int hops(const Neighbourhood& physical, Rank from, Rank to) {
  assert(physical.topology != GossipTopology::random_regular);
  switch (physical.topology) {
    case GossipTopology::hypercube: return std::popcount(static_cast<std::uint32_t>(from ^ to));
    case GossipTopology::torus_2d:
    case GossipTopology::torus_3d: {
      const TorusSides sides = torus_sides(physical.ranks, dimensions_of(physical.topology));
      int sum = 0;
      for (Rank side : sides.side) {
        sum += hops_around(side, from % side, to % side);
        from /= side;
        to /= side;
      }
      return sum;
    }
    case GossipTopology::ring: return hops_around(physical.ranks, from, to);
    case GossipTopology::bus: return std::abs(from - to);
    case GossipTopology::tree: {  // a rank with a larger number is no higher up
      int climbed = 0;
      for (; from != to; ++climbed) {
        Rank& lower = from > to ? from : to;
        lower = (lower - 1) / physical.arity;
      }
      return climbed;
    }
    default: return from == to ? 0 : 1;
  }
}

std::vector<Rank> parts_without(const Neighbourhood& neighbourhood, const std::vector<bool>& dead) {
  std::vector<Rank> part(dead.size(), no_rank);
  std::vector<Rank> open;
  for (Rank first = 0; first < neighbourhood.ranks; ++first) {
    if (dead[static_cast<std::size_t>(first)] || part[static_cast<std::size_t>(first)] != no_rank) continue;
    part[static_cast<std::size_t>(first)] = first;  // ascending: nobody lower reaches it
    open.assign(1, first);
    while (!open.empty()) {
      const Rank rank = open.back();
      open.pop_back();
      for (Rank other : neighbours_of(neighbourhood, rank)) {
        if (dead[static_cast<std::size_t>(other)] || part[static_cast<std::size_t>(other)] != no_rank) continue;
        part[static_cast<std::size_t>(other)] = first;
        open.push_back(other);
      }
    }
  }
  return part;
}

bool is_connected_without(const Neighbourhood& neighbourhood, const std::vector<bool>& dead) {
  if (neighbourhood.topology == GossipTopology::complete) return true;  // known without n^2 steps
  Rank first = no_rank;
  for (Rank part : parts_without(neighbourhood, dead)) {
    if (part == no_rank) continue;
    if (first != no_rank && part != first) return false;
    first = part;
  }
  return true;
}

Neighbourhood mended(const Neighbourhood& neighbourhood, Rank ranks) {
  Neighbourhood made = neighbourhood;
  made.ranks = ranks;
  if (problem_with(made).empty()) return made;
  made.topology = GossipTopology::random_regular;
  made.reach = 1;
  if (neighbourhood.topology != GossipTopology::random_regular)
    made.degree = static_cast<int>(neighbours_of(neighbourhood, 0).size());
  made.degree += made.degree % 2;                                             // an odd number of ranks can't be paired
  if (!problem_with(made).empty()) made.topology = GossipTopology::complete;  // degree >= ranks
  return made;
}

namespace {

// 1 - the second eigenvalue of the walk that never stays, by single hops.
double gap_of(const Neighbourhood& neighbourhood) {
  const double n = neighbourhood.ranks;
  switch (neighbourhood.topology) {
    case GossipTopology::complete: return n / (n - 1);
    case GossipTopology::hypercube: return 2 / std::log2(n);
    case GossipTopology::torus_2d: return gap_of_ring(torus_sides(neighbourhood.ranks, 2).side[0]) / 2;
    case GossipTopology::torus_3d: return gap_of_ring(torus_sides(neighbourhood.ranks, 3).side[0]) / 3;
    case GossipTopology::ring: return gap_of_ring(n);
    case GossipTopology::bus: return 1 - std::cos(std::numbers::pi / (n - 1));
    case GossipTopology::tree:  // half of the walk's weight crosses one edge of the root: conductance about 1/n
      return neighbourhood.arity == 1 ? 1 - std::cos(std::numbers::pi / (n - 1))
                                      : (neighbourhood.arity - 1.0) / (2 * n);
    case GossipTopology::random_regular: {  // Friedman: nearly Ramanujan
      const double degree = neighbourhood.degree;
      return degree == 2 ? gap_of_ring(n) : 1 - 2 * std::sqrt(degree - 1) / degree;
    }
  }
  return 0;
}

// With a reach. On rings, tori and hypercubes the slowest part of an error is a wave along the longest side. A step to
// a neighbour sees 1 - cos of the angle between the two. Of a tree that by single hops, which is smaller.
double gap_with_reach(const Neighbourhood& neighbourhood) {
  const Rank n = neighbourhood.ranks;
  const auto mean_of = [&](Rank from, auto of) {
    double sum = 0;
    const std::vector<Rank> all = neighbours_of(neighbourhood, from);
    for (Rank each : all) sum += of(each);
    return sum / static_cast<double>(all.size());
  };
  const auto of_wave = [&](double side) {
    return [side](double at) { return 1 - std::cos(2 * std::numbers::pi * at / side); };
  };
  switch (neighbourhood.topology) {
    case GossipTopology::hypercube: return mean_of(0, [](Rank each) { return 2.0 * (each & 1); });
    case GossipTopology::torus_2d:
    case GossipTopology::torus_3d: {
      const Rank side = torus_sides(n, dimensions_of(neighbourhood.topology)).side[0];
      return mean_of(0, [&](Rank each) { return of_wave(side)(each % side); });
    }
    case GossipTopology::ring: return mean_of(0, of_wave(n));
    case GossipTopology::bus: {
      const Rank middle = n / 2;
      return mean_of(middle, [&](Rank each) { return of_wave(2.0 * (n - 1))(each - middle); });
    }
    // Nearly Ramanujan, and nearly a tree around each rank: the largest of the polynomials in the walk that count ways
    // of k hops, (d-1)^(k/2) (k+1 - (k-1)/(d-1)), by the number of ranks there, d (d-1)^(k-1).
    case GossipTopology::random_regular: {
      const double d = neighbourhood.degree;
      if (d == 2) return gap_of_ring(n) * neighbourhood.reach;
      double ways = 0, ranks = 0;
      for (int k = 1; k <= neighbourhood.reach && ranks < n; ++k) {
        ways += std::pow(d - 1, k / 2.0) * (k + 1 - (k - 1) / (d - 1));
        ranks += d * std::pow(d - 1, k - 1);
      }
      return 1 - ways / ranks;
    }
    default: return gap_of(neighbourhood);
  }
}

}  // namespace

double second_eigenvalue(const Neighbourhood& neighbourhood) {
  if (neighbourhood.ranks <= 2) return 0.5;
  return 1 - (neighbourhood.reach > 1 ? gap_with_reach(neighbourhood) : gap_of(neighbourhood)) / 2;
}

std::span<const char* const> gossip_topology_names() { return names; }
const char* gossip_topology_name(GossipTopology topology) { return names[static_cast<std::size_t>(topology)]; }

bool parse_gossip_topology(std::string_view name, GossipTopology& topology) {
  const auto* found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return false;
  topology = static_cast<GossipTopology>(found - std::begin(names));
  return true;
}

}  // namespace ucft::detail
