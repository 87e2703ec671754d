// The C API: handles and the thread rule. calls.hpp checks arguments, errors.hpp has the sentences.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ucft/ucft.h"
#include "ucx_layer/api/accumulators.hpp"
#include "ucx_layer/api/calls.hpp"
#include "ucx_layer/api/errors.hpp"
#include "ucx_layer/api/entry.hpp"
#include "ucx_layer/api/look.hpp"
#include "ucx_layer/api/membership_calls.hpp"
#include "ucx_layer/api/split.hpp"
#include "ucx_layer/api/two_operations.hpp"
#include "ucx_layer/membership/epochs.hpp"
#include "ucx_layer/runtime/context.hpp"

using namespace ucft::detail;

namespace {

// null: the caller does not want it.
ucft_status_t check_result(const ucft_result_t* result) {
  return result == nullptr ? UCFT_OK : check_size("result", *result, "UCFT_RESULT_INIT");
}

void write_late(const QuorumRequest& request, ucft_result_t* result) {
  result->late_count = static_cast<std::int32_t>(request.late.size());
  result->is_late = request.is_late ? 1 : 0;
  if (result->late != nullptr)
    std::copy_n(request.late.begin(), std::clamp(result->late_capacity, 0, result->late_count), result->late);
}

// After check_result().
[[gnu::always_inline]] inline void write_result(const Request& request, ucft_result_t* result) {
  if (result == nullptr) return;
  result->status = request.status;
  result->contributors = request.contributors;
  result->attempts = request.attempts;
  result->missing_count = request.missing_known ? request.missing_count : -1;
  result->late_count = result->is_late = 0;
  if (request.quorum != nullptr) write_late(*request.quorum, result);
  if (request.missing.empty() || result->missing == nullptr || !request.missing_known) return;
  std::int32_t room = result->missing_capacity;
  std::int32_t* to = result->missing;
  for (auto rank = request.missing.begin(); rank != request.missing.end() && room > 0; ++rank, --room) *to++ = *rank;
}

ucft_status_t wait_up_to(Request& request, std::uint64_t timeout_us) {
  Context& context = request.communicator->context();
  const Context::WaitFor waiting(context, request.point_to_point ? &*request.point_to_point : nullptr);
  if (!context.wait_until([&] { return !request.pending(); }, limit_after(timeout_us)))
    return explain_lateness(request, timeout_us);
  settle_accumulators(request);
  request.state = Request::State::taken;
  return explain(request);
}

ucft_status_t start(Request& request) {
  if (request.point_to_point) return start_point_to_point(request);
  const ucft_status_t status = request.gossip != nullptr   ? request.communicator->gossip().post(request)
                               : request.quorum != nullptr ? request.communicator->quorum().post(request)
                                                           : request.communicator->post(request);
  if (status == UCFT_OK) request.is_unsettled = has_accumulators(request.call);
  return status;
}

// The status that start() returned, with a sentence.
ucft_status_t explain_start(Request& request, ucft_status_t status) {
  if (status == UCFT_ERR_BUSY && request.gossip != nullptr)
    return fail(status, "{} gossip operations are in flight on this communicator", GossipDriver::in_flight);
  if (status == UCFT_ERR_BUSY && request.quorum != nullptr)
    return fail(status, "{} quorum allreduces are in flight on this communicator", QuorumDriver::in_flight);
  if (status == UCFT_ERR_BUSY)
    return fail(status,
                "too many operations in flight on this communicator, here or on another rank (UCFT_WINDOW is {})",
                request.communicator->context().settings().window);
  if (status == UCFT_ERR_NO_MEMORY) return fail(status, "no shared memory for {} bytes", request.arguments.bytes());
  if (status == UCFT_ERR_EXCLUDED || status == UCFT_ERR_PARTITION) {
    request.give_up(status);
    return explain(request);
  }
  return status;
}

// A prepared operation by its short way, if there is one.
[[gnu::always_inline]] inline HostStage::Ran run_shortly(Request& request) {
  if (!request.shortcut || request.communicator->context().excluded()) return HostStage::Ran::no;
  return request.communicator->run(request, true);
}

// Of one that has been posted.
ucft_status_t wait_for(Request& request, ucft_result_t* result) {
  Context& context = request.communicator->context();
  if (request.pending()) context.wait_until([&] { return !request.pending(); }, Context::Clock::time_point::max());
  if (request.is_unsettled) [[unlikely]]
    settle_accumulators(request);
  write_result(request, result);
  return request.status == UCFT_OK ? UCFT_OK : explain(request);
}

[[gnu::noinline]] ucft_status_t start_in_time(Request& request, std::uint64_t timeout_us) {
  ucft_status_t status = start(request);
  if (status == UCFT_ERR_BUSY)
    request.communicator->context().wait_until([&] { return (status = start(request)) != UCFT_ERR_BUSY; },
                                               limit_after(timeout_us));
  return explain_start(request, status);
}

// Runs a prepared operation to its end.
ucft_status_t run(Request& request, ucft_result_t* result) {
  if (run_shortly(request) != HostStage::Ran::no) return wait_for(request, result);
  ucft_status_t status = start(request);
  if (status == UCFT_ERR_BUSY)
    request.communicator->context().wait_until([&] { return (status = start(request)) != UCFT_ERR_BUSY; },
                                               Context::Clock::time_point::max());
  if (status == UCFT_OK) return wait_for(request, result);
  request.give_up(status);
  write_result(request, result);
  return status == UCFT_ERR_NO_MEMORY ? fail(status, "no shared memory for {} bytes", request.arguments.bytes())
                                      : explain(request);
}

// Of a call that is not the one before.
[[gnu::noinline]] ucft_status_t run_other_call(Communicator& comm, Call call, ucft_result_t* result) {
  const bool is_prepared = comm.blocking().find([&](const Request& each) { return is_prepared_for(call, each); });
  Request& request = comm.blocking().latest();
  ucft_status_t status = is_prepared ? UCFT_OK : prepare(comm, call, request);
  if (status == UCFT_OK) status = check_input(request);
  if (status != UCFT_OK) {
    if (result != nullptr) result->status = status;
    return status;
  }
  if (request.in_two_operations) [[unlikely]]
    return sum_in_two_operations(comm, request, &run, result);
  return run(request, result);
}

// In each function, where what its calls have in common is known.
[[gnu::always_inline]] inline ucft_status_t run_call(ucft_comm_h handle, const Call& call, ucft_result_t* result) {
  UCFT_ENTER(comm, comms, handle, "comm");
  if (ucft_status_t wrong = check_result(result); wrong != UCFT_OK) return wrong;
  Request& request = comm->blocking().latest();
  const HostStage::Ran ran = is_prepared_for(call, request) ? run_shortly(request) : HostStage::Ran::no;
  if (ran == HostStage::Ran::no) return run_other_call(*comm, call, result);
  if (ran == HostStage::Ran::posted) return wait_for(request, result);
  write_result(request, result);
  return UCFT_OK;
}

ucft_status_t write_number(std::int32_t number, std::int32_t* to, const char* name) {
  if (to == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "{} is null", name);
  *to = number;
  return UCFT_OK;
}

}  // namespace

ucft_status_t ucft::detail::run_to_end(Request& request, ucft_result_t* result) { return run(request, result); }

ucft_status_t ucft::detail::init_call(ucft_comm_h handle, const Call& call, ucft_request_h* out) {
  UCFT_ENTER(comm, comms, handle, "comm");
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "request is null");
  auto request = std::make_unique<Request>();
  if (ucft_status_t status = prepare(*comm, call, *request); status != UCFT_OK) return status;
  if (request->in_two_operations) return refuse_two_operations();
  return open_request(std::move(request), out);
}

// ---- the functions --------------------------------------------------------------------------------------------------

extern "C" {

ucft_status_t ucft_context_create(const ucft_context_params_t* params, ucft_context_h* out) {
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "context is null");
  if (params != nullptr)
    if (ucft_status_t wrong = check_size("params", *params, "UCFT_CONTEXT_PARAMS_INIT"); wrong != UCFT_OK) return wrong;
  if (Epochs::is_wanted()) return create_joinable(params, out);
  auto context = std::make_unique<Context>();
  context->enter();
  std::string error;
  try {
    if (ucft_status_t status = context->start(params, error); status != UCFT_OK) return fail(status, "{}", error);
  } catch (const std::exception& failure) {  // descriptors, threads or memory have run out
    return fail(UCFT_ERR_STARTUP, "{}", failure.what());
  }
  context->leave();
  *out = contexts.open(context.get());
  if (*out == nullptr) return fail(UCFT_ERR_NO_MEMORY, "{} contexts are open already", contexts.capacity);
  context.release();
  return UCFT_OK;
}

ucft_status_t ucft_context_destroy(ucft_context_h handle) {
  UCFT_FIND(context, contexts, handle, "context");
  if (context->forked()) return refuse_fork();
  if (context->epochs() != nullptr) return destroy_joinable(handle, *context->epochs());
  if (!context->enter())
    return fail(UCFT_ERR_THREAD, "another thread, a failure callback or an operator is inside this context");
  for (Communicator* communicator : context->communicators().all()) {
    if (!communicator->has_pending()) continue;
    context->leave();
    return fail(UCFT_ERR_STATE, "an operation is still in progress: wait for it first");
  }
  for (Communicator* communicator : context->communicators().all()) {
    close_requests_of(communicator);
    for (ucft_comm_h each : comms.all([&](const Communicator* open) { return open == communicator; }))
      comms.close(each);
  }
  context->stop();
  contexts.close(handle);
  delete context;
  return UCFT_OK;
}

ucft_status_t ucft_context_rank(ucft_context_h handle, int32_t* rank) {
  UCFT_FIND(context, contexts, handle, "context");
  if (context->awaits_job()) return refuse_newcomer();
  return write_number(context->rank(), rank, "rank");
}

ucft_status_t ucft_context_size(ucft_context_h handle, int32_t* size) {
  UCFT_FIND(context, contexts, handle, "context");
  if (context->awaits_job()) return refuse_newcomer();
  return write_number(context->size(), size, "size");
}

ucft_status_t ucft_context_paths(ucft_context_h handle, ucft_context_paths_t* paths) {
  UCFT_FIND(context, contexts, handle, "context");
  if (paths == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "paths is null");
  if (ucft_status_t wrong = check_size("paths", *paths, "UCFT_CONTEXT_PATHS_INIT"); wrong != UCFT_OK) return wrong;
  const Entry entry(*context);
  if (entry.status() != UCFT_OK) return entry.status();
  const Transport::Counts found = context->transport().counts();
  paths->shared_memory = found.shared_memory;
  paths->remote_mailboxes = found.remote_mailboxes;
  paths->messages = found.messages;
  paths->connections = found.connections;
  paths->mailbox_bytes = found.mailbox_bytes;
  return UCFT_OK;
}

ucft_status_t ucft_note_activity(ucft_context_h handle, const char* activity) {
  UCFT_FIND(context, contexts, handle, "context");
  if (context->forked()) return refuse_fork();
  if (context->awaits_job()) return refuse_newcomer();
  context->note_activity(activity);
  return UCFT_OK;
}

ucft_status_t ucft_progress(ucft_context_h handle) {
  UCFT_ENTER(context, contexts, handle, "context");
  context->glance();
  return UCFT_OK;
}

ucft_status_t ucft_alloc(ucft_context_h handle, size_t bytes, void** memory) {
  UCFT_ENTER(context, contexts, handle, "context");
  if (memory == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "memory is null");
  std::byte* allocated = bytes > bytes_limit ? nullptr : context->transport().allocate_shared(bytes);
  if (allocated == nullptr) return fail(UCFT_ERR_NO_MEMORY, "no shared memory for {} bytes", bytes);
  *memory = allocated;
  return UCFT_OK;
}

ucft_status_t ucft_free(ucft_context_h handle, void* memory) {
  UCFT_ENTER(context, contexts, handle, "context");
  // Other ranks may still read the memory of a rank that is out. That memory is freed with the context.
  if (memory == nullptr || context->excluded() || context->transport().free_shared(memory)) return UCFT_OK;
  if (context->epochs() != nullptr && free_in_other_epoch(*context, memory)) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "{} did not come from ucft_alloc", memory);
}

// ---- communicators

ucft_status_t ucft_comm_create(ucft_context_h handle, ucft_comm_h* out) {
  UCFT_ENTER(context, contexts, handle, "context");
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "comm is null");
  return open_comm(context->communicators().create_for_all(context->size()), out);
}

ucft_status_t ucft_comm_split(ucft_comm_h handle, int32_t colour, int32_t key, ucft_comm_h* out) {
  UCFT_ENTER(comm, comms, handle, "comm");
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "part is null");
  Communicator* part = nullptr;
  if (ucft_status_t status = split(*comm, colour, key, &run, part); status != UCFT_OK) return status;
  *out = UCFT_COMM_NULL;
  return part == nullptr ? UCFT_OK : open_comm(part, out);
}

ucft_status_t ucft_comm_dup(ucft_comm_h handle, ucft_comm_h* out) { return ucft_comm_split(handle, 0, 0, out); }

ucft_status_t ucft_comm_destroy(ucft_comm_h handle) {
  UCFT_FIND(comm, comms, handle, "comm");
  Context& context = comm->context();
  {
    const Entry entry(context);
    if (entry.status() != UCFT_OK) return entry.status();
    if (comm->has_pending()) return fail(UCFT_ERR_STATE, "an operation is still in progress: wait for it first");
    close_requests_of(comm);
    comms.close(handle);
    context.communicators().destroy(comm);
  }
  if (context.epochs() != nullptr) leave_if_unused(context);
  return UCFT_OK;
}

ucft_status_t ucft_comm_rank(ucft_comm_h handle, int32_t* rank) {
  UCFT_FIND(comm, comms, handle, "comm");
  return write_number(comm->rank(), rank, "rank");
}

ucft_status_t ucft_comm_size(ucft_comm_h handle, int32_t* size) {
  UCFT_FIND(comm, comms, handle, "comm");
  return write_number(comm->size(), size, "size");
}

ucft_status_t ucft_comm_failed(ucft_comm_h handle, int32_t* ranks, int32_t* count) {
  UCFT_ENTER(comm, comms, handle, "comm");
  if (count == nullptr || *count < 0) return fail(UCFT_ERR_INVALID_PARAM, "count is null or negative");
  if (ranks == nullptr && *count > 0)
    return fail(UCFT_ERR_INVALID_PARAM, "ranks is null, with a capacity of {}", *count);
  comm->context().progress();
  std::int32_t found = 0;
  for (std::int32_t rank = 0; rank < comm->size(); ++rank) {
    if (!comm->context().has_failed(comm->context_rank(rank))) continue;
    if (found < *count) ranks[found] = rank;
    ++found;
  }
  *count = found;
  return UCFT_OK;
}

ucft_status_t ucft_comm_look(ucft_comm_h handle, ucft_rank_sight_t* sights, int32_t* count) {
  UCFT_FIND(comm, comms, handle, "comm");
  if (comm->context().forked()) return refuse_fork();
  return look(*comm, sights, count);
}

// ---- operations

ucft_status_t ucft_allreduce(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                             ucft_op_t op, const ucft_coll_options_t* options, ucft_result_t* result) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  return run_call(comm, {Kind::allreduce, send, recv, count, dtype, &with, 0, options}, result);
}

ucft_status_t ucft_reduce(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                          ucft_op_t op, int32_t root, const ucft_coll_options_t* options, ucft_result_t* result) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  return run_call(comm, {Kind::reduce, send, recv, count, dtype, &with, root, options}, result);
}

ucft_status_t ucft_broadcast(ucft_comm_h comm, void* buffer, uint64_t count, ucft_dtype_t dtype, int32_t root,
                             const ucft_coll_options_t* options, ucft_result_t* result) {
  return run_call(comm, {Kind::broadcast, nullptr, buffer, count, dtype, nullptr, root, options}, result);
}

ucft_status_t ucft_barrier(ucft_comm_h comm, const ucft_coll_options_t* options, ucft_result_t* result) {
  return run_call(comm, {Kind::barrier, nullptr, nullptr, 0, UCFT_UINT64, nullptr, 0, options}, result);
}

ucft_status_t ucft_agree(ucft_comm_h comm, uint64_t* flags, const ucft_coll_options_t* options, ucft_result_t* result) {
  if (flags == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "flags is null");
  static constexpr ucft_operator_t both = UCFT_OPERATOR_INIT(UCFT_BAND);
  ucft_coll_options_t with = UCFT_COLL_OPTIONS_INIT;
  if (options != nullptr) with = *options;
  if (with.struct_size == sizeof with) with.uniform = 1;
  return run_call(comm, {Kind::allreduce, UCFT_IN_PLACE, flags, 1, UCFT_UINT64, &both, 0, &with}, result);
}

ucft_status_t ucft_allgather(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                             const ucft_coll_options_t* options, ucft_result_t* result) {
  return run_call(comm, {Kind::allgather, send, recv, count, dtype, nullptr, 0, options}, result);
}

ucft_status_t ucft_allgatherv(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                              const uint64_t* displacements, ucft_dtype_t dtype, const ucft_coll_options_t* options,
                              ucft_result_t* result) {
  if (counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "counts is null");
  return run_call(comm, {Kind::allgather, send, recv, 0, dtype, nullptr, 0, options, counts, displacements}, result);
}

ucft_status_t ucft_reduce_scatter(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                  ucft_op_t op, const ucft_coll_options_t* options, ucft_result_t* result) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  return run_call(comm, {Kind::reduce_scatter, send, recv, count, dtype, &with, 0, options}, result);
}

ucft_status_t ucft_reduce_scatterv(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                   ucft_dtype_t dtype, ucft_op_t op, const ucft_coll_options_t* options,
                                   ucft_result_t* result) {
  if (counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "counts is null");
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  return run_call(comm, {Kind::reduce_scatter, send, recv, 0, dtype, &with, 0, options, counts}, result);
}

ucft_status_t ucft_scatter(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                           int32_t root, const ucft_coll_options_t* options, ucft_result_t* result) {
  return run_call(comm, {Kind::scatter, send, recv, count, dtype, nullptr, root, options}, result);
}

ucft_status_t ucft_scatterv(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts, ucft_dtype_t dtype,
                            int32_t root, const ucft_coll_options_t* options, ucft_result_t* result) {
  if (counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "counts is null");
  return run_call(comm, {Kind::scatter, send, recv, 0, dtype, nullptr, root, options, counts}, result);
}

ucft_status_t ucft_alltoall(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                            const ucft_coll_options_t* options, ucft_result_t* result) {
  return run_call(comm, {Kind::alltoall, send, recv, count, dtype, nullptr, 0, options}, result);
}

ucft_status_t ucft_alltoallv(ucft_comm_h comm, const void* send, const uint64_t* send_counts,
                             const uint64_t* send_displacements, void* recv, const uint64_t* recv_counts,
                             const uint64_t* recv_displacements, ucft_dtype_t dtype, const ucft_coll_options_t* options,
                             ucft_result_t* result) {
  if (recv_counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "recv_counts is null");
  return run_call(comm,
                  {Kind::alltoall, send, recv, 0, dtype, nullptr, 0, options, recv_counts, recv_displacements,
                   send_counts, send_displacements},
                  result);
}

ucft_status_t ucft_scan(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                        ucft_op_t op, const ucft_coll_options_t* options, ucft_result_t* result) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  return run_call(comm, {Kind::scan, send, recv, count, dtype, &with, 0, options}, result);
}

ucft_status_t ucft_exscan(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                          ucft_op_t op, const ucft_coll_options_t* options, ucft_result_t* result) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  return run_call(comm, {Kind::exscan, send, recv, count, dtype, &with, 0, options}, result);
}

ucft_status_t ucft_gather(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                          int32_t root, const ucft_coll_options_t* options, ucft_result_t* result) {
  return run_call(comm, {Kind::gather, send, recv, count, dtype, nullptr, root, options}, result);
}

ucft_status_t ucft_gatherv(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                           const uint64_t* displacements, ucft_dtype_t dtype, int32_t root,
                           const ucft_coll_options_t* options, ucft_result_t* result) {
  if (counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "counts is null");
  return run_call(comm, {Kind::gather, send, recv, 0, dtype, nullptr, root, options, counts, displacements}, result);
}

ucft_status_t ucft_gossip_allreduce(ucft_comm_h handle, const void* send, void* recv, uint64_t count,
                                    ucft_dtype_t dtype, const ucft_gossip_options_t* options,
                                    ucft_gossip_result_t* result) {
  UCFT_ENTER(comm, comms, handle, "comm");
  if (ucft_status_t status = check_gossip_result(result); status != UCFT_OK) return status;
  Request request;
  if (ucft_status_t status = prepare_gossip(*comm, {send, recv, count, dtype, options}, request); status != UCFT_OK)
    return status;
  const ucft_status_t status = run(request, nullptr);
  write_gossip_result(request, result);
  return status;
}

ucft_status_t ucft_gossip_allreduce_init(ucft_comm_h handle, const void* send, void* recv, uint64_t count,
                                         ucft_dtype_t dtype, const ucft_gossip_options_t* options,
                                         ucft_request_h* out) {
  UCFT_ENTER(comm, comms, handle, "comm");
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "request is null");
  auto request = std::make_unique<Request>();
  if (ucft_status_t status = prepare_gossip(*comm, {send, recv, count, dtype, options}, *request); status != UCFT_OK)
    return status;
  return open_request(std::move(request), out);
}

ucft_status_t ucft_gossip_estimate(ucft_request_h handle, void* values, double* error_estimate) {
  UCFT_ENTER(request, requests, handle, "request");
  return gossip_estimate(*request, values, error_estimate);
}

ucft_status_t ucft_gossip_contributors(ucft_request_h handle, uint32_t* contributors) {
  UCFT_ENTER(request, requests, handle, "request");
  return gossip_contributors(*request, contributors);
}

ucft_status_t ucft_gossip_result(ucft_request_h handle, ucft_gossip_result_t* result) {
  UCFT_ENTER(request, requests, handle, "request");
  return gossip_result(*request, result);
}

ucft_status_t ucft_post(ucft_request_h handle) {
  UCFT_ENTER(request, requests, handle, "request");
  if (request->pending()) return fail(UCFT_ERR_STATE, "the request is posted already and not complete");
  if (ucft_status_t wrong = check_input(*request); wrong != UCFT_OK) return wrong;
  return explain_start(*request, start(*request));
}

ucft_status_t ucft_test(ucft_request_h handle) {
  UCFT_ENTER(request, requests, handle, "request");
  if (request->state == Request::State::idle) return fail(UCFT_ERR_STATE, "the request was never posted");
  if (request->pending()) request->communicator->context().glance();
  if (request->pending()) return UCFT_INPROGRESS;
  settle_accumulators(*request);
  return request->status == UCFT_OK ? UCFT_OK : explain(*request);
}

ucft_status_t ucft_wait(ucft_request_h handle, uint64_t timeout_us) {
  UCFT_ENTER(request, requests, handle, "request");
  if (request->state == Request::State::idle) return fail(UCFT_ERR_STATE, "the request was never posted");
  if (request->state == Request::State::taken) return fail(UCFT_ERR_STATE, "the request was waited for already");
  return wait_up_to(*request, timeout_us);
}

ucft_status_t ucft_post_and_wait(ucft_request_h handle, uint64_t timeout_us) {
  UCFT_ENTER(request, requests, handle, "request");
  if (request->pending()) return fail(UCFT_ERR_STATE, "the request is posted already and not complete");
  if (ucft_status_t wrong = check_input(*request); wrong != UCFT_OK) return wrong;
  if (run_shortly(*request) == HostStage::Ran::no)
    if (ucft_status_t status = start_in_time(*request, timeout_us); status != UCFT_OK) return status;
  if (request->pending()) return wait_up_to(*request, timeout_us);
  settle_accumulators(*request);
  request->state = Request::State::taken;
  return request->status == UCFT_OK ? UCFT_OK : explain(*request);
}

ucft_status_t ucft_request_result(ucft_request_h handle, ucft_result_t* result) {
  UCFT_ENTER(request, requests, handle, "request");
  if (result == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "result is null");
  if (request->state == Request::State::idle || request->pending())
    return fail(UCFT_ERR_STATE, "the request has not completed");
  if (ucft_status_t wrong = check_result(result); wrong != UCFT_OK) return wrong;
  settle_accumulators(*request);
  write_result(*request, result);
  return UCFT_OK;
}

ucft_status_t ucft_request_free(ucft_request_h handle) {
  UCFT_ENTER(request, requests, handle, "request");
  if (request->pending() && !cancel(*request))
    return fail(UCFT_ERR_STATE, "the operation is still in progress: wait for it first");
  requests.close(handle);
  delete request;
  return UCFT_OK;
}

size_t ucft_settings(ucft_context_h handle, char* text, size_t bytes) {
  Settings settings;
  std::string error, all;
  if (const Context* context = contexts.find(handle); context != nullptr)
    all = settings_text(context->settings());
  else
    all = read_settings(nullptr, settings, error) ? settings_text(settings) : "error: " + error + "\n";
  write_text(all, text, bytes);
  return all.size() + 1;
}

}  // extern "C"
