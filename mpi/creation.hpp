// MPI's part in a new communicator. All its ranks must take part in that, so if one of them dies meanwhile MPI would
// wait for ever. Here that wait ends, and the ranks that are left agree by ucft on whether all of them have it.
//
// A copy is made by MPI_Comm_idup, which calls the program's copy callbacks at once, on the caller's thread. One that
// is not complete is left alone. Open MPI can make it anew of the others then; MPICH can make no communicator any
// more.
//
// MPI_Comm_create_group has no nonblocking form. Open MPI can leave it all the same (own_stack.hpp), and make it anew
// of the others. Elsewhere a call that is left is the end of MPI in this process (watch.hpp): a call that needs MPI is
// an error. ucft goes on.
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

// The ranks of the new communicator agree on this before MPI makes it.
struct Members {
  MPI_Comm parent;
  std::vector<int> ranks;  // as the parent numbers them, in the order of the new one
  int tag = 0;   // of messages: no other communicator that is made at the same time by one of these ranks has it
  int left = 0;  // the greatest of their attempts_left
  bool is_behind_copy = false;  // a copy of parent that is not complete has been left alone
};

// Attempts of this process that were left alone. Open MPI makes one communicator at a time: of those that it is asked
// for the one with the lowest parent and tag. So a later attempt has a lower tag.
int attempts_left();
// serial, first: of the communicator's first rank. left: the greatest of its ranks.
int tag_of(int serial, int first, int left);

// Once, by all ranks, before any of the below: the parent of parts.
void prepare_creation();

// On this rank. error: MPI's.
Creation duplicate(const Members& members, MPI_Comm* created, int& error);
Creation duplicate_with_info(const Members& members, MPI_Info info, MPI_Comm* created, int& error);
Creation create_group(const Members& members, MPI_Comm* created, int& error);

}  // namespace ucft::mpi
