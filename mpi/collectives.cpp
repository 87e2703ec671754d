// The collectives that programs call most. A request is kept for each of a communicator, and posted again when the next
// call has the same arguments (`Prepared`). All that is not as it lies in memory, or has no operator of ucft's, goes as
// the other collectives do (run_call).
#include "mpi/collectives.hpp"

#include <optional>
#include <vector>

#include "mpi/calls.hpp"
#include "mpi/communicators.hpp"
#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/report.hpp"
#include "mpi/running.hpp"
#include "mpi/watch.hpp"

using namespace ucft::mpi;

namespace {

// init makes the request of `call`, if the last one of its kind was another.
template <class Init>
ucft_status_t run(const Communicator& comm, Prepared::Kind kind, const Prepared& call, Init init, Waiting waiting = {},
                  ucft_result_t* result = nullptr) {
  Prepared& last = comm.prepared[kind];
  if (!last.is_of(call)) {
    const Turn turn;
    if (comm.is_revoked) return UCFT_ERR_STATE;
    if (last.request != UCFT_REQUEST_NULL) ucft_request_free(last.request);
    last = call;
    if (const ucft_status_t status = init(&last.request); status != UCFT_OK) {
      last.request = UCFT_REQUEST_NULL;
      return status;
    }
  }
  const Busy busy(comm);
  const ucft_status_t status = complete(&comm, last.request, waiting);
  if (result != nullptr) {
    const Turn turn;
    ucft_request_result(last.request, result);
  }
  return status;
}

// UCFT_MPI_ON_FAILURE=raise: an operation that has come to its end is an error all the same where a member has failed.
[[gnu::noinline]] int raise_if_incomplete(MPI_Comm on) {
  look_for_deaths();
  const int dead = dead_member(on);
  return dead >= 0 ? raise_death(on, dead) : MPI_SUCCESS;
}
[[gnu::always_inline]] inline int result_of(MPI_Comm on, ucft_status_t status, int root) {
  if (status != UCFT_OK) [[unlikely]]
    return raise_error(on, status, root);
  return !collectives_raise() ? MPI_SUCCESS : raise_if_incomplete(on);
}

ucft_status_t run_barrier(const Communicator& comm, Waiting waiting, ucft_result_t* result) {
  return run(
      comm, Prepared::barrier, {},
      [&](ucft_request_h* request) { return ucft_barrier_init(comm.handle, nullptr, request); }, waiting, result);
}

// The same call as the last one of its kind goes again.
[[gnu::always_inline]] inline bool is_last(const Communicator* comm, Prepared::Kind kind, const Prepared& call) {
  return comm != nullptr && comm->prepared[kind].is_of(call);
}
[[gnu::always_inline]] inline int again(Function function, MPI_Comm on, const Communicator& comm, Prepared::Kind kind) {
  count(function, Outcome::taken_over);
  const Prepared& last = comm.prepared[kind];
  return result_of(on, complete(&comm, last.request), static_cast<int>(last.root));
}

Prepared prepared_of(const Reduction& call) {
  return {
      .send = call.send, .recv = call.recv, .count = call.count, .type = call.type, .op = call.op, .root = call.root};
}

Prepared prepared_of(const Allgather& call) {
  return {.send = call.give.memory,
          .recv = call.get.memory,
          .count = call.get.count,
          .type = call.get.type,
          .send_count = call.give.count,
          .send_type = call.give.type};
}

Prepared prepared_of(const Broadcast& call) {
  return {.recv = call.buffer, .count = call.count, .type = call.type, .root = call.root};
}

// A call whose request is kept, if there can be one: is_kept; init makes it. Else it is run once.
template <class OneCall, class Init, class Pmpi>
int run_kept(Function function, MPI_Comm on, const Communicator* comm, Prepared::Kind kind, const OneCall& call,
             bool is_kept, int root, Init init, Pmpi pmpi) {
  if (!is_kept || call.outcome(*comm) != Outcome::taken_over) return run_call(function, on, comm, call, pmpi);
  count(function, Outcome::taken_over);
  return result_of(on, run(*comm, kind, prepared_of(call), init), root);
}

[[gnu::noinline]] int other_reduction(Function function, const Communicator* comm, const Reduction& call, MPI_Comm on) {
  const auto pmpi = [&] {
    return call.root < 0 ? PMPI_Allreduce(call.send, call.recv, call.count, call.type, call.op, on)
                         : PMPI_Reduce(call.send, call.recv, call.count, call.type, call.op, call.root, on);
  };
  const Prepared::Kind kind = call.root < 0 ? Prepared::allreduce : Prepared::reduce;
  return run_kept(
      function, on, comm, kind, call, comm != nullptr && call.is_direct(*comm), call.root,
      [&](ucft_request_h* request) { return call.make_directly(*comm, request); }, pmpi);
}

[[gnu::noinline]] int other_allgather(const Communicator* comm, const Allgather& call, MPI_Comm on) {
  const auto pmpi = [&] {
    return PMPI_Allgather(call.give.memory, call.give.count, call.give.type, call.get.memory, call.get.count,
                          call.get.type, on);
  };
  return run_kept(
      Function::allgather, on, comm, Prepared::allgather, call, comm != nullptr && call.is_plain(), -1,
      [&](ucft_request_h* request) {
        return ucft_allgather_init(comm->handle, or_in_place(call.give.memory), call.get.memory, call.get.bytes_of(0),
                                   UCFT_UINT8, nullptr, request);
      },
      pmpi);
}

[[gnu::noinline]] int other_broadcast(const Communicator* comm, const Broadcast& call, MPI_Comm on) {
  return run_kept(
      Function::bcast, on, comm, Prepared::broadcast, call, comm != nullptr && is_plain(call.type), call.root,
      [&](ucft_request_h* request) {
        return ucft_broadcast_init(comm->handle, call.buffer, packed_bytes(call.count, call.type), UCFT_UINT8,
                                   call.root, nullptr, request);
      },
      [&] { return PMPI_Bcast(call.buffer, call.count, call.type, call.root, on); });
}

}  // namespace

int ucft::mpi::pass_on(Function function, Outcome why, MPI_Comm comm, const std::function<int()>& pmpi) {
  count(function, dead_member(comm) >= 0 ? Outcome::dead : why);
  return run_watched(name_of(function), comm, [&] { return pmpi(); });
}

namespace {

// make(collective) makes its request. comm: nullptr: of ucft's alone, with nothing queued.
template <class Make>
ucft_status_t run_once(const Communicator* comm, Collective& collective, Make make) {
  std::optional<Busy> busy;
  if (comm != nullptr) busy.emplace(*comm);
  ucft_status_t status = UCFT_OK;
  {
    const Turn turn;
    status = comm != nullptr && comm->is_revoked ? UCFT_ERR_STATE : make(collective);
  }
  if (status != UCFT_OK) return status;
  return collective.end(complete(comm, collective.request, {.slice_us = comm == nullptr ? 1 : shortest_us}));
}

}  // namespace

int ucft::mpi::run_call(Function function, MPI_Comm on, const Communicator* comm, const Call& call,
                        const std::function<int()>& pmpi) {
  if (comm != nullptr)
    if (const int error = call.check(on, *comm); error != MPI_SUCCESS) return error;
  const Outcome outcome = comm == nullptr ? Outcome::communicator : call.outcome(*comm);
  if (outcome != Outcome::taken_over) return pass_on(function, outcome, on, pmpi);
  count(function, outcome);
  Collective collective;
  const ucft_status_t status = run_once(comm, collective, [&](Collective& each) { return call.make(*comm, each); });
  return result_of(on, status, collective.root);
}

ucft_status_t ucft::mpi::meet(const Communicator& comm, ucft_result_t* result) {
  return run_barrier(comm, {.slice_us = 1, .is_bound = true}, result);
}

ucft_status_t ucft::mpi::agree_on_greatest(ucft_comm_h on, std::int32_t mine, std::int32_t& greatest,
                                           std::vector<std::int32_t>* missing) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(UCFT_MAX);
  thread_local std::int32_t value;  // always the same place: ucft looks only once whether it is memory
  value = mine;
  Collective collective;
  if (missing != nullptr) collective.want_missing(static_cast<int>(missing->size()));
  const ucft_status_t status = run_once(nullptr, collective, [&](Collective& each) {
    return ucft_allreduce_init(on, UCFT_IN_PLACE, &value, 1, UCFT_INT32, &with, nullptr, &each.request);
  });
  greatest = value;
  if (missing != nullptr)
    missing->assign(collective.missing.begin(), collective.missing.begin() + collective.result.missing_count);
  return status;
}

extern "C" {

int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  const Reduction call(send, recv, count, type, op, -1);
  if (is_last(on, Prepared::allreduce, prepared_of(call))) [[likely]]
    return again(Function::allreduce, comm, *on, Prepared::allreduce);
  return other_reduction(Function::allreduce, on, call, comm);
}

int MPI_Reduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  const Reduction call(send, recv, count, type, op, root);
  if (is_last(on, Prepared::reduce, prepared_of(call))) [[likely]]
    return again(Function::reduce, comm, *on, Prepared::reduce);
  if (root < 0)
    return pass_on(Function::reduce, Outcome::arguments, comm,
                   [=] { return PMPI_Reduce(send, recv, count, type, op, root, comm); });
  return other_reduction(Function::reduce, on, call, comm);
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  const Broadcast call(buffer, count, type, root);
  if (is_last(on, Prepared::broadcast, prepared_of(call))) [[likely]]
    return again(Function::bcast, comm, *on, Prepared::broadcast);
  return other_broadcast(on, call, comm);
}

int MPI_Barrier(MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  if (is_last(on, Prepared::barrier, {})) [[likely]]
    return again(Function::barrier, comm, *on, Prepared::barrier);
  if (on == nullptr) return pass_on(Function::barrier, Outcome::communicator, comm, [=] { return PMPI_Barrier(comm); });
  count(Function::barrier, Outcome::taken_over);
  return result_of(comm, run_barrier(*on, {}, nullptr), -1);
}

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* recv, int count, MPI_Datatype type,
                  MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  const Allgather call({send, send_count, send_type},
                       {.memory = recv, .ranks = ranks_of(on), .type = type, .count = count});
  if (is_last(on, Prepared::allgather, prepared_of(call))) [[likely]]
    return again(Function::allgather, comm, *on, Prepared::allgather);
  return other_allgather(on, call, comm);
}

}  // extern "C"
