// The cost of an operation by the schedule that the library begins with, which expects no death: phases/optimistic.hpp,
// circulant.hpp and piece_broadcast.hpp. cost_model.hpp has the one that it falls back to. A short broadcast has no
// other one.
#pragma once

#include "collectives/core/ballots.hpp"
#include "collectives/models/cost_model.hpp"

namespace ucft::detail {

enum class PlainSchedule : std::uint8_t {
  none,       // the operation has none: a short broadcast, one process, or a vector that is neither short nor in blocks
  doubling,   // recursive doubling
  tree,       // a binomial tree, of a reduce
  in_blocks,  // a reduce-scatter and an allgather
  in_pieces,  // of a long broadcast, on a circulant graph
  all_in_pieces,     // of an allgather of long blocks, on that graph
  to_root_in_pieces  // of a gather of such, straight
};
// bytes: of an allgather those of all blocks.
PlainSchedule plain_schedule_of(const Arguments& arguments, std::int32_t size, std::uint64_t bytes);
const char* plain_schedule_name(PlainSchedule schedule);

struct PlainCost {
  double latency = 0;  // until the last process has its result; of a reduce: the root
  std::int64_t messages = 0;
};
// Without failures, if all start at 0. Requires a schedule. The simulator's clock shows the same (tests/simulator), but
// for one message's gap where two come at once, and in blocks 5 %. In pieces the formula counts a message's flight for
// each of log2 p rounds: 4 % where a piece takes longer to send than to fly, else up to 30 %. Of allgathers long blocks
// alone are priced, and no sets that grow from step to step. O(size log(size)) time.
PlainCost predict_plain(const Arguments& arguments, std::int32_t size, const LogGP& costs, std::uint64_t bytes);

}  // namespace ucft::detail
