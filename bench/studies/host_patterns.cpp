// Ways in which the ranks of one host can sum up a cache line, side by side, to choose the product's shape. There is no
// library around them, and no rank dies.
//
//   host_patterns RANKS [DOUBLES [ITERATIONS [TURNS]]]
//
//   flat              every rank stores its values and reads those of all others (the product's way up to 16 ranks)
//   multi_notify K    a tree of degree K: a rank reads the line of each child, data and stamp in one, as it comes; the
//                     sum goes down again by lines that children read from their parents (receiver-driven broadcast)
//   single_notify K   the same, but children count themselves in at their parent, who reads their lines when all have
//   dissemination     rank x stores for rank x + 2^t in step t (2^k ranks only)
//
// Source: Lapillonne and Peltekov, Bitwise reproducible sum (2013): SingleNotify, MultiNotify, sender-driven and
// receiver-driven exchange, dissemination for 2^k threads. Here multi_notify combines in the order of children, so that
// all runs have the same bits. The source takes them as they come.
//
// Processes in shared memory, back to back; each result is checked. Two banks are enough. A rank that begins s + 2 has
// completed s + 1, to which all have given, so all have completed s. A line of JSON per way: us per operation of the
// slowest rank, the median of the turns, in which the ways take turns.
#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int most_doubles = 6, most_ranks = 256, most_steps = 8;
using Values = std::array<double, most_doubles>;

struct alignas(64) Line {
  std::atomic<std::uint64_t> stamp;
  Values values;
};
struct alignas(64) Count {
  std::atomic<std::uint64_t> arrived;
};
struct Rank {
  Line up[2], down[2], step[2][most_steps];
  Count count;
  Count begin;  // of the barriers between measurements
  double us;
};
struct Shared {
  Rank ranks[most_ranks];
  std::atomic<bool> has_failed;
};

struct Way {
  std::string name;
  int degree;
};

class Member {
 public:
  Member(Shared& shared, int me, int ranks, int doubles, bool yields)
      : shared_(shared), me_(me), ranks_(ranks), doubles_(doubles), yields_(yields) {}

  // us per operation.
  double run(const Way& way, std::int64_t iterations) {
    meet();
    const double begin = now_us();
    for (std::int64_t i = 0; i < iterations; ++i) {
      Values mine;
      for (int k = 0; k < doubles_; ++k) mine[static_cast<std::size_t>(k)] = me_ + 1 + k;
      const Values sum = allreduce(way, mine);
      for (int k = 0; k < doubles_; ++k)
        if (sum[static_cast<std::size_t>(k)] != ranks_ * (ranks_ + 1) / 2 + ranks_ * k) {
          fmt::print(stderr, "host_patterns: {}: rank {}: wrong sum\n", way.name, me_);
          shared_.has_failed = true;
        }
    }
    const double us = (now_us() - begin) / static_cast<double>(iterations);
    meet();
    return us;
  }

 private:
  static double now_us() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
  }

  void wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t least) const {
    for (int looks = 0; word.load(std::memory_order_acquire) < least; ++looks) {
      if (yields_ ? looks == 0 : looks < 10000) continue;
      if (shared_.has_failed.load(std::memory_order_relaxed)) std::_Exit(1);  // some rank is not there
      sched_yield();
    }
  }
  void meet() {
    shared_.ranks[me_].begin.arrived.store(++met_, std::memory_order_release);
    for (int rank = 0; rank < ranks_; ++rank) wait_for(shared_.ranks[rank].begin.arrived, met_);
  }

  void give(Line& line, const Values& values) const {
    std::copy_n(values.begin(), doubles_, line.values.begin());
    line.stamp.store(number_, std::memory_order_release);
  }
  void add(const Line& line, Values& sum) const {
    for (int k = 0; k < doubles_; ++k) sum[static_cast<std::size_t>(k)] += line.values[static_cast<std::size_t>(k)];
  }
  const Values& take(const Line& line) const {
    wait_for(line.stamp, number_);
    return line.values;
  }

  Values allreduce(const Way& way, const Values& mine) {
    ++number_;
    const std::size_t bank = number_ % 2;
    if (way.degree > 0) return on_tree(way, mine, bank);
    return way.name == "flat" ? flat(mine, bank) : dissemination(mine, bank);
  }

  Values flat(const Values& mine, std::size_t bank) {
    give(shared_.ranks[me_].up[bank], mine);
    Values sum{};
    for (int rank = 0; rank < ranks_; ++rank) {
      take(shared_.ranks[rank].up[bank]);
      add(shared_.ranks[rank].up[bank], sum);
    }
    return sum;
  }

  // Children of r: r K + 1 .. r K + K.
  Values on_tree(const Way& way, const Values& mine, std::size_t bank) {
    const int first = me_ * way.degree + 1, end = std::min(first + way.degree, ranks_), parent = (me_ - 1) / way.degree;
    const bool counts = way.name == "single_notify";
    if (counts && first < end) {
      arrivals_ += static_cast<std::uint64_t>(end - first);
      wait_for(shared_.ranks[me_].count.arrived, arrivals_);
    }
    Values sum = mine;
    for (int child = first; child < end; ++child) {
      take(shared_.ranks[child].up[bank]);
      add(shared_.ranks[child].up[bank], sum);
    }
    if (me_ > 0) {
      give(shared_.ranks[me_].up[bank], sum);
      if (counts) shared_.ranks[parent].count.arrived.fetch_add(1, std::memory_order_acq_rel);
      sum = take(shared_.ranks[parent].down[bank]);
    }
    if (first < end) give(shared_.ranks[me_].down[bank], sum);
    return sum;
  }

  Values dissemination(const Values& mine, std::size_t bank) {
    Values sum = mine;
    for (int step = 0; 1 << step < ranks_; ++step) {
      give(shared_.ranks[(me_ + (1 << step)) % ranks_].step[bank][step], sum);
      const Line& mine_now = shared_.ranks[me_].step[bank][step];
      take(mine_now);
      add(mine_now, sum);
    }
    return sum;
  }

  Shared& shared_;
  const int me_, ranks_, doubles_;
  const bool yields_;
  std::uint64_t number_ = 0, met_ = 0, arrivals_ = 0;
};

long number(const char* text, const char* what, long low, long high) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != 0 || value < low || value > high) {
    fmt::print(stderr, "host_patterns: {} is '{}': must be {} .. {}\n", what, text, low, high);
    std::exit(2);
  }
  return value;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 2 || argument_count > 5) {
    fmt::print(stderr, "usage: host_patterns RANKS [DOUBLES [ITERATIONS [TURNS]]]\n");
    return 2;
  }
  const auto argument = [&](int place, const char* what, long usual, long low, long high) {
    return argument_count > place ? number(arguments[place], what, low, high) : usual;
  };
  const int ranks = static_cast<int>(argument(1, "RANKS", 2, 2, most_ranks));
  const int doubles = static_cast<int>(argument(2, "DOUBLES", 1, 1, most_doubles));
  const long iterations = argument(3, "ITERATIONS", 20000, 1, 100000000);
  const long turns = argument(4, "TURNS", 7, 1, 1000);

  std::vector<Way> ways{{"flat", 0}};
  for (int degree : {2, 4, 8})
    if (degree < ranks || degree == 2) ways.insert(ways.end(), {{"multi_notify", degree}, {"single_notify", degree}});
  if (std::has_single_bit(static_cast<unsigned>(ranks))) ways.push_back({"dissemination", 0});

  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fmt::print(stderr, "host_patterns: no shared memory\n");
    return 1;
  }
  auto& shared = *static_cast<Shared*>(memory);  // zeros are what it begins with
  const bool yields = ranks > sysconf(_SC_NPROCESSORS_ONLN);
  int me = 0;
  for (int rank = 1; rank < ranks && me == 0; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) {
      fmt::print(stderr, "host_patterns: no process for rank {}\n", rank);
      shared.has_failed = true;
      std::_Exit(1);
    }
    if (pid == 0) me = rank;
  }

  Member member(shared, me, ranks, doubles, yields);
  std::vector<std::vector<double>> times(ways.size());
  for (std::size_t i = 0; i < ways.size(); ++i) member.run(ways[i], std::max(iterations / 10, 1L));
  for (long turn = 0; turn < turns; ++turn)
    for (std::size_t i = 0; i < ways.size(); ++i) {
      shared.ranks[me].us = member.run(ways[i], iterations);
      member.run(ways[i], 1);  // all have stored theirs
      if (me != 0) continue;
      double slowest = 0;
      for (int rank = 0; rank < ranks; ++rank) slowest = std::max(slowest, shared.ranks[rank].us);
      times[i].push_back(slowest);
    }
  if (me != 0) return 0;
  bool all_right = !shared.has_failed;
  for (int status = 0; wait(&status) > 0;) all_right = all_right && status == 0;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    fmt::print(
        "{{\"way\":\"{}\",\"degree\":{},\"ranks\":{},\"doubles\":{},\"us\":{:.3f},\"lowest\":{:.3f},\"highest\":{:.3f}}"
        "}\n",
        ways[i].name, ways[i].degree, ranks, doubles, times[i][times[i].size() / 2], times[i].front(), times[i].back());
  }
  return all_right ? 0 : 1;
}
