// Scatter: the root's data, of which each rank takes its share. A broadcast: all get their shares, or none does, with
// root_failed. Where all ranks share memory, each reads its share alone. Between hosts short data go whole, and long
// ones as an exchange (exchange.hpp).
#pragma once

#include "collectives/catalogue/broadcast.hpp"

namespace ucft::detail {

struct ScatterFromRoot : Broadcast {
  static constexpr CatalogueRow row{.kind = Kind::scatter,
                                    .name = "scatter",
                                    .gives = Who::root,
                                    .gets = Who::all,
                                    .combines = Combines::nothing,
                                    .lands = Lands::own_share,
                                    .lengths = Lengths::same};
};

}  // namespace ucft::detail
