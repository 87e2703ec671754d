// MPI_COMM_WORLD as ucft sees it: the job's context, the ranks that are known to be dead, and the turn to be inside
// ucft.
//
// Thread rule: ucft lets one thread at a time into a context. Up to MPI_THREAD_SERIALIZED the program sees to that.
// With MPI_THREAD_MULTIPLE every call of ucft is made under the lock of a Turn. A thread that waits for other ranks
// gives up its turn meanwhile (`complete` in running.hpp), unless it makes or frees a communicator. Before it makes
// one there is a barrier in which MPI goes on.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#endif
#pragma GCC visibility push( \
    default)  // what we define of it is what programs call; Open MPI says so itself, MPICH doesn't
#include <mpi.h>
#pragma GCC visibility pop

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "ucft/ucft.h"

namespace ucft::mpi {

// UCFT_MPI_ON_FAILURE.
enum class OnFailure {
  go_on,
  end,
  end_unless_collective,
  raise,  // a collective that a dead rank has no part in is an error, as ULFM has it
  revoke  // the same, and an error that a rank has failed revokes its communicator
};

struct World {
  bool on = false;                     // the calls are taken over; else every one of them is MPI's
  bool threaded = false;               // MPI_THREAD_MULTIPLE
  std::atomic<bool> is_shared{false};  // another thread, of ours, lets news in (watch.cpp)
  int rank = 0, size = 0;
  OnFailure on_failure = OnFailure::go_on;
  ucft_context_h context = UCFT_CONTEXT_NULL;
  std::atomic<int> deaths{0};                 // that this rank knows of, losses, and revocations
  std::unique_ptr<std::atomic<bool>[]> dead;  // by rank
  std::unique_ptr<std::atomic<int>[]> lost;   // by rank: by whose death it has lost MPI, or -1
  std::mutex order_mutex;
  std::vector<int> order;       // guarded: ranks that have failed (failure_of), as this rank has learned of them
  std::recursive_mutex mutex;   // MPI may free a communicator inside a call of ours
  std::atomic<int> waiting{0};  // for the mutex
  MPI_Group group = MPI_GROUP_NULL;
  bool has_ended = false;  // MPI_Finalize has left MPI as it was. Calls that come later are errors, and wait for nobody
  int lost_by = -1;        // MPI can't be used any more in this process, since that rank has died (creation.hpp)
};
extern World world;
inline bool collectives_raise() { return world.on_failure >= OnFailure::raise; }

// UCFT_MPI=n.
bool is_switched_off();
// Ends the job, as UCFT_MPI_ON_FAILURE wants it. The lowest rank that lives says which rank has failed.
[[noreturn]] void end_by_failure(int world_rank);
// Launchers lose words of ranks that end before these are read.
void wait_until_stderr_is_read();
// Creates the context, by MPI's own allgather, and switches the world on if that has worked on all ranks. Otherwise one
// rank says why on stderr, and MPI has all calls.
void start_world();
// From now on all calls are MPI's; deaths are still seen.
void close_world();
// Leaves the job. Collective.
void leave_world();
// Behind that, if MPI is left as it is: exit handlers, such as HDF5's, may call MPI yet.
void refuse_from_now_on();

class Turn {
 public:
  Turn() : has_lock_(world.threaded || world.is_shared.load(std::memory_order_relaxed)) {
    if (!has_lock_) return;
    world.waiting.fetch_add(1, std::memory_order_relaxed);
    world.mutex.lock();
    world.waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  ~Turn() {
    if (has_lock_) world.mutex.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  const bool has_lock_;
};

// Says, as long as it lives, that this rank is inside a function of MPI's. A user who looks for the rank that all wait
// for finds it there. With MPI_THREAD_MULTIPLE of the thread alone that called MPI_Init.
class Inside {
 public:
  explicit Inside(const char* function) : is_said_(world.on && speaks) {
    if (is_said_) ucft_note_activity(world.context, function);
  }
  ~Inside() {
    if (is_said_) ucft_note_activity(world.context, nullptr);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static thread_local bool speaks __attribute__((tls_model("initial-exec")));

 private:
  const bool is_said_;
};

// Lets ucft work, and news of deaths in. For loops that wait for MPI; cheap enough for every some hundred turns of
// them.
void look_for_deaths();

// MPI can't be used any more in this process, since that rank has died. The others are told: messages of this rank will
// not come, though ucft goes on with it.
void lose_mpi(int by);

// Of another rank: it has died, or has lost MPI. Any thread.
void note_failure(int rank);

// In place of a rank that has failed: the communicator has been revoked.
constexpr int by_revocation = 1 << 30;

// Rank of MPI_COMM_WORLD whose death keeps that one from using MPI: its own, or that by which it has lost MPI. -1:
// none is known.
inline int failure_of(int world_rank) {
  const auto at = static_cast<std::size_t>(world_rank);
  return world.dead[at].load(std::memory_order_relaxed) ? world_rank : world.lost[at].load(std::memory_order_relaxed);
}

inline bool nobody_is_dead() { return world.deaths.load(std::memory_order_relaxed) == 0; }

}  // namespace ucft::mpi
