#include "bench/tally.hpp"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <bit>

#include "bench/payload.hpp"

namespace ucft::detail::bench {

namespace {

// Bucket of a latency: below 64 ns each has its own; above, the highest bit and the six below it.
//   1000 ns = 1111101000b: highest bit 9, next six 111101b = 61: bucket (9-5)*64 + 61
constexpr unsigned fraction_bits = 6;
constexpr std::uint64_t fractions = 1u << fraction_bits;
constexpr unsigned most_bits = 42;  // 73 minutes
constexpr std::size_t bucket_count = (most_bits - fraction_bits + 1) * fractions;

std::size_t bucket_of(std::uint64_t ns) {
  ns = std::min(ns, (std::uint64_t{1} << most_bits) - 1);
  if (ns < fractions) return ns;
  const auto highest = static_cast<unsigned>(std::bit_width(ns)) - 1;
  return (highest - fraction_bits + 1) * fractions + ((ns >> (highest - fraction_bits)) & (fractions - 1));
}

double middle_of(std::size_t bucket) {
  if (bucket < fractions) return static_cast<double>(bucket);
  const auto shift = static_cast<unsigned>(bucket / fractions) - 1;
  const std::uint64_t lowest = (fractions + bucket % fractions) << shift;
  return static_cast<double>(lowest) + 0.5 * static_cast<double>((std::uint64_t{1} << shift) - 1);
}

constexpr std::size_t digest_count = 256;  // operations are dealt out to them in turn

}  // namespace

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

ContextSwitches ContextSwitches::now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {static_cast<std::uint64_t>(usage.ru_nvcsw), static_cast<std::uint64_t>(usage.ru_nivcsw)};
}

Tally::Tally(std::int64_t operations_per_sample)
    : operations_per_sample_(operations_per_sample),
      sums_(histogram_at + bucket_count),
      maxima_(digests_at + 2 * digest_count),
      digests_(digest_count) {}

void Tally::add_sample(std::int64_t latency_ns) {
  const std::int64_t total_ns = std::max<std::int64_t>(latency_ns, 0);
  const auto ns = static_cast<std::uint64_t>(total_ns / operations_per_sample_);
  ++sums_[samples_at];
  sums_[total_ns_at] += static_cast<std::uint64_t>(total_ns);
  ++sums_[histogram_at + bucket_of(ns)];
  raise(max_ns_at, ns);
}

void Tally::add_switches(const ContextSwitches& before, const ContextSwitches& after) {
  sums_[voluntary_at] += after.voluntary - before.voluntary;
  sums_[involuntary_at] += after.involuntary - before.involuntary;
}

void Tally::add_digest(std::uint64_t operation, std::uint64_t digest) {
  std::uint64_t& chain = digests_[operation % digest_count];
  chain = mix(chain ^ digest);
}

// Two maxima tell whether all are equal: max(d) and max(~d) = ~min(d).
void Tally::close() {
  for (std::size_t i = 0; i < digest_count; ++i) {
    maxima_[digests_at + i] = digests_[i];
    maxima_[digests_at + digest_count + i] = ~digests_[i];
  }
}

double Tally::per_operation(std::size_t at) const {
  const double operations = static_cast<double>(sums_[samples_at]) * static_cast<double>(operations_per_sample_);
  return operations == 0 ? 0 : static_cast<double>(sums_[at]) / operations;
}

double Tally::average_us() const { return 1e-3 * per_operation(total_ns_at); }

double Tally::percentile_us(double fraction) const {
  const double rank = fraction * static_cast<double>(sums_[samples_at]);
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < bucket_count; ++bucket) {
    seen += sums_[histogram_at + bucket];
    if (seen > 0 && static_cast<double>(seen) >= rank) return std::min(1e-3 * middle_of(bucket), max_us());
  }
  return max_us();
}

std::uint64_t Tally::wrong() const {
  std::uint64_t differing = 0;
  for (std::size_t i = 0; i < digest_count; ++i) {
    if (maxima_[digests_at + i] != ~maxima_[digests_at + digest_count + i]) ++differing;
  }
  return sums_[wrong_at] + differing;
}

}  // namespace ucft::detail::bench
