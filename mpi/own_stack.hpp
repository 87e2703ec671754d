// Calls of Open MPI that can be left, and MPI used afterwards. Open MPI 4 waits for messages by opal_progress alone,
// and calls it by its name, so that the shim's comes first. Behind each turn of it nothing is half done. Such a call
// runs on a stack of its own. If it is left it stays where it is for ever, and so does its stack: MPI may write there.
#pragma once

#include <functional>

#include "mpi/world.hpp"

namespace ucft::mpi {

// With MPI_THREAD_MULTIPLE another thread may make the turns. Open MPI 5 also waits for PMIx. MPICH has no such place.
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
inline bool can_be_left() { return !world.threaded; }
#else
constexpr bool can_be_left() { return false; }
#endif

// must_leave is asked every some turns of MPI. False: the call was left. Not from inside itself.
bool call_on_own_stack(const std::function<void()>& call, const std::function<bool()>& must_leave);

}  // namespace ucft::mpi
