#include "mpi/creation.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace ucft::mpi {

namespace {

using Clock = std::chrono::steady_clock;

// Of messages inside MPI_Comm_create_group. Open MPI makes one communicator at a time, of those that it is asked for the one with the
// lowest parent and tag: with a greater tag what is made anew would come after the copy that is not complete, and never will be.
constexpr int tag = 0;

// A death among the members, and then some time for what does not depend on it. (Whoever gives up too soon costs the others a
// communicator, not their lives.)
class Deaths {
 public:
  explicit Deaths(const Members& members) {
    MPI_Group all = MPI_GROUP_NULL;
    PMPI_Comm_group(members.parent, &all);
    ranks_.resize(members.ranks.size());
    PMPI_Group_translate_ranks(all, static_cast<int>(ranks_.size()), members.ranks.data(), world.group, ranks_.data());
    PMPI_Group_free(&all);
  }
  // No call of MPI: another thread may be inside.
  bool end_the_wait() {
    look_for_deaths();
    if (nobody_is_dead()) return false;
    for (std::size_t i = 0; i < ranks_.size() && dead_ < 0; ++i)
      if (world.dead[static_cast<std::size_t>(ranks_[i])].load(std::memory_order_relaxed)) {
        dead_ = ranks_[i];
        limit_ = Clock::now() + std::chrono::milliseconds(500);
      }
    return dead_ >= 0 && Clock::now() > limit_;
  }
  int dead() const { return dead_; }  // rank of the world; -1: none

 private:
  std::vector<int> ranks_;
  int dead_ = -1;
  Clock::time_point limit_;
};

// ---- a call that can't be called back -------------------------------------------------------------------------------

std::atomic<bool> is_parked = false;
pthread_t to_park;

void park_here(int) {
  if (pthread_equal(pthread_self(), to_park) == 0) return;
  is_parked = true;
  for (;;) pause();
}

// It neither burns a processor nor runs into what exit handlers take down. By a signal that is ignored by default, and hardly used.
void park(pthread_t thread) {
  struct sigaction parks {
  }, before{};
  parks.sa_handler = park_here;
  is_parked = false;
  to_park = thread;
  if (sigaction(SIGURG, &parks, &before) != 0 || pthread_kill(thread, SIGURG) != 0) return;
  while (!is_parked) sched_yield();
  sigaction(SIGURG, &before, nullptr);
}

struct Call {
  MPI_Comm created = MPI_COMM_NULL;
  int error = MPI_SUCCESS;
  std::mutex mutex;
  std::condition_variable ends;
  bool done = false;  // guarded
};

// make(&created) is MPI's; what it uses must be its own.
template <class Make>
Creation on_its_own_thread(const Members& members, MPI_Comm* created, int& error, Make make) {
  Deaths deaths(members);
  const auto call = std::make_shared<Call>();
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGURG);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // the program's signals are for its own threads
  std::thread thread;
  try {
    thread = std::thread([call, make] {
      call->error = make(&call->created);
      const std::lock_guard lock(call->mutex);
      call->done = true;
      call->ends.notify_one();
    });
  } catch (const std::system_error&) {  // no thread is left: then nobody watches
    call->done = true;
    call->error = make(&call->created);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock lock(call->mutex);
  while (!call->ends.wait_for(lock, std::chrono::milliseconds(1), [&] { return call->done; })) {
    if (!deaths.end_the_wait()) continue;
    if (!world.threaded) park(thread.native_handle());  // else it may hold a lock
    thread.detach();
    world.lost_by = deaths.dead();
    return Creation::lost;
  }
  lock.unlock();
  if (thread.joinable()) thread.join();
  *created = call->created;
  error = call->error;
  return error == MPI_SUCCESS ? Creation::made : Creation::failed;
}

}  // namespace

Creation create_group(const Members& members, MPI_Comm* created, int& error) {
  MPI_Group all = MPI_GROUP_NULL, chosen = MPI_GROUP_NULL;
  PMPI_Comm_group(members.parent, &all);
  PMPI_Group_incl(all, static_cast<int>(members.ranks.size()), members.ranks.data(), &chosen);
  PMPI_Group_free(&all);
  const MPI_Comm parent = members.parent;
  const Creation end = on_its_own_thread(members, created, error, [parent, chosen](MPI_Comm* made) {
    return PMPI_Comm_create_group(parent, chosen, tag, made);
  });
  if (end == Creation::made || end == Creation::failed) PMPI_Group_free(&chosen);
  return end;
}

Creation duplicate_with_info(const Members& members, MPI_Info info, MPI_Comm* created, int& error) {
  const MPI_Comm parent = members.parent;
  return on_its_own_thread(members, created, error,
                           [parent, info](MPI_Comm* made) { return PMPI_Comm_dup_with_info(parent, info, made); });
}

#ifdef OPEN_MPI
Creation duplicate(const Members& members, MPI_Comm* created, int& error) {
  constexpr int turns_per_look = 256;
  Deaths deaths(members);
  const auto call = new Call;  // MPI's until it is complete
  MPI_Request request = MPI_REQUEST_NULL;
  error = PMPI_Comm_idup(members.parent, &call->created, &request);
  for (int turn = 1, done = 0; error == MPI_SUCCESS; ++turn) {
    error = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    if (turn % turns_per_look == 0 && deaths.end_the_wait()) return Creation::unfinished;
  }
  *created = call->created;
  delete call;
  return error == MPI_SUCCESS ? Creation::made : Creation::failed;
}
#else
// MPICH's MPI_Comm_idup, left alone, keeps it from ever making another communicator.
Creation duplicate(const Members& members, MPI_Comm* created, int& error) {
  const MPI_Comm parent = members.parent;
  return on_its_own_thread(members, created, error, [parent](MPI_Comm* made) { return PMPI_Comm_dup(parent, made); });
}
#endif

}  // namespace ucft::mpi
