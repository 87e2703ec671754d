// Rank 0 is inside a collective while rank 1 still receives what rank 0 has begun to send, which only moves in calls of
// MPI: MPI wants that to end. Each collective in turn, with a message that is too long to be sent at once. Meanwhile
// each rank has messages that nobody has asked for yet.
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

// More nonblocking collectives than ucft has room for, and calls that wait for other things before these are waited
// for. Rank 0 has them in another order than the others, as MPI allows.
void queue_up(const std::function<void()>& other) {
  constexpr int many = 40;
  std::vector<int> sums(many, -1);
  std::vector<MPI_Request> requests(many);
  int size = 0;
  const int one = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != 0) other();
  for (int i = 0; i < many; ++i)
    MPI_Iallreduce(&one, &sums[static_cast<std::size_t>(i)], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                   &requests[static_cast<std::size_t>(i)]);
  if (rank == 0) other();
  MPI_Waitall(many, requests.data(), MPI_STATUSES_IGNORE);
  for (const int sum : sums) wrong += sum != size;
}

// The same, but that the others wait first.
void wait_first(const std::function<void()>& other) {
  constexpr int many = 40;
  std::vector<MPI_Request> requests(many);
  for (MPI_Request& request : requests) MPI_Ibarrier(MPI_COMM_WORLD, &request);
  if (rank == 0) other();
  MPI_Waitall(many, requests.data(), MPI_STATUSES_IGNORE);
  if (rank != 0) other();
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
  MPI_Request early[2];
  MPI_Isend(&rank, 1, MPI_INT, 0, 100, MPI_COMM_SELF, early);
  MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 101, MPI_COMM_WORLD, early + 1);
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
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Win window = MPI_WIN_NULL;
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);  // Open MPI has no windows over tcp alone
  const bool has_window = MPI_Win_create(&sum, sizeof sum, 1, MPI_INFO_NULL, made, &window) == MPI_SUCCESS;
  for (const auto& ordered : {queue_up, wait_first}) {
    ordered([&] { MPI_Barrier(made); });
    ordered([&] {
      MPI_Comm part = MPI_COMM_NULL;
      MPI_Comm_split(made, 0, rank, &part);
      MPI_Comm_free(&part);
    });
  }
  if (has_window) {
    wait_first([&] { MPI_Win_fence(0, window); });
    MPI_Win_free(&window);
  }
  wait_first([&] { MPI_Recv(&sum, 0, MPI_INT, MPI_PROC_NULL, 0, made, MPI_STATUS_IGNORE); });
  MPI_Comm_free(&made);
  MPI_Recv(&sum, 1, MPI_INT, 0, 100, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  wrong += sum != rank;
  MPI_Recv(&sum, 1, MPI_INT, (rank + size - 1) % size, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  wrong += sum != (rank + size - 1) % size;
  MPI_Waitall(2, early, MPI_STATUSES_IGNORE);
  std::printf("VERDICT %d: %s\n", rank, wrong == 0 ? "right" : "wrong");
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
