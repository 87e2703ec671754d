// Operations whose results are checked, and noted where all survivors must have the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ucft/ucft.h"

namespace ucft::detail::test {

// Added to what rank r gives to a sum, which is 2^r: no iteration can be taken for another.
std::uint64_t salt(int iteration);
// Rank r has given 2^r + salt. Who is in a sum, or the end of the program.
std::uint64_t decode(std::uint64_t sum, const ucft_result_t& result, int iteration);

// How many ranks are missing: the same number on all of them.
int allreduce(int iteration, std::size_t count);
void broadcast(int iteration, int root, std::size_t count);
void reduce(int iteration, int root, std::size_t count);
// A reduce in which other ranks name other roots: a mismatch, and nothing is written. Later operations are right again.
void reduce_with_other_roots(int root);
// Blocks of 0, count or 2 * count words, with a hole of one word before each. Who is missing is missing on all.
void allgather(int iteration, std::size_t count);
// An allreduce in flight.
struct PostedSum {
  int iteration;
  std::vector<std::uint64_t> in, out;
  ucft_request_h request = UCFT_REQUEST_NULL;
};
PostedSum post_sum(int iteration, std::size_t count);
void finish(PostedSum& sum);
// Four allreduces and a barrier in flight together.
void several(int iteration);

}  // namespace ucft::detail::test
