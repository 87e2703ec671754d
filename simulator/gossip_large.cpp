// HPS and ARDB of up to 2^30 ranks, in place.
//
// The ranks of a round lie on one cycle: P(0) -> P(1) -> P(2) -> ... Walking along it, each gets half of what the one
// before had at the start of the round, which is still at hand. So there is one array, one random access per rank and
// round, and it is known long before it is needed. Threads walk parts of the cycle; what lies before each part is read
// first.
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "simulator/gossip_run.hpp"

namespace ucft::detail::simulator {

namespace {

// Memory in large pages if the system has any: a random access then costs one miss, not two.
template <class Real>
class Values {
 public:
  explicit Values(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(Real)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    madvise(memory, bytes_, MADV_HUGEPAGE);
    data_ = static_cast<Real*>(memory);
  }
  ~Values() { munmap(data_, bytes_); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  Real& operator[](std::uint64_t i) { return data_[i]; }
  Real* data() { return data_; }

 private:
  std::size_t bytes_;
  Real* data_;
};

std::uint64_t begin_of(std::uint64_t n, int part, int parts) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(n) * static_cast<unsigned>(part) /
                                    static_cast<unsigned>(parts));
}

// The mean of the ranks' first values: in blocks, so that it does not depend on the number of threads.
template <class Real>
long double true_mean(std::uint64_t n, std::uint64_t seed) {
  long double sum = 0;
  for (std::uint64_t block = 0; block < n; block += 4096) {
    double part = 0;
    for (std::uint64_t i = block; i < std::min(n, block + 4096); ++i)
      part += static_cast<double>(static_cast<Real>(uniform_value(seed, i)));
    sum += part;
  }
  return sum / static_cast<long double>(n);
}

// Walks places begin .. end of the cycle. before: the value that the rank at place begin - 1 had. Returns the largest
// and smallest value.
template <class Real>
std::pair<Real, Real> walk(Real* values, const Permutation& order, std::uint64_t begin, std::uint64_t end,
                           Real before) {
  constexpr std::uint64_t ahead = 32;
  std::uint64_t coming[ahead];
  for (std::uint64_t place = begin; place < std::min(end, begin + ahead); ++place) {
    coming[place % ahead] = order.at(place);
    __builtin_prefetch(values + coming[place % ahead], 1);
  }
  Real smallest = std::numeric_limits<Real>::infinity(), largest = -smallest;
  for (std::uint64_t place = begin; place < end; ++place) {
    Real& mine = values[coming[place % ahead]];
    if (place + ahead < end) {
      coming[place % ahead] = order.at(place + ahead);
      __builtin_prefetch(values + coming[place % ahead], 1);
    }
    const Real old = mine;
    mine = old / 2 + before / 2;
    before = old;
    smallest = std::min(smallest, mine);
    largest = std::max(largest, mine);
  }
  return {smallest, largest};
}

class Reached {
 public:
  Reached(const LargeRun& run, LargeResult& result) : run_(run), result_(result) {
    result.rounds.assign(run.eps.size(), -1);
  }
  // True when all have been reached.
  bool note(int round, double error) {
    result_.history.push_back(error);
    bool all = true;
    for (std::size_t i = 0; i < run_.eps.size(); ++i) {
      if (result_.rounds[i] < 0 && error <= run_.eps[i]) result_.rounds[i] = round;
      all = all && result_.rounds[i] >= 0;
    }
    return all;
  }

 private:
  const LargeRun& run_;
  LargeResult& result_;
};

template <class Real>
LargeResult run_hps(const LargeRun& run, const GossipProgress& progress) {
  const auto n = static_cast<std::uint64_t>(run.ranks);
  const int threads = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max(1, run.threads)),
                                                               std::max<std::uint64_t>(1, n / 4096)));
  Values<Real> values(run.ranks);
  long double mean = 0;
  {
    std::vector<std::thread> pool;
    for (int part = 0; part < threads; ++part)
      pool.emplace_back([&, part] {
        for (std::uint64_t i = begin_of(n, part, threads); i < begin_of(n, part + 1, threads); ++i)
          values[i] = static_cast<Real>(uniform_value(run.seed, i));
      });
    mean = true_mean<Real>(n, run.seed);
    for (std::thread& thread : pool) thread.join();
  }
  LargeResult result;
  Reached reached(run, result);
  const auto error_of = [&](Real smallest, Real largest) {
    return static_cast<double>(std::max(std::abs(static_cast<long double>(smallest) - mean),
                                        std::abs(static_cast<long double>(largest) - mean)) /
                               std::abs(mean));
  };
  std::pair<Real, Real> ends{values[0], values[0]};
  for (std::uint64_t i = 1; i < n; ++i) ends = {std::min(ends.first, values[i]), std::max(ends.second, values[i])};
  int round = 0;
  bool done = reached.note(0, error_of(ends.first, ends.second)) || n == 1 || run.rounds == 0;
  std::unique_ptr<Permutation> order;
  std::vector<Real> before(static_cast<std::size_t>(threads));
  std::vector<std::pair<Real, Real>> parts(static_cast<std::size_t>(threads));
  const auto prepare = [&] {
    order = std::make_unique<Permutation>(n, mixed(run.seed, static_cast<std::uint64_t>(round)));
    for (int part = 0; part < threads; ++part)
      before[static_cast<std::size_t>(part)] = values[order->at((begin_of(n, part, threads) + n - 1) % n)];
  };
  const auto end_round = [&]() noexcept {
    ends = parts[0];
    for (const auto& part : parts) ends = {std::min(ends.first, part.first), std::max(ends.second, part.second)};
    ++round;
    result.messages += run.ranks;
    done = reached.note(round, error_of(ends.first, ends.second)) || round == run.rounds;
    if (progress) progress(static_cast<double>(round) / run.rounds);
    if (!done) prepare();
  };
  if (done) return result;
  prepare();
  std::barrier sync(threads, end_round);
  std::vector<std::thread> pool;
  for (int part = 0; part < threads; ++part)
    pool.emplace_back([&, part] {
      while (!done) {
        parts[static_cast<std::size_t>(part)] =
            walk(values.data(), *order, begin_of(n, part, threads), begin_of(n, part + 1, threads),
                 before[static_cast<std::size_t>(part)]);
        sync.arrive_and_wait();
      }
    });
  for (std::thread& thread : pool) thread.join();
  return result;
}

// Level k: the mean of every block of 2^k ranks. Sums as recursive doubling forms them, level by level.
template <class Real>
LargeResult run_ardb(const LargeRun& run, const GossipProgress& progress) {
  const auto n = static_cast<std::uint64_t>(run.ranks);
  const int levels = static_cast<int>(std::bit_width(n)) - 1;
  const long double mean = true_mean<Real>(n, run.seed);
  std::vector<double> worst(static_cast<std::size_t>(levels) + 1, 0);
  std::vector<Real> waiting(static_cast<std::size_t>(levels) + 1, 0);  // the first half of a block, where there is one
  for (std::uint64_t i = 0; i < n; ++i) {
    Real sum = static_cast<Real>(uniform_value(run.seed, i));
    for (int level = 0;; ++level) {
      const auto at = static_cast<std::size_t>(level);
      worst[at] = std::max(
          worst[at],
          static_cast<double>(
              std::abs(static_cast<long double>(sum) / static_cast<long double>(std::uint64_t{1} << level) - mean) /
              mean));
      if (((i >> level) & 1) == 0) {
        waiting[at] = sum;
        break;
      }
      sum += waiting[at];
    }
    if (progress && i % (1 << 22) == 0) progress(static_cast<double>(i) / static_cast<double>(n));
  }
  LargeResult result;
  Reached reached(run, result);
  for (int level = 0; level <= levels && level <= run.rounds; ++level) {
    if (level > 0) result.messages += run.ranks;
    if (reached.note(level, worst[static_cast<std::size_t>(level)])) break;
  }
  return result;
}

}  // namespace

bool can_run_large(const GossipRun& run) {
  const bool simple = run.values == 1 && run.data == GossipData::uniform &&
                      run.aggregate != GossipAggregate::sum_one_hot && !run.faults.any();
  if (!simple || run.stop != GossipStop::truth || run.all_rounds || run.keeps_history || run.physical || run.root_only)
    return false;
  const bool power = std::has_single_bit(static_cast<std::uint32_t>(run.plan.neighbourhood.ranks));
  return (run.plan.algorithm == GossipAlgorithm::hps && run.plan.cycles == 0) ||
         (run.plan.algorithm == GossipAlgorithm::ardb && power);
}

LargeResult simulate_large(const LargeRun& run, const GossipProgress& progress) {
  if (run.algorithm == GossipAlgorithm::ardb)
    return run.single_precision ? run_ardb<float>(run, progress) : run_ardb<double>(run, progress);
  return run.single_precision ? run_hps<float>(run, progress) : run_hps<double>(run, progress);
}

}  // namespace ucft::detail::simulator
