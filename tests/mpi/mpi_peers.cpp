// Point-to-point messages, and collectives that stay MPI's, to a rank that is dead: rank 1 of four or more dies, and
// the others expect an MPI error that names it, where MPI would wait for ever.
//
//   mpi_peers known       all know of the death before they call
//   mpi_peers waiting     they are waiting when it comes
//   mpi_peers fatal       MPI's usual error handler: the first such call ends the job
#include <mpi.h>
// Behind it.
#include <mpi-ext.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int victim = 1;
int rank, size, wrong = 0;

void expect(bool right, const std::string& what) {
  if (right) return;
  ++wrong;
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

void expect_death(int error, const char* function) {
  int of_error = 0, length = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_class(error, &of_error);
  MPI_Error_string(error, text, &length);
  expect(error != MPI_SUCCESS && of_error == MPIX_ERR_PROC_FAILED, std::string(function) + ": another class: " + text);
  expect(std::strstr(text, "rank 1 of MPI_COMM_WORLD has failed") != nullptr, std::string(function) + ": " + text);
}

// A sum may be without the victim before this rank itself has been told of its death.
void until_death_is_known() {
  for (int there = size; there == size;) {
    const int one = 1;
    MPI_Allreduce(&one, &there, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  for (int found = 0; MPI_Iprobe(victim, 5, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE) == MPI_SUCCESS;) continue;
}

// peer: the victim's rank in comm.
void send_to_the_dead(MPI_Comm comm, int peer) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int a = 1, b = 2, flag = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Message message;
  MPI_Status status;
  expect_death(MPI_Send(&a, 1, MPI_INT, peer, 5, comm), "MPI_Send");
  expect_death(MPI_Ssend(&a, 1, MPI_INT, peer, 5, comm), "MPI_Ssend");
  expect_death(MPI_Bsend(&a, 1, MPI_INT, peer, 5, comm), "MPI_Bsend");
  expect_death(MPI_Rsend(&a, 1, MPI_INT, peer, 5, comm), "MPI_Rsend");
  expect_death(MPI_Isend(&a, 1, MPI_INT, peer, 5, comm, &request), "MPI_Isend");
  expect_death(MPI_Issend(&a, 1, MPI_INT, peer, 5, comm, &request), "MPI_Issend");
  expect_death(MPI_Irsend(&a, 1, MPI_INT, peer, 5, comm, &request), "MPI_Irsend");
  expect_death(MPI_Ibsend(&a, 1, MPI_INT, peer, 5, comm, &request), "MPI_Ibsend");
  expect_death(MPI_Recv(&b, 1, MPI_INT, peer, 5, comm, &status), "MPI_Recv");
  expect(MPI_Irecv(&b, 1, MPI_INT, peer, 5, comm, &request) == MPI_SUCCESS, "MPI_Irecv");  // it may have sent it
  expect_death(MPI_Wait(&request, &status), "MPI_Wait");
  expect_death(MPI_Sendrecv(&a, 1, MPI_INT, peer, 5, &b, 1, MPI_INT, peer, 5, comm, &status), "MPI_Sendrecv");
  expect_death(MPI_Sendrecv_replace(&a, 1, MPI_INT, peer, 5, peer, 5, comm, &status), "MPI_Sendrecv_replace");
  expect_death(MPI_Probe(peer, 5, comm, &status), "MPI_Probe");
  expect_death(MPI_Iprobe(peer, 5, comm, &flag, &status), "MPI_Iprobe");
  expect_death(MPI_Mprobe(peer, 5, comm, &message, &status), "MPI_Mprobe");
  expect_death(MPI_Improbe(peer, 5, comm, &flag, &message, &status), "MPI_Improbe");
  expect(b == 2, "something has been received");
}

// On a communicator that ucft does not know.
void collectives_with_the_dead(MPI_Comm comm) {
  std::vector<int> a(static_cast<std::size_t>(size)), b(a.size()), ones(a.size(), 1), places(a.size());
  MPI_Request request = MPI_REQUEST_NULL;
  expect_death(MPI_Alltoall(a.data(), 1, MPI_INT, b.data(), 1, MPI_INT, comm), "MPI_Alltoall");
  expect_death(MPI_Gather(a.data(), 1, MPI_INT, b.data(), 1, MPI_INT, 0, comm), "MPI_Gather");
  expect_death(MPI_Gatherv(a.data(), 1, MPI_INT, b.data(), ones.data(), places.data(), MPI_INT, 0, comm),
               "MPI_Gatherv");
  expect_death(MPI_Scatter(a.data(), 1, MPI_INT, b.data(), 1, MPI_INT, 0, comm), "MPI_Scatter");
  expect_death(MPI_Scan(a.data(), b.data(), 1, MPI_INT, MPI_SUM, comm), "MPI_Scan");
  expect_death(MPI_Reduce_scatter_block(a.data(), b.data(), 1, MPI_INT, MPI_SUM, comm), "MPI_Reduce_scatter_block");
  expect_death(MPI_Iallreduce(a.data(), b.data(), 1, MPI_INT, MPI_SUM, comm, &request), "MPI_Iallreduce");
  expect_death(MPI_Ibarrier(comm, &request), "MPI_Ibarrier");
  expect_death(MPI_Bcast(a.data(), 1, MPI_INT, victim, MPI_COMM_WORLD), "MPI_Bcast");
}

// Around the dead rank's place.
void ring_of_the_living() {
  const auto next = [](int r) { return (r + 1) % size == victim ? (r + 2) % size : (r + 1) % size; };
  int before = rank;
  for (int r = 0; r < size; ++r)
    if (r != victim && next(r) == rank) before = r;
  for (int n : {1, 100'000}) {
    std::vector<int> out(static_cast<std::size_t>(n), rank), in(out.size(), -1);
    MPI_Sendrecv(out.data(), n, MPI_INT, next(rank), 7, in.data(), n, MPI_INT, before, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    expect(in.front() == before && in.back() == before, "a message between the living is wrong");
  }
}

void known() {
  MPI_Comm reversed, of_mpi;
  MPI_Group group;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &of_mpi);
  const int word = 77;
  if (rank == victim) {
    MPI_Send(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    std::raise(SIGKILL);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  until_death_is_known();
  if (rank == 0) {  // what it has sent before
    int got = 0;
    expect(MPI_Recv(&got, 1, MPI_INT, victim, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS && got == word,
           "the last message is lost");
  }
  send_to_the_dead(MPI_COMM_WORLD, victim);
  send_to_the_dead(reversed, size - 1 - victim);
  MPI_Comm_set_errhandler(of_mpi, MPI_ERRORS_RETURN);
  collectives_with_the_dead(of_mpi);
  MPI_Comm_free(&reversed);
}

void waiting() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == victim) {  // late, so that the others wait by then; who doesn't has the error all the same
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::raise(SIGKILL);
  }
  int a = 1;
  std::vector<int> large(1'000'000);
  MPI_Status status;
  switch (rank % 4) {
    case 0: expect_death(MPI_Recv(&a, 1, MPI_INT, victim, 5, MPI_COMM_WORLD, &status), "MPI_Recv"); break;
    case 1: expect_death(MPI_Send(large.data(), 1'000'000, MPI_INT, victim, 5, MPI_COMM_WORLD), "MPI_Send"); break;
    case 2: expect_death(MPI_Ssend(&a, 1, MPI_INT, victim, 5, MPI_COMM_WORLD), "MPI_Ssend"); break;
    default: expect_death(MPI_Probe(victim, 5, MPI_COMM_WORLD, &status), "MPI_Probe"); break;
  }
}

void fatal() {
  if (rank == victim) std::raise(SIGKILL);
  int a = 1;
  MPI_Recv(&a, 1, MPI_INT, victim, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect(false, "it went on after an error that is fatal");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "known") known();
  if (what == "waiting") waiting();
  if (what == "fatal") fatal();
  if (what != "fatal") ring_of_the_living();
  MPI_Finalize();
  std::printf("VERDICT %d: %s\n", rank, wrong == 0 ? "right" : "wrong");
  return wrong == 0 ? 0 : 1;
}
