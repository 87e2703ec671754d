// Rank 0 is inside a collective while rank 1 still receives what rank 0 has begun to send, which only moves in calls of
// MPI: MPI wants that to end. Each collective in turn, with a message that is too long to be sent at once.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

namespace {

constexpr int bytes = 4 << 20;
int rank, wrong = 0;
std::vector<char> message(bytes);

void send_across(char value, const std::function<void()>& collective) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) {
    message.assign(bytes, value);
    MPI_Isend(message.data(), bytes, MPI_CHAR, 1, value, MPI_COMM_WORLD, &request);
  }
  if (rank == 1) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // rank 0 is waiting by then; if not, it finds the message under way
    MPI_Recv(message.data(), bytes, MPI_CHAR, 0, value, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wrong += message.front() != value || message.back() != value;
  }
  collective();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0, sum = 0, root_value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int one = 1;
  std::vector<int> all(static_cast<std::size_t>(size));
  MPI_Comm made = MPI_COMM_NULL;
  send_across(1, [&] { MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); });
  wrong += sum != size;
  send_across(2, [&] { MPI_Barrier(MPI_COMM_WORLD); });
  root_value = rank == 1 ? 7 : 0;
  send_across(3, [&] { MPI_Bcast(&root_value, 1, MPI_INT, 1, MPI_COMM_WORLD); });
  wrong += root_value != 7;
  send_across(4, [&] { MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD); });
  send_across(5, [&] { MPI_Allgather(&rank, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD); });
  for (int i = 0; i < size; ++i) wrong += all[static_cast<std::size_t>(i)] != i;
  send_across(6, [&] { MPI_Comm_dup(MPI_COMM_WORLD, &made); });
  MPI_Comm_free(&made);
  send_across(7, [&] { MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &made); });
  MPI_Comm_free(&made);
  std::printf("VERDICT %d: %s\n", rank, wrong == 0 ? "right" : "wrong");
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
