// One-sided communication. MPI has these calls. A rank that is dead is an error of the window, and so is one that dies
// while they wait (watch.hpp). Calls that only begin a transfer (MPI_Put and its like) are not watched.
#include "mpi/errors.hpp"
#include "mpi/requests.hpp"
#include "mpi/watch.hpp"

using namespace ucft::mpi;

namespace {

// target: the rank whose memory it is about, or every_member. A dead target is refused. A call that does not end is
// left if any member is dead: it may have had the lock.
template <class Pmpi>
int on_window(const char* function, MPI_Win window, int target, Pmpi pmpi) {
  if (!world.on || window == MPI_WIN_NULL || target == MPI_PROC_NULL) return pmpi();
  const auto raise = [&](int dead) { return raise_on_window(window, death_code(dead)); };
  if (world.lost_by >= 0) return raise(world.lost_by);
  const Roster& members = members_of_window(window);
  if (target == every_member) return run_watched(function, members.all, pmpi, raise);
  if (const int dead = members.failed(target); dead >= 0) return raise(dead);
  return run_begun(function, members.all, true, pmpi, raise);
}

}  // namespace

extern "C" {

int MPI_Win_create(void* base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* window) {
  return run_watched("MPI_Win_create", comm, [=] { return PMPI_Win_create(base, bytes, unit, info, comm, window); });
}
int MPI_Win_allocate(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window) {
  return run_watched("MPI_Win_allocate", comm,
                     [=] { return PMPI_Win_allocate(bytes, unit, info, comm, base, window); });
}
int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window) {
  return run_watched("MPI_Win_allocate_shared", comm,
                     [=] { return PMPI_Win_allocate_shared(bytes, unit, info, comm, base, window); });
}
int MPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win* window) {
  return run_watched("MPI_Win_create_dynamic", comm, [=] { return PMPI_Win_create_dynamic(info, comm, window); });
}
int MPI_Win_free(MPI_Win* window) {
  return on_window("MPI_Win_free", window == nullptr ? MPI_WIN_NULL : *window, every_member,
                   [=] { return PMPI_Win_free(window); });
}
int MPI_Win_fence(int assertion, MPI_Win window) {
  return on_window("MPI_Win_fence", window, every_member, [=] { return PMPI_Win_fence(assertion, window); });
}
int MPI_Win_start(MPI_Group group, int assertion, MPI_Win window) {
  return on_window("MPI_Win_start", window, every_member, [=] { return PMPI_Win_start(group, assertion, window); });
}
int MPI_Win_complete(MPI_Win window) {
  return on_window("MPI_Win_complete", window, every_member, [=] { return PMPI_Win_complete(window); });
}
int MPI_Win_wait(MPI_Win window) {
  return on_window("MPI_Win_wait", window, every_member, [=] { return PMPI_Win_wait(window); });
}
int MPI_Win_lock(int type, int target, int assertion, MPI_Win window) {
  return on_window("MPI_Win_lock", window, target, [=] { return PMPI_Win_lock(type, target, assertion, window); });
}
int MPI_Win_unlock(int target, MPI_Win window) {
  return on_window("MPI_Win_unlock", window, target, [=] { return PMPI_Win_unlock(target, window); });
}
int MPI_Win_flush(int target, MPI_Win window) {
  return on_window("MPI_Win_flush", window, target, [=] { return PMPI_Win_flush(target, window); });
}
int MPI_Win_flush_local(int target, MPI_Win window) {
  return on_window("MPI_Win_flush_local", window, target, [=] { return PMPI_Win_flush_local(target, window); });
}
int MPI_Win_lock_all(int assertion, MPI_Win window) {
  return on_window("MPI_Win_lock_all", window, every_member, [=] { return PMPI_Win_lock_all(assertion, window); });
}
int MPI_Win_unlock_all(MPI_Win window) {
  return on_window("MPI_Win_unlock_all", window, every_member, [=] { return PMPI_Win_unlock_all(window); });
}
int MPI_Win_flush_all(MPI_Win window) {
  return on_window("MPI_Win_flush_all", window, every_member, [=] { return PMPI_Win_flush_all(window); });
}
int MPI_Win_flush_local_all(MPI_Win window) {
  return on_window("MPI_Win_flush_local_all", window, every_member, [=] { return PMPI_Win_flush_local_all(window); });
}
int MPI_Fetch_and_op(const void* send, void* recv, MPI_Datatype type, int target, MPI_Aint place, MPI_Op op,
                     MPI_Win window) {
  return on_window("MPI_Fetch_and_op", window, target,
                   [=] { return PMPI_Fetch_and_op(send, recv, type, target, place, op, window); });
}
int MPI_Compare_and_swap(const void* send, const void* with, void* recv, MPI_Datatype type, int target, MPI_Aint place,
                         MPI_Win window) {
  return on_window("MPI_Compare_and_swap", window, target,
                   [=] { return PMPI_Compare_and_swap(send, with, recv, type, target, place, window); });
}

}  // extern "C"
