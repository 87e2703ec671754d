// Open MPI's Fortran functions, which call PMPI_..., are taken over here: those of mpif.h and `use mpi` (mpi_bcast_),
// and those of `use mpi_f08` (mpi_bcast_f08_). The arguments of both come in the same way, but in the second the error
// may be absent. MPICH's Fortran functions call MPI_... by themselves, and need nothing.
#include "mpi/fortran_arguments.hpp"
#include "mpi/world.hpp"

#ifdef OPEN_MPI

using namespace ucft::mpi;

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

void mpi_gather_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6, MPI_Fint* a7,
                 MPI_Fint* error) {
  give(error, MPI_Gather(memory(a0), *a1, type_of(a2), memory(a3), *a4, type_of(a5), *a6, comm_of(a7)));
}

void mpi_gatherv_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                  MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* error) {
  give(error, MPI_Gatherv(memory(a0), *a1, type_of(a2), memory(a3), a4, a5, type_of(a6), *a7, comm_of(a8)));
}

void mpi_scatter_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                  MPI_Fint* a7, MPI_Fint* error) {
  give(error, MPI_Scatter(memory(a0), *a1, type_of(a2), memory(a3), *a4, type_of(a5), *a6, comm_of(a7)));
}

void mpi_scatterv_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, void* a4, MPI_Fint* a5, MPI_Fint* a6,
                   MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* error) {
  give(error, MPI_Scatterv(memory(a0), a1, a2, type_of(a3), memory(a4), *a5, type_of(a6), *a7, comm_of(a8)));
}

void mpi_alltoall_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                   MPI_Fint* error) {
  give(error, MPI_Alltoall(memory(a0), *a1, type_of(a2), memory(a3), *a4, type_of(a5), comm_of(a6)));
}

void mpi_alltoallv_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, void* a4, MPI_Fint* a5, MPI_Fint* a6,
                    MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* error) {
  give(error, MPI_Alltoallv(memory(a0), a1, a2, type_of(a3), memory(a4), a5, a6, type_of(a7), comm_of(a8)));
}

void mpi_reduce_scatter_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* error) {
  give(error, MPI_Reduce_scatter(memory(a0), memory(a1), a2, type_of(a3), PMPI_Op_f2c(*a4), comm_of(a5)));
}

void mpi_reduce_scatter_block_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5,
                               MPI_Fint* error) {
  give(error, MPI_Reduce_scatter_block(memory(a0), memory(a1), *a2, type_of(a3), PMPI_Op_f2c(*a4), comm_of(a5)));
}

void mpi_scan_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* error) {
  give(error, MPI_Scan(memory(a0), memory(a1), *a2, type_of(a3), PMPI_Op_f2c(*a4), comm_of(a5)));
}

void mpi_exscan_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* error) {
  give(error, MPI_Exscan(memory(a0), memory(a1), *a2, type_of(a3), PMPI_Op_f2c(*a4), comm_of(a5)));
}

void mpi_igather_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                  MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* error) {
  give(error,
       MPI_Igather(memory(a0), *a1, type_of(a2), memory(a3), *a4, type_of(a5), *a6, comm_of(a7), RequestOut(a8)));
}

void mpi_igatherv_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                   MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* a9, MPI_Fint* error) {
  give(error,
       MPI_Igatherv(memory(a0), *a1, type_of(a2), memory(a3), a4, a5, type_of(a6), *a7, comm_of(a8), RequestOut(a9)));
}

void mpi_iscatter_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                   MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* error) {
  give(error,
       MPI_Iscatter(memory(a0), *a1, type_of(a2), memory(a3), *a4, type_of(a5), *a6, comm_of(a7), RequestOut(a8)));
}

void mpi_iscatterv_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, void* a4, MPI_Fint* a5, MPI_Fint* a6,
                    MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* a9, MPI_Fint* error) {
  give(error,
       MPI_Iscatterv(memory(a0), a1, a2, type_of(a3), memory(a4), *a5, type_of(a6), *a7, comm_of(a8), RequestOut(a9)));
}

void mpi_ialltoall_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                    MPI_Fint* a7, MPI_Fint* error) {
  give(error, MPI_Ialltoall(memory(a0), *a1, type_of(a2), memory(a3), *a4, type_of(a5), comm_of(a6), RequestOut(a7)));
}

void mpi_ialltoallv_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, void* a4, MPI_Fint* a5, MPI_Fint* a6,
                     MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* a9, MPI_Fint* error) {
  give(error,
       MPI_Ialltoallv(memory(a0), a1, a2, type_of(a3), memory(a4), a5, a6, type_of(a7), comm_of(a8), RequestOut(a9)));
}

void mpi_ireduce_scatter_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                          MPI_Fint* error) {
  give(error,
       MPI_Ireduce_scatter(memory(a0), memory(a1), a2, type_of(a3), PMPI_Op_f2c(*a4), comm_of(a5), RequestOut(a6)));
}

void mpi_ireduce_scatter_block_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5,
                                MPI_Fint* a6, MPI_Fint* error) {
  give(error, MPI_Ireduce_scatter_block(memory(a0), memory(a1), *a2, type_of(a3), PMPI_Op_f2c(*a4), comm_of(a5),
                                        RequestOut(a6)));
}

void mpi_iscan_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                MPI_Fint* error) {
  give(error, MPI_Iscan(memory(a0), memory(a1), *a2, type_of(a3), PMPI_Op_f2c(*a4), comm_of(a5), RequestOut(a6)));
}

void mpi_iexscan_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                  MPI_Fint* error) {
  give(error, MPI_Iexscan(memory(a0), memory(a1), *a2, type_of(a3), PMPI_Op_f2c(*a4), comm_of(a5), RequestOut(a6)));
}

void mpi_iallreduce_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                     MPI_Fint* error) {
  give(error, MPI_Iallreduce(memory(a0), memory(a1), *a2, type_of(a3), PMPI_Op_f2c(*a4), comm_of(a5), RequestOut(a6)));
}

void mpi_ireduce_(void* a0, void* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                  MPI_Fint* a7, MPI_Fint* error) {
  give(error,
       MPI_Ireduce(memory(a0), memory(a1), *a2, type_of(a3), PMPI_Op_f2c(*a4), *a5, comm_of(a6), RequestOut(a7)));
}

void mpi_ibcast_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* error) {
  give(error, MPI_Ibcast(memory(a0), *a1, type_of(a2), *a3, comm_of(a4), RequestOut(a5)));
}

void mpi_ibarrier_(MPI_Fint* a0, MPI_Fint* a1, MPI_Fint* error) {
  give(error, MPI_Ibarrier(comm_of(a0), RequestOut(a1)));
}

void mpi_iallgather_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                     MPI_Fint* a7, MPI_Fint* error) {
  give(error, MPI_Iallgather(memory(a0), *a1, type_of(a2), memory(a3), *a4, type_of(a5), comm_of(a6), RequestOut(a7)));
}

void mpi_iallgatherv_(void* a0, MPI_Fint* a1, MPI_Fint* a2, void* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                      MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* error) {
  give(error,
       MPI_Iallgatherv(memory(a0), *a1, type_of(a2), memory(a3), a4, a5, type_of(a6), comm_of(a7), RequestOut(a8)));
}

void mpi_ssend_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* error) {
  give(error, MPI_Ssend(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5)));
}

void mpi_bsend_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* error) {
  give(error, MPI_Bsend(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5)));
}

void mpi_rsend_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* error) {
  give(error, MPI_Rsend(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5)));
}

void mpi_isend_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                MPI_Fint* error) {
  give(error, MPI_Isend(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_issend_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                 MPI_Fint* error) {
  give(error, MPI_Issend(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_ibsend_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                 MPI_Fint* error) {
  give(error, MPI_Ibsend(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_irsend_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                 MPI_Fint* error) {
  give(error, MPI_Irsend(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_irecv_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                MPI_Fint* error) {
  give(error, MPI_Irecv(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_send_init_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                    MPI_Fint* error) {
  give(error, MPI_Send_init(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_ssend_init_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                     MPI_Fint* error) {
  give(error, MPI_Ssend_init(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_bsend_init_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                     MPI_Fint* error) {
  give(error, MPI_Bsend_init(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_rsend_init_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                     MPI_Fint* error) {
  give(error, MPI_Rsend_init(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_recv_init_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                    MPI_Fint* error) {
  give(error, MPI_Recv_init(memory(a0), *a1, type_of(a2), *a3, *a4, comm_of(a5), RequestOut(a6)));
}

void mpi_sendrecv_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, void* a5, MPI_Fint* a6,
                   MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* a9, MPI_Fint* a10, MPI_Fint* a11, MPI_Fint* error) {
  give(error, MPI_Sendrecv(memory(a0), *a1, type_of(a2), *a3, *a4, memory(a5), *a6, type_of(a7), *a8, *a9, comm_of(a10),
                           StatusOut(a11)));
}

void mpi_sendrecv_replace_(void* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5, MPI_Fint* a6,
                           MPI_Fint* a7, MPI_Fint* a8, MPI_Fint* error) {
  give(error, MPI_Sendrecv_replace(memory(a0), *a1, type_of(a2), *a3, *a4, *a5, *a6, comm_of(a7), StatusOut(a8)));
}

void mpi_probe_(MPI_Fint* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* error) {
  give(error, MPI_Probe(*a0, *a1, comm_of(a2), StatusOut(a3)));
}

void mpi_iprobe_(MPI_Fint* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* error) {
  give(error, MPI_Iprobe(*a0, *a1, comm_of(a2), LogicalOut(a3), StatusOut(a4)));
}

void mpi_wait_(MPI_Fint* a0, MPI_Fint* a1, MPI_Fint* error) { give(error, MPI_Wait(RequestInOut(a0), StatusOut(a1))); }

void mpi_test_(MPI_Fint* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* error) {
  give(error, MPI_Test(RequestInOut(a0), LogicalOut(a1), StatusOut(a2)));
}

void mpi_request_free_(MPI_Fint* a0, MPI_Fint* error) { give(error, MPI_Request_free(RequestInOut(a0))); }

void mpi_comm_free_(MPI_Fint* a0, MPI_Fint* error) { give(error, MPI_Comm_free(CommInOut(a0))); }

void mpi_op_free_(MPI_Fint* a0, MPI_Fint* error) { give(error, MPI_Op_free(OpInOut(a0))); }

void mpi_start_(MPI_Fint* a0, MPI_Fint* error) { give(error, MPI_Start(RequestInOut(a0))); }

void mpi_cart_create_(MPI_Fint* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* a5,
                      MPI_Fint* error) {
  give(error, MPI_Cart_create(comm_of(a0), *a1, a2, Logicals(a3, *a1), *a4, CommOut(a5)));
}

void mpi_comm_split_type_(MPI_Fint* a0, MPI_Fint* a1, MPI_Fint* a2, MPI_Fint* a3, MPI_Fint* a4, MPI_Fint* error) {
  give(error, MPI_Comm_split_type(comm_of(a0), *a1, *a2, PMPI_Info_f2c(*a3), CommOut(a4)));
}

void mpi_waitall_(MPI_Fint* count, MPI_Fint* requests, MPI_Fint* statuses, MPI_Fint* error) {
  give(error, MPI_Waitall(*count, RequestsInOut(requests, *count), StatusesOut(statuses, *count)));
}

void mpi_testall_(MPI_Fint* count, MPI_Fint* requests, MPI_Fint* flag, MPI_Fint* statuses, MPI_Fint* error) {
  give(error, MPI_Testall(*count, RequestsInOut(requests, *count), LogicalOut(flag), StatusesOut(statuses, *count)));
}

void mpi_waitany_(MPI_Fint* count, MPI_Fint* requests, MPI_Fint* index, MPI_Fint* status, MPI_Fint* error) {
  give(error, MPI_Waitany(*count, RequestsInOut(requests, *count), IndexOut(index), StatusOut(status)));
}

void mpi_testany_(MPI_Fint* count, MPI_Fint* requests, MPI_Fint* index, MPI_Fint* flag, MPI_Fint* status,
                  MPI_Fint* error) {
  give(error,
       MPI_Testany(*count, RequestsInOut(requests, *count), IndexOut(index), LogicalOut(flag), StatusOut(status)));
}

void mpi_waitsome_(MPI_Fint* count, MPI_Fint* requests, MPI_Fint* done, MPI_Fint* indices, MPI_Fint* statuses,
                   MPI_Fint* error) {
  *done = 0;
  give(error, MPI_Waitsome(*count, RequestsInOut(requests, *count), done, indices, StatusesOut(statuses, *count)));
  count_from_one(*done, indices);
}

void mpi_testsome_(MPI_Fint* count, MPI_Fint* requests, MPI_Fint* done, MPI_Fint* indices, MPI_Fint* statuses,
                   MPI_Fint* error) {
  *done = 0;
  give(error, MPI_Testsome(*count, RequestsInOut(requests, *count), done, indices, StatusesOut(statuses, *count)));
  count_from_one(*done, indices);
}

void mpi_request_get_status_(MPI_Fint* request, MPI_Fint* flag, MPI_Fint* status, MPI_Fint* error) {
  give(error, MPI_Request_get_status(PMPI_Request_f2c(*request), LogicalOut(flag), StatusOut(status)));
}

void mpi_startall_(MPI_Fint* count, MPI_Fint* requests, MPI_Fint* error) {
  give(error, MPI_Startall(*count, RequestsInOut(requests, *count)));
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
UCFT_ALSO(mpi_gather)
UCFT_ALSO(mpi_gatherv)
UCFT_ALSO(mpi_scatter)
UCFT_ALSO(mpi_scatterv)
UCFT_ALSO(mpi_alltoall)
UCFT_ALSO(mpi_alltoallv)
UCFT_ALSO(mpi_reduce_scatter)
UCFT_ALSO(mpi_reduce_scatter_block)
UCFT_ALSO(mpi_scan)
UCFT_ALSO(mpi_exscan)
UCFT_ALSO(mpi_igather)
UCFT_ALSO(mpi_igatherv)
UCFT_ALSO(mpi_iscatter)
UCFT_ALSO(mpi_iscatterv)
UCFT_ALSO(mpi_ialltoall)
UCFT_ALSO(mpi_ialltoallv)
UCFT_ALSO(mpi_ireduce_scatter)
UCFT_ALSO(mpi_ireduce_scatter_block)
UCFT_ALSO(mpi_iscan)
UCFT_ALSO(mpi_iexscan)
UCFT_ALSO(mpi_iallreduce)
UCFT_ALSO(mpi_ireduce)
UCFT_ALSO(mpi_ibcast)
UCFT_ALSO(mpi_ibarrier)
UCFT_ALSO(mpi_iallgather)
UCFT_ALSO(mpi_iallgatherv)
UCFT_ALSO(mpi_ssend)
UCFT_ALSO(mpi_bsend)
UCFT_ALSO(mpi_rsend)
UCFT_ALSO(mpi_isend)
UCFT_ALSO(mpi_issend)
UCFT_ALSO(mpi_ibsend)
UCFT_ALSO(mpi_irsend)
UCFT_ALSO(mpi_irecv)
UCFT_ALSO(mpi_send_init)
UCFT_ALSO(mpi_ssend_init)
UCFT_ALSO(mpi_bsend_init)
UCFT_ALSO(mpi_rsend_init)
UCFT_ALSO(mpi_recv_init)
UCFT_ALSO(mpi_sendrecv)
UCFT_ALSO(mpi_sendrecv_replace)
UCFT_ALSO(mpi_probe)
UCFT_ALSO(mpi_iprobe)
UCFT_ALSO(mpi_wait)
UCFT_ALSO(mpi_test)
UCFT_ALSO(mpi_request_free)
UCFT_ALSO(mpi_comm_free)
UCFT_ALSO(mpi_op_free)
UCFT_ALSO(mpi_start)
UCFT_ALSO(mpi_cart_create)
UCFT_ALSO(mpi_comm_split_type)
UCFT_ALSO(mpi_waitall)
UCFT_ALSO(mpi_testall)
UCFT_ALSO(mpi_waitany)
UCFT_ALSO(mpi_testany)
UCFT_ALSO(mpi_waitsome)
UCFT_ALSO(mpi_testsome)
UCFT_ALSO(mpi_startall)
UCFT_ALSO(mpi_request_get_status)
#undef UCFT_ALSO

}  // extern "C"
#pragma GCC visibility pop

#endif
