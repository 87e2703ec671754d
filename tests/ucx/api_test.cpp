// Bad input through the public header, in a job of one rank: each gets a status and a message that names the culprit;
// nothing aborts, and the next call works. Links the shared library: what is not exported does not link.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <list>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "ucft/ucft.h"
#include "ucft/ucft.hpp"

namespace {

class Api : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ucft_context_create(nullptr, &context_), UCFT_OK) << ucft_last_error();
    ASSERT_EQ(ucft_comm_create(context_, &comm_), UCFT_OK) << ucft_last_error();
  }
  void TearDown() override { EXPECT_EQ(ucft_context_destroy(context_), UCFT_OK) << ucft_last_error(); }

  void expect_blamed(ucft_status_t status, ucft_status_t expected, const char* culprit) {
    EXPECT_EQ(status, expected) << ucft_status_name(status);
    EXPECT_NE(std::strstr(ucft_last_error(), culprit), nullptr)
        << "'" << ucft_last_error() << "' does not name '" << culprit << "'";
    expect_works();
  }
  void expect_works() {
    double in = 2, out = 0;
    EXPECT_EQ(ucft_allreduce(comm_, &in, &out, 1, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr), UCFT_OK)
        << ucft_last_error();
    EXPECT_EQ(out, 2);
  }

  ucft_context_h context_ = UCFT_CONTEXT_NULL;
  ucft_comm_h comm_ = UCFT_COMM_NULL;
  double in_ = 1, out_ = 0;
};

TEST_F(Api, AWorldOfOneCompletesEverything) {
  std::vector<double> in(100000, 3), out(100000, 0);
  ucft_result_t result = UCFT_RESULT_INIT;
  EXPECT_EQ(ucft_allreduce(comm_, in.data(), out.data(), in.size(), UCFT_DOUBLE, UCFT_PROD, nullptr, &result), UCFT_OK);
  EXPECT_EQ(out, in);
  EXPECT_EQ(result.contributors, 1u);
  EXPECT_EQ(result.missing_count, 0);
  EXPECT_EQ(ucft_reduce(comm_, in.data(), out.data(), 5, UCFT_DOUBLE, UCFT_SUM, 0, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(ucft_broadcast(comm_, in.data(), in.size(), UCFT_DOUBLE, 0, nullptr, nullptr), UCFT_OK);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ucft_barrier(comm_, nullptr, nullptr), UCFT_OK);
}

TEST_F(Api, AnAllgatherOfOneRankIsItsBlock) {
  std::vector<double> in(100000, 3), out(100000, 0);
  ucft_result_t result = UCFT_RESULT_INIT;
  EXPECT_EQ(ucft_allgather(comm_, in.data(), out.data(), in.size(), UCFT_DOUBLE, nullptr, &result), UCFT_OK)
      << ucft_last_error();
  EXPECT_EQ(out, in);
  EXPECT_EQ(result.contributors, 1u);
  EXPECT_EQ(result.missing_count, 0);
  const std::uint64_t count = 3, place = 7;
  std::vector<double> holes(12, 1);
  EXPECT_EQ(ucft_allgatherv(comm_, in.data(), holes.data(), &count, &place, UCFT_DOUBLE, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(holes, (std::vector<double>{1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 1, 1}));
  ucft_request_h request = UCFT_REQUEST_NULL;
  ASSERT_EQ(ucft_allgatherv_init(comm_, UCFT_IN_PLACE, holes.data(), &count, &place, UCFT_DOUBLE, nullptr, &request),
            UCFT_OK);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ucft_post(request), UCFT_OK);
    EXPECT_EQ(ucft_wait(request, UINT64_MAX), UCFT_OK);
  }
  EXPECT_EQ(holes, (std::vector<double>{1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 1, 1}));
  EXPECT_EQ(ucft_request_free(request), UCFT_OK);
}

TEST_F(Api, AReduceScatterOfOneRankIsItsInput) {
  std::vector<double> in(1000, 3), out(1000, 0);
  const std::uint64_t counts[] = {1000};
  ucft_result_t result = UCFT_RESULT_INIT;
  EXPECT_EQ(ucft_reduce_scatter(comm_, in.data(), out.data(), in.size(), UCFT_DOUBLE, UCFT_SUM, nullptr, &result),
            UCFT_OK)
      << ucft_last_error();
  EXPECT_EQ(out, in);
  EXPECT_EQ(result.contributors, 1u);
  EXPECT_EQ(result.missing_count, 0);
  out.assign(1000, 0);
  EXPECT_EQ(ucft_reduce_scatterv(comm_, in.data(), out.data(), counts, UCFT_DOUBLE, UCFT_AVG, nullptr, nullptr),
            UCFT_OK)
      << ucft_last_error();
  EXPECT_EQ(out, in);
  EXPECT_EQ(ucft_reduce_scatter(comm_, UCFT_IN_PLACE, out.data(), 0, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr), UCFT_OK);
  const auto blame = [&](const void* send, void* recv, std::uint64_t count, ucft_op_t op, const char* culprit) {
    expect_blamed(ucft_reduce_scatter(comm_, send, recv, count, UCFT_DOUBLE, op, nullptr, nullptr),
                  UCFT_ERR_INVALID_PARAM, culprit);
  };
  blame(in.data(), nullptr, 4, UCFT_SUM, "recv is null");
  blame(nullptr, out.data(), 4, UCFT_SUM, "send is null");
  blame(in.data(), in.data() + 1, 4, UCFT_SUM, "send and recv overlap");
  blame(in.data(), out.data(), 4, UCFT_BAND, "op is UCFT_BAND");
  blame(in.data(), out.data(), std::uint64_t{1} << 60, UCFT_SUM, "count is");
  expect_blamed(ucft_reduce_scatterv(comm_, in.data(), out.data(), nullptr, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr),
                UCFT_ERR_INVALID_PARAM, "counts is null");
  const std::uint64_t most[] = {std::uint64_t{1} << 60};
  expect_blamed(ucft_reduce_scatterv(comm_, in.data(), out.data(), most, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr),
                UCFT_ERR_INVALID_PARAM, "counts[0] is");
}

TEST_F(Api, AScatterOfOneRankIsItsInput) {
  std::vector<double> in(1000, 3), out(1000, 0);
  const std::uint64_t counts[] = {1000};
  ucft_result_t result = UCFT_RESULT_INIT;
  EXPECT_EQ(ucft_scatter(comm_, in.data(), out.data(), in.size(), UCFT_DOUBLE, 0, nullptr, &result), UCFT_OK)
      << ucft_last_error();
  EXPECT_EQ(out, in);
  EXPECT_EQ(result.contributors, 1u);
  out.assign(1000, 0);
  EXPECT_EQ(ucft_scatterv(comm_, in.data(), out.data(), counts, UCFT_DOUBLE, 0, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(out, in);
  void* const in_place = const_cast<void*>(UCFT_IN_PLACE);
  EXPECT_EQ(ucft_scatter(comm_, in.data(), in_place, in.size(), UCFT_DOUBLE, 0, nullptr, nullptr), UCFT_OK);
  const auto blame = [&](const void* send, void* recv, std::int32_t root, const char* culprit) {
    expect_blamed(ucft_scatter(comm_, send, recv, 4, UCFT_DOUBLE, root, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                  culprit);
  };
  blame(in.data(), nullptr, 0, "recv is null");
  blame(nullptr, out.data(), 0, "send is null");
  blame(UCFT_IN_PLACE, out.data(), 0, "send is UCFT_IN_PLACE");
  blame(in.data(), in.data() + 1, 0, "send and recv overlap");
  blame(in.data(), in.data(), 0, "send and recv overlap");
  blame(in.data(), out.data(), 1, "root is 1");
  expect_blamed(ucft_scatterv(comm_, in.data(), out.data(), nullptr, UCFT_DOUBLE, 0, nullptr, nullptr),
                UCFT_ERR_INVALID_PARAM, "counts is null");
}

TEST_F(Api, AScanOfOneRankIsItsInput) {
  std::vector<double> in(1000, 3), out(1000, 7);
  ucft_result_t result = UCFT_RESULT_INIT;
  EXPECT_EQ(ucft_scan(comm_, in.data(), out.data(), in.size(), UCFT_DOUBLE, UCFT_AVG, nullptr, &result), UCFT_OK);
  EXPECT_EQ(out, in);
  EXPECT_EQ(result.contributors, 1u);
  EXPECT_EQ(ucft_scan(comm_, UCFT_IN_PLACE, out.data(), 1000, UCFT_DOUBLE, UCFT_SUM_REPRODUCIBLE, nullptr, &result),
            UCFT_OK);
  EXPECT_EQ(out, in);
  std::int32_t number = 7;
  EXPECT_EQ(ucft_scan(comm_, UCFT_IN_PLACE, &number, 1, UCFT_INT32, UCFT_LAND, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(number, 1);
  out.assign(1000, 7);
  EXPECT_EQ(ucft_exscan(comm_, in.data(), out.data(), 1000, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(ucft_exscan(comm_, in.data(), nullptr, 1000, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr), UCFT_OK);
  expect_blamed(ucft_agree(comm_, nullptr, nullptr, nullptr), UCFT_ERR_INVALID_PARAM, "flags is null");
  EXPECT_EQ(out, std::vector<double>(1000, 7));
  EXPECT_EQ(ucft_alltoall(comm_, in.data(), out.data(), 1000, UCFT_DOUBLE, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(out, in);
  EXPECT_EQ(ucft_alltoall(comm_, UCFT_IN_PLACE, out.data(), 0, UCFT_DOUBLE, nullptr, nullptr), UCFT_OK);
  const auto blame = [&](const void* send, void* recv, std::uint64_t count, ucft_op_t op, const char* culprit) {
    expect_blamed(ucft_scan(comm_, send, recv, count, UCFT_DOUBLE, op, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                  culprit);
  };
  blame(in.data(), nullptr, 4, UCFT_SUM, "recv is null");
  blame(nullptr, out.data(), 4, UCFT_SUM, "send is null");
  blame(in.data(), in.data() + 1, 4, UCFT_SUM, "send and recv overlap");
  blame(in.data(), out.data(), 4, UCFT_BAND, "op is UCFT_BAND");
  blame(in.data(), out.data(), std::uint64_t{1} << 40, UCFT_SUM, "count is");
  expect_blamed(ucft_alltoall(comm_, in.data(), nullptr, 4, UCFT_DOUBLE, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                "recv is null");
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.reproducible_sweeps = 2;
  expect_blamed(ucft_scan(comm_, in.data(), out.data(), 4, UCFT_DOUBLE, UCFT_SUM_REPRODUCIBLE, &options, nullptr),
                UCFT_ERR_INVALID_PARAM, "options.reproducible_sweeps is 2: a scan takes one");
  ucft_request_h request = UCFT_REQUEST_NULL;
  expect_blamed(ucft_scan_init(comm_, in.data(), out.data(), 4, UCFT_DOUBLE, nullptr, nullptr, &request),
                UCFT_ERR_INVALID_PARAM, "op is null");
}

// An error names the one of the four arrays that is wrong.
TEST_F(Api, AnAlltoallvNamesTheArrayThatIsWrong) {
  const std::vector<double> in(10, 3);
  std::vector<double> out(10, 7);
  const std::uint64_t four = 4, five = 5, vast = std::uint64_t{1} << 40, far = std::uint64_t{1} << 60, two = 2;
  const auto call = [&](const void* send, const std::uint64_t* given, const std::uint64_t* at, void* recv,
                        const std::uint64_t* wanted, const std::uint64_t* to) {
    return ucft_alltoallv(comm_, send, given, at, recv, wanted, to, UCFT_DOUBLE, nullptr, nullptr);
  };
  const auto blame = [&](ucft_status_t status, const char* culprit) {
    expect_blamed(status, UCFT_ERR_INVALID_PARAM, culprit);
  };
  blame(call(in.data(), nullptr, nullptr, out.data(), &four, nullptr), "send_counts is null");
  blame(call(in.data(), &four, nullptr, out.data(), nullptr, nullptr), "recv_counts is null");
  blame(call(in.data(), &vast, nullptr, out.data(), &four, nullptr), "send_counts[0] is");
  blame(call(in.data(), &four, nullptr, out.data(), &vast, nullptr), "recv_counts[0] is");
  blame(call(in.data(), &four, &far, out.data(), &four, nullptr), "send_displacements[0] is");
  blame(call(in.data(), &four, nullptr, out.data(), &four, &far), "recv_displacements[0] is");
  blame(call(in.data(), &four, nullptr, out.data(), &five, nullptr), "send_counts[0] is 4, and recv_counts[0] 5");
  blame(call(nullptr, &four, nullptr, out.data(), &four, nullptr), "send is null");
  blame(call(in.data(), &four, nullptr, nullptr, &four, nullptr), "recv is null");
  blame(call(reinterpret_cast<void*>(64), &four, &two, out.data(), &four, nullptr), "that this host can read");
  blame(call(in.data(), &four, nullptr, reinterpret_cast<void*>(64), &four, nullptr), "that this host can write");
  blame(call(out.data(), &four, nullptr, out.data(), &four, &two), "send has for rank 0 overlaps");
  EXPECT_EQ(out, std::vector<double>(10, 7));
  EXPECT_EQ(call(out.data(), &four, &five, out.data(), &four, nullptr), UCFT_OK) << "apart in one buffer";
  EXPECT_EQ(call(in.data(), &four, &two, out.data(), &four, &five), UCFT_OK) << ucft_last_error();
  EXPECT_EQ(out, (std::vector<double>{7, 7, 7, 7, 7, 3, 3, 3, 3, 7}));
  EXPECT_EQ(call(UCFT_IN_PLACE, nullptr, nullptr, out.data(), &four, &five), UCFT_OK) << ucft_last_error();
  const std::uint64_t none = 0;
  EXPECT_EQ(call(nullptr, &none, nullptr, nullptr, &none, nullptr), UCFT_OK) << ucft_last_error();
  // Counts and displacements are of accumulators, if these are sent.
  ucft_accumulator_t from[3], to[3];
  for (ucft_accumulator_t& each : to) each = UCFT_ACCUMULATOR_INIT;
  for (ucft_accumulator_t& each : from) each = UCFT_ACCUMULATOR_INIT;
  const double values[] = {1, 2};
  ASSERT_EQ(ucft_accumulate(values, 2, UCFT_DOUBLE, &from[1]), UCFT_OK);
  const std::uint64_t one = 1;
  EXPECT_EQ(ucft_alltoallv(comm_, from, &one, &one, to, &one, &two, UCFT_ACCUMULATOR, nullptr, nullptr), UCFT_OK)
      << ucft_last_error();
  double sum = 0;
  EXPECT_EQ(ucft_accumulator_value(&to[2], UCFT_DOUBLE, &sum), UCFT_OK);
  EXPECT_EQ(sum, 3);
}

// Sums of accumulators are settled as those of an allreduce are; an exscan settles nothing that it has not written.
TEST_F(Api, AScanOfAccumulatorsIsOne) {
  ucft_accumulator_t in = UCFT_ACCUMULATOR_INIT, out = UCFT_ACCUMULATOR_INIT;
  const double values[] = {1e300, 3, -1e300};
  ASSERT_EQ(ucft_accumulate(values, 3, UCFT_DOUBLE, &in), UCFT_OK);
  double sum = 0;
  EXPECT_EQ(ucft_exscan(comm_, &in, &out, 1, UCFT_ACCUMULATOR, UCFT_SUM, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(ucft_accumulator_value(&out, UCFT_DOUBLE, &sum), UCFT_OK);
  EXPECT_EQ(sum, 0);
  EXPECT_EQ(ucft_scan(comm_, &in, &out, 1, UCFT_ACCUMULATOR, UCFT_SUM, nullptr, nullptr), UCFT_OK) << ucft_last_error();
  EXPECT_EQ(ucft_accumulator_value(&out, UCFT_DOUBLE, &sum), UCFT_OK) << ucft_last_error();
  EXPECT_EQ(sum, 3);
  expect_blamed(ucft_scan(comm_, &in, &out, 1, UCFT_ACCUMULATOR, UCFT_MAX, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                "UCFT_SUM only");
}

TEST_F(Api, AGatherOfOneRankIsItsBlock) {
  std::vector<double> in(100000, 3), out(100000, 0);
  ucft_result_t result = UCFT_RESULT_INIT;
  EXPECT_EQ(ucft_gather(comm_, in.data(), out.data(), in.size(), UCFT_DOUBLE, 0, nullptr, &result), UCFT_OK)
      << ucft_last_error();
  EXPECT_EQ(out, in);
  EXPECT_EQ(result.contributors, 1u);
  EXPECT_EQ(result.missing_count, 0);
  expect_blamed(ucft_gather(comm_, in.data(), nullptr, 4, UCFT_DOUBLE, 0, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                "recv is null");
  expect_blamed(ucft_gather(comm_, in.data(), out.data(), 4, UCFT_DOUBLE, 1, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                "root is 1");
}

TEST_F(Api, BlocksThatDoNotFitAreNamed) {
  double in[4] = {}, out[4] = {};
  const auto gather = [&](const void* send, void* recv, std::uint64_t count) {
    return ucft_allgather(comm_, send, recv, count, UCFT_DOUBLE, nullptr, nullptr);
  };
  expect_blamed(gather(nullptr, out, 4), UCFT_ERR_INVALID_PARAM, "send is null");
  expect_blamed(gather(in, nullptr, 4), UCFT_ERR_INVALID_PARAM, "recv is null");
  expect_blamed(gather(UCFT_IN_PLACE, nullptr, 4), UCFT_ERR_INVALID_PARAM, "recv (in place) is null");
  expect_blamed(gather(in, in + 1, 2), UCFT_ERR_INVALID_PARAM, "send overlaps the block of rank 0");
  expect_blamed(gather(in, reinterpret_cast<void*>(8), 4), UCFT_ERR_INVALID_PARAM,
                "the block of rank 0) is not memory");
  expect_blamed(gather(in, out, std::uint64_t{1} << 60), UCFT_ERR_INVALID_PARAM, "count is 1152921504606846976");
  expect_blamed(ucft_gatherv(comm_, in, out, nullptr, nullptr, UCFT_DOUBLE, 0, nullptr, nullptr),
                UCFT_ERR_INVALID_PARAM, "counts is null");
  const std::uint64_t huge = std::uint64_t{1} << 62, four = 4;
  expect_blamed(ucft_allgatherv(comm_, in, out, nullptr, nullptr, UCFT_DOUBLE, nullptr, nullptr),
                UCFT_ERR_INVALID_PARAM, "counts is null");
  expect_blamed(ucft_allgatherv(comm_, in, out, &huge, nullptr, UCFT_DOUBLE, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                "counts[0]");
  expect_blamed(ucft_allgatherv(comm_, in, out, &four, &huge, UCFT_DOUBLE, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                "displacements[0]");
  expect_blamed(ucft_allgather(comm_, in, out, 4, static_cast<ucft_dtype_t>(21), nullptr, nullptr),
                UCFT_ERR_INVALID_PARAM, "dtype is 21");
}

TEST_F(Api, CountZeroNeedsNoMemory) {
  EXPECT_EQ(ucft_allreduce(comm_, nullptr, nullptr, 0, UCFT_FLOAT, UCFT_SUM, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(ucft_broadcast(comm_, nullptr, 0, UCFT_FLOAT, 0, nullptr, nullptr), UCFT_OK);
}

TEST_F(Api, WrongValuesAreNamed) {
  const auto allreduce = [&](std::uint64_t count, int dtype, int op, const ucft_coll_options_t* options) {
    return ucft_allreduce(comm_, &in_, &out_, count, static_cast<ucft_dtype_t>(dtype), static_cast<ucft_op_t>(op),
                          options, nullptr);
  };
  expect_blamed(allreduce(1, 21, UCFT_SUM, nullptr), UCFT_ERR_INVALID_PARAM, "dtype is 21");
  expect_blamed(allreduce(1, -1, UCFT_SUM, nullptr), UCFT_ERR_INVALID_PARAM, "dtype is -1");
  expect_blamed(allreduce(1, UCFT_DOUBLE, 99, nullptr), UCFT_ERR_INVALID_PARAM, "op is 99");
  expect_blamed(allreduce(1, UCFT_DOUBLE, -1, nullptr), UCFT_ERR_INVALID_PARAM, "op is -1");
  expect_blamed(allreduce(1, UCFT_DOUBLE, UCFT_USER, nullptr), UCFT_ERR_INVALID_PARAM, "function is null");
  expect_blamed(allreduce(std::uint64_t{1} << 61, UCFT_DOUBLE, UCFT_SUM, nullptr), UCFT_ERR_INVALID_PARAM, "count is");
  expect_blamed(ucft_reduce(comm_, &in_, &out_, 1, UCFT_DOUBLE, UCFT_SUM, 1, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                "root is 1");
  expect_blamed(ucft_broadcast(comm_, &in_, 1, UCFT_DOUBLE, -1, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                "root is -1");
  const auto with = [](auto change) {
    ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
    change(options);
    return options;
  };
  const auto blame = [&](const ucft_coll_options_t& options, const char* culprit) {
    expect_blamed(allreduce(1, UCFT_DOUBLE, UCFT_SUM, &options), UCFT_ERR_INVALID_PARAM, culprit);
  };
  blame(with([](auto& o) { o.f = 1; }), "options.f is 1");
  blame(with([](auto& o) { o.f = -2; }), "options.f is -2");
  blame(with([](auto& o) { o.first_root = 5; }), "options.first_root is 5");
  blame(with([](auto& o) { o.tree = static_cast<ucft_tree_t>(9); }), "options.tree is 9");
  blame(with([](auto& o) { o.arity = -1; }), "options.arity is -1");
  blame(with([](auto& o) { o.tree = UCFT_TREE_KNOMIAL, o.arity = 1; }), "options.arity is 1: must be 2 ..");
  blame(with([](auto& o) { o.tree = UCFT_TREE_LAME, o.arity = 1025; }), "options.arity is 1025");
  blame(with([](auto& o) { o.tree = UCFT_TREE_OPTIMAL, o.tree_delay_quarters = 3; }),
        "options.tree_delay_quarters is 3");
  blame(with([](auto& o) { o.tree = UCFT_TREE_OPTIMAL, o.tree_delay_quarters = 4097; }),
        "options.tree_delay_quarters is 4097");
  blame(with([](auto& o) { o.tree = UCFT_TREE_LAME, o.numbering = UCFT_IN_ORDER; }),
        "options.numbering is UCFT_IN_ORDER and options.tree is lame");
  blame(with([](auto& o) { o.correction_delay_us = -1; }), "options.correction_delay_us is -1");
  blame(with([](auto& o) { o.tree = UCFT_TREE_GOSSIP, o.gossip_time_ns = -1; }), "options.gossip_time_ns is -1");
  blame(with([](auto& o) { o.tree = UCFT_TREE_GOSSIP, o.gossip_time_ns = 1000000001; }),
        "options.gossip_time_ns is 1000000001: must be 0 .. 1000000000");
  blame(with([](auto& o) { o.gossip_time_ns = 5000; }), "options.gossip_time_ns is 5000, and options.tree not");
  blame(with([](auto& o) { o.tree = UCFT_TREE_GOSSIP, o.numbering = UCFT_IN_ORDER; }), "there is no tree");
  blame(with([](auto& o) { o.tree = UCFT_TREE_AUTO_OR_GOSSIP, o.numbering = UCFT_IN_ORDER; }), "there may be no tree");
  blame(with([](auto& o) { o.tree = UCFT_TREE_AUTO_OR_GOSSIP, o.gossip_time_ns = 5000; }), "options.tree not");
  blame(with([](auto& o) { o.numbering = static_cast<ucft_numbering_t>(3); }), "options.numbering is 3");
  blame(with([](auto& o) { o.correction = static_cast<ucft_correction_t>(5); }), "options.correction is 5");
  blame(with([](auto& o) { o.correction_distance = -4; }), "options.correction_distance is -4");
  blame(with([](auto& o) { o.failure_info = static_cast<ucft_failure_info_t>(4); }), "options.failure_info is 4");
  blame(with([](auto& o) { o.uniform = 2; }), "options.uniform is 2: must be 0 or 1");
  blame(with([](auto& o) { o.quorum = -1; }), "options.quorum is -1: must be 0 .. 1 (the ranks)");
  blame(with([](auto& o) { o.quorum = 2; }), "options.quorum is 2: must be 0 .. 1 (the ranks)");
  blame(with([](auto& o) { o.quorum = o.uniform = 1; }), "options.quorum is 1, and options.uniform 1");
  blame(with([](auto& o) { o.quorum = 1, o.deadline_ns = -1; }), "options.deadline_ns is -1: must be 0 .. 36000");
  blame(with([](auto& o) { o.deadline_ns = 1; }), "options.deadline_ns is 1, and options.quorum 0");
  blame(with([](auto& o) { o.reproducible_bins = 3; }), "options.reproducible_bins is 3, and op UCFT_SUM");
  blame(with([](auto& o) { o.reproducible_sweeps = 2; }), "options.reproducible_sweeps is 2, and op UCFT_SUM");
  const ucft_coll_options_t three = with([](auto& o) { o.reproducible_sweeps = 3; });
  expect_blamed(allreduce(1, UCFT_DOUBLE, UCFT_SUM_REPRODUCIBLE, &three), UCFT_ERR_INVALID_PARAM,
                "options.reproducible_sweeps is 3: must be 1 .. 2 of double, or 0");
  const auto blame_bins = [&](ucft_dtype_t dtype, int bins, const char* culprit) {
    const ucft_coll_options_t options = with([&](auto& o) { o.reproducible_bins = bins; });
    expect_blamed(allreduce(1, dtype, UCFT_SUM_REPRODUCIBLE, &options), UCFT_ERR_INVALID_PARAM, culprit);
  };
  blame_bins(UCFT_DOUBLE, 2, "options.reproducible_bins is 2: must be 3 .. 7 of double, or 0");
  blame_bins(UCFT_FLOAT, 1, "options.reproducible_bins is 1: must be 2 .. 7 of float, or 0");
  blame_bins(UCFT_FLOAT, 8, "options.reproducible_bins is 8");
  blame_bins(UCFT_FLOAT, -1, "options.reproducible_bins is -1");
  const ucft_coll_options_t of_a_sum = with([](auto& o) { o.reproducible_bins = 4; });
  expect_blamed(ucft_broadcast(comm_, &in_, 1, UCFT_DOUBLE, 0, &of_a_sum, nullptr), UCFT_ERR_INVALID_PARAM,
                "options.reproducible_bins is 4: there is no sum in a broadcast");
  blame(with([](auto& o) { o.struct_size = 3; }), "options.struct_size is 3");
}

TEST_F(Api, AnOperatorAndATypeThatDoNotFitAreNamed) {
  const auto blame = [&](ucft_dtype_t dtype, ucft_op_t op, const char* sentence) {
    expect_blamed(ucft_allreduce(comm_, &in_, &out_, 1, dtype, op, nullptr, nullptr), UCFT_ERR_INVALID_PARAM, sentence);
  };
  blame(
      UCFT_COMPLEX_FLOAT, UCFT_MIN,
      "op is UCFT_MIN, and dtype UCFT_COMPLEX_FLOAT: it takes float, double, int32, int64, uint64, int8, uint8, int16, "
      "uint16, uint32, float16, bfloat16 only");
  blame(UCFT_BOOL, UCFT_SUM, "op is UCFT_SUM, and dtype UCFT_BOOL: it takes float, ");
  blame(UCFT_FLOAT, UCFT_BAND, "op is UCFT_BAND, and dtype UCFT_FLOAT: it takes int32, int64, ");
  blame(UCFT_DOUBLE, UCFT_MINLOC,
        "op is UCFT_MINLOC, and dtype UCFT_DOUBLE: it takes float_int32, double_int32, int32_int32, int64_int64, "
        "double_int64 only");
  blame(UCFT_DOUBLE_INT64, UCFT_MAX, "op is UCFT_MAX, and dtype UCFT_DOUBLE_INT64: it takes ");
  blame(
      UCFT_INT32, UCFT_AVG,
      "op is UCFT_AVG, and dtype UCFT_INT32: it takes float, double, float16, bfloat16, complex_float, complex_double "
      "only; of integers take UCFT_SUM, and divide it by the result's contributors");
  EXPECT_EQ(out_, 0);
  ucft_request_h request = UCFT_REQUEST_NULL;
  const ucft_operator_t logical = UCFT_OPERATOR_INIT(UCFT_LOR);
  expect_blamed(ucft_reduce_init(comm_, &in_, &out_, 1, UCFT_DOUBLE, &logical, 0, nullptr, &request),
                UCFT_ERR_INVALID_PARAM, "op is UCFT_LOR, and dtype UCFT_DOUBLE");
  // As many bytes as travel, in float.
  expect_blamed(ucft_allreduce(comm_, &in_, &out_, std::uint64_t{1} << 38, UCFT_FLOAT16, UCFT_SUM, nullptr, nullptr),
                UCFT_ERR_INVALID_PARAM,
                "count is 274877906944: more than 1099511627775 bytes; on the way an element takes 4");
}

TEST_F(Api, BadAccumulatorsAreNamed) {
  ucft_accumulator_t sum = UCFT_ACCUMULATOR_INIT, other = UCFT_ACCUMULATOR_INIT, foreign;
  std::memset(&foreign, 0xa5, sizeof foreign);
  const auto blame = [&](ucft_status_t status, const char* culprit) {
    expect_blamed(status, UCFT_ERR_INVALID_PARAM, culprit);
  };
  blame(ucft_accumulate(&in_, 1, UCFT_INT32, &sum), "dtype is 2 (int32): must be UCFT_FLOAT or UCFT_DOUBLE");
  blame(ucft_accumulate(nullptr, 1, UCFT_DOUBLE, &sum), "values is null, with count 1");
  blame(ucft_accumulate(reinterpret_cast<void*>(8), 1, UCFT_DOUBLE, &sum), "values (0x8, 8 bytes) is not memory");
  blame(ucft_accumulate(&in_, UINT64_MAX, UCFT_DOUBLE, &sum), "count is 18446744073709551615");
  blame(ucft_accumulate(&in_, 1, UCFT_DOUBLE, nullptr), "accumulator is null");
  blame(ucft_accumulate(&in_, 1, UCFT_DOUBLE, &foreign), "accumulator is no accumulator");
  blame(ucft_accumulate_products(&in_, nullptr, 1, UCFT_DOUBLE, &sum), "b is null");
  blame(ucft_accumulate_products(nullptr, &in_, 1, UCFT_DOUBLE, &sum), "a is null");
  blame(ucft_accumulate_squares(nullptr, 1, UCFT_FLOAT, &sum), "values is null");
  blame(ucft_accumulator_merge(&sum, &foreign), "from is no accumulator");
  blame(ucft_accumulator_merge(&foreign, &sum), "into is no accumulator");
  blame(ucft_accumulator_merge(&sum, nullptr), "from is null");
  blame(ucft_accumulator_value(&sum, UCFT_DOUBLE, nullptr), "value is null");
  blame(ucft_accumulator_value(&foreign, UCFT_DOUBLE, &out_), "accumulator is no accumulator");
  blame(ucft_accumulator_root(&sum, UCFT_UINT64, &out_), "dtype is 4 (uint64)");
  EXPECT_EQ(std::memcmp(&sum, &other, sizeof sum), 0);  // nothing has changed
  const auto allreduce = [&](const ucft_accumulator_t* send, std::uint64_t count, ucft_op_t op) {
    return ucft_allreduce(comm_, send, &other, count, UCFT_ACCUMULATOR, op, nullptr, nullptr);
  };
  blame(allreduce(&foreign, 1, UCFT_SUM), "send[0] is no accumulator");
  blame(allreduce(&sum, 1, UCFT_MAX), "dtype is UCFT_ACCUMULATOR, and op is 3: it takes UCFT_SUM only");
  blame(allreduce(&sum, std::uint64_t{1} << 60, UCFT_SUM), "count is 1152921504606846976");
  blame(allreduce(nullptr, 1, UCFT_SUM), "send is null");
  ASSERT_EQ(ucft_accumulate(&in_, 1, UCFT_DOUBLE, &sum), UCFT_OK);
  ucft_accumulator_t twice;  // by another library: right, and not settled
  for (int i = 0; i < 112; ++i) twice.words[i] = 2 * sum.words[i];
  blame(allreduce(&twice, 1, UCFT_SUM), "send[0] is a sum that another library has made");
  ASSERT_EQ(ucft_accumulator_value(&twice, UCFT_DOUBLE, &out_), UCFT_OK) << ucft_last_error();
  EXPECT_EQ(out_, 2 * in_);
  ucft_request_h request = UCFT_REQUEST_NULL;
  const ucft_operator_t with = UCFT_OPERATOR_INIT(UCFT_SUM);
  ASSERT_EQ(ucft_allreduce_init(comm_, &twice, &other, 1, UCFT_ACCUMULATOR, &with, nullptr, &request), UCFT_OK);
  blame(ucft_post(request), "send[0] is a sum that another library has made");
  blame(ucft_post_and_wait(request, UINT64_MAX), "send[0] is a sum that another library has made");
  ASSERT_EQ(ucft_accumulator_merge(&twice, &twice), UCFT_OK);
  EXPECT_EQ(ucft_post_and_wait(request, UINT64_MAX), UCFT_OK) << ucft_last_error();
  EXPECT_EQ(ucft_accumulator_value(&other, UCFT_DOUBLE, &out_), UCFT_OK);
  EXPECT_EQ(out_, 4 * in_);
  EXPECT_EQ(ucft_request_free(request), UCFT_OK);
}

TEST(CxxApi, AnAccumulatorIsAnElement) {
  ucft::Context context;
  ucft::Communicator all(context);
  const std::vector<double> values = {1e300, 3, -1e300}, weights = {2, 5, 2};
  const std::vector<float> floats = {3, 4};
  ucft::Accumulator sum, other;
  EXPECT_EQ(sum.add(values).value(), 3);
  EXPECT_EQ(sum.add_products(values, weights).value(), 18);
  EXPECT_EQ(other.add_squares(floats).root<float>(), 5);
  other += sum;
  EXPECT_EQ(other.value(), 43);
  std::vector<ucft::Accumulator> both = {sum, other};
  ASSERT_TRUE(all.allreduce(both, UCFT_SUM).ok());
  EXPECT_TRUE(both[0] == sum && both[1] == other && !(sum == other));
  ASSERT_TRUE(all.allreduce(sum, UCFT_SUM).ok());
  EXPECT_EQ(sum.value(), 18);
  EXPECT_THROW(sum.add_products(values, std::vector<double>{1}), ucft::Error);
  EXPECT_THROW(all.allreduce(sum, UCFT_MIN), ucft::Error);
  sum.words[7] += 1;
  EXPECT_THROW(sum.value(), ucft::Error);
}

TEST(CxxApi, SharesOfOneRankAreAll) {
  ucft::Context context;
  ucft::Communicator all(context);
  const std::vector<double> in = {1, 2, 3};
  const std::uint64_t counts[] = {3}, others[] = {2};
  std::vector<double> out(3);
  const auto check = [&](ucft::Result result) {
    EXPECT_TRUE(result.ok());
    EXPECT_EQ(out, in);
    out.assign(3, 0);
  };
  check(all.scatter(in, out, 0));
  check(all.scatterv(in, out, counts, 0));
  check(all.iscatter(in, out, 0).wait());
  check(all.iscatterv(in, out, counts, 0).wait());
  check(all.reduce_scatter(in, out, UCFT_SUM));
  check(all.reduce_scatterv(in, out, counts, UCFT_SUM));
  check(all.ireduce_scatter(in, out, UCFT_SUM).wait());
  check(all.ireduce_scatterv(in, out, counts, UCFT_SUM).wait());
  check(all.gather(in, out, 0));
  check(all.gatherv(in, out, counts, 0));
  check(all.igather(in, out, 0).wait());
  check(all.igatherv(in, out, counts, 0).wait());
  check(all.allgather(in, out));
  check(all.allgatherv(in, out, counts));
  check(all.iallgather(in, out).wait());
  check(all.iallgatherv(in, out, counts).wait());
  EXPECT_THROW(all.gatherv(in, out, others, 0), ucft::Error);
  EXPECT_THROW(all.gatherv(in, out, others, 1), ucft::Error);
  std::uint64_t flags = 0b1011;
  EXPECT_TRUE(all.agree(flags).ok());
  EXPECT_EQ(flags, 0b1011u);
  check(all.alltoall(in, out));
  check(all.ialltoall(in, out).wait());
  check(all.alltoallv(in, counts, out, counts));
  check(all.ialltoallv(in, counts, out, counts).wait());
  EXPECT_THROW(all.alltoallv(in, others, out, counts), ucft::Error);
  EXPECT_THROW(all.alltoallv(in, counts, out, others), ucft::Error);
  check(all.scan(in, out, UCFT_SUM));
  check(all.iscan(in, out, UCFT_SUM).wait());
  EXPECT_TRUE(all.exscan(in, out, UCFT_SUM).ok());
  EXPECT_TRUE(all.iexscan(in, out, UCFT_SUM).wait().ok());
  EXPECT_EQ(out, std::vector<double>(3, 0)) << "nobody is before rank 0";
  EXPECT_THROW(all.scatterv(in, out, others, 0), ucft::Error);
  EXPECT_THROW(all.scatterv(in, out, others, 1), ucft::Error);
}

#if defined(__SSE2__)
// A program's own rounding mode, and flushing of subnormal numbers, change no sum.
TEST_F(Api, AccumulatorsKeepSubnormalNumbersWhateverTheProcessorIsSetTo) {
  const double least = std::numeric_limits<double>::denorm_min(), values[] = {least, least, 1, -1};
  ucft_accumulator_t sum = UCFT_ACCUMULATOR_INIT;
  const unsigned was = _mm_getcsr();
  _mm_setcsr(was | 0x8040 | 0x6000);  // flush to zero, subnormal numbers are zeros, round towards zero
  const ucft_status_t added = ucft_accumulate(values, 4, UCFT_DOUBLE, &sum);
  const ucft_status_t rounded = ucft_accumulator_value(&sum, UCFT_DOUBLE, &out_);
  const bool is_kept = (_mm_getcsr() & 0xe040) == 0xe040;
  _mm_setcsr(was);
  EXPECT_TRUE(added == UCFT_OK && rounded == UCFT_OK && is_kept);
  EXPECT_EQ(out_, 2 * least);
}
#endif

TEST_F(Api, ASingleContributorsValueIsAResultToo) {
  const unsigned char truths[4] = {0, 1, 2, 255};
  unsigned char bytes[4] = {9, 9, 9, 9};
  EXPECT_EQ(ucft_allreduce(comm_, truths, bytes, 4, UCFT_BOOL, UCFT_LXOR, nullptr, nullptr), UCFT_OK);
  EXPECT_TRUE(bytes[0] == 0 && bytes[1] == 1 && bytes[2] == 1 && bytes[3] == 1);
  EXPECT_EQ(ucft_allreduce(comm_, truths, bytes, 4, UCFT_UINT8, UCFT_LAND, nullptr, nullptr), UCFT_OK);
  EXPECT_TRUE(bytes[0] == 0 && bytes[1] == 1 && bytes[2] == 1 && bytes[3] == 1);
  const std::uint16_t halves[3] = {0x3c00, 0xfd01, 0x0001};  // 1, a NaN, the least
  std::uint16_t sums[3] = {};
  EXPECT_EQ(ucft_allreduce(comm_, halves, sums, 3, UCFT_FLOAT16, UCFT_AVG, nullptr, nullptr), UCFT_OK);
  EXPECT_TRUE(sums[0] == 0x3c00 && sums[1] == 0x7e00 && sums[2] == 0x0001);
  struct {
    double value;
    std::int32_t location, padding;
  } pair = {2, 5, -1};
  EXPECT_EQ(ucft_allreduce(comm_, UCFT_IN_PLACE, &pair, 1, UCFT_DOUBLE_INT32, UCFT_MINLOC, nullptr, nullptr), UCFT_OK);
  EXPECT_TRUE(pair.value == 2 && pair.location == 5 && pair.padding == 0);
  EXPECT_EQ(ucft_allreduce(comm_, halves, sums, 0, UCFT_FLOAT16, UCFT_SUM, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(ucft_broadcast(comm_, sums, 3, UCFT_BFLOAT16, 0, nullptr, nullptr), UCFT_OK);
}

TEST_F(Api, BadGossipIsNamed) {
  const auto gossip = [&](std::uint64_t count, int dtype, const ucft_gossip_options_t* options) {
    return ucft_gossip_allreduce(comm_, &in_, &out_, count, static_cast<ucft_dtype_t>(dtype), options, nullptr);
  };
  const auto blame = [&](auto change, const char* culprit, ucft_status_t status = UCFT_ERR_INVALID_PARAM) {
    ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
    change(options);
    expect_blamed(gossip(1, UCFT_DOUBLE, &options), status, culprit);
  };
  expect_blamed(gossip(1, UCFT_INT32, nullptr), UCFT_ERR_INVALID_PARAM, "dtype is 2 (int32)");
  expect_blamed(gossip(1, 20, nullptr), UCFT_ERR_INVALID_PARAM, "dtype is 20 (accumulator)");
  expect_blamed(gossip(1, UCFT_COMPLEX_FLOAT, nullptr), UCFT_ERR_INVALID_PARAM, "gossip needs UCFT_FLOAT");
  expect_blamed(gossip(std::uint64_t{1} << 61, UCFT_DOUBLE, nullptr), UCFT_ERR_INVALID_PARAM, "count is");
  blame([](auto& o) { o.struct_size = 8; }, "options.struct_size is 8");
  blame([](auto& o) { o.struct_size = offsetof(ucft_gossip_options_t, repair_initial); }, "options.struct_size is 68");
  blame([](auto& o) { o.struct_size += 8; }, "options.struct_size is 80");
  blame([](auto& o) { o.cycles = -2, o.algorithm = UCFT_GOSSIP_HPS; }, "options.cycles is -2");
  blame([](auto& o) { o.cycles = 8; }, "options.cycles is 8: pcf has none");
  blame([](auto& o) { o.repair_initial = 2, o.algorithm = UCFT_GOSSIP_PFLC; }, "options.repair_initial is 2");
  blame([](auto& o) { o.repair_initial = 1; }, "options.repair_initial is 1: pcf has no checksums");
  blame([](auto& o) { o.algorithm = static_cast<ucft_gossip_algorithm_t>(11); }, "options.algorithm is 11");
  blame([](auto& o) { o.algorithm = static_cast<ucft_gossip_algorithm_t>(-1); }, "options.algorithm is -1");
  blame([](auto& o) { o.topology = static_cast<ucft_gossip_topology_t>(8); }, "options.topology is 8");
  blame([](auto& o) { o.aggregate = static_cast<ucft_gossip_aggregate_t>(4); }, "options.aggregate is 4");
  blame([](auto& o) { o.aggregate = UCFT_GOSSIP_MINIMUM, o.algorithm = UCFT_GOSSIP_PFLC; }, "no minimum by pflc");
  blame([](auto& o) { o.aggregate = UCFT_GOSSIP_MAXIMUM, o.algorithm = UCFT_GOSSIP_HPFCC; }, "no maximum by hpfcc");
  blame([](auto& o) { o.stop = static_cast<ucft_gossip_stop_t>(2); }, "options.stop is 2");
  blame([](auto& o) { o.path = static_cast<ucft_gossip_path_t>(3); }, "options.path is 3");
  for (ucft_gossip_algorithm_t algorithm :
       {UCFT_GOSSIP_HPS, UCFT_GOSSIP_HPFLC, UCFT_GOSSIP_ARDB, UCFT_GOSSIP_RECURSIVE_DOUBLING, UCFT_GOSSIP_HPFCC})
    blame([&](auto& o) { o.path = UCFT_GOSSIP_PATH_RMA, o.algorithm = algorithm; }, "UCFT_GOSSIP_PATH_RMA",
          UCFT_ERR_UNSUPPORTED);
  for (double eps : {0.0, -1e-6, 1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    blame([&](auto& o) { o.eps = eps; }, "options.eps is");
  blame([](auto& o) { o.tau = -1; }, "options.tau is -1");
  blame([](auto& o) { o.tau = std::nan(""); }, "options.tau is");
  blame([](auto& o) { o.tau = 1e-300, o.algorithm = UCFT_GOSSIP_PFLC; }, "too small");
  blame([](auto& o) { o.rounds = -1; }, "options.rounds is -1");
  blame([](auto& o) { o.topology = UCFT_GOSSIP_TREE, o.arity = -1; }, "arity -1");
  blame([](auto& o) { o.topology = UCFT_GOSSIP_RANDOM_REGULAR, o.degree = 1; }, "degree 1");

  const auto memory = [&](const void* send, void* receive) {
    return ucft_gossip_allreduce(comm_, send, receive, 1, UCFT_DOUBLE, nullptr, nullptr);
  };
  expect_blamed(memory(nullptr, &out_), UCFT_ERR_INVALID_PARAM, "send is null");
  expect_blamed(memory(&in_, nullptr), UCFT_ERR_INVALID_PARAM, "recv is null");
  expect_blamed(ucft_gossip_allreduce(UCFT_COMM_NULL, &in_, &out_, 1, UCFT_DOUBLE, nullptr, nullptr), UCFT_ERR_CLOSED,
                "comm");
  expect_blamed(ucft_gossip_allreduce_init(comm_, &in_, &out_, 1, UCFT_DOUBLE, nullptr, nullptr),
                UCFT_ERR_INVALID_PARAM, "request is null");
  ucft_gossip_result_t result{};
  expect_blamed(ucft_gossip_allreduce(comm_, &in_, &out_, 1, UCFT_DOUBLE, nullptr, &result), UCFT_ERR_INVALID_PARAM,
                "result.struct_size is 0");
}

// A program that was compiled when the options ended with the seed: what is behind them is not looked at.
TEST_F(Api, GossipOptionsOfOlderProgramsAreAccepted) {
  constexpr std::size_t older = offsetof(ucft_gossip_options_t, seed) + sizeof(std::uint64_t);
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  options.algorithm = UCFT_GOSSIP_HPFLC;
  options.struct_size = older;
  options.eps = 1e-4;
  std::memset(reinterpret_cast<std::byte*>(&options) + older, 0x55, sizeof options - older);
  ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
  in_ = 7;
  ASSERT_EQ(ucft_gossip_allreduce(comm_, &in_, &out_, 1, UCFT_DOUBLE, &options, &result), UCFT_OK) << ucft_last_error();
  EXPECT_EQ(out_, 7);
  EXPECT_EQ(result.eps, 1e-4);
}

TEST_F(Api, GossipRequestsGoThroughTheirStates) {
  ucft_request_h request = UCFT_REQUEST_NULL, barrier = UCFT_REQUEST_NULL;
  ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
  double now = 0, error = -1;
  in_ = 5;
  ASSERT_EQ(ucft_gossip_allreduce_init(comm_, &in_, &out_, 1, UCFT_DOUBLE, nullptr, &request), UCFT_OK)
      << ucft_last_error();
  ASSERT_EQ(ucft_barrier_init(comm_, nullptr, &barrier), UCFT_OK);
  expect_blamed(ucft_gossip_estimate(request, &now, &error), UCFT_ERR_STATE, "never posted");
  expect_blamed(ucft_gossip_result(request, &result), UCFT_ERR_STATE, "not completed");
  expect_blamed(ucft_gossip_estimate(barrier, &now, &error), UCFT_ERR_STATE, "not one of ucft_gossip_allreduce_init");
  expect_blamed(ucft_gossip_result(barrier, &result), UCFT_ERR_STATE, "not one of ucft_gossip_allreduce_init");
  for (int again = 0; again < 9; ++again) {
    in_ = 5 + again;
    ASSERT_EQ(ucft_post(request), UCFT_OK) << ucft_last_error();
    ASSERT_EQ(ucft_wait(request, UINT64_MAX), UCFT_OK) << ucft_last_error();
    EXPECT_EQ(out_, 5 + again);
  }
  expect_blamed(ucft_gossip_estimate(request, nullptr, &error), UCFT_ERR_INVALID_PARAM, "values is null");
  EXPECT_EQ(ucft_gossip_estimate(request, &now, &error), UCFT_OK);
  std::uint32_t contributors = 0;
  expect_blamed(ucft_gossip_contributors(request, nullptr), UCFT_ERR_INVALID_PARAM, "contributors is null");
  expect_blamed(ucft_gossip_contributors(barrier, &contributors), UCFT_ERR_STATE, "not one of ucft_gossip");
  EXPECT_EQ(ucft_gossip_contributors(request, &contributors), UCFT_OK);
  EXPECT_EQ(now, 13);
  EXPECT_EQ(error, 0);
  expect_blamed(ucft_gossip_result(request, nullptr), UCFT_ERR_INVALID_PARAM, "result is null");
  ASSERT_EQ(ucft_gossip_result(request, &result), UCFT_OK);
  EXPECT_EQ(result.reached, 1);
  EXPECT_EQ(result.live_ranks, 1);
  EXPECT_EQ(result.contributors, 1u);
  EXPECT_EQ(result.answer, UCFT_GOSSIP_ALL_RANKS);
  EXPECT_EQ(ucft_request_free(request), UCFT_OK);
  EXPECT_EQ(ucft_request_free(barrier), UCFT_OK);
}

TEST_F(Api, MemoryThatIsNoneIsNamed) {
  const auto allreduce = [&](const void* send, void* receive) {
    return ucft_allreduce(comm_, send, receive, 1, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr);
  };
  expect_blamed(allreduce(nullptr, &out_), UCFT_ERR_INVALID_PARAM, "send is null");
  expect_blamed(allreduce(&in_, nullptr), UCFT_ERR_INVALID_PARAM, "recv is null");
  expect_blamed(ucft_broadcast(comm_, nullptr, 1, UCFT_DOUBLE, 0, nullptr, nullptr), UCFT_ERR_INVALID_PARAM,
                "buffer is null");
  expect_blamed(allreduce(reinterpret_cast<void*>(0x1000), &out_), UCFT_ERR_INVALID_PARAM, "send (");
  void* sealed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect_blamed(allreduce(sealed, &out_), UCFT_ERR_INVALID_PARAM, "read: device memory?");
  mprotect(sealed, 4096, PROT_READ);
  expect_blamed(allreduce(&in_, sealed), UCFT_ERR_INVALID_PARAM, "write: device memory?");
  munmap(sealed, 4096);
  double pair[2] = {1, 2};
  expect_blamed(
      ucft_allreduce(comm_, pair, reinterpret_cast<char*>(pair) + 4, 1, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr),
      UCFT_ERR_INVALID_PARAM, "overlap");
}

TEST_F(Api, ClosedAndForeignHandlesAreRecognised) {
  ucft_comm_h copy = UCFT_COMM_NULL;
  ASSERT_EQ(ucft_comm_dup(comm_, &copy), UCFT_OK);
  ASSERT_EQ(ucft_comm_destroy(copy), UCFT_OK);
  for (int i = 0; i < 10; ++i) {
    ucft_comm_h another = UCFT_COMM_NULL;
    ASSERT_EQ(ucft_comm_dup(comm_, &another), UCFT_OK);
    expect_blamed(ucft_barrier(copy, nullptr, nullptr), UCFT_ERR_CLOSED, "comm");
    ASSERT_EQ(ucft_comm_destroy(another), UCFT_OK);
  }
  expect_blamed(ucft_barrier(UCFT_COMM_NULL, nullptr, nullptr), UCFT_ERR_CLOSED, "comm");
  expect_blamed(ucft_barrier(reinterpret_cast<ucft_comm_h>(context_), nullptr, nullptr), UCFT_ERR_CLOSED, "comm");
  expect_blamed(ucft_post(reinterpret_cast<ucft_request_h>(&in_)), UCFT_ERR_CLOSED, "request");
  ucft_context_h other = UCFT_CONTEXT_NULL;
  ASSERT_EQ(ucft_context_create(nullptr, &other), UCFT_OK);
  ASSERT_EQ(ucft_context_destroy(other), UCFT_OK);
  expect_blamed(ucft_context_destroy(other), UCFT_ERR_CLOSED, "context");
}

TEST_F(Api, RequestsOfADestroyedCommunicatorAreClosed) {
  ucft_comm_h copy = UCFT_COMM_NULL;
  ucft_request_h request = UCFT_REQUEST_NULL;
  ASSERT_EQ(ucft_comm_dup(comm_, &copy), UCFT_OK);
  ASSERT_EQ(ucft_barrier_init(copy, nullptr, &request), UCFT_OK);
  ASSERT_EQ(ucft_comm_destroy(copy), UCFT_OK);
  expect_blamed(ucft_post(request), UCFT_ERR_CLOSED, "request");
}

TEST_F(Api, RequestsGoThroughTheirStates) {
  ucft_request_h request = UCFT_REQUEST_NULL;
  ucft_result_t result = UCFT_RESULT_INIT;
  ASSERT_EQ(ucft_barrier_init(comm_, nullptr, &request), UCFT_OK);
  expect_blamed(ucft_wait(request, 0), UCFT_ERR_STATE, "never posted");
  expect_blamed(ucft_test(request), UCFT_ERR_STATE, "never posted");
  expect_blamed(ucft_request_result(request, &result), UCFT_ERR_STATE, "not completed");
  EXPECT_EQ(ucft_post(request), UCFT_OK);
  EXPECT_EQ(ucft_test(request), UCFT_OK);
  EXPECT_EQ(ucft_wait(request, 0), UCFT_OK);
  expect_blamed(ucft_wait(request, 0), UCFT_ERR_STATE, "already");
  EXPECT_EQ(ucft_request_result(request, &result), UCFT_OK);
  EXPECT_EQ(result.status, UCFT_OK);
  EXPECT_EQ(ucft_request_free(request), UCFT_OK);
  expect_blamed(ucft_request_free(request), UCFT_ERR_CLOSED, "request");
}

TEST_F(Api, APostWithItsWaitIsAPostAndAWait) {
  ucft_request_h request = UCFT_REQUEST_NULL;
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  ucft_result_t result = UCFT_RESULT_INIT;
  ASSERT_EQ(ucft_allreduce_init(comm_, &in_, &out_, 1, UCFT_DOUBLE, &sum, nullptr, &request), UCFT_OK);
  for (in_ = 5; in_ < 8; ++in_) {
    EXPECT_EQ(ucft_post_and_wait(request, 0), UCFT_OK);
    EXPECT_EQ(out_, in_);
    expect_blamed(ucft_wait(request, 0), UCFT_ERR_STATE, "already");
  }
  EXPECT_EQ(ucft_request_result(request, &result), UCFT_OK);
  EXPECT_EQ(result.contributors, 1u);
  EXPECT_EQ(ucft_request_free(request), UCFT_OK);
  expect_blamed(ucft_post_and_wait(request, 0), UCFT_ERR_CLOSED, "request");
}

TEST_F(Api, AForkedChildIsTurnedAwayAndTheParentGoesOn) {
  const pid_t child = fork();
  if (child == 0) {
    const bool turned_away = ucft_barrier(comm_, nullptr, nullptr) == UCFT_ERR_FORKED &&
                             ucft_progress(context_) == UCFT_ERR_FORKED &&
                             ucft_context_destroy(context_) == UCFT_ERR_FORKED;
    _exit(turned_away ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_works();
}

// Bytes of the library's shared memory that this process has.
std::uint64_t mapped_shared_memory() {
  std::uint64_t bytes = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t begin = 0, end = 0;
    if (line.find("memfd:ucft") != std::string::npos && std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2)
      bytes += end - begin;
  }
  return bytes;
}

// A worker process that writes where a rank's messages are would speak in its name.
TEST_F(Api, AForkedChildHasMemoryOfUcftAllocAndNothingElseOfTheRanks) {
  constexpr std::size_t bytes = 1 << 20;
  void *kept = nullptr, *freed = nullptr;
  ASSERT_EQ(ucft_alloc(context_, bytes, &freed), UCFT_OK);
  ASSERT_EQ(ucft_alloc(context_, bytes, &kept), UCFT_OK);
  std::memset(kept, 7, bytes);
  ASSERT_EQ(ucft_free(context_, freed), UCFT_OK);
  ASSERT_GT(mapped_shared_memory(), 2 * bytes);
  const pid_t child = fork();
  if (child == 0) {
    const auto* data = static_cast<const unsigned char*>(kept);
    _exit(mapped_shared_memory() != bytes ? 1 : data[0] != 7 || data[bytes - 1] != 7 ? 2 : 0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ucft_free(context_, kept), UCFT_OK);
  expect_works();
}

ucft_comm_h comm_for_operator;
ucft_status_t status_in_operator;
void nosy_operator(const void* in, void* inout, std::uint64_t count, ucft_dtype_t, void* arg) {
  ++*static_cast<int*>(arg);
  status_in_operator = ucft_barrier(comm_for_operator, nullptr, nullptr);
  for (std::uint64_t i = 0; i < count; ++i) static_cast<double*>(inout)[i] += static_cast<const double*>(in)[i];
}

TEST_F(Api, TheUserOperatorNeedsItsFunction) {
  int calls = 0;
  ucft_operator_t op = UCFT_OPERATOR_INIT(UCFT_USER);
  ucft_request_h request = UCFT_REQUEST_NULL;
  expect_blamed(ucft_allreduce_init(comm_, &in_, &out_, 1, UCFT_DOUBLE, &op, nullptr, &request), UCFT_ERR_INVALID_PARAM,
                "function is null");
  op.function = nosy_operator;
  op.arg = &calls;
  ASSERT_EQ(ucft_allreduce_init(comm_, &in_, &out_, 1, UCFT_DOUBLE, &op, nullptr, &request), UCFT_OK);
  EXPECT_EQ(ucft_post(request), UCFT_OK);
  EXPECT_EQ(ucft_wait(request, UINT64_MAX), UCFT_OK);
  EXPECT_EQ(out_, 1);
}

TEST_F(Api, TwoContextsWorkSideBySideInTwoThreads) {
  std::thread other([] {
    ucft_context_h context = UCFT_CONTEXT_NULL;
    ucft_comm_h comm = UCFT_COMM_NULL;
    ASSERT_EQ(ucft_context_create(nullptr, &context), UCFT_OK);
    ASSERT_EQ(ucft_comm_create(context, &comm), UCFT_OK);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(ucft_barrier(comm, nullptr, nullptr), UCFT_OK);
    ASSERT_EQ(ucft_context_destroy(context), UCFT_OK);
  });
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(ucft_barrier(comm_, nullptr, nullptr), UCFT_OK);
  other.join();
}

TEST_F(Api, FailedRanksAreNone) {
  std::int32_t count = 0;
  EXPECT_EQ(ucft_comm_failed(comm_, nullptr, &count), UCFT_OK);
  EXPECT_EQ(count, 0);
  expect_blamed(ucft_comm_failed(comm_, nullptr, nullptr), UCFT_ERR_INVALID_PARAM, "count");
  count = 3;
  expect_blamed(ucft_comm_failed(comm_, nullptr, &count), UCFT_ERR_INVALID_PARAM, "ranks is null");
}

TEST_F(Api, LooksAreCheckedAndNeedNoTurn) {
  std::int32_t count = 0;
  EXPECT_EQ(ucft_comm_look(comm_, nullptr, &count), UCFT_OK);
  EXPECT_EQ(count, 1);
  expect_blamed(ucft_comm_look(comm_, nullptr, nullptr), UCFT_ERR_INVALID_PARAM, "count");
  count = 2;
  expect_blamed(ucft_comm_look(comm_, nullptr, &count), UCFT_ERR_INVALID_PARAM, "sights is null");
  ucft_rank_sight_t sights[2] = {UCFT_RANK_SIGHT_INIT, UCFT_RANK_SIGHT_INIT};
  char text[20];
  sights[0].text = text;
  sights[0].text_bytes = sizeof text;
  ASSERT_EQ(ucft_comm_look(comm_, sights, &count), UCFT_OK);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(sights[0].state, UCFT_RANK_COMPUTING);
  EXPECT_EQ(sights[0].pid, getpid());
  EXPECT_EQ(sights[0].waits_for_count, 0);
  EXPECT_STREQ(text, "computes, last hear");  // as much as there is room for
  EXPECT_EQ(ucft_note_activity(context_, "MPI_Recv"), UCFT_OK);
  ASSERT_EQ(ucft_comm_look(comm_, sights, &count), UCFT_OK);
  EXPECT_EQ(sights[0].state, UCFT_RANK_COMPUTING);
  EXPECT_STREQ(text, "inside MPI_Recv, la");
  EXPECT_EQ(ucft_note_activity(context_, nullptr), UCFT_OK);
  ASSERT_EQ(ucft_comm_look(comm_, sights, &count), UCFT_OK);
  EXPECT_STREQ(text, "computes, last hear");
  expect_blamed(ucft_note_activity(UCFT_CONTEXT_NULL, "MPI_Recv"), UCFT_ERR_CLOSED, "context");
  sights[0].struct_size = 8;
  expect_blamed(ucft_comm_look(comm_, sights, &count), UCFT_ERR_INVALID_PARAM, "sights[0].struct_size is 8");
  expect_blamed(ucft_comm_look(UCFT_COMM_NULL, nullptr, &count), UCFT_ERR_CLOSED, "comm");
}

TEST(ApiWithoutContext, BadParametersAndSettingsAreNamed) {
  ucft_context_h context = UCFT_CONTEXT_NULL;
  ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
  params.struct_size = 8;
  EXPECT_EQ(ucft_context_create(&params, &context), UCFT_ERR_INVALID_PARAM);
  EXPECT_NE(std::strstr(ucft_last_error(), "struct_size"), nullptr);
  params = UCFT_CONTEXT_PARAMS_INIT;
  params.suspect_after_us = 20000;
  EXPECT_EQ(ucft_context_create(&params, &context), UCFT_ERR_INVALID_PARAM);
  EXPECT_NE(std::strstr(ucft_last_error(), "UCFT_SUSPECT_AFTER"), nullptr);
  setenv("UCFT_F", "many", 1);
  EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_ERR_INVALID_PARAM);
  EXPECT_NE(std::strstr(ucft_last_error(), "UCFT_F=many"), nullptr);
  unsetenv("UCFT_F");
  EXPECT_EQ(ucft_context_create(nullptr, nullptr), UCFT_ERR_INVALID_PARAM);
  EXPECT_EQ(ucft_barrier(UCFT_COMM_NULL, nullptr, nullptr), UCFT_ERR_CLOSED);
}

TEST(ApiWithoutContext, AContextRaisesTheLimitOfDescriptors) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_LT(low.rlim_cur, low.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  ucft_context_h context = UCFT_CONTEXT_NULL;
  ASSERT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << ucft_last_error();
  rlimit after{};
  getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(after.rlim_max, before.rlim_max);
  EXPECT_EQ(ucft_context_destroy(context), UCFT_OK);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(ApiWithoutContext, HalfARendezvousIsNamed) {
  ucft_context_h context = UCFT_CONTEXT_NULL;
  setenv("UCFT_RANK", "0", 1);
  EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_ERR_STARTUP);
  EXPECT_NE(std::strstr(ucft_last_error(), "UCFT_"), nullptr) << ucft_last_error();
  unsetenv("UCFT_RANK");
}

TEST(ApiWithoutContext, StatusesHaveNames) {
  EXPECT_STREQ(ucft_status_name(UCFT_ERR_TOO_MANY_FAILURES), "UCFT_ERR_TOO_MANY_FAILURES");
  EXPECT_STREQ(ucft_status_name(static_cast<ucft_status_t>(-99)), "not a ucft_status_t");
}

// As torchrun, mpiexec or srun leave it for a program that can't find the others: no job of one each, in silence.
TEST(ApiWithoutContext, OneOfSeveralProcessesIsNoJobOfItsOwnUnlessItIsMeant) {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    ucft_context_h context = UCFT_CONTEXT_NULL;
    setenv(name, "1", 1);
    EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << ucft_last_error();
    ucft_context_destroy(context);
    setenv(name, "3", 1);
    EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_ERR_STARTUP) << name;
    for (const char* part : {name, "=3 is in the environment", "ucft_run", "UCFT_SINGLE=y"})
      EXPECT_NE(std::strstr(ucft_last_error(), part), nullptr) << ucft_last_error();
    for (const auto& [setting, value] : {std::pair{"UCFT_SINGLE", "y"}, {"UCFT_PMIX", "off"}}) {
      setenv(setting, value, 1);
      EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << setting << ' ' << ucft_last_error();
      ucft_context_destroy(context);
      unsetenv(setting);
    }
    unsetenv(name);
  }
}

// In the form that it takes, since 5 is no time without its unit.
TEST(ApiWithoutContext, ASettingOutsideItsLimitsSaysThemAsItIsWritten) {
  ucft_context_h context = UCFT_CONTEXT_NULL;
  setenv("UCFT_SUSPECT_AFTER", "5", 1);
  EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_ERR_INVALID_PARAM);
  EXPECT_STREQ(ucft_last_error(), "UCFT_SUSPECT_AFTER=5: expected a number with its unit (us, ms, s, m), such as 1s");
  setenv("UCFT_SUSPECT_AFTER", "5us", 1);
  EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_ERR_INVALID_PARAM);
  EXPECT_STREQ(ucft_last_error(), "UCFT_SUSPECT_AFTER=5us: must be 300us .. 60m");
  unsetenv("UCFT_SUSPECT_AFTER");
  setenv("UCFT_WINDOW", "1", 1);
  EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_ERR_INVALID_PARAM);
  EXPECT_STREQ(ucft_last_error(), "UCFT_WINDOW=1: must be 2 .. 1024");
  unsetenv("UCFT_WINDOW");
  ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
  params.heartbeat_period_us = 50;
  EXPECT_EQ(ucft_context_create(&params, &context), UCFT_ERR_INVALID_PARAM);
  EXPECT_STREQ(ucft_last_error(), "params: UCFT_HEARTBEAT_PERIOD is 50us, must be 100us .. 1m");
}

TEST(ApiWithoutContext, AnEmptyVariableIsTheDefault) {
  const auto all = [] {
    char text[4096];
    EXPECT_LE(ucft_settings(UCFT_CONTEXT_NULL, text, sizeof text), sizeof text);
    return std::string(text);
  };
  const std::string defaults = all();
  std::istringstream lines(defaults);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) names.push_back(line.substr(0, line.find('=')));
  EXPECT_GT(names.size(), 10U);
  for (const std::string& name : names) setenv(name.c_str(), "", 1);
  EXPECT_EQ(all(), defaults);
  ucft_context_h context = UCFT_CONTEXT_NULL;
  EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << ucft_last_error();
  ucft_context_destroy(context);
  for (const std::string& name : names) unsetenv(name.c_str());
}

TEST(ApiWithoutContext, SettingsSayWhereTheyComeFrom) {
  setenv("UCFT_SUSPECT_AFTER", "3s", 1);
  char text[4096];
  EXPECT_LE(ucft_settings(UCFT_CONTEXT_NULL, text, sizeof text), sizeof text);
  EXPECT_NE(std::strstr(text, "UCFT_SUSPECT_AFTER=3s (environment)"), nullptr) << text;
  EXPECT_NE(std::strstr(text, "UCFT_F=1 (default)"), nullptr) << text;
  unsetenv("UCFT_SUSPECT_AFTER");
}

TEST(ApiWithoutContext, ASettingTakesTheValueThatItIsSaidToHave) {
  const auto all = [] {
    char text[4096];
    EXPECT_LE(ucft_settings(UCFT_CONTEXT_NULL, text, sizeof text), sizeof text);
    return std::string(text);
  };
  const std::string defaults = all();
  std::istringstream lines(defaults);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('='), end = line.find(" (default)");
    if (end == std::string::npos) continue;
    names.push_back(line.substr(0, equals));
    setenv(names.back().c_str(), line.substr(equals + 1, end - equals - 1).c_str(), 1);
  }
  EXPECT_GT(names.size(), 10U);
  EXPECT_EQ(all(), std::regex_replace(defaults, std::regex("\\(default\\)"), "(environment)"));
  ucft_context_h context = UCFT_CONTEXT_NULL;
  EXPECT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << ucft_last_error();
  ucft_context_destroy(context);
  for (const std::string& name : names) unsetenv(name.c_str());
}

// The caller's own out-of-band allgather: two ranks as threads of one process.
struct Seat;
struct Pending {
  Seat* seat;
  std::size_t round, bytes;
  char* receive;
};
struct Board {
  std::mutex mutex;
  std::vector<std::vector<std::vector<char>>> rounds;  // [round][rank]
  std::list<Pending> pending;                          // ucft leaves us those that did not complete in time
};
struct Seat {
  Board* board;
  std::uint32_t rank, size;
  std::size_t round = 0;
};

ucft_status_t board_allgather(void* source, void* receive, std::size_t bytes, void* info, void** request) {
  auto* seat = static_cast<Seat*>(info);
  const std::lock_guard lock(seat->board->mutex);
  if (seat->board->rounds.size() <= seat->round)
    seat->board->rounds.resize(seat->round + 1, std::vector<std::vector<char>>(seat->size));
  auto* text = static_cast<char*>(source);
  auto& mine = seat->board->rounds[seat->round][seat->rank];
  mine.assign(text, text + bytes);
  mine.push_back(1);
  *request = &seat->board->pending.emplace_back(Pending{seat, seat->round++, bytes, static_cast<char*>(receive)});
  return UCFT_OK;
}
ucft_status_t board_test(void* request) {
  auto* pending = static_cast<Pending*>(request);
  const std::lock_guard lock(pending->seat->board->mutex);
  auto& round = pending->seat->board->rounds[pending->round];
  for (const auto& each : round)
    if (each.empty()) return UCFT_INPROGRESS;
  for (std::size_t rank = 0; rank < round.size(); ++rank)
    std::memcpy(pending->receive + rank * pending->bytes, round[rank].data(), pending->bytes);
  return UCFT_OK;
}
ucft_status_t board_free(void* request) {
  Board& board = *static_cast<Pending*>(request)->seat->board;
  const std::lock_guard lock(board.mutex);
  board.pending.remove_if([&](const Pending& each) { return &each == request; });
  return UCFT_OK;
}

TEST(ApiOutOfBand, ARankThatDoesNotArriveIsAnErrorAfterTheLimit) {
  Board board;
  Seat seat{&board, 0, 2};
  ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
  params.oob = {board_allgather, board_test, board_free, &seat, 2, 0};
  params.startup_timeout_us = 200000;
  ucft_context_h context = UCFT_CONTEXT_NULL;
  EXPECT_EQ(ucft_context_create(&params, &context), UCFT_ERR_STARTUP);
  EXPECT_NE(std::strstr(ucft_last_error(), "did not arrive"), nullptr) << ucft_last_error();
}

TEST(ApiOutOfBand, TheCallersAllgatherIsEnough) {
  Board board;
  const auto join = [&](std::uint32_t rank) {
    Seat seat{&board, rank, 2};
    ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
    params.oob = {board_allgather, board_test, board_free, &seat, 2, rank};
    ucft_context_h context = UCFT_CONTEXT_NULL;
    ucft_comm_h comm = UCFT_COMM_NULL;
    ASSERT_EQ(ucft_context_create(&params, &context), UCFT_OK) << ucft_last_error();
    ASSERT_EQ(ucft_comm_create(context, &comm), UCFT_OK);
    double in = rank + 1, out = 0;
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(ucft_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr), UCFT_OK)
          << ucft_last_error();
    EXPECT_EQ(out, 3);
    ASSERT_EQ(ucft_context_destroy(context), UCFT_OK);
  };
  std::thread other([&] { join(1); });
  join(0);
  other.join();
}

}  // namespace
