// Lost messages and flipped bits of a simulated gossip run. All that is drawn for them comes from one sequence.
#pragma once

#include <optional>
#include <utility>

#include "simulator/gossip_ranks.hpp"

namespace ucft::detail::simulator {

template <class Real>
class SimulatedFaults {
 public:
  // result: counts the faults.
  SimulatedFaults(const GossipRun& run, GossipResult& result)
      : run_(run), result_(result), random_(mixed(run.seed, 0x6661756c74u)) {}

  // row: of a message that leaves. False: it is lost.
  bool survives_the_way(Mass<Real> row) {
    if (happens(run_.faults.loss)) {
      ++result_.lost;
      return false;
    }
    if (next_message_bit_)
      flip(row, *std::exchange(next_message_bit_, std::nullopt));
    else if (run_.faults.target == FlipTarget::message && happens(run_.faults.flip_rate))
      flip(row, -1);
    return true;
  }
  // links: those of the rank that have been used.
  void before_push(GossipRank<Real>& rank, int links) {
    if (run_.faults.target != FlipTarget::message && happens(run_.faults.flip_rate)) flip_state(rank, links, -1);
  }
  // links: as above; none: all of the rank.
  void flip(const BitFlip& planned, GossipRanks<Real>& ranks, std::optional<int> links = {}) {
    if (run_.faults.target == FlipTarget::message) {
      next_message_bit_ = planned.bit;
      return;
    }
    Rank rank = planned.rank;
    while (planned.rank == no_rank && (rank == no_rank || ranks.is_dead(rank))) rank = below(ranks.count());
    if (!ranks.is_dead(rank)) flip_state(ranks.at(rank), links.value_or(ranks.at(rank).links()), planned.bit);
  }

 private:
  bool happens(double probability) { return probability > 0 && random_.fraction() < probability; }
  int below(int end) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(end))); }
  void flip(Mass<Real> row, int bit) {
    flip_bit(row, static_cast<std::size_t>(run_.values) + 1, bit, random_);
    ++result_.flips;
  }
  void flip_state(GossipRank<Real>& rank, int links, int bit) {
    if (run_.faults.target == FlipTarget::data)
      flip(rank.local_data(), bit);
    else if (links > 0)
      flip(rank.flows(below(links)), bit);
  }

  const GossipRun& run_;
  GossipResult& result_;
  Random random_;
  std::optional<int> next_message_bit_;  // to flip in the next message, as planned
};

}  // namespace ucft::detail::simulator
