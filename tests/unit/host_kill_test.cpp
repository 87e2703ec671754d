// The host stage between real processes, which are killed: in mid-operation, at any of their stores. Survivors must
// agree on every result. The proof of a death is that its process was waited for.
//
// UCFT_KILL_RUNS: times as many jobs. A failure prints the number of its job, which says who is killed and about when;
// at which store is up to the scheduler.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "collectives/core/random.hpp"
#include "tests/unit/host_memory.hpp"

namespace ucft::detail::test {
namespace {

constexpr OperationNumber operations = 3000;

#ifdef UCFT_SMALL
constexpr int all_jobs = 10;
#else
constexpr int all_jobs = 60;
#endif

int jobs() {
  const char* factor = std::getenv("UCFT_KILL_RUNS");
  return std::max(1, static_cast<int>(all_jobs * (factor == nullptr ? 1.0 : std::atof(factor))));
}

// What a rank was told, for its parent: a digest per operation, 0 if there is none.
struct Report {
  std::atomic<std::uint64_t> digests[operations];
  std::atomic<std::uint64_t> done;
  char problem[120];
};

struct Shape {
  Rank ranks;
  int window, degree, patience;
  bool runs = false;  // 8 bytes to 1 KiB, by the short way: in the slab up to 112 bytes, else in places beside it
  // Several cache lines, so that there is something to be torn.
  std::uint64_t most_elements() const { return runs ? 128 : 40; }
  HostLayout layout() const {
    const auto banks = static_cast<std::int32_t>(std::bit_ceil(2u * static_cast<unsigned>(window)));
    if (runs) return {4 * banks, 112, 2048, 1024};
    return {banks, 12 * 8, 24 * 8, 16 * 8};
  }
};

class HostJob {
 public:
  explicit HostJob(const Shape& shape)
      : shape_(shape),
        layout_(shape.layout()),
        slab_bytes_((Shared::bytes(layout_, shape.ranks) + 4095) / 4096 * 4096),
        bytes_(slab_bytes_ + sizeof(Report) * static_cast<std::size_t>(shape.ranks)) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
    for (Rank rank = 0; rank < shape.ranks; ++rank) processes_.push_back(start(rank));
  }
  HostJob(const HostJob&) = delete;
  HostJob& operator=(const HostJob&) = delete;
  ~HostJob() {
    for (Rank rank = 0; rank < shape_.ranks; ++rank) kill_rank(rank);
    munmap(memory_, bytes_);
  }

  Report& report(Rank rank) { return reinterpret_cast<Report*>(memory_ + slab_bytes_)[rank]; }

  // Returns when its death is proved, and lets the others know only then.
  void kill_rank(Rank rank) {
    pid_t& process = processes_[static_cast<std::size_t>(rank)];
    if (process <= 0) return;
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
    process = 0;
    shared().proved_dead[rank].store(1, std::memory_order_release);
  }
  bool has_ended(Rank rank) const {
    siginfo_t info{};
    const auto process = static_cast<id_t>(processes_[static_cast<std::size_t>(rank)]);
    return waitid(P_PID, process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
  }
  // "" if it ended well.
  std::string wait_for(Rank rank) {
    int status = 0;
    waitpid(std::exchange(processes_[static_cast<std::size_t>(rank)], 0), &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
    return std::string("ended with status ") + std::to_string(status) + ": " + report(rank).problem;
  }

 private:
  Shared shared() { return Shared::in(memory_, layout_, shape_.ranks); }

  pid_t start(Rank me) {
    const pid_t process = fork();
    if (process != 0) return process;
    alarm(120);  // a hang ends
    SharedMemory memory(shared(), me);
    HostStage stage({me, shape_.ranks, shape_.window, shape_.patience}, layout_,
                    std::make_shared<HostTree>(HostTree::of_degree(shape_.ranks, shape_.degree)));
    Report& mine = report(me);
    run_program(
        memory, stage, me, shape_.ranks, {0, operations, shape_.most_elements(), shape_.runs},
        [&](OperationNumber number, const HostTold& told) {
          const HostCall call = host_call(number, shape_.ranks, shape_.most_elements());
          const std::string problem = problem_with(call, number, me, shape_.ranks, told);
          if (!problem.empty()) {
            snprintf(mine.problem, sizeof mine.problem, "operation %d: %s", static_cast<int>(number), problem.c_str());
            _exit(1);
          }
          mine.digests[number].store(digest_of(call, number, me, told), std::memory_order_relaxed);
          mine.done.fetch_add(1, std::memory_order_relaxed);
        },
        [] { std::this_thread::yield(); });
    _exit(0);
  }

  Shape shape_;
  HostLayout layout_;
  std::size_t slab_bytes_, bytes_;
  std::byte* memory_ = nullptr;
  std::vector<pid_t> processes_;
};

class HostKill : public testing::TestWithParam<Shape> {};

TEST_P(HostKill, SurvivorsAgreeWhateverStoreWasTheLast) {
  const Rank ranks = GetParam().ranks;
  int cut_short = 0;  // jobs in which somebody was killed before the end
  for (int job = 0; job < jobs(); ++job) {
    Random random(mixed(static_cast<std::uint64_t>(ranks) * 1000 + static_cast<std::uint64_t>(GetParam().degree),
                        static_cast<std::uint64_t>(job)));
    SCOPED_TRACE("job " + std::to_string(job));
    HostJob host(GetParam());
    const Rank survivor = static_cast<Rank>(random.below(static_cast<std::uint64_t>(ranks)));
    std::vector<Rank> victims;
    for (Rank rank = 0; rank < ranks; ++rank)
      if (rank != survivor && (victims.empty() || random.below(2) == 0)) victims.push_back(rank);
    bool was_cut_short = false;
    for (Rank victim : victims) {
      // At an operation, and some nanoseconds to microseconds into it.
      const std::uint64_t at = random.below(operations - 200);
      while (host.report(survivor).done.load(std::memory_order_relaxed) < at) {
        ASSERT_FALSE(host.has_ended(survivor)) << host.report(survivor).problem;
        std::this_thread::yield();
      }
      volatile std::uint64_t spins = random.below(3000);
      while (spins > 0) {
        const std::uint64_t left = spins;
        spins = left - 1;
      }
      was_cut_short |= host.report(victim).done.load(std::memory_order_relaxed) < operations;
      host.kill_rank(victim);
    }
    cut_short += was_cut_short;
    for (Rank rank = 0; rank < ranks; ++rank)
      if (std::find(victims.begin(), victims.end(), rank) == victims.end()) {
        ASSERT_EQ(host.wait_for(rank), "") << rank;
      }
    // Uniform: also what the dead were told is what the others were told.
    for (OperationNumber number = 0; number < operations; ++number) {
      std::uint64_t first = 0;
      for (Rank rank = 0; rank < ranks; ++rank) {
        const std::uint64_t its = host.report(rank).digests[number].load(std::memory_order_relaxed);
        if (first == 0) first = its;
        if (its == 0) continue;
        ASSERT_EQ(its, first) << "operation " << number << ", rank " << rank;
      }
    }
  }
  EXPECT_GE(cut_short * 2, jobs()) << "too few were killed in mid-program for this to say much";
}

INSTANTIATE_TEST_SUITE_P(Of, HostKill,
                         testing::Values(Shape{2, 2, 0, 0}, Shape{4, 2, 0, 0}, Shape{4, 3, 2, 3}, Shape{5, 2, 1, 50},
                                         Shape{2, 2, 0, 0, true}, Shape{4, 2, 0, 0, true}),
                         [](const auto& tested) {
                           const Shape& each = tested.param;
                           return std::to_string(each.ranks) + "RanksDegree" + std::to_string(each.degree) +
                                  (each.runs ? "Running" : "");
                         });

}  // namespace
}  // namespace ucft::detail::test
