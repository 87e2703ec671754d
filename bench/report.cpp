#include "bench/report.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace ucft::detail::bench {

namespace {

double rounded(double value) { return std::round(value * 1000) / 1000; }

// As nccl-tests have them, by the average time. algorithm: the payload (of blocks: all of them) by the time. bus:
// the bytes that a link must carry at least, by the time, so that rows of different tests and numbers of ranks compare.
struct Bandwidth {
  double algorithm, bus;  // 10^9 bytes a second
};
Bandwidth bandwidth_of(const Arguments& arguments, const Row& row, const Tally& tally) {
  const double n = row.rank_count;
  const bool in_parts = has_blocks(arguments.test) || has_shares(arguments.test);
  const double bytes = static_cast<double>(row.bytes) * (in_parts ? n : 1);
  const double algorithm = tally.average_us() > 0 ? bytes / tally.average_us() / 1e3 : 0;
  const double share = arguments.test == Test::allreduce  ? 2 * (n - 1) / n
                       : arguments.test == Test::sendrecv ? 2
                       : in_parts                         ? (n - 1) / n
                                                          : 1;
  return {algorithm, algorithm * share};
}

nlohmann::ordered_json json_of(const Arguments& arguments, const Row& row, const Tally& tally) {
  nlohmann::ordered_json line;
  line["library"] = row.library;
  line["test"] = name_of(arguments.test);
  line["algorithm"] = arguments.algorithm;
  line["ranks"] = row.rank_count;
  line["f"] = row.f;
  line["dtype"] = name_of(arguments.dtype);
  line["op"] = name_of(arguments.op);
  line["memory"] = arguments.shared_memory ? "ucft" : "plain";
  line["bytes"] = row.bytes;
  line["iterations"] = arguments.iterations;
  line["slow"] = arguments.disturbances.slow_text();
  line["noise"] = arguments.disturbances.noise.text;
  const Bandwidth bandwidth = bandwidth_of(arguments, row, tally);
  line["algbw_gbps"] = rounded(bandwidth.algorithm);
  line["busbw_gbps"] = rounded(bandwidth.bus);
  line["min_us"] = rounded(tally.percentile_us(0));
  line["avg_us"] = rounded(tally.average_us());
  line["p50_us"] = rounded(tally.percentile_us(0.5));
  line["p99_us"] = rounded(tally.percentile_us(0.99));
  line["p999_us"] = rounded(tally.percentile_us(0.999));
  line["max_us"] = rounded(tally.max_us());
  line["wrong"] = tally.wrong();
  line["refused"] = tally.refused();
  line["contributors_min"] = tally.contributors_min();
  line["failed"] = row.failed;
  line["recovery_us"] = nullptr;
  if (tally.recovery_us() > 0) line["recovery_us"] = rounded(tally.recovery_us());
  line["proof_us"] = nullptr;
  if (tally.proof_us() > 0) line["proof_us"] = rounded(tally.proof_us());
  line["loop_us"] = rounded(tally.loop_us() / static_cast<double>(arguments.iterations));
  line["voluntary_switches_per_op"] = rounded(tally.voluntary_switches_per_operation());
  line["involuntary_switches_per_op"] = rounded(tally.involuntary_switches_per_operation());
  return line;
}

}  // namespace

std::string header_of(const Arguments& arguments, const Row& row) {
  if (arguments.json) return "";
  return arguments.disturbances.header(row.rank_count) +
         fmt::format(
             "# {}_perftest {}: {}, {}, {} ranks, f={}, {} {}, {} iterations after {} of warm-up\n"
             "#{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>7} {:>7} {:>5} {:>11}  {}\n",
             row.library, UCFT_VERSION_STRING, name_of(arguments.test), arguments.algorithm, row.rank_count, row.f,
             name_of(arguments.dtype), name_of(arguments.op), arguments.iterations, arguments.warmup, "bytes", "min us",
             "avg us", "p50 us", "p99 us", "p99.9 us", "max us", "algbw", "busbw", "wrong", "recovery us",
             "failed ranks");
}

std::string line_of(const Arguments& arguments, const Row& row, const Tally& tally) {
  if (arguments.json) return json_of(arguments, row, tally).dump() + "\n";
  const std::string recovery = tally.recovery_us() > 0 ? fmt::format("{:.1f}", tally.recovery_us()) : "-";
  const std::string failed = row.failed.empty() ? "-" : fmt::format("{}", fmt::join(row.failed, ","));
  const Bandwidth bandwidth = bandwidth_of(arguments, row, tally);
  return fmt::format(
      "{:>10} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>10.2f} {:>7.2f} {:>7.2f} {:>5} {:>11}  {}\n", row.bytes,
      tally.percentile_us(0), tally.average_us(), tally.percentile_us(0.5), tally.percentile_us(0.99),
      tally.percentile_us(0.999), tally.max_us(), bandwidth.algorithm, bandwidth.bus, tally.wrong(), recovery, failed);
}

}  // namespace ucft::detail::bench
