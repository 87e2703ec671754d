// Alltoall: each rank gives a share to each other. An allgather (allreduce of sets, Algorithms 4 and 5) of the shares
// that all give, of which each rank takes its own of each block. So a dead rank's shares are there on all survivors or
// on none. Where all ranks share memory, a rank reads no more than it takes. Between hosts short blocks go whole;
// longer ones are an exchange (exchange.hpp).
#pragma once

#include "collectives/catalogue/blocks.hpp"

namespace ucft::detail {

struct Alltoall : Blocks {
  static constexpr CatalogueRow row{.kind = Kind::alltoall,
                                    .name = "alltoall",
                                    .gives = Who::all,
                                    .gets = Who::all,
                                    .combines = Combines::blocks,
                                    .lands = Lands::share_of_each,
                                    .lengths = Lengths::own};
};

}  // namespace ucft::detail
