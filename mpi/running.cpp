#include "mpi/running.hpp"

#include <algorithm>

namespace ucft::mpi {

void let_mpi_go_on() {
  if (world.lost_by >= 0) return;
#ifdef OPEN_MPI
  const MPI_Comm comm = MPI_COMM_SELF;  // nothing is there to be searched
#else
  const MPI_Comm comm = MPI_COMM_WORLD;  // of the other one MPICH looks at memory alone (4.0.2)
#endif
  int found = 0;
  PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE);
}

ucft_status_t go_on(const Communicator* comm, ucft_request_h request, ucft_status_t status) {
  while (status == UCFT_ERR_BUSY) {
    look_for_deaths();
    let_mpi_go_on();
    status = post(comm, request);
  }
  int quick_looks = world.threaded ? 256 : 0;
  std::uint64_t slice_us = shortest_us;
  while (status == UCFT_INPROGRESS || status == UCFT_ERR_TIMED_OUT) {
    const bool is_quick = quick_looks > 0;
    if (is_quick) {
      --quick_looks;
    } else {
      let_mpi_go_on();
      slice_us = std::min(2 * slice_us, longest_us);
    }
    const Turn turn;
    if (queued.load(std::memory_order_relaxed) > 0) post_queued();
    const bool others_wait = world.waiting.load(std::memory_order_relaxed) > 0;
    status = is_quick || others_wait ? ucft_test(request) : ucft_wait(request, slice_us);
  }
  return status;
}

}  // namespace ucft::mpi
