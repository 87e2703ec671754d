// What all ranks of tests/ucx share: their place in the job, and how they say that something is wrong (a line on
// stderr, exit code 1).
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "ucft/ucft.h"

namespace ucft::detail::test {

extern ucft_context_h context;  // of this rank, and null outside a job
extern ucft_comm_h comm;
extern int rank_, size_;

template <class... Parts>
[[noreturn]] void wrong(fmt::format_string<Parts...> format, Parts&&... parts) {
  fmt::print(stderr, "rank {}: {}\n", rank_, fmt::format(format, std::forward<Parts>(parts)...));
  std::exit(1);
}

void check(ucft_status_t status, const char* what);
void expect(ucft_status_t status, ucft_status_t expected, const char* what);

// What all survivors must have in common goes through here, and into their verdict.
void note(std::uint64_t value);
std::uint64_t noted();  // a hash of it

// Said last: "VERDICT ...". The same text on all survivors, or they do not agree.
void say_verdict(const std::string& text);
[[noreturn]] void end_with_verdict(const std::string& text);

// Tests that kill or cut off wait for this. Said after an operation it means that all ranks are past start-up.
void say_started();

// Into the job. Where UCFT_TEST_MAY_DIE_IN_STARTUP is set a start-up that fails is the verdict.
void start_up(ucft_failure_callback_t on_failure = nullptr);

// Whether the ranks of this job read each other's memory instead of sending messages.
bool reads_memory();

// By what the launcher says; -1: nothing.
int rank_before_start_up();
bool is_last_before_start_up();  // ucft_run alone says how many there are

// A rank says something to another one that is outside of ucft. name: of the test and the word.
std::string new_mark(const std::string& word);
void leave_mark(const std::string& name);
void wait_for_mark(const std::string& name);

// Stops this process; a child wakes it up after so long. (From outside that is a host that hangs.)
void stop_for(unsigned milliseconds);

// Repeats allreduce until an error, at most `limit` times.
ucft_status_t go_on(int limit);

}  // namespace ucft::detail::test
