// How long after a SIGKILL the survivors have their next right result, in a loop of MPI_Allreduce. For any MPI with
// ULFM's calls: bench/studies/mpi_recovery runs it.
//
//   mpi_recovery continue|ulfm FILE VICTIM:US ...    continue: an error ends the program; ulfm: revoke, shrink, redo
//
// Each victim in turn kills itself US microseconds after the last recovery (the first: after the start), and writes the
// time into FILE before that. Each survivor prints one line: its times in us.
#include <mpi.h>
// Behind it, as Open MPI's needs it.
#include <mpi-ext.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;  // the same for all processes of a host

std::int64_t now() { return Clock::now().time_since_epoch().count(); }

struct Victim {
  int rank, after_us;
};

constexpr int count = 128;  // 1 KiB
constexpr int more_at_end = 100;

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool repairs = std::strcmp(argv[1], "ulfm") == 0;
  std::vector<Victim> victims;
  for (int i = 3; i < argc; ++i) {
    Victim& one = victims.emplace_back();
    if (std::sscanf(argv[i], "%d:%d", &one.rank, &one.after_us) != 2) return 2;
  }
  const int file = open(argv[2], O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, 4096) != 0) return 2;
  auto* const killed_at =
      static_cast<std::atomic<std::int64_t>*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);

  std::vector<double> ones(count, 1.0), sums(count);
  std::vector<std::int64_t> took;
  int living = ranks;
  for (int more = more_at_end; more > 0;) {
    if (took.size() < victims.size() && victims[took.size()].rank == rank) {
      std::thread([at = killed_at + took.size(), us = victims[took.size()].after_us] {
        std::this_thread::sleep_for(std::chrono::microseconds(us));
        *at = now();
        std::raise(SIGKILL);
      }).detach();
      victims[took.size()].rank = -1;  // it is under way
    }
    const int error = MPI_Allreduce(ones.data(), sums.data(), count, MPI_DOUBLE, MPI_SUM, comm);
    if (error != MPI_SUCCESS) {
      if (!repairs) return std::printf("rank %d: error %d\n", rank, error), MPI_Abort(MPI_COMM_WORLD, 1), 1;
      MPIX_Comm_revoke(comm);
      MPI_Comm shrunk = MPI_COMM_NULL;
      if (MPIX_Comm_shrink(comm, &shrunk) != MPI_SUCCESS) continue;
      MPI_Comm_free(&comm);
      comm = shrunk;
      more = more_at_end;  // the others may be a call behind, or before
      MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
      continue;
    }
    const int sum = static_cast<int>(sums[0]);
    for (const double each : sums)
      if (each != sum) return std::printf("rank %d: a wrong sum\n", rank), MPI_Abort(MPI_COMM_WORLD, 1), 1;
    if (sum == living - 1) {
      took.push_back((now() - killed_at[took.size()]) / 1000);
      --living;
    }
    if (sum != living) return std::printf("rank %d: sum %d\n", rank, sum), MPI_Abort(MPI_COMM_WORLD, 1), 1;
    more -= took.size() == victims.size() ? 1 : 0;
  }
  std::string line = "TOOK";
  for (const std::int64_t each : took) line += " " + std::to_string(each);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  MPI_Finalize();
}
