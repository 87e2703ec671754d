// The result that a collective must give: contributions combined by an operator, element by element. Written from
// ucft.h, and on purpose without the library's own kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/judge/history.hpp"

namespace ucft::judge {

// Whether the judge knows what this operator makes of this type. Sums of floats are exact only if all partial sums are:
// programs that are judged give small whole numbers.
bool can_combine(ucft_dtype_t dtype, ucft_op_t op);

// The sampled bytes of the result. contributions: sampled bytes, all of one length, in the order of the ranks; at least
// one. Requires can_combine().
std::vector<std::uint8_t> combine(const std::vector<const std::vector<std::uint8_t>*>& contributions,
                                  ucft_dtype_t dtype, ucft_op_t op);

}  // namespace ucft::judge
