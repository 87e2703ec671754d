#include "mpi/peers.hpp"

#include <vector>

#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/report.hpp"
#include "mpi/requests.hpp"

namespace ucft::mpi {

namespace {

// World ranks of a communicator's deaths that waits for MPI_ANY_SOURCE have named. It hangs on the communicator.
int named_key = MPI_KEYVAL_INVALID;

int forget_named(MPI_Comm, int, void* attribute, void*) {
  delete static_cast<std::vector<bool>*>(attribute);
  return MPI_SUCCESS;
}

std::vector<bool>* named_on(MPI_Comm comm) {
  void* attribute = nullptr;
  int found = 0;
  if (named_key != MPI_KEYVAL_INVALID) PMPI_Comm_get_attr(comm, named_key, &attribute, &found);
  return found != 0 ? static_cast<std::vector<bool>*>(attribute) : nullptr;
}

}  // namespace

int failed_peer(MPI_Comm comm, int peer) {
  if (peer == every_member) return dead_member(comm);
  if (peer != MPI_ANY_SOURCE || nobody_is_dead() || comm == MPI_COMM_NULL) return dead_peer(comm, peer);
  if (world.lost_by >= 0) return world.lost_by;
  const Turn turn;
  const std::vector<bool>* named = named_on(comm);
  bool others_live = false;
  int failed = -1, unnamed = -1;
  for (const int rank : members_of(comm).peers) {
    if (rank == world.rank) continue;
    if (rank < 0 || failure_of(rank) < 0) {
      others_live = true;
      continue;
    }
    failed = rank;
    if (unnamed < 0 && (named == nullptr || !(*named)[static_cast<std::size_t>(rank)])) unnamed = rank;
  }
  return unnamed >= 0 || others_live ? unnamed : failed;
}

int name_failed_peer(MPI_Comm comm, int peer, int world_rank) {
  count(Function::point_to_point, Outcome::dead);
  if (peer == MPI_ANY_SOURCE && world.lost_by < 0) {
    const Turn turn;
    if (named_key == MPI_KEYVAL_INVALID)
      PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_named, &named_key, nullptr);
    std::vector<bool>* named = named_on(comm);
    if (named == nullptr) {
      named = new std::vector<bool>(static_cast<std::size_t>(world.size));
      PMPI_Comm_set_attr(comm, named_key, named);
    }
    (*named)[static_cast<std::size_t>(world_rank)] = true;
  }
  const int cause = failure_of(world_rank);
  return death_code(cause >= 0 ? cause : world_rank);
}

int begin_by_mpi(MPI_Comm comm, MPI_Request* request, const std::function<int()>& pmpi) {
  if (!world.on) return pmpi();
  if (const int dead = dead_member(comm); dead >= 0) return raise_death(comm, dead);
  const int error = pmpi();
  if (error == MPI_SUCCESS) requests.add(*request, {.comm = comm, .peer = every_member});
  return error;
}

void look_now_and_then() {
  constexpr unsigned calls_per_look = 64;
  thread_local unsigned calls __attribute__((tls_model("initial-exec"))) = 0;
  if (++calls % calls_per_look == 0) look_for_deaths();
}

bool abandon(MPI_Request& request, bool receives, MPI_Status* status) {
  if (request == MPI_REQUEST_NULL || !receives) return true;
  MPI_Status end;
  PMPI_Cancel(&request);
  int done = 0, is_cancelled = 1;
  for (int turn = 0; turn < turns_per_look && done == 0; ++turn) PMPI_Test(&request, &done, &end);
  if (done != 0) PMPI_Test_cancelled(&end, &is_cancelled);
  if (is_cancelled != 0) return true;
  if (status != MPI_STATUS_IGNORE) *status = end;
  return false;
}

}  // namespace ucft::mpi
