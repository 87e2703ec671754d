// Calls of MPI that wait for other ranks, have no form that does not, and can't be called back. A thread watches: if a
// rank that such a call waits for has died, the call has some time to come to its end. Then the caller gets out of it.
// MPI is in the middle of something then, and can't be used any more in this process (World::lost_by).
#pragma once

#include <atomic>
#include <utility>

#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/world.hpp"

namespace ucft::mpi {

// From now on the thread lets news in also while the program calls nothing.
void watch_always();
void stop_watching();

// Calls pmpi, a function of MPI's with its arguments, on this thread, and leaves what it returns in `error`. Neither
// its frame nor those between may have anything to destroy. begins_at: the call is not left while that is false.
// is_patient: it is left only after 10 s. It may be a living rank that it waits for.
// False: it was left, since one of those that are needed is dead.
bool call_watched(int (*pmpi)(const void*), const void* arguments, const Needed& needed,
                  const std::atomic<bool>* begins_at, bool is_patient, int& error);
template <class Pmpi>
bool call_watched(const Pmpi& pmpi, const Needed& needed, int& error, const std::atomic<bool>* begins_at = nullptr,
                  bool is_patient = false) {
  return call_watched([](const void* call) { return (*static_cast<const Pmpi*>(call))(); }, &pmpi, needed, begins_at,
                      is_patient, error);
}

// The same of a call that MPI has. raise(world rank) makes the error of a dead rank that it needs. needed: a copy, as
// the call may free what it was found on.
template <class Pmpi, class Raise>
int run_begun(const char* function, Needed needed, bool is_patient, const Pmpi& pmpi, const Raise& raise) {
  if (world.lost_by >= 0) return raise(world.lost_by);
  if (needed->size() < 2 && (needed->empty() || needed->front() == world.rank)) return pmpi();
  const Inside inside(function);
  int error = MPI_SUCCESS;
  if (call_watched(pmpi, needed, error, nullptr, is_patient)) return error;
  lose_mpi(first_dead(needed));
  return raise(world.lost_by);
}

// Refused, too, if one of them is known to be dead before.
template <class Pmpi, class Raise>
int run_watched(const char* function, Needed needed, const Pmpi& pmpi, const Raise& raise) {
  if (world.lost_by >= 0) return raise(world.lost_by);
  const int dead = first_dead(needed);
  return dead >= 0 ? raise(dead) : run_begun(function, std::move(needed), false, pmpi, raise);
}

// On a communicator: raise makes its error.
template <class Pmpi, class Raise>
int run_watched(const char* function, MPI_Comm comm, const Pmpi& pmpi, const Raise& raise) {
  if (!world.on || comm == MPI_COMM_NULL) return pmpi();
  const int dead = dead_member(comm);
  return dead >= 0 ? raise(dead) : run_begun(function, members_of(comm).all, false, pmpi, raise);
}
template <class Pmpi>
int run_watched(const char* function, MPI_Comm comm, const Pmpi& pmpi) {
  return run_watched(function, comm, pmpi, [&](int dead) { return raise_death(comm, dead); });
}

}  // namespace ucft::mpi
