#include "tests/ucx/operations.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
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

namespace {

// The result of an operation that names the missing: in ascending order, and the same on all ranks.
struct Named {
  std::vector<std::int32_t> missing = std::vector<std::int32_t>(static_cast<std::size_t>(size_));
  ucft_result_t result = UCFT_RESULT_INIT;

  Named() {
    result.missing = missing.data();
    result.missing_capacity = size_;
  }
  void take(int iteration) {
    take(iteration, size_);
    for (std::int32_t rank : missing) note(static_cast<std::uint64_t>(rank));
  }
  // Of a result of so many ranks.
  void take(int iteration, int ranks) {
    if (result.missing_count + static_cast<int>(result.contributors) != ranks)
      wrong("iteration {}: {} missing, {} contributors", iteration, result.missing_count, result.contributors);
    missing.resize(static_cast<std::size_t>(result.missing_count));
    if (has(rank_)) wrong("iteration {}: this rank itself is missing", iteration);
    if (!missing.empty() && missing.back() >= ranks) wrong("iteration {}: a rank that can't be missing is", iteration);
  }
  bool has(int rank) const { return std::binary_search(missing.begin(), missing.end(), rank); }
};

// Of each rank: 0, count or 2 * count, or where they don't differ count.
std::vector<std::uint64_t> counts_of_ranks(int iteration, std::size_t count, bool differ) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(size_), count);
  for (std::size_t rank = 0; differ && rank < counts.size(); ++rank)
    counts[rank] = (rank + static_cast<std::size_t>(iteration)) % 3 * count;
  return counts;
}

}  // namespace

void allgather(int iteration, std::size_t count) {
  constexpr std::uint64_t hole = 3;
  const auto ranks = static_cast<std::size_t>(size_), me = static_cast<std::size_t>(rank_);
  const auto word_of = [&](std::size_t rank) { return (rank + 1) * 1000 + salt(iteration); };
  const std::vector<std::uint64_t> counts = counts_of_ranks(iteration, count, true);
  std::vector<std::uint64_t> places(ranks), out;
  for (std::size_t rank = 0, end = 0; rank < ranks; ++rank) {
    places[rank] = ++end;
    end += counts[rank];
    out.resize(end, hole);
  }
  const bool in_place = iteration % 2 == 0;
  const std::vector<std::uint64_t> in(counts[me], word_of(me));
  if (in_place) std::copy(in.begin(), in.end(), out.begin() + static_cast<std::ptrdiff_t>(places[me]));
  Named named;
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.first_root = iteration % size_;
  options.failure_info = static_cast<ucft_failure_info_t>(iteration % 3);
  check(ucft_allgatherv(comm, in_place ? UCFT_IN_PLACE : in.data(), out.data(), counts.data(), places.data(),
                        UCFT_UINT64, &options, &named.result),
        "allgatherv");
  named.take(iteration);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const bool is_missing = named.has(static_cast<int>(rank));
    if (out[places[rank] - 1] != hole) wrong("iteration {}: written before the block of rank {}", iteration, rank);
    for (std::size_t i = 0; i < counts[rank]; ++i)
      if (out[places[rank] + i] != (is_missing ? hole : word_of(rank)))
        wrong("iteration {}: word {} of rank {}'s block is {:x}", iteration, i, rank, out[places[rank] + i]);
  }
}

void reduce_scatter(int iteration, std::size_t count) {
  constexpr std::uint64_t hole = 3, step = std::uint64_t{1} << 16;
  const auto ranks = static_cast<std::size_t>(size_), me = static_cast<std::size_t>(rank_);
  const bool has_counts = iteration % 3 == 0, in_place = iteration % 2 == 0;
  const std::vector<std::uint64_t> counts = counts_of_ranks(iteration, count, has_counts);
  const std::uint64_t first = std::accumulate(counts.begin(), counts.begin() + rank_, std::uint64_t{0}),
                      all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  std::vector<std::uint64_t> in(all), out(in_place ? 0 : counts[me] + 1, hole);
  for (std::size_t i = 0; i < all; ++i) in[i] = (std::uint64_t{1} << rank_) + salt(iteration) + i % 1000 * step;
  const std::vector<std::uint64_t> before = in;
  std::uint64_t* const to = in_place ? in.data() : out.data();
  const void* const from = in_place ? UCFT_IN_PLACE : in.data();
  std::vector<std::int32_t> missing(ranks);
  ucft_result_t result = UCFT_RESULT_INIT;
  result.missing = missing.data();
  result.missing_capacity = size_;
  check(has_counts ? ucft_reduce_scatterv(comm, from, to, counts.data(), UCFT_UINT64, UCFT_SUM, nullptr, &result)
                   : ucft_reduce_scatter(comm, from, to, count, UCFT_UINT64, UCFT_SUM, nullptr, &result),
        "reduce_scatter");
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < counts[me]; ++i) {
    const std::uint64_t sum = to[i] - result.contributors * ((first + i) % 1000 * step);
    if (i == 0) mask = decode(sum, result, iteration);
    if (sum != mask + result.contributors * salt(iteration))
      wrong("iteration {}: word {} of this rank's share is {:x}", iteration, i, to[i]);
  }
  if (counts[me] > 0) check_missing(mask, result, iteration);
  for (std::size_t i = counts[me]; in_place && i < all; ++i)
    if (in[i] != before[i]) wrong("iteration {}: written behind the share, at {}", iteration, i);
  if (!in_place && (out.back() != hole || in != before)) wrong("iteration {}: written beside the share", iteration);
  note(result.contributors);
}

void reduce_scatter_bytes(int iteration, std::size_t count) {
  const std::size_t first = static_cast<std::size_t>(rank_) * count;
  const auto byte_at = [&](std::size_t place) {
    return static_cast<std::uint8_t>(place % 7 + static_cast<std::size_t>(iteration));
  };
  std::vector<std::uint8_t> in(static_cast<std::size_t>(size_) * count), out(count);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = byte_at(i);
  ucft_result_t result = UCFT_RESULT_INIT;
  check(ucft_reduce_scatter(comm, in.data(), out.data(), count, UCFT_UINT8, UCFT_SUM, nullptr, &result),
        "reduce_scatter of bytes");
  for (std::size_t i = 0; i < count; ++i)
    if (out[i] != static_cast<std::uint8_t>(result.contributors * byte_at(first + i)))
      wrong("iteration {}: byte {} of this rank's share is {}", iteration, i, out[i]);
}

void scatter(int iteration, int root, std::size_t count, const ucft_coll_options_t* options) {
  constexpr std::uint64_t hole = 3;
  const auto me = static_cast<std::size_t>(rank_);
  const bool has_counts = iteration % 3 == 0, in_place = rank_ == root && iteration % 2 == 0;
  const std::vector<std::uint64_t> counts = counts_of_ranks(iteration, count, has_counts);
  const std::uint64_t first = std::accumulate(counts.begin(), counts.begin() + rank_, std::uint64_t{0}),
                      all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const auto word_at = [&](std::uint64_t place) { return place * 5 + salt(iteration); };
  std::vector<std::uint64_t> in(rank_ == root ? all : 0), out(counts[me] + 1, hole);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = word_at(i);
  void* const to = in_place ? const_cast<void*>(UCFT_IN_PLACE) : out.data();
  const ucft_status_t status =
      has_counts ? ucft_scatterv(comm, in.data(), to, counts.data(), UCFT_UINT64, root, options, nullptr)
                 : ucft_scatter(comm, in.data(), to, count, UCFT_UINT64, root, options, nullptr);
  if (status != UCFT_OK && status != UCFT_ERR_ROOT_FAILED) wrong("scatter: {}", ucft_last_error());
  const bool is_there = status == UCFT_OK && !in_place;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i] != (is_there && i < counts[me] ? word_at(first + i) : hole))
      wrong("iteration {}: word {} of this rank's share is {:x}", iteration, i, out[i]);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i] != word_at(i)) wrong("iteration {}: scatter has written to its input", iteration);
  note(static_cast<std::uint64_t>(status));
}

void alltoall(int iteration, std::size_t count) {
  constexpr std::uint64_t hole = 3;
  const auto ranks = static_cast<std::size_t>(size_);
  const bool in_place = iteration % 2 == 0;
  const auto word_of = [&](std::size_t from, std::size_t to, std::size_t i) {
    return (from * 100 + to) * 1000000 + salt(iteration) + i;
  };
  std::vector<std::uint64_t> in(ranks * count), out(ranks * count + 1, hole);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = word_of(static_cast<std::size_t>(rank_), i / count, i % count);
  if (in_place) std::copy(in.begin(), in.end(), out.begin());
  const std::vector<std::uint64_t> before = out;
  Named named;
  check(
      ucft_alltoall(comm, in_place ? UCFT_IN_PLACE : in.data(), out.data(), count, UCFT_UINT64, nullptr, &named.result),
      "alltoall");
  named.take(iteration);
  // Of a dead rank's share the first rounds may have come.
  const bool in_rounds = std::getenv("UCFT_TEST_SHORT_ROUNDS") != nullptr;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint64_t given = word_of(i / count, static_cast<std::size_t>(rank_), i % count);
    const bool is_missing = named.has(static_cast<int>(i / count)),
               follows = i % count == 0 || out[i - 1] != before[i - 1];
    const bool has_come = in_rounds && follows && out[i] == given;
    if (!has_come && out[i] != (is_missing ? before[i] : given))
      wrong("iteration {}: word {} of rank {}'s share is {}", iteration, i % count, i / count, out[i]);
  }
  if (out.back() != hole) wrong("iteration {}: written behind the shares", iteration);
}

void alltoallv(int iteration, std::size_t count, const ucft_coll_options_t* options) {
  constexpr std::uint64_t hole = 3;
  const auto ranks = static_cast<std::size_t>(size_), me = static_cast<std::size_t>(rank_);
  const bool in_place = iteration % 3 == 0, has_holes = iteration % 2 == 0;
  const auto count_of = [&](std::size_t from, std::size_t to) {
    const std::size_t low = std::min(from, to), high = std::max(from, to);  // in place a pair gives each other as much
    return (in_place ? low * 2 + high * 3 + salt(iteration) : from * 2 + to + salt(iteration)) % 3 * count;
  };
  const auto word_of = [&](std::size_t from, std::size_t to, std::size_t i) {
    return (from * 100 + to) * 1000000 + salt(iteration) + i;
  };
  std::vector<std::uint64_t> send_counts, send_places, recv_counts, recv_places, in, out;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (has_holes) in.push_back(hole);
    send_counts.push_back(count_of(me, rank));
    send_places.push_back(in.size());
    for (std::size_t i = 0; i < send_counts.back(); ++i) in.push_back(word_of(me, rank, i));
    out.push_back(hole);
    recv_counts.push_back(count_of(rank, me));
    recv_places.push_back(out.size());
    out.resize(out.size() + recv_counts.back(), hole);
    for (std::size_t i = 0; in_place && i < recv_counts.back(); ++i) out[recv_places.back() + i] = word_of(me, rank, i);
  }
  std::vector<std::uint64_t> expected = out;
  Named named;
  check(ucft_alltoallv(comm, in_place ? UCFT_IN_PLACE : in.data(), in_place ? nullptr : send_counts.data(),
                       has_holes ? send_places.data() : nullptr, out.data(), recv_counts.data(), recv_places.data(),
                       UCFT_UINT64, options, &named.result),
        "alltoallv");
  named.take(iteration);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < recv_counts[rank] && !named.has(static_cast<int>(rank)); ++i)
      expected[recv_places[rank] + i] = word_of(rank, me, i);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i] != expected[i]) wrong("iteration {}: word {} of what all have given is {}", iteration, i, out[i]);
}

void scan(int iteration, std::size_t count) {
  constexpr std::uint64_t hole = 3;
  const bool in_place = iteration % 3 == 0, with_own = iteration % 2 == 0;
  const auto word_of = [&](int rank, std::size_t i) {
    return (std::uint64_t{1} << rank) * 1000 + salt(iteration) + i % 1000;
  };
  std::vector<std::uint64_t> in(count), out(count + 1, hole);
  for (std::size_t i = 0; i < count; ++i) in[i] = word_of(rank_, i);
  if (in_place) std::copy(in.begin(), in.end(), out.begin());
  const std::vector<std::uint64_t> before = out;
  Named named;
  const void* const from = in_place ? UCFT_IN_PLACE : in.data();
  check(with_own ? ucft_scan(comm, from, out.data(), count, UCFT_UINT64, UCFT_SUM, nullptr, &named.result)
                 : ucft_exscan(comm, from, out.data(), count, UCFT_UINT64, UCFT_SUM, nullptr, &named.result),
        "scan");
  const int ranks = rank_ + with_own;
  named.take(iteration, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank)
      if (!named.has(rank)) sum += word_of(rank, i);
    if (out[i] != (named.result.contributors > 0 ? sum : before[i]))
      wrong("iteration {}: word {} of the scan is {}", iteration, i, out[i]);
  }
  if (out.back() != hole) wrong("iteration {}: written behind the scan", iteration);
  // Each rank knows of those up to its own. A value is in all of their results, or in none.
  std::uint64_t known[2] = {};
  for (int rank = 0; rank < ranks; ++rank) known[named.has(rank)] |= std::uint64_t{1} << rank;
  check(ucft_allreduce(comm, UCFT_IN_PLACE, known, 2, UCFT_UINT64, UCFT_BOR, nullptr, nullptr), "who is in a scan");
  if ((known[0] & known[1]) != 0) wrong("iteration {}: a value is in the scan of some ranks alone", iteration);
}

void gather(int iteration, int root, std::size_t count) {
  constexpr std::uint64_t hole = 3;
  const auto ranks = static_cast<std::size_t>(size_), me = static_cast<std::size_t>(rank_);
  const auto word_of = [&](std::size_t rank) { return (rank + 1) * 1000 + salt(iteration); };
  const bool in_place = rank_ == root && iteration % 2 == 0, has_counts = iteration % 3 == 0;
  const std::vector<std::uint64_t> counts = counts_of_ranks(iteration, count, has_counts);
  std::vector<std::uint64_t> places(ranks);
  std::uint64_t end = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    places[rank] = end += has_counts;  // a hole before each
    end += counts[rank];
  }
  const std::vector<std::uint64_t> in(counts[me], word_of(me));
  std::vector<std::uint64_t> out(rank_ == root ? end : 0, hole);
  if (in_place) std::copy(in.begin(), in.end(), out.begin() + static_cast<std::ptrdiff_t>(places[me]));
  std::vector<std::int32_t> missing(ranks);
  ucft_result_t result = UCFT_RESULT_INIT;
  result.missing = missing.data();
  result.missing_capacity = size_;
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.failure_info = static_cast<ucft_failure_info_t>(iteration % 3);
  const void* const from = in_place ? UCFT_IN_PLACE : in.data();
  const auto* const not_looked_at = reinterpret_cast<const std::uint64_t*>(8);
  const ucft_status_t status =
      has_counts ? ucft_gatherv(comm, from, out.data(), counts.data(), rank_ == root ? places.data() : not_looked_at,
                                UCFT_UINT64, root, &options, &result)
                 : ucft_gather(comm, from, out.data(), count, UCFT_UINT64, root, &options, &result);
  if (status != UCFT_OK && status != UCFT_ERR_ROOT_FAILED) wrong("gather: {}", ucft_last_error());
  if (rank_ != root && (result.contributors != 0 || result.missing_count != -1))
    wrong("iteration {}: {} contributors and {} missing away from the root", iteration, result.contributors,
          result.missing_count);
  if (rank_ != root) return;
  if (status != UCFT_OK) wrong("gather at its root: {}", ucft_last_error());
  if (result.missing_count + static_cast<int>(result.contributors) != size_)
    wrong("iteration {}: {} missing, {} contributors", iteration, result.missing_count, result.contributors);
  missing.resize(static_cast<std::size_t>(result.missing_count));
  if (std::ranges::binary_search(missing, rank_)) wrong("iteration {}: the root's own block is missing", iteration);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const bool is_missing = std::ranges::binary_search(missing, static_cast<std::int32_t>(rank));
    if (has_counts && out[places[rank] - 1] != hole) wrong("iteration {}: written before rank {}", iteration, rank);
    for (std::size_t i = 0; i < counts[rank]; ++i)
      if (out[places[rank] + i] != (is_missing ? hole : word_of(rank)))
        wrong("iteration {}: word {} of rank {}'s block is {:x}", iteration, i, rank, out[places[rank] + i]);
  }
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
