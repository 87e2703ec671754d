// One rank's measurements in one row, in a form that merges over ranks with one sum and one maximum.
//
// A sample is of one operation, or of several that followed each other without a clock: then it is their mean.
// Latencies go to a histogram with 64 buckets per power of two, so a percentile is right to 0.8 %; average and maximum
// are exact. Each rank's sample of each iteration counts once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ucft::detail::bench {

// CLOCK_MONOTONIC: the same clock in all processes of a host.
std::int64_t now_ns();

// How often the process gave up its core, and how often it was taken away, since it began. All threads.
struct ContextSwitches {
  std::uint64_t voluntary = 0;
  std::uint64_t involuntary = 0;
  static ContextSwitches now();
};

class Tally {
 public:
  explicit Tally(std::int64_t operations_per_sample = 1);

  void add_sample(std::int64_t latency_ns);  // of all of its operations
  void add_switches(const ContextSwitches& before, const ContextSwitches& after);
  void add_wrong(std::uint64_t count = 1) { sums_[wrong_at] += count; }
  void add_refused() { ++sums_[refused_at]; }
  void add_loop(std::int64_t ns) { raise(loop_ns_at, static_cast<std::uint64_t>(ns)); }
  // A rank that needs nothing of the dead one may be done before its death: 0.
  void add_recovery(std::int64_t ns) { raise(recovery_ns_at, static_cast<std::uint64_t>(ns > 0 ? ns : 0)); }
  // From the death to this rank's proof of it.
  void add_proof(std::int64_t ns) { raise(not_proof_ns_at, ~static_cast<std::uint64_t>(ns)); }
  void add_contributors(std::uint64_t count) { raise(not_contributors_at, ~count); }
  // A digest of the part of an operation, as this rank has seen it, that must look the same on all survivors.
  void add_digest(std::uint64_t operation, std::uint64_t digest);
  // Before merging: freezes the digests.
  void close();

  // To be replaced by their sums and maxima over all ranks.
  std::vector<std::uint64_t>& sums() { return sums_; }
  std::vector<std::uint64_t>& maxima() { return maxima_; }

  // ---- after merging ----
  double average_us() const;
  double percentile_us(double fraction) const;
  double max_us() const { return 1e-3 * static_cast<double>(maxima_[max_ns_at]); }
  double loop_us() const { return 1e-3 * static_cast<double>(maxima_[loop_ns_at]); }
  double recovery_us() const { return 1e-3 * static_cast<double>(maxima_[recovery_ns_at]); }  // 0: none
  // Until the first survivor's proof; 0: none.
  double proof_us() const {
    return maxima_[not_proof_ns_at] == 0 ? 0 : 1e-3 * static_cast<double>(~maxima_[not_proof_ns_at]);
  }
  std::uint64_t contributors_min() const { return ~maxima_[not_contributors_at]; }
  std::uint64_t refused() const { return sums_[refused_at]; }
  double voluntary_switches_per_operation() const { return per_operation(voluntary_at); }
  double involuntary_switches_per_operation() const { return per_operation(involuntary_at); }
  // Results that a rank found wrong, and groups of operations that differed between ranks.
  std::uint64_t wrong() const;

 private:
  enum Sum : std::size_t { samples_at, total_ns_at, wrong_at, refused_at, voluntary_at, involuntary_at, histogram_at };
  enum Maximum : std::size_t {
    max_ns_at,
    recovery_ns_at,
    not_proof_ns_at,
    loop_ns_at,
    not_contributors_at,
    digests_at
  };

  void raise(std::size_t at, std::uint64_t value) { maxima_[at] = value > maxima_[at] ? value : maxima_[at]; }
  double per_operation(std::size_t at) const;

  std::int64_t operations_per_sample_;
  std::vector<std::uint64_t> sums_;
  std::vector<std::uint64_t> maxima_;
  std::vector<std::uint64_t> digests_;
};

}  // namespace ucft::detail::bench
