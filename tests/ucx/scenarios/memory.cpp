// The caller's memory, and what large payloads are sent in.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

// Every rank lends its own memory, the root dies half way, and nobody posts anything afterwards.
RANKS(lent) {
  constexpr std::size_t count = 1000;
  void *in_memory = nullptr, *out_memory = nullptr;
  check(ucft_alloc(context, count * 8, &in_memory), "alloc");
  check(ucft_alloc(context, count * 8, &out_memory), "alloc");
  auto* in = static_cast<std::uint64_t*>(in_memory);
  auto* out = static_cast<std::uint64_t*>(out_memory);
  for (int i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < count; ++k) in[k] = std::uint64_t{1} << rank_;
    ucft_result_t result = UCFT_RESULT_INIT;
    check(ucft_allreduce(comm, in, out, count, UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce");
    note(decode(out[0], result, 0));
  }
}

TEST_P(Scenario, LentMemoryComesBackWhenTheRootDies) {
  for (int send = 0; send < 10; ++send) {
    JobPlan made = plan(3, lent);
    made.launcher = {"--expect-kill", "0"};
    made.environment["UCFT_TEST_KILL"] = "0:send:" + std::to_string(send);
    expect_right(made, {0});
  }
}

// Big vectors straight from ucft_alloc, in place and not; results also where no vector instruction wants them.
RANKS(allocated) {
  const std::size_t count = std::stoul(arguments.at(0));
  void *in_memory = nullptr, *out_memory = nullptr;
  check(ucft_alloc(context, count * 8, &in_memory), "alloc");
  check(ucft_alloc(context, (count + 1) * 8, &out_memory), "alloc");
  auto* in = static_cast<double*>(in_memory);
  for (int i = 0; i < (count > 1000000 ? 2 : 20); ++i) {
    double* const out = static_cast<double*>(out_memory) + i % 2;
    for (std::size_t k = 0; k < count; ++k) in[k] = rank_ + 1 + static_cast<double>(k % 7) + i;
    check(ucft_allreduce(comm, in, out, count, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr), "allreduce");
    for (std::size_t k = 0; k < count; ++k)
      if (out[k] != size_ * (size_ + 1) / 2.0 + size_ * (static_cast<double>(k % 7) + i))
        wrong("element {}: {}", k, out[k]);
    check(ucft_allreduce(comm, UCFT_IN_PLACE, in, count, UCFT_DOUBLE, UCFT_MAX, nullptr, nullptr), "in place");
    for (std::size_t k = 0; k < count; ++k)
      if (in[k] != size_ + static_cast<double>(k % 7) + i) wrong("in place, element {}: {}", k, in[k]);
  }
  check(ucft_free(context, in_memory), "free");
  expect(ucft_free(context, in_memory), UCFT_ERR_INVALID_PARAM, "free twice");
}

TEST_P(Scenario, MemoryOfUcftAllocIsReadInPlace) {
  for (const char* count : {"1", "256", "257", "100000", "300001", "1100001"})
    expect_right(plan(3, allocated, {count}));
}

// More payloads between two ranks than one may have open: eight communicators, eight operations each.
RANKS(many_payloads) {
  constexpr std::size_t comms = 10, each = 8, count = 600;
  std::vector<ucft_comm_h> copies(comms);
  for (ucft_comm_h& copy : copies) check(ucft_comm_dup(comm, &copy), "dup");
  std::vector<std::vector<std::uint64_t>> in(comms * each, std::vector<std::uint64_t>(count, 3)), out = in;
  std::vector<ucft_request_h> requests(comms * each);
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      check(ucft_allreduce_init(copies[i % comms], in[i].data(), out[i].data(), count, UCFT_UINT64, &sum, nullptr,
                                &requests[i]),
            "init");
      while (ucft_post(requests[i]) == UCFT_ERR_BUSY) check(ucft_progress(context), "progress");
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      check(ucft_wait(requests[i], UINT64_MAX), "wait");
      for (std::uint64_t word : out[i])
        if (word != 3 * static_cast<std::uint64_t>(size_)) wrong("operation {}: {}", i, word);
      check(ucft_request_free(requests[i]), "free");
    }
  }
  for (ucft_comm_h copy : copies) check(ucft_comm_destroy(copy), "destroy");
}

TEST_P(Scenario, MorePayloadsThanTicketsGetThrough) {
  for (int ranks : {2, 3}) expect_right(plan(ranks, many_payloads));
}

}  // namespace
}  // namespace ucft::detail::test
