// Exscan: a scan without this rank's own value. A rank before which nobody has contributed gets nothing.
#pragma once

#include "collectives/catalogue/blocks.hpp"

namespace ucft::detail {

struct Exscan : Blocks {
  static constexpr CatalogueRow row{.kind = Kind::exscan,
                                    .name = "exscan",
                                    .gives = Who::all,
                                    .gets = Who::all,
                                    .combines = Combines::blocks,
                                    .lands = Lands::prefix_before,
                                    .lengths = Lengths::own};
};

}  // namespace ucft::detail
