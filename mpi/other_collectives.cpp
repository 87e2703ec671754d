// The other collectives are MPI's, blocking and not. With a dead rank in the communicator they would wait for ever: a
// rank that knows of it gets an MPI error instead.
#include "mpi/errors.hpp"
#include "mpi/report.hpp"
#include "mpi/world.hpp"

using namespace ucft::mpi;

namespace {

// pmpi(arguments ...), of which the communicator is comm. name: of one that blocks.
template <class Pmpi, class... Arguments>
int pass_on(const char* name, MPI_Comm comm, Pmpi pmpi, Arguments... arguments) {
  const int dead = dead_member(comm);
  count(Function::other_collective, dead >= 0 ? Outcome::dead : Outcome::by_design);
  if (dead >= 0) return raise_death(comm, dead);
  if (name == nullptr) return pmpi(arguments...);
  const Inside inside(name);
  return pmpi(arguments...);
}

}  // namespace

extern "C" {

int MPI_Gather(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, int root, MPI_Comm comm) {
  return pass_on("MPI_Gather", comm, PMPI_Gather, send, n, s, recv, m, r, root, comm);
}
int MPI_Gatherv(const void* send, int n, MPI_Datatype s, void* recv, const int* m, const int* p, MPI_Datatype r,
                int root, MPI_Comm comm) {
  return pass_on("MPI_Gatherv", comm, PMPI_Gatherv, send, n, s, recv, m, p, r, root, comm);
}
int MPI_Scatter(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, int root, MPI_Comm comm) {
  return pass_on("MPI_Scatter", comm, PMPI_Scatter, send, n, s, recv, m, r, root, comm);
}
int MPI_Scatterv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, int m, MPI_Datatype r,
                 int root, MPI_Comm comm) {
  return pass_on("MPI_Scatterv", comm, PMPI_Scatterv, send, n, p, s, recv, m, r, root, comm);
}
int MPI_Alltoall(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm) {
  return pass_on("MPI_Alltoall", comm, PMPI_Alltoall, send, n, s, recv, m, r, comm);
}
int MPI_Alltoallv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, const int* m, const int* q,
                  MPI_Datatype r, MPI_Comm comm) {
  return pass_on("MPI_Alltoallv", comm, PMPI_Alltoallv, send, n, p, s, recv, m, q, r, comm);
}
int MPI_Alltoallw(const void* send, const int* n, const int* p, const MPI_Datatype* s, void* recv, const int* m,
                  const int* q, const MPI_Datatype* r, MPI_Comm comm) {
  return pass_on("MPI_Alltoallw", comm, PMPI_Alltoallw, send, n, p, s, recv, m, q, r, comm);
}
int MPI_Reduce_scatter(const void* send, void* recv, const int* n, MPI_Datatype s, MPI_Op op, MPI_Comm comm) {
  return pass_on("MPI_Reduce_scatter", comm, PMPI_Reduce_scatter, send, recv, n, s, op, comm);
}
int MPI_Reduce_scatter_block(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm) {
  return pass_on("MPI_Reduce_scatter_block", comm, PMPI_Reduce_scatter_block, send, recv, n, s, op, comm);
}
int MPI_Scan(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm) {
  return pass_on("MPI_Scan", comm, PMPI_Scan, send, recv, n, s, op, comm);
}
int MPI_Exscan(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm) {
  return pass_on("MPI_Exscan", comm, PMPI_Exscan, send, recv, n, s, op, comm);
}

// Nonblocking: an error when they are begun. A rank that dies before they end is MPI's matter.

int MPI_Igather(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, int root, MPI_Comm comm,
                MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Igather, send, n, s, recv, m, r, root, comm, request);
}
int MPI_Igatherv(const void* send, int n, MPI_Datatype s, void* recv, const int* m, const int* p, MPI_Datatype r,
                 int root, MPI_Comm comm, MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Igatherv, send, n, s, recv, m, p, r, root, comm, request);
}
int MPI_Iscatter(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, int root, MPI_Comm comm,
                 MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Iscatter, send, n, s, recv, m, r, root, comm, request);
}
int MPI_Iscatterv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, int m, MPI_Datatype r,
                  int root, MPI_Comm comm, MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Iscatterv, send, n, p, s, recv, m, r, root, comm, request);
}
int MPI_Ialltoall(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm,
                  MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Ialltoall, send, n, s, recv, m, r, comm, request);
}
int MPI_Ialltoallv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, const int* m, const int* q,
                   MPI_Datatype r, MPI_Comm comm, MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Ialltoallv, send, n, p, s, recv, m, q, r, comm, request);
}
int MPI_Ialltoallw(const void* send, const int* n, const int* p, const MPI_Datatype* s, void* recv, const int* m,
                   const int* q, const MPI_Datatype* r, MPI_Comm comm, MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Ialltoallw, send, n, p, s, recv, m, q, r, comm, request);
}
int MPI_Ireduce_scatter(const void* send, void* recv, const int* n, MPI_Datatype s, MPI_Op op, MPI_Comm comm,
                        MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Ireduce_scatter, send, recv, n, s, op, comm, request);
}
int MPI_Ireduce_scatter_block(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm,
                              MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Ireduce_scatter_block, send, recv, n, s, op, comm, request);
}
int MPI_Iscan(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Iscan, send, recv, n, s, op, comm, request);
}
int MPI_Iexscan(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Iexscan, send, recv, n, s, op, comm, request);
}
int MPI_Iallreduce(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Iallreduce, send, recv, n, s, op, comm, request);
}
int MPI_Ireduce(const void* send, void* recv, int n, MPI_Datatype s, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Ireduce, send, recv, n, s, op, root, comm, request);
}
int MPI_Ibcast(void* buffer, int n, MPI_Datatype s, int root, MPI_Comm comm, MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Ibcast, buffer, n, s, root, comm, request);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) { return pass_on(nullptr, comm, PMPI_Ibarrier, comm, request); }
int MPI_Iallgather(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm,
                   MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Iallgather, send, n, s, recv, m, r, comm, request);
}
int MPI_Iallgatherv(const void* send, int n, MPI_Datatype s, void* recv, const int* m, const int* p, MPI_Datatype r,
                    MPI_Comm comm, MPI_Request* request) {
  return pass_on(nullptr, comm, PMPI_Iallgatherv, send, n, s, recv, m, p, r, comm, request);
}

}  // extern "C"
