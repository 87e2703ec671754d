// Faults that are injected into a gossip all-reduce on purpose: their kinds, their notation, and how a bit flips.
//
//   loss        a message's masses do not arrive
//   flip        a bit of a flow, of a message on its way or of a rank's own data is another one
//   fail-link   for ever: both ends treat it as a death, and nobody is dead
//
// Time is counted in iterations (by rounds: in rounds).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "collectives/gossip/gossip.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail {

enum class FlipTarget : std::uint8_t { flow, message, data };

struct LinkFailure {
  Rank a, b;
  double time;
};
struct BitFlip {
  double time;
  Rank rank = no_rank;  // no_rank: by chance
  int bit = -1;         // from the lowest; -1: by chance
};

struct GossipFaults {
  double loss = 0;       // probability, of each message
  double flip_rate = 0;  // probability of a flip before a push; of a message: on its way
  FlipTarget target = FlipTarget::flow;
  std::vector<BitFlip> flips;
  std::vector<LinkFailure> links;
  std::uint64_t seed = 1;  // of chance in real runs; a simulated one has its own

  bool any() const { return loss > 0 || flip_rate > 0 || !flips.empty() || !links.empty(); }
};

// "" or what is wrong with the text, without saying which option it is of.
std::string parse_flip(std::string_view text, BitFlip& flip);  // BIT@TIME, BIT:RANK@TIME; BIT: a number or any
std::string parse_link_failure(std::string_view text, LinkFailure& link);  // RANK-RANK@TIME
std::string parse_flip_target(std::string_view text, FlipTarget& target);

// One fault by its name (ucft_sim's option without --): loss, flip-rate, flip-target, flip, fail-link, seed.
std::string set_fault(std::string_view name, std::string_view value, GossipFaults& faults);
// NAME=VALUE,NAME=VALUE,..; flip and fail-link may come more than once. The text that is wrong is named.
std::string parse_faults(std::string_view text, GossipFaults& faults);

// "" or which of them there cannot be. bits: of a number.
std::string problem_with(const GossipFaults& faults, const GossipPlan& plan, int bits);

// bit: -1: by chance, as is the number among the first `candidates`.
template <class Real>
void flip_bit(Mass<Real> row, std::size_t candidates, int bit, Random& random) {
  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
  Real& victim = row[random.below(std::min(row.size(), candidates))];
  const int position = bit >= 0 ? bit : static_cast<int>(random.below(8 * sizeof(Real)));
  victim = std::bit_cast<Real>(std::bit_cast<Bits>(victim) ^ (Bits{1} << position));
}

}  // namespace ucft::detail
