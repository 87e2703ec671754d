// ucft_comm_look: puts this rank's view of a communicator's ranks into the caller's structures.
#pragma once

#include "ucft/ucft.h"
#include "ucx_layer/runtime/communicator.hpp"

namespace ucft::detail {

// Any thread.
ucft_status_t look(const Communicator& comm, ucft_rank_sight_t* sights, std::int32_t* count);
// As much of it as there is room for, with its end.
void write_text(const std::string& from, char* to, std::size_t bytes);

}  // namespace ucft::detail
