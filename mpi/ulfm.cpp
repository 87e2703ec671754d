// ULFM's calls (mpi-ext.h). Agreements and new communicators go by `control`, which a revocation leaves alone.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "mpi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/communicators.hpp"
#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/nonblocking.hpp"
#include "mpi/peers.hpp"
#include "mpi/report.hpp"
#include "mpi/revocation.hpp"
#include "ucft/mpi/mpi-ext.h"

using namespace ucft::mpi;

namespace {

// nullptr: not one of ucft's. Its error has been raised then.
const Communicator* find_or_raise(MPI_Comm comm, const void* result, int& error) {
  const Communicator* const found = find_any(comm);
  error = found == nullptr ? MPI_ERR_COMM : result == nullptr ? MPI_ERR_ARG : MPI_SUCCESS;
  if (error == MPI_SUCCESS) return found;
  raise_code(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm, error);
  return nullptr;
}

// Ranks of comm that have failed, as this rank has learned of them.
std::vector<int> failed_members(MPI_Comm comm) {
  look_for_deaths();
  leave_revoked();
  const Roster& members = members_of(comm);
  std::vector<int> failed;
  const std::lock_guard lock(world.order_mutex);
  for (const int rank : world.order)
    if (const auto at = std::find(members.peers.begin(), members.peers.end(), rank); at != members.peers.end())
      failed.push_back(static_cast<int>(at - members.peers.begin()));
  return failed;
}

bool is_acknowledged(MPI_Comm comm, int rank) {
  const int there = members_of(comm).world_rank_of(rank);
  return acknowledged_on(comm)[static_cast<std::size_t>(there)];
}

int give_group(MPI_Comm comm, const std::vector<int>& ranks, MPI_Group* group) {
  MPI_Group all = MPI_GROUP_NULL;
  PMPI_Comm_group(comm, &all);
  const int error = PMPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), group);
  PMPI_Group_free(&all);
  return error;
}

int acknowledge_first(MPI_Comm comm, int count) {
  const Turn turn;
  const std::vector<int> failed = failed_members(comm);
  for (int i = 0; i < std::min(count, static_cast<int>(failed.size())); ++i)
    acknowledge(comm, members_of(comm).world_rank_of(failed[static_cast<std::size_t>(i)]));
  return static_cast<int>(
      std::count_if(failed.begin(), failed.end(), [&](int rank) { return is_acknowledged(comm, rank); }));
}

// The first word has the flags. The others have a bit for each rank, set if its failure is acknowledged. All are
// combined by AND. So all ranks know alike whether each missing one has been acknowledged by all.
class Agreement final : public Call {
 public:
  Agreement(MPI_Comm comm, int* flag) : comm_(comm), flag_(flag) {}
  int check(MPI_Comm, const Communicator&) const override { return MPI_SUCCESS; }
  Outcome outcome(const Communicator&) const override { return Outcome::taken_over; }
  ucft_status_t make(const Communicator& comm, Collective& collective) const override {
    const std::size_t words = 1 + (static_cast<std::size_t>(comm.size) + 63) / 64;
    collective.received.resize(words * sizeof(std::uint64_t));
    collective.want_missing(comm.size);
    auto* const all = reinterpret_cast<std::uint64_t*>(collective.received.data());
    all[0] = static_cast<std::uint32_t>(*flag_);
    for (int rank = 0; rank < comm.size; ++rank)
      if (world.lost_by < 0 && is_acknowledged(comm_, rank)) all[1 + rank / 64] |= std::uint64_t{1} << rank % 64;
    collective.deliver = [all, &collective, flag = flag_] {
      *flag = static_cast<int>(static_cast<std::uint32_t>(all[0]));
      for (std::int32_t i = 0; i < collective.result.missing_count; ++i) {
        const std::int32_t rank = collective.missing[static_cast<std::size_t>(i)];
        if ((all[1 + rank / 64] >> rank % 64 & 1) != 0) continue;
        collective.root = rank;  // that the error is about
        return UCFT_ERR_ROOT_FAILED;
      }
      return UCFT_OK;
    };
    const ucft_operator_t with = UCFT_OPERATOR_INIT(UCFT_BAND);
    ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
    options.failure_info = UCFT_FAILURE_INFO_LIST;
    options.uniform = 1;
    return ucft_allreduce_init(comm.control, UCFT_IN_PLACE, all, words, UCFT_UINT64, &with, &options,
                               &collective.request);
  }

 private:
  MPI_Comm comm_;
  int* flag_;
};

}  // namespace

extern "C" {

#pragma GCC visibility push(default)

int MPIX_Comm_revoke(MPI_Comm comm) {
  int error = MPI_SUCCESS;
  const Communicator* const on = find_or_raise(comm, &comm, error);
  if (on == nullptr) return error;
  {
    const Turn turn;
    revoke(*on);
    exchange_words();
  }
  leave_revoked();
  return MPI_SUCCESS;
}

int MPIX_Comm_is_revoked(MPI_Comm comm, int* flag) {
  int error = MPI_SUCCESS;
  const Communicator* const on = find_or_raise(comm, flag, error);
  if (on == nullptr) return error;
  look_for_deaths();
  leave_revoked();
  *flag = on->is_revoked ? 1 : 0;
  return MPI_SUCCESS;
}

int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failed) {
  int error = MPI_SUCCESS;
  if (find_or_raise(comm, failed, error) == nullptr) return error;
  return give_group(comm, failed_members(comm), failed);
}

int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked) {
  int error = MPI_SUCCESS;
  if (find_or_raise(comm, num_acked, error) == nullptr) return error;
  *num_acked = acknowledge_first(comm, num_to_ack);
  return MPI_SUCCESS;
}

int MPIX_Comm_failure_ack(MPI_Comm comm) {
  int error = MPI_SUCCESS;
  if (find_or_raise(comm, &comm, error) == nullptr) return error;
  acknowledge_first(comm, world.size);
  return MPI_SUCCESS;
}

int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* acked) {
  int error = MPI_SUCCESS;
  if (find_or_raise(comm, acked, error) == nullptr) return error;
  const Turn turn;
  std::vector<int> ranks = failed_members(comm);
  std::erase_if(ranks, [&](int rank) { return !is_acknowledged(comm, rank); });
  return give_group(comm, ranks, acked);
}

int MPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request) {
  int error = MPI_SUCCESS;
  const Communicator* const on = find_or_raise(comm, flag == nullptr ? nullptr : request, error);
  if (on == nullptr) return error;
  static int of_nobody = 0;
  of_nobody = *flag;  // a rank that has lost MPI takes part for the others' sake, and has an error at once
  return begin_here(Function::comm_agree, comm, *on, Agreement(comm, world.lost_by < 0 ? flag : &of_nobody), true,
                    request);
}

// Behind those that are begun on it.
int MPIX_Comm_agree(MPI_Comm comm, int* flag) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = MPIX_Comm_iagree(comm, flag, &request);
  return error != MPI_SUCCESS ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* shrunk) {
  int error = MPI_SUCCESS;
  const Communicator* const on = find_or_raise(comm, shrunk, error);
  if (on == nullptr) return error;
  count(Function::comm_shrink, Outcome::taken_over);
  return raise_behind(
      comm, [&] { return shrink(comm, *on, shrunk); }, false);
}

int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm* shrunk, MPI_Request* request) {
  int error = MPI_SUCCESS;
  const Communicator* const on = find_or_raise(comm, shrunk == nullptr ? nullptr : request, error);
  if (on == nullptr) return error;
  if (world.lost_by >= 0) return MPIX_Comm_shrink(comm, shrunk);
  return begin_deferred(
      comm, *on, [=] { return MPIX_Comm_shrink(comm, shrunk); }, request);
}

#pragma GCC visibility pop

}  // extern "C"
