// The arguments that a caller passed to a collective: checked, as a request.
// Nothing is sent before all arguments are right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ucft/ucft.h"
#include "ucx_layer/runtime/communicator.hpp"

namespace ucft::detail {

// Checks everything and fills the request in.
ucft_status_t prepare(Communicator& comm, const Call& call, Request& request);
// Runs a prepared operation to its end, and says why if it fails. result: may be null.
ucft_status_t run_to_end(Request& request, ucft_result_t* result);
// Opens a request that is prepared for that call.
ucft_status_t init_call(ucft_comm_h handle, const Call& call, ucft_request_h* out);
// Of a request that is in_two_operations, where these can't be run.
ucft_status_t refuse_two_operations();
// Of an operation whose values all have one length: are send and recv memory, and disjoint or the same?
ucft_status_t check_memory(const Communicator& comm, const Call& call, const Request& request);
const char* type_name(ucft_dtype_t dtype);

// As memcmp() == 0, without a call.
template <std::size_t bytes>
[[gnu::always_inline]] inline bool has_same_bytes(const void* a, const void* b) {
  static_assert(bytes % 8 == 4);
  const auto* x = static_cast<const std::byte*>(a);
  const auto* y = static_cast<const std::byte*>(b);
  std::uint32_t first = 0, other = 0;
  std::memcpy(&first, x, 4);
  std::memcpy(&other, y, 4);
  std::uint64_t differs = first ^ other;
#pragma GCC unroll 8
  for (std::size_t i = 4; i < bytes; i += 8) {
    std::uint64_t word = 0, its = 0;
    std::memcpy(&word, x + i, 8);
    std::memcpy(&its, y + i, 8);
    differs |= word ^ its;
  }
  return differs == 0;
}

// All of them, but for the padding: each blocking call compares.
[[gnu::always_inline]] inline bool are_equal(const ucft_coll_options_t& a, const ucft_coll_options_t& b) {
  constexpr std::size_t packed = offsetof(ucft_coll_options_t, tree_delay_quarters) + sizeof a.tree_delay_quarters;
  static_assert(packed == sizeof a.struct_size + 9 * sizeof(std::int32_t));
  static_assert(offsetof(ucft_coll_options_t, uniform) == offsetof(ucft_coll_options_t, reproducible_sweeps) + 4 &&
                offsetof(ucft_coll_options_t, deadline_ns) == offsetof(ucft_coll_options_t, uniform) + 8 &&
                offsetof(ucft_coll_options_t, quorum) == offsetof(ucft_coll_options_t, deadline_ns) + 8 &&
                sizeof a - offsetof(ucft_coll_options_t, quorum) <= sizeof(std::size_t));  // nothing behind it
  return has_same_bytes<packed>(&a, &b) && a.correction_delay_us == b.correction_delay_us &&
         a.gossip_time_ns == b.gossip_time_ns && a.reproducible_bins == b.reproducible_bins &&
         a.reproducible_sweeps == b.reproducible_sweeps && a.uniform == b.uniform && a.quorum == b.quorum &&
         a.deadline_ns == b.deadline_ns;
}

// Counts, displacements, send counts, send displacements of a call, of which a rank reads some. null: there is none, or
// this rank does not look at it.
std::array<const std::uint64_t*, 4> arrays_of(const Communicator& comm, const Call& call);
// Whether the arrays that the call points to say what they said when the request was prepared.
bool has_same_arrays(const Call& call, const Request& request);

// Whether the request was prepared of the same call: then all of that is right still.
[[gnu::always_inline]] inline bool is_prepared_for(const Call& call, const Request& request) {
  const Call& was = request.call;
  if (request.communicator == nullptr || call.kind != was.kind || call.send != was.send ||
      call.receive != was.receive || call.count != was.count || call.dtype != was.dtype || call.root != was.root)
    return false;
  if ((call.counts != nullptr || was.counts != nullptr) && !has_same_arrays(call, request)) return false;
  if ((call.options == nullptr) != (was.options == nullptr)) return false;
  if (call.options != nullptr && !are_equal(*call.options, request.options)) return false;
  if (call.op == nullptr || was.op == nullptr) return call.op == was.op;
  return call.op->struct_size == sizeof *call.op && call.op->op != UCFT_USER &&
         static_cast<int>(call.op->op) == static_cast<int>(request.op());
}

// Of a send or receive that is prepared.
ucft_status_t start_point_to_point(Request& request);
// A receive that is pending, and that no message is for yet, ends. False: it is something else.
bool cancel(Request& request);

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
// The calls of the same names, inside the request's context.
ucft_status_t gossip_estimate(Request& request, void* values, double* error_estimate);
ucft_status_t gossip_contributors(const Request& request, std::uint32_t* contributors);
ucft_status_t gossip_result(const Request& request, ucft_gossip_result_t* result);

}  // namespace ucft::detail
