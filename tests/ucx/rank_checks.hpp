// What the rank programs of tests/ucx share: their place in the job, and how they say that something is wrong (a line on
// stderr, exit code 1). One program, one translation unit.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "ucft/ucft.h"

namespace {

ucft_context_h context;
ucft_comm_h comm;
int rank_ = 0, size_ = 1;
std::uint64_t hash_ = 14695981039346656037ull;

template <class... Parts>
[[noreturn]] void wrong(fmt::format_string<Parts...> format, Parts&&... parts) {
  fmt::print(stderr, "rank {}: {}\n", rank_, fmt::format(format, std::forward<Parts>(parts)...));
  std::exit(1);
}

void check(ucft_status_t status, const char* what) {
  if (status != UCFT_OK) wrong("{}: {}: {}", what, ucft_status_name(status), ucft_last_error());
}

void expect(ucft_status_t status, ucft_status_t expected, const char* what) {
  if (status != expected) wrong("{}: {} instead of {} ({})", what, ucft_status_name(status), ucft_status_name(expected), ucft_last_error());
}

// What all survivors must have in common goes through here, and into their verdict.
void note(std::uint64_t value) {
  hash_ ^= value;
  hash_ *= 1099511628211ull;
}

}  // namespace
