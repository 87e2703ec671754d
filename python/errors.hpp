// A status becomes the exception that bears its name: ucft.RootFailedError, ... with .status and the culprit's
// sentence.
#pragma once

#include <cstdint>
#include <string>

#include "ucft/ucft.h"

namespace ucft::python {

// Of the last failing call of this thread. Needs the GIL.
[[noreturn]] void raise(ucft_status_t status);
[[noreturn]] void raise(ucft_status_t status, const std::string& explanation);
// With .rank: the other one of a send or receive.
[[noreturn]] void raise(ucft_status_t status, const std::string& explanation, std::int32_t rank);

inline void raise_unless_ok(ucft_status_t status) {
  if (status != UCFT_OK) raise(status);
}

}  // namespace ucft::python
