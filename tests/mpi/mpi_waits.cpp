// Every kind of call in which a rank waits for another one, while that one dies: rank 1 of four takes no part in the
// call, and kills itself a little later. Each of the others expects an MPI error that names it, or a result of the
// others where ucft has the call. Then they go on.
//
//   mpi_waits CASE
//
// With DIE_BY=exit in the environment it ends with an exit code, not by a signal.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int victim = 1, ranks = 4;
int rank, wrong = 0;
bool is_lost = false;  // MPI was left in the middle of a call: it has no messages any more
MPI_Comm ring = MPI_COMM_NULL, copy = MPI_COMM_NULL, sides = MPI_COMM_NULL;
MPI_Win window = MPI_WIN_NULL;
MPI_File file = MPI_FILE_NULL;
std::string file_name;
int shared[ranks];

int next() { return rank == 0 ? 2 : (rank + 1) % ranks; }  // of those that live
int before() { return rank == 2 ? 0 : (rank + ranks - 1) % ranks; }

void expect(bool right, const std::string& what) {
  if (right) return;
  ++wrong;
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

bool is_death(int error) {
  int length = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  if (error != MPI_SUCCESS) MPI_Error_string(error, text, &length);
  return std::strstr(text, "rank 1 of MPI_COMM_WORLD has failed") != nullptr;
}

void expect_death(int error, const char* what) {
  int length = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_string(error, text, &length);
  expect(is_death(error), std::string(what) + ": " + text);
}

// It was left in the middle.
void expect_loss(int error, const char* what) {
  expect_death(error, what);
  is_lost = true;
}

MPI_Request receive(int from, int* to, int tag = 5) {
  MPI_Request request = MPI_REQUEST_NULL;
  expect(MPI_Irecv(to, 1, MPI_INT, from, tag, MPI_COMM_WORLD, &request) == MPI_SUCCESS, "MPI_Irecv");
  return request;
}

void send(int to, int value, int tag = 5) {
  expect(MPI_Send(&value, 1, MPI_INT, to, tag, MPI_COMM_WORLD) == MPI_SUCCESS, "MPI_Send to one that lives");
}

// ---- nonblocking calls ----------------------------------------------------------------------------------------------

void wait() {
  int got = -1;
  MPI_Request request = receive(victim, &got);
  expect_death(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  expect(request == MPI_REQUEST_NULL && got == -1, "the request is still there");
}

// One that is dead, one that has come, one that comes later.
void waitall() {
  int got[3] = {-1, -1, -1};
  MPI_Request requests[3] = {receive(victim, got), receive(rank, got + 1, 6), receive(before(), got + 2, 7)};
  MPI_Status statuses[3];
  send(rank, 66, 6);
  expect(MPI_Waitall(3, requests, statuses) == MPI_ERR_IN_STATUS, "MPI_Waitall");
  expect_death(statuses[0].MPI_ERROR, "the first of MPI_Waitall");
  expect(statuses[1].MPI_ERROR == MPI_SUCCESS && got[1] == 66, "the second of MPI_Waitall");
  expect(statuses[2].MPI_ERROR == MPI_ERR_PENDING || got[2] == before(), "the third of MPI_Waitall");
  send(next(), rank, 7);
  expect(MPI_Wait(requests + 2, MPI_STATUS_IGNORE) == MPI_SUCCESS && got[2] == before(), "the third, later");
  expect(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "requests are still there");
}

void waitany() {
  int got = -1, index = -1;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, receive(victim, &got)};
  expect_death(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE), "MPI_Waitany");
  expect(index == 1 && requests[1] == MPI_REQUEST_NULL, "the index of MPI_Waitany");
}

void waitsome() {
  int got = -1, done = 0, indices[2] = {-1, -1};
  MPI_Request requests[2] = {MPI_REQUEST_NULL, receive(victim, &got)};
  MPI_Status statuses[2];
  expect(MPI_Waitsome(2, requests, &done, indices, statuses) == MPI_ERR_IN_STATUS && done == 1, "MPI_Waitsome");
  expect_death(statuses[0].MPI_ERROR, "the first of MPI_Waitsome");
  expect(indices[0] == 1 && requests[1] == MPI_REQUEST_NULL, "the index of MPI_Waitsome");
}

void tests() {
  int got[4] = {-1, -1, -1, -1}, flag = 0, index = -1, done = 0, error = MPI_SUCCESS;
  MPI_Request requests[4];
  for (int i = 0; i < 4; ++i) requests[i] = receive(victim, got + i);
  MPI_Status status;
  while (flag == 0 && error == MPI_SUCCESS) error = MPI_Test(requests, &flag, MPI_STATUS_IGNORE);
  expect_death(error, "MPI_Test");
  for (error = MPI_SUCCESS, flag = 0; flag == 0 && error == MPI_SUCCESS;)
    error = MPI_Testall(1, requests + 1, &flag, &status);
  expect(error == MPI_ERR_IN_STATUS && is_death(status.MPI_ERROR), "MPI_Testall");
  for (error = MPI_SUCCESS, flag = 0; flag == 0 && error == MPI_SUCCESS;)
    error = MPI_Testany(1, requests + 2, &index, &flag, MPI_STATUS_IGNORE);
  expect_death(error, "MPI_Testany");
  for (error = MPI_SUCCESS; done == 0 && error == MPI_SUCCESS;)
    error = MPI_Testsome(1, requests + 3, &done, &index, &status);
  expect(error == MPI_ERR_IN_STATUS && is_death(status.MPI_ERROR), "MPI_Testsome");
  for (const MPI_Request request : requests) expect(request == MPI_REQUEST_NULL, "a request is still there");
}

void sends() {
  std::vector<int> large(2'000'000, rank);
  MPI_Request requests[2];
  MPI_Isend(large.data(), static_cast<int>(large.size()), MPI_INT, victim, 5, MPI_COMM_WORLD, requests);
  MPI_Issend(&rank, 1, MPI_INT, victim, 5, MPI_COMM_WORLD, requests + 1);
  expect_death(MPI_Wait(requests, MPI_STATUS_IGNORE), "MPI_Wait for MPI_Isend");
  expect_death(MPI_Wait(requests + 1, MPI_STATUS_IGNORE), "MPI_Wait for MPI_Issend");
}

void status() {
  int got = -1, flag = 0, error = MPI_SUCCESS;
  MPI_Request request = receive(victim, &got), other = receive(victim, &got);
  expect(MPI_Request_free(&other) == MPI_SUCCESS, "MPI_Request_free");
  while (flag == 0 && error == MPI_SUCCESS) error = MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
  expect_death(error, "MPI_Request_get_status");
  expect_death(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait behind it");
}

void persistent() {
  int got = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Recv_init(&got, 1, MPI_INT, victim, 5, MPI_COMM_WORLD, &request);
  MPI_Start(&request);
  expect_death(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait for MPI_Start");
  expect(request != MPI_REQUEST_NULL, "the persistent request is gone");
  expect_death(MPI_Start(&request), "MPI_Start");
  expect(MPI_Request_free(&request) == MPI_SUCCESS, "MPI_Request_free");
}

// A message of one that lives, which comes while a test finds out that another peer is dead: it is said once, with its
// status. (Rank 0 sends it while the test gives MPI its last turns; if it is slower, the next test has it.)
void late() {
  while (!is_death(MPI_Ssend(&rank, 1, MPI_INT, victim, 5, MPI_COMM_WORLD))) continue;
  for (const bool of_some : {false, true}) {
    int got[2] = {-1, -1}, index = -1, done = 0, error = MPI_SUCCESS;
    MPI_Status status;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      send(2, 66, 6);
    }
    if (rank != 2) continue;
    MPI_Request requests[2] = {receive(victim, got), receive(0, got + 1, 6)};
    do {
      if (of_some)
        error = MPI_Testsome(2, requests, &done, &index, &status);
      else
        error = MPI_Testany(2, requests, &index, &done, &status);
      if (error != MPI_SUCCESS) expect_death(of_some ? status.MPI_ERROR : error, "a test of two");
    } while (done == 0 || error != MPI_SUCCESS);
    expect(done == 1 && index == 1 && status.MPI_SOURCE == 0 && got[1] == 66, "the message that came late");
    if (requests[0] != MPI_REQUEST_NULL) expect_death(MPI_Wait(requests, MPI_STATUS_IGNORE), "MPI_Wait behind it");
  }
}

// Requests for a dead rank that are not begun, one of which has had its message, keep nobody from waiting for others.
void inactive() {
  int got[4] = {-1, -1, -1, -1}, index = -1;
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status statuses[3];
  MPI_Recv_init(got + 3, 1, MPI_INT, victim, 9, MPI_COMM_WORLD, requests + 2);
  MPI_Start(requests + 2);
  expect(MPI_Wait(requests + 2, MPI_STATUS_IGNORE) == MPI_SUCCESS && got[3] == victim, "its last message");
  MPI_Recv_init(got, 1, MPI_INT, victim, 5, MPI_COMM_WORLD, requests);
  MPI_Start(requests);
  expect_death(MPI_Wait(requests, MPI_STATUS_IGNORE), "MPI_Wait for MPI_Start");
  for (int round = 0; round < 2; ++round) {
    requests[1] = receive(before(), got + 1 + round, 6);
    if (rank == 0) {  // the first to send: the others wait by then
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      send(next(), rank, 6);
    }
    const int error =
        round == 0 ? MPI_Waitall(2, requests, statuses) : MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
    expect(error == MPI_SUCCESS && got[1 + round] == before(), "the wait beside an inactive request");
    if (rank != 0) send(next(), rank, 6);
  }
  expect(index == 1, "MPI_Waitany beside an inactive request");
  MPI_Request_free(requests);
  MPI_Request_free(requests + 2);
}

// Requests by the hundred, of which others have gone before.
void many() {
  constexpr int pairs = 600;
  std::vector<int> got(2 * pairs, -1);
  std::vector<MPI_Request> requests(got.size());
  for (int i = 0; i < 2 * pairs; ++i)
    requests[static_cast<std::size_t>(i)] =
        receive(i % 2 == 0 ? victim : rank, &got[static_cast<std::size_t>(i)], 100 + i);
  for (int i = 1; i < 2 * pairs; i += 2) {
    send(rank, i, 100 + i);
    MPI_Request& request = requests[static_cast<std::size_t>(i)];
    expect(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && got[static_cast<std::size_t>(i)] == i, "its own");
  }
  std::vector<MPI_Status> statuses(requests.size());
  expect(MPI_Waitall(2 * pairs, requests.data(), statuses.data()) == MPI_ERR_IN_STATUS, "MPI_Waitall of many");
  for (std::size_t i = 0; i < requests.size(); i += 2) expect_death(statuses[i].MPI_ERROR, "one of many");
}

// ---- from any -------------------------------------------------------------------------------------------------------

// Once for the death; then others are heard.
void any() {
  int got = -1;
  MPI_Status status;
  expect_death(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status), "MPI_Recv from any");
  MPI_Request request = receive(MPI_ANY_SOURCE, &got, 6);
  int flag = 0;
  for (int i = 0; i < 100; ++i)
    expect(MPI_Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag == 0, "the death is named again");
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);  // all have named it
  send(next(), rank);
  expect(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status) == MPI_SUCCESS, "the next MPI_Recv");
  expect(got == before() && status.MPI_SOURCE == before(), "the next from any is wrong");
}

void irecv_any() {
  int got = -1;
  MPI_Request request = receive(MPI_ANY_SOURCE, &got);
  expect_death(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait for any");
  expect(request != MPI_REQUEST_NULL, "a receive from any does not go on");
  MPI_Barrier(MPI_COMM_WORLD);
  send(next(), rank);
  expect(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && got == before(), "the next MPI_Wait for any");
}

void probe_any() {
  MPI_Status status;
  expect_death(MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status), "MPI_Probe for any");
}

void replace() {
  int value[2] = {rank, 7};
  expect_death(MPI_Sendrecv_replace(value, 2, MPI_INT, victim, 5, victim, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
               "MPI_Sendrecv_replace");
  expect(MPI_Sendrecv_replace(value, 2, MPI_INT, next(), 5, before(), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
                 MPI_SUCCESS &&
             value[0] == before() && value[1] == 7,
         "MPI_Sendrecv_replace of those that live");
}

// ---- collectives ----------------------------------------------------------------------------------------------------

// Each on communicators that were made in other ways, too; ucft has them.
void collectives() {
  const int others = ranks - 1, all_ranks = 0 + 2 + 3;
  for (MPI_Comm comm : {MPI_COMM_WORLD, ring, copy}) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int sum = 0, got[ranks] = {-1, -1, -1, -1}, given[ranks] = {rank, rank, rank, rank};
    MPI_Request requests[3];
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, requests);
    MPI_Ialltoall(given, 1, MPI_INT, got, 1, MPI_INT, comm, requests + 1);
    MPI_Ibarrier(comm, requests + 2);
    expect(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && sum == all_ranks, "nonblocking collectives");
    for (int r = 0; r < ranks; ++r) expect(got[r] == (r == victim ? -1 : r), "MPI_Ialltoall");
    std::fill_n(got, ranks, -1);
    int count = 0;
    const int one = 1;
    expect(MPI_Scan(&one, &count, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && count == (rank == 0 ? 1 : rank),
           "MPI_Scan");
    expect(MPI_Gather(&rank, 1, MPI_INT, got, 1, MPI_INT, 3, comm) == MPI_SUCCESS, "MPI_Gather");
    for (int r = 0; r < ranks && rank == 3; ++r) expect(got[r] == (r == victim ? -1 : r), "MPI_Gather's blocks");
    int share = -1, blocks[ranks] = {0, 1, 2, 3};
    expect(MPI_Scatter(blocks, 1, MPI_INT, &share, 1, MPI_INT, 2, comm) == MPI_SUCCESS && share == rank, "MPI_Scatter");
    expect(MPI_Reduce_scatter_block(blocks, &share, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && share == others * rank,
           "MPI_Reduce_scatter_block");
  }
  expect_death(MPI_Scatter(shared, 1, MPI_INT, shared, 1, MPI_INT, victim, MPI_COMM_WORLD), "MPI_Scatter of the dead");
  const int counts[ranks] = {1, 1, 1, 1}, places[ranks] = {0, 1, 2, 3};
  expect_death(MPI_Scatterv(shared, counts, places, MPI_INT, shared, 1, MPI_INT, victim, MPI_COMM_WORLD),
               "MPI_Scatterv of the dead");
}

// ---- calls that are MPI's -------------------------------------------------------------------------------------------

// All ranks of the parent find out together, before MPI has it: it can be used yet.
void creations() {
  MPI_Comm made = MPI_COMM_NULL;
  const int size = ranks, yes = 1;
  expect_death(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &yes, 0, &made), "MPI_Cart_create");
  expect_death(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made),
               "MPI_Comm_split_type");
  expect_death(MPI_Cart_sub(ring, &yes, &made), "MPI_Cart_sub");
  const int neighbour = next();
  expect_death(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &neighbour, MPI_UNWEIGHTED, 1, &neighbour,
                                              MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made),
               "MPI_Dist_graph_create_adjacent");
}

void create_group() {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  expect_loss(MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &made), "MPI_Comm_create_group");
}

// Two of the three have left MPI. They go on in ucft, and the third one hears of it.
void left() {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Group all, group;
  const int those[] = {1, 2, 3};
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 3, those, &group);
  int got = -1, sum = -1;
  if (rank == 0)
    for (int failed = 0; failed < 4; ++failed)  // 1, 2, 3, and then nobody is left
      expect_death(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  else
    expect_death(MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &made), "MPI_Comm_create_group");
  is_lost = true;
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (rank == 0)
    expect(error == MPI_SUCCESS && MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && sum == 0 + 2 + 3,
           "MPI_Iallreduce with those that have left MPI");
  else
    expect_death(error, "MPI_Iallreduce after MPI was left");
}

void idup() {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  expect(MPI_Comm_idup(MPI_COMM_WORLD, &made, &request) == MPI_SUCCESS, "MPI_Comm_idup");
  expect_loss(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait for MPI_Comm_idup");
}

// Ranks 0 and 1 are one side, 2 and 3 the other one.
void intercomm() {
  int got = -1;
  const bool is_other = rank >= 2;
  while (!is_death(MPI_Ssend(&rank, 1, MPI_INT, victim, 5, MPI_COMM_WORLD))) continue;
  if (is_other)
    expect_death(MPI_Recv(&got, 1, MPI_INT, victim, 5, sides, MPI_STATUS_IGNORE), "MPI_Recv from the other side");
  if (rank != 3) {
    const int error = MPI_Sendrecv(&rank, 1, MPI_INT, 0, 5, &got, 1, MPI_INT, 0, 5, sides, MPI_STATUS_IGNORE);
    expect(error == MPI_SUCCESS && got == (is_other ? 0 : 2), "a message between the sides");
  }
  expect_death(MPI_Barrier(sides), "MPI_Barrier of both sides");
}

// Rank 3 has no neighbour that is dead. But its neighbours have left MPI, and so no message of theirs will come.
void neighbours() {
  int given[2] = {rank, rank}, got[2] = {-1, -1};
  const int error = MPI_Neighbor_alltoall(given, 1, MPI_INT, got, 1, MPI_INT, ring);
  if (rank != 3 || error != MPI_SUCCESS) expect_death(error, "MPI_Neighbor_alltoall");
  is_lost = true;
}

void ineighbours() {
  int given[2] = {rank, rank}, got[2] = {-1, -1};
  MPI_Request request = MPI_REQUEST_NULL;
  expect(MPI_Ineighbor_alltoall(given, 1, MPI_INT, got, 1, MPI_INT, ring, &request) == MPI_SUCCESS, "its start");
  const int error = MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank != 3 || error != MPI_SUCCESS) expect_death(error, "MPI_Ineighbor_alltoall");
  is_lost = true;
}

void win_create() {
  MPI_Win made = MPI_WIN_NULL;
  expect_loss(MPI_Win_create(shared, sizeof shared, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &made),
              "MPI_Win_create");
}

void fence() { expect_loss(MPI_Win_fence(0, window), "MPI_Win_fence"); }

// Among those that live it goes on, also once the death is known.
void locks() {
  int value = 0;
  const int one = 1;
  while (!is_death(MPI_Ssend(&rank, 1, MPI_INT, victim, 5, MPI_COMM_WORLD))) continue;
  expect_death(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, victim, 0, window), "MPI_Win_lock of the dead");
  expect(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next(), 0, window) == MPI_SUCCESS, "MPI_Win_lock");
  expect(MPI_Fetch_and_op(&one, &value, MPI_INT, next(), 0, MPI_SUM, window) == MPI_SUCCESS, "MPI_Fetch_and_op");
  expect(MPI_Win_unlock(next(), window) == MPI_SUCCESS, "MPI_Win_unlock");
}

void file_open() {
  MPI_File made = MPI_FILE_NULL;
  expect_loss(MPI_File_open(MPI_COMM_WORLD, file_name.c_str(), MPI_MODE_RDWR, MPI_INFO_NULL, &made), "MPI_File_open");
}

void file_write() {
  std::vector<int> data(1'000'000, rank);
  const auto bytes = static_cast<MPI_Offset>(data.size() * sizeof(int));
  expect_loss(
      MPI_File_write_at_all(file, rank * bytes, data.data(), static_cast<int>(data.size()), MPI_INT, MPI_STATUS_IGNORE),
      "MPI_File_write_at_all");
}

const std::map<std::string, std::function<void()>> cases = {
    {"wait", wait},
    {"waitall", waitall},
    {"waitany", waitany},
    {"waitsome", waitsome},
    {"tests", tests},
    {"sends", sends},
    {"status", status},
    {"persistent", persistent},
    {"any", any},
    {"irecv_any", irecv_any},
    {"probe_any", probe_any},
    {"replace", replace},
    {"collectives", collectives},
    {"creations", creations},
    {"idup", idup},
    {"create_group", create_group},
    {"neighbours", neighbours},
    {"ineighbours", ineighbours},
    {"win_create", win_create},
    {"fence", fence},
    {"inactive", inactive},
    {"late", late},
    {"many", many},
    {"intercomm", intercomm},
    {"left", left},
    {"locks", locks},
    {"file_open", file_open},
    {"file_write", file_write},
};

void prepare(const std::string& name) {
  const int size = ranks, yes = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &yes, 0, &ring);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &copy);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  if (name == "fence" || name == "locks") {
    MPI_Win_create(shared, sizeof shared, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  }
  if (name == "intercomm") {
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < 2 ? 2 : 0, 1, &sides);
    MPI_Comm_set_errhandler(sides, MPI_ERRORS_RETURN);
  }
  int parent = static_cast<int>(getppid());
  MPI_Bcast(&parent, 1, MPI_INT, 0, MPI_COMM_WORLD);
  file_name = "/tmp/mpi_waits." + std::to_string(parent);
  if (name == "file_write")
    MPI_File_open(MPI_COMM_WORLD, file_name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &file);
}

// Calls that stay possible.
void go_on() {
  int sum = 0, got = -1;
  const int one = 1;
  expect(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && sum == ranks - 1,
         "the sum at the end");
  const int error =
      MPI_Sendrecv(&rank, 1, MPI_INT, next(), 8, &got, 1, MPI_INT, before(), 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (is_lost)
    expect_death(error, "a message after MPI was left");
  else
    expect(error == MPI_SUCCESS && got == before(), "a message at the end");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto found = cases.find(argc > 1 ? argv[1] : "");
  if (found == cases.end()) MPI_Abort(MPI_COMM_WORLD, 2);
  prepare(found->first);
  if (rank == victim) {
    for (int other = 0; other < ranks; ++other)
      if (other != victim) send(other, victim, 9);  // its last words, which few receive
    // late, so that the others wait by then; a rank that doesn't has the error all the same
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (std::getenv("DIE_BY") != nullptr) _exit(9);
    std::raise(SIGKILL);
  }
  found->second();
  go_on();
  unlink(file_name.c_str());
  MPI_Finalize();
  std::printf("VERDICT %d: %s\n", rank, wrong == 0 ? "right" : "wrong");
  return wrong == 0 ? 0 : 1;
}
