// Communicators that MPI makes in other ways, and what moves data between the neighbours of a topology. MPI has these
// calls. A rank that is dead is an error, and so is one that dies while they wait (watch.hpp). A communicator that is
// made of a part of one of ucft's, by all ranks of that, is one of ucft's, too.
#include "mpi/communicators.hpp"
#include "mpi/creation.hpp"
#include "mpi/errors.hpp"
#include "mpi/peers.hpp"
#include "mpi/running.hpp"
#include "mpi/watch.hpp"

using namespace ucft::mpi;

namespace {

template <class Pmpi>
int on_group(const char* function, MPI_Comm comm, MPI_Group group, Pmpi pmpi) {
  if (!world.on || comm == MPI_COMM_NULL || group == MPI_GROUP_NULL) return pmpi();
  const auto raise = [&](int dead) { return raise_death(comm, dead); };
  const int why = unusable(comm);
  return why >= 0 ? raise(why) : run_watched(function, members_of_group(group), pmpi, raise);
}

// Members of the other side are not known yet: it is left if any rank of the world dies.
template <class Pmpi>
int with_another_side(const char* function, MPI_Comm comm, Pmpi pmpi) {
  if (!world.on || comm == MPI_COMM_NULL) return pmpi();
  const auto raise = [&](int dead) { return raise_death(comm, dead); };
  if (const int dead = dead_member(comm); dead >= 0) return raise(dead);
  return run_begun(function, members_of(MPI_COMM_WORLD).all, true, pmpi, raise);
}

// Of all ranks of comm. Where ucft knows comm, its ranks agree before and after MPI's call: all of them have the new
// one, or an error.
template <class Pmpi>
int made(const char* function, MPI_Comm comm, MPI_Comm* created, Pmpi pmpi) {
  const Communicator* const parent = find_communicator(comm);
  if (parent == nullptr || created == nullptr) return run_watched(function, comm, pmpi);
  return raise_behind(comm, [&] {
    const Busy busy(*parent);
    if (const int error = meet_all(comm); error != MPI_SUCCESS) return error;
    Creation mine = Creation::made;
    const int error = run_watched(function, members_of(comm).all, pmpi, [&](int) {
      mine = Creation::lost;
      return MPI_SUCCESS;
    });
    if (error != MPI_SUCCESS) mine = Creation::failed;
    return attach_part(comm, mine, error, created);
  });
}

}  // namespace

extern "C" {

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* created) {
  return made("MPI_Comm_split_type", comm, created,
              [=] { return PMPI_Comm_split_type(comm, type, key, info, created); });
}
int MPI_Cart_create(MPI_Comm comm, int n, const int* sizes, const int* periods, int reorder, MPI_Comm* created) {
  return made("MPI_Cart_create", comm, created,
              [=] { return PMPI_Cart_create(comm, n, sizes, periods, reorder, created); });
}
int MPI_Cart_sub(MPI_Comm comm, const int* stay, MPI_Comm* created) {
  return made("MPI_Cart_sub", comm, created, [=] { return PMPI_Cart_sub(comm, stay, created); });
}
int MPI_Graph_create(MPI_Comm comm, int n, const int* indices, const int* edges, int reorder, MPI_Comm* created) {
  return made("MPI_Graph_create", comm, created,
              [=] { return PMPI_Graph_create(comm, n, indices, edges, reorder, created); });
}
int MPI_Dist_graph_create(MPI_Comm comm, int n, const int* from, const int* degrees, const int* to, const int* weights,
                          MPI_Info info, int reorder, MPI_Comm* created) {
  return made("MPI_Dist_graph_create", comm, created,
              [=] { return PMPI_Dist_graph_create(comm, n, from, degrees, to, weights, info, reorder, created); });
}
int MPI_Dist_graph_create_adjacent(MPI_Comm comm, int n, const int* from, const int* w, int m, const int* to,
                                   const int* u, MPI_Info info, int reorder, MPI_Comm* created) {
  return made("MPI_Dist_graph_create_adjacent", comm, created,
              [=] { return PMPI_Dist_graph_create_adjacent(comm, n, from, w, m, to, u, info, reorder, created); });
}
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* created) {
  return on_group("MPI_Comm_create_group", comm, group,
                  [=] { return PMPI_Comm_create_group(comm, group, tag, created); });
}
int MPI_Intercomm_create(MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm* created) {
  return with_another_side("MPI_Intercomm_create", comm,
                           [=] { return PMPI_Intercomm_create(comm, leader, peer, remote, tag, created); });
}
int MPI_Intercomm_merge(MPI_Comm comm, int high, MPI_Comm* created) {
  return run_watched("MPI_Intercomm_merge", comm, [=] { return PMPI_Intercomm_merge(comm, high, created); });
}
int MPI_Comm_spawn(const char* command, char** argv, int n, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* created,
                   int* errors) {
  return run_watched("MPI_Comm_spawn", comm,
                     [=] { return PMPI_Comm_spawn(command, argv, n, info, root, comm, created, errors); });
}
int MPI_Comm_spawn_multiple(int count, char** commands, char*** argv, const int* n, const MPI_Info* infos, int root,
                            MPI_Comm comm, MPI_Comm* created, int* errors) {
  return run_watched("MPI_Comm_spawn_multiple", comm, [=] {
    return PMPI_Comm_spawn_multiple(count, commands, argv, n, infos, root, comm, created, errors);
  });
}
int MPI_Comm_accept(const char* port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* created) {
  return run_watched("MPI_Comm_accept", comm, [=] { return PMPI_Comm_accept(port, info, root, comm, created); });
}
int MPI_Comm_connect(const char* port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* created) {
  return run_watched("MPI_Comm_connect", comm, [=] { return PMPI_Comm_connect(port, info, root, comm, created); });
}
int MPI_Neighbor_allgather(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm) {
  return run_watched("MPI_Neighbor_allgather", comm,
                     [=] { return PMPI_Neighbor_allgather(send, n, s, recv, m, r, comm); });
}
int MPI_Neighbor_allgatherv(const void* send, int n, MPI_Datatype s, void* recv, const int* m, const int* p,
                            MPI_Datatype r, MPI_Comm comm) {
  return run_watched("MPI_Neighbor_allgatherv", comm,
                     [=] { return PMPI_Neighbor_allgatherv(send, n, s, recv, m, p, r, comm); });
}
int MPI_Neighbor_alltoall(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm) {
  return run_watched("MPI_Neighbor_alltoall", comm,
                     [=] { return PMPI_Neighbor_alltoall(send, n, s, recv, m, r, comm); });
}
int MPI_Neighbor_alltoallv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, const int* m,
                           const int* q, MPI_Datatype r, MPI_Comm comm) {
  return run_watched("MPI_Neighbor_alltoallv", comm,
                     [=] { return PMPI_Neighbor_alltoallv(send, n, p, s, recv, m, q, r, comm); });
}
int MPI_Neighbor_alltoallw(const void* send, const int* n, const MPI_Aint* p, const MPI_Datatype* s, void* recv,
                           const int* m, const MPI_Aint* q, const MPI_Datatype* r, MPI_Comm comm) {
  return run_watched("MPI_Neighbor_alltoallw", comm,
                     [=] { return PMPI_Neighbor_alltoallw(send, n, p, s, recv, m, q, r, comm); });
}
int MPI_Ineighbor_allgather(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm,
                            MPI_Request* request) {
  return begin_by_mpi(comm, request, [=] { return PMPI_Ineighbor_allgather(send, n, s, recv, m, r, comm, request); });
}
int MPI_Ineighbor_allgatherv(const void* send, int n, MPI_Datatype s, void* recv, const int* m, const int* p,
                             MPI_Datatype r, MPI_Comm comm, MPI_Request* request) {
  return begin_by_mpi(comm, request,
                      [=] { return PMPI_Ineighbor_allgatherv(send, n, s, recv, m, p, r, comm, request); });
}
int MPI_Ineighbor_alltoall(const void* send, int n, MPI_Datatype s, void* recv, int m, MPI_Datatype r, MPI_Comm comm,
                           MPI_Request* request) {
  return begin_by_mpi(comm, request, [=] { return PMPI_Ineighbor_alltoall(send, n, s, recv, m, r, comm, request); });
}
int MPI_Ineighbor_alltoallv(const void* send, const int* n, const int* p, MPI_Datatype s, void* recv, const int* m,
                            const int* q, MPI_Datatype r, MPI_Comm comm, MPI_Request* request) {
  return begin_by_mpi(comm, request,
                      [=] { return PMPI_Ineighbor_alltoallv(send, n, p, s, recv, m, q, r, comm, request); });
}
int MPI_Ineighbor_alltoallw(const void* send, const int* n, const MPI_Aint* p, const MPI_Datatype* s, void* recv,
                            const int* m, const MPI_Aint* q, const MPI_Datatype* r, MPI_Comm comm,
                            MPI_Request* request) {
  return begin_by_mpi(comm, request,
                      [=] { return PMPI_Ineighbor_alltoallw(send, n, p, s, recv, m, q, r, comm, request); });
}
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* created, MPI_Request* request) {
  return begin_by_mpi(comm, request, [=] { return PMPI_Comm_idup(comm, created, request); });
}

}  // extern "C"
