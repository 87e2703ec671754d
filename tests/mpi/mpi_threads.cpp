// MPI_THREAD_MULTIPLE: threads of each rank, each in collectives of its own communicator, in no order among them; one
// more in messages around the ring. mpi_threads CALLS [VICTIM]: that rank kills itself half-way, and the ring isn't
// run.
#include <mpi.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  int provided = 0, rank = 0, size = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (provided != MPI_THREAD_MULTIPLE) {
    std::printf("VERDICT %d: no threads\n", rank);
    MPI_Finalize();
    return 0;
  }
  const int calls = argc > 1 ? std::atoi(argv[1]) : 1000, victim = argc > 2 ? std::atoi(argv[2]) : -1;
  const std::uint64_t all = (std::uint64_t{1} << size) - 1, survivors = victim < 0 ? all : all & ~(1ULL << victim);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    threads.emplace_back([=, &wrong]() mutable {
      std::uint64_t last = all;
      for (int i = 0; i < calls; ++i) {
        if (rank == victim && thread == 1 && i == calls / 2) std::raise(SIGKILL);
        const std::uint64_t mine = std::uint64_t{1} << rank;
        std::uint64_t sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, comm);
        if (sum != all && sum != survivors) ++wrong;
        if ((sum & ~last) != 0) ++wrong;
        last = sum;
        if (i % 10 == thread) MPI_Barrier(comm);
      }
    });
  }
  if (victim < 0)
    for (int i = 0; i < calls; ++i) {
      int got = -1;
      MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      if (got != i) ++wrong;
    }
  for (std::thread& thread : threads) thread.join();
  MPI_Finalize();
  std::printf("VERDICT %d: %s\n", rank, wrong == 0 ? "right" : "wrong");
  return wrong == 0 ? 0 : 1;
}
