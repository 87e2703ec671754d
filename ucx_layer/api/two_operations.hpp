// A reproducible sum by two sweeps over ranks that don't read each other's memory
// (collectives/reduction/two_sweeps.hpp): an allreduce of heights, then one of digits.
//
// A death between the two has given its height, and no digits: then there may be bins too high for those that are left,
// whose sum would have other bits. So both must have the same contributors, or both are done again. Who gives to the
// second has been given to in the first, so as many are the same; each repetition costs a death, and all ranks see the
// same numbers, so all repeat or none.
#pragma once

#include "ucx_layer/api/calls.hpp"

namespace ucft::detail {

// Runs a prepared operation to its end.
using Run = ucft_status_t (*)(Request& request, ucft_result_t* result);

// What prepare() found to be in_two_operations.
ucft_status_t sum_in_two_operations(Communicator& comm, const Request& request, Run run, ucft_result_t* result);

}  // namespace ucft::detail
