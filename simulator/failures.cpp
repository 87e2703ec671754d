#include "simulator/failures.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "simulator/explorer.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail::simulator {

namespace {

// `count` different numbers below `limit`, none of which is excluded: Floyd's algorithm (CACM 30, 1987).
std::vector<std::int64_t> draw(std::int64_t count, std::int64_t limit, std::int64_t excluded, Random& random) {
  const bool shifts = excluded >= 0 && excluded < limit;
  const std::int64_t all = limit - shifts;
  std::unordered_set<std::int64_t> seen;
  std::vector<std::int64_t> drawn;
  for (std::int64_t top = all - count; top < all; ++top) {
    std::int64_t number = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(top) + 1));
    if (!seen.insert(number).second) seen.insert(number = top);
    drawn.push_back(number + (shifts && number >= excluded));
  }
  return drawn;
}

bool kill_blocks(const char* option, std::int32_t count, std::int64_t block, Rank root, Random& random,
                 std::vector<std::uint8_t>& dead, std::string& error) {
  if (count == 0) return true;
  const auto ranks = static_cast<std::int64_t>(dead.size());
  block = std::min(block, ranks);
  const std::int64_t blocks = (ranks + block - 1) / block;
  if (count >= blocks) {
    error = fmt::format("{}: {} of {} can't fail: the root's own is spared", option, count, blocks);
    return false;
  }
  for (std::int64_t number : draw(count, blocks, root / block, random))
    for (std::int64_t rank = number * block; rank < std::min((number + 1) * block, ranks); ++rank)
      dead[static_cast<std::size_t>(rank)] = 1;
  return true;
}

}  // namespace

bool draw_failures(const FailurePlan& plan, const Arguments& arguments, const NetworkShape& network, std::uint64_t seed,
                   Setting& setting, std::string& error, const std::function<std::int64_t(Rank)>& sends) {
  Random random(mixed(seed, 0xfa11));
  const Rank ranks = setting.ranks;
  std::vector<std::uint8_t> dead(static_cast<std::size_t>(ranks), 0);
  std::vector<Rank> named = plan.failed_ranks;
  for (const Death& death : plan.deaths) named.push_back(death.rank);
  for (const Suspicion& suspicion : plan.suspicions) named.push_back(suspicion.rank);
  std::sort(named.begin(), named.end());
  if (const auto twice = std::adjacent_find(named.begin(), named.end()); twice != named.end()) {
    error = fmt::format("--failed-ranks, --crash, --suspect: rank {} is named twice", *twice);
    return false;
  }
  const std::int64_t count = plan.failed + static_cast<std::int64_t>(std::ceil(plan.failed_fraction * ranks - 1e-9));
  if (count > ranks - 1) {
    error = fmt::format("--failed, --failed-fraction: {} of {} ranks can't fail: the root is spared", count, ranks);
    return false;
  }
  for (std::int64_t rank : draw(count, ranks, arguments.root, random)) dead[static_cast<std::size_t>(rank)] = 1;
  const std::int64_t host = network.ranks_per_host;
  if (!kill_blocks("--failed-hosts", plan.failed_hosts, host, arguments.root, random, dead, error) ||
      !kill_blocks("--failed-switches", plan.failed_switches, host * network.hosts_per_switch, arguments.root, random,
                   dead, error))
    return false;
  for (Rank rank : plan.failed_ranks) dead[static_cast<std::size_t>(rank)] = 1;
  for (Rank rank = 0; rank < ranks; ++rank)
    if (dead[static_cast<std::size_t>(rank)] != 0) setting.dead.push_back(rank);

  // A rank that is named on the command line dies or is suspected in its own way.
  for (Rank rank : named) dead[static_cast<std::size_t>(rank)] = 1;
  dead[static_cast<std::size_t>(arguments.root)] = 1;
  const std::int64_t living = std::count(dead.begin(), dead.end(), 0);
  if (plan.crashes > living) {
    error = fmt::format("--crashes: {} ranks can't die in the operation: {} others are there beside the root",
                        plan.crashes, living);
    return false;
  }
  for (std::int32_t number = 0; number < plan.crashes;) {
    const auto rank = static_cast<Rank>(random.below(static_cast<std::uint64_t>(ranks)));
    if (dead[static_cast<std::size_t>(rank)] != 0) continue;
    dead[static_cast<std::size_t>(rank)] = 1;
    ++number;
    const std::int64_t all = sends ? sends(rank) : sends_without_failure(rank, ranks, arguments, arguments.root);
    setting.deaths.push_back(
        {rank, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(all) + 1)), never});
  }
  setting.deaths.insert(setting.deaths.end(), plan.deaths.begin(), plan.deaths.end());
  setting.suspicions = plan.suspicions;
  return true;
}

}  // namespace ucft::detail::simulator
