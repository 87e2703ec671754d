// Places where tests/ucx can end a rank: before its k-th send, before the k-th line that it publishes, or in the k-th
// step of start-up; or stop it for a while, before it makes its lifelines. They exist in the copy of the library that those tests link (UCFT_TEST_POINTS), and are nothing at
// all in libucft.
#pragma once

#ifdef UCFT_TEST_POINTS
#include <cstdint>

namespace ucft::test_points {
void pass_send();
void pass_line();
void pass_step();
void pass_lifelines();
std::uint64_t host_of(int rank);   // UCFT_TEST_RANKS_PER_HOST=k: ranks 0..k-1 believe to be on one host, and so on
}  // namespace ucft::test_points
#define UCFT_TEST_POINT(what) ::ucft::test_points::pass_##what()
#else
#define UCFT_TEST_POINT(what) static_cast<void>(0)
#endif
