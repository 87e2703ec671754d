// New communicators.
#pragma once

#include "ucx_layer/api/two_operations.hpp"

namespace ucft::detail {

// A communicator of the ranks that gave the same colour. All ranks that go on agree on its members and its number. Both
// come out of one allreduce, in which each rank fills its own places of a table. null: this rank gave none.
ucft_status_t split(Communicator& comm, std::int32_t colour, std::int32_t key, Run run, Communicator*& part);

}  // namespace ucft::detail
