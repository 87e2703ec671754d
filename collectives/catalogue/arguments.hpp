// The arguments of one call: the same on all ranks, but for the length of their blocks. signature() tells whether they
// were.
#pragma once

#include <cstdint>

#include "collectives/catalogue/row.hpp"
#include "collectives/core/protocol.hpp"
#include "collectives/reduction/reduction.hpp"
#include "collectives/topology/ring_correction.hpp"
#include "collectives/topology/broadcast_topology.hpp"

namespace ucft::detail {

enum class FailureInfo : std::uint8_t { list, count, bit };

inline constexpr std::int64_t never_asks = INT64_MAX;

// GOSSIP(T) instead of a broadcast tree (phases/gossip_spread.hpp). Times in ns; the same on all ranks.
struct GossipSetting {
  std::int64_t time_ns = -1;       // T; -1: no gossip, a tree. At most gossip_time_limit_ns
  std::int64_t interval_ns = 300;  // o: between two messages of one process
  std::int64_t flight_ns = 1600;   // L + 2o: what a message takes
  std::int64_t ask_after_ns =
      10'000'000;  // a rank that has waited so long without the value asks the root; never_asks: not
  std::int64_t panic_after_ns =
      never_asks;          // FCG: a rank that has the value by correction alone, and is not let go so long, panics
  std::uint64_t seed = 0;  // of the choices, beside the operation's number

  bool operator==(const GossipSetting&) const = default;
};
inline constexpr std::int64_t gossip_time_limit_ns = 1'000'000'000;

struct Arguments {
  Kind kind = Kind::allreduce;
  Reduction reduction{};
  std::uint64_t count = 0;       // elements of the result: of blocks those of all ranks together
  std::uint64_t own_count = 0;   // blocks: of this rank's
  std::int32_t blocks = 0;       // of blocks: so many, if processes give several (those that are hosts); 0: one each
  std::uint64_t layout = 0;      // of blocks: differs where their lengths do
  std::uint16_t of_callers = 0;  // of a process with several ranks: the signature of what they have called
  Rank root = 0;                 // of rows that are not rooted(): the first candidate
  std::int32_t f = 1;
  BroadcastShape shape{};
  Correction correction = Correction::none;
  std::int32_t correction_distance = 2;
  std::int64_t correction_delay_us = 0;  // phased: corrections begin this long after the value has come; 0: overlapped.
                                         // For the driver, which gives no turn before
  bool corrected_spread =
      true;  // opportunistic forms: a rank with the value from a correction sends on like any other. False for
             // comparison in the simulator only
  FailureInfo failure_info = FailureInfo::list;
  bool uniform = false;            // what a rank has delivered that dies then, the survivors deliver. For the driver
  bool stands_for_rooted = false;  // in the place of such a call, in which the ranks of a process have differed
  GossipSetting gossip{};

  bool by_gossip() const { return gossip.time_ns >= 0; }
  std::uint64_t bytes() const { return count * reduction.carrier_bytes(); }                  // that travel
  std::uint64_t given_count() const { return row().has_own_lengths() ? own_count : count; }  // by a rank that gives
  std::uint64_t bytes_of_caller() const { return count * element_bytes(reduction.type()); }  // in the caller's memory
  const CatalogueRow& row() const;
  bool rooted() const { return row().rooted(); }
  bool counts_as_rooted() const { return rooted() || stands_for_rooted; }  // in the order of operations
  std::uint16_t signature() const;
};

}  // namespace ucft::detail
