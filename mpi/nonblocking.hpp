// Nonblocking collectives. Each is a generalized request of MPI's, so that a program may wait for it together with
// others. ucft's operation ends while the program waits or tests (waits.cpp); its helper answers other ranks meanwhile.
// Where ucft's window is full a call is queued, and posted in its turn.
#pragma once

#include <functional>
#include <vector>

#include "mpi/communicators.hpp"
#include "mpi/world.hpp"

namespace ucft::mpi {

struct Started;  // one of them, until the program has completed its request

// Posts and ends what it can, and tells MPI of those that have ended. Cheap if there is none.
void drive();

// The program has completed the request. MPI_SUCCESS, or the error to be raised on its communicator.
int forget(Started* started);
MPI_Comm communicator_of(const Started& started);
// Whether its error is one that revokes its communicator, under UCFT_MPI_ON_FAILURE=revoke.
bool revokes(const Started& started);
// The program does not wait for it: it is forgotten at its end.
void let_go(Started* started);
// MPI frees the communicator: they end before that. One that is revoked is left then: all its members know that it is.
void end_all_of(const Communicator& comm);
// It has been revoked: those that are queued end as errors. In a Turn.
void end_queued_of(const Communicator& comm);
// Those that are queued on comm's control are posted: waits for that.
void end_queued_on_control(const Communicator& comm);
// Whether one of comm's is begun and has not ended. In a Turn.
bool has_begun_on(const Communicator& comm);

// A request of MPI's that is complete when we say so.
int make_request(MPI_Request* request);

// A call that blocks, as a request: it is made where the program waits or tests for it the first time. Of several the
// one on the communicator with the lowest number comes first.
int begin_deferred(MPI_Comm on, const Communicator& comm, const std::function<int()>& call, MPI_Request* request);
void make_deferred(std::vector<Started*> calls);

}  // namespace ucft::mpi
