// The sum of a long vector that is cut among ranks of MPI: plain sums, added by MPI_Allreduce, and ucft's accumulators,
// which MPI adds as int64. For bench/studies/exact_sums.
//
//   mpirun -n PARTS mpi_exact_sums ELEMENTS TURNS        a line of JSON for each way, of rank 0
#include <mpi.h>

#include <CLI/CLI.hpp>

#include "bench/studies/exact_sums.hpp"
#include "ucft/ucft.hpp"

using namespace ucft::bench;

namespace {

double added(double sum) {
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

void sum_by_ranks(std::uint64_t elements, int turns) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::vector<double> own = part_of(rank, size, elements);
  Turns in_order("MPI, plain, in order"), in_lanes("MPI, plain, in lanes"), exact("MPI, accumulators");
  for (int turn = 0; turn < turns; ++turn) {
    const auto take = [&](Turns& way, auto sum) {
      MPI_Barrier(MPI_COMM_WORLD);
      way.take(sum);
    };
    take(in_order, [&] { return added(sum_in_order(own)); });
    take(in_lanes, [&] { return added(sum_in_lanes(own)); });
    take(exact, [&] {
      ucft::Accumulator sum;
      sum.add(own);
      MPI_Allreduce(MPI_IN_PLACE, sum.words, static_cast<int>(std::size(sum.words)), MPI_INT64_T, MPI_SUM,
                    MPI_COMM_WORLD);
      return sum.value();
    });
  }
  if (rank != 0) return;
  for (Turns* way : {&in_order, &in_lanes, &exact}) way->print(size);
}

}  // namespace

int main(int count, char** words) {
  std::uint64_t elements = 0;
  int turns = 0;
  CLI::App app{"Sums of a vector that is cut among ranks of MPI: plain and exact."};
  app.add_option("ELEMENTS", elements)->required()->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  app.add_option("TURNS", turns)->required()->check(CLI::Range(1, 10000000));
  CLI11_PARSE(app, count, words);
  MPI_Init(nullptr, nullptr);
  sum_by_ranks(elements, turns);
  MPI_Finalize();
}
