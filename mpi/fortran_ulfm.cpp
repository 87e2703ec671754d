// ULFM's calls for Fortran (mpif-ext.h), with Open MPI and MPICH.
#include "mpi/world.hpp"
#include "ucft/mpi/mpi-ext.h"

namespace {

// A LOGICAL as this MPI's compiler has it: 0 is false.
MPI_Fint logical_of(int flag) { return flag != 0 ? 1 : 0; }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void mpix_comm_revoke_(const MPI_Fint* comm, MPI_Fint* error) { *error = MPIX_Comm_revoke(PMPI_Comm_f2c(*comm)); }

void mpix_comm_is_revoked_(const MPI_Fint* comm, MPI_Fint* flag, MPI_Fint* error) {
  int is_revoked = 0;
  *error = MPIX_Comm_is_revoked(PMPI_Comm_f2c(*comm), &is_revoked);
  *flag = logical_of(is_revoked);
}

void mpix_comm_get_failed_(const MPI_Fint* comm, MPI_Fint* failed, MPI_Fint* error) {
  MPI_Group group = MPI_GROUP_NULL;
  *error = MPIX_Comm_get_failed(PMPI_Comm_f2c(*comm), &group);
  *failed = PMPI_Group_c2f(group);
}

void mpix_comm_ack_failed_(const MPI_Fint* comm, const MPI_Fint* count, MPI_Fint* acked, MPI_Fint* error) {
  int all = 0;
  *error = MPIX_Comm_ack_failed(PMPI_Comm_f2c(*comm), *count, &all);
  *acked = all;
}

void mpix_comm_failure_ack_(const MPI_Fint* comm, MPI_Fint* error) {
  *error = MPIX_Comm_failure_ack(PMPI_Comm_f2c(*comm));
}

void mpix_comm_failure_get_acked_(const MPI_Fint* comm, MPI_Fint* acked, MPI_Fint* error) {
  MPI_Group group = MPI_GROUP_NULL;
  *error = MPIX_Comm_failure_get_acked(PMPI_Comm_f2c(*comm), &group);
  *acked = PMPI_Group_c2f(group);
}

void mpix_comm_agree_(const MPI_Fint* comm, MPI_Fint* flag, MPI_Fint* error) {
  *error = MPIX_Comm_agree(PMPI_Comm_f2c(*comm), flag);
}

// flag is written at the end: an INTEGER is an int.
void mpix_comm_iagree_(const MPI_Fint* comm, MPI_Fint* flag, MPI_Fint* request, MPI_Fint* error) {
  MPI_Request begun = MPI_REQUEST_NULL;
  *error = MPIX_Comm_iagree(PMPI_Comm_f2c(*comm), flag, &begun);
  *request = PMPI_Request_c2f(begun);
}

void mpix_comm_shrink_(const MPI_Fint* comm, MPI_Fint* shrunk, MPI_Fint* error) {
  MPI_Comm made = MPI_COMM_NULL;
  *error = MPIX_Comm_shrink(PMPI_Comm_f2c(*comm), &made);
  *shrunk = PMPI_Comm_c2f(made);
}

#ifdef OPEN_MPI  // MPICH's call MPI_... by themselves
void mpi_error_class_(const MPI_Fint* code, MPI_Fint* error_class, MPI_Fint* error) {
  const int result = MPI_Error_class(*code, error_class);
  if (error != nullptr) *error = result;
}
void mpi_error_class_f08_(const MPI_Fint* code, MPI_Fint* error_class, MPI_Fint* error)
    __attribute__((alias("mpi_error_class_")));
#endif

}  // extern "C"
#pragma GCC visibility pop
