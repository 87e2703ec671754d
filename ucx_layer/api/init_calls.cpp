// The nonblocking and persistent form of each collective: a request is made of the call.
#include "ucft/ucft.h"
#include "ucx_layer/api/calls.hpp"
#include "ucx_layer/api/errors.hpp"

using namespace ucft::detail;

extern "C" {

ucft_status_t ucft_allreduce_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                  const ucft_operator_t* op, const ucft_coll_options_t* options,
                                  ucft_request_h* request) {
  return init_call(comm, {Kind::allreduce, send, recv, count, dtype, op, 0, options}, request);
}

ucft_status_t ucft_reduce_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                               const ucft_operator_t* op, int32_t root, const ucft_coll_options_t* options,
                               ucft_request_h* request) {
  return init_call(comm, {Kind::reduce, send, recv, count, dtype, op, root, options}, request);
}

ucft_status_t ucft_reduce_scatter_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                       ucft_dtype_t dtype, const ucft_operator_t* op,
                                       const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::reduce_scatter, send, recv, count, dtype, op, 0, options}, request);
}

ucft_status_t ucft_reduce_scatterv_init(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                        ucft_dtype_t dtype, const ucft_operator_t* op,
                                        const ucft_coll_options_t* options, ucft_request_h* request) {
  if (counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "counts is null");
  return init_call(comm, {Kind::reduce_scatter, send, recv, 0, dtype, op, 0, options, counts}, request);
}

ucft_status_t ucft_broadcast_init(ucft_comm_h comm, void* buffer, uint64_t count, ucft_dtype_t dtype, int32_t root,
                                  const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::broadcast, nullptr, buffer, count, dtype, nullptr, root, options}, request);
}

ucft_status_t ucft_scatter_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                int32_t root, const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::scatter, send, recv, count, dtype, nullptr, root, options}, request);
}

ucft_status_t ucft_scatterv_init(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                 ucft_dtype_t dtype, int32_t root, const ucft_coll_options_t* options,
                                 ucft_request_h* request) {
  if (counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "counts is null");
  return init_call(comm, {Kind::scatter, send, recv, 0, dtype, nullptr, root, options, counts}, request);
}

ucft_status_t ucft_gather_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                               int32_t root, const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::gather, send, recv, count, dtype, nullptr, root, options}, request);
}

ucft_status_t ucft_gatherv_init(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                const uint64_t* displacements, ucft_dtype_t dtype, int32_t root,
                                const ucft_coll_options_t* options, ucft_request_h* request) {
  if (counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "counts is null");
  return init_call(comm, {Kind::gather, send, recv, 0, dtype, nullptr, root, options, counts, displacements}, request);
}

ucft_status_t ucft_allgather_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                  const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::allgather, send, recv, count, dtype, nullptr, 0, options}, request);
}

ucft_status_t ucft_allgatherv_init(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                   const uint64_t* displacements, ucft_dtype_t dtype,
                                   const ucft_coll_options_t* options, ucft_request_h* request) {
  if (counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "counts is null");
  return init_call(comm, {Kind::allgather, send, recv, 0, dtype, nullptr, 0, options, counts, displacements}, request);
}

ucft_status_t ucft_alltoall_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                 const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::alltoall, send, recv, count, dtype, nullptr, 0, options}, request);
}

ucft_status_t ucft_alltoallv_init(ucft_comm_h comm, const void* send, const uint64_t* send_counts,
                                  const uint64_t* send_displacements, void* recv, const uint64_t* recv_counts,
                                  const uint64_t* recv_displacements, ucft_dtype_t dtype,
                                  const ucft_coll_options_t* options, ucft_request_h* request) {
  if (recv_counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "recv_counts is null");
  return init_call(comm,
                   {Kind::alltoall, send, recv, 0, dtype, nullptr, 0, options, recv_counts, recv_displacements,
                    send_counts, send_displacements},
                   request);
}

ucft_status_t ucft_scan_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                             const ucft_operator_t* op, const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::scan, send, recv, count, dtype, op, 0, options}, request);
}

ucft_status_t ucft_exscan_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                               const ucft_operator_t* op, const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::exscan, send, recv, count, dtype, op, 0, options}, request);
}

ucft_status_t ucft_barrier_init(ucft_comm_h comm, const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::barrier, nullptr, nullptr, 0, UCFT_UINT64, nullptr, 0, options}, request);
}

}  // extern "C"
