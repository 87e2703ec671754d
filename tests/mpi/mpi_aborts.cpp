// A job of three ranks or more that rank 1 ends. The others never end by themselves: a job that goes
// on shows by running into a limit.
//
//   mpi_aborts abort         MPI_Abort with code 9
//   mpi_aborts self          the same with MPI_COMM_SELF: Open MPI ends the whole job then, too
//   mpi_aborts thread        the same, by a thread, while the main one waits in a collective
//   mpi_aborts mistake       an error of MPI's own, under MPI's usual error handler
//   mpi_aborts death EXIT    rank 2 dies (EXIT: by _exit), and rank 1 waits for a message of it, under the usual
//                            error handler
//   mpi_aborts computes      rank 1 dies, and nobody calls MPI any more (UCFT_MPI_ON_FAILURE=end)
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

int main(int argc, char** argv) {
  const auto is = [&](const char* word) { return argc > 1 && std::strcmp(argv[1], word) == 0; };
  int provided = 0, rank = 0, value = 0;
  MPI_Init_thread(&argc, &argv, is("thread") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 2 && is("death")) argc > 2 ? _exit(9) : static_cast<void>(std::raise(SIGKILL));
  if (rank == 1) {
    if (is("computes")) std::raise(SIGKILL);
    if (is("abort")) MPI_Abort(MPI_COMM_WORLD, 9);
    if (is("self")) MPI_Abort(MPI_COMM_SELF, 9);
    if (is("thread")) {
      std::thread([] { MPI_Abort(MPI_COMM_WORLD, 9); }).detach();
      MPI_Barrier(MPI_COMM_WORLD);
    }
    if (is("mistake")) MPI_Send(&value, 1, MPI_INT, 1000, 0, MPI_COMM_WORLD);
    if (is("death")) MPI_Recv(&value, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::printf("it went on\n");
  }
  for (;;) pause();
}
