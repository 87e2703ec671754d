#include "mpi/calls.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "mpi/datatypes.hpp"
#include "mpi/memory.hpp"

namespace ucft::mpi {

namespace {

// none: why_not says why. elements: of a rank.
Way way_of(const Communicator& comm, std::int64_t elements, MPI_Datatype type, MPI_Op op, Outcome& why_not) {
  why_not = Outcome::arguments;
  if (elements < 0 || type == MPI_DATATYPE_NULL || op == MPI_OP_NULL) return Way::none;
  const auto count = static_cast<std::uint64_t>(elements);
  const Element* element = find_element(type);
  const Operation* operation = find_operation(op);
  const bool is_allowed =
      operation == nullptr || (element != nullptr && operation->takes[static_cast<std::size_t>(element->family)]);
  if (operation != nullptr && is_allowed && element->has_dtype) {
    why_not = Outcome::length;
    return count * element->bytes <= bytes_limit ? Way::direct : Way::none;
  }
  why_not = Outcome::operation;
  if (op == MPI_REPLACE || op == MPI_NO_OP) return Way::none;
  why_not = Outcome::datatype;  // MPI says what is wrong with it
  if (!is_allowed) return Way::none;
  why_not = Outcome::length;
  return count * packed_bytes(1, type) * static_cast<std::uint64_t>(comm.size) <= bytes_limit ? Way::by_rows
                                                                                              : Way::none;
}

ucft_operator_t operator_of(MPI_Op op) { return UCFT_OPERATOR_INIT(find_operation(op)->op); }

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

std::shared_ptr<const KeptBlocks> keep(const Blocks& blocks) { return std::make_shared<const KeptBlocks>(blocks); }

// ---- reductions by rows ---------------------------------------------------------------------------------------------

// Contributions of ranks, packed. Elements first .. first + count of the rows of some ranks are reduced.
struct Rows {
  std::uint64_t bytes;  // of a row
  int first, count;
  std::shared_ptr<const KeptBlocks> kept;  // the type
  MPI_Op op;
  void* to;

  // a0 op (a1 op (... op an)): MPI_Reduce_local makes b of (a, b). Without a row `to` is left as it is.
  void reduce(const std::vector<std::byte>& rows, const std::vector<int>& of) const {
    const MPI_Datatype type = kept->get().type;
    if (of.empty() || packed_bytes(count, type) == 0) return;
    const auto row = [&](int rank) {
      return rows.data() + static_cast<std::uint64_t>(rank) * bytes + packed_bytes(first, type);
    };
    unpack(row(of.back()), to, count, type);
    Typed other(count, type);
    for (std::size_t i = of.size() - 1; i-- > 0;) {
      unpack(row(of[i]), other.get(), count, type);
      PMPI_Reduce_local(other.get(), to, count, type, op);
    }
  }
};

// Makes an allgather of `elements` of each rank. Of these a rank reduces `count` from `first` on, of the ranks that
// choose(present) leaves. choose returns the status of the call.
template <class Choose>
ucft_status_t make_rows(const Communicator& comm, const Combining& call, int elements, int first, int count,
                        Collective& collective, Choose choose) {
  const std::uint64_t bytes = packed_bytes(elements, call.type);
  collective.sent.resize(bytes);
  collective.received.resize(bytes * static_cast<std::uint64_t>(comm.size));
  pack(call.input(), elements, call.type, collective.sent.data());
  collective.want_missing(comm.size);
  collective.uses_operator = true;
  const Rows rows{bytes, first, count, keep(Blocks{.type = call.type}), call.op, call.recv};
  collective.deliver = [&comm, &collective, rows, choose] {
    std::vector<int> of = present_in(comm, collective.result);
    const ucft_status_t status = choose(of);
    if (status == UCFT_OK) rows.reduce(collective.received, of);
    return status;
  };
  return ucft_allgather_init(comm.handle, collective.sent.data(), collective.received.data(), bytes, UCFT_UINT8,
                             nullptr, &collective.request);
}

bool has(const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

// Bytes of each rank's block, and where they lie.
struct Lengths {
  explicit Lengths(int ranks) : bytes(static_cast<std::size_t>(ranks)), places(bytes.size()) {}
  explicit Lengths(const Blocks& blocks) : Lengths(blocks.ranks) {
    for (int rank = 0; rank < blocks.ranks; ++rank) set(rank, blocks.bytes_of(rank), blocks.place_of(rank));
  }
  void set(int rank, std::uint64_t length, std::ptrdiff_t place) {
    bytes[static_cast<std::size_t>(rank)] = length;
    places[static_cast<std::size_t>(rank)] = static_cast<std::uint64_t>(place);
  }
  // One behind the other, as they are packed.
  void put_together() { std::exclusive_scan(bytes.begin(), bytes.end(), places.begin(), std::uint64_t{0}); }
  std::uint64_t all() const { return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}); }

  std::vector<std::uint64_t> bytes, places;
};

// deliver: unpacks the blocks of those that are in the result, which lie one behind the other in `received`. Not that
// of `except`.
void unpack_at_end(const Communicator& comm, const Blocks& get, Collective& collective, int except = -1) {
  collective.want_missing(comm.size);
  collective.deliver = [&comm, &collective, except, kept = keep(get)] {
    Lengths lengths(kept->get());
    lengths.put_together();
    for (const int rank : present_in(comm, collective.result))
      if (rank != except)
        kept->get().unpack_from(collective.received.data() + lengths.places[static_cast<std::size_t>(rank)], rank);
    return UCFT_OK;
  };
}

// A rank's own data as bytes: where they are, or packed.
const void* bytes_of(const Single& give, Collective& collective) {
  if (give.is_plain()) return or_in_place(give.memory);
  collective.sent = give.blocks().packed();
  return collective.sent.data();
}

// The same of what it gets alone.
void* room_for(const Single& get, Collective& collective) {
  if (get.is_in_place()) return const_cast<void*>(UCFT_IN_PLACE);
  if (get.is_plain()) return const_cast<void*>(get.memory);
  collective.received.resize(get.blocks().bytes());
  collective.deliver = [&collective, kept = keep(get.blocks())] {
    kept->get().unpack_from(collective.received.data(), 0);
    return UCFT_OK;
  };
  return collective.received.data();
}

}  // namespace

int check_is_committed(MPI_Comm comm, MPI_Datatype type) {
  return type == MPI_DATATYPE_NULL || find_element(type) != nullptr || world.lost_by >= 0
             ? MPI_SUCCESS
             : PMPI_Send(&type, 1, type, MPI_PROC_NULL, 0, comm);
}

void Collective::want_missing(int ranks) {
  missing.resize(static_cast<std::size_t>(ranks));
  result.missing = missing.data();
  result.missing_capacity = ranks;
}

ucft_status_t Collective::end(ucft_status_t status) {
  {
    const Turn turn;
    ucft_request_result(request, &result);
    ucft_request_free(request);
  }
  request = UCFT_REQUEST_NULL;
  return status == UCFT_OK && deliver ? deliver() : status;
}

// ---- reductions -----------------------------------------------------------------------------------------------------

Outcome Combining::outcome(const Communicator& comm) const {
  Outcome why_not = Outcome::arguments;
  return way(comm, why_not) == Way::none ? why_not : Outcome::taken_over;
}

bool Combining::is_direct(const Communicator& comm) const {
  Outcome why_not = Outcome::arguments;
  return way(comm, why_not) == Way::direct;
}

Way Reduction::way(const Communicator& comm, Outcome& why_not) const {
  why_not = Outcome::arguments;
  if (root >= comm.size || (send == MPI_IN_PLACE && root >= 0 && root != comm.rank)) return Way::none;
  return way_of(comm, count, type, op, why_not);
}

ucft_status_t Reduction::make_directly(const Communicator& comm, ucft_request_h* request) const {
  const ucft_operator_t with = operator_of(op);
  const ucft_dtype_t dtype = find_element(type)->dtype;
  const auto elements = static_cast<std::uint64_t>(count);
  if (root < 0)
    return ucft_allreduce_init(comm.handle, or_in_place(send), recv, elements, dtype, &with, nullptr, request);
  void* const result = root == comm.rank ? recv : nullptr;  // elsewhere it may be anything
  return ucft_reduce_init(comm.handle, or_in_place(send), result, elements, dtype, &with, root, nullptr, request);
}

ucft_status_t Reduction::make(const Communicator& comm, Collective& collective) const {
  collective.root = root;
  if (is_direct(comm)) return make_directly(comm, &collective.request);
  return make_rows(comm, *this, count, 0, count, collective, [root = root, me = comm.rank](std::vector<int>& of) {
    if (root >= 0 && !has(of, root)) return UCFT_ERR_ROOT_FAILED;
    if (root >= 0 && root != me) of.clear();
    return UCFT_OK;
  });
}

std::int64_t ReduceScatter::elements_before(int rank) const {
  if (counts == nullptr) return std::int64_t{rank} * count;
  return std::accumulate(counts, counts + rank, std::int64_t{0});
}

Way ReduceScatter::way(const Communicator& comm, Outcome& why_not) const {
  why_not = Outcome::arguments;
  for (int rank = 0; rank < comm.size; ++rank)
    if ((counts == nullptr ? count : counts[rank]) < 0) return Way::none;
  return way_of(comm, elements_before(comm.size), type, op, why_not);
}

ucft_status_t ReduceScatter::make(const Communicator& comm, Collective& collective) const {
  if (!is_direct(comm)) {
    const int all = static_cast<int>(elements_before(comm.size)), first = static_cast<int>(elements_before(comm.rank));
    return make_rows(comm, *this, all, first, counts == nullptr ? count : counts[comm.rank], collective,
                     [](std::vector<int>&) { return UCFT_OK; });
  }
  const ucft_operator_t with = operator_of(op);
  const ucft_dtype_t dtype = find_element(type)->dtype;
  if (counts == nullptr)
    return ucft_reduce_scatter_init(comm.handle, or_in_place(send), recv, static_cast<std::uint64_t>(count), dtype,
                                    &with, nullptr, &collective.request);
  const std::vector<std::uint64_t> lengths(counts, counts + comm.size);
  return ucft_reduce_scatterv_init(comm.handle, or_in_place(send), recv, lengths.data(), dtype, &with, nullptr,
                                   &collective.request);
}

Way Scan::way(const Communicator& comm, Outcome& why_not) const { return way_of(comm, count, type, op, why_not); }

ucft_status_t Scan::make(const Communicator& comm, Collective& collective) const {
  if (!is_direct(comm))
    return make_rows(comm, *this, count, 0, count, collective,
                     [end = is_exclusive ? comm.rank : comm.rank + 1](std::vector<int>& of) {
                       std::erase_if(of, [&](int rank) { return rank >= end; });
                       return UCFT_OK;
                     });
  const ucft_operator_t with = operator_of(op);
  const auto make = is_exclusive ? ucft_exscan_init : ucft_scan_init;
  return make(comm.handle, or_in_place(send), recv, static_cast<std::uint64_t>(count), find_element(type)->dtype, &with,
              nullptr, &collective.request);
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

int Allgather::check(MPI_Comm on, const Communicator&) const {
  const int error = give.check(on);
  return error != MPI_SUCCESS ? error : check_is_committed(on, get.type);
}

Outcome Allgather::outcome(const Communicator&) const {
  if (!give.is_valid() || !get.are_valid()) return Outcome::arguments;
  return get.bytes() <= bytes_limit ? Outcome::taken_over : Outcome::length;
}

ucft_status_t Allgather::make(const Communicator& comm, Collective& collective) const {
  Lengths lengths(get);
  const void* from = nullptr;
  if (give.is_in_place() && !get.are_plain()) {
    collective.sent.resize(get.bytes_of(comm.rank));
    pack(get.at(comm.rank), get.count_of(comm.rank), get.type_of(comm.rank), collective.sent.data());
    from = collective.sent.data();
  } else {
    from = bytes_of(give, collective);
  }
  void* to = get.memory;
  if (!get.are_plain()) {
    lengths.put_together();
    collective.received.resize(lengths.all());
    to = collective.received.data();
    unpack_at_end(comm, get, collective);
  }
  if (get.counts == nullptr)
    return ucft_allgather_init(comm.handle, from, to, get.bytes_of(0), UCFT_UINT8, nullptr, &collective.request);
  return ucft_allgatherv_init(comm.handle, from, to, lengths.bytes.data(), lengths.places.data(), UCFT_UINT8, nullptr,
                              &collective.request);
}

namespace {

// An exchange in which ranks give and get these blocks, as bytes. A rank that gives nothing has no memory.
struct Exchange {
  const void* give;
  Lengths give_lengths;
  void* get;
  Lengths get_lengths;

  ucft_status_t make(const Communicator& comm, Collective& collective) const {
    return ucft_alltoallv_init(comm.handle, give, give_lengths.bytes.data(), give_lengths.places.data(), get,
                               get_lengths.bytes.data(), get_lengths.places.data(), UCFT_UINT8, nullptr,
                               &collective.request);
  }
};

}  // namespace

// The other side is described at the root alone.
int Gather::check(MPI_Comm on, const Communicator& comm) const {
  const int error = give.check(on);
  return error != MPI_SUCCESS || comm.rank != root ? error : check_is_committed(on, get.type);
}

int Scatter::check(MPI_Comm on, const Communicator& comm) const {
  const int error = get.check(on);
  return error != MPI_SUCCESS || comm.rank != root ? error : check_is_committed(on, give.type);
}

Outcome Gather::outcome(const Communicator& comm) const {
  if (root < 0 || root >= comm.size || !give.is_valid() || (give.is_in_place() && comm.rank != root))
    return Outcome::arguments;
  return comm.rank != root || get.are_valid() ? Outcome::taken_over : Outcome::arguments;
}

ucft_status_t Gather::make(const Communicator& comm, Collective& collective) const {
  collective.root = root;
  const bool is_root = comm.rank == root, is_packed = is_root && !get.are_plain();
  Lengths got(is_root ? Lengths(get) : Lengths(comm.size));
  if (is_packed) {
    got.put_together();
    collective.received.resize(got.all());
    unpack_at_end(comm, get, collective, give.is_in_place() ? root : -1);
  }
  void* const to = !is_root ? nullptr : is_packed ? collective.received.data() : get.memory;
  if (!get.has_lengths) {
    const std::uint64_t bytes = is_root ? get.bytes_of(root) : give.blocks().bytes();
    return ucft_gather_init(comm.handle, bytes_of(give, collective), to, bytes, UCFT_UINT8, root, nullptr,
                            &collective.request);
  }
  Exchange exchange{nullptr, Lengths(comm.size), to, std::move(got)};
  if (give.is_in_place()) {
    exchange.get_lengths.set(root, 0, 0);
  } else {
    exchange.give = bytes_of(give, collective);
    exchange.give_lengths.set(root, give.blocks().bytes(), 0);
  }
  return exchange.make(comm, collective);
}

Outcome Scatter::outcome(const Communicator& comm) const {
  if (root < 0 || root >= comm.size || !get.is_valid() || (get.is_in_place() && comm.rank != root))
    return Outcome::arguments;
  return comm.rank != root || give.are_valid() ? Outcome::taken_over : Outcome::arguments;
}

ucft_status_t Scatter::make(const Communicator& comm, Collective& collective) const {
  collective.root = root;
  const bool is_root = comm.rank == root;
  const void* from = nullptr;
  Lengths given(is_root ? Lengths(give) : Lengths(comm.size));
  if (is_root && !give.are_plain()) {
    given.put_together();
    collective.sent = give.packed();
    from = collective.sent.data();
  } else if (is_root) {
    from = give.memory;
  }
  if (!give.has_lengths) {
    const std::uint64_t bytes = is_root ? give.bytes_of(root) : get.blocks().bytes();
    return ucft_scatter_init(comm.handle, from, room_for(get, collective), bytes, UCFT_UINT8, root, nullptr,
                             &collective.request);
  }
  Exchange exchange{from, std::move(given), nullptr, Lengths(comm.size)};
  if (get.is_in_place()) {
    exchange.give_lengths.set(root, 0, 0);
  } else {
    exchange.get = room_for(get, collective);
    exchange.get_lengths.set(root, get.blocks().bytes(), 0);
  }
  collective.want_missing(comm.size);
  collective.deliver = [&comm, &collective, root = root, then = std::move(collective.deliver)] {
    if (!has(present_in(comm, collective.result), root)) return UCFT_ERR_ROOT_FAILED;
    return then ? then() : UCFT_OK;
  };
  return exchange.make(comm, collective);
}

int Alltoall::check(MPI_Comm on, const Communicator&) const {
  for (const Blocks* each : {&give, &get})
    for (int rank = 0; rank < (each->types == nullptr ? 1 : each->ranks) && !(each == &give && is_in_place()); ++rank)
      if (const int error = check_is_committed(on, each->type_of(rank)); error != MPI_SUCCESS) return error;
  return MPI_SUCCESS;
}

Outcome Alltoall::outcome(const Communicator&) const {
  return get.are_valid() && (is_in_place() || give.are_valid()) ? Outcome::taken_over : Outcome::arguments;
}

// In place what is packed is exchanged where it is packed.
ucft_status_t Alltoall::make(const Communicator& comm, Collective& collective) const {
  Exchange exchange{UCFT_IN_PLACE, Lengths(comm.size), get.memory, Lengths(get)};
  if (!get.are_plain()) {
    exchange.get_lengths.put_together();
    if (is_in_place())
      collective.received = get.packed();
    else
      collective.received.resize(exchange.get_lengths.all());
    exchange.get = collective.received.data();
    unpack_at_end(comm, get, collective);
  }
  if (!is_in_place()) {
    exchange.give_lengths = Lengths(give);
    exchange.give = give.memory;
    if (!give.are_plain()) {
      exchange.give_lengths.put_together();
      collective.sent = give.packed();
      exchange.give = collective.sent.data();
    }
  }
  if (get.has_lengths) return exchange.make(comm, collective);
  return ucft_alltoall_init(comm.handle, exchange.give, exchange.get, get.bytes_of(0), UCFT_UINT8, nullptr,
                            &collective.request);
}

Outcome Broadcast::outcome(const Communicator& comm) const {
  if (count < 0 || type == MPI_DATATYPE_NULL || root < 0 || root >= comm.size) return Outcome::arguments;
  return packed_bytes(count, type) <= bytes_limit ? Outcome::taken_over : Outcome::length;
}

ucft_status_t Broadcast::make(const Communicator& comm, Collective& collective) const {
  const Single all{buffer, count, type};
  collective.root = root;
  void* memory = buffer;
  if (!all.is_plain() && comm.rank == root) {
    collective.sent = all.blocks().packed();
    memory = collective.sent.data();
  } else if (!all.is_plain()) {
    memory = room_for(all, collective);
  }
  return ucft_broadcast_init(comm.handle, memory, packed_bytes(count, type), UCFT_UINT8, root, nullptr,
                             &collective.request);
}

}  // namespace ucft::mpi
