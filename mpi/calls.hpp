// MPI's collectives as a program calls them, and how each becomes one operation of ucft. Whether a call is taken over
// must be the same on all its ranks. MPI lets ranks describe one message by different types, so what moves blocks is
// taken over for any type (as bytes, packed if need be). Of reductions MPI wants the same count, type and operator
// everywhere, so these decide.
//
// A reduction that ucft has no operator for (a user's function, MPI_LONG_DOUBLE, pairs with gaps) is an allgather of
// the contributions. Every rank then reduces them in the order of the ranks by MPI_Reduce_local. That is right for any
// type and for operators that don't commute, with the same contributions on all survivors. It costs n times the bytes,
// so it has a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "mpi/blocks.hpp"
#include "mpi/communicators.hpp"
#include "mpi/report.hpp"
#include "mpi/world.hpp"

namespace ucft::mpi {

constexpr std::uint64_t bytes_limit = (std::uint64_t{1} << 31) - 1;  // of all blocks together

inline const void* or_in_place(const void* send) { return send == MPI_IN_PLACE ? UCFT_IN_PLACE : send; }

// The operation of one call: its request, memory of ours for it, and what is left to do at its end.
struct Collective {
  ucft_request_h request = UCFT_REQUEST_NULL;
  int root = -1;                          // that an error is about, as the communicator numbers it
  std::vector<std::byte> sent, received;  // what is packed
  std::vector<std::int32_t> missing;      // room for all that may be
  ucft_result_t result = UCFT_RESULT_INIT;
  std::function<ucft_status_t()> deliver;  // after a success. Empty: all is in its place
  bool uses_operator = false;              // in deliver

  // Makes room for a result, which deliver reads.
  void want_missing(int ranks);
  // With its result, of which `missing` is filled. Returns the status of the call.
  ucft_status_t end(ucft_status_t status);
};

// The functions of one: whether ucft takes it, and how. An instance lives for one call.
class Call {
 public:
  virtual ~Call() = default;
  // MPI_SUCCESS, or MPI's own error of a type that was never committed: the error handler has been called then.
  virtual int check(MPI_Comm on, const Communicator& comm) const = 0;
  // taken_over, or why not.
  virtual Outcome outcome(const Communicator& comm) const = 0;
  // Makes the request. `collective` and what the caller has described outlive it.
  virtual ucft_status_t make(const Communicator& comm, Collective& collective) const = 0;
};

// MPI is asked by a message to MPI_PROC_NULL, whose memory is not read. It has one element: of none MPICH doesn't look
// at the type either. Predefined types need no question.
int check_is_committed(MPI_Comm comm, MPI_Datatype type);

enum class Way { direct, by_rows, none };

// A call that combines. send: or MPI_IN_PLACE.
struct Combining : Call {
  Combining(const void* send, void* recv, MPI_Datatype type, MPI_Op op) : send(send), recv(recv), type(type), op(op) {}
  int check(MPI_Comm on, const Communicator&) const final { return check_is_committed(on, type); }
  Outcome outcome(const Communicator& comm) const final;
  // none: why_not says why.
  virtual Way way(const Communicator& comm, Outcome& why_not) const = 0;
  bool is_direct(const Communicator& comm) const;
  const void* input() const { return send == MPI_IN_PLACE ? recv : send; }

  const void* send;
  void* recv;
  MPI_Datatype type;
  MPI_Op op;
};

// An allreduce; with a root >= 0 a reduce.
struct Reduction final : Combining {
  static constexpr int wrong_root = std::numeric_limits<int>::max();  // one that is negative

  Reduction(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root)
      : Combining(send, recv, type, op), count(count), root(root) {}
  ucft_status_t make(const Communicator& comm, Collective& collective) const override;
  Way way(const Communicator& comm, Outcome& why_not) const override;
  // By ucft's own operator.
  ucft_status_t make_directly(const Communicator& comm, ucft_request_h* request) const;

  int count, root;
};

struct ReduceScatter final : Combining {
  // counts: nullptr: `count` of each.
  ReduceScatter(const void* send, void* recv, const int* counts, int count, MPI_Datatype type, MPI_Op op)
      : Combining(send, recv, type, op), counts(counts), count(count) {}
  ucft_status_t make(const Communicator& comm, Collective& collective) const override;
  Way way(const Communicator& comm, Outcome& why_not) const override;

 private:
  // Of the ranks before that one.
  std::int64_t elements_before(int rank) const;

  const int* counts;
  int count;
};

struct Scan final : Combining {
  Scan(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, bool is_exclusive)
      : Combining(send, recv, type, op), count(count), is_exclusive(is_exclusive) {}
  ucft_status_t make(const Communicator& comm, Collective& collective) const override;
  Way way(const Communicator& comm, Outcome& why_not) const override;

 private:
  int count;
  bool is_exclusive;
};

// Memory that a rank gives, or gets, alone.
struct Single {
  const void* memory;  // or MPI_IN_PLACE
  int count;
  MPI_Datatype type;
  bool is_in_place() const { return memory == MPI_IN_PLACE; }
  bool is_valid() const { return is_in_place() || (count >= 0 && type != MPI_DATATYPE_NULL); }
  bool is_plain() const { return is_in_place() || mpi::is_plain(type); }
  int check(MPI_Comm on) const { return is_in_place() ? MPI_SUCCESS : check_is_committed(on, type); }
  Blocks blocks() const { return {.memory = const_cast<void*>(memory), .ranks = 1, .type = type, .count = count}; }
};

struct Allgather final : Call {
  Allgather(const Single& give, const Blocks& get) : give(give), get(get) {}
  int check(MPI_Comm on, const Communicator& comm) const override;
  Outcome outcome(const Communicator& comm) const override;
  ucft_status_t make(const Communicator& comm, Collective& collective) const override;
  bool is_plain() const { return give.is_plain() && get.are_plain(); }

  const Single give;
  const Blocks get;
};

// With lengths: gatherv. The root alone knows the counts. So it is an exchange in which only the root gets something.
struct Gather final : Call {
  Gather(const Single& give, const Blocks& get, int root) : give(give), get(get), root(root) {}
  int check(MPI_Comm on, const Communicator& comm) const override;
  Outcome outcome(const Communicator& comm) const override;
  ucft_status_t make(const Communicator& comm, Collective& collective) const override;

 private:
  const Single give;
  const Blocks get;  // at the root
  const int root;
};

// The same: an exchange in which only the root gives something.
struct Scatter final : Call {
  Scatter(const Blocks& give, const Single& get, int root) : give(give), get(get), root(root) {}
  int check(MPI_Comm on, const Communicator& comm) const override;
  Outcome outcome(const Communicator& comm) const override;
  ucft_status_t make(const Communicator& comm, Collective& collective) const override;

 private:
  const Blocks give;  // at the root
  const Single get;
  const int root;
};

struct Alltoall final : Call {
  // give.memory: or MPI_IN_PLACE. With lengths: alltoallv and alltoallw.
  Alltoall(const Blocks& give, const Blocks& get) : give(give), get(get) {}
  int check(MPI_Comm on, const Communicator& comm) const override;
  Outcome outcome(const Communicator& comm) const override;
  ucft_status_t make(const Communicator& comm, Collective& collective) const override;

 private:
  bool is_in_place() const { return give.memory == MPI_IN_PLACE; }

  const Blocks give, get;
};

struct Broadcast final : Call {
  Broadcast(void* buffer, int count, MPI_Datatype type, int root)
      : buffer(buffer), count(count), type(type), root(root) {}
  int check(MPI_Comm on, const Communicator&) const override { return check_is_committed(on, type); }
  Outcome outcome(const Communicator& comm) const override;
  ucft_status_t make(const Communicator& comm, Collective& collective) const override;

  void* buffer;
  int count;
  MPI_Datatype type;
  int root;
};

struct Barrier final : Call {
  int check(MPI_Comm, const Communicator&) const override { return MPI_SUCCESS; }
  Outcome outcome(const Communicator&) const override { return Outcome::taken_over; }
  ucft_status_t make(const Communicator& comm, Collective& collective) const override {
    return ucft_barrier_init(comm.handle, nullptr, &collective.request);
  }
};

}  // namespace ucft::mpi
