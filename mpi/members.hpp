// Ranks that a call of MPI waits for, as MPI_COMM_WORLD numbers them, and which of these have failed. They are found
// once for each communicator and window, and hang on it then.
#pragma once

#include <memory>
#include <vector>

#include "mpi/world.hpp"

namespace ucft::mpi {

// Ranks of MPI_COMM_WORLD that a call waits for.
using Needed = std::shared_ptr<const std::vector<int>>;

struct Roster {
  std::vector<int> peers;  // by the rank that a message, or a call on a window, names; negative: of another job. Of an
                           // intercommunicator the other side
  Needed all;              // of both sides, less ranks of another job

  // Rank of MPI_COMM_WORLD, or negative.
  int world_rank_of(int peer) const {
    return peer >= 0 && peer < static_cast<int>(peers.size()) ? peers[static_cast<std::size_t>(peer)] : -1;
  }
  // Rank whose death is a failure of that one (failure_of), or -1.
  int failed(int peer) const {
    const int there = world_rank_of(peer);
    return there >= 0 ? failure_of(there) : -1;
  }
};

// Not where MPI is lost. A roster lives until MPI frees the communicator, or the window.
const Roster& members_of(MPI_Comm comm);
const Roster& members_of_window(MPI_Win window);
Needed members_of_group(MPI_Group group);

// The rank by which this one has lost MPI, or by_revocation if comm has been revoked; else -1.
int unusable(MPI_Comm comm);
// Rank whose death is a failure of one of them, or -1. No call of MPI.
int first_dead(const Needed& needed);
// The same of a member of comm, of either side of an intercommunicator; or why it is unusable.
int dead_member(MPI_Comm comm);
// The same of one rank of comm, revoked or not; of MPI_ANY_SOURCE any member. Not where MPI is lost.
int dead_sender(MPI_Comm comm, int peer);
// The same of one rank of comm (of the other side), as point-to-point calls name it. MPI_ANY_SOURCE, MPI_PROC_NULL: -1.
int dead_peer(MPI_Comm comm, int peer);

}  // namespace ucft::mpi
