// The messages that UCX prints on its own.
#pragma once

namespace ucft::detail {

// From now on UCX is silent in this process about connections to ranks that are gone. The error comes to the endpoint,
// and the detector says which rank has failed. With UCX_LOG_LEVEL in the environment UCX says all that it would.
void quiet_ucx();

}  // namespace ucft::detail
