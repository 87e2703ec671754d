#include "mpi/running.hpp"

#include <algorithm>
#include <mutex>
#include <optional>

#include "mpi/nonblocking.hpp"
#include "mpi/revocation.hpp"

namespace ucft::mpi {

namespace {

// A request that nobody completes before MPI's end. A test of it lets MPI go on, whatever has come: MPI_Iprobe doesn't
// (Open MPI 4.1.4, MPICH 4.0.2) where it finds a message that the program has not asked for yet.
MPI_Request never = MPI_REQUEST_NULL;
std::mutex never_is_tested;

}  // namespace

void let_mpi_go_on() {
  if (world.lost_by >= 0) return;
  const std::unique_lock lock(never_is_tested, std::try_to_lock);
  if (!lock) return;  // another thread does it
  if (never == MPI_REQUEST_NULL) make_request(&never);
  int is_complete = 0;
  PMPI_Test(&never, &is_complete, MPI_STATUS_IGNORE);
}

void end_turns_of_mpi() {
  if (never == MPI_REQUEST_NULL) return;
  PMPI_Grequest_complete(never);
  PMPI_Request_free(&never);
}

ucft_status_t go_on(const Communicator* comm, ucft_request_h request, ucft_status_t status, Waiting waiting) {
  std::optional<Busy> busy;
  if (comm != nullptr) busy.emplace(*comm);
  const auto is_over = [&] { return comm != nullptr && comm->is_revoked; };
  while (status == UCFT_ERR_BUSY) {
    look_for_deaths();
    let_mpi_go_on();
    leave_revoked();
    if (is_over()) return UCFT_ERR_STATE;
    status = post(comm, request, waiting.slice_us);
  }
  std::uint64_t slice_us = waiting.slice_us;
  int quick_looks = world.threaded ? 256 : 0;
  while (status == UCFT_INPROGRESS || status == UCFT_ERR_TIMED_OUT) {
    const bool is_quick = quick_looks > 0;
    if (is_quick) {
      --quick_looks;
    } else {
      look_for_deaths();
      let_mpi_go_on();
      leave_revoked();
      slice_us = std::min(2 * slice_us, longest_us);
    }
    const Turn turn;
    if (queued.load(std::memory_order_relaxed) > 0) post_queued();
    const bool others_wait = world.waiting.load(std::memory_order_relaxed) > 0;
    status = is_quick || others_wait ? ucft_test(request) : ucft_wait(request, slice_us);
  }
  return !waiting.is_bound && is_over() ? UCFT_ERR_STATE : status;
}

}  // namespace ucft::mpi
