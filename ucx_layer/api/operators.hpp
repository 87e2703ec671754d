// The operator that a caller passed to a collective, and what options say of it.
#pragma once

#include "ucft/ucft.h"
#include "ucx_layer/runtime/request.hpp"

namespace ucft::detail {

// Of reproducible sums alone; 0: the library's choice.
ucft_status_t check_reproducible(const ucft_coll_options_t& options, Kind kind, Operator op, DataType type);
// Checks it for that type. options may be null.
ucft_status_t read_operator(const ucft_operator_t* op, const ucft_coll_options_t* options, Kind kind, DataType type,
                            Reduction& reduction);

}  // namespace ucft::detail
