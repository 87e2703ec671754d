// Barrier: a rank is through only after all live ranks have entered. An allreduce (Algorithms 4 and 5) of nothing.
#pragma once

#include "collectives/catalogue/same_lengths.hpp"

namespace ucft::detail {

struct Barrier {
  static constexpr CatalogueRow row{.kind = Kind::barrier,
                                    .name = "barrier",
                                    .gives = Who::nobody,
                                    .gets = Who::nobody,
                                    .combines = Combines::nothing,
                                    .lands = Lands::nothing,
                                    .lengths = Lengths::same};
  static bool accepts(const Arguments&, std::uint64_t bytes) { return bytes == 0; }
  static std::uint64_t input_bytes(const Arguments&) { return 0; }
  static std::uint64_t result_bytes(const Arguments&, std::int32_t) { return 0; }
  static bool add(const Arguments&, Slice&, bool&, const Slice&, std::int32_t, Buffers&) { return true; }
};

}  // namespace ucft::detail
