// MPI_Init begins ucft, MPI_Finalize ends it. After a death PMPI_Finalize is not called, as it may wait for the dead
// rank (MPICH's does). If a rank dies while PMPI_Finalize runs, the call is left (ending.hpp). Then MPI stays as it is,
// and the process ends by itself, with its own exit code.
#include <cstdint>
#include <vector>

#include "mpi/communicators.hpp"
#include "mpi/datatypes.hpp"
#include "mpi/ending.hpp"
#include "mpi/report.hpp"
#include "mpi/revocation.hpp"
#include "mpi/running.hpp"
#include "mpi/world.hpp"

using namespace ucft::mpi;

namespace {

bool finalized_without_mpi = false;

void start() {
  make_tables();
  start_world();
  if (world.on) prepare_end();
}

// All survivors learn the same here: who has come.
struct Roll {
  bool complete = false;
  int lowest = 0;  // rank that has come
};

Roll call_the_roll() {
  std::vector<std::int32_t> missing(static_cast<std::size_t>(world.size));
  std::int32_t unused = 0;
  if (agree_on_greatest(of_world.control, 0, unused, &missing) != UCFT_OK) return {};
  Roll roll{missing.empty()};
  for (const std::int32_t rank : missing)
    if (rank == roll.lowest) ++roll.lowest;
  return roll;
}

}  // namespace

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  const int error = PMPI_Init(argc, argv);
  if (error == MPI_SUCCESS) start();
  return error;
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int error = PMPI_Init_thread(argc, argv, required, provided);
  if (error == MPI_SUCCESS) start();
  return error;
}

int MPI_Finalize() {
  if (!world.on) return PMPI_Finalize();
  leave_all_after_a_death();
  const Roll roll = call_the_roll();
  if (roll.lowest == world.rank) print_report();
  close_world();
  int error = MPI_SUCCESS;
  if (roll.complete) end_turns_of_mpi();
  finalized_without_mpi = !roll.complete || !end_mpi(error);
  leave_world();
  if (finalized_without_mpi) refuse_from_now_on();
  return error;
}

int MPI_Finalized(int* flag) {
  if (!finalized_without_mpi) return PMPI_Finalized(flag);
  *flag = 1;
  return MPI_SUCCESS;
}

}  // extern "C"
