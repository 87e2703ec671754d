// Places where tests/ucx can end a rank: before its k-th send, before the k-th line that it publishes, before the k-th
// entry of its host's journal that has a payload, or in the k-th step of start-up. Others stop it for a while, before
// it makes its lifelines or closes start-up. And switches for what only other machines, or machines short of something,
// do. They exist in the copy of the library that those tests link (UCFT_TEST_POINTS). In libucft they are nothing at
// all.
#pragma once

#ifdef UCFT_TEST_POINTS
#include <cstdint>

namespace ucft::detail::test_points {
void pass_send();
void pass_line();
void pass_entry();
void pass_step();
void pass_lifelines();
void pass_close();
bool stamps_all_lines();          // UCFT_TEST_STAMPS: RMA windows on one host have the layout of those between hosts
bool refuses_window();            // UCFT_TEST_REFUSE=P: that part of RMA windows can't be mapped
std::uint64_t host_of(int rank);  // UCFT_TEST_RANKS_PER_HOST=k: ranks 0..k-1 believe to be on one host, and so on
bool has_far_readers();           // UCFT_TEST_FAR: what is staged goes past the caches, however near they are
bool has_short_rounds();          // UCFT_TEST_SHORT_ROUNDS: a long alltoall goes in rounds of 4 KiB
bool lacks_places();              // UCFT_TEST_NO_PLACES=r: rank r has no memory for data of operations that run
bool has_sites();                 // UCFT_TEST_SITES: ranks in turns on 2 packages with 2 caches each
}  // namespace ucft::detail::test_points
#define UCFT_TEST_POINT(what) ::ucft::detail::test_points::pass_##what()
#define UCFT_TEST_SWITCH(what) ::ucft::detail::test_points::what()
#else
#define UCFT_TEST_POINT(what) static_cast<void>(0)
#define UCFT_TEST_SWITCH(what) false
#endif
