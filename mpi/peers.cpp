#include "mpi/peers.hpp"

#include <vector>

#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/report.hpp"
#include "mpi/requests.hpp"
#include "mpi/revocation.hpp"

namespace ucft::mpi {

namespace {

// World ranks of a communicator whose failures are acknowledged. It hangs on the communicator.
struct Acknowledged {
  std::vector<bool> by_program;  // by ULFM's calls
  std::vector<bool> named;       // by waits for MPI_ANY_SOURCE
};
int acknowledged_key = MPI_KEYVAL_INVALID;

int forget_acknowledged(MPI_Comm, int, void* attribute, void*) {
  delete static_cast<Acknowledged*>(attribute);
  return MPI_SUCCESS;
}

// In a Turn.
Acknowledged& all_acknowledged_on(MPI_Comm comm) {
  if (acknowledged_key == MPI_KEYVAL_INVALID)
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_acknowledged, &acknowledged_key, nullptr);
  void* attribute = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(comm, acknowledged_key, &attribute, &found);
  if (found != 0) return *static_cast<Acknowledged*>(attribute);
  const std::vector<bool> none(static_cast<std::size_t>(world.size));
  auto* const made = new Acknowledged{none, none};
  PMPI_Comm_set_attr(comm, acknowledged_key, made);
  return *made;
}

}  // namespace

const std::vector<bool>& acknowledged_on(MPI_Comm comm) { return all_acknowledged_on(comm).by_program; }

void acknowledge(MPI_Comm comm, int world_rank) {
  all_acknowledged_on(comm).by_program[static_cast<std::size_t>(world_rank)] = true;
}

int failed_peer(MPI_Comm comm, int peer) {
  // MPI has it, and it can't be taken back while its members live.
  if (peer == every_member)
    return nobody_is_dead() ? -1 : world.lost_by >= 0 ? world.lost_by : first_dead(members_of(comm).all);
  if (peer != MPI_ANY_SOURCE || nobody_is_dead() || comm == MPI_COMM_NULL) return dead_peer(comm, peer);
  if (const int why = unusable(comm); why >= 0) return why;
  const Turn turn;
  const Acknowledged& acknowledged = all_acknowledged_on(comm);
  bool others_live = false;
  int failed = -1, unnamed = -1;
  for (const int rank : members_of(comm).peers) {
    if (rank == world.rank) continue;
    if (rank < 0 || failure_of(rank) < 0) {
      others_live = true;
      continue;
    }
    failed = rank;
    const auto at = static_cast<std::size_t>(rank);
    if (unnamed < 0 && !acknowledged.by_program[at] && !acknowledged.named[at]) unnamed = rank;
  }
  return unnamed >= 0 || others_live ? unnamed : failed;
}

int name_failed_peer(MPI_Comm comm, int peer, int world_rank, bool stays_begun) {
  count(Function::point_to_point, Outcome::dead);
  if (world_rank == by_revocation) return death_code(by_revocation);
  if (peer == MPI_ANY_SOURCE && world.lost_by < 0 && !collectives_raise()) {
    const Turn turn;
    all_acknowledged_on(comm).named[static_cast<std::size_t>(world_rank)] = true;
  }
  const int cause = failure_of(world_rank);
  const int failed = cause >= 0 ? cause : world_rank;
  return stays_begun ? pending_code(failed) : death_code(failed);
}

int begin_by_mpi(MPI_Comm comm, MPI_Request* request, const std::function<int()>& pmpi) {
  if (!world.on) return pmpi();
  if (const int dead = dead_member(comm); dead >= 0) return raise_death(comm, dead);
  const int error = pmpi();
  if (error == MPI_SUCCESS) requests.add(*request, {.comm = comm, .peer = every_member});
  return error;
}

void look_now_and_then(unsigned calls_per_look) {
  thread_local unsigned calls __attribute__((tls_model("initial-exec"))) = 0;
  if (++calls % calls_per_look != 0) return;
  look_for_deaths();
  leave_revoked();
}

bool abandon(MPI_Request& request, bool receives, MPI_Status* status, const std::function<bool()>& may_end) {
  if (request == MPI_REQUEST_NULL || !receives) return true;
  MPI_Status end;
  PMPI_Cancel(&request);
  int done = 0, is_cancelled = 1;
  for (;;) {
    for (int turn = 0; turn < turns_per_look && done == 0; ++turn) PMPI_Test(&request, &done, &end);
    if (done != 0 || !may_end || !may_end()) break;
    look_for_deaths();
  }
  if (done != 0) PMPI_Test_cancelled(&end, &is_cancelled);
  if (is_cancelled != 0) return true;
  if (status != MPI_STATUS_IGNORE) *status = end;
  return false;
}

}  // namespace ucft::mpi
