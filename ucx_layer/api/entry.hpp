// The way into the library: handles, and the rule that one thread at a time is inside a context.
#pragma once

#include <unistd.h>

#include <memory>

#include "ucx_layer/api/errors.hpp"
#include "ucx_layer/api/handles.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

inline HandleTable<Context, ucft_context_h, 1> contexts;
inline HandleTable<Communicator, ucft_comm_h, 2> comms;
inline HandleTable<Request, ucft_request_h, 3> requests;

inline ucft_status_t refuse_fork() {
  return fail(UCFT_ERR_FORKED, "process {} is a fork of the one that created the context", getpid());
}

inline ucft_status_t refuse_newcomer() {
  return fail(UCFT_ERR_STATE, "this process is a newcomer, and in no job yet: call ucft_comm_join first");
}

// Inside the context for as long as it lives.
class Entry {
 public:
  [[gnu::always_inline]] explicit Entry(Context& context) : context_(context) {
    if (context.forked() || !context.enter()) [[unlikely]]
      status_ = refusal();
  }
  ~Entry() {
    if (status_ == UCFT_OK) context_.leave();
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ucft_status_t status() const { return status_; }

 private:
  [[gnu::noinline, gnu::cold]] ucft_status_t refusal() const {
    if (context_.forked()) return refuse_fork();
    if (context_.awaits_job()) return refuse_newcomer();
    return fail(UCFT_ERR_THREAD, "another thread, a failure callback or an operator is inside this context");
  }

  Context& context_;
  ucft_status_t status_ = UCFT_OK;
};

inline Context& context_of(Context& context) { return context; }
inline Context& context_of(Communicator& comm) { return comm.context(); }
inline Context& context_of(Request& request) { return request.communicator->context(); }

#define UCFT_FIND(object, table, handle, what) \
  auto* const object = table.find(handle);     \
  if (object == nullptr) return fail(UCFT_ERR_CLOSED, "{}: not an open handle: {}", what, static_cast<void*>(handle))
#define UCFT_ENTER(object, table, handle, what) \
  UCFT_FIND(object, table, handle, what);       \
  const Entry entry(context_of(*object));       \
  if (entry.status() != UCFT_OK) return entry.status()

inline Context::Clock::time_point limit_after(std::uint64_t timeout_us) {
  return timeout_us > 1000000000000ull ? Context::Clock::time_point::max()
                                       : Context::Clock::now() + std::chrono::microseconds(timeout_us);
}

inline ucft_status_t open_request(std::unique_ptr<Request> request, ucft_request_h* out) {
  const ucft_request_h opened = requests.open(request.get());
  if (opened == nullptr) return fail(UCFT_ERR_NO_MEMORY, "{} requests are open already", requests.capacity);
  request.release();
  *out = opened;
  return UCFT_OK;
}

inline ucft_status_t open_comm(Communicator* communicator, ucft_comm_h* out) {
  *out = comms.open(communicator);
  return *out != nullptr ? UCFT_OK : fail(UCFT_ERR_NO_MEMORY, "{} communicators are open already", comms.capacity);
}

// As their communicator is about to end.
inline void close_requests_of(const Communicator* communicator) {
  for (ucft_request_h handle :
       requests.all([&](const Request* request) { return request->communicator == communicator; })) {
    const std::unique_ptr<Request> request(requests.find(handle));
    requests.close(handle);
  }
}

}  // namespace ucft::detail
