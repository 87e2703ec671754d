// The sentence of a thread's last error (ucft_last_error).
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

#include "ucft/ucft.h"

namespace ucft::detail {

// Of this thread.
std::string& last_error();

// The status, and what is wrong: it names the culprit.
template <class... Parts>
ucft_status_t fail(ucft_status_t status, fmt::format_string<Parts...> format, Parts&&... parts) {
  last_error() = fmt::format(format, std::forward<Parts>(parts)...);
  return status;
}

// The status of a request that is complete, with a sentence if it is an error.
struct Request;
ucft_status_t explain(const Request& request);

}  // namespace ucft::detail
