#include "tests/ucx/operations.hpp"

#include <algorithm>
#include <vector>

#include "tests/ucx/rank_checks.hpp"

namespace ucft::detail::test {

std::uint64_t salt(int iteration) { return std::uint64_t{static_cast<unsigned>(iteration) & 0xffff} << 32; }

std::uint64_t decode(std::uint64_t sum, const ucft_result_t& result, int iteration) {
  const std::uint64_t mask = sum - result.contributors * salt(iteration);
  if (mask >> size_ != 0 || static_cast<std::uint32_t>(__builtin_popcountll(mask)) != result.contributors)
    wrong("iteration {}: sum {:x} with {} contributors cannot be decoded", iteration, sum, result.contributors);
  if ((mask >> rank_ & 1) == 0) wrong("iteration {}: my own value is missing", iteration);
  return mask;
}

namespace {

void check_missing(std::uint64_t mask, const ucft_result_t& result, int iteration) {
  if (result.missing_count != size_ - static_cast<int>(result.contributors))
    wrong("iteration {}: missing_count {}", iteration, result.missing_count);
  for (int i = 0; i < result.missing_count; ++i)
    if ((mask >> result.missing[i] & 1) != 0)
      wrong("iteration {}: rank {} is called missing and is in the sum", iteration, result.missing[i]);
}

}  // namespace

int allreduce(int iteration, std::size_t count) {
  std::vector<std::uint64_t> in(count, (std::uint64_t{1} << rank_) + salt(iteration)), out(count);
  std::vector<std::int32_t> missing(static_cast<std::size_t>(size_));
  ucft_result_t result = UCFT_RESULT_INIT;
  result.missing = missing.data();
  result.missing_capacity = size_;
  check(ucft_allreduce(comm, in.data(), out.data(), count, UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce");
  const std::uint64_t mask = decode(out[0], result, iteration);
  check_missing(mask, result, iteration);
  for (std::uint64_t word : out)
    if (word != out[0]) wrong("iteration {}: elements with different contributors", iteration);
  note(out[0]);
  return result.missing_count;
}

void broadcast(int iteration, int root, std::size_t count) {
  std::vector<std::uint64_t> data(count, rank_ == root ? 77 + salt(iteration) : 5);
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.correction = static_cast<ucft_correction_t>(iteration % 5);
  options.tree = static_cast<ucft_tree_t>(iteration % 8);
  if (options.tree == UCFT_TREE_GOSSIP && iteration % 3 == 0) options.gossip_time_ns = 2000;  // passes ranks by
  if (iteration % 4 == 0) options.correction_delay_us = 20;
  const ucft_status_t status = ucft_broadcast(comm, data.data(), count, UCFT_UINT64, root, &options, nullptr);
  if (status != UCFT_OK && status != UCFT_ERR_ROOT_FAILED) wrong("broadcast: {}", ucft_last_error());
  for (std::uint64_t word : data)
    if (status == UCFT_OK ? word != 77 + salt(iteration) : (rank_ != root && word != 5))
      wrong("iteration {}: broadcast left {:x}", iteration, word);
  note(static_cast<std::uint64_t>(status));
}

void reduce(int iteration, int root, std::size_t count) {
  std::vector<std::uint64_t> in(count, (std::uint64_t{1} << rank_) + salt(iteration)), out(count);
  ucft_result_t result = UCFT_RESULT_INIT;
  const ucft_status_t status =
      ucft_reduce(comm, in.data(), out.data(), count, UCFT_UINT64, UCFT_SUM, root, nullptr, &result);
  if (status != UCFT_OK && status != UCFT_ERR_ROOT_FAILED) wrong("reduce: {}", ucft_last_error());
  if (rank_ != root) return;
  if (status != UCFT_OK) wrong("reduce at its root: {}", ucft_last_error());
  decode(out[0], result, iteration);
  for (std::uint64_t word : out)
    if (word != out[0]) wrong("iteration {}: reduce with different contributors", iteration);
}

void allgather(int iteration, std::size_t count) {
  constexpr std::uint64_t hole = 3;
  const auto ranks = static_cast<std::size_t>(size_), me = static_cast<std::size_t>(rank_);
  const auto word_of = [&](std::size_t rank) { return (rank + 1) * 1000 + salt(iteration); };
  std::vector<std::uint64_t> counts(ranks), places(ranks), out;
  for (std::size_t rank = 0, end = 0; rank < ranks; ++rank) {
    counts[rank] = (rank + static_cast<std::size_t>(iteration)) % 3 * count;
    places[rank] = ++end;
    end += counts[rank];
    out.resize(end, hole);
  }
  const bool in_place = iteration % 2 == 0;
  const std::vector<std::uint64_t> in(counts[me], word_of(me));
  if (in_place) std::copy(in.begin(), in.end(), out.begin() + static_cast<std::ptrdiff_t>(places[me]));
  std::vector<std::int32_t> missing(ranks);
  ucft_result_t result = UCFT_RESULT_INIT;
  result.missing = missing.data();
  result.missing_capacity = size_;
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.first_root = iteration % size_;
  options.failure_info = static_cast<ucft_failure_info_t>(iteration % 3);
  check(ucft_allgatherv(comm, in_place ? UCFT_IN_PLACE : in.data(), out.data(), counts.data(), places.data(),
                        UCFT_UINT64, &options, &result),
        "allgatherv");
  if (result.missing_count + static_cast<int>(result.contributors) != size_)
    wrong("iteration {}: {} missing, {} contributors", iteration, result.missing_count, result.contributors);
  missing.resize(static_cast<std::size_t>(result.missing_count));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const bool is_missing = std::binary_search(missing.begin(), missing.end(), static_cast<std::int32_t>(rank));
    if (is_missing && rank == me) wrong("iteration {}: this rank's own block is missing", iteration);
    if (out[places[rank] - 1] != hole) wrong("iteration {}: written before the block of rank {}", iteration, rank);
    for (std::size_t i = 0; i < counts[rank]; ++i)
      if (out[places[rank] + i] != (is_missing ? hole : word_of(rank)))
        wrong("iteration {}: word {} of rank {}'s block is {:x}", iteration, i, rank, out[places[rank] + i]);
  }
  for (std::int32_t rank : missing) note(static_cast<std::uint64_t>(rank));
}

PostedSum post_sum(int iteration, std::size_t count) {
  const ucft_operator_t op = UCFT_OPERATOR_INIT(UCFT_SUM);
  PostedSum sum{iteration, std::vector<std::uint64_t>(count, (std::uint64_t{1} << rank_) + salt(iteration)),
                std::vector<std::uint64_t>(count)};
  check(ucft_allreduce_init(comm, sum.in.data(), sum.out.data(), count, UCFT_UINT64, &op, nullptr, &sum.request),
        "init");
  while (true) {
    const ucft_status_t status = ucft_post(sum.request);
    if (status == UCFT_OK) return sum;
    expect(status, UCFT_ERR_BUSY, "post");
    check(ucft_progress(context), "progress");
  }
}

void finish(PostedSum& sum) {
  while (ucft_test(sum.request) == UCFT_INPROGRESS) {}
  check(ucft_wait(sum.request, 0), "wait");
  ucft_result_t result = UCFT_RESULT_INIT;
  check(ucft_request_result(sum.request, &result), "result");
  decode(sum.out[0], result, sum.iteration);
  for (std::uint64_t word : sum.out)
    if (word != sum.out[0]) wrong("iteration {}: elements with different contributors", sum.iteration);
  note(sum.out[0]);
  check(ucft_request_free(sum.request), "free");
}

void several(int iteration) {
  std::vector<PostedSum> sums;
  for (int i = 0; i < 4; ++i) sums.push_back(post_sum(iteration + i, 1));
  ucft_request_h barrier = UCFT_REQUEST_NULL;
  check(ucft_barrier_init(comm, nullptr, &barrier), "barrier_init");
  ucft_status_t ended;
  while ((ended = ucft_post_and_wait(barrier, UINT64_MAX)) == UCFT_ERR_BUSY) check(ucft_progress(context), "progress");
  check(ended, "post and wait");
  check(ucft_request_free(barrier), "free");
  for (; !sums.empty(); sums.pop_back()) finish(sums.back());
}

void reduce_with_other_roots(int root) {
  std::uint64_t in = 1, out = 77;
  const ucft_status_t status = ucft_reduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, root, nullptr, nullptr);
  if (rank_ == root || status != UCFT_OK) expect(status, UCFT_ERR_MISMATCH, "reduce");
  if (out != 77) wrong("a result was written: {}", out);
  for (int i = 1; i < 4; ++i)
    if (allreduce(i, 1) != 0) wrong("iteration {}: a rank is missing", i);
}

}  // namespace ucft::detail::test
