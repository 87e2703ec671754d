// Reduce: the sum of the values of all, on the root. Küttler, Härtig, "Fault-tolerant Reduce and Allreduce operations
// based on correction", Algorithms 1-3. When the root dies it is over, with root_failed: only the root has the result.
#pragma once

#include "collectives/catalogue/same_lengths.hpp"

namespace ucft::detail {

struct Reduce : Elementwise {
  static constexpr CatalogueRow row{.kind = Kind::reduce,
                                    .name = "reduce",
                                    .gives = Who::all,
                                    .gets = Who::root,
                                    .combines = Combines::elements,
                                    .lands = Lands::whole,
                                    .lengths = Lengths::same};
};

}  // namespace ucft::detail
