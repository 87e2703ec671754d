// Contexts of jobs that newcomers may join.
#pragma once

#include "ucft/ucft.h"
#include "ucx_layer/membership/epochs.hpp"

namespace ucft::detail {

// ucft_context_create and _destroy of these.
ucft_status_t create_joinable(const ucft_context_params_t* params, ucft_context_h* out);
ucft_status_t destroy_joinable(ucft_context_h handle, Epochs& epochs);
// Memory of ucft_alloc that was given in an epoch before. The caller is inside of `current`.
bool free_in_other_epoch(Context& current, void* memory);
// An epoch that is not current any more is left with its last communicator.
void leave_if_unused(Context& context);

}  // namespace ucft::detail
