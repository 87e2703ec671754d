#include "bench/gossip.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "bench/tally.hpp"
#include "collectives/gossip/faults.hpp"

namespace ucft::detail::bench {

namespace {

constexpr double unknown = std::numeric_limits<double>::infinity();

template <class T>
class GossipTest {
  __extension__ using Exact = __float128;
  static Exact magnitude(Exact number) { return number < 0 ? -number : number; }
  struct Truth {
    std::vector<Exact> values;
    Exact largest = 0;
  };

 public:
  GossipTest(Communicator& world, const Arguments& arguments) : world_(world), arguments_(arguments) {
    counts_ = arguments.disturbances.counts(world.rank(), world.size());
    aside_.f = std::min(std::max<int>(1, static_cast<int>(arguments.deaths.size())), world.size() - 1);
  }

  int run() {
    std::uint64_t wrong = 0;
    for (std::size_t row = 0; row < arguments_.sizes_bytes.size(); ++row) wrong += run_row(row);
    return wrong == 0 ? 0 : 1;
  }

 private:
  std::uint64_t run_row(std::size_t row) {
    tally_ = known_ = Tally();
    iterations_ = messages_ = stages_ = missed_ = above_bound_ = not_a_number_ = 0;
    lost_ = flips_ = failed_ends_ = 0;
    worst_error_ = worst_bound_ = 0;
    const std::size_t count = arguments_.sizes_bytes[row] / sizeof(T);
    send_.assign(count, 0);
    recv_.assign(count, 0);
    Request request = world_.gossip_allreduce_init(send_, recv_, arguments_.gossip->options);
    for (std::int64_t i = -arguments_.warmup; i < arguments_.iterations; ++i) {
      for (std::size_t k = 0; k < count; ++k) send_[k] = value(world_.rank(), k, i);
      const Truth truth = arguments_.gossip->watches ? truth_of(i, {}) : Truth();
      check(world_.barrier(aside_), "the barrier between operations");
      if (i >= 0) die_if_due(static_cast<std::int64_t>(row) * arguments_.iterations + i);
      const std::int64_t begin_ns = now_ns();
      request.post();
      std::int64_t known_ns = 0;
      const Result result = arguments_.gossip->watches ? watch(request, truth, known_ns) : request.wait();
      const std::int64_t end_ns = now_ns();
      check(result, "gossip");
      if (i >= 0 && counts_) tally_.add_sample(end_ns - begin_ns);
      if (i >= 0 && counts_) known_.add_sample((known_ns > 0 ? known_ns : end_ns) - begin_ns);
      judge(result, request.gossip_result(), i);
    }
    return report(row);
  }

  // Waits. known_ns: since when this rank's own estimate has been within eps of the truth; 0: only since the end.
  Result watch(Request& request, const Truth& truth, std::int64_t& known_ns) {
    const Exact allowed = truth.largest * arguments_.gossip->options.eps;
    std::vector<T> estimate(recv_.size());
    while (request.test() == UCFT_INPROGRESS) {
      request.estimate(estimate);
      bool is_near = true;
      for (std::size_t k = 0; k < estimate.size(); ++k)
        is_near = is_near && magnitude(static_cast<Exact>(estimate[k]) - truth.values[k]) <= allowed;
      if (!is_near)
        known_ns = 0;
      else if (known_ns == 0)
        known_ns = now_ns();
      sched_yield();  // ranks may share a core
    }
    return request.wait();
  }

  Truth truth_of(std::int64_t iteration, const std::vector<std::int32_t>& missing) const {
    Truth truth;
    for (std::size_t place = 0; place < recv_.size(); ++place) {
      Exact sum = 0;
      for (int rank = 0; rank < world_.size(); ++rank)
        if (!std::binary_search(missing.begin(), missing.end(), rank))
          sum += static_cast<Exact>(value(rank, place, iteration));
      truth.values.push_back(sum / (world_.size() - std::ssize(missing)));
      truth.largest = std::max(truth.largest, magnitude(truth.values.back()));
    }
    return truth;
  }

  // Of cancel, each rank takes off what the one before has given. The last of an odd number gives the rest alone.
  T value(int rank, std::size_t place, std::int64_t iteration) const {
    using Limits = std::numeric_limits<T>;
    const auto salt = static_cast<int>((place * 7 + static_cast<std::size_t>(iteration + 1'000'000)) % 13);
    const auto whole = static_cast<T>(1 + rank + salt);
    switch (arguments_.gossip->data) {
      case GossipData::uniform: return whole;
      case GossipData::huge: return Limits::max() / whole;
      case GossipData::tiny: return Limits::denorm_min() * whole;
      case GossipData::cancel: break;
    }
    if (rank == world_.size() - 1) return rank % 2 == 0 ? rest : rest - static_cast<T>(rank + salt);
    return rank % 2 == 0 ? whole : -static_cast<T>(rank + salt);
  }

  // Relative to the largest value, as bounds are, and in numbers in which such sums are exact. Bounds don't include the
  // harm of faults that the user has asked for.
  void judge(const Result& result, const GossipResult& accuracy, std::int64_t iteration) {
    const Truth truth = truth_of(iteration, result.missing);
    Exact worst = 0;
    bool finite = true;
    for (std::size_t k = 0; k < recv_.size(); ++k) {
      finite = finite && std::isfinite(recv_[k]);
      if (finite) worst = std::max(worst, magnitude(static_cast<Exact>(recv_[k]) - truth.values[k]));
    }
    const double error = !finite || (worst > 0 && truth.largest == 0) ? unknown
                         : worst > 0                                  ? static_cast<double>(worst / truth.largest)
                                                                      : 0;
    // Whose aggregate it is after a death cannot be said of push-cancel-flow: ucft.h.
    const bool can_be_known = accuracy.answer != UCFT_GOSSIP_NEARLY_ALL_RANKS;
    const bool is_above_bound = can_be_known && error > accuracy.error_bound;
    const bool nothing_is_known = accuracy.error_bound == unknown;  // and it says so
    if (finite ? is_above_bound && !injects_ : !nothing_is_known) {
      tally_.add_wrong();
      fmt::print(stderr, "ucft_perftest: rank {}: gossip: WRONG: off by {}, the bound is {}\n", world_.rank(), error,
                 accuracy.error_bound);
    }
    if (iteration < 0) return;
    iterations_ += accuracy.iterations;
    messages_ += accuracy.messages;
    stages_ += accuracy.stages;
    if (accuracy.reached == 0) ++missed_;
    is_one_sided_ = accuracy.path == UCFT_GOSSIP_PATH_RMA;
    if (finite && is_above_bound) ++above_bound_;
    if (!finite) ++not_a_number_;
    lost_ += accuracy.injected_losses;
    flips_ += accuracy.injected_flips;
    failed_ends_ += accuracy.injected_link_failures;
    tally_.add_digest(static_cast<std::uint64_t>(iteration), digest_of(recv_));
    if (can_be_known) worst_error_ = std::max(worst_error_, error);
    worst_bound_ = std::max(worst_bound_, accuracy.error_bound);
  }

  // All survivors have the same bits.
  static std::uint64_t digest_of(const std::vector<T>& values) {
    std::uint64_t digest = 0;
    for (const T each : values) digest = mixed(digest, std::bit_cast<Bits>(each));
    return digest;
  }

  void die_if_due(std::int64_t iteration) {
    for (const PlannedDeath& death : arguments_.deaths) {
      if (death.iteration != iteration || death.rank != world_.rank()) continue;
      tell_launcher(world_.rank());
      raise(death.signal);
    }
  }

  void check(const Result& result, const char* what) {
    if (result.ok()) return;
    fmt::print(stderr, "ucft_perftest: rank {}: {}: {}: {}\n", world_.rank(), what, ucft_status_name(result.status),
               ucft_last_error());
    std::fflush(nullptr);
    std::_Exit(1);
  }

  std::uint64_t report(std::size_t row) {
    tally_.close();
    std::vector<double> totals{
        static_cast<double>(iterations_), static_cast<double>(messages_), 1,
        static_cast<double>(lost_),       static_cast<double>(flips_),    static_cast<double>(failed_ends_)};
    std::vector<double> most{worst_error_, worst_bound_};
    check(world_.allreduce(tally_.sums(), UCFT_SUM, aside_), "statistics");
    check(world_.allreduce(known_.sums(), UCFT_SUM, aside_), "statistics");
    check(world_.allreduce(known_.maxima(), UCFT_MAX, aside_), "statistics");
    check(world_.allreduce(totals, UCFT_SUM, aside_), "statistics");
    check(world_.allreduce(most, UCFT_MAX, aside_), "statistics");
    const Result merged = world_.allreduce(tally_.maxima(), UCFT_MAX, aside_);
    check(merged, "statistics");
    int printer = 0;
    for (const std::int32_t missing : merged.missing) printer += missing == printer ? 1 : 0;
    if (printer == world_.rank()) print(row, totals, most, merged.missing);
    return tally_.wrong();
  }

  void print(std::size_t row, const std::vector<double>& totals, const std::vector<double>& most,
             const std::vector<std::int32_t>& failed) const {
    const auto& gossip = *arguments_.gossip;
    const double operations = static_cast<double>(arguments_.iterations);
    const double steps = totals[0] / totals[2] / operations, messages = totals[1] / totals[2] / operations;
    const double per_step = steps > 0 ? tally_.average_us() / steps : 0;
    const auto text_of = [](double error) { return error == unknown ? "null" : fmt::format("{:.3g}", error); };
    const char* path = is_one_sided_ ? "rma" : "message";
    const double failed_links = std::ceil(totals[5] / 2);  // both ends count
    if (arguments_.json) {
      fmt::print(
          "{{\"library\":\"ucft\",\"test\":\"gossip\",\"algorithm\":\"{}\",\"topology\":\"{}\",\"eps\":{:g},\"stop\":"
          "\"{}\",\"path\":\"{}\",\"ranks\":{},\"dtype\":\"{}\","
          "\"bytes\":{},\"iterations\":{},\"avg_us\":{:.3f},\"p50_us\":{:.3f},\"p99_us\":{:.3f},\"max_us\":{:.3f},"
          "\"steps_per_op\":{:.2f},"
          "\"us_per_step\":{:.3f},\"messages_per_op\":{:.2f},\"stages_per_op\":{:.3f},\"error_max\":{},\"bound_max\":{}"
          ",\"above_eps\":{},\"above_bound\":{},"
          "\"not_a_number\":{},\"lost\":{:.0f},\"flips\":{:.0f},\"failed_links\":{:.0f},\"wrong\":{},\"failed\":[{}],"
          "\"slow\":\"{}\",\"noise\":\"{}\",\"known_avg_us\":{},\"known_p50_us\":{},\"known_p99_us\":{}}}"
          "\n",
          gossip.algorithm, gossip.topology, gossip.options.eps, gossip.stop, path, world_.size(),
          name_of(arguments_.dtype), arguments_.sizes_bytes[row], arguments_.iterations, tally_.average_us(),
          tally_.percentile_us(0.5), tally_.percentile_us(0.99), tally_.max_us(), steps, per_step, messages,
          static_cast<double>(stages_) / operations, text_of(most[0]), text_of(most[1]), missed_, above_bound_,
          not_a_number_, totals[3], totals[4], failed_links, tally_.wrong(), fmt::join(failed, ","),
          arguments_.disturbances.slow_text(), arguments_.disturbances.noise.text,
          gossip.watches ? fmt::format("{:.3f}", known_.average_us()) : "null", known(0.5), known(0.99));
    } else {
      if (row == 0) fmt::print("{}", arguments_.disturbances.header(world_.size()));
      if (row == 0)
        fmt::print(
            "# ucft_perftest {}: gossip, {} on {}, eps {:g}, {}, path {}, {} ranks, {}, {} operations after {} of "
            "warm-up\n"
            "#{:>9} {:>10} {:>10} {:>10} {:>11} {:>8} {:>9} {:>10} {:>10} {:>10} {:>6}  {}\n",
            UCFT_VERSION_STRING, gossip.algorithm, gossip.topology, gossip.options.eps, gossip.stop, path,
            world_.size(), name_of(arguments_.dtype), arguments_.iterations, arguments_.warmup, "bytes", "avg us",
            "p50 us", "p99 us", "max us", "steps", "us/step", "error max", "bound max", "above eps", "wrong",
            "failed ranks");
      if (row == 0 && injects_)
        fmt::print(
            "# lost, flips, failed links: injected, by all ranks in all operations; above bound: results further off "
            "than their bound\n");
      fmt::print("{:>10} {:>10.2f} {:>10.2f} {:>10.2f} {:>11.2f} {:>8.1f} {:>9.3f} {:>10} {:>10} {:>10} {:>6}  {}\n",
                 arguments_.sizes_bytes[row], tally_.average_us(), tally_.percentile_us(0.5),
                 tally_.percentile_us(0.99), tally_.max_us(), steps, per_step, text_of(most[0]), text_of(most[1]),
                 missed_, tally_.wrong(), failed.empty() ? "-" : fmt::format("{}", fmt::join(failed, ",")));
      if (injects_)
        fmt::print("#          lost {:.0f}, flips {:.0f}, failed links {:.0f}, above bound {}, not a number {}\n",
                   totals[3], totals[4], failed_links, above_bound_, not_a_number_);
      if (gossip.watches)
        fmt::print("#          ranks knew the result after {} us (p50), {} us (p99)\n", known(0.5), known(0.99));
    }
    std::fflush(stdout);
  }
  std::string known(double fraction) const {
    return arguments_.gossip->watches ? fmt::format("{:.3f}", known_.percentile_us(fraction)) : "null";
  }

  static bool injects_faults() {
    const char* text = std::getenv("UCFT_GOSSIP_FAULTS");
    GossipFaults faults;
    return text != nullptr && parse_faults(text, faults).empty() && faults.any();
  }
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr T rest = static_cast<T>(1e-12);

  Communicator& world_;
  const Arguments& arguments_;
  Options aside_;
  Tally tally_, known_;  // of whole operations; until a rank knew the result (--watch)
  bool counts_ = true;   // its samples
  std::vector<T> send_, recv_;
  std::uint64_t iterations_ = 0, messages_ = 0, stages_ = 0, missed_ = 0, above_bound_ = 0, not_a_number_ = 0;
  std::uint64_t lost_ = 0, flips_ = 0, failed_ends_ = 0;  // injected, at this rank
  bool is_one_sided_ = false;
  const bool injects_ = injects_faults();
  double worst_error_ = 0, worst_bound_ = 0;
};

}  // namespace

void tell_launcher(std::int32_t rank) {
  const char* descriptor = std::getenv("UCFT_PURPOSE_FD");
  if (descriptor != nullptr && write(std::atoi(descriptor), &rank, sizeof rank) < 0) return;  // then it counts
}

int run_gossip(Communicator& world, const Arguments& arguments) {
  return arguments.dtype == UCFT_FLOAT ? GossipTest<float>(world, arguments).run()
                                       : GossipTest<double>(world, arguments).run();
}

}  // namespace ucft::detail::bench
