// Reduce-scatter: the sum of the values of all, of which each rank takes its share. An allreduce (Algorithms 4 and 5).
// Where all ranks share memory, long data are summed by each rank for its share alone. Else the sum is made whole.
#pragma once

#include "collectives/catalogue/same_lengths.hpp"

namespace ucft::detail {

struct ReduceScatter : Elementwise {
  static constexpr CatalogueRow row{.kind = Kind::reduce_scatter,
                                    .name = "reduce_scatter",
                                    .gives = Who::all,
                                    .gets = Who::all,
                                    .combines = Combines::elements,
                                    .lands = Lands::own_share,
                                    .lengths = Lengths::same};
};

}  // namespace ucft::detail
