// One operation of ucft, from its post to its end, while MPI goes on: in slices between which MPI has turns, and other
// threads of the program theirs.
#pragma once

#include <atomic>

#include "mpi/communicators.hpp"
#include "mpi/world.hpp"

namespace ucft::mpi {

// Nonblocking collectives that wait for room in ucft's window, on any communicator (nonblocking.hpp).
extern std::atomic<int> queued;
// Posts those of them for which there is room. No call of MPI.
void post_queued();

constexpr std::uint64_t shortest_us = 20, longest_us = 1000;  // between two turns of MPI

// MPI moves messages only in calls of it. A message of this rank may be what others wait for before they come here.
void let_mpi_go_on();
// Before MPI ends, and after the last of those turns.
void end_turns_of_mpi();

// A call is inside that communicator: it is not left meanwhile.
class Busy {
 public:
  explicit Busy(const Communicator& comm) : comm_(comm) { comm_.busy.fetch_add(1, std::memory_order_relaxed); }
  ~Busy() { comm_.busy.fetch_sub(1, std::memory_order_relaxed); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  const Communicator& comm_;
};

// As far as it goes until MPI's first turn; where there are threads, until that of another one. Calls of its
// communicator that came before it come first. comm: nullptr: one that has none.
[[gnu::always_inline]] inline ucft_status_t post(const Communicator* comm, ucft_request_h request,
                                                 std::uint64_t slice_us = shortest_us) {
  const Turn turn;
  if (queued.load(std::memory_order_relaxed) > 0) [[unlikely]] {
    post_queued();
    if (comm != nullptr && comm->queued.load(std::memory_order_relaxed) > 0) return UCFT_ERR_BUSY;
  }
  if (!world.threaded) return ucft_post_and_wait(request, slice_us);
  if (comm != nullptr && comm->is_revoked) return UCFT_ERR_STATE;  // another thread may have left it
  const ucft_status_t status = ucft_post(request);
  return status == UCFT_OK ? ucft_test(request) : status;
}

// How a call waits.
struct Waiting {
  std::uint64_t slice_us = shortest_us;  // until MPI's first turn
  bool is_bound = false;  // once it is posted its result counts, also if the communicator is revoked meanwhile
};

// The rest of a call, if its operation has not ended, or could not be posted yet. UCFT_ERR_STATE: comm has been
// revoked.
ucft_status_t go_on(const Communicator* comm, ucft_request_h request, ucft_status_t status, Waiting waiting);

// Posts it, and sees it to its end.
[[gnu::always_inline]] inline ucft_status_t complete(const Communicator* comm, ucft_request_h request,
                                                     Waiting waiting = {}) {
  const ucft_status_t status = post(comm, request, waiting.slice_us);
  return status == UCFT_OK ? UCFT_OK : go_on(comm, request, status, waiting);
}

}  // namespace ucft::mpi
