#include "mpi/members.hpp"

#include <numeric>
#include <utility>

#include "mpi/revocation.hpp"

namespace ucft::mpi {

namespace {

int comm_key = MPI_KEYVAL_INVALID, window_key = MPI_KEYVAL_INVALID;

int forget_of_comm(MPI_Comm, int, void* attribute, void*) {
  delete static_cast<Roster*>(attribute);
  return MPI_SUCCESS;
}
int forget_of_window(MPI_Win, int, void* attribute, void*) {
  delete static_cast<Roster*>(attribute);
  return MPI_SUCCESS;
}

std::vector<int> world_ranks_of(MPI_Group group) {
  int size = 0;
  PMPI_Group_size(group, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size)), there(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  PMPI_Group_translate_ranks(group, size, ranks.data(), world.group, there.data());
  return there;  // MPI_UNDEFINED is negative
}

// Of a group that is not needed any more.
std::vector<int> world_ranks_in(MPI_Group group) {
  std::vector<int> ranks = world_ranks_of(group);
  PMPI_Group_free(&group);
  return ranks;
}

Needed of_this_job(std::vector<int> ranks) {
  std::erase_if(ranks, [](int rank) { return rank < 0; });
  return std::make_shared<const std::vector<int>>(std::move(ranks));
}

}  // namespace

const Roster& members_of(MPI_Comm comm) {
  void* attribute = nullptr;
  int found = 0, is_inter = 0;
  const Turn turn;
  if (comm_key == MPI_KEYVAL_INVALID)
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_of_comm, &comm_key, nullptr);
  PMPI_Comm_get_attr(comm, comm_key, &attribute, &found);
  if (found != 0) return *static_cast<Roster*>(attribute);
  MPI_Group group = MPI_GROUP_NULL;
  PMPI_Comm_group(comm, &group);
  std::vector<int> all = world_ranks_in(group);
  auto* const members = new Roster{.peers = all, .all = nullptr};
  PMPI_Comm_test_inter(comm, &is_inter);
  if (is_inter != 0) {
    PMPI_Comm_remote_group(comm, &group);
    members->peers = world_ranks_in(group);
    all.insert(all.end(), members->peers.begin(), members->peers.end());
  }
  members->all = of_this_job(std::move(all));
  PMPI_Comm_set_attr(comm, comm_key, members);
  return *members;
}

const Roster& members_of_window(MPI_Win window) {
  void* attribute = nullptr;
  int found = 0;
  const Turn turn;
  if (window_key == MPI_KEYVAL_INVALID)
    PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, forget_of_window, &window_key, nullptr);
  PMPI_Win_get_attr(window, window_key, &attribute, &found);
  if (found != 0) return *static_cast<Roster*>(attribute);
  MPI_Group group = MPI_GROUP_NULL;
  PMPI_Win_get_group(window, &group);
  auto* const members = new Roster{.peers = world_ranks_in(group), .all = nullptr};
  members->all = of_this_job(members->peers);
  PMPI_Win_set_attr(window, window_key, members);
  return *members;
}

Needed members_of_group(MPI_Group group) { return of_this_job(world_ranks_of(group)); }

int first_dead(const Needed& needed) {
  if (nobody_is_dead()) return -1;
  for (const int rank : *needed)
    if (const int failed = failure_of(rank); failed >= 0) return failed;
  return -1;
}

int unusable(MPI_Comm comm) {
  if (nobody_is_dead()) return -1;
  return world.lost_by >= 0 ? world.lost_by : is_revoked(comm) ? by_revocation : -1;
}

int dead_member(MPI_Comm comm) {
  if (nobody_is_dead() || comm == MPI_COMM_NULL) return -1;
  const int why = unusable(comm);
  return why >= 0 ? why : first_dead(members_of(comm).all);
}

int dead_sender(MPI_Comm comm, int peer) {
  return peer == MPI_ANY_SOURCE ? first_dead(members_of(comm).all) : members_of(comm).failed(peer);
}

int dead_peer(MPI_Comm comm, int peer) {
  if (nobody_is_dead() || comm == MPI_COMM_NULL || peer == MPI_PROC_NULL) return -1;
  const int why = unusable(comm);
  return why >= 0 ? why : members_of(comm).failed(peer);
}

}  // namespace ucft::mpi
