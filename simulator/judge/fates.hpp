// How the ranks of a job ended, for the judge.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "simulator/judge/judge.hpp"
#include "simulator/judge/kinds.hpp"

namespace ucft::judge {

using Rank = std::int32_t;

inline std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }

inline bool is_too_long(std::int64_t from, std::int64_t to) { return to > from && to - from > longest_wait_ns; }
inline std::string in_seconds(std::int64_t from, std::int64_t to) {
  return std::to_string((to - from) / 1'000'000'000) + " s when all was there";
}

// The end of a rank.
struct Fate {
  bool survives = false;      // its program came to its end, and it was never out
  std::int64_t out_at = -1;   // when it first found itself out
  std::int64_t last_at = -1;  // when it wrote last
  bool may_be_dead = false;   // killed, stopped or cut off
};

inline Fate fate_of(const RankHistory& history) {
  Fate fate{history.is_over, -1, history.last_at, false};
  for (const Call& call : history.calls)
    if (is_out(call.status)) {
      fate.survives = false;
      if (fate.out_at < 0) fate.out_at = call.ended_at;
    }
  return fate;
}

// When it begins to leave the communicator, or the job; INT64_MAX: never.
inline std::int64_t leaves_at(const RankHistory& history, const std::string& communicator) {
  const auto leaves = [&](const Call& call) {
    return call.kind == Kind::destroy || (call.kind == Kind::leave && call.communicator == communicator);
  };
  const auto found = std::ranges::find_if(history.calls, leaves);
  return found == history.calls.end() ? INT64_MAX : found->began_at;
}
inline bool has_left(const RankHistory& history, const std::string& communicator, std::int64_t by) {
  const std::int64_t leaves = leaves_at(history, communicator);
  return leaves != INT64_MAX && leaves <= by;
}

}  // namespace ucft::judge
