// The shape and the sizes that the ranks of one host use, and the sizes at which operations between hosts go another
// way: a table of rows, from the file that UCFT_TUNING_FILE names, or built in. The table is the same on all ranks. So
// is what is chosen from it: a pure function of the table and of what all know since start-up.
#pragma once

#include <algorithm>
#include <cassert>
#include <compare>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "collectives/core/ballots.hpp"
#include "collectives/on_host/host_site.hpp"

namespace ucft::detail {

struct HostTuning {
  static constexpr std::int32_t any = std::numeric_limits<std::int32_t>::max();

  // The case that a row is for: up to so many.
  struct Where {
    std::int32_t ranks = any;           // of the communicator
    std::int32_t ranks_per_core = any;  // of the job, per hardware thread that is online on this host; rounded up
    std::int32_t caches = any;          // places that the communicator's ranks are bound to; 1: they are not bound
    auto operator<=>(const Where&) const = default;
    bool includes(const Where& where) const {
      return where.ranks <= ranks && where.ranks_per_core <= ranks_per_core && where.caches <= caches;
    }
  };
  struct Choice {
    std::int32_t degree = 0;        // of the tree; 0: flat
    std::uint64_t large_bytes = 0;  // up to these each rank combines all by itself
    std::uint64_t chunk_bytes = 0;  // of what is larger
    bool operator==(const Choice&) const = default;
  };
  struct Row {
    Where where;
    Choice choice;
  };

  // Of operations between hosts: fields of Optimism.
  struct BetweenHosts {
    std::int32_t processes = any;  // of the communicator, up to so many: hosts, or ranks that share no memory
    std::uint64_t whole_bytes = Optimism().whole_bytes, straight_bytes = Optimism().straight_bytes;
    auto operator<=>(const BetweenHosts&) const = default;
  };

  std::vector<BetweenHosts> between_hosts;
  std::vector<Row> rows;  // the last includes everything, once default_tuning() is behind those of a file

  // sites: of a communicator's ranks. The other two: of the host.
  static Where where(std::span<const HostSite> sites, std::int32_t ranks, std::int32_t hardware_threads) {
    const std::set<HostSite> caches(sites.begin(), sites.end());
    return {static_cast<std::int32_t>(sites.size()), (ranks + hardware_threads - 1) / hardware_threads,
            static_cast<std::int32_t>(caches.size())};
  }

  // The choice of the first row that includes it.
  const Choice& choose(const Where& where) const {
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const Row& each) { return each.where.includes(where); });
    assert(row != rows.end());
    return row->choice;
  }

  // By the first row for so many processes; without one, as built in.
  Optimism optimism_among(std::int32_t processes) const {
    Optimism optimism;
    const auto row = std::ranges::find_if(between_hosts, [&](auto& each) { return processes <= each.processes; });
    if (row == between_hosts.end()) return optimism;
    optimism.whole_bytes = row->whole_bytes;
    optimism.straight_bytes = row->straight_bytes;
    return optimism;
  }
};

}  // namespace ucft::detail
