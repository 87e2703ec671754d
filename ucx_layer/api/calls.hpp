// What a caller passed to a collective: checked, as a request. Nothing is sent before all of it is right.
#pragma once

#include <cstdint>

#include "ucft/ucft.h"
#include "ucx_layer/runtime/communicator.hpp"

namespace ucft::detail {

inline constexpr std::uint64_t bytes_limit = (std::uint64_t{1} << 31) - 1;  // of an operation

// Checks everything and fills the request in.
ucft_status_t prepare(Communicator& comm, const Call& call, Request& request);
// Of a request that is in_two_operations, where these can't be run.
ucft_status_t refuse_two_operations();
// Whether the request was prepared of the same call: then all of that is right still.
bool is_prepared_for(const Call& call, const Request& request);
// Of an operation whose values all have one length: are send and recv memory, and disjoint or the same?
ucft_status_t check_memory(const Communicator& comm, const Call& call, const Request& request);
const char* type_name(ucft_dtype_t dtype);

// Gossip.
struct GossipArguments {
  const void* send;
  void* receive;
  std::uint64_t count;
  ucft_dtype_t dtype;
  const ucft_gossip_options_t* options;
};
ucft_status_t prepare_gossip(Communicator& comm, const GossipArguments& given, Request& request);
// Whether a result can be written there; then it is.
ucft_status_t check_gossip_result(const ucft_gossip_result_t* result);
void write_gossip_result(const Request& request, ucft_gossip_result_t* result);

}  // namespace ucft::detail
