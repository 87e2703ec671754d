// The ucft communicator that hangs on an MPI communicator. MPI_COMM_WORLD has one from the start. The communicators
// that MPI_Comm_dup, MPI_Comm_split and MPI_Comm_create make of it have one, too. It is an attribute of the MPI
// communicator, so any call that frees that one frees it, too.
//
// Ranks are the same in both: after a death a new communicator has the survivors only, in MPI, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "mpi/world.hpp"

namespace ucft::mpi {

// The request of the last call of a kind, which is posted again when the next one has the same arguments. ucft frees it
// with the communicator. The arguments are the caller's own, so that nothing has to be looked up or checked then. Types
// and operators are predefined ones, whose handles no other type or operator ever has. Calls that are packed, or have
// no operator of ucft's, are not kept.
struct Prepared {
  enum Kind { allreduce, reduce, broadcast, allgather, barrier };
  const void* send = nullptr;
  void* recv = nullptr;
  std::int64_t count = 0;  // two ints side by side would be compared as one word, right behind the stores of its halves
  MPI_Datatype type = MPI_BYTE;
  MPI_Op op = MPI_OP_NULL;
  std::int64_t root = -1;       // of what has one
  std::int64_t send_count = 0;  // of an allgather
  MPI_Datatype send_type = MPI_BYTE;
  ucft_request_h request = UCFT_REQUEST_NULL;

  bool is_of(const Prepared& call) const {
    return request != UCFT_REQUEST_NULL && send == call.send && recv == call.recv && count == call.count &&
           type == call.type && op == call.op && root == call.root && send_count == call.send_count &&
           send_type == call.send_type;
  }
};

struct Communicator {
  ucft_comm_h handle = UCFT_COMM_NULL;
  ucft_comm_h control = UCFT_COMM_NULL;  // of the same ranks: for agreements that outlive a revocation
  int rank = 0, size = 0;
  std::int64_t id = 0;                          // the same on all its ranks, and of no other communicator of the job
  mutable std::atomic<bool> is_revoked{false};  // this rank knows of it; written in a Turn (revocation.hpp)
  mutable std::atomic<int> busy{0};             // calls of this process that are inside it
  mutable Prepared prepared[Prepared::barrier + 1]{};  // by Prepared::Kind
  mutable std::atomic<int> queued{0};                  // nonblocking collectives that wait for room in ucft's window
};

// Once, by all ranks: MPI_COMM_WORLD's. An error of ucft's, or UCFT_OK.
ucft_status_t attach_world();
// Takes it off again, and lets no other be found.
void detach_all();

// A barrier in which MPI goes on, too, and the barrier's result.
ucft_status_t meet(const Communicator& comm, ucft_result_t* result);

// Collective over `on`; MPI goes on, in short turns.
// missing: of the size of `on`; becomes the ranks that have not come.
ucft_status_t agree_on_greatest(ucft_comm_h on, std::int32_t mine, std::int32_t& greatest,
                                std::vector<std::int32_t>* missing = nullptr);

// Collective, before a call that blocks inside ucft: all ranks of comm that live are here, and each will go on to that.
// MPI_SUCCESS; or all have the same error. needs_all: a dead rank is one.
int meet_all(MPI_Comm comm, bool needs_all = true);
// Collective over comm, behind a call of MPI's that has made part of it, with that error (on some ranks part may be
// MPI_COMM_NULL). If it has been made on all of them it is one of ucft's, too: MPI_SUCCESS. Else an error on all.
enum class Creation : int;
int attach_part(MPI_Comm comm, Creation mine, int error, MPI_Comm* part);

// Collective over the ranks of comm that live: MPIX_Comm_shrink.
int shrink(MPI_Comm comm, const Communicator& parent, MPI_Comm* created);

extern Communicator of_world;
extern std::atomic<const Communicator*> found_world;  // nullptr: it has been revoked
// Of another than the world's.
const Communicator* find_derived(MPI_Comm comm);
// nullptr: MPI has its collectives, or it is revoked. The world's and the one that this thread has asked for last cost
// some comparisons.
inline const Communicator* find_communicator(MPI_Comm comm) {
  return !world.on                ? nullptr
         : comm == MPI_COMM_WORLD ? found_world.load(std::memory_order_relaxed)
                                  : find_derived(comm);
}
// The same, also where it is revoked.
const Communicator* find_any(MPI_Comm comm);
// An earlier answer of find_communicator does not count any more.
void forget_found();

inline int ranks_of(const Communicator* comm) { return comm == nullptr ? 0 : comm->size; }

}  // namespace ucft::mpi
