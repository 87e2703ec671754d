// Two copies that are freed in another order on each rank, and one that a rank frees before it sends what the next one
// needs before it frees its own. MPI allows that MPI_Comm_free waits for the others; both MPI libraries don't, and
// programs rely on that.
#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, word = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < 5; ++round) {
    MPI_Comm one = MPI_COMM_NULL, other = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_free(rank % 2 == 0 ? &one : &other);
    MPI_Comm_free(rank % 2 == 0 ? &other : &one);
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    if (rank > 0) MPI_Recv(&word, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_free(&one);
    if (rank + 1 < size) MPI_Send(&rank, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
    if (rank > 0 && word != rank - 1) return 1;
  }
  std::printf("rank %d: freed\n", rank);
  MPI_Finalize();
}
