// The six collectives that ucft has. Whether a call is taken over must be the same on all its ranks. MPI lets ranks
// describe one message by different types, so broadcasts and allgathers are taken over for any type (as bytes, packed
// if need be). Of reductions MPI wants the same count, type and operator everywhere, so these decide.
//
// A reduction that ucft has no operator for (a user's function, MPI_LONG_DOUBLE, pairs with gaps) is an allgather of
// the contributions. Every rank then reduces them in the order of the ranks by MPI_Reduce_local. That is right for any
// type and for operators that don't commute, with the same contributions on all survivors. It costs n times the bytes,
// so it has a limit (`length`).
#include <algorithm>
#include <numeric>
#include <vector>

#include "mpi/communicators.hpp"
#include "mpi/errors.hpp"
#include "mpi/memory.hpp"
#include "mpi/report.hpp"

using namespace ucft::mpi;

namespace {

constexpr std::uint64_t bytes_limit = (std::uint64_t{1} << 31) - 1;  // of an operation of ucft's, all blocks together

const void* or_in_place(const void* send) { return send == MPI_IN_PLACE ? UCFT_IN_PLACE : send; }

// ---- one operation --------------------------------------------------------------------------------------------------

// MPI moves messages only in calls of it. A message of this rank may be what others wait for before they come here.
void let_mpi_go_on() {
  if (world.lost_by >= 0) return;
  int found = 0;
  PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
}

constexpr std::uint64_t shortest_us = 20, longest_us = 1000;  // between two turns of MPI

// As far as it goes until MPI's first turn; where there are threads, until that of another one.
[[gnu::always_inline]] inline ucft_status_t post(ucft_request_h request) {
  const Turn turn;
  if (!world.threaded) return ucft_post_and_wait(request, shortest_us);
  const ucft_status_t status = ucft_post(request);
  return status == UCFT_OK ? ucft_test(request) : status;
}

// The rest of a call, if its operation has not ended, or could not be posted yet.
[[gnu::noinline]] ucft_status_t go_on(ucft_request_h request, ucft_status_t status) {
  while (status == UCFT_ERR_BUSY) {
    look_for_deaths();
    let_mpi_go_on();
    status = post(request);
  }
  int quick_looks = world.threaded ? 256 : 0;
  std::uint64_t slice_us = shortest_us;
  while (status == UCFT_INPROGRESS || status == UCFT_ERR_TIMED_OUT) {
    const bool is_quick = quick_looks > 0;
    if (is_quick) {
      --quick_looks;
    } else {
      let_mpi_go_on();
      slice_us = std::min(2 * slice_us, longest_us);
    }
    const Turn turn;
    const bool others_wait = world.waiting.load(std::memory_order_relaxed) > 0;
    status = is_quick || others_wait ? ucft_test(request) : ucft_wait(request, slice_us);
  }
  return status;
}

// Posts it, and sees it to its end, with turns for other threads, and for MPI where it takes longer.
[[gnu::always_inline]] inline ucft_status_t complete(ucft_request_h request) {
  const ucft_status_t status = post(request);
  return status == UCFT_OK ? UCFT_OK : go_on(request, status);
}

// init makes the request of a call that is not repeated.
template <class Init>
ucft_status_t run_once(ucft_result_t* result, Init init) {
  ucft_request_h request = UCFT_REQUEST_NULL;
  {
    const Turn turn;
    if (const ucft_status_t status = init(&request); status != UCFT_OK) return status;
  }
  const ucft_status_t status = complete(request);
  const Turn turn;
  if (result != nullptr) ucft_request_result(request, result);
  ucft_request_free(request);
  return status;
}

// init makes the request of `call`, if the last one of its kind was another.
template <class Init>
ucft_status_t run(const Communicator& comm, Prepared::Kind kind, const Prepared& call, Init init,
                  ucft_result_t* result = nullptr) {
  Prepared& last = comm.prepared[kind];
  if (!last.is_of(call)) {
    const Turn turn;
    if (last.request != UCFT_REQUEST_NULL) ucft_request_free(last.request);
    last = call;
    if (const ucft_status_t status = init(&last.request); status != UCFT_OK) {
      last.request = UCFT_REQUEST_NULL;
      return status;
    }
  }
  const ucft_status_t status = complete(last.request);
  if (result != nullptr) {
    const Turn turn;
    ucft_request_result(last.request, result);
  }
  return status;
}

// call: the caller's own arguments, or bytes of ours.
Prepared bytes_to(const void* send, void* recv, std::uint64_t bytes) {
  const auto count = static_cast<std::int64_t>(bytes);
  return {.send = send, .recv = recv, .count = count, .send_count = count};
}

Prepared prepared_broadcast(void* buffer, int count, MPI_Datatype type, int root) {
  return {.recv = buffer, .count = count, .type = type, .root = root};
}

ucft_status_t broadcast(const Communicator& comm, const Prepared& call, std::uint64_t bytes) {
  return run(comm, Prepared::broadcast, call, [&](ucft_request_h* request) {
    return ucft_broadcast_init(comm.handle, call.recv, bytes, UCFT_UINT8, static_cast<std::int32_t>(call.root), nullptr,
                               request);
  });
}

ucft_status_t allgather(const Communicator& comm, const Prepared& call, std::uint64_t bytes, ucft_result_t* result) {
  return run(
      comm, Prepared::allgather, call,
      [&](ucft_request_h* request) {
        return ucft_allgather_init(comm.handle, or_in_place(call.send), call.recv, bytes, UCFT_UINT8, nullptr, request);
      },
      result);
}

ucft_status_t allgatherv(const Communicator& comm, const void* send, void* recv, const std::uint64_t* bytes,
                         const std::uint64_t* places, ucft_result_t* result) {
  return run_once(result, [&](ucft_request_h* request) {
    return ucft_allgatherv_init(comm.handle, send, recv, bytes, places, UCFT_UINT8, nullptr, request);
  });
}

// The same call as the last one of its kind goes again.
[[gnu::always_inline]] inline bool is_last(const Communicator* comm, Prepared::Kind kind, const Prepared& call) {
  return comm != nullptr && comm->prepared[kind].is_of(call);
}
[[gnu::always_inline]] inline int again(Function function, MPI_Comm on, const Communicator& comm, Prepared::Kind kind) {
  count(function, Outcome::taken_over);
  const Prepared& last = comm.prepared[kind];
  return raise_status(on, complete(last.request), static_cast<int>(last.root));
}

// MPI has the call, unless a rank is dead that it would wait for.
template <class Pmpi>
int pass_on(Function function, Outcome why, MPI_Comm comm, Pmpi pmpi) {
  const int dead = dead_member(comm);
  count(function, dead >= 0 ? Outcome::dead : why);
  const Inside inside(name_of(function));
  return dead >= 0 ? raise_death(comm, dead) : pmpi();
}

// MPI_SUCCESS, or MPI's own error of a type that was never committed: comm's error handler has been called then. MPI is
// asked by a message to MPI_PROC_NULL, whose memory is not read. It has one element: of none MPICH doesn't look at the
// type either. Predefined types need no question.
int check_is_committed(MPI_Comm comm, MPI_Datatype type) {
  return find_element(type) != nullptr ? MPI_SUCCESS : PMPI_Send(&type, 1, type, MPI_PROC_NULL, 0, comm);
}

// ---- reductions -----------------------------------------------------------------------------------------------------

struct Reduction {
  const void* send;
  void* recv;
  int count;
  MPI_Datatype type;
  MPI_Op op;
  int root;  // -1: allreduce
  bool in_place() const { return send == MPI_IN_PLACE; }
  const void* input() const { return in_place() ? recv : send; }
};

enum class Way { direct, by_rows, none };

// none: why_not says why. The same on all ranks.
Way way_of(const Communicator* comm, const Reduction& call, Outcome& why_not) {
  why_not = comm == nullptr ? Outcome::communicator : Outcome::arguments;
  if (comm == nullptr || call.count < 0 || call.type == MPI_DATATYPE_NULL || call.op == MPI_OP_NULL ||
      call.root >= comm->size || (call.in_place() && call.root >= 0 && call.root != comm->rank))
    return Way::none;
  const auto count = static_cast<std::uint64_t>(call.count);
  const Element* element = find_element(call.type);
  const Operation* operation = find_operation(call.op);
  if (operation != nullptr && element != nullptr && operation->takes[static_cast<std::size_t>(element->family)] &&
      element->has_dtype) {
    why_not = Outcome::length;
    return count * element->bytes <= bytes_limit ? Way::direct : Way::none;
  }
  why_not = Outcome::operation;
  if (call.op == MPI_REPLACE || call.op == MPI_NO_OP) return Way::none;
  why_not = Outcome::datatype;  // MPI says what is wrong with it
  if (operation != nullptr && (element == nullptr || !operation->takes[static_cast<std::size_t>(element->family)]))
    return Way::none;
  why_not = Outcome::length;
  return packed_bytes(call.count, call.type) * static_cast<std::uint64_t>(comm->size) <= bytes_limit ? Way::by_rows
                                                                                                     : Way::none;
}

Prepared prepared_of(const Reduction& call) {
  return {
      .send = call.send, .recv = call.recv, .count = call.count, .type = call.type, .op = call.op, .root = call.root};
}

ucft_status_t reduce_directly(const Communicator& comm, const Reduction& call) {
  const ucft_dtype_t dtype = find_element(call.type)->dtype;
  const ucft_op_t op = find_operation(call.op)->op;
  const void* send = or_in_place(call.send);
  const auto count = static_cast<std::uint64_t>(call.count);
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  if (call.root < 0)
    return run(comm, Prepared::allreduce, prepared_of(call), [&](ucft_request_h* request) {
      return ucft_allreduce_init(comm.handle, send, call.recv, count, dtype, &with, nullptr, request);
    });
  void* recv = call.root == comm.rank ? call.recv : nullptr;  // elsewhere it may be anything
  return run(comm, Prepared::reduce, prepared_of(call), [&](ucft_request_h* request) {
    return ucft_reduce_init(comm.handle, send, recv, count, dtype, &with, call.root, nullptr, request);
  });
}

// a0 op (a1 op (... op an)) of the rows that are there: MPI_Reduce_local makes b of (a, b).
void reduce_rows(const Reduction& call, const std::vector<std::byte>& rows, const std::vector<int>& present) {
  const std::uint64_t bytes = packed_bytes(call.count, call.type);
  const auto row = [&](int rank) { return rows.data() + static_cast<std::uint64_t>(rank) * bytes; };
  unpack(row(present.back()), call.recv, call.count, call.type);
  Typed other(call.count, call.type);
  for (std::size_t i = present.size() - 1; i-- > 0;) {
    unpack(row(present[i]), other.get(), call.count, call.type);
    PMPI_Reduce_local(other.get(), call.recv, call.count, call.type, call.op);
  }
}

// Ranks of comm less those that the result misses, ascending.
std::vector<int> present_in(const Communicator& comm, const ucft_result_t& result) {
  std::vector<int> present;
  for (int rank = 0, next = 0; rank < comm.size; ++rank)
    if (next < result.missing_count && result.missing[next] == rank)
      ++next;
    else
      present.push_back(rank);
  return present;
}

// An allgather's result with room for all that may be missing.
struct Blocks {
  explicit Blocks(const Communicator& comm) : missing(static_cast<std::size_t>(comm.size)) {
    result.missing = missing.data();
    result.missing_capacity = comm.size;
  }
  std::vector<std::int32_t> missing;
  ucft_result_t result = UCFT_RESULT_INIT;
};

ucft_status_t reduce_by_rows(const Communicator& comm, const Reduction& call) {
  const std::uint64_t bytes = packed_bytes(call.count, call.type);
  std::vector<std::byte> rows(bytes * static_cast<std::uint64_t>(comm.size));
  std::vector<std::byte> own(bytes);
  pack(call.input(), call.count, call.type, own.data());
  Blocks blocks(comm);
  const ucft_status_t status = allgather(comm, bytes_to(own.data(), rows.data(), bytes), bytes, &blocks.result);
  if (status != UCFT_OK) return status;
  const std::vector<int> present = present_in(comm, blocks.result);
  const auto there = [&](int rank) { return std::find(present.begin(), present.end(), rank) != present.end(); };
  if (call.root >= 0 && !there(call.root)) return UCFT_ERR_ROOT_FAILED;
  if ((call.root < 0 || call.root == comm.rank) && bytes > 0) reduce_rows(call, rows, present);
  return UCFT_OK;
}

template <class Pmpi>
int reduce(Function function, MPI_Comm on, const Communicator* comm, const Reduction& call, Pmpi pmpi) {
  Outcome why_not;
  if (comm != nullptr && call.type != MPI_DATATYPE_NULL)
    if (const int error = check_is_committed(on, call.type); error != MPI_SUCCESS) return error;
  const Way way = way_of(comm, call, why_not);
  if (way == Way::none) return pass_on(function, why_not, on, pmpi);
  count(function, Outcome::taken_over);
  const ucft_status_t status = way == Way::direct ? reduce_directly(*comm, call) : reduce_by_rows(*comm, call);
  return raise_status(on, status, call.root);
}

// Not the same call as the last one.
[[gnu::noinline]] int other_allreduce(const Communicator* on, const void* send, void* recv, int count,
                                      MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduce(Function::allreduce, comm, on, {send, recv, count, type, op, -1},
                [=] { return PMPI_Allreduce(send, recv, count, type, op, comm); });
}
[[gnu::noinline]] int other_reduce(const Communicator* on, const void* send, void* recv, int count, MPI_Datatype type,
                                   MPI_Op op, int root, MPI_Comm comm) {
  const auto pmpi = [=] { return PMPI_Reduce(send, recv, count, type, op, root, comm); };
  if (root < 0) return pass_on(Function::reduce, Outcome::arguments, comm, pmpi);
  return reduce(Function::reduce, comm, on, {send, recv, count, type, op, root}, pmpi);
}

// ---- allgathers -----------------------------------------------------------------------------------------------------

// Where each rank's block goes: recv, counts and places in elements of type.
struct Gathered {
  const void* send;
  int send_count;
  MPI_Datatype send_type;
  void* recv;
  const int* counts;  // nullptr: `count` of each, one after the other
  int count;
  const int* places;
  MPI_Datatype type;

  int count_of(int rank) const { return counts == nullptr ? count : counts[rank]; }
  // In elements.
  std::int64_t place_of(int rank) const {
    return counts == nullptr ? std::int64_t{rank} * count : std::int64_t{places[rank]};
  }
};

Prepared prepared_of(const Gathered& call) {
  return {.send = call.send,
          .recv = call.recv,
          .count = call.count,
          .type = call.type,
          .send_count = call.send_count,
          .send_type = call.send_type};
}

Outcome why_not_gathered(const Communicator* comm, const Gathered& call) {
  if (comm == nullptr) return Outcome::communicator;
  if (call.type == MPI_DATATYPE_NULL) return Outcome::arguments;
  if (call.send != MPI_IN_PLACE && (call.send_type == MPI_DATATYPE_NULL || call.send_count < 0))
    return Outcome::arguments;
  std::uint64_t all = 0;
  if (call.counts == nullptr) {
    if (call.count < 0) return Outcome::arguments;
    all = packed_bytes(call.count, call.type) * static_cast<std::uint64_t>(comm->size);
  }
  for (int rank = 0; call.counts != nullptr && rank < comm->size; ++rank) {
    if (call.count_of(rank) < 0) return Outcome::arguments;
    all += packed_bytes(call.count_of(rank), call.type);
  }
  return all <= bytes_limit ? Outcome::taken_over : Outcome::length;
}

ucft_status_t allgather_blocks(const Communicator& comm, const Gathered& call) {
  if (call.counts == nullptr && is_plain(call.type) && (call.send == MPI_IN_PLACE || is_plain(call.send_type)))
    return allgather(comm, prepared_of(call), packed_bytes(call.count, call.type), nullptr);
  const auto n = static_cast<std::size_t>(comm.size);
  std::vector<std::uint64_t> bytes(n), places(n);
  const std::int64_t extent = extent_of(call.type);
  bool direct = is_plain(call.type);
  for (int rank = 0; rank < comm.size; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    bytes[at] = packed_bytes(call.count_of(rank), call.type);
    places[at] = static_cast<std::uint64_t>(call.place_of(rank) * extent);
    direct = direct && call.place_of(rank) >= 0;
  }
  const auto block = [&](int rank) { return static_cast<std::byte*>(call.recv) + call.place_of(rank) * extent; };

  // The data that this rank gives.
  std::vector<std::byte> own;
  const void* send = or_in_place(call.send);
  if (call.send == MPI_IN_PLACE && !direct) {
    own.resize(bytes[static_cast<std::size_t>(comm.rank)]);
    pack(block(comm.rank), call.count_of(comm.rank), call.type, own.data());
    send = own.data();
  } else if (call.send != MPI_IN_PLACE && !is_plain(call.send_type)) {
    own.resize(packed_bytes(call.send_count, call.send_type));
    pack(call.send, call.send_count, call.send_type, own.data());
    send = own.data();
  }

  // Gathers the data of all ranks into recv.
  const auto gather = [&](void* recv, const std::uint64_t* there, ucft_result_t* result) {
    return call.counts == nullptr ? allgather(comm, bytes_to(send, recv, bytes[0]), bytes[0], result)
                                  : allgatherv(comm, send, recv, bytes.data(), there, result);
  };
  if (direct) return gather(call.recv, places.data(), nullptr);
  std::vector<std::byte> all(std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}));
  Blocks blocks(comm);
  const ucft_status_t status = gather(all.data(), nullptr, &blocks.result);
  if (status != UCFT_OK) return status;
  std::exclusive_scan(bytes.begin(), bytes.end(), places.begin(), std::uint64_t{0});
  for (int rank : present_in(comm, blocks.result))
    unpack(all.data() + places[static_cast<std::size_t>(rank)], block(rank), call.count_of(rank), call.type);
  return UCFT_OK;
}

template <class Pmpi>
int gather(Function function, MPI_Comm on, const Communicator* comm, const Gathered& call, Pmpi pmpi) {
  const bool sends = call.send != MPI_IN_PLACE && call.send_type != MPI_DATATYPE_NULL;
  for (MPI_Datatype type : {sends ? call.send_type : MPI_BYTE, call.type})
    if (comm != nullptr && type != MPI_DATATYPE_NULL)
      if (const int error = check_is_committed(on, type); error != MPI_SUCCESS) return error;
  const Outcome outcome = why_not_gathered(comm, call);
  if (outcome != Outcome::taken_over) return pass_on(function, outcome, on, pmpi);
  count(function, outcome);
  return raise_status(on, allgather_blocks(*comm, call), -1);
}

[[gnu::noinline]] int other_allgather(const Communicator* on, const void* send, int send_count, MPI_Datatype send_type,
                                      void* recv, int count, MPI_Datatype type, MPI_Comm comm) {
  return gather(Function::allgather, comm, on, {send, send_count, send_type, recv, nullptr, count, nullptr, type},
                [=] { return PMPI_Allgather(send, send_count, send_type, recv, count, type, comm); });
}

// ---- broadcast ------------------------------------------------------------------------------------------------------

ucft_status_t broadcast_packed(const Communicator& comm, const Prepared& call, std::uint64_t bytes) {
  std::vector<std::byte> packed(bytes);
  if (comm.rank == call.root) pack(call.recv, static_cast<int>(call.count), call.type, packed.data());
  Prepared as_bytes = bytes_to(nullptr, packed.data(), bytes);
  as_bytes.root = call.root;
  const ucft_status_t status = broadcast(comm, as_bytes, bytes);
  if (status == UCFT_OK && comm.rank != call.root)
    unpack(packed.data(), call.recv, static_cast<int>(call.count), call.type);
  return status;
}

[[gnu::noinline]] int other_broadcast(const Communicator* on, void* buffer, int count, MPI_Datatype type, int root,
                                      MPI_Comm comm) {
  const auto pmpi = [=] { return PMPI_Bcast(buffer, count, type, root, comm); };
  if (on == nullptr) return pass_on(Function::bcast, Outcome::communicator, comm, pmpi);
  if (count < 0 || type == MPI_DATATYPE_NULL || root < 0 || root >= on->size)
    return pass_on(Function::bcast, Outcome::arguments, comm, pmpi);
  if (const int error = check_is_committed(comm, type); error != MPI_SUCCESS) return error;
  const std::uint64_t bytes = packed_bytes(count, type);
  if (bytes > bytes_limit) return pass_on(Function::bcast, Outcome::length, comm, pmpi);
  ucft::mpi::count(Function::bcast, Outcome::taken_over);
  const Prepared call = prepared_broadcast(buffer, count, type, root);
  return raise_status(comm, is_plain(type) ? broadcast(*on, call, bytes) : broadcast_packed(*on, call, bytes), root);
}

}  // namespace

ucft_status_t ucft::mpi::meet(const Communicator& comm, ucft_result_t* result) {
  const ucft_status_t status = run(comm, Prepared::barrier, {}, [&](ucft_request_h* request) {
    return ucft_barrier_init(comm.handle, nullptr, request);
  });
  const Turn turn;
  if (status == UCFT_OK && result != nullptr) ucft_request_result(comm.prepared[Prepared::barrier].request, result);
  return status;
}

ucft_status_t ucft::mpi::agree_on_greatest(ucft_comm_h on, std::int32_t mine, std::int32_t& greatest) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(UCFT_MAX);
  return run_once(nullptr, [&](ucft_request_h* request) {
    return ucft_allreduce_init(on, &mine, &greatest, 1, UCFT_INT32, &with, nullptr, request);
  });
}

extern "C" {

int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  if (is_last(on, Prepared::allreduce, prepared_of(Reduction{send, recv, count, type, op, -1}))) [[likely]]
    return again(Function::allreduce, comm, *on, Prepared::allreduce);
  return other_allreduce(on, send, recv, count, type, op, comm);
}

int MPI_Reduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  if (is_last(on, Prepared::reduce, prepared_of(Reduction{send, recv, count, type, op, root}))) [[likely]]
    return again(Function::reduce, comm, *on, Prepared::reduce);
  return other_reduce(on, send, recv, count, type, op, root, comm);
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  if (is_last(on, Prepared::broadcast, prepared_broadcast(buffer, count, type, root))) [[likely]]
    return again(Function::bcast, comm, *on, Prepared::broadcast);
  return other_broadcast(on, buffer, count, type, root, comm);
}

int MPI_Barrier(MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  if (is_last(on, Prepared::barrier, {})) [[likely]]
    return again(Function::barrier, comm, *on, Prepared::barrier);
  if (on == nullptr) return pass_on(Function::barrier, Outcome::communicator, comm, [=] { return PMPI_Barrier(comm); });
  count(Function::barrier, Outcome::taken_over);
  return raise_status(comm, meet(*on, nullptr), -1);
}

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* recv, int count, MPI_Datatype type,
                  MPI_Comm comm) {
  const Communicator* on = find_communicator(comm);
  const Gathered call{send, send_count, send_type, recv, nullptr, count, nullptr, type};
  if (is_last(on, Prepared::allgather, prepared_of(call))) [[likely]]
    return again(Function::allgather, comm, *on, Prepared::allgather);
  return other_allgather(on, send, send_count, send_type, recv, count, type, comm);
}

int MPI_Allgatherv(const void* send, int send_count, MPI_Datatype send_type, void* recv, const int* counts,
                   const int* places, MPI_Datatype type, MPI_Comm comm) {
  const auto pmpi = [=] { return PMPI_Allgatherv(send, send_count, send_type, recv, counts, places, type, comm); };
  if (counts == nullptr || places == nullptr) return pass_on(Function::allgatherv, Outcome::arguments, comm, pmpi);
  return gather(Function::allgatherv, comm, find_communicator(comm),
                {send, send_count, send_type, recv, counts, 0, places, type}, pmpi);
}

}  // extern "C"
