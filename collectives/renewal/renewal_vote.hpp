// How survivors agree on an epoch, and how a newcomer learns that they have. Both are words and rules: the collectives
// that carry them are a uniform allreduce of the old communicator, and a barrier of the epoch.
//
// Source: docs/algorithms.md, "Newcomers".
#pragma once

#include <cstdint>
#include <vector>

namespace ucft::detail {

// The words of a survivor. The allreduce takes the largest of each, so all that have its result read the same.
struct RenewalVote {
  std::int64_t epoch = 0, minus_epoch = 0;  // so that one can tell whether all name the same
  std::int64_t is_over = 0;                 // the time of some survivor
  std::int64_t next_id = 0;                 // of a communicator without newcomers

  // A survivor has something to say if it has an epoch to name (0: none), or waits for none any more.
  static RenewalVote of(std::uint32_t epoch, bool is_over, std::uint32_t next_id);

  enum class Outcome : std::uint8_t { adopt, same_seats, again };
  Outcome outcome() const;  // of the agreed words
  bool is_split() const;    // some survivor has named an epoch, and not all have named it
};

// Of the barrier in which newcomers wait: whether a survivor was in it. contributors: of all ranks. missing: the ranks
// that were not in it; empty if there were too many to name, and then missing_known is false.
bool was_admitted(const std::vector<std::int32_t>& newcomers, std::uint32_t contributors, bool missing_known,
                  const std::vector<std::int32_t>& missing);

}  // namespace ucft::detail
