// Operations of more than 2 GiB and more than 4 GiB: lengths and places that 32 bits can't hold. Where there is memory
// for them.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"
#include "ucx_layer/transport/memory/available_memory.hpp"

namespace ucft::detail::test {
namespace {

constexpr std::uint64_t mib_words = (1 << 20) / sizeof(std::uint64_t);

// Words that are zero, and take memory once they are written.
class Words {
 public:
  explicit Words(std::uint64_t count)
      : count_(count),
        words_(static_cast<std::uint64_t*>(
            mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (words_ == MAP_FAILED) wrong("no address space for {} words", count);
  }
  ~Words() { munmap(words_, bytes()); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  std::uint64_t* data() const { return words_; }
  // Those from `first` on are `rank`'s part `part`.
  void fill(std::uint64_t first, std::uint64_t count, int rank, int part = 0) {
    for (std::uint64_t i = 0; i < count; ++i) words_[first + i] = given(rank, part, i);
  }
  void expect(std::uint64_t first, std::uint64_t count, int rank, int part = 0) const {
    for (std::uint64_t i = 0; i < count; ++i)
      if (words_[first + i] != given(rank, part, i)) return wrong("of rank {}, part {}: word {}", rank, part, i);
  }
  // Sums of part 0 of the ranks up to `last`.
  void expect_sums(std::uint64_t first, std::uint64_t count, int last) const {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t sum = 0;
      for (int rank = 0; rank <= last; ++rank) sum += given(rank, 0, first + i);
      if (words_[i] != sum) return wrong("word {} of the sums", first + i);
    }
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(std::uint64_t); }
  static std::uint64_t given(int rank, int part, std::uint64_t i) {
    return (i ^ i >> 31) * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(rank * 64 + part);
  }

  std::uint64_t count_;
  std::uint64_t* words_;
};

void expect_all(const ucft_result_t& result) {
  if (result.contributors != static_cast<std::uint32_t>(size_)) wrong("{} contributors", result.contributors);
}

// Of so many words in all: of one vector, or of all blocks together.
const std::map<std::string, void (*)(std::uint64_t)> operations = {
    {"allreduce",
     [](std::uint64_t words) {
       Words data(words);
       data.fill(0, words, rank_);
       ucft_result_t result = UCFT_RESULT_INIT;
       check(ucft_allreduce(comm, UCFT_IN_PLACE, data.data(), words, UCFT_UINT64, UCFT_SUM, nullptr, &result), "sum");
       expect_all(result);
       data.expect_sums(0, words, size_ - 1);
     }},
    {"scan",
     [](std::uint64_t words) {
       const std::uint64_t own = words / static_cast<std::uint64_t>(size_);
       Words data(own);
       data.fill(0, own, rank_);
       check(ucft_scan(comm, UCFT_IN_PLACE, data.data(), own, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "scan");
       data.expect_sums(0, own, rank_);
     }},
    {"broadcast",
     [](std::uint64_t words) {
       Words data(words);
       if (rank_ == 1) data.fill(0, words, 1);
       check(ucft_broadcast(comm, data.data(), words, UCFT_UINT64, 1, nullptr, nullptr), "broadcast");
       data.expect(0, words, 1);
     }},
    {"reduce",
     [](std::uint64_t words) {
       Words data(words);
       data.fill(0, words, rank_);
       check(ucft_reduce(comm, rank_ == 1 ? UCFT_IN_PLACE : data.data(), data.data(), words, UCFT_UINT64, UCFT_SUM, 1,
                         nullptr, nullptr),
             "reduce");
       if (rank_ == 1) data.expect_sums(0, words, size_ - 1);
     }},
    {"reduce_scatter",
     [](std::uint64_t words) {
       const std::uint64_t own = words / static_cast<std::uint64_t>(size_);
       Words in(own * static_cast<std::uint64_t>(size_)), out(own);
       in.fill(0, own * static_cast<std::uint64_t>(size_), rank_);
       check(ucft_reduce_scatter(comm, in.data(), out.data(), own, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "sum");
       out.expect_sums(own * static_cast<std::uint64_t>(rank_), own, size_ - 1);
     }},
    {"allgather",
     [](std::uint64_t words) {
       const std::uint64_t own = words / static_cast<std::uint64_t>(size_);
       Words data(own * static_cast<std::uint64_t>(size_));
       data.fill(own * static_cast<std::uint64_t>(rank_), own, rank_);
       check(ucft_allgather(comm, UCFT_IN_PLACE, data.data(), own, UCFT_UINT64, nullptr, nullptr), "allgather");
       for (int rank = 0; rank < size_; ++rank) data.expect(own * static_cast<std::uint64_t>(rank), own, rank);
     }},
    {"gather",
     [](std::uint64_t words) {
       const std::uint64_t own = words / static_cast<std::uint64_t>(size_);
       Words in(own), out(own * static_cast<std::uint64_t>(size_));
       in.fill(0, own, rank_);
       check(ucft_gather(comm, in.data(), out.data(), own, UCFT_UINT64, 1, nullptr, nullptr), "gather");
       for (int rank = 0; rank_ == 1 && rank < size_; ++rank)
         out.expect(own * static_cast<std::uint64_t>(rank), own, rank);
     }},
    {"scatter",
     [](std::uint64_t words) {
       const std::uint64_t own = words / static_cast<std::uint64_t>(size_);
       Words in(own * static_cast<std::uint64_t>(size_)), out(own);
       for (int rank = 0; rank_ == 1 && rank < size_; ++rank)
         in.fill(own * static_cast<std::uint64_t>(rank), own, 1, rank);
       check(ucft_scatter(comm, in.data(), out.data(), own, UCFT_UINT64, 1, nullptr, nullptr), "scatter");
       out.expect(0, own, 1, rank_);
     }},
    {"alltoall",
     [](std::uint64_t words) {
       const auto ranks = static_cast<std::uint64_t>(size_);
       const std::uint64_t own = words / ranks / ranks;
       Words data(own * ranks);
       for (int rank = 0; rank < size_; ++rank) data.fill(own * static_cast<std::uint64_t>(rank), own, rank_, rank);
       check(ucft_alltoall(comm, UCFT_IN_PLACE, data.data(), own, UCFT_UINT64, nullptr, nullptr), "alltoall");
       for (int rank = 0; rank < size_; ++rank) data.expect(own * static_cast<std::uint64_t>(rank), own, rank, rank_);
     }},
    // Almost all goes from rank 0 to the last one.
    {"alltoallv",
     [](std::uint64_t words) {
       const auto ranks = static_cast<std::size_t>(size_);
       std::vector<std::uint64_t> gives(ranks, 5), gets(ranks, 5);
       if (rank_ == 0) gives.back() = words;
       if (rank_ == size_ - 1) gets.front() = words;
       const std::uint64_t given = rank_ == 0 ? words + 5 * (ranks - 1) : 5 * ranks,
                           gotten = rank_ == size_ - 1 ? words + 5 * (ranks - 1) : 5 * ranks;
       Words in(given), out(gotten);
       std::uint64_t at = 0;
       for (std::size_t rank = 0; rank < ranks; at += gives[rank++])
         in.fill(at, gives[rank], rank_, static_cast<int>(rank));
       check(ucft_alltoallv(comm, in.data(), gives.data(), nullptr, out.data(), gets.data(), nullptr, UCFT_UINT64,
                            nullptr, nullptr),
             "alltoallv");
       at = 0;
       for (std::size_t rank = 0; rank < ranks; at += gets[rank++])
         out.expect(at, gets[rank], static_cast<int>(rank), rank_);
     }},
    {"send",
     [](std::uint64_t words) {
       Words data(words);
       if (rank_ == 0) {
         data.fill(0, words, 0);
         check(ucft_send(comm, data.data(), words, UCFT_UINT64, size_ - 1, 3), "send");
       } else if (rank_ == size_ - 1) {
         ucft_received_t message = UCFT_RECEIVED_INIT;
         check(ucft_recv(comm, data.data(), words, UCFT_UINT64, 0, 3, &message), "recv");
         if (message.count != words) wrong("{} words came", message.count);
         data.expect(0, words, 0);
       }
     }},
};

// Twice as much as the machine has is an error, and ends no process.
RANKS(too_huge) {
  const auto words = 2 * static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / sizeof(std::uint64_t);
  const Words data(words);
  expect(ucft_allreduce(comm, UCFT_IN_PLACE, data.data(), words, UCFT_UINT64, UCFT_SUM, nullptr, nullptr),
         UCFT_ERR_NO_MEMORY, "a sum of more than there is");
  if (std::strstr(ucft_last_error(), "has no shared memory for ") == nullptr) wrong("text: {}", ucft_last_error());
  allreduce(0, 1);
}

TEST_P(Scenario, MoreMemoryThanThereIsIsAnError) { expect_right(plan(2, too_huge)); }

// huge OPERATION MIB
RANKS(huge) { operations.at(arguments.at(0))(std::stoul(arguments.at(1)) * mib_words); }

struct Case {
  const char *transport, *operation;
  std::uint64_t mib;
  bool always = false;
};

class Huge : public testing::TestWithParam<Case> {};

// All of them take three minutes.
TEST_P(Huge, EveryWordComes) {
  constexpr std::uint64_t needed = 18'000'000'000;
  const auto& [transport, operation, mib, always] = GetParam();
  if (!always && std::getenv("UCFT_TEST_HUGE") == nullptr) GTEST_SKIP() << "UCFT_TEST_HUGE is not set";
  if (available_memory() < needed) GTEST_SKIP() << "less than " << needed << " bytes of memory are free";
  JobPlan made{2, huge, {operation, std::to_string(mib)}, {}, over(transport)};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Over, Huge,
    testing::Values(Case{"shm", "allreduce", 3072, true}, Case{"shm", "scan", 6144}, Case{"shm", "broadcast", 3072},
                    Case{"shm", "reduce", 3072}, Case{"shm", "reduce_scatter", 3072}, Case{"shm", "allgather", 6144},
                    Case{"shm", "gather", 6144}, Case{"shm", "scatter", 5120}, Case{"shm", "alltoall", 6144},
                    Case{"shm", "alltoallv", 4608}, Case{"shm", "send", 5120}, Case{"tcp", "send", 5120},
                    Case{"tcp", "alltoall", 6144}, Case{"tcp", "alltoallv", 4608, true},
                    Case{"two_level", "send", 5120}, Case{"two_level", "alltoallv", 2304}),
    [](const auto& each) { return std::string(each.param.transport) + "_" + each.param.operation; });

}  // namespace
}  // namespace ucft::detail::test
