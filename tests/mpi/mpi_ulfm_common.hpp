// Of mpi_ulfm: what all cases have in common.
#pragma once

#include <mpi-ext.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

// One program includes it.
namespace {

struct Death {
  int victim, when;  // when: NUMBER, or -1
};

int rank, size, wrong = 0;
unsigned seed = 1;
bool raises = false;
std::vector<Death> deaths;
std::set<std::string> options;
std::set<int> dead;  // of whom this rank has had an error
MPI_Group world_group = MPI_GROUP_NULL;

void expect(bool right, const std::string& what) {
  if (right || ++wrong > 20) return;
  std::printf("rank %d: %s\n", rank, what.c_str());
  std::fflush(stdout);  // it may be killed
}

std::string text(int error) {
  int length = 0;
  char of_error[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_string(error, of_error, &length);
  return of_error;
}

int class_of(int error) {
  int of_error = MPI_ERR_UNKNOWN;
  MPI_Error_class(error, &of_error);
  return of_error;
}

// The code is the class.
void expect_class(int error, int wanted, const std::string& what) {
  if (error == wanted && class_of(error) == wanted) return;
  const std::map<int, std::string> names = {{MPI_SUCCESS, "MPI_SUCCESS"},
                                            {MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS"},
                                            {MPIX_ERR_PROC_FAILED, "MPIX_ERR_PROC_FAILED"},
                                            {MPIX_ERR_PROC_FAILED_PENDING, "MPIX_ERR_PROC_FAILED_PENDING"},
                                            {MPIX_ERR_REVOKED, "MPIX_ERR_REVOKED"}};
  expect(false, what + ": expected " + names.at(wanted) + ", not " + std::to_string(error) + " (" + text(error) + ")");
}

// MPI_ERR_IN_STATUS need not be its own class.
void expect_in_status(int error, const std::string& what) {
  expect(class_of(error) == MPI_ERR_IN_STATUS, what + ": expected MPI_ERR_IN_STATUS, not " + text(error));
}

void expect_success(int error, const std::string& what) { expect_class(error, MPI_SUCCESS, what); }

void expect_failure(int error, const std::string& what) {
  if (error != MPIX_ERR_REVOKED) expect_class(error, MPIX_ERR_PROC_FAILED, what);
}

std::string list(const std::vector<int>& numbers) {
  std::string all = "{";
  for (int number : numbers) all += " " + std::to_string(number);
  return all + " }";
}

void expect_same(const std::vector<int>& got, const std::vector<int>& wanted, const std::string& what) {
  expect(got == wanted, what + ": expected " + list(wanted) + ", not " + list(got));
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

[[noreturn]] void die() {
  if (std::getenv("DIE_BY") != nullptr) _exit(9);
  std::raise(SIGKILL);
  std::abort();
}

void die_in(int us) {
  std::thread([us] {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    die();
  }).detach();
}

// ---- communicators --------------------------------------------------------------------------------------------------

struct Place {
  int at = 0, members = 0;

  explicit Place(MPI_Comm comm) {
    MPI_Comm_rank(comm, &at);
    MPI_Comm_size(comm, &members);
  }
  int next() const { return (at + 1) % members; }
  int before() const { return (at + members - 1) % members; }
};

// Without one the case can't go on.
MPI_Comm made(int error, MPI_Comm comm, const std::string& what) {
  expect_success(error, what);
  if (error != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 3);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

MPI_Comm copy(MPI_Comm comm) {
  MPI_Comm to = MPI_COMM_NULL;
  const int error = MPI_Comm_dup(comm, &to);
  return made(error, to, "MPI_Comm_dup");
}

// The even or odd ones, the last one first.
MPI_Comm half() {
  MPI_Comm part = MPI_COMM_NULL;
  const int error = MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
  return made(error, part, "MPI_Comm_split");
}

// Of the ranks that live now.
MPI_Comm shrunk(MPI_Comm comm) {
  MPI_Comm to = MPI_COMM_NULL;
  int error = MPIX_ERR_PROC_FAILED;
  for (int tries = 0; tries < 5 && error == MPIX_ERR_PROC_FAILED; ++tries) error = MPIX_Comm_shrink(comm, &to);
  return made(error, to, "MPIX_Comm_shrink");
}

std::vector<int> ranks_of_group(MPI_Group group) {
  int members = 0;
  MPI_Group_size(group, &members);
  std::vector<int> own(static_cast<std::size_t>(members)), of_world(own.size(), -1);
  std::iota(own.begin(), own.end(), 0);
  MPI_Group_translate_ranks(group, members, own.data(), world_group, of_world.data());
  return of_world;
}

std::vector<int> ranks_of(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_EMPTY;
  MPI_Comm_group(comm, &group);
  const std::vector<int> ranks = ranks_of_group(group);
  MPI_Group_free(&group);
  return ranks;
}

std::vector<int> living() {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r)
    if (!dead.contains(r)) ranks.push_back(r);
  return ranks;
}

// Of those that live, around the dead.
int neighbour(int step) {
  int r = rank;
  do r = (r + step + size) % size;
  while (dead.contains(r));
  return r;
}

// A barrier of messages among those that live; collectives may be errors. comm: of all ranks.
void meet(MPI_Comm comm = MPI_COMM_WORLD) {
  const std::vector<int> here = living();
  const auto say = [comm](int to) { expect_success(MPI_Send(&rank, 1, MPI_INT, to, 77, comm), "a message"); };
  const auto hear = [comm](int from) {
    int word = -1;
    const int error = MPI_Recv(&word, 1, MPI_INT, from, 77, comm, MPI_STATUS_IGNORE);
    expect_success(error, "a message of rank " + std::to_string(from));
  };
  if (rank != here.front()) {
    say(here.front());
    hear(here.front());
    return;
  }
  for (int r : here)
    if (r != rank) hear(r);
  for (int r : here)
    if (r != rank) say(r);
}

void await_death(int victim) {
  int word = -1;
  const int error = MPI_Recv(&word, 1, MPI_INT, victim, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect_class(error, MPIX_ERR_PROC_FAILED, "MPI_Recv from the dead");
  dead.insert(victim);
}

// All that live know of it at the end.
void let_die(int victim) {
  if (rank == victim) {
    sleep_ms(10);  // most wait by then
    die();
  }
  await_death(victim);
}

int count(MPI_Comm comm, int* sum) {
  const int one = 1;
  return MPI_Allreduce(&one, sum, 1, MPI_INT, MPI_SUM, comm);
}

int ring(MPI_Comm comm, int value, int* got) {
  const Place place(comm);
  return MPI_Sendrecv(&value, 1, MPI_INT, place.next(), 3, got, 1, MPI_INT, place.before(), 3, comm, MPI_STATUS_IGNORE);
}

// It is of these, in this order, and does all that a communicator does.
void expect_works(MPI_Comm comm, const std::vector<int>& wanted, const std::string& what) {
  const std::vector<int> ranks = ranks_of(comm);
  expect_same(ranks, wanted, what + ": the ranks");
  if (ranks != wanted) return;
  const Place place(comm);
  std::vector<int> all(wanted.size(), -1);
  for (int root = 0; root < place.members; ++root) {
    int got = -1, sum = 0, word = place.at == root ? 100 + root : -1;
    expect_success(ring(comm, rank, &got), what + ": MPI_Sendrecv");
    expect(got == wanted[static_cast<std::size_t>(place.before())], what + ": a message is wrong");
    expect_success(count(comm, &sum), what + ": MPI_Allreduce");
    expect(sum == place.members, what + ": the sum is " + std::to_string(sum));
    expect_success(MPI_Bcast(&word, 1, MPI_INT, root, comm), what + ": MPI_Bcast");
    expect(word == 100 + root, what + ": MPI_Bcast is wrong");
    expect_success(MPI_Allgather(&rank, 1, MPI_INT, all.data(), 1, MPI_INT, comm), what + ": MPI_Allgather");
    expect_same(all, wanted, what + ": MPI_Allgather");
  }
}

// All of comm have these.
void expect_alike(MPI_Comm comm, const std::vector<int>& mine, const std::string& what) {
  int length = static_cast<int>(mine.size()), longest = 0;
  expect_success(MPI_Allreduce(&length, &longest, 1, MPI_INT, MPI_MAX, comm), what + ": MPI_Allreduce");
  std::vector<int> given = mine, least(static_cast<std::size_t>(longest)), most(least.size());
  given.resize(least.size(), -77);
  expect_success(MPI_Allreduce(given.data(), least.data(), longest, MPI_INT, MPI_MIN, comm), what + ": MPI_Allreduce");
  expect_success(MPI_Allreduce(given.data(), most.data(), longest, MPI_INT, MPI_MAX, comm), what + ": MPI_Allreduce");
  const auto differs = std::mismatch(least.begin(), least.end(), most.begin()).first - least.begin();
  expect(least == most, what + ": not the same on all, in place " + std::to_string(differs));
}

// ---- revocation, agreement ------------------------------------------------------------------------------------------

bool is_revoked(MPI_Comm comm) {
  int flag = 0;
  expect_success(MPIX_Comm_is_revoked(comm, &flag), "MPIX_Comm_is_revoked");
  return flag != 0;
}

void revoke(MPI_Comm comm) {
  expect_success(MPIX_Comm_revoke(comm), "MPIX_Comm_revoke");
  expect(is_revoked(comm), "who has revoked doesn't know it");
}

int finish(int error, MPI_Request* request, bool by_test = false) {
  if (error == MPI_SUCCESS && !by_test) return MPI_Wait(request, MPI_STATUS_IGNORE);
  int flag = 0;
  while (error == MPI_SUCCESS && flag == 0) error = MPI_Test(request, &flag, MPI_STATUS_IGNORE);
  return error;
}

int buffer[8];  // what nobody sends

// The second one is complete.
int wait_for_two(MPI_Request* request) {
  MPI_Request two[2] = {*request, MPI_REQUEST_NULL};
  MPI_Status statuses[2];
  MPI_Irecv(buffer + 1, 1, MPI_INT, rank, 23, MPI_COMM_WORLD, two + 1);
  MPI_Send(&rank, 1, MPI_INT, rank, 23, MPI_COMM_WORLD);
  expect_in_status(MPI_Waitall(2, two, statuses), "MPI_Waitall");
  if (statuses[1].MPI_ERROR == MPI_ERR_PENDING) statuses[1].MPI_ERROR = MPI_Wait(two + 1, MPI_STATUS_IGNORE);
  expect_success(statuses[1].MPI_ERROR, "what was complete in MPI_Waitall");
  expect(buffer[1] == rank && two[1] == MPI_REQUEST_NULL, "what was complete in MPI_Waitall is wrong");
  *request = two[0];
  return statuses[0].MPI_ERROR;
}

int wait_persistently(MPI_Comm comm, int peer) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Recv_init(buffer, 1, MPI_INT, peer, 24, comm, &request);
  const int started = MPI_Start(&request), error = finish(started, &request);
  expect(request != MPI_REQUEST_NULL, "the persistent request is gone");
  expect_success(MPI_Request_free(&request), "MPI_Request_free");
  return error;
}

// Every later call.
void expect_revoked(MPI_Comm comm) {
  const auto ignore = MPI_STATUS_IGNORE;
  const std::vector<int> ranks = ranks_of(comm);
  const Place place(comm);
  int peer = place.next(), flag = 0;
  while (dead.contains(ranks[static_cast<std::size_t>(peer)])) peer = (peer + 1) % place.members;
  std::vector<int> in(ranks.size()), out(ranks.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Message message;
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_EMPTY;
  MPI_Comm_group(comm, &group);
  const std::map<std::string, int> errors = {
      {"MPI_Send", MPI_Send(&rank, 1, MPI_INT, peer, 31, comm)},
      {"MPI_Recv", MPI_Recv(buffer, 1, MPI_INT, peer, 32, comm, ignore)},
      {"MPI_Recv from any", MPI_Recv(buffer, 1, MPI_INT, MPI_ANY_SOURCE, 33, comm, ignore)},
      {"MPI_Isend", finish(MPI_Isend(&rank, 1, MPI_INT, peer, 34, comm, &request), &request)},
      {"MPI_Irecv", finish(MPI_Irecv(buffer, 1, MPI_INT, peer, 35, comm, &request), &request)},
      {"MPI_Sendrecv", MPI_Sendrecv(&rank, 1, MPI_INT, peer, 36, buffer, 1, MPI_INT, peer, 36, comm, ignore)},
      {"MPI_Probe", MPI_Probe(peer, 37, comm, ignore)},
      {"MPI_Iprobe", MPI_Iprobe(peer, 37, comm, &flag, ignore)},
      {"MPI_Improbe", MPI_Improbe(MPI_ANY_SOURCE, 37, comm, &flag, &message, ignore)},
      {"MPI_Start", wait_persistently(comm, peer)},
      {"MPI_Allreduce", count(comm, buffer)},
      {"MPI_Barrier", MPI_Barrier(comm)},
      {"MPI_Bcast", MPI_Bcast(buffer, 1, MPI_INT, place.at, comm)},
      {"MPI_Gather", MPI_Gather(&rank, 1, MPI_INT, in.data(), 1, MPI_INT, place.at, comm)},
      {"MPI_Alltoall", MPI_Alltoall(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, comm)},
      {"MPI_Ibarrier", finish(MPI_Ibarrier(comm, &request), &request)},
      {"MPI_Comm_dup", MPI_Comm_dup(comm, &other)},
      {"MPI_Comm_idup", finish(MPI_Comm_idup(comm, &other, &request), &request)},
      {"MPI_Comm_split", MPI_Comm_split(comm, 0, rank, &other)},
      {"MPI_Comm_create", MPI_Comm_create(comm, group, &other)},
  };
  for (const auto& [name, error] : errors) expect_class(error, MPIX_ERR_REVOKED, name + " on a revoked communicator");
  MPI_Group_free(&group);
  expect(is_revoked(comm), "a revoked communicator isn't revoked");
}

void expect_agreed(MPI_Comm comm, int mine, int wanted, int error, const std::string& what) {
  int flag = mine;
  expect_class(MPIX_Comm_agree(comm, &flag), error, what);
  expect_same({flag}, {wanted}, what + ": the flag");
}

int without(int bit) { return static_cast<int>(~(1U << bit)); }

// The AND of without(rank) of each of these.
int without_all(const std::vector<int>& ranks) {
  int flags = -1;
  for (int r : ranks) flags &= without(r);
  return flags;
}

void acknowledge(MPI_Comm comm) {
  int acked = -1;
  if (rank % 2 == 0)
    expect_success(MPIX_Comm_failure_ack(comm), "MPIX_Comm_failure_ack");
  else
    expect_success(MPIX_Comm_ack_failed(comm, size, &acked), "MPIX_Comm_ack_failed");
}

int index_of_mine(std::size_t first = 0) {
  for (std::size_t i = first; i < deaths.size(); ++i)
    if (deaths[i].victim == rank) return static_cast<int>(i - first);
  return -1;
}

}  // namespace
