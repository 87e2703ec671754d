// Which shape and which sizes the ranks of one host use: a table of rows, from the file that UCFT_TUNING_FILE names, or built in.
// The same on all ranks, and so is what is chosen from it: a pure function of the table and of what all know since start-up.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "collectives/protocol.hpp"

namespace ucft::detail {

struct HostTuning {
  static constexpr std::int32_t any = std::numeric_limits<std::int32_t>::max();

  // What a row is for: up to so many.
  struct Where {
    std::int32_t ranks = any;           // of the communicator
    std::int32_t ranks_per_core = any;  // of the job, on this host; rounded up
    std::int32_t caches = any;          // that the communicator's ranks are spread over
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

  std::vector<Row> rows;  // never empty, in the order of `where`

  // That of the first row that includes it; else of the last.
  const Choice& choose(const Where& where) const {
    for (const Row& row : rows)
      if (row.where.includes(where)) return row.choice;
    return rows.back().choice;
  }
};

}  // namespace ucft::detail
