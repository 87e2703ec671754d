// Allreduce: the sum of the values of all, on all. Küttler, Härtig, "Fault-tolerant Reduce and Allreduce operations
// based on correction". Algorithm 4: a corrected reduce, then a corrected broadcast. Algorithm 5: if the root dies, the
// next rank is root. ballots.hpp says what that needs where any rank may die between any two sends.
#pragma once

#include "collectives/catalogue/same_lengths.hpp"

namespace ucft::detail {

struct Allreduce : Elementwise {
  static constexpr CatalogueRow row{.kind = Kind::allreduce,
                                    .name = "allreduce",
                                    .gives = Who::all,
                                    .gets = Who::all,
                                    .combines = Combines::elements,
                                    .lands = Lands::whole,
                                    .lengths = Lengths::same};
};

}  // namespace ucft::detail
