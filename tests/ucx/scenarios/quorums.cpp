// Quorum allreduces of real processes: all types, ranks that are late, that lead and are late, that leave, and deaths.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

ucft_coll_options_t with_quorum(int quorum, std::int64_t deadline_ns = 0) {
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.quorum = quorum;
  options.deadline_ns = deadline_ns;
  return options;
}

struct Outcome {
  ucft_status_t status = UCFT_INPROGRESS;
  std::vector<std::int32_t> missing, late;
  std::uint32_t contributors = 0;
  bool is_late = false;

  bool has(int rank) const {
    return std::ranges::find(missing, rank) == missing.end() && std::ranges::find(late, rank) == late.end();
  }
};

struct Reader {
  std::vector<std::int32_t> missing = std::vector<std::int32_t>(static_cast<std::size_t>(size_)), late = missing;
  ucft_result_t raw = UCFT_RESULT_INIT;

  Reader() {
    raw.missing = missing.data();
    raw.late = late.data();
    raw.missing_capacity = raw.late_capacity = size_;
  }
  Outcome outcome() const {
    Outcome its{raw.status, {}, {late.begin(), late.begin() + raw.late_count}, raw.contributors, raw.is_late != 0};
    if (raw.status == UCFT_OK) its.missing.assign(missing.begin(), missing.begin() + raw.missing_count);
    return its;
  }
};

// A value of rank r in operation k. Sums of different sets of ranks differ.
std::uint64_t value_of(int rank, std::uint64_t operation, std::uint64_t word) {
  return (std::uint64_t{1} << 6 * rank) * (1 + operation % 50) + (word << 48);
}

// Checks the sum against the ranks that the result names.
Outcome add(std::uint64_t operation, std::size_t words, const ucft_coll_options_t& options) {
  std::vector<std::uint64_t> in(words), out(words, 7);
  for (std::size_t i = 0; i < words; ++i) in[i] = value_of(rank_, operation, i);
  Reader result;
  const ucft_status_t status =
      ucft_allreduce(comm, in.data(), out.data(), words, UCFT_UINT64, UCFT_SUM, &options, &result.raw);
  const Outcome its = result.outcome();
  if (status != its.status)
    wrong("operation {}: {} and {}", operation, ucft_status_name(status), ucft_status_name(its.status));
  if (status == UCFT_ERR_LATE) {
    if (!its.is_late || out != std::vector<std::uint64_t>(words, 7))
      wrong("operation {} is late, and written", operation);
    return its;
  }
  check(status, "quorum allreduce");
  if (its.is_late != (std::ranges::find(its.late, rank_) != its.late.end()) || its.has(rank_) == its.is_late)
    wrong("operation {}: is it late?", operation);
  if (its.contributors + its.missing.size() + its.late.size() != static_cast<std::size_t>(size_))
    wrong("operation {}: {} contributors", operation, its.contributors);
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < size_; ++rank) sum += its.has(rank) ? value_of(rank, operation, i) : 0;
    if (out[i] != sum) wrong("operation {}: word {} is {:x}, not {:x}", operation, i, out[i], sum);
  }
  return its;
}

// All ranks tell each other what has become of each operation. Of some a rank may not know.
class Agreement {
 public:
  void note(std::uint64_t operation, const Outcome& outcome) {
    all_.resize(std::max<std::size_t>(all_.size(), operation + 1));
    if (outcome.status != UCFT_OK) return;
    std::uint64_t hash = 1;
    for (int rank = 0; rank < size_; ++rank) {
      const bool is_late = std::ranges::find(outcome.late, rank) != outcome.late.end();
      hash = hash * 3 + (outcome.has(rank) ? 0 : is_late ? 1 : 2);
    }
    all_[operation] = hash;
  }
  void compare() {
    std::vector<std::uint64_t> greatest(all_.size());
    ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
    options.f = size_ - 1;
    check(ucft_allreduce(comm, all_.data(), greatest.data(), all_.size(), UCFT_UINT64, UCFT_MAX, &options, nullptr),
          "comparison");
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i] != 0 && all_[i] != greatest[i]) wrong("operation {}: {} here, {} elsewhere", i, all_[i], greatest[i]);
  }

 private:
  std::vector<std::uint64_t> all_;
};

// By a request, once with send and recv, and once in place.
template <class T>
void expect_sum(ucft_dtype_t dtype, const ucft_operator_t& op, const std::vector<T>& in, const std::vector<T>& expected,
                const char* what) {
  const ucft_coll_options_t options = with_quorum(size_);
  for (const bool in_place : {false, true}) {
    std::vector<T> out = in_place ? in : std::vector<T>(in.size());
    ucft_request_h request = UCFT_REQUEST_NULL;
    check(ucft_allreduce_init(comm, in_place ? UCFT_IN_PLACE : in.data(), out.data(), in.size(), dtype, &op, &options,
                              &request),
          what);
    check(ucft_post(request), what);
    check(ucft_wait(request, UINT64_MAX), what);
    if (out != expected) wrong("{}{}", what, in_place ? ", in place" : "");
    ucft_request_free(request);
  }
}

void keep_greater(const void* in, void* inout, std::uint64_t count, ucft_dtype_t, void*) {
  for (std::uint64_t i = 0; i < count; ++i)
    static_cast<std::int32_t*>(inout)[i] =
        std::max(static_cast<const std::int32_t*>(in)[i], static_cast<std::int32_t*>(inout)[i]);
}

RANKS(quorums_of_all_types) {
  const int n = size_;
  const double all = n * (n + 1) / 2.0;
  const double mine = rank_ + 1;
  for (const std::size_t count : {0u, 1u, 3000u}) {
    const auto op_of = [](ucft_op_t op) {
      ucft_operator_t its = UCFT_OPERATOR_INIT(UCFT_SUM);
      its.op = op;
      return its;
    };
    expect_sum<double>(UCFT_DOUBLE, op_of(UCFT_SUM), std::vector<double>(count, mine), std::vector<double>(count, all),
                       "double sum");
    expect_sum<double>(UCFT_DOUBLE, op_of(UCFT_AVG), std::vector<double>(count, mine),
                       std::vector<double>(count, all / n), "double average");
    expect_sum<float>(UCFT_FLOAT, op_of(UCFT_SUM_REPRODUCIBLE), std::vector<float>(count, static_cast<float>(mine)),
                      std::vector<float>(count, static_cast<float>(all)), "reproducible sum");
    expect_sum<std::uint16_t>(UCFT_FLOAT16, op_of(UCFT_SUM), std::vector<std::uint16_t>(count, 0x3c00),  // 1
                              std::vector<std::uint16_t>(count, n == 1   ? 0x3c00
                                                                : n == 2 ? 0x4000
                                                                         : 0x4400),
                              "half");
    expect_sum<std::int8_t>(UCFT_INT8, op_of(UCFT_MIN),
                            std::vector<std::int8_t>(count, static_cast<std::int8_t>(rank_)),
                            std::vector<std::int8_t>(count, 0), "minimum");
    ucft_operator_t user = op_of(UCFT_USER);
    user.function = &keep_greater;
    expect_sum<std::int32_t>(UCFT_INT32, user, std::vector<std::int32_t>(count, rank_),
                             std::vector<std::int32_t>(count, n - 1), "user operator");
  }
  std::vector<ucft_accumulator_t> sums(3, ucft_accumulator_t UCFT_ACCUMULATOR_INIT), out = sums;
  const double part = mine * 0x1p-60;
  for (ucft_accumulator_t& each : sums) check(ucft_accumulate(&part, 1, UCFT_DOUBLE, &each), "accumulator");
  const ucft_coll_options_t options = with_quorum(size_);
  check(ucft_allreduce(comm, sums.data(), out.data(), 3, UCFT_ACCUMULATOR, UCFT_SUM, &options, nullptr),
        "accumulators");
  double sum = 0;
  check(ucft_accumulator_value(&out[2], UCFT_DOUBLE, &sum), "value");
  if (sum != all * 0x1p-60) wrong("accumulators: {}", sum);
}

TEST_P(Scenario, QuorumsOfAllTypes) {
  for (const int ranks : {1, 2, 4}) expect_right(plan(ranks, quorums_of_all_types));
}

// Four at a time, again and again, beside ordinary operations; a fifth is refused.
RANKS(quorums_in_flight) {
  constexpr std::size_t most = 4;
  const ucft_coll_options_t options = with_quorum(size_);
  const ucft_operator_t op = UCFT_OPERATOR_INIT(UCFT_SUM);
  std::vector<std::uint64_t> in(most + 1), out(most + 1);
  std::vector<ucft_request_h> requests(most + 1);
  for (std::size_t i = 0; i <= most; ++i)
    check(ucft_allreduce_init(comm, &in[i], &out[i], 1, UCFT_UINT64, &op, &options, &requests[i]), "init");
  for (std::uint64_t round = 0; round < 200; ++round) {
    if (round == 0 && rank_ != 0) {  // rank 0 has posted all that it may
      std::uint64_t word = 0;
      check(ucft_recv(comm, &word, 1, UCFT_UINT64, 0, 1, nullptr), "recv");
    }
    for (std::size_t i = 0; i < most; ++i) {
      in[i] = value_of(rank_, round + i, 0);
      check(ucft_post(requests[i]), "post");
    }
    if (round == 0 && rank_ == 0 && size_ > 1) {
      expect(ucft_post(requests[most]), UCFT_ERR_BUSY, "a fifth");
      if (std::string(ucft_last_error()).find("4 quorum allreduces") == std::string::npos)
        wrong("it says {}", ucft_last_error());
      std::uint64_t word = 0;
      for (int other = 1; other < size_; ++other) check(ucft_send(comm, &word, 1, UCFT_UINT64, other, 1), "send");
    }
    std::uint64_t ordinary = 1, sum = 0;
    check(ucft_allreduce(comm, &ordinary, &sum, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "allreduce");
    if (sum != static_cast<std::uint64_t>(size_)) wrong("sum {}", sum);
    for (std::size_t i = 0; i < most; ++i) {
      check(ucft_wait(requests[i], UINT64_MAX), "wait");
      std::uint64_t expected = 0;
      for (int rank = 0; rank < size_; ++rank) expected += value_of(rank, round + i, 0);
      if (out[i] != expected) wrong("round {}: {} is {:x}, not {:x}", round, i, out[i], expected);
    }
  }
  for (ucft_request_h each : requests) ucft_request_free(each);
}

TEST_P(Scenario, QuorumsInFlight) {
  for (const int ranks : {1, 2, 4}) expect_right(plan(ranks, quorums_in_flight));
}

// a_late_rank WHO WORDS: the others decide 10 operations without it, and say so to it. Of the first it gets no result,
// of the last 4 it does. Then it has caught up, and its value counts.
RANKS(a_late_rank) {
  const int who = std::stoi(arguments.at(0));
  const std::size_t words = std::stoul(arguments.at(1));
  constexpr std::uint64_t ahead = 10, kept = 4;
  std::uint64_t word = 0;
  Agreement agreement;
  if (rank_ != who) {
    for (std::uint64_t i = 0; i < ahead; ++i) {
      const Outcome its = add(i, words, with_quorum(size_ - 1));
      if (its.late != std::vector<std::int32_t>{who} || !its.missing.empty()) wrong("operation {}: who is late?", i);
      agreement.note(i, its);
    }
    check(ucft_send(comm, &word, 1, UCFT_UINT64, who, 1), "send");
  } else {
    for (int other = 0; other < size_; ++other)
      if (other != who) check(ucft_recv(comm, &word, 1, UCFT_UINT64, other, 1, nullptr), "recv");
    for (std::uint64_t i = 0; i < ahead; ++i) {
      const Outcome its = add(i, words, with_quorum(size_ - 1));
      if (!its.is_late) wrong("operation {} is not late", i);
      if (i < ahead - kept && its.status == UCFT_OK) wrong("operation {} is kept", i);
      if (i == ahead - 1 && its.status != UCFT_OK) wrong("the last one is not kept");
      agreement.note(i, its);
    }
  }
  for (std::uint64_t i = ahead; i < ahead + 5; ++i) {
    const Outcome its = add(i, words, with_quorum(size_, 1));
    if (!its.late.empty()) wrong("operation {}: {} are late", i, its.late.size());
    agreement.note(i, its);
  }
  agreement.compare();
}

TEST_P(Scenario, ARankThatIsLateGetsTheResultsThatAreKeptAndCatchesUp) {
  for (const char* who : {"0", "1", "2"})
    for (const char* words : {"1", "400", "9000"}) expect_right(plan(3, a_late_rank, {who, words}));
}

// a_rank_that_is_late_when_all_have_left WHO WORDS MARK: the others have decided, and have left the communicator, while
// rank WHO was outside of ucft. It learns that it was late, and is alone then.
RANKS(a_rank_that_is_late_when_all_have_left) {
  const int who = std::stoi(arguments.at(0));
  const std::size_t words = std::stoul(arguments.at(1));
  const std::string mark = arguments.at(2) + "_";
  const ucft_comm_h before = comm;
  check(ucft_comm_dup(comm, &comm), "dup");
  if (rank_ != who) {
    for (std::uint64_t i = 0; i < 6; ++i) add(i, words, with_quorum(size_ - 1));
    check(ucft_comm_destroy(comm), "destroy");
    comm = before;
    return leave_mark(mark + std::to_string(rank_));
  }
  for (int other = 0; other < size_; ++other)
    if (other != who) wait_for_mark(mark + std::to_string(other));
  for (std::uint64_t i = 0; i < 6; ++i) {
    const Outcome its = add(i, words, with_quorum(size_ - 1));
    if (!its.is_late) wrong("operation {} is not late", i);
    if (i == 5 && its.status != UCFT_OK) wrong("the last result is lost");
  }
  const Outcome its = add(6, words, with_quorum(size_ - 1));
  if (its.is_late || its.missing.size() != static_cast<std::size_t>(size_ - 1)) wrong("it is not alone");
}

TEST_P(Scenario, ARankThatIsLateWhenAllHaveLeftKnowsIt) {
  for (const char* who : {"0", "2"})
    for (const char* words : {"1", "200", "5000"})
      expect_right(plan(3, a_rank_that_is_late_when_all_have_left, {who, words, new_mark("left")}));
}

// Rank 1 makes a communicator when rank 0 has decided there, alone, and has left the job. It learns that it was late.
RANKS(a_communicator_that_others_have_left) {
  if (rank_ == 0) check(ucft_comm_create(context, &comm), "create");
  if (rank_ == 0 && add(0, 1, with_quorum(1)).late.size() != 1) wrong("rank 1 is not late");
  if (rank_ == 0) return;
  for (std::int32_t state = 0; state != UCFT_RANK_LEFT && state != UCFT_RANK_UNKNOWN;) {
    ucft_rank_sight_t sights[2] = {UCFT_RANK_SIGHT_INIT, UCFT_RANK_SIGHT_INIT};
    std::int32_t count = 2;
    check(ucft_comm_look(comm, sights, &count), "look");
    state = sights[0].state;
  }
  check(ucft_comm_create(context, &comm), "create");
  if (!add(0, 1, with_quorum(1)).is_late) wrong("it is not late");
  if (add(1, 1, with_quorum(1)).is_late) wrong("it is late again");
}

TEST(HostScenario, ACommunicatorThatIsMadeWhenOthersHaveLeftIt) {
  JobPlan plan{2, a_communicator_that_others_have_left, {}, {}, over("shm")};
  EXPECT_EQ(what_is_wrong(plan, run_job(plan), {}), "");
}

// Rank 1 was late, and has left the job. Rank 0 has not heard of that when it leaves, and tells it the long result. It
// waits for nobody to read that: its limit of 5 s is for ranks that live.
RANKS(the_last_to_leave) {
  if (rank_ == 0) add(0, 5000, with_quorum(1));
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  if (rank_ == 1) return;
  for (std::int32_t state = 0; state != UCFT_RANK_LEFT && state != UCFT_RANK_UNKNOWN;) {
    ucft_rank_sight_t sights[2] = {UCFT_RANK_SIGHT_INIT, UCFT_RANK_SIGHT_INIT};
    std::int32_t count = 2;
    check(ucft_comm_look(comm, sights, &count), "look");
    state = sights[1].state;
  }
  const auto begin = std::chrono::steady_clock::now();
  check(ucft_comm_destroy(comm), "destroy");
  if (std::chrono::steady_clock::now() - begin >= std::chrono::seconds(5)) wrong("it has waited for one that has left");
}

TEST(HostScenario, ARankThatLeavesWithLongResultsWaitsForNobodyWhoHasLeft) {
  for (int run = 0; run < 8; ++run) {
    JobPlan plan{2, the_last_to_leave, {}, {}, over("shm")};
    EXPECT_EQ(what_is_wrong(plan, run_job(plan), {}), "");
  }
}

// a_lead_that_computes MARK: rank 0 leads, and is outside of ucft until the others have decided. Its helper thread
// hands the lead over, or they would wait for ever.
RANKS(a_lead_that_computes) {
  const std::string mark = arguments.at(0) + "_";
  add(0, 1, with_quorum(size_));
  if (rank_ == 0) {
    for (int other = 1; other < size_; ++other) wait_for_mark(mark + std::to_string(other));
    return;
  }
  for (std::uint64_t i = 1; i < 6; ++i)
    if (const Outcome its = add(i, 1, with_quorum(size_ - 1, 1000)); its.late != std::vector<std::int32_t>{0})
      wrong("operation {}: rank 0 is not late", i);
  leave_mark(mark + std::to_string(rank_));
}

TEST_P(Scenario, ALeadThatComputesHandsOver) { expect_right(plan(3, a_lead_that_computes, {new_mark("computes")})); }

// Another length, or another quorum: all that are in it hear who it was.
RANKS(quorums_that_differ) {
  std::vector<std::uint64_t> in(2), out(2, 7);
  for (const bool is_length : {true, false}) {
    const ucft_coll_options_t options = with_quorum(size_, is_length || rank_ != 1 ? 0 : 5);
    expect(ucft_allreduce(comm, in.data(), out.data(), is_length && rank_ == 1 ? 2 : 1, UCFT_UINT64, UCFT_SUM, &options,
                          nullptr),
           UCFT_ERR_MISMATCH, "mismatch");
    if (std::string(ucft_last_error()).find("rank 1 ") == std::string::npos) wrong("it says {}", ucft_last_error());
  }
  if (out != std::vector<std::uint64_t>(2, 7)) wrong("something is written");
  add(2, 5, with_quorum(size_));
}

TEST_P(Scenario, QuorumsThatDiffer) { expect_right(plan(3, quorums_that_differ)); }

// quorums COUNT SEED (for kills.cpp): ranks are slow by chance. All ranks that live, and know an operation's outcome,
// know the same one.
RANKS(quorums) {
  const auto count = static_cast<std::uint64_t>(std::stoul(arguments.at(0)));
  std::mt19937_64 common(std::stoul(arguments.at(1))), own(common() + static_cast<unsigned>(rank_));
  Agreement agreement;
  for (std::uint64_t i = 0; i < count; ++i) {
    constexpr std::size_t lengths[] = {1, 1, 60, 1, 1500, 1, 5000};
    const std::size_t words = lengths[common() % std::size(lengths)];
    const int quorum = 1 + static_cast<int>(common() % static_cast<unsigned>(size_));
    const std::int64_t deadline_ns = static_cast<std::int64_t>(common() % 3) * 50'000;
    if (own() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 1000));
    agreement.note(i, add(i, words, with_quorum(quorum, deadline_ns)));
    if (i == 0) say_started();
  }
  agreement.compare();
}

TEST_P(Scenario, QuorumsOfRanksThatAreSlowByChance) {
  for (const int ranks : {2, 3, 5}) expect_right(plan(ranks, quorums, {"300", std::to_string(ranks)}));
}

}  // namespace
}  // namespace ucft::detail::test
