// Words between ranks, by messages of ucft's: "I have lost MPI", and "this communicator is revoked".
//
// Revocation (ULFM's MPIX_Comm_revoke). A rank that learns of it tells all members: if one that lives knows, all will.
// An operation of ucft's can't be taken back. It ends once the others have left its communicator, without their values.
// So a rank leaves when all members that live have said that they know. None of these takes a result for complete then.
// Meanwhile, and afterwards, the communicator is of no use (find_communicator); its `control` is.
#pragma once

#include "mpi/communicators.hpp"
#include "mpi/members.hpp"

namespace ucft::mpi {

// Lets words in, and others out. In a Turn.
void exchange_words();
// To all ranks that live. In a Turn.
void say_lost(int by);
// Before the context ends.
void end_words();

// A communicator of these ranks of MPI_COMM_WORLD. Words about it may have come before. In a Turn.
void register_for_words(Communicator& comm, const Needed& members);
// It is being freed. In a Turn.
void unregister(const Communicator& comm);

// By this rank, or since another one has said so. In a Turn.
void revoke(const Communicator& comm);
// No call of MPI, but a look at an attribute.
bool is_revoked(MPI_Comm comm);
// Leaves revoked communicators, as far as that can be. For loops that wait, on threads that may call MPI. Cheap if
// there is none.
void leave_revoked();
// The program calls no more collectives: from now on that leaves all communicators once there is a death. An exception
// may have brought this rank here, while others wait for it in a collective.
void leave_all_after_a_death();

}  // namespace ucft::mpi
