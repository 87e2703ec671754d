// The ranks that fail in a run: drawn from a seed, or given.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulator/collective_run.hpp"

namespace ucft::detail::simulator {

struct FailurePlan {
  // Before the operation: drawn, the root spared.
  std::int64_t failed = 0;           // ranks
  double failed_fraction = 0;        // of the ranks, rounded up; added to failed
  std::int32_t failed_hosts = 0;     // all ranks of so many hosts
  std::int32_t failed_switches = 0;  // all ranks below so many switches of the first level
  std::vector<Rank> failed_ranks;    // given, the root allowed
  // In it.
  std::int32_t crashes =
      0;  // ranks drawn, the root spared; each before a send drawn from those it does without failures
  std::vector<Death> deaths;  // given
  std::vector<Suspicion> suspicions;
};

// Adds the failures of one run to the setting. False: they can't be had; error names the option and says why. sends: of
// a rank, without failures; none: those of the ballot with a root.
bool draw_failures(const FailurePlan& plan, const Arguments& arguments, const NetworkShape& network, std::uint64_t seed,
                   Setting& setting, std::string& error, const std::function<std::int64_t(Rank)>& sends = nullptr);

}  // namespace ucft::detail::simulator
