// MPI's part in a new communicator. All its ranks must take part in that, so if one of them dies meanwhile MPI would wait for ever;
// here that ends, and the ranks that are left agree by ucft on whether all of them have it.
//
// Nonblocking where MPI has such a call (a copy, by MPI_Comm_idup): what is not complete is left alone, and it is made anew of the
// others. MPI_Comm_create_group has no such form, so it runs on a thread of its own. That can't be called back: what a death leaves
// waiting there stays there, and its messages would be taken for those of another attempt. So that is the end of MPI in this
// process (World::lost_by): whatever needs it is an error. ucft goes on.
#pragma once

#include <vector>

#include "mpi/communicators.hpp"

namespace ucft::mpi {

// What has come of it on a rank; in the order of what decides.
enum class Creation : int {
  made,
  unfinished,  // a rank has died; MPI can be used
  lost,        // a rank has died; MPI can't be used any more
  failed       // MPI says why
};

// The ranks of the new communicator as its parent numbers them.
struct Members {
  MPI_Comm parent;
  std::vector<int> ranks;
};

// On this rank. error: MPI's.
Creation duplicate(const Members& members, MPI_Comm* created, int& error);
Creation duplicate_with_info(const Members& members, MPI_Info info, MPI_Comm* created, int& error);
Creation create_group(const Members& members, MPI_Comm* created, int& error);

}  // namespace ucft::mpi
