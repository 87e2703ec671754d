// Through faults of links and nodes: what is expected of these ranks is in tests/rdma/fault_test.cpp, which makes the
// faults.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/ranks.hpp"

namespace ucft::detail::test {
namespace {

// survive MILLISECONDS LARGE: all operations in turn, through any faults, until some rank has run for that long (all
// learn of it in the same operation). Says its pid when it begins and, at the end, how long the slowest operation took.
// More than f failures are an error like any other result; to be out of the job ends it: "OUT ...".
RANKS(survive) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::milliseconds(std::stol(arguments.at(0)));
  const std::size_t large = std::stoul(arguments.at(1));
  std::chrono::nanoseconds slowest{0};
  int operations = 0;
  const auto timed = [&](auto&& run) {
    const auto before = Clock::now();
    const ucft_status_t status = run();
    slowest = std::max<std::chrono::nanoseconds>(slowest, Clock::now() - before);
    ++operations;
    if (status == UCFT_ERR_EXCLUDED || status == UCFT_ERR_PARTITION) {
      fmt::print("OUT {} {}\n", ucft_status_name(status), ucft_last_error());
      check(ucft_context_destroy(context), "destroy");
      std::exit(0);
    }
    if (status != UCFT_OK && status != UCFT_ERR_TOO_MANY_FAILURES && status != UCFT_ERR_ROOT_FAILED)
      wrong("operation {}: {}: {}", operations, ucft_status_name(status), ucft_last_error());
    return status;
  };
  bool stop = false, misses = false;
  for (int i = 0; !stop; ++i) {
    const std::size_t count = i % 4 == 3 ? large : 2;
    std::vector<std::uint64_t> in(count, (std::uint64_t{1} << rank_) + salt(i)), out(count);
    in[1] = Clock::now() >= end;
    ucft_result_t result = UCFT_RESULT_INIT;
    ucft_status_t status = timed(
        [&] { return ucft_allreduce(comm, in.data(), out.data(), count, UCFT_UINT64, UCFT_SUM, nullptr, &result); });
    note(static_cast<std::uint64_t>(status));
    if (status == UCFT_OK) {
      decode(out[0], result, i);
      if (result.missing_count > 0 && !std::exchange(misses, true)) {
        fmt::print("MISSES {}\n", result.missing_count);
        std::fflush(stdout);
      }
      for (std::size_t k = 2; k < count; ++k)
        if (out[k] != out[0]) wrong("iteration {}: elements with different contributors", i);
      note(out[0]);
      stop = out[1] != 0;
    }
    if (i == 0) say_started();
    const int root = i % size_;
    std::vector<std::uint64_t> data(i % 3 == 0 ? large : 3, rank_ == root ? 77 + salt(i) : 5);
    status = timed([&] { return ucft_broadcast(comm, data.data(), data.size(), UCFT_UINT64, root, nullptr, nullptr); });
    note(static_cast<std::uint64_t>(status));
    for (std::uint64_t word : data)
      if (status == UCFT_OK ? word != 77 + salt(i) : (rank_ != root && word != 5))
        wrong("iteration {}: broadcast left {:x}", i, word);
    if (i % 5 == 0) {
      result = UCFT_RESULT_INIT;
      status = timed(
          [&] { return ucft_reduce(comm, in.data(), out.data(), 1, UCFT_UINT64, UCFT_SUM, root, nullptr, &result); });
      if (rank_ == root && status == UCFT_OK) decode(out[0], result, i);
    }
    if (i % 7 == 0) note(static_cast<std::uint64_t>(timed([&] { return ucft_barrier(comm, nullptr, nullptr); })));
  }
  fmt::print("SLOWEST {} ms of {} operations\n", slowest.count() / 1000000, operations);
}

// late_write MILLISECONDS: large payloads in the caller's own memory until somebody has been declared dead, as all
// survivors agree. Then all of that memory is given back, taken again and filled, and must stay as it is while the dead
// one, who may be alive, has its say.
RANKS(late_write) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t count = 8192, rounds = 4;
  std::uint64_t* memory[2 * rounds] = {};
  const auto take = [&] {
    for (auto& each : memory) {
      void* fresh = nullptr;
      check(ucft_alloc(context, count * 8, &fresh), "alloc");
      each = static_cast<std::uint64_t*>(fresh);
    }
  };
  take();
  std::fill_n(memory[0], count, 1);
  say_started();
  ucft_status_t status = UCFT_OK;
  ucft_result_t result = UCFT_RESULT_INIT;
  result.contributors = static_cast<std::uint32_t>(size_);
  for (std::size_t i = 0; status == UCFT_OK && result.contributors == static_cast<std::uint32_t>(size_); ++i) {
    std::uint64_t* in = memory[2 * (i % rounds)];
    std::fill_n(in, count, i);
    status = ucft_allreduce(comm, in, memory[2 * (i % rounds) + 1], count, UCFT_UINT64, UCFT_SUM, nullptr, &result);
  }
  for (auto& each : memory) check(ucft_free(context, each), "free");
  take();
  std::vector<std::uint64_t> heap(count * rounds,
                                  0xa5a5a5a5a5a5a5a5u);  // where results of the library's own may have been
  for (auto* each : memory) std::fill_n(each, count, 0xa5a5a5a5a5a5a5a5u);
  const auto end = Clock::now() + std::chrono::milliseconds(std::stol(arguments.at(0)));
  std::uint64_t done = 0;
  for (int i = 0; status == UCFT_OK && done == 0; ++i) {
    const std::uint64_t mine = Clock::now() >= end;
    status = ucft_allreduce(comm, &mine, &done, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr);
    for (const auto* each : memory)
      for (std::size_t k = 0; k < count; ++k)
        if (each[k] != 0xa5a5a5a5a5a5a5a5u) wrong("a late write: {:x} at {}", each[k], k);
    for (std::uint64_t word : heap)
      if (word != 0xa5a5a5a5a5a5a5a5u) wrong("a late write into the heap: {:x}", word);
  }
  if (status == UCFT_OK) return;
  if (status != UCFT_ERR_EXCLUDED && status != UCFT_ERR_PARTITION)
    wrong("{}: {}", ucft_status_name(status), ucft_last_error());
  fmt::print("OUT {} {}\n", ucft_status_name(status), ucft_last_error());
  check(ucft_context_destroy(context), "destroy");
  std::exit(0);
}

}  // namespace
}  // namespace ucft::detail::test
