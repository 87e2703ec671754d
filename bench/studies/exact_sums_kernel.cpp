// The sum of a long vector that is cut in parts, by processes or by threads: plain sums, OpenMP's reduction, and exact
// sums, in turns. For bench/studies/exact_sums, which has MPI's beside it.
//
//   ucft_run -n PARTS exact_sums_kernel ELEMENTS TURNS       each rank has a part; an allreduce adds the parts' sums
//   exact_sums_kernel ELEMENTS TURNS --threads PARTS         each thread has a part
//   exact_sums_kernel 16 LOOPS --threads THREADS --reduce    OpenMP's reduction of 16 doubles in a loop: us, by
//                                                            percentiles. Nothing where there is no OpenMP
//
// A line of JSON for each way, of rank 0. Its time is that of all ranks, since an allreduce waits for all. The vector
// is there before the time begins.
#include <CLI/CLI.hpp>
#include <stdexcept>
#include <thread>

#include "bench/studies/exact_sums.hpp"
#include "ucft/ucft.hpp"

using namespace ucft::bench;

namespace {

void sum_by_ranks(std::uint64_t elements, int turns) {
  ucft::Context context;
  ucft::Communicator all(context);
  const std::vector<double> own = part_of(all.rank(), all.size(), elements);
  const auto added = [&](double sum) {
    if (!all.allreduce(sum, UCFT_SUM).ok()) throw ucft::Error(UCFT_ERR_STATE);
    return sum;
  };
  Turns in_order("plain, in order"), in_lanes("plain, in lanes"), reproducible("plain, in lanes; SUM_REPRODUCIBLE"),
      exact("accumulators");
  for (int turn = 0; turn < turns; ++turn) {
    const auto take = [&](Turns& way, auto sum) {
      all.barrier();
      way.take(sum);
    };
    take(in_order, [&] { return added(sum_in_order(own)); });
    take(in_lanes, [&] { return added(sum_in_lanes(own)); });
    take(reproducible, [&] {
      double sum = sum_in_lanes(own);
      if (!all.allreduce(sum, UCFT_SUM_REPRODUCIBLE).ok()) throw ucft::Error(UCFT_ERR_STATE);
      return sum;
    });
    take(exact, [&] {
      ucft::Accumulator sum;
      sum.add(own);
      if (!all.allreduce(sum, UCFT_SUM).ok()) throw ucft::Error(UCFT_ERR_STATE);
      return sum.value();
    });
  }
  if (all.rank() != 0) return;
  for (Turns* way : {&in_order, &in_lanes, &reproducible, &exact}) way->print(all.size());
}

double exact_sum_by_threads(Numbers numbers, int threads) {
  std::vector<ucft::Accumulator> parts(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (int part = 0; part < threads; ++part)
    running.emplace_back([&, part] {
      const std::uint64_t first = begin_of(part, threads, numbers.size());
      const std::uint64_t end = begin_of(part + 1, threads, numbers.size());
      parts[static_cast<std::size_t>(part)].add(numbers.subspan(first, end - first));
    });
  for (std::thread& each : running) each.join();
  ucft::Accumulator sum;
  for (const ucft::Accumulator& part : parts) sum += part;
  return sum.value();
}

#if defined(_OPENMP)
double sum_by_openmp(Numbers numbers, [[maybe_unused]] int threads) {
  double sum = 0;
#pragma omp parallel for simd num_threads(threads) reduction(+ : sum)
  for (std::size_t i = 0; i < numbers.size(); ++i) sum += numbers[i];
  return sum;
}
double sum_by_openmp_in_any_order(Numbers numbers, [[maybe_unused]] int threads) {
  double sum = 0;
#pragma omp parallel for simd num_threads(threads) reduction(+ : sum) schedule(dynamic, 65536)
  for (std::size_t i = 0; i < numbers.size(); ++i) sum += numbers[i];
  return sum;
}
#endif

// Of small vectors: each thread has one.
void reduce_by_openmp([[maybe_unused]] std::size_t elements, [[maybe_unused]] int loops, [[maybe_unused]] int threads) {
#if defined(_OPENMP)
  std::vector<double> us, numbers(elements);
  double* const sums = numbers.data();
  for (int loop = 0; loop < loops; ++loop) {
    const auto begin = std::chrono::steady_clock::now();
#pragma omp parallel num_threads(threads) reduction(+ : sums[:elements])
    for (std::size_t i = 0; i < elements; ++i) sums[i] += static_cast<double>(i);
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  if (sums[1] != loops * threads) throw std::runtime_error("a wrong sum");
  std::sort(us.begin(), us.end());
  const auto at = [&](double part) { return us[static_cast<std::size_t>(part * static_cast<double>(us.size() - 1))]; };
  fmt::print("{{\"p50_us\": {:.3f}, \"p99_us\": {:.3f}, \"max_us\": {:.3f}}}\n", at(0.5), at(0.99), at(1));
#endif
}

void sum_by_threads(std::uint64_t elements, int turns, int threads) {
  const std::vector<double> all = part_of(0, 1, elements);
  Turns exact("accumulators, threads");
#if defined(_OPENMP)
  Turns openmp("OpenMP"), dynamic("OpenMP, dynamic");
#endif
  for (int turn = 0; turn < turns; ++turn) {
    exact.take([&] { return exact_sum_by_threads(all, threads); });
#if defined(_OPENMP)
    openmp.take([&] { return sum_by_openmp(all, threads); });
    dynamic.take([&] { return sum_by_openmp_in_any_order(all, threads); });
#endif
  }
  exact.print(threads);
#if defined(_OPENMP)
  openmp.print(threads);
  dynamic.print(threads);
#endif
}

}  // namespace

int main(int count, char** words) {
  std::uint64_t elements = 0;
  int turns = 0, threads = 0;
  bool reduces = false;
  CLI::App app{"Sums of a vector that is cut in parts: plain, by OpenMP, and exact."};
  app.add_option("ELEMENTS", elements)->required()->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  app.add_option("TURNS", turns)->required()->check(CLI::Range(1, 10000000));
  app.add_option("--threads", threads, "instead of ranks")->check(CLI::Range(1, 1024));
  app.add_flag("--reduce", reduces, "a small reduction in a loop")->needs("--threads");
  CLI11_PARSE(app, count, words);
  if (reduces) return reduce_by_openmp(elements, turns, threads), 0;
  threads > 0 ? sum_by_threads(elements, turns, threads) : sum_by_ranks(elements, turns);
}
