// Allgather: the blocks of all, on all; they may differ in length (allgatherv). An allreduce (Algorithms 4 and 5) whose
// sum is a set. So a dead rank's block is there on all survivors or on none.
#pragma once

#include "collectives/catalogue/blocks.hpp"

namespace ucft::detail {

struct Allgather : Blocks {
  static constexpr CatalogueRow row{.kind = Kind::allgather,
                                    .name = "allgather",
                                    .gives = Who::all,
                                    .gets = Who::all,
                                    .combines = Combines::blocks,
                                    .lands = Lands::whole,
                                    .lengths = Lengths::own};
};

}  // namespace ucft::detail
