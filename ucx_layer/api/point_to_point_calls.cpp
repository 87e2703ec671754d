// Sends and receives of the C API.
#include "ucft/ucft.h"
#include "ucx_layer/api/calls.hpp"
#include "ucx_layer/api/entry.hpp"
#include "ucx_layer/api/memory_check.hpp"

using namespace ucft::detail;

namespace {

struct Arguments {
  void* memory;  // a send only reads it
  std::uint64_t count;
  ucft_dtype_t dtype;
  std::int32_t peer, tag;
};

ucft_status_t prepare(Communicator& comm, const Arguments& given, bool is_send, PointToPointCall& call) {
  const std::uint32_t element = given.dtype == UCFT_ACCUMULATOR ? sizeof(ucft_accumulator_t)
                                : given.dtype >= 0 && given.dtype < static_cast<int>(type_count)
                                    ? element_bytes(static_cast<DataType>(given.dtype))
                                    : 0;
  if (element == 0)
    return fail(UCFT_ERR_INVALID_PARAM, "dtype is {}: not a ucft_dtype_t", static_cast<int>(given.dtype));
  if (given.count > bytes_limit || given.count * element > bytes_limit)
    return fail(UCFT_ERR_INVALID_PARAM, "count is {}: more than {} bytes", given.count, bytes_limit);
  const bool is_any = !is_send && given.peer == UCFT_ANY_SOURCE;
  if (!is_any && (given.peer < 0 || given.peer >= comm.size()))
    return fail(UCFT_ERR_INVALID_PARAM, "{} is {}: must be 0 .. {}{}", is_send ? "destination" : "source", given.peer,
                comm.size() - 1, is_send ? "" : ", or UCFT_ANY_SOURCE");
  const std::uint64_t bytes = given.count * element;
  if (bytes > 0 && given.memory == nullptr)
    return fail(UCFT_ERR_INVALID_PARAM, "{} is null, with {} elements", is_send ? "send" : "recv", given.count);
  if (bytes > 0 && !(is_send ? is_readable(given.memory, bytes) : is_writable(given.memory, bytes)))
    return fail(UCFT_ERR_INVALID_PARAM, "{} ({}, {} bytes) is not memory that this host can {}: device memory?",
                is_send ? "send" : "recv", given.memory, bytes, is_send ? "read" : "write");
  call.communicator = &comm;
  call.memory = static_cast<std::byte*>(given.memory);
  call.bytes = bytes;
  call.element = element;
  call.peer = given.peer;
  call.tag = given.tag;
  call.is_send = is_send;
  return UCFT_OK;
}

ucft_status_t check(const ucft_received_t* received) {
  return received == nullptr ? UCFT_OK : check_size("received", *received, "UCFT_RECEIVED_INIT");
}

void write(const PointToPointCall& call, ucft_received_t* received) {
  if (received == nullptr) return;
  received->source = call.other;
  received->tag = call.tag;
  received->count = call.status == UCFT_OK ? call.received / call.element : 0;
}

ucft_status_t run(ucft_comm_h handle, const Arguments& given, bool is_send, ucft_received_t* received) {
  UCFT_ENTER(comm, comms, handle, "comm");
  if (ucft_status_t wrong = check(received); wrong != UCFT_OK) return wrong;
  PointToPointCall call;
  if (ucft_status_t wrong = prepare(*comm, given, is_send, call); wrong != UCFT_OK) return wrong;
  Context& context = comm->context();
  if (context.excluded()) {
    call.status = context.why_excluded();
  } else {
    comm->point_to_point().post(call);
    const auto is_complete = [&] { return call.is_complete; };
    const Context::WaitFor waiting(context, &call);
    if (!call.is_complete && comm->is_on_host())
      context.wait_for_message(is_complete);
    else if (!call.is_complete)
      context.wait_until(is_complete, Context::Clock::time_point::max());
  }
  write(call, received);
  return call.status == UCFT_OK ? UCFT_OK : explain(*comm, call);
}

ucft_status_t open(ucft_comm_h handle, const Arguments& given, bool is_send, ucft_request_h* out) {
  UCFT_ENTER(comm, comms, handle, "comm");
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "request is null");
  auto request = std::make_unique<Request>();
  request->communicator = comm;
  PointToPointCall& call = request->point_to_point.emplace();
  call.request = request.get();
  if (ucft_status_t wrong = prepare(*comm, given, is_send, call); wrong != UCFT_OK) return wrong;
  return open_request(std::move(request), out);
}

}  // namespace

ucft_status_t ucft::detail::start_point_to_point(Request& request) {
  const Context& context = request.communicator->context();
  if (context.excluded()) return request.point_to_point->status = context.why_excluded();
  request.state = Request::State::active;
  request.communicator->point_to_point().post(*request.point_to_point);
  return UCFT_OK;
}

bool ucft::detail::cancel(Request& request) {
  return request.point_to_point && request.communicator->point_to_point().cancel(*request.point_to_point);
}

extern "C" {

ucft_status_t ucft_send(ucft_comm_h comm, const void* send, uint64_t count, ucft_dtype_t dtype, int32_t destination,
                        int32_t tag) {
  return run(comm, {const_cast<void*>(send), count, dtype, destination, tag}, true, nullptr);
}

ucft_status_t ucft_recv(ucft_comm_h comm, void* recv, uint64_t count, ucft_dtype_t dtype, int32_t source, int32_t tag,
                        ucft_received_t* received) {
  return run(comm, {recv, count, dtype, source, tag}, false, received);
}

ucft_status_t ucft_send_init(ucft_comm_h comm, const void* send, uint64_t count, ucft_dtype_t dtype,
                             int32_t destination, int32_t tag, ucft_request_h* request) {
  return open(comm, {const_cast<void*>(send), count, dtype, destination, tag}, true, request);
}

ucft_status_t ucft_recv_init(ucft_comm_h comm, void* recv, uint64_t count, ucft_dtype_t dtype, int32_t source,
                             int32_t tag, ucft_request_h* request) {
  return open(comm, {recv, count, dtype, source, tag}, false, request);
}

ucft_status_t ucft_request_received(ucft_request_h handle, ucft_received_t* received) {
  UCFT_ENTER(request, requests, handle, "request");
  if (received == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "received is null");
  if (ucft_status_t wrong = check(received); wrong != UCFT_OK) return wrong;
  if (!request->point_to_point || request->point_to_point->is_send)
    return fail(UCFT_ERR_STATE, "the request is no receive");
  if (request->state == Request::State::idle || request->pending())
    return fail(UCFT_ERR_STATE, "the request has not completed");
  write(*request->point_to_point, received);
  return UCFT_OK;
}

}  // extern "C"
