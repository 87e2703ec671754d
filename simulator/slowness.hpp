// Ranks that are slow or disturbed, under the clock: how long a rank's own steps take.
//
// A rank's own steps are the overheads of its sends and receives, its start and its turns. Latency, gap and gap per
// byte belong to the network, and stay.
//
//   slow ranks   their steps take `factor` times as long
//   noise        as Ferreira, Bridges and Brightwell inject it (SC '08): every `period` the operating system takes the
//                processor for a detour of `duration`. A step that it meets ends so much later, and none begins in it.
//                Each noisy rank has a phase of its own, and had detours before time 0, too
//
// Which ranks are noisy, and their phases, are functions of the seed.
//
//   period 10, duration 4, phase 2:  free 0-2, detour 2-6, free 6-12, detour 12-16, ..
//   a step of 5 that begins at 1 does 1 by 2, and the other 4 from 6 to 10
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/core/protocol.hpp"

namespace ucft::detail::simulator {

struct SlowRank {
  Rank rank;
  double factor;  // 1 or more
};

struct Noise {
  double period = 0, duration = 0;  // 0 < duration < period; both 0: none
  Rank ranks = 0;                   // so many are noisy, drawn from the seed
};

class Slowness {
 public:
  Slowness(Rank ranks, std::span<const SlowRank> slow, const Noise& noise, std::uint64_t seed);

  double factor(Rank rank) const { return factors_.empty() ? 1 : factors_[static_cast<std::size_t>(rank)]; }
  bool is_slow(Rank rank) const { return factor(rank) > 1; }
  bool is_noisy(Rank rank) const { return !phases_.empty() && phase(rank) >= 0; }

  // The first moment from `time` on that is in no detour of the rank.
  double free_at(Rank rank, double time) const {
    if (!is_noisy(rank)) return time;
    const double detour = phase(rank) + std::floor((time - phase(rank)) / noise_.period) * noise_.period;
    return time >= detour && time < detour + noise_.duration ? detour + noise_.duration : time;
  }
  // When a step is done that begins at `begin`, in no detour. work: how long it takes without slowness and noise.
  double done_at(Rank rank, double begin, double work) const {
    const double own = work * factor(rank);
    return is_noisy(rank) ? done_through_noise(rank, begin, own) : begin + own;
  }
  // No rank takes longer for it, whenever it begins.
  double longest(double work) const;

 private:
  double phase(Rank rank) const { return phases_[static_cast<std::size_t>(rank)]; }
  double done_through_noise(Rank rank, double begin, double own) const;

  Noise noise_;
  std::vector<double> factors_;  // by rank; empty: all 1
  std::vector<double> phases_;   // by rank: of its detours, < 0: it has none; empty: no rank has any
};

}  // namespace ucft::detail::simulator
