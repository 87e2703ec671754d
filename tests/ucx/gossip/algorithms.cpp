// Every algorithm, one or many at a time, and what callers may ask for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sched.h>

#include "collectives/reduction/half_values.hpp"
#include "tests/ucx/gossip/checked_gossip.hpp"
#include "tests/ucx/gossip/gossip_jobs.hpp"

namespace ucft::detail::test {
namespace {

std::vector<ucft_gossip_topology_t> topologies() {
  std::vector<ucft_gossip_topology_t> all{UCFT_GOSSIP_COMPLETE, UCFT_GOSSIP_RING, UCFT_GOSSIP_BUS, UCFT_GOSSIP_TREE};
  if ((size_ & (size_ - 1)) == 0) all.push_back(UCFT_GOSSIP_HYPERCUBE);
  if (size_ == 4 || size_ == 8) all.push_back(UCFT_GOSSIP_TORUS_2D);
  if (size_ == 8) all.insert(all.end(), {UCFT_GOSSIP_TORUS_3D, UCFT_GOSSIP_RANDOM_REGULAR});
  return all;
}

template <class Real>
constexpr double eps = sizeof(Real) == 4 ? 1e-3 : 1e-8;

template <class Real>
void all_algorithms_in() {
  int salt = 0;
  const auto places = topologies();
  for (int algorithm = 0; algorithm < algorithm_count; ++algorithm)
    for (std::size_t count : {1u, 3u, 1000u})
      for (ucft_gossip_stop_t stop : {UCFT_GOSSIP_ROUNDS, UCFT_GOSSIP_ADAPTIVE}) {
        ucft_gossip_options_t options = options_of(algorithm, eps<Real>);
        options.stop = stop;
        options.topology = places[static_cast<std::size_t>(salt) % places.size()];
        options.aggregate = salt % 2 == 0 ? UCFT_GOSSIP_AVERAGE : UCFT_GOSSIP_SUM;
        CheckedGossip<Real> gossip(options, count, ++salt);
        gossip.post();
        gossip.finish(stop == UCFT_GOSSIP_ADAPTIVE);
      }
}

// Every algorithm, every topology that there is for so many ranks, both types, both ways to stop.
RANKS(all) {
  all_algorithms_in<double>();
  all_algorithms_in<float>();
}

TEST_P(Gossip, EveryAlgorithmIsWithinItsBound) {
  for (int ranks : {1, 2, 3, 4, 5, 8}) expect_right(plan(ranks, all));
}

// Minima and maxima: exact, in one stage, with whatever algorithm has them, the default among them.
RANKS(extrema) {
  int salt = 0;
  const auto places = topologies();
  for (int algorithm = 0; algorithm < algorithm_count; ++algorithm)
    for (ucft_gossip_aggregate_t aggregate : {UCFT_GOSSIP_MINIMUM, UCFT_GOSSIP_MAXIMUM})
      for (std::size_t count : {1u, 700u}) {
        ucft_gossip_options_t options = options_of(algorithm, 1e-12);
        options.aggregate = aggregate;
        options.topology = places[static_cast<std::size_t>(salt) % places.size()];
        if (algorithm >= UCFT_GOSSIP_PFLC && algorithm != UCFT_GOSSIP_PCF &&
            (algorithm <= UCFT_GOSSIP_PCF_FLIP || algorithm == UCFT_GOSSIP_HPFLC || algorithm == UCFT_GOSSIP_HPFCC)) {
          double in = 1, out = 0;
          expect(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, nullptr), UCFT_ERR_INVALID_PARAM,
                 algorithms[algorithm]);
          continue;
        }
        CheckedGossip<double> gossip(options, count, ++salt);
        gossip.post();
        const ucft_gossip_result_t result = gossip.finish(true);
        if (result.error_bound != 0) wrong("{}: bound {}", algorithms[algorithm], result.error_bound);
        CheckedGossip<float> narrow(options, count, salt);
        narrow.post();
        if (narrow.finish(true).error_bound != 0) wrong("{}: a bound", algorithms[algorithm]);
      }
}

TEST_P(Gossip, ExtremaAreExact) {
  for (int ranks : {1, 2, 5, 8}) expect_right(plan(ranks, extrema));
}

// float16 and bfloat16: the numbers are whole, and so few bits long that rank, place and sum are known exactly.
RANKS(halves) {
  struct Type {
    ucft_dtype_t dtype;
    int bits;  // of a mantissa, the first one among them
    std::uint16_t (*of)(double);
    float (*value)(std::uint16_t);
    std::uint16_t most;
  };
  const Type types[] = {{UCFT_FLOAT16, 11, [](double x) { return half_bits(GossipHalf::float16, x); },
                         [](std::uint16_t bits) { return float_of(GossipHalf::float16, bits); }, 0x7bff},
                        {UCFT_BFLOAT16, 8, [](double x) { return half_bits(GossipHalf::bfloat16, x); },
                         [](std::uint16_t bits) { return float_of(GossipHalf::bfloat16, bits); }, 0x7f7f}};
  for (const Type& type : types)
    for (int algorithm = 0; algorithm < algorithm_count; ++algorithm)
      for (ucft_gossip_aggregate_t aggregate : {UCFT_GOSSIP_AVERAGE, UCFT_GOSSIP_SUM}) {
        ucft_gossip_options_t options = options_of(algorithm, 1e-3);
        options.aggregate = aggregate;
        constexpr std::size_t count = 40;
        std::uint16_t in[count], out[count], now[count];
        for (std::size_t i = 0; i < count; ++i) in[i] = type.of(rank_ + static_cast<double>(i));
        ucft_request_h request = UCFT_REQUEST_NULL;
        check(ucft_gossip_allreduce_init(comm, in, out, count, type.dtype, &options, &request), "init");
        check(ucft_post(request), "post");
        check(ucft_gossip_estimate(request, now, nullptr), "estimate");
        for (std::uint16_t each : now)
          if (!(type.value(each) >= 0 && type.value(each) <= (size_ + 40.0f) * static_cast<float>(size_)))
            wrong("{}: estimate {}", algorithms[algorithm], type.value(each));
        check(ucft_wait(request, UINT64_MAX), "wait");
        ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
        check(ucft_gossip_result(request, &result), "gossip_result");
        check(ucft_gossip_estimate(request, now, nullptr), "estimate");
        check(ucft_request_free(request), "free");
        double worst = 0, largest = 0;
        for (std::size_t i = 0; i < count; ++i) {
          double truth = (size_ - 1) / 2.0 + static_cast<double>(i);
          if (aggregate == UCFT_GOSSIP_SUM) truth *= size_;
          worst = std::max(worst, std::abs(static_cast<double>(type.value(out[i])) - truth));
          largest = std::max(largest, truth);
          note(out[i]);
          if (now[i] != out[i]) wrong("the last estimate is not the result");
        }
        if (worst > result.error_bound * largest)
          wrong("{}, {} bits: off by {} of {}, the bound is {}", algorithms[algorithm], type.bits, worst, largest,
                result.error_bound);
        if (result.error_bound > std::ldexp(1, -type.bits) + 1.01e-3) wrong("bound {}", result.error_bound);
        if ((result.error_bound <= 1e-3) != (result.reached != 0)) wrong("reached {}", result.reached);
      }
  // A mean of numbers that the type holds is one, too; twice the largest is not.
  for (const Type& type : types)
    for (ucft_gossip_aggregate_t aggregate : {UCFT_GOSSIP_AVERAGE, UCFT_GOSSIP_SUM}) {
      ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
      options.aggregate = aggregate;
      ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
      std::uint16_t most = type.most, out = 0;
      check(ucft_gossip_allreduce(comm, &most, &out, 1, type.dtype, &options, &result), "most");
      const bool overflows = aggregate == UCFT_GOSSIP_SUM && size_ > 1;
      if (std::isinf(type.value(out)) != overflows) wrong("the largest: {}", type.value(out));
      if (std::isinf(result.error_bound) != overflows || (overflows && result.reached != 0))
        wrong("the largest: bound {}, reached {}", result.error_bound, result.reached);
    }
}

TEST_P(Gossip, HalvesAreRoundedOnceAndTheBoundSaysSo) {
  for (int ranks : {1, 2, 5}) expect_right(plan(ranks, halves));
}

// Every algorithm on the complete topology, with rows of one line and of many.
RANKS(each) {
  for (int algorithm = 0; algorithm < algorithm_count; ++algorithm)
    for (std::size_t count : {1u, 700u}) {
      CheckedGossip<double> gossip(options_of(algorithm, 1e-8), count, algorithm);
      gossip.post();
      gossip.finish(true);
    }
}

TEST_P(Gossip, TheLibraryChoosesWindowsWhereAllCanReachThem) {
  JobPlan made = plan(4, each);
  made.environment["UCFT_TEST_GOSSIP_PATH"] = "";
  made.environment["UCFT_TEST_GOSSIP_CHOSEN"] = path() == "shm" || one_sided() ? "rma" : "message";
  expect_right(made);
}

// More gossip operations than may be in flight, ordinary ones beside them; estimates are asked for meanwhile.
RANKS(several) {
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  for (int round = 0; round < 10; ++round) {
    std::vector<CheckedGossip<double>> gossips;
    for (int i = 0; i < 6; ++i)
      gossips.emplace_back(options_of((round + i) % algorithm_count, 1e-6), i % 2 == 0 ? 5 : 700, round + i);
    std::uint64_t one[6], out[6];
    ucft_request_h plain[6];
    for (std::size_t i = 0; i < 6; ++i) {
      one[i] = 1;
      check(ucft_allreduce_init(comm, &one[i], &out[i], 1, UCFT_UINT64, &sum, nullptr, &plain[i]), "init");
      gossips[i].post();
      while (ucft_post(plain[i]) == UCFT_ERR_BUSY) check(ucft_progress(context), "progress");
    }
    for (std::size_t i = 6; i-- > 0;) {
      check(ucft_wait(plain[i], UINT64_MAX), "wait");
      if (out[i] != static_cast<std::uint64_t>(size_)) wrong("sum {}", out[i]);
      check(ucft_request_free(plain[i]), "free");
    }
    for (CheckedGossip<double>& gossip : gossips) {
      std::vector<double> now(gossip.in.size());
      double expected = 0;
      while (ucft_test(gossip.request) == UCFT_INPROGRESS) {
        check(ucft_gossip_estimate(gossip.request, now.data(), &expected), "estimate");
        for (double value : now)
          if (!std::isfinite(value)) wrong("estimate {}", value);
        sched_yield();
        if (!(expected >= 0)) wrong("expected error {}", expected);
      }
      check(ucft_gossip_estimate(gossip.request, now.data(), &expected), "estimate");
      if (now != gossip.out) wrong("the last estimate is not the result");
      ucft_gossip_result_t result = gossip.finish(true);
      if (expected != result.error_bound)
        wrong("error estimate {} after the end, bound {}", expected, result.error_bound);
    }
  }
}

TEST_P(Gossip, SeveralAtOnceBesideOtherOperationsAndWithEstimates) {
  for (int ranks : {2, 5}) expect_right(plan(ranks, several));
}

// Two operations, which some ranks post together and others one after the other: whose memory goes with whose differs
// from one to the next.
RANKS(overlap) {
  for (int algorithm = 0; algorithm < 6; ++algorithm)
    for (int i = 0; i < 20; ++i) {
      CheckedGossip<double> first(options_of(algorithm, 1e-6), 2, i), second(options_of(algorithm, 1e-6), 2, i + 1);
      first.post();
      if ((rank_ + i / 5) % 2 == 0) check(ucft_wait(first.request, UINT64_MAX), "wait");
      second.post();
      if ((rank_ + i / 5) % 2 != 0) check(ucft_wait(first.request, UINT64_MAX), "wait");
      first.judge(true);
      check(ucft_request_free(first.request), "free");
      second.finish(true);
    }
}

TEST_P(Gossip, OperationsOverlapDifferentlyOnEachRank) {
  for (int ranks : {2, 3}) expect_right(plan(ranks, overlap));
}

// stages MOST: so many are enough where each link is used as often as the others. On a tree each link is the only way.
RANKS(stages) {
  for (int i = 0; i < 2; ++i)
    for (const ucft_gossip_algorithm_t algorithm : {UCFT_GOSSIP_PUSH_SUM, UCFT_GOSSIP_PFCC, UCFT_GOSSIP_PCF}) {
      ucft_gossip_options_t options = options_of(algorithm, 1e-8);
      options.topology = UCFT_GOSSIP_TREE;
      CheckedGossip<double> gossip(options, 3, i);
      gossip.post();
      const ucft_gossip_result_t result = gossip.finish(true);
      if (result.stages > std::stoul(arguments.at(0))) wrong("{}: {} stages", algorithms[algorithm], result.stages);
    }
}

// Ranks that poll for all of their time slices: two that run at the same time could use up all their turns on each
// other.
TEST_P(Gossip, WhoRunsAtTheSameTimeDoesNotGossipWithNobodyElse) {
  JobPlan made = plan(8, stages, {"3"});
  made.environment["UCFT_SPIN"] = "1000";
  expect_right(made);
}

// The last rank posts when it has heard that all others have the mean of those that have come.
RANKS(last_to_come) {
  ucft_comm_h aside = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &aside), "dup");
  for (const ucft_gossip_aggregate_t aggregate : {UCFT_GOSSIP_AVERAGE, UCFT_GOSSIP_SUM}) {
    ucft_gossip_options_t options = options_of(algorithm_named(arguments.at(0)), 1e-6);
    options.aggregate = aggregate;
    CheckedGossip<double> gossip(options, 2, 5);
    const bool is_late = rank_ == size_ - 1;
    double truth = 0, now[2], error = 0;
    for (int rank = 0; rank < size_ - 1; ++rank) truth += given(rank, 0, 5);
    if (aggregate == UCFT_GOSSIP_AVERAGE) truth /= size_ - 1;
    if (!is_late) {
      std::uint32_t contributors = 0;
      gossip.post();
      do {
        check(ucft_gossip_estimate(gossip.request, now, &error), "estimate");
        check(ucft_gossip_contributors(gossip.request, &contributors), "contributors");
        if (contributors >= static_cast<std::uint32_t>(size_)) wrong("{} contributors", contributors);
      } while (contributors + 1 < static_cast<std::uint32_t>(size_) || !(std::abs(now[0] - truth) < 1e-3 * truth));
    }
    check(ucft_barrier(aside, nullptr, nullptr), "barrier");
    if (is_late) gossip.post();
    std::uint32_t contributors = 0;
    check(ucft_wait(gossip.request, UINT64_MAX), "wait");
    check(ucft_gossip_contributors(gossip.request, &contributors), "contributors");
    if (contributors != static_cast<std::uint32_t>(size_)) wrong("{} contributors in the end", contributors);
    gossip.judge(true);
    check(ucft_request_free(gossip.request), "free");
  }
  check(ucft_comm_destroy(aside), "destroy");
}

TEST_P(Gossip, RanksDoNotWaitForOneThatComesLate) {
  for (const std::string algorithm : asynchronous)
    for (int ranks : {3, 4}) expect_right(plan(ranks, last_to_come, {algorithm}));
}

// Communicators with gossip in them come and go; a persistent request is posted again.
RANKS(communicators) {
  const ucft_comm_h whole = comm;
  for (int i = 0; i < 12; ++i) {
    check(ucft_comm_dup(whole, &comm), "dup");
    CheckedGossip<double> gossip(options_of(i % algorithm_count, 1e-6), 3, i);
    for (int again = 0; again < 7; ++again) {
      gossip.post();
      check(ucft_wait(gossip.request, UINT64_MAX), "wait");
      gossip.judge(true);
    }
    check(ucft_request_free(gossip.request), "free");
    check(ucft_comm_destroy(comm), "destroy");
  }
  comm = whole;
}

TEST_P(Gossip, CommunicatorsComeAndGo) {
  for (int ranks : {1, 3}) expect_right(plan(ranks, communicators));
}

// The last rank is of a program that was compiled when the options ended with the seed. Of later ones it has the
// defaults, which the others name.
RANKS(older_options) {
  ucft_gossip_options_t options = options_of(UCFT_GOSSIP_HPFLC, 1e-6);
  if (rank_ == size_ - 1) {
    options.struct_size = offsetof(ucft_gossip_options_t, cycles);
    options.cycles = 3;
  } else {
    options.cycles = 16;
    options.repair_initial = 1;
  }
  CheckedGossip<double> gossip(options, 4, 1);
  gossip.post();
  gossip.finish(true);
}

TEST_P(Gossip, OptionsOfAnOlderProgramMeanTheDefaults) { expect_right(plan(3, older_options)); }

RANKS(mismatch) {
  const std::string& what = arguments.at(0);
  const bool odd = rank_ == size_ - 1;
  std::vector<double> in(9, 1), out(9);
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  if (odd && what == "algorithm") options.algorithm = UCFT_GOSSIP_HPS;
  if (odd && what == "eps") options.eps = 1e-3;
  if (odd && what == "seed") options.seed = 3;
  if (what == "cycles" || what == "repair_initial") options.algorithm = UCFT_GOSSIP_HPFLC;
  if (odd && what == "cycles") options.cycles = 7;
  if (odd && what == "repair_initial") options.repair_initial = -1;
  if (odd && what == "aggregate") options.aggregate = UCFT_GOSSIP_MAXIMUM;
  if (odd && what == "path") options.path = UCFT_GOSSIP_PATH_RMA;
  const std::uint64_t count = odd && what == "count" ? 9 : 8;
  const ucft_dtype_t type = what == "half"          ? (odd ? UCFT_FLOAT16 : UCFT_BFLOAT16)
                            : odd && what == "type" ? UCFT_FLOAT
                                                    : UCFT_DOUBLE;
  expect(ucft_gossip_allreduce(comm, in.data(), out.data(), count, type, &options, nullptr), UCFT_ERR_MISMATCH,
         what.c_str());
  for (int i = 0; i < 5; ++i) {
    CheckedGossip<double> gossip(options_of(i, 1e-6), 2, i);
    gossip.post();
    gossip.finish(true);
  }
}

TEST_P(Gossip, DifferentOptionsAreAMismatchForAll) {
  for (const char* what :
       {"algorithm", "eps", "seed", "count", "type", "path", "cycles", "repair_initial", "aggregate", "half"})
    expect_right(plan(3, mismatch, {what}));
}

// Values around 0 have no relative error to reach, and values that are no numbers no aggregate: both end, and say so.
RANKS(awkward) {
  for (int algorithm = 0; algorithm < algorithm_count; ++algorithm) {
    ucft_gossip_options_t options = options_of(algorithm, 1e-6);
    options.stop = UCFT_GOSSIP_ROUNDS;
    ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
    double in = rank_ == 0 ? std::nan("") : 1, out = 0;
    check(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, &result), "NaN");
    if (result.reached != 0 || result.error_bound != HUGE_VAL || !std::isnan(out))
      wrong("NaN: {}, bound {}", out, result.error_bound);
    in = 0;
    check(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, &result), "zero");
    if (out != 0 || result.error_bound != 0 || result.reached == 0)
      wrong("zero: {} with bound {}", out, result.error_bound);
  }
}

TEST_P(Gossip, ZerosAndNoNumbersEnd) { expect_right(plan(3, awkward)); }

}  // namespace
}  // namespace ucft::detail::test
