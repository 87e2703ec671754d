// A rank that has too little of something: memory, descriptors, address space, /proc.
#include <gtest/gtest.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/ucx/operations.hpp"
#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

void set_limit(__rlimit_resource_t resource, rlim_t value) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = value;
  if (setrlimit(resource, &limit) != 0) wrong("setrlimit");
}

// What this process has mapped, in bytes.
rlim_t address_space() {
  unsigned long pages = 0;
  std::FILE* statm = std::fopen("/proc/self/statm", "r");
  if (statm == nullptr || std::fscanf(statm, "%lu", &pages) != 1) wrong("/proc/self/statm");
  std::fclose(statm);
  return pages * static_cast<unsigned long>(getpagesize());
}

// limited WHAT: the last rank has too little of it for start-up. All are told which rank, and which limit.
RANKS_BEFORE_START_UP(limited) {
  const bool files = arguments.at(0) == "file_size";
  if (is_last_before_start_up())
    set_limit(files ? RLIMIT_FSIZE : RLIMIT_AS, files ? 4096 : address_space() + (rlim_t{20} << 20));
  expect(ucft_context_create(nullptr, &context), UCFT_ERR_STARTUP, "start-up with a limit");
  const std::string culprit = fmt::format("rank {} ", std::atoi(std::getenv("UCFT_SIZE")) - 1);
  if (std::strstr(ucft_last_error(), files ? "RLIMIT_FSIZE" : "RLIMIT_AS") == nullptr ||
      std::strstr(ucft_last_error(), culprit.c_str()) == nullptr)
    wrong("{}", ucft_last_error());
}

TEST(Startup, ALimitThatIsTooLowIsNamedOnAllRanks) {
  for (const char* what : {"file_size", "address_space"}) {
    JobPlan made{16, limited, {what}, {}, over("shm")};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << what;
  }
}

// short_of WHAT: one rank runs short of what a running process can run short of, while larger and larger payloads make
// new shared memory necessary on all. Nothing follows from it.
RANKS(short_of) {
  const std::string& what = arguments.at(0);
  constexpr std::size_t most = std::size_t{1} << 21;
  std::vector<std::uint64_t> in(most), out(most);
  for (int i = 0; i < 20; ++i) allreduce(i, 1);
  if (rank_ == 1) {
    if (what == "descriptors") set_limit(RLIMIT_NOFILE, 3);
    if (what == "file_size") set_limit(RLIMIT_FSIZE, 4096);
    if (what == "address_space") set_limit(RLIMIT_AS, address_space() + (rlim_t{60} << 20));
    if (what == "proc" &&
        (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
         mount("none", "/proc", "tmpfs", 0, nullptr) != 0))
      wrong("hiding /proc");
  }
  for (std::size_t count = 1000; count <= most; count *= 2)
    for (int root = 0; root < size_; ++root) {
      for (std::size_t k = 0; k < count; ++k) in[k] = k + static_cast<std::size_t>(rank_);
      check(ucft_allreduce(comm, in.data(), out.data(), count, UCFT_UINT64, UCFT_MAX, nullptr, nullptr), "allreduce");
      for (std::size_t k = 0; k < count; ++k)
        if (out[k] != k + static_cast<std::size_t>(size_) - 1) wrong("count {}, element {}: {}", count, k, out[k]);
      check(ucft_broadcast(comm, out.data(), count, UCFT_UINT64, root, nullptr, nullptr), "broadcast");
    }
}

// Each hung the job for ever when ranks mapped each other's memory as it grew.
TEST_P(Scenario, ARankThatRunsShortOfSomethingGoesOnWithItsPeersMemory) {
  std::vector<std::string> kinds = {"file_size"};
  const bool without_ucx = !needs_ucx(GetParam());  // over tcp UCX needs all of these, and aborts
  if (without_ucx) kinds.insert(kinds.end(), {"descriptors", "address_space"});
  if (without_ucx && geteuid() == 0) kinds.push_back("proc");  // only root may hide it
  for (const std::string& what : kinds) expect_right(plan(4, short_of, {what}));
}

// out_of_memory: the last rank may have so little shared memory that it has none for large operations. They end on
// all, and name it; smaller ones go on.
RANKS_BEFORE_START_UP(out_of_memory) {
  if (is_last_before_start_up()) set_limit(RLIMIT_FSIZE, rlim_t{6} << 20);
  start_up();
  constexpr std::size_t large = std::size_t{1} << 20;
  std::vector<std::uint64_t> in(large, 1), out(large);
  const std::string culprit = fmt::format("rank {} ", size_ - 1);
  const auto expect_named = [&](ucft_status_t status, const char* what) {
    expect(status, UCFT_ERR_NO_MEMORY, what);
    if (std::strstr(ucft_last_error(), culprit.c_str()) == nullptr) wrong("{}: {}", what, ucft_last_error());
  };
  const bool lacks = rank_ == size_ - 1;
  for (int i = 0; i < 10; ++i) {
    allreduce(i, 1);
    expect_named(ucft_allreduce(comm, in.data(), out.data(), large, UCFT_UINT64, UCFT_SUM, nullptr, nullptr),
                 "allreduce");
    if (out[0] != 0) wrong("a failed allreduce has written");
    allreduce(i, 5000);
    const ucft_status_t reduced =
        ucft_reduce(comm, in.data(), out.data(), large, UCFT_UINT64, UCFT_SUM, 0, nullptr, nullptr);
    if (rank_ == 0 || lacks) expect_named(reduced, "reduce");
    broadcast(i, i % size_, 3);
    // From the rank itself nobody gets it; from another one those who need no memory for it: all that read it in the
    // root's memory, else at least those who need not pass it on to that rank.
    expect_named(ucft_broadcast(comm, in.data(), large, UCFT_UINT64, size_ - 1, nullptr, nullptr),
                 "broadcast of its own");
    const ucft_status_t got = ucft_broadcast(comm, in.data(), large, UCFT_UINT64, 0, nullptr, nullptr);
    if (reads_memory()) check(got, "broadcast");
    if (!reads_memory() && (lacks || got != UCFT_OK)) expect_named(got, "broadcast");
    check(ucft_barrier(comm, nullptr, nullptr), "barrier");
    several(i);
  }
}

// The last rank has shared memory for some hundred communicators, and not for their slabs after that: it is out then,
// and says why, and the others go on without it. It lives on until they have ended, so its end tells them nothing.
RANKS_BEFORE_START_UP(out_of_slabs) {
  const bool lacks = is_last_before_start_up();
  const int lock = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (lacks) set_limit(RLIMIT_FSIZE, rlim_t{2} << 20);
  if (!lacks && flock(lock, LOCK_SH) != 0) wrong("flock: {}", errno);
  start_up();
  std::uint32_t contributors = 0;
  for (int i = 0; i < 1500; ++i) {
    ucft_comm_h each = UCFT_COMM_NULL;
    check(ucft_comm_create(context, &each), "comm");
    const std::uint64_t in = std::uint64_t{1} << rank_;
    std::uint64_t out = 0;
    ucft_result_t result = UCFT_RESULT_INIT;
    const ucft_status_t status = ucft_allreduce(each, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result);
    if (lacks && status == UCFT_ERR_EXCLUDED) {
      if (std::strstr(ucft_last_error(), "no shared memory") == nullptr) wrong("{}", ucft_last_error());
      if (flock(lock, LOCK_EX) != 0) wrong("flock: {}", errno);
      return;
    }
    check(status, "allreduce");
    if (static_cast<std::uint32_t>(__builtin_popcountll(out)) != result.contributors) wrong("sum {:x}", out);
    contributors = result.contributors;
    note(out);
  }
  if (lacks) wrong("there was memory for all");
  if (contributors != static_cast<std::uint32_t>(size_) - 1) wrong("{} contributors at the end", contributors);
}

// The same memory, and each communicator is destroyed before the next one is made: it is enough for any number.
RANKS_BEFORE_START_UP(slabs_come_back) {
  if (is_last_before_start_up()) set_limit(RLIMIT_FSIZE, rlim_t{2} << 20);
  start_up();
  for (int i = 0; i < 1500; ++i) {
    ucft_comm_h each = UCFT_COMM_NULL;
    check(ucft_comm_create(context, &each), "comm");
    const std::uint64_t in = salt(i) + (std::uint64_t{1} << rank_);
    std::uint64_t out = 0;
    ucft_result_t result = UCFT_RESULT_INIT;
    check(ucft_allreduce(each, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result), "allreduce");
    if (std::popcount(decode(out, result, i)) != size_) wrong("communicator {}: sum {:x}", i, out);
    check(ucft_comm_destroy(each), "destroy");
  }
}

// A field of /proc/self/status, in bytes.
std::uint64_t memory_of_this_process(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stoull(line.substr(field.size() + 1)) * 1024;
  wrong("/proc/self/status has no {}", field);
}

// VmHWM begins again.
void begin_peak_of_memory() {
  if (!(std::ofstream("/proc/self/clear_refs") << 5 << std::flush)) wrong("/proc/self/clear_refs");
}

// takes_memory WHAT TIMES: an operation on long data takes at most so many times the data, beyond what the program had
// before. What other ranks of the host have mapped of it counts, too.
RANKS(takes_memory) {
  const std::string& what = arguments.at(0);
  constexpr std::uint64_t count = std::uint64_t{3} << 20, bytes = count * sizeof(std::uint64_t);
  std::vector<std::uint64_t> in(count, 1), out(count, 1);
  for (int i = 0; i < 10; ++i) allreduce(i, 1);
  const std::uint64_t before = memory_of_this_process("VmRSS");
  begin_peak_of_memory();
  for (int i = 0; i < 12; ++i) {  // as many blocks as are used in turn
    if (what == "allreduce")
      check(ucft_allreduce(comm, in.data(), out.data(), count, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "allreduce");
    else if (what == "reduce")
      check(ucft_reduce(comm, in.data(), out.data(), count, UCFT_UINT64, UCFT_SUM, 0, nullptr, nullptr), "reduce");
    else
      check(ucft_broadcast(comm, in.data(), count, UCFT_UINT64, 0, nullptr, nullptr), "broadcast");
    check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  }
  const double times = static_cast<double>(memory_of_this_process("VmHWM") - before) / static_cast<double>(bytes);
  if (times > std::stod(arguments.at(1))) wrong("{} takes {:.1f} times the data", what, times);
}

// docs/running_on_a_cluster.md, "Memory of long data between hosts".
TEST(Memory, LongDataBetweenHostsTakeNoMoreThanIsSaid) {
  for (const auto& [transport, what, times] : {std::tuple{"two_level", "allreduce", "18"},
                                               {"two_level", "reduce", "28"},
                                               {"two_level", "broadcast", "14"},
                                               {"hosts", "allreduce", "6"},
                                               {"hosts", "reduce", "20"},
                                               {"hosts", "broadcast", "12"}}) {
    JobPlan made{4, takes_memory, {what, times}, {}, over(transport)};
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << transport << ' ' << what;
  }
}

// gossips_for_long: the last rank is stopped for most of T, so all that is sent to it waits. The others skip turns
// meanwhile, so they need no memory for it.
RANKS(gossips_for_long) {
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.tree = UCFT_TREE_GOSSIP;
  options.correction = UCFT_CORRECTION_CHECKED;
  for (std::int64_t time_ns : {100'000, 1'000'000'000}) {  // a short one first: connections, and what they take
    const bool is_long = time_ns > 1'000'000;
    options.gossip_time_ns = time_ns;
    check(ucft_barrier(comm, nullptr, nullptr), "barrier");
    const std::uint64_t before = memory_of_this_process("VmRSS");
    begin_peak_of_memory();
    if (is_long && rank_ == size_ - 1) stop_for(900);
    std::uint64_t data = rank_ == 0 ? 77 : 5;
    check(ucft_broadcast(comm, &data, 1, UCFT_UINT64, 0, &options, nullptr), "broadcast");
    if (data != 77) wrong("broadcast left {:x}", data);
    check(ucft_barrier(comm, nullptr, nullptr), "barrier");
    const std::uint64_t most = memory_of_this_process("VmHWM");
    if (is_long && most > before + (4 << 20)) wrong("{} bytes more for gossip", most - before);
  }
}

TEST(Memory, GossipForALongTimeTakesNone) {
  for (const char* transport : {"corrected", "tcp", "two_level"}) {
    JobPlan made{3, gossips_for_long, {}, {}, over(transport)};
    made.environment["UCFT_SUSPECT_AFTER"] = "20s";
    EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "") << transport;
  }
}

TEST(HostScenario, WhoHasNoMemoryForACommunicatorStandsAside) {
  const JobPlan made{4, out_of_slabs, {}, {}, over("shm")};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {3}), "");
}

TEST(HostScenario, SlabsOfCommunicatorsThatAreDestroyedComeBack) {
  const JobPlan made{3, slabs_come_back, {}, {}, over("shm")};
  EXPECT_EQ(what_is_wrong(made, run_job(made), {}), "");
}

TEST_P(Scenario, MemoryThatOneRankLacksIsAnErrorWithItsNameOnAll) {
  for (int ranks :
       std::string(GetParam()) == "two_level" ? std::vector{5, 6} : std::vector{2, 5})  // alone on its host, and not
    for (const char* f : {"1", "2"}) {
      JobPlan made = plan(ranks, out_of_memory);
      made.environment["UCFT_F"] = f;
      expect_right(made);
    }
}

}  // namespace
}  // namespace ucft::detail::test
