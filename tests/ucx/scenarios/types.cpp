// Every operator on every type, by real processes, of which one may die: what the survivors get is what the plain
// reference (tests/plain_reduction.hpp) makes of the values of exactly those who contributed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "collectives/reduction/types.hpp"
#include "tests/plain_reduction.hpp"
#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

constexpr std::size_t period = 97;    // elements, after which they repeat
constexpr std::size_t large = 40000;  // elements

void exclusive_or(const void* in, void* inout, std::uint64_t count, ucft_dtype_t dtype, void*) {
  const auto& row = row_of(static_cast<DataType>(dtype));
  if (reinterpret_cast<std::uintptr_t>(in) % row.alignment != 0 ||
      reinterpret_cast<std::uintptr_t>(inout) % row.alignment != 0)
    wrong("an operator on {} gets memory that is not aligned", row.name);
  for (std::uint64_t i = 0; i < count * row.bytes; ++i)
    static_cast<unsigned char*>(inout)[i] ^= static_cast<const unsigned char*>(in)[i];
}

enum class Way { apart, in_place, lent, by_request, reduce };
constexpr Way ways[] = {Way::apart, Way::in_place, Way::lent, Way::by_request, Way::reduce};

// One operator on one type.
template <class T>
class Checked {
 public:
  Checked(ucft_op_t op, void* shared) : op_(op), shared_(static_cast<unsigned char*>(shared)) {
    operator_.op = op;
    if (op == UCFT_USER) operator_.function = exclusive_or;
  }

  void run(Way way, std::size_t count, std::uint64_t seed) {
    count_ = count;
    options_.reproducible_bins = bins_by(seed);
    options_.reproducible_sweeps = sweeps_by(way, seed);
    draw(seed);
    const std::vector<Element>& mine = given_[static_cast<std::size_t>(rank_)];
    std::vector<unsigned char> in(count * sizeof(T)), out(count * sizeof(T), 0x55);
    unsigned char* const send = way == Way::lent ? shared_ : in.data();
    for (std::size_t i = 0; i < count; ++i) std::memcpy(send + i * sizeof(T), mine[i % period].bytes, sizeof(T));
    const int root = static_cast<int>(seed % static_cast<std::uint64_t>(size_));
    if (way == Way::in_place) out = in;
    const bool has_result = operate(way, way == Way::in_place ? UCFT_IN_PLACE : send, out.data(), root);
    if (has_result) compare(out.data());
    const bool kept = way == Way::in_place || std::memcmp(send, mine[0].bytes, sizeof(T)) == 0;
    if (!kept) wrong("{}: the input has changed", name());
  }

 private:
  static constexpr auto dtype = dtype_of<T>();
  std::string name() const {
    return fmt::format("{} of {} {}", row_of(static_cast<Operator>(op_)).name, count_,
                       row_of(static_cast<DataType>(dtype)).name);
  }

  // Of reproducible sums each number of bins that there is, and the usual one: what is drawn has no bit below any of
  // them.
  int bins_by(std::uint64_t seed) const {
    constexpr int usual = usual_bins_of(static_cast<DataType>(dtype));
    return is_reproducible(op_) && seed % 2 == 0 ? usual + static_cast<int>(seed / 2 % (most_bins - usual + 1)) : 0;
  }

  // Each number of sweeps; of two operations only where there are such (two_operations.hpp).
  int sweeps_by(Way way, std::uint64_t seed) const {
    const bool is_blocking = way == Way::apart || way == Way::in_place || way == Way::lent;
    return is_reproducible(op_) ? static_cast<int>(seed % (is_blocking ? 3 : 2)) : 0;
  }

  // What all ranks give: every rank knows it.
  void draw(std::uint64_t seed) {
    given_.assign(static_cast<std::size_t>(size_), {});
    for (std::size_t rank = 0; rank < given_.size(); ++rank) {
      std::mt19937_64 random(seed * 1000 + rank);
      for (std::size_t i = 0; i < std::min(count_, period); ++i) given_[rank].push_back(drawn<T>(op_, random));
    }
  }

  // True if this rank has the result.
  bool operate(Way way, const void* send, void* receive, int root) {
    missing_.assign(static_cast<std::size_t>(size_), -1);
    result_ = UCFT_RESULT_INIT;
    result_.missing = missing_.data();
    result_.missing_capacity = size_;
    if (way == Way::reduce) return reduce(send, receive, root);
    if (way != Way::by_request && op_ != UCFT_USER) {
      check(ucft_allreduce(comm, send, receive, count_, dtype, op_, &options_, &result_), "allreduce");
    } else {
      ucft_request_h request = UCFT_REQUEST_NULL;
      check(ucft_allreduce_init(comm, send, receive, count_, dtype, &operator_, &options_, &request), "init");
      for (int again = way == Way::by_request ? 0 : 1; again < 2; ++again) {
        check(ucft_post(request), "post");
        check(ucft_wait(request, UINT64_MAX), "wait");
      }
      check(ucft_request_result(request, &result_), "result");
      check(ucft_request_free(request), "free");
    }
    note_result(receive);
    return true;
  }

  // Its root may be the one that dies.
  bool reduce(const void* send, void* receive, int root) {
    ucft_request_h request = UCFT_REQUEST_NULL;
    check(ucft_reduce_init(comm, send, receive, count_, dtype, &operator_, root, &options_, &request), "init");
    check(ucft_post(request), "post");
    const ucft_status_t status = ucft_wait(request, UINT64_MAX);
    if (status != UCFT_OK && (status != UCFT_ERR_ROOT_FAILED || rank_ == root)) check(status, "reduce");
    check(ucft_request_result(request, &result_), "result");
    check(ucft_request_free(request), "free");
    const auto* const bytes = static_cast<const unsigned char*>(receive);
    if (rank_ != root &&
        !std::all_of(bytes, bytes + count_ * sizeof(T), [](unsigned char each) { return each == 0x55; }))
      wrong("{}: a rank that is not the root has something", name());
    return rank_ == root;
  }

  void note_result(const void* receive) const {
    for (std::size_t i = 0; i < std::min(count_, period); ++i) {
      Element element;
      std::memcpy(element.bytes, static_cast<const unsigned char*>(receive) + i * sizeof(T), sizeof(T));
      for (const unsigned char byte : element.bytes) note(byte);
    }
    note(result_.contributors);
  }

  bool is_missing(int rank) const {
    return std::find(missing_.begin(), missing_.begin() + result_.missing_count, rank) !=
           missing_.begin() + result_.missing_count;
  }

  Element expected(std::size_t i) const {
    Element mixed;
    std::vector<T> values;
    for (int rank = 0; rank < size_; ++rank) {
      if (is_missing(rank)) continue;
      const Element& its = given_[static_cast<std::size_t>(rank)][i];
      values.push_back(its.as<T>());
      for (std::size_t byte = 0; byte < sizeof mixed.bytes; ++byte) mixed.bytes[byte] ^= its.bytes[byte];
    }
    return op_ == UCFT_USER ? mixed : Element::of(plain_result(op_, values));
  }

  void compare(const unsigned char* got) const {
    if (result_.missing_count < 0 ||
        result_.contributors + static_cast<std::uint32_t>(result_.missing_count) != static_cast<std::uint32_t>(size_))
      wrong("{}: {} contributors, {} missing", name(), result_.contributors, result_.missing_count);
    std::vector<Element> all;
    for (std::size_t i = 0; i < std::min(count_, period); ++i) all.push_back(expected(i));
    for (std::size_t i = 0; i < count_; ++i) {
      Element element;
      std::memcpy(element.bytes, got + i * sizeof(T), sizeof(T));
      if (!(element == all[i % period]) && !(op_ != UCFT_USER && are_both_nan(element, all[i % period])))
        wrong("{}: element {}, of {} contributors, is wrong", name(), i, result_.contributors);
    }
  }
  static bool are_both_nan(const Element& a, const Element& b) { return is_nan(a.as<T>()) && is_nan(b.as<T>()); }

  const ucft_op_t op_;
  unsigned char* const shared_;
  ucft_operator_t operator_ = UCFT_OPERATOR_INIT(UCFT_SUM);
  ucft_coll_options_t options_ = UCFT_COLL_OPTIONS_INIT;
  std::size_t count_ = 0;
  std::vector<std::vector<Element>> given_;  // by rank
  std::vector<std::int32_t> missing_;
  ucft_result_t result_ = UCFT_RESULT_INIT;
};

template <class T>
void run_all(ucft_op_t op, void* shared, std::uint64_t seed) {
  Checked<T> checked(op, shared);
  std::vector<std::size_t> counts{1, 6, 700};
  if (is_half<T> || is_average(op) || is_reproducible(op)) counts.push_back(large);
  for (const std::size_t count : counts)
    for (const Way way : ways) checked.run(way, count, ++seed);
}

// By this rank alone: the others would notice if anything was sent.
template <class T>
void expect_refused(ucft_op_t op) {
  T in{}, out{};
  expect(ucft_allreduce(comm, &in, &out, 1, dtype_of<T>(), op, nullptr, nullptr), UCFT_ERR_INVALID_PARAM, "refused");
}

RANKS(types) {
  void* shared = nullptr;
  check(ucft_alloc(context, large * sizeof(std::complex<double>), &shared), "alloc");
  std::uint64_t seed = 0;
  for (std::size_t type = 0; type < type_count; ++type)
    for (std::size_t op = 0; op < operator_count; ++op)
      with_type(static_cast<int>(type), [&](auto element) {
        const bool taken = takes(static_cast<Operator>(op), static_cast<DataType>(type));
        if (taken) run_all<decltype(element)>(static_cast<ucft_op_t>(op), shared, seed += 100);
        if (!taken && rank_ == 0) expect_refused<decltype(element)>(static_cast<ucft_op_t>(op));
      });
  check(ucft_free(context, shared), "free");
}

TEST_P(Scenario, EveryOperatorOnEveryTypeIsRight) { expect_right(plan(3, types)); }

TEST_P(Scenario, EveryOperatorOnEveryTypeIsRightWhenARankDies) {
  for (const int sends : {400, 3000}) {
    JobPlan made = plan(4, types);
    const int victim = sends == 400 ? 2 : 0;
    made.launcher = {"--expect-kill", std::to_string(victim)};
    made.environment["UCFT_TEST_KILL"] = fmt::format("{}:send:{}", victim, sends);
    expect_right(made, {victim});
  }
}

TEST(HostScenario, EveryOperatorOnEveryTypeIsRightAlone) {
  const JobPlan made{1, types, {}, {}, over("shm")};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

TEST(HostScenario, EveryOperatorOnEveryTypeIsRightWhereReadersAreFar) {
  JobPlan made{4, types, {}, {"--expect-kill", "1"}, over("shm")};
  made.environment["UCFT_TEST_FAR"] = "y";
  made.environment["UCFT_TEST_KILL"] = "1:send:3000";
  EXPECT_EQ(what_is_wrong(made, run_job(made), {1}), "");
}

TEST(HostScenario, EveryOperatorOnEveryTypeIsRightOnATree) {
  JobPlan made{5, types, {}, {"--expect-kill", "1"}, over("shm")};
  made.environment["UCFT_TUNING_FILE"] = table_of_a_tree;
  made.environment["UCFT_TEST_KILL"] = "1:send:2000";
  EXPECT_EQ(what_is_wrong(made, run_job(made), {1}), "");
}

}  // namespace
}  // namespace ucft::detail::test
