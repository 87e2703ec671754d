// The calls that real programs mix: messages between neighbours in every form, collectives, blocking and not, on
// several communicators, a window, a file. Under MPI's usual error handler a death that is an error of a call ends the
// job; one that only collectives meet is survived. The seed, the same on all ranks, says which calls come when.
//
//   mpi_mix SEED ROUNDS WHAT VICTIM MICROSECONDS     VICTIM kills itself so long after the start; -1: nobody
//
// WHAT: all, or collectives.
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

int rank, size, wrong = 0;
std::uint64_t state;
MPI_Comm line = MPI_COMM_NULL, half = MPI_COMM_NULL;
MPI_Win window = MPI_WIN_NULL;
MPI_File file = MPI_FILE_NULL;
std::vector<int> shared;

int dice(int sides) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<int>((state >> 33) % static_cast<std::uint64_t>(sides));
}

void expect(bool right, const char* what) {
  if (right) return;
  ++wrong;
  std::fprintf(stderr, "rank %d: %s\n", rank, what);
}

int right() { return (rank + 1) % size; }
int left() { return (rank + size - 1) % size; }

void halo(int bytes) {
  std::vector<char> in[2], out(static_cast<std::size_t>(bytes), static_cast<char>(rank));
  MPI_Request requests[4];
  const int peers[2] = {left(), right()};
  for (int k = 0; k < 2; ++k) {
    in[k].assign(out.size(), -1);
    MPI_Irecv(in[k].data(), bytes, MPI_CHAR, peers[k], k, MPI_COMM_WORLD, requests + k);
  }
  for (int k = 0; k < 2; ++k) MPI_Isend(out.data(), bytes, MPI_CHAR, peers[k], 1 - k, MPI_COMM_WORLD, requests + 2 + k);
  const int how = dice(3);
  if (how == 0) MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  for (int i = 0, index = 0; i < 4 && how == 1; ++i) MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
  for (int done = 0; how == 2 && done == 0;) MPI_Testall(4, requests, &done, MPI_STATUSES_IGNORE);
  for (int k = 0; k < 2; ++k) expect(in[k].back() == static_cast<char>(peers[k]), "halo");
}

void ring() {
  int value = rank;
  MPI_Sendrecv_replace(&value, 1, MPI_INT, right(), 3, left(), 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect(value == left(), "ring");
}

// A worker that has its answer may be two of these ahead: each has a tag of its own.
void master() {
  static int times = 0;
  const int tag = 100 + times++ % 1000;
  int value = rank, got = -1;
  if (rank != 0) {
    MPI_Send(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
    MPI_Recv(&got, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(got == rank, "master");
    return;
  }
  for (int i = 1; i < size; ++i) {
    MPI_Status status;
    MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
    MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(got == status.MPI_SOURCE, "worker");
    MPI_Send(&got, 1, MPI_INT, got, tag, MPI_COMM_WORLD);
  }
}

void one_sided() {
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, right(), 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  expect(shared[0] == left(), "window");
}

void write_file() {
  std::vector<int> data(2000, rank);
  const auto bytes = static_cast<MPI_Offset>(data.size() * sizeof(int));
  MPI_File_write_at_all(file, rank * bytes, data.data(), static_cast<int>(data.size()), MPI_INT, MPI_STATUS_IGNORE);
}

void neighbours() {
  int given[2] = {rank, rank}, got[2] = {-1, -1};
  MPI_Neighbor_alltoall(given, 1, MPI_INT, got, 1, MPI_INT, line);
  expect(got[0] == left() && got[1] == right(), "neighbours");
}

// A sum of 2^rank: a rank's own value is in each that it gets.
void check_sum(int sum) { expect((sum >> rank & 1) != 0, "sum"); }

void sums(MPI_Comm comm) {
  int mine = 1 << rank, sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  check_sum(sum);
}

void nonblocking(MPI_Comm comm) {
  constexpr int many = 12;
  int mine = 1 << rank, sum[many] = {};
  MPI_Request requests[many];
  for (int i = 0; i < many; ++i) MPI_Iallreduce(&mine, sum + i, 1, MPI_INT, MPI_SUM, comm, requests + i);
  MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
  for (const int each : sum) check_sum(each);
}

void exchange(MPI_Comm comm) {
  int n = 0, me = 0;
  MPI_Comm_size(comm, &n);
  MPI_Comm_rank(comm, &me);
  const int each = dice(2) == 0 ? 3 : 30'000;
  const auto all = static_cast<std::size_t>(n * each);
  std::vector<int> out(all, me), in(all, -1);
  MPI_Alltoall(out.data(), each, MPI_INT, in.data(), each, MPI_INT, comm);
  for (int r = 0; r < n; ++r) {
    const int got = in[static_cast<std::size_t>((r + 1) * each - 1)];
    expect(got == r || got == -1, "alltoall");
  }
  int prefix = -1;
  MPI_Scan(&me, &prefix, 1, MPI_INT, MPI_MAX, comm);
  expect(prefix == me, "scan");
  std::vector<int> shares(static_cast<std::size_t>(n), 1);
  int share = 0;
  MPI_Reduce_scatter_block(shares.data(), &share, 1, MPI_INT, MPI_SUM, comm);
  expect(share >= 1 && share <= n, "reduce_scatter");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 6) MPI_Abort(MPI_COMM_WORLD, 2);
  state = std::strtoull(argv[1], nullptr, 10);
  const bool has_messages = std::strcmp(argv[3], "all") == 0;
  const int yes = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &yes, 0, &line);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  shared.assign(16, -1);
  if (has_messages) {
    MPI_Win_create(shared.data(), 64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    int parent = static_cast<int>(getppid());
    MPI_Bcast(&parent, 1, MPI_INT, 0, MPI_COMM_WORLD);
    const std::string name = "/tmp/mpi_mix." + std::to_string(parent);
    MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &file);
    MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
    unlink(name.c_str());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (std::atoi(argv[4]) == rank)
    std::thread([us = std::atoi(argv[5])] {
      std::this_thread::sleep_for(std::chrono::microseconds(us));
      std::raise(SIGKILL);
    }).detach();
  const std::function<void()> calls[] = {
      [] { sums(MPI_COMM_WORLD); },
      [] { sums(line); },
      [] { sums(half); },
      [] { nonblocking(line); },
      [] { exchange(half); },
      [] { exchange(MPI_COMM_WORLD); },
      [] { MPI_Barrier(line); },
      [] { halo(100); },
      [] { halo(200'000); },
      [] { ring(); },
      [] { master(); },
      [] { one_sided(); },
      [] { write_file(); },
      [] { neighbours(); },
  };
  const int of = has_messages ? static_cast<int>(std::size(calls)) : 7, rounds = std::atoi(argv[2]);
  for (int round = 0; round < rounds; ++round) calls[dice(of)]();
  MPI_Finalize();
  std::printf("VERDICT %d: %s\n", rank, wrong == 0 ? "right" : "wrong");
  return wrong == 0 ? 0 : 1;
}
