// A reproducible sum by two sweeps over ranks that don't read each other's memory
// (collectives/reduction/two_sweeps.hpp): an allreduce of heights, then one of digits.
//
// A rank that dies between the two has given its height and no digits. Then the bins may be too high for the ranks that
// are left, and their sum would have other bits. So both operations are repeated until they have the same contributors.
// A rank that gives to the second has given to the first: equal numbers of contributors mean the same ones. Each
// repetition costs a death. All ranks see the same numbers, so all repeat or none.
#pragma once

#include "ucx_layer/api/calls.hpp"

namespace ucft::detail {

// Runs a prepared operation to its end.
using Run = ucft_status_t (*)(Request& request, ucft_result_t* result);

// Runs a request that prepare() found to be in_two_operations.
ucft_status_t sum_in_two_operations(Communicator& comm, const Request& request, Run run, ucft_result_t* result);

}  // namespace ucft::detail
