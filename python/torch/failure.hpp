// A failure as a C++ exception: it may pass through PyTorch, and through threads without Python. module.cpp makes it
// the Python exception that bears the status's name.
#pragma once

#include <stdexcept>
#include <string>

#include "ucft/ucft.h"

namespace ucft::pytorch {

struct Failure : std::runtime_error {
  Failure(ucft_status_t why, const std::string& sentence) : std::runtime_error(sentence), status(why) {}
  ucft_status_t status;
};

// Of the last failing call of this thread.
inline void throw_unless_ok(ucft_status_t status) {
  if (status != UCFT_OK) throw Failure(status, ucft_last_error());
}

}  // namespace ucft::pytorch
