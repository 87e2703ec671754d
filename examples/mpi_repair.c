/* An MPI program that repairs itself by ULFM's calls, under ucft's shim and a stock MPI library. It integrates
 * 4 / (1 + x^2) from 0 to 1 in rounds. In each round the ranks share the pieces, and add up. One rank kills itself half
 * way. The others make a communicator without it, share the pieces anew, and do the round again. So the result is that
 * of a run without a death.
 *
 *     mpicc -Iinclude/ucft/mpi examples/mpi_repair.c -o mpi_repair -Lbuild/lib -lucft_mpi -Wl,-rpath,$PWD/build/lib -lm
 *     mpirun -n 4 --oversubscribe --enable-recovery ./mpi_repair 2
 *
 * The first wants the shim: ci/install ci/packages-mpi.txt && ci/build. The argument is the victim; without one nobody
 * dies. As root mpirun wants --allow-run-as-root, too. */
#include <mpi.h>
/* Behind it. */
#include <mpi-ext.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 100, PIECES_OF_ROUND = 100000 };

/* This rank's share of a round. */
static double share(int round, int rank, int ranks) {
  const double width = 1.0 / ((double)ROUNDS * PIECES_OF_ROUND);
  double sum = 0;
  for (int piece = rank; piece < PIECES_OF_ROUND; piece += ranks) {
    const double x = ((double)round * PIECES_OF_ROUND + piece + 0.5) * width;
    sum += 4 / (1 + x * x) * width;
  }
  return sum;
}

/* A communicator of those that live in place of *comm. */
static void repair(MPI_Comm* comm) {
  MPI_Comm shrunk;
  MPIX_Comm_revoke(*comm); /* whoever still waits in the round gets out of it */
  if (MPIX_Comm_shrink(*comm, &shrunk) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Comm_free(comm);
  *comm = shrunk;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int victim = argc > 1 ? atoi(argv[1]) : -1;
  int world_rank, rank, ranks, repairs = 0;
  double integral = 0;
  MPI_Comm comm;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);

  for (int round = 0; round < ROUNDS;) {
    if (world_rank == victim && round == ROUNDS / 2) raise(SIGKILL);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    double mine[2] = {share(round, rank, ranks), 1}, all[2] = {0, 0};
    const int error = MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, comm);
    /* ucft's collectives complete without the dead: a count says whether all shares are there. */
    int is_complete = error == MPI_SUCCESS && all[1] == ranks;
    if (MPIX_Comm_agree(comm, &is_complete) == MPI_SUCCESS && is_complete) {
      integral += all[0];
      ++round;
    } else {
      repair(&comm);
      ++repairs;
    }
  }

  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  if (rank == 0)
    printf("pi is %.10f, error %.0e; %d ranks, %d repairs\n", integral, fabs(integral - M_PI), ranks, repairs);
  MPI_Finalize();
  return fabs(integral - M_PI) < 1e-9 ? 0 : 1;
}
