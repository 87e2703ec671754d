// How the ranks of a job ended, for the judge.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/judge/judge.hpp"
#include "simulator/judge/kinds.hpp"

namespace ucft::judge {

using Rank = std::int32_t;

inline std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }

// Of a wait that ended then, for things that all were there from that time on. Empty: it was not too long.
inline std::string how_late(std::int64_t from, std::int64_t to, const std::vector<Disturbed>* disturbed,
                            std::int64_t longest = longest_wait_ns) {
  if (disturbed == nullptr) return {};
  for (const Disturbed& each : *disturbed)
    if (each.from <= to) from = std::max(from, each.until);
  if (to <= from || to - from <= longest) return {};
  return "it took " + std::to_string((to - from) / 1'000'000'000) + " s when all was there";
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

// The call by which it leaves the communicator, or the job; nullptr: it does not.
inline const Call* leaving_call(const RankHistory& history, const std::string& communicator) {
  const auto leaves = [&](const Call& call) {
    return call.kind == Kind::destroy || (call.kind == Kind::leave && call.communicator == communicator);
  };
  const auto found = std::ranges::find_if(history.calls, leaves);
  return found == history.calls.end() ? nullptr : &*found;
}
// When it begins to leave; INT64_MAX: never.
inline std::int64_t leaves_at(const RankHistory& history, const std::string& communicator) {
  const Call* const call = leaving_call(history, communicator);
  return call == nullptr ? INT64_MAX : call->began_at;
}
inline bool has_left(const RankHistory& history, const std::string& communicator, std::int64_t by) {
  const std::int64_t leaves = leaves_at(history, communicator);
  return leaves != INT64_MAX && leaves <= by;
}

// A rank that was given up on suspicion is told. It may do some things, and leave, before it looks.
constexpr std::int64_t until_it_looks = 1'000'000'000;

// Its last messages get so much time; INT64_MAX: it does not leave, or has not left.
inline std::int64_t is_heard_until(const RankHistory& history, const std::string& communicator) {
  constexpr std::int64_t for_last_messages = 3'000'000'000;
  const Call* const call = leaving_call(history, communicator);
  return call == nullptr || !call->has_ended() ? INT64_MAX : call->ended_at + for_last_messages;
}

// Of a job, for all that judge it.
struct Case {
  const std::vector<RankHistory>& job;
  std::vector<Fate> fates;
  bool may_lack_memory;
  const std::vector<Disturbed>* disturbed;
};

// Between hosts, where ranks of a host are one process: the ranks of its host that stayed when it left have died, and
// none left behind them. So nobody may have been there to tell the others what it knew. When the last of them died; -1:
// it is not so.
inline std::int64_t lost_with_its_host_at(const Case& judged, const std::vector<Rank>& members, Rank rank,
                                          const std::string& communicator) {
  const std::vector<RankHistory>& job = judged.job;
  const std::vector<Fate>& fates = judged.fates;
  if (!fates[at(rank)].survives || !job[at(rank)].reads_memory) return -1;
  std::int64_t last_to_leave = 0, last_to_die = -1;
  for (const Rank other : members) {
    if (other < 0 || job[at(other)].host != job[at(rank)].host) continue;
    if (fates[at(other)].survives)
      last_to_leave = std::max(last_to_leave, leaves_at(job[at(other)], communicator));
    else
      last_to_die = std::max(last_to_die, fates[at(other)].last_at);
  }
  return last_to_die > last_to_leave ? last_to_die : -1;
}

}  // namespace ucft::judge
