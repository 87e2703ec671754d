#include "ucx_layer/runtime/request.hpp"

#include "ucx_layer/runtime/default_rounding.hpp"

namespace ucft::detail {

void Request::finish_part(std::uint64_t offset, const std::byte* carriers, std::uint64_t bytes,
                          std::uint32_t from_ranks) const {
  [[maybe_unused]] const DefaultRounding rounding;
  const Reduction& reduction = arguments.reduction;
  const std::uint64_t first = offset / reduction.carrier_bytes(), count = bytes / reduction.carrier_bytes();
  finish(reduction, static_cast<std::byte*>(receive) + first * element_bytes(reduction.type()), carriers, count,
         from_ranks);
}

void Request::give_up(ucft_status_t why) {
  status = why;
  contributors = attempts = 0;
  culprit = -1;
  missing.clear();
  missing_known = has_usual_outcome = false;
  missing_count = -1;
}

}  // namespace ucft::detail
