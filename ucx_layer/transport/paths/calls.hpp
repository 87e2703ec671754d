// Calls of UCX on their way: private to the transport's paths.
#pragma once

#include "ucx_layer/transport/transport.hpp"

namespace ucft::detail {

inline constexpr unsigned am_id = 17;
inline constexpr std::size_t am_tail_limit = 8 + failure_list_limit * sizeof(std::uint32_t);

// One active message of ours on its way. Header and tail must stay where they are until UCX is done: 1.13 can't copy.
struct Transport::AmSend {
  std::array<std::byte, sizeof(WireHeader) + am_tail_limit> header;
  BufferId value = no_buffer;
  Transport* owner = nullptr;
  int peer = 0;
};

// A put or a get of ours on its way.
struct Transport::RemoteCall {
  Transport* owner = nullptr;
  int peer = 0;
  bool done = false, abandoned = false;
  ucs_status_t status = UCS_OK;
  std::uint64_t last_line = 0;  // a put of lines; 0: of anything else
  BufferId value = no_buffer;   // a get: where it goes
  BufferId source = no_buffer;  // a put of a window's content: where it comes from
  ucp_rkey_h key = nullptr;     // one of Remote::keys
  std::uint32_t ticket = 0, generation = 0;
};

}  // namespace ucft::detail
