// The other collectives, and the nonblocking forms of all. (Those that are called most: collectives.cpp.)
#include "mpi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/communicators.hpp"

using namespace ucft::mpi;

namespace {

// Each of a rank's own, for all ranks of the communicator.
Blocks blocks(MPI_Comm comm, const void* memory, int count, MPI_Datatype type) {
  return {
      .memory = const_cast<void*>(memory), .ranks = ranks_of(find_communicator(comm)), .type = type, .count = count};
}
Blocks blocks(MPI_Comm comm, const void* memory, const int* counts, const int* places, MPI_Datatype type) {
  return {.memory = const_cast<void*>(memory),
          .ranks = ranks_of(find_communicator(comm)),
          .type = type,
          .counts = counts,
          .places = places,
          .has_lengths = true};
}
Blocks blocks(MPI_Comm comm, const void* memory, const int* counts, const int* places, const MPI_Datatype* types) {
  return {.memory = const_cast<void*>(memory),
          .ranks = ranks_of(find_communicator(comm)),
          .counts = counts,
          .places = places,
          .types = types,
          .has_lengths = true};
}

// pmpi(arguments ...), of which the communicator is comm.
template <class Pmpi, class... Arguments>
int blocking(Function function, MPI_Comm comm, const Call& call, Pmpi pmpi, Arguments... arguments) {
  return run_call(function, comm, find_communicator(comm), call, [=] { return pmpi(arguments...); });
}
template <class Pmpi, class... Arguments>
int nonblocking(Function function, MPI_Comm comm, const Call& call, MPI_Request* request, Pmpi pmpi,
                Arguments... arguments) {
  return begin_call(function, comm, call, request, [=] { return pmpi(arguments..., request); });
}

}  // namespace

extern "C" {

int MPI_Gather(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, int root, MPI_Comm comm) {
  return blocking(Function::gather, comm, Gather({send, n, s}, blocks(comm, recv, m, r), root), PMPI_Gather, send, n, s,
                  recv, m, r, root, comm);
}

int MPI_Gatherv(const void* send, int n, MPI_Datatype s, void* recv, const int* m, const int* p, MPI_Datatype r,
                int root, MPI_Comm comm) {
  return blocking(Function::gatherv, comm, Gather({send, n, s}, blocks(comm, recv, m, p, r), root), PMPI_Gatherv, send,
                  n, s, recv, m, p, r, root, comm);
}

int MPI_Scatter(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, int root, MPI_Comm comm) {
  return blocking(Function::scatter, comm, Scatter(blocks(comm, send, n, s), {recv, m, r}, root), PMPI_Scatter, send, n,
                  s, recv, m, r, root, comm);
}

int MPI_Scatterv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, int m, MPI_Datatype r,
                 int root, MPI_Comm comm) {
  return blocking(Function::scatterv, comm, Scatter(blocks(comm, send, n, p, s), {recv, m, r}, root), PMPI_Scatterv,
                  send, n, p, s, recv, m, r, root, comm);
}

int MPI_Allgatherv(const void* send, int n, MPI_Datatype s, void* recv, const int* m, const int* p, MPI_Datatype r,
                   MPI_Comm comm) {
  return blocking(Function::allgatherv, comm, Allgather({send, n, s}, blocks(comm, recv, m, p, r)), PMPI_Allgatherv,
                  send, n, s, recv, m, p, r, comm);
}

int MPI_Alltoall(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm) {
  return blocking(Function::alltoall, comm, Alltoall(blocks(comm, send, n, s), blocks(comm, recv, m, r)), PMPI_Alltoall,
                  send, n, s, recv, m, r, comm);
}

int MPI_Alltoallv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, const int* m, const int* q,
                  MPI_Datatype r, MPI_Comm comm) {
  return blocking(Function::alltoallv, comm, Alltoall(blocks(comm, send, n, p, s), blocks(comm, recv, m, q, r)),
                  PMPI_Alltoallv, send, n, p, s, recv, m, q, r, comm);
}

int MPI_Alltoallw(const void* send, const int* n, const int* p, const MPI_Datatype* s, void* recv, const int* m,
                  const int* q, const MPI_Datatype* r, MPI_Comm comm) {
  return blocking(Function::alltoallw, comm, Alltoall(blocks(comm, send, n, p, s), blocks(comm, recv, m, q, r)),
                  PMPI_Alltoallw, send, n, p, s, recv, m, q, r, comm);
}

int MPI_Reduce_scatter(const void* send, void* recv, const int* n, MPI_Datatype s, MPI_Op op, MPI_Comm comm) {
  return blocking(Function::reduce_scatter, comm, ReduceScatter(send, recv, n, 0, s, op), PMPI_Reduce_scatter, send,
                  recv, n, s, op, comm);
}

int MPI_Reduce_scatter_block(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm) {
  return blocking(Function::reduce_scatter_block, comm, ReduceScatter(send, recv, nullptr, n, s, op),
                  PMPI_Reduce_scatter_block, send, recv, n, s, op, comm);
}

int MPI_Scan(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm) {
  return blocking(Function::scan, comm, Scan(send, recv, n, s, op, false), PMPI_Scan, send, recv, n, s, op, comm);
}

int MPI_Exscan(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm) {
  return blocking(Function::exscan, comm, Scan(send, recv, n, s, op, true), PMPI_Exscan, send, recv, n, s, op, comm);
}

// ---- nonblocking ----------------------------------------------------------------------------------------------------

int MPI_Igather(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, int root, MPI_Comm comm,
                MPI_Request* request) {
  return nonblocking(Function::gather, comm, Gather({send, n, s}, blocks(comm, recv, m, r), root), request,
                     PMPI_Igather, send, n, s, recv, m, r, root, comm);
}

int MPI_Igatherv(const void* send, int n, MPI_Datatype s, void* recv, const int* m, const int* p, MPI_Datatype r,
                 int root, MPI_Comm comm, MPI_Request* request) {
  return nonblocking(Function::gatherv, comm, Gather({send, n, s}, blocks(comm, recv, m, p, r), root), request,
                     PMPI_Igatherv, send, n, s, recv, m, p, r, root, comm);
}

int MPI_Iscatter(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, int root, MPI_Comm comm,
                 MPI_Request* request) {
  return nonblocking(Function::scatter, comm, Scatter(blocks(comm, send, n, s), {recv, m, r}, root), request,
                     PMPI_Iscatter, send, n, s, recv, m, r, root, comm);
}

int MPI_Iscatterv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, int m, MPI_Datatype r,
                  int root, MPI_Comm comm, MPI_Request* request) {
  return nonblocking(Function::scatterv, comm, Scatter(blocks(comm, send, n, p, s), {recv, m, r}, root), request,
                     PMPI_Iscatterv, send, n, p, s, recv, m, r, root, comm);
}

int MPI_Ialltoall(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm,
                  MPI_Request* request) {
  return nonblocking(Function::alltoall, comm, Alltoall(blocks(comm, send, n, s), blocks(comm, recv, m, r)), request,
                     PMPI_Ialltoall, send, n, s, recv, m, r, comm);
}

int MPI_Ialltoallv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, const int* m, const int* q,
                   MPI_Datatype r, MPI_Comm comm, MPI_Request* request) {
  return nonblocking(Function::alltoallv, comm, Alltoall(blocks(comm, send, n, p, s), blocks(comm, recv, m, q, r)),
                     request, PMPI_Ialltoallv, send, n, p, s, recv, m, q, r, comm);
}

int MPI_Ialltoallw(const void* send, const int* n, const int* p, const MPI_Datatype* s, void* recv, const int* m,
                   const int* q, const MPI_Datatype* r, MPI_Comm comm, MPI_Request* request) {
  return nonblocking(Function::alltoallw, comm, Alltoall(blocks(comm, send, n, p, s), blocks(comm, recv, m, q, r)),
                     request, PMPI_Ialltoallw, send, n, p, s, recv, m, q, r, comm);
}

int MPI_Ireduce_scatter(const void* send, void* recv, const int* n, MPI_Datatype s, MPI_Op op, MPI_Comm comm,
                        MPI_Request* request) {
  return nonblocking(Function::reduce_scatter, comm, ReduceScatter(send, recv, n, 0, s, op), request,
                     PMPI_Ireduce_scatter, send, recv, n, s, op, comm);
}

int MPI_Ireduce_scatter_block(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm,
                              MPI_Request* request) {
  return nonblocking(Function::reduce_scatter_block, comm, ReduceScatter(send, recv, nullptr, n, s, op), request,
                     PMPI_Ireduce_scatter_block, send, recv, n, s, op, comm);
}

int MPI_Iscan(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return nonblocking(Function::scan, comm, Scan(send, recv, n, s, op, false), request, PMPI_Iscan, send, recv, n, s, op,
                     comm);
}

int MPI_Iexscan(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return nonblocking(Function::exscan, comm, Scan(send, recv, n, s, op, true), request, PMPI_Iexscan, send, recv, n, s,
                     op, comm);
}

int MPI_Iallreduce(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  return nonblocking(Function::allreduce, comm, Reduction(send, recv, n, s, op, -1), request, PMPI_Iallreduce, send,
                     recv, n, s, op, comm);
}

int MPI_Ireduce(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request* request) {
  return nonblocking(Function::reduce, comm, Reduction(send, recv, n, s, op, root < 0 ? Reduction::wrong_root : root),
                     request, PMPI_Ireduce, send, recv, n, s, op, root, comm);
}

int MPI_Ibcast(void* buffer, int n, MPI_Datatype s, int root, MPI_Comm comm, MPI_Request* request) {
  return nonblocking(Function::bcast, comm, Broadcast(buffer, n, s, root), request, PMPI_Ibcast, buffer, n, s, root,
                     comm);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  return nonblocking(Function::barrier, comm, Barrier(), request, PMPI_Ibarrier, comm);
}

int MPI_Iallgather(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm,
                   MPI_Request* request) {
  return nonblocking(Function::allgather, comm, Allgather({send, n, s}, blocks(comm, recv, m, r)), request,
                     PMPI_Iallgather, send, n, s, recv, m, r, comm);
}

int MPI_Iallgatherv(const void* send, int n, MPI_Datatype s, void* recv, const int* m, const int* p, MPI_Datatype r,
                    MPI_Comm comm, MPI_Request* request) {
  return nonblocking(Function::allgatherv, comm, Allgather({send, n, s}, blocks(comm, recv, m, p, r)), request,
                     PMPI_Iallgatherv, send, n, s, recv, m, p, r, comm);
}

}  // extern "C"
