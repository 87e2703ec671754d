// One collective of MPI, by ucft or by MPI.
#pragma once

#include <functional>

#include "mpi/calls.hpp"
#include "mpi/communicators.hpp"
#include "mpi/report.hpp"

namespace ucft::mpi {

// MPI has the call, unless a rank is dead that it would wait for.
int pass_on(Function function, Outcome why, MPI_Comm comm, const std::function<int()>& pmpi);
// It blocks. comm: as find_communicator(on) has found it.
int run_call(Function function, MPI_Comm on, const Communicator* comm, const Call& call,
             const std::function<int()>& pmpi);
// A nonblocking one, whose request is MPI's to wait for (nonblocking.cpp).
int begin_call(Function function, MPI_Comm on, const Call& call, MPI_Request* request,
               const std::function<int()>& pmpi);
// The same of a call that ucft takes over. is_on_control: a revocation of comm does not end it.
int begin_here(Function function, MPI_Comm on, const Communicator& comm, const Call& call, bool is_on_control,
               MPI_Request* request);

}  // namespace ucft::mpi
