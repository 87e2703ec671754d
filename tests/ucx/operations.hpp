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
// Blocks of count words, at the root, or of 0, count or 2 * count, every third time, with a hole before each. The
// root's own is in its place already, every second time.
void gather(int iteration, int root, std::size_t count);
// A share of count words of each rank, or of 0, count or 2 * count, every third time. In place every second time.
void reduce_scatter(int iteration, std::size_t count);
// The same of bytes, so that shares begin anywhere in a word.
void reduce_scatter_bytes(int iteration, std::size_t count);
// A share of count words of the root's for each rank, or of 0, count or 2 * count, every third time. The root's stays
// in its place every second time.
void scatter(int iteration, int root, std::size_t count, const ucft_coll_options_t* options = nullptr);
// Of count words of each rank for each other. In place every second time.
void alltoall(int iteration, std::size_t count);
// Of 0, count or 2 * count words of each rank for each other, with a hole of one word before each in recv, every second
// time in send. In place every third time.
void alltoallv(int iteration, std::size_t count, const ucft_coll_options_t* options = nullptr);
// A sum of the ranks up to this one; every second time of those before it. In place every third time.
void scan(int iteration, std::size_t count);
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
