#include "simulator/slowness.hpp"

#include <algorithm>
#include <cassert>

#include "collectives/core/random.hpp"

namespace ucft::detail::simulator {

Slowness::Slowness(Rank ranks, std::span<const SlowRank> slow, const Noise& noise, std::uint64_t seed) : noise_(noise) {
  if (!slow.empty()) factors_.assign(static_cast<std::size_t>(ranks), 1);
  for (const SlowRank& each : slow) {
    assert(each.factor >= 1);
    factors_[static_cast<std::size_t>(each.rank)] = each.factor;
  }
  if (noise.period == 0) return;
  assert(noise.duration > 0 && noise.duration < noise.period);
  assert(noise.ranks >= 0 && noise.ranks <= ranks);
  Random random(mixed(seed, 0x6e6f697365u));
  phases_.assign(static_cast<std::size_t>(ranks), -1);
  draw_some(random, noise.ranks, ranks,
            [&](Rank rank) { phases_[static_cast<std::size_t>(rank)] = noise.period * random.fraction(); });
}

double Slowness::done_through_noise(Rank rank, double begin, double own) const {
  const double period = noise_.period, between = period - noise_.duration;
  double detour = phase(rank) + (std::floor((begin - phase(rank)) / period) + 1) * period;
  if (detour < begin) detour += period;  // rounding
  if (begin + own <= detour) return begin + own;
  const double rest = own - (detour - begin);
  const double whole = std::max(0.0, std::ceil(rest / between) - 1);  // free times between detours that it fills
  return detour + noise_.duration + whole * period + (rest - whole * between);
}

double Slowness::longest(double work) const {
  const double own = factors_.empty() ? work : work * *std::ranges::max_element(factors_);
  return phases_.empty() ? own : own * noise_.period / (noise_.period - noise_.duration) + noise_.duration;
}

}  // namespace ucft::detail::simulator
