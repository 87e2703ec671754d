// Programs that are wrong, and that nobody dies in: what ucft says of them.
//
//   mpi_mistakes crossed     rank 2 waits in a barrier of a copy, the others in one of MPI_COMM_WORLD, for ever
//   mpi_mistakes late WHERE  the others wait for rank 2, which is inside that function of MPI's for ever, or has been
//                            inside some
//   mpi_mistakes roots       rank 2 means another root than the others: an error that says so, on both roots
//   mpi_mistakes types       all pass types that nobody has committed: MPI's error, by the communicator's own handler
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

void late(const std::string& where) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  int value = rank, sum = 0, values[3] = {}, index = 0;
  MPI_Win window = MPI_WIN_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Send(&value, 1, MPI_INT, 2, 1, MPI_COMM_WORLD);
  if (rank == 2) {
    std::printf("rank %d is process %d\n", rank, static_cast<int>(getpid()));
    std::fflush(stdout);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Irecv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &request);  // nobody sends that
    if (where == "MPI_Recv") MPI_Recv(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (where == "MPI_Recv from any")
      MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (where == "MPI_Ssend") MPI_Ssend(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    if (where == "MPI_Probe") MPI_Probe(0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (where == "MPI_Sendrecv")
      MPI_Sendrecv(&sum, 1, MPI_INT, 2, 3, &value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (where == "MPI_Wait") MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (where == "MPI_Waitall") MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    if (where == "MPI_Waitany") MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE);
    if (where == "MPI_Win_create") MPI_Win_create(values, 0, 1, MPI_INFO_NULL, copy, &window);
    for (volatile bool is_busy = true; is_busy;) {}
  }
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
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

int handled = 0;
MPI_Comm handled_of = MPI_COMM_NULL;
void handle(MPI_Comm* comm, int*, ...) {
  ++handled;
  handled_of = *comm;
}

void types() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(copy, handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Op add = MPI_OP_NULL;
  MPI_Op_create(
      [](void* in, void* inout, int* count, MPI_Datatype*) {
        for (int i = 0; i < 2 * *count; ++i) static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
      },
      1, &add);
  int size = 0, wrong = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int counts[8] = {1, 1, 1, 1, 1, 1, 1, 1}, places[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (bool is_committed : {false, true}) {
    for (MPI_Comm comm : {MPI_COMM_WORLD, copy}) {
      int own[2] = {rank, 1}, all[16] = {}, errors = 0;
      const auto expect = [&](int error) {
        int of_error = MPI_SUCCESS;
        MPI_Error_class(error, &of_error);
        const bool is_handled = handled == ++errors && handled_of == comm;
        if (is_committed ? error != MPI_SUCCESS || handled != 0 : of_error != MPI_ERR_TYPE || !is_handled) ++wrong;
      };
      handled = 0;
      for (int root = 0; root < size; ++root) {
        expect(MPI_Bcast(own, 1, pair, root, comm));
        expect(MPI_Reduce(own, all, 1, pair, add, root, comm));
      }
      expect(MPI_Allreduce(own, all, 1, pair, add, comm));
      if (is_committed && all[1] != size) ++wrong;
      expect(MPI_Allgather(own, 1, pair, all, 2, MPI_INT, comm));
      expect(MPI_Allgather(own, 2, MPI_INT, all, 1, pair, comm));
      expect(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, pair, comm));
      expect(MPI_Allgatherv(own, 1, pair, all, counts, places, pair, comm));
      if (MPI_Barrier(comm) != MPI_SUCCESS) ++wrong;
    }
    if (!is_committed) MPI_Type_commit(&pair);
  }
  MPI_Type_free(&pair);
  MPI_Op_free(&add);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&copy);
  std::printf("VERDICT %d: %s\n", rank, wrong == 0 ? "right" : "wrong");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 1 && std::strcmp(argv[1], "crossed") == 0) crossed();
  if (argc > 2 && std::strcmp(argv[1], "late") == 0) late(argv[2]);
  if (argc > 1 && std::strcmp(argv[1], "roots") == 0) roots();
  if (argc > 1 && std::strcmp(argv[1], "types") == 0) types();
  MPI_Finalize();
}
