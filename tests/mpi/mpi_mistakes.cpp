// Programs that are wrong, and that nobody dies in: what ucft says of them.
//
//   mpi_mistakes crossed     rank 2 waits in a barrier of a copy, the others in one of MPI_COMM_WORLD, for ever
//   mpi_mistakes roots       rank 2 means another root than the others: an error that says so, on both roots
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

int rank;

void crossed() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  std::printf("rank %d is process %d\n", rank, static_cast<int>(getpid()));
  std::fflush(stdout);
  MPI_Barrier(rank == 2 ? copy : MPI_COMM_WORLD);
  std::printf("rank %d went on\n", rank);
}

void roots() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int one = 1, root = rank == 2 ? 2 : 0;
  int sum = 0, length = 0;
  const int error = MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_string(error, text, &length);
  const bool named = std::strstr(text, "has posted reduce (sum of int32, 4 bytes, to rank ") != nullptr &&
                     std::strstr(text, ": the roots differ") != nullptr;
  std::printf("VERDICT %d: %s\n", rank, (rank == root ? named : error == MPI_SUCCESS) ? "right" : text);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 1 && std::strcmp(argv[1], "crossed") == 0) crossed();
  if (argc > 1 && std::strcmp(argv[1], "roots") == 0) roots();
  MPI_Finalize();
}
