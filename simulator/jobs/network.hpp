// The UCX of a job in ucft_world (ucp.cpp).
#pragma once

namespace ucft::jobs {

// Before its first process. has_remote_access: puts and gets are done by devices, as over InfiniBand.
void open_network(bool has_remote_access);
void close_network();

}  // namespace ucft::jobs
