// Scan: the combination of the values of the ranks up to this one. An allgather (allreduce of sets, Algorithms 4 and 5)
// of the values, of which each rank combines those up to its own, in the order of ranks. So a dead rank's value is in
// the results of all ranks behind it, or in nobody's.
#pragma once

#include "collectives/catalogue/blocks.hpp"

namespace ucft::detail {

struct Scan : Blocks {
  static constexpr CatalogueRow row{.kind = Kind::scan,
                                    .name = "scan",
                                    .gives = Who::all,
                                    .gets = Who::all,
                                    .combines = Combines::blocks,
                                    .lands = Lands::prefix,
                                    .lengths = Lengths::own};
};

}  // namespace ucft::detail
