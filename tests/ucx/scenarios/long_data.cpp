// Long sums (collectives/among/phases/circulant.hpp) of lengths, types and communicators of all kinds, several at once,
// long reduces to each root, and long alltoalls; no deaths (kills.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/stat.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

// What rank r gives to element i; small, so all sums are exact in all types.
int given_by(int rank, std::uint64_t element, int round) {
  return (rank + 1) * static_cast<int>((element * 7 + element / 4099 + static_cast<std::uint64_t>(round)) % 3);
}

struct Sum {
  ucft_request_h request = UCFT_REQUEST_NULL;
  std::vector<std::byte> in, out;
  std::uint64_t count = 0;
  std::vector<int> ranks;
  int round = 0;
  void (*verify)(const Sum&) = nullptr;
};

template <class Element>
void fill(Sum& sum) {
  std::vector<Element> values(sum.count);
  for (std::uint64_t i = 0; i < sum.count; ++i) values[i] = static_cast<Element>(given_by(rank_, i, sum.round));
  sum.in.resize(sum.count * sizeof(Element));
  if (sum.count > 0) std::memcpy(sum.in.data(), values.data(), sum.in.size());
  sum.verify = [](const Sum& made) {
    std::uint64_t weight = 0;
    for (const int rank : made.ranks) weight += static_cast<std::uint64_t>(rank) + 1;
    for (std::uint64_t i = 0; i < made.count; ++i) {
      Element found;
      std::memcpy(&found, made.out.data() + i * sizeof found, sizeof found);
      if (found != static_cast<Element>(static_cast<std::uint64_t>(given_by(0, i, made.round)) * weight))
        wrong("round {}, {} elements of {} bytes, {} ranks: element {}", made.round, made.count, sizeof found,
              made.ranks.size(), i);
    }
  };
}

void finish(Sum& sum) {
  check(ucft_wait(sum.request, UINT64_MAX), "wait");
  ucft_result_t result = UCFT_RESULT_INIT;
  check(ucft_request_result(sum.request, &result), "result");
  if (result.contributors != sum.ranks.size()) wrong("round {}: {} contributors", sum.round, result.contributors);
  check(ucft_request_free(sum.request), "free");
  sum.verify(sum);
}

void add_words(const void* in, void* inout, uint64_t count, ucft_dtype_t, void*) {
  const auto* from = static_cast<const std::uint32_t*>(in);
  auto* to = static_cast<std::uint32_t*>(inout);
  for (uint64_t i = 0; i < count; ++i) to[i] += from[i];
}

// long_data ROUNDS SEED
RANKS(long_data) {
  const int rounds = std::stoi(arguments.at(0));
  std::mt19937 random(static_cast<unsigned>(std::stoi(arguments.at(1))));
  std::deque<Sum> flying;
  for (int round = 0; round < rounds; ++round) {
    ucft_comm_h on = UCFT_COMM_NULL;
    std::vector<int> ranks;
    if (round % 4 == 3) {  // parts, made while long sums of the whole are in flight
      const int parts = 1 + static_cast<int>(random() % 4);
      for (int rank = 0; rank < size_; ++rank)
        if (rank * rank % parts == rank_ * rank_ % parts) ranks.push_back(rank);
      check(ucft_comm_split(comm, rank_ * rank_ % parts, 0, &on), "split");
    } else {
      for (int rank = 0; rank < size_; ++rank) ranks.push_back(rank);
      if (round % 4 == 1) check(ucft_comm_dup(comm, &on), "dup");
    }
    const unsigned sums = 1 + random() % 3, type = random() % 6, length = random() % 9, more = random() % 4;
    for (unsigned i = 0; i < sums; ++i) {
      Sum sum;
      sum.ranks = ranks;
      sum.round = round;
      const std::uint64_t element[] = {1, 8, 8, 4, 4, 32}, each = element[type];  // that travel
      std::uint64_t steps = 0;
      while ((std::size_t{1} << steps) < ranks.size()) ++steps;
      const std::uint64_t most = 256 * 1024 / std::max<std::uint64_t>(steps, 1) / each;
      const std::uint64_t lengths[] = {0,
                                       1,
                                       ranks.size() - 1,
                                       ranks.size(),
                                       most,
                                       most + 1,
                                       most + 65537 / each,
                                       2 * most + 1,
                                       64 * 1024 / each * ranks.size() + 1};
      sum.count = lengths[length] + (length > 5 ? more : 0);
      ucft_dtype_t dtype = UCFT_UINT8;
      ucft_operator_t op = UCFT_OPERATOR_INIT(UCFT_SUM);
      switch (type) {
        case 0: fill<std::uint8_t>(sum); break;
        case 1: fill<std::uint64_t>(sum), dtype = UCFT_UINT64; break;
        case 2: fill<double>(sum), dtype = UCFT_DOUBLE; break;
        case 3: fill<float>(sum), dtype = UCFT_FLOAT; break;
        case 4: fill<std::uint32_t>(sum), dtype = UCFT_UINT32, op.op = UCFT_USER, op.function = &add_words; break;
        default: fill<double>(sum), dtype = UCFT_DOUBLE, op.op = UCFT_SUM_REPRODUCIBLE;
      }
      const bool in_place = random() % 2 == 0;
      sum.out = in_place ? sum.in : std::vector<std::byte>(sum.in.size());
      flying.push_back(std::move(sum));
      Sum& last = flying.back();
      check(ucft_allreduce_init(on == UCFT_COMM_NULL ? comm : on, in_place ? UCFT_IN_PLACE : last.in.data(),
                                last.out.data(), last.count, dtype, &op, nullptr, &last.request),
            "init");
      while (true) {
        const ucft_status_t status = ucft_post(last.request);
        if (status == UCFT_OK) break;
        expect(status, UCFT_ERR_BUSY, "post");
        check(ucft_progress(context), "progress");
      }
    }
    const bool drains = on != UCFT_COMM_NULL;
    for (; flying.size() > (drains ? 0u : 5u); flying.pop_front()) finish(flying.front());
    if (drains) check(ucft_comm_destroy(on), "destroy");
  }
  for (; !flying.empty(); flying.pop_front()) finish(flying.front());
  note(static_cast<std::uint64_t>(rounds));
}

// UCFT_BFLOAT16: sums of it travel in floats.
struct UpperHalf {
  explicit UpperHalf(double value = 0)
      : bits(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16)) {}
  bool operator==(const UpperHalf&) const = default;
  std::uint16_t bits;
};

// To each root in turns: apart and in place, in aligned memory and in other memory. The root alone gets something,
// and what the ranks give stays as it is.
template <class Element>
void reduce_to(int root, std::uint64_t count, ucft_dtype_t dtype, ucft_op_t op, bool in_place) {
  const std::uint64_t shift = in_place ? 0 : count % 2 * sizeof(Element) / 2, bytes = count * sizeof(Element);
  std::vector<std::byte> in(shift + bytes), out(shift + bytes, std::byte{0x5a});
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto value = static_cast<Element>(given_by(rank_, i, root));
    std::memcpy(in.data() + shift + i * sizeof value, &value, sizeof value);
  }
  const std::vector<std::byte> given = in, untouched = out;
  const bool here = in_place && rank_ == root;
  check(ucft_reduce(comm, here ? UCFT_IN_PLACE : in.data() + shift, here ? in.data() : out.data() + shift, count, dtype,
                    op, root, nullptr, nullptr),
        "reduce");
  if (!here && in != given) wrong("root {}, {} elements: what was given has changed", root, count);
  if (rank_ != root && out != untouched) wrong("root {}, {} elements: not for this rank", root, count);
  if (rank_ != root) return;
  for (std::uint64_t i = 0; i < count; ++i) {
    Element found;
    std::memcpy(&found, (here ? in : out).data() + shift + i * sizeof found, sizeof found);
    const double sum = given_by(0, i, root) * (size_ * (size_ + 1) / 2);
    const auto wanted = static_cast<Element>(op == UCFT_AVG ? sum / size_ : sum);
    if (found != wanted) wrong("root {}, {} elements: element {}", root, count, i);
  }
}

RANKS(long_reduces) {
  for (int root = 0; root < size_; ++root)
    for (const std::uint64_t count : {257u, 2049u, 24581u, 131072u, 200001u})
      for (const bool in_place : {false, true}) {
        reduce_to<std::uint64_t>(root, count, UCFT_UINT64, UCFT_SUM, in_place);
        reduce_to<std::uint32_t>(root, count, UCFT_UINT32, UCFT_SUM, in_place);
        reduce_to<double>(root, count, UCFT_DOUBLE, UCFT_AVG, in_place);
        reduce_to<double>(root, count, UCFT_DOUBLE, UCFT_SUM_REPRODUCIBLE, in_place);
        reduce_to<float>(root, count, UCFT_FLOAT, UCFT_AVG, in_place);
        reduce_to<UpperHalf>(root, count, UCFT_BFLOAT16, UCFT_SUM, in_place);
      }
  note(static_cast<std::uint64_t>(size_));
}

TEST_P(Scenario, LongReducesToEachRootApartAndInPlace) {
  for (int ranks : {1, 2, 3, 5}) expect_right(plan(ranks, long_reduces));
}

TEST_P(Scenario, LongSumsOfAllLengthsTypesAndCommunicators) {
  for (int ranks : {1, 2, 3, 5, 7}) expect_right(plan(ranks, long_data, {"40", std::to_string(ranks)}));
}

// Bytes of this rank's range that are committed, whoever may read them.
std::uint64_t committed_bytes() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone) != "/memfd:ucft (deleted)") continue;
    struct stat file {};
    if (stat(entry.path().c_str(), &file) == 0) return static_cast<std::uint64_t>(file.st_blocks) * 512;
  }
  return 0;
}

// short_data ITERATIONS: sums and scatters of 24 KiB to 60 KiB, one behind the other, in memory that is used again at
// once. Some ranks post, and stay away from ucft for a while before they wait.
RANKS(short_data) {
  std::mt19937 random(static_cast<unsigned>(rank_));
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  const auto word_of = [&](int i, std::size_t at) { return static_cast<std::uint64_t>(i) * 1000003 + at; };
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) {
    const std::size_t count = 3000 + static_cast<std::size_t>(i / 8 % 3) * 2000;
    const bool scatters = i / 4 % 2 == 1;
    const int root = i / 8 % size_;
    const std::size_t taken = scatters ? count / static_cast<std::size_t>(size_) : count;
    std::vector<std::uint64_t> in(scatters ? taken * static_cast<std::size_t>(size_) : count), out(taken);
    for (std::size_t at = 0; at < in.size(); ++at) in[at] = word_of(i, at);
    ucft_request_h request = UCFT_REQUEST_NULL;
    check(scatters ? ucft_scatter_init(comm, in.data(), out.data(), taken, UCFT_UINT64, root, nullptr, &request)
                   : ucft_allreduce_init(comm, in.data(), out.data(), count, UCFT_UINT64, &sum, nullptr, &request),
          "init");
    check(ucft_post(request), "post");
    if (rank_ % 3 > 0 && random() % 2 == 0) usleep(random() % 1500);
    check(ucft_wait(request, UINT64_MAX), "wait");
    check(ucft_request_free(request), "free");
    const auto first = static_cast<std::size_t>(rank_) * taken;
    for (std::size_t at = 0; at < taken; ++at) {
      const std::uint64_t expected = scatters ? word_of(i, first + at) : word_of(i, at) * static_cast<unsigned>(size_);
      if (out[at] != expected) wrong("iteration {}: word {} is {} and not {}", i, at, out[at], expected);
    }
  }
}

// By this table they are long between hosts: they go in blocks, and straight to their readers.
TEST(ShortData, IsReadBeforeItsMemoryIsUsedAgain) {
  for (int ranks : {6, 7, 9}) {
    JobPlan made{ranks, short_data, {"400"}, {}, over("two_level")};
    made.environment["UCFT_TEST_RANKS_PER_HOST"] = "3";
    made.environment["UCFT_TUNING_FILE"] = table_of_a_tree;
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
  }
}

// long_alltoall MIB: of each rank for each other. It needs room for two of its rounds, and for one of the alltoall
// before.
RANKS(long_alltoall) {
  const std::uint64_t count = std::stoul(arguments.at(0)) * ((1 << 20) / sizeof(std::uint64_t));
  alltoall(0, 2);
  const std::uint64_t before = committed_bytes();
  for (int i = 0; i < 3; ++i) alltoall(i, count);
  if (const std::uint64_t room = committed_bytes() - before; room == 0 || room > 24 << 20)
    wrong("{} bytes of room", room);
}

TEST(LongAlltoall, NeedsRoomForItsRoundsAlone) {
  JobPlan made{4, long_alltoall, {"12"}, {}, over("shm")};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

// among_rounds ITERATIONS [CORE]: an alltoall in rounds while older operations are in flight; none is posted until its
// last round is. Rank 0 is late; rank 1 reads late what the others have given to the first round. CORE: all ranks are
// on that one, so that a rank is often stopped between two rounds.
RANKS(among_rounds) {
  const int iterations = std::stoi(arguments.at(0));
  if (arguments.size() > 1) {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(std::stoul(arguments[1]), &core);
    if (sched_setaffinity(0, sizeof core, &core) != 0) wrong("core {}", arguments[1]);
  }
  constexpr std::size_t count = 3000;
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::uint64_t> in(ranks * count), out(ranks * count);
  for (int i = 0; i < iterations; ++i) {
    const auto word_of = [&](std::size_t from, std::size_t to, std::size_t k) {
      return (from * 64 + to) * 10000 + k + salt(i);
    };
    for (std::size_t k = 0; k < in.size(); ++k) in[k] = word_of(static_cast<std::size_t>(rank_), k / count, k % count);
    if (rank_ == 0 ? i % 4 == 0 : rank_ != 1 && i % 4 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::vector<PostedSum> sums;
    for (int k = 0; k < i % 4; ++k) sums.push_back(post_sum(i, 3));
    ucft_request_h request = UCFT_REQUEST_NULL;
    check(ucft_alltoall_init(comm, in.data(), out.data(), count, UCFT_UINT64, nullptr, &request), "init");
    while (ucft_post(request) == UCFT_ERR_BUSY) check(ucft_progress(context), "progress");
    if (rank_ == 1 && i % 4 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(6));
    allreduce(i, 2);  // blocking: behind the last round
    check(ucft_wait(request, UINT64_MAX), "wait");
    for (std::size_t k = 0; k < out.size(); ++k)
      if (out[k] != word_of(k / count, static_cast<std::size_t>(rank_), k % count))
        return wrong("iteration {}: word {}", i, k);
    check(ucft_request_free(request), "free");
    for (PostedSum& sum : sums) finish(sum);
  }
}

TEST(LongAlltoall, OldOperationsGoOnBetweenItsRoundsAndNewOnesWait) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"20"}, {"200", std::to_string(sched_getcpu())}})
    for (const char* window : {"2", "4", "8"}) {
      JobPlan made{4, among_rounds, words, {}, over("shm")};
      made.environment["UCFT_TEST_SHORT_ROUNDS"] = "y";
      made.environment["UCFT_WINDOW"] = window;
      EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
    }
}

// Rank 1 has another count, of which the first rounds are as long.
RANKS(other_rounds) {
  const std::size_t count = rank_ == 1 ? 4000 : 3000, ranks = static_cast<std::size_t>(size_);
  std::vector<std::uint64_t> in(ranks * count), out(ranks * count, 3);
  expect(ucft_alltoall(comm, in.data(), out.data(), count, UCFT_UINT64, nullptr, nullptr), UCFT_ERR_MISMATCH, "counts");
  if (std::ranges::count(out, 3u) != static_cast<std::ptrdiff_t>(out.size())) wrong("something was written");
  for (int i = 0; i < 3; ++i) alltoall(i, 3000);
}

TEST(LongAlltoall, OtherCountsAreAMismatchOfAll) {
  JobPlan made{3, other_rounds, {}, {}, over("shm")};
  made.environment["UCFT_TEST_SHORT_ROUNDS"] = "y";
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

}  // namespace
}  // namespace ucft::detail::test
