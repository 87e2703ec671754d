// A program of two libraries: MPI and ucft, in the order that the first argument says.
//
//   inside | around             MPI around ucft, or ucft around MPI; both reduce in turn, and agree
//   inside | around VICTIM      then that rank kills itself, and the others go on with ucft alone. MPI can't: they may
//                               not call MPI_Finalize either, which waits for the dead rank
#include <mpi.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "ucft/ucft.h"

namespace {

constexpr int rounds = 50;

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

// Survivors' sums: all ranks', or all but the victim's from some time on. Ends with 0, and on survivors only.
int go_on_without(int victim) {
  std::int32_t rank = 0, size = 0;
  ucft_comm_rank(comm, &rank);
  ucft_comm_size(comm, &size);
  const std::uint64_t all = (std::uint64_t{1} << size) - 1, mine = std::uint64_t{1} << rank;
  bool without = false;
  for (int i = 0; i < 20 * rounds; ++i) {
    if (rank == victim && i == rounds) std::raise(SIGKILL);
    std::uint64_t sum = 0;
    if (ucft_allreduce(comm, &mine, &sum, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr) != UCFT_OK) {
      std::fprintf(stderr, "ucft: %s\n", ucft_last_error());
      return 1;
    }
    without = without || sum != all;
    if (sum == (without ? all - (std::uint64_t{1} << victim) : all)) continue;
    std::fprintf(stderr, "iteration %d: sum %llx\n", i, static_cast<unsigned long long>(sum));
    return 1;
  }
  if (!without) {
    std::fprintf(stderr, "nobody has died\n");
    return 1;
  }
  ucft_context_destroy(context);
  std::printf("VERDICT survived\n");
  std::fflush(stdout);
  _exit(0);  // MPI's exit handlers may wait for the dead rank, too
}

}  // namespace

int main(int argc, char** argv) {
  const bool around = argc > 1 && std::strcmp(argv[1], "around") == 0;
  const int victim = argc > 2 ? std::atoi(argv[2]) : -1;
  if (around) begin_ucft();
  MPI_Init(&argc, &argv);
  if (!around) begin_ucft();
  bool agree = true;
  for (int i = 0; i < rounds; ++i) agree = sums_agree() && agree;
  if (agree && victim >= 0) return go_on_without(victim);
  if (around) MPI_Finalize();
  ucft_context_destroy(context);
  if (!around) MPI_Finalize();
  if (agree) std::printf("VERDICT both\n");
  return agree ? 0 : 1;
}
