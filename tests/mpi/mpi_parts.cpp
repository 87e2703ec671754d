// Copies and parts of MPI_COMM_WORLD, and of each other, by the ranks that are there when the program begins.
#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, members = 0, in_half = 0, all = 0, halves = 0;
  const int one = 1;
  MPI_Comm copy = MPI_COMM_NULL, again = MPI_COMM_NULL, half = MPI_COMM_NULL;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(copy, rank % 2, 0, &half);
  MPI_Comm_dup(copy, &again);
  MPI_Comm_size(again, &members);
  MPI_Comm_size(half, &in_half);
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, again);
  MPI_Allreduce(&one, &halves, 1, MPI_INT, MPI_SUM, half);
  std::printf("VERDICT %d: %s, %d members, %d of them even\n", rank,
              members == all && in_half == halves ? "right" : "wrong", members,
              rank % 2 == 0 ? in_half : members - in_half);
  MPI_Comm_free(&half);
  MPI_Comm_free(&again);
  MPI_Comm_free(&copy);
  MPI_Finalize();
}
