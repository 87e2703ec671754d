// Waits for other ranks inside MPI, that end when the rank they wait for is dead.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "mpi/nonblocking.hpp"
#include "mpi/revocation.hpp"
#include "mpi/world.hpp"

namespace ucft::mpi {

// Turns of a loop that waits for MPI. It looks for news every so many.
constexpr int turns_per_look = 1024;

// Rank in MPI_COMM_WORLD whose failure is an error of a wait for that peer of comm; -1: none; or by_revocation. Of
// MPI_ANY_SOURCE: the first of comm whose failure is not acknowledged; or one of them, where no other rank of comm can
// send.
int failed_peer(MPI_Comm comm, int peer);
// That error, to be raised. stays_begun: the receive does. A wait for MPI_ANY_SOURCE has acknowledged that failure on
// comm then. Exception: UCFT_MPI_ON_FAILURE=raise.
int name_failed_peer(MPI_Comm comm, int peer, int world_rank, bool stays_begun = false);

// Ranks of MPI_COMM_WORLD whose failures are acknowledged on that communicator, by rank.
const std::vector<bool>& acknowledged_on(MPI_Comm comm);
void acknowledge(MPI_Comm comm, int world_rank);

// The turns that MPI still gets for messages that a dead rank has sent. They take a time: data may be on their way from
// another host.
class LastTurns {
 public:
  void begin_if(bool failed) {
    if (!failed)
      limit_ = Clock::time_point::max();
    else if (limit_ == Clock::time_point::max())
      limit_ = Clock::now() + std::chrono::milliseconds(20);
  }
  bool are_over() const { return limit_ != Clock::time_point::max() && Clock::now() > limit_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point limit_ = Clock::time_point::max();
};

// Lets the news in, once in so many calls of this thread. Of a call that a program may make in a loop, and that may not
// have to wait. A look takes some us: tests that find nothing may, messages that come at once are to pay nothing.
constexpr unsigned calls_per_look_in_tests = 64, calls_per_look_at_once = 4096;
void look_now_and_then(unsigned calls_per_look);

// done says whether it is over: true then. False: a peer has failed, and MPI has had its last turns.
// function: said of this rank while it waits (Inside).
template <class Done, class HasFailed>
bool wait_unless(const char* function, Done done, HasFailed has_failed) {
  look_now_and_then(calls_per_look_at_once);
  LastTurns last;
  std::optional<Inside> inside;  // after the first turns
  for (;;) {
    for (int turn = 0; turn < turns_per_look; ++turn) {
      drive();
      if (done()) return true;
    }
    if (!inside) inside.emplace(function);
    if (last.are_over()) return false;
    look_for_deaths();
    leave_revoked();
    last.begin_if(has_failed());
  }
}

// A receive that nobody answers must not write into the caller's memory later. A call that can't be taken back (a send;
// a receive that a dead rank has begun to answer) stays with MPI. False: it was answered after all; status is set.
// may_end: asked whether one that has begun to answer may come to its end yet.
bool abandon(MPI_Request& request, bool receives, MPI_Status* status, const std::function<bool()>& may_end = {});

// A nonblocking call of MPI's that waits for all ranks of comm.
int begin_by_mpi(MPI_Comm comm, MPI_Request* request, const std::function<int()>& pmpi);

}  // namespace ucft::mpi
