// Gather: the blocks of all, on the root. A reduce (Algorithms 1-3) whose sum is a set. When the root dies it is over,
// with root_failed: only the root has the result.
#pragma once

#include "collectives/catalogue/blocks.hpp"

namespace ucft::detail {

struct GatherToRoot : Blocks {
  static constexpr CatalogueRow row{.kind = Kind::gather,
                                    .name = "gather",
                                    .gives = Who::all,
                                    .gets = Who::root,
                                    .combines = Combines::blocks,
                                    .lands = Lands::whole,
                                    .lengths = Lengths::own};
};

}  // namespace ucft::detail
