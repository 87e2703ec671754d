// The ucft communicator that hangs on an MPI communicator: MPI_COMM_WORLD's from the start, and those of what MPI_Comm_dup,
// MPI_Comm_split and MPI_Comm_create make of it. It is an attribute of the MPI communicator, so it goes when that one is freed, by
// whatever call.
//
// Ranks are the same in both: after a death a new communicator has the survivors only, in MPI, too.
#pragma once

#include "mpi/world.hpp"

namespace ucft::mpi {

struct Communicator {
  ucft_comm_h handle = UCFT_COMM_NULL;
  int rank = 0, size = 0;
};

// Once, by all ranks: MPI_COMM_WORLD's. An error of ucft's, or UCFT_OK.
ucft_status_t attach_world();
// Takes it off again, and lets no other be found.
void detach_all();

// nullptr: MPI has its collectives. The world's and the one that this thread has asked for last cost some comparisons.
const Communicator* find_communicator(MPI_Comm comm);

}  // namespace ucft::mpi
