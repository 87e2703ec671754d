// A program of two libraries: MPI and ucft, in the order that the argument says.
#include <mpi.h>

#include <cstdio>
#include <cstring>

#include "ucft/ucft.h"

namespace {

ucft_context_h context;
ucft_comm_h comm;

void begin_ucft() {
  if (ucft_context_create(nullptr, &context) == UCFT_OK && ucft_comm_create(context, &comm) == UCFT_OK) return;
  std::fprintf(stderr, "ucft: %s\n", ucft_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// 2^0 + 2^1 + ... by both, and the same rank in both.
bool sums_agree() {
  int mpi_rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
  std::int32_t rank = -2;
  ucft_comm_rank(comm, &rank);
  std::uint64_t mine = std::uint64_t{1} << rank, ours = 1, theirs = 2;
  ucft_allreduce(comm, &mine, &ours, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr);
  MPI_Allreduce(&mine, &theirs, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return ours == theirs && rank == mpi_rank;
}

}  // namespace

// inside: MPI around ucft. around: ucft around MPI.
int main(int argc, char** argv) {
  const bool around = argc > 1 && std::strcmp(argv[1], "around") == 0;
  if (around) begin_ucft();
  MPI_Init(&argc, &argv);
  if (!around) begin_ucft();
  const bool agree = sums_agree();
  if (around) MPI_Finalize();
  ucft_context_destroy(context);
  if (!around) MPI_Finalize();
  if (agree) std::printf("VERDICT both\n");
  return agree ? 0 : 1;
}
