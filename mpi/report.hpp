// Counts of calls per function, blocking or not: taken over by ucft, or passed on to MPI, and why. UCFT_MPI_INFO=y
// prints them in MPI_Finalize, on the lowest rank that lives. UCFT_MPI_INFO=json prints them as one JSON object a line.
#pragma once

#include <atomic>
#include <cstdint>

namespace ucft::mpi {

enum class Function {
  allreduce,
  reduce,
  bcast,
  barrier,
  allgather,
  allgatherv,
  gather,
  gatherv,
  scatter,
  scatterv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
  comm_dup,
  comm_split,
  comm_agree,
  comm_shrink,
  point_to_point,
  end
};

// taken_over, or the reason why not. dead: neither was called; it was an MPI error, as a rank that it needs is dead.
enum class Outcome { taken_over, communicator, datatype, operation, length, arguments, dead, end };

using Counters = std::atomic<std::uint64_t>[static_cast<int>(Function::end)][static_cast<int>(Outcome::end)];
extern Counters counters;

// An increment. With MPI_THREAD_MULTIPLE calls that two threads count at once may be counted as one.
inline void count(Function function, Outcome outcome) {
  auto& counter = counters[static_cast<int>(function)][static_cast<int>(outcome)];
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

const char* name_of(Function function);

// To stderr, in the form that UCFT_MPI_INFO asks for, if it does.
void print_report();

}  // namespace ucft::mpi
