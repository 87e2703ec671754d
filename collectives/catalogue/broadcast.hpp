// Broadcast: the root's data, on all. Küttler et al., "Corrected trees for reliable group communication". If the root
// dies, the next rank asks all. A rank that has the data has decided. If no rank has it, the broadcast is over, with
// root_failed.
#pragma once

#include "collectives/catalogue/same_lengths.hpp"

namespace ucft::detail {

struct Broadcast : SameLengths {
  static constexpr CatalogueRow row{.kind = Kind::broadcast,
                                    .name = "broadcast",
                                    .gives = Who::root,
                                    .gets = Who::all_but_root,
                                    .combines = Combines::nothing,
                                    .lands = Lands::whole,
                                    .lengths = Lengths::same};
  // A rank that contributes has either decided, or has nothing: there is nothing to add.
  static bool add(const Arguments&, Slice&, bool&, const Slice&, std::int32_t, Buffers&) { return true; }
};

}  // namespace ucft::detail
