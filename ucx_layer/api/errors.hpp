// The sentence of a thread's last error (ucft_last_error).
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>

#include "ucft/ucft.h"

namespace ucft::detail {

// Of this thread.
std::string& last_error();

// Returns the status, and keeps the sentence about it, which names the culprit.
template <class... Parts>
ucft_status_t fail(ucft_status_t status, fmt::format_string<Parts...> format, Parts&&... parts) {
  last_error() = fmt::format(format, std::forward<Parts>(parts)...);
  return status;
}

// Of a structure that a caller gives. initializer: the macro that sets its size.
template <class Given>
ucft_status_t check_size(const char* name, const Given& given, const char* initializer) {
  if (given.struct_size == sizeof given) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "{}.struct_size is {}, expected {}: use {}", name, given.struct_size,
              sizeof given, initializer);
}

// The status of a request that is complete, with a sentence if it is an error.
struct Request;
ucft_status_t explain(const Request& request);
// The same of a send or a receive.
class Communicator;
struct PointToPointCall;
ucft_status_t explain(const Communicator& comm, const PointToPointCall& call);
// A sentence about a rank and its part in comm, as this rank sees them.
class Communicator;
class JobView;
std::string sentence_about(JobView& job, const Communicator& comm, std::int32_t context_rank);
// A request is not complete after so long. The sentence has the ranks that it waits for, where that can be read, and
// what these do.
ucft_status_t explain_lateness(const Request& request, std::uint64_t timeout_us);

}  // namespace ucft::detail
