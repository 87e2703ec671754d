// The cost of an operation, and the broadcast tree that is chosen from it. The library's default choice, ucft_sim's
// clock and its advice use this one model.
//
// LogP: Culler et al., PPoPP '93; LogGP: Alexandrov et al., SPAA '95. A message of k bytes keeps its sender's processor
// busy for o_send and its port for max(o_send, g) + (k-1)G. It arrives o_send + (k-1)G + L after it was begun, and
// keeps the receiver busy for o_receive. All times are in one unit, which the user chooses. The library's unit is 1 us.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/among/operation.hpp"

namespace ucft::detail {

struct LogGP {
  double latency = 2;           // L, between neighbours in the flat network
  double send_overhead = 1;     // o of a send
  double receive_overhead = 1;  // o of a receive
  double gap = 1;               // g, between two sends, and between two receives
  double gap_per_byte = 0;      // G
  // Whether a rank's processor does one thing at a time, waiting sends first, or sends and receives side by side.
  bool one_processor = false;

  double per_message() const { return gap > send_overhead ? gap : send_overhead; }  // between two sends
  double per_receive() const { return gap > receive_overhead ? gap : receive_overhead; }
  double delivery() const { return latency + send_overhead + receive_overhead; }  // L + 2o
  double stretch(std::uint64_t bytes) const { return bytes > 1 ? static_cast<double>(bytes - 1) * gap_per_byte : 0; }
};

// In us. The library assumes these costs where nothing has been measured: a host's shared memory, and an InfiniBand
// network.
inline constexpr LogGP shared_memory_costs{0.1, 0.1, 0.1, 0.1, 0.0002, false};
inline constexpr LogGP network_costs{1.0, 0.3, 0.3, 0.3, 0.0001, false};

// Reads what `ucft_perftest --calibrate` writes: a name and a number on each line, # begins a comment.
//
//     # 2 ranks over shared memory, us
//     L 0.31
//     o_send 0.08
//     o_receive 0.09
//     g 0.12
//     G 0.00011
//
// Names that are missing keep their value; o is both overheads. False: nothing is changed, error is "LINE: reason".
bool parse_costs(std::string_view text, LogGP& costs, std::string& error);

// The tree that informs `size` processes earliest: the LogP-optimal one for messages of so many bytes.
BroadcastShape best_shape(const LogGP& costs, std::uint64_t bytes);
// (L + 2o) / max(g, o) in quarters, within what BroadcastShape takes.
std::int32_t delay_quarters_of(const LogGP& costs, std::uint64_t bytes);

// The time at which the last rank has its result (of a reduce: the root), without failures, if all ranks start at 0.
// The simulator's clock shows the same in a flat network without one_processor (tests/simulator compares them). If all
// ranks are in one group, it differs by at most 10 %. O(size) time and memory.
double predict_latency(const Arguments& arguments, std::int32_t size, const LogGP& costs, std::uint64_t bytes);
// Messages without failures or correction (Theorems 5 and 7).
std::int64_t predict_messages(const Arguments& arguments, std::int32_t size);

}  // namespace ucft::detail
