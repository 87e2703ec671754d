// What the rank programs of tests/ucx share: their place in the job, and how they say that something is wrong (a line on
// stderr, exit code 1). One program, one translation unit.
#pragma once

#include <fmt/core.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <unistd.h>

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
  if (status != expected)
    wrong("{}: {} instead of {} ({})", what, ucft_status_name(status), ucft_status_name(expected), ucft_last_error());
}

// What all survivors must have in common goes through here, and into their verdict.
void note(std::uint64_t value) {
  hash_ ^= value;
  hash_ *= 1099511628211ull;
}

// Stops this process; a child wakes it up after so long. (From outside that is a host that hangs.)
[[maybe_unused]] void stop_for(unsigned milliseconds) {
  if (fork() == 0) {
    usleep(1000 * milliseconds);
    kill(getppid(), SIGCONT);
    _exit(0);
  }
  std::raise(SIGSTOP);
}

// Repeats allreduce until an error, at most `limit` times.
[[maybe_unused]] ucft_status_t go_on(int limit) {
  ucft_status_t status = UCFT_OK;
  std::uint64_t in = std::uint64_t{1} << rank_, out = 0;
  for (int i = 0; status == UCFT_OK && i < limit; ++i)
    status = ucft_allreduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr);
  return status;
}

}  // namespace
