// The ranks with which a rank gossips: communication topologies as pure functions of (rank, size).
// Casas et al. 2018, sections 3.2 and 5.1; Niederbrucker et al. 2012, section II (bus, torus, hypercube).
//
//   complete         everybody
//   hypercube        ranks that differ in one bit; n is a power of two
//   torus_2d, _3d    the ranks next to it in each dimension, around the edges; n = a b (c), as near to equal as n
//                    allows
//   ring, bus        the ranks before and after it; the bus has two ends
//   tree             parent (rank-1)/k and children k rank + 1 .. k rank + k
//   random_regular   the ranks next to it on degree/2 random N-cycles from a seed (hence connected), and for an odd
//                    degree its partner in a random pairing. Where two of these coincide the rank has fewer neighbours
//
// With a reach of h hops a rank gossips with all ranks that are at most h hops away in that topology. Reach 1 is
// single-hop communication on a machine of this shape. A longer reach is a topology laid over it (section 5.2: more
// hops a message, fewer iterations).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/core/protocol.hpp"

namespace ucft::detail {

enum class GossipTopology : std::uint8_t { complete, hypercube, torus_2d, torus_3d, ring, bus, tree, random_regular };
inline constexpr int gossip_topology_count = 8;

struct Neighbourhood {
  GossipTopology topology = GossipTopology::complete;
  Rank ranks = 1;
  int arity = 2;           // tree
  int degree = 4;          // random_regular
  std::uint64_t seed = 1;  // random_regular
  int reach = 1;           // hops
};

// "" or why there is no such topology.
std::string problem_with(const Neighbourhood& neighbourhood);

// Ascending, each once. O(its number) time, O(n) for complete; with a reach, times those next to a rank.
std::vector<Rank> neighbours_of(const Neighbourhood& neighbourhood, Rank rank);

// The links of the topology that a message crosses between the two on a shortest way, without regard to the reach. Not
// of random_regular.
int hops(const Neighbourhood& physical, Rank from, Rank to);

// After deaths: for each rank the lowest that it still reaches (itself, maybe); no_rank: it is dead. Ranks with the
// same number are a part, which hears nothing of the others. A bus 0-1-2-3-4 without 2: 0 0 no_rank 3 3.
std::vector<Rank> parts_without(const Neighbourhood& neighbourhood, const std::vector<bool>& dead);
bool is_connected_without(const Neighbourhood& neighbourhood, const std::vector<bool>& dead);

// The topology of fewer ranks, survivors that count themselves anew: the same one, if so few have it. Where they don't
// (a hypercube of 7), it is a random regular one with as many neighbours each, or all. Always connected.
Neighbourhood mended(const Neighbourhood& neighbourhood, Rank ranks);

// The sides of a torus, the longest first: 24 -> 6 4 or 4 3 2. Unused sides are 1.
struct TorusSides {
  Rank side[3];
};
TorusSides torus_sides(Rank ranks, int dimensions);

// The second largest eigenvalue of the walk that stays with probability 1/2 and else goes to a neighbour by chance. By
// it the slowest part of an error shrinks in a round (Boyd et al. 2006). In closed form where there is one, else an
// estimate.
double second_eigenvalue(const Neighbourhood& neighbourhood);

std::span<const char* const> gossip_topology_names();  // in the order of the enumeration
const char* gossip_topology_name(GossipTopology topology);
bool parse_gossip_topology(std::string_view name, GossipTopology& topology);

}  // namespace ucft::detail
