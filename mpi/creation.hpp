// MPI's part in a new communicator. All its ranks must take part in that, so if one of them dies meanwhile MPI would
// wait for ever. Here that wait ends, and the ranks that are left agree by ucft on whether all of them have it.
//
// A copy is made by MPI_Comm_idup, which calls the program's copy callbacks at once, on the caller's thread. One that
// is not complete is left alone. Open MPI can make it anew of the others then; MPICH can make no communicator any
// more.
//
// MPI_Comm_create_group has no nonblocking form, so it runs on a thread of its own, and no callback may run there.
// The call can't be taken back. A thread that a death leaves waiting in it stays there, and its messages would be taken
// for those of another attempt. So that is the end of MPI in this process (World::lost_by): a call that needs MPI is an
// error. ucft goes on.
//
// Open MPI's MPI_Comm_create_group copies the parent's attributes and topology (4.1.4), which a part must not have.
// So its parent is a copy of MPI_COMM_WORLD that the program never sees.
#pragma once

#include <vector>

#include "mpi/communicators.hpp"

namespace ucft::mpi {

// The outcome on a rank. A later one outweighs those before it.
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
  int tag = 0;         // of messages: no other communicator that is made at the same time by one of these ranks has it
  bool again = false;  // a copy of parent that is not complete has been left alone
};

// Once, by all ranks, before any of the below: the parent of parts.
void prepare_creation();

// On this rank. error: MPI's.
Creation duplicate(const Members& members, MPI_Comm* created, int& error);
Creation duplicate_with_info(const Members& members, MPI_Info info, MPI_Comm* created, int& error);
Creation create_group(const Members& members, MPI_Comm* created, int& error);

}  // namespace ucft::mpi
