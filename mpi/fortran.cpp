// Open MPI's Fortran functions, which call PMPI_..., are taken over here: those of mpif.h and `use mpi` (mpi_bcast_),
// and those of `use mpi_f08` (mpi_bcast_f08_). The arguments of both come in the same way, but in the second the error
// may be absent. MPICH's Fortran functions call MPI_... by themselves, and need nothing.
#include "mpi/world.hpp"

#ifdef OPEN_MPI

#pragma GCC visibility push(default)
extern "C" {
extern int mpi_fortran_in_place_, mpi_fortran_bottom_;  // libmpi's; their addresses are MPI_IN_PLACE and MPI_BOTTOM
}
#pragma GCC visibility pop

namespace {

void* memory(void* argument) {
  if (argument == &mpi_fortran_in_place_) return MPI_IN_PLACE;
  if (argument == &mpi_fortran_bottom_) return MPI_BOTTOM;
  return argument;
}

void give(MPI_Fint* error, int value) {
  if (error != nullptr) *error = value;
}

bool wants_status(MPI_Fint* status) { return status != nullptr && status != MPI_F_STATUS_IGNORE; }

MPI_Datatype type_of(const MPI_Fint* type) { return PMPI_Type_f2c(*type); }
MPI_Comm comm_of(const MPI_Fint* comm) { return PMPI_Comm_f2c(*comm); }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void mpi_init_(MPI_Fint* error) { give(error, MPI_Init(nullptr, nullptr)); }

void mpi_init_thread_(MPI_Fint* required, MPI_Fint* provided, MPI_Fint* error) {
  give(error, MPI_Init_thread(nullptr, nullptr, *required, provided));
}

void mpi_finalize_(MPI_Fint* error) { give(error, MPI_Finalize()); }

void mpi_finalized_(MPI_Fint* flag, MPI_Fint* error) { give(error, MPI_Finalized(flag)); }

void mpi_barrier_(MPI_Fint* comm, MPI_Fint* error) { give(error, MPI_Barrier(comm_of(comm))); }

void mpi_bcast_(void* buffer, MPI_Fint* count, MPI_Fint* type, MPI_Fint* root, MPI_Fint* comm, MPI_Fint* error) {
  give(error, MPI_Bcast(memory(buffer), *count, type_of(type), *root, comm_of(comm)));
}

void mpi_allreduce_(void* send, void* recv, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op, MPI_Fint* comm,
                    MPI_Fint* error) {
  give(error, MPI_Allreduce(memory(send), memory(recv), *count, type_of(type), PMPI_Op_f2c(*op), comm_of(comm)));
}

void mpi_reduce_(void* send, void* recv, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op, MPI_Fint* root, MPI_Fint* comm,
                 MPI_Fint* error) {
  give(error, MPI_Reduce(memory(send), memory(recv), *count, type_of(type), PMPI_Op_f2c(*op), *root, comm_of(comm)));
}

void mpi_allgather_(void* send, MPI_Fint* send_count, MPI_Fint* send_type, void* recv, MPI_Fint* count, MPI_Fint* type,
                    MPI_Fint* comm, MPI_Fint* error) {
  give(error, MPI_Allgather(memory(send), *send_count, type_of(send_type), memory(recv), *count, type_of(type),
                            comm_of(comm)));
}

void mpi_allgatherv_(void* send, MPI_Fint* send_count, MPI_Fint* send_type, void* recv, MPI_Fint* counts,
                     MPI_Fint* places, MPI_Fint* type, MPI_Fint* comm, MPI_Fint* error) {
  give(error, MPI_Allgatherv(memory(send), *send_count, type_of(send_type), memory(recv), counts, places, type_of(type),
                             comm_of(comm)));
}

void mpi_comm_dup_(MPI_Fint* comm, MPI_Fint* created, MPI_Fint* error) {
  MPI_Comm result = MPI_COMM_NULL;
  give(error, MPI_Comm_dup(comm_of(comm), &result));
  *created = PMPI_Comm_c2f(result);
}

void mpi_comm_split_(MPI_Fint* comm, MPI_Fint* colour, MPI_Fint* key, MPI_Fint* created, MPI_Fint* error) {
  MPI_Comm result = MPI_COMM_NULL;
  give(error, MPI_Comm_split(comm_of(comm), *colour, *key, &result));
  *created = PMPI_Comm_c2f(result);
}

void mpi_comm_create_(MPI_Fint* comm, MPI_Fint* group, MPI_Fint* created, MPI_Fint* error) {
  MPI_Comm result = MPI_COMM_NULL;
  give(error, MPI_Comm_create(comm_of(comm), PMPI_Group_f2c(*group), &result));
  *created = PMPI_Comm_c2f(result);
}

void mpi_send_(void* buffer, MPI_Fint* count, MPI_Fint* type, MPI_Fint* peer, MPI_Fint* tag, MPI_Fint* comm,
               MPI_Fint* error) {
  give(error, MPI_Send(memory(buffer), *count, type_of(type), *peer, *tag, comm_of(comm)));
}

void mpi_recv_(void* buffer, MPI_Fint* count, MPI_Fint* type, MPI_Fint* peer, MPI_Fint* tag, MPI_Fint* comm,
               MPI_Fint* status, MPI_Fint* error) {
  MPI_Status result;
  give(error, MPI_Recv(memory(buffer), *count, type_of(type), *peer, *tag, comm_of(comm), &result));
  if (wants_status(status)) PMPI_Status_c2f(&result, status);
}

// Each under its name in `use mpi_f08`, and with the two underscores that some compilers append.
#define UCFT_ALSO(name)                                              \
  __typeof__(name##_) name##_f08_ __attribute__((alias(#name "_"))); \
  __typeof__(name##_) name##__ __attribute__((alias(#name "_")));
UCFT_ALSO(mpi_init)
UCFT_ALSO(mpi_init_thread)
UCFT_ALSO(mpi_finalize)
UCFT_ALSO(mpi_barrier)
UCFT_ALSO(mpi_bcast)
UCFT_ALSO(mpi_allreduce)
UCFT_ALSO(mpi_reduce)
UCFT_ALSO(mpi_allgather)
UCFT_ALSO(mpi_allgatherv)
UCFT_ALSO(mpi_comm_dup)
UCFT_ALSO(mpi_comm_split)
UCFT_ALSO(mpi_comm_create)
UCFT_ALSO(mpi_send)
UCFT_ALSO(mpi_recv)
#undef UCFT_ALSO

}  // extern "C"
#pragma GCC visibility pop

#endif
