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
#include <numeric>
#include <system_error>
#include <thread>

namespace ucft::mpi {

namespace {

using Clock = std::chrono::steady_clock;

MPI_Comm parent_of_parts = MPI_COMM_NULL;  // null: each communicator is that of its own

std::vector<int> translate(const Members& members, MPI_Group into) {
  std::vector<int> ranks(members.ranks.size());
  MPI_Group all = MPI_GROUP_NULL;
  PMPI_Comm_group(members.parent, &all);
  PMPI_Group_translate_ranks(all, static_cast<int>(ranks.size()), members.ranks.data(), into, ranks.data());
  PMPI_Group_free(&all);
  return ranks;
}

// A death among the members, and then some time for steps that do not depend on it. (A rank that gives up too soon
// costs the others a communicator, not their lives.)
class Deaths {
 public:
  explicit Deaths(const Members& members) : ranks_(translate(members, world.group)) {}
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

// It neither burns a processor nor runs into what exit handlers take down. By a signal that is ignored by default, and
// hardly used.
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

// make(&created) is MPI's; data that it uses must be its own.
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
    lose_mpi(deaths.dead());
    return Creation::lost;
  }
  lock.unlock();
  if (thread.joinable()) thread.join();
  *created = call->created;
  error = call->error;
  return error == MPI_SUCCESS ? Creation::made : Creation::failed;
}

// begin(&created, &request) is MPI's.
template <class Begin>
Creation nonblocking(const Members& members, MPI_Comm* created, int& error, Begin begin) {
  constexpr int turns_per_look = 256;
  Deaths deaths(members);
  const auto call = new Call;  // MPI's until it is complete
  MPI_Request request = MPI_REQUEST_NULL;
  error = begin(&call->created, &request);
  for (int turn = 1, done = 0; error == MPI_SUCCESS; ++turn) {
    error = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    if (turn % turns_per_look != 0 || !deaths.end_the_wait()) continue;
#ifdef OPEN_MPI
    return Creation::unfinished;
#else
    lose_mpi(deaths.dead());
    return Creation::lost;
#endif
  }
  *created = call->created;
  delete call;
  return error == MPI_SUCCESS ? Creation::made : Creation::failed;
}

// MPICH's MPI_Comm_create_group doesn't.
void inherit_error_handler(MPI_Comm parent, MPI_Comm part) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (PMPI_Comm_get_errhandler(parent, &handler) != MPI_SUCCESS) return;
  PMPI_Comm_set_errhandler(part, handler);
  PMPI_Errhandler_free(&handler);
}

}  // namespace

#ifdef OPEN_MPI
void prepare_creation() {
  Members all{MPI_COMM_WORLD, std::vector<int>(static_cast<std::size_t>(world.size))};
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  int error = MPI_SUCCESS;
  auto end = static_cast<std::int32_t>(duplicate(all, &parent_of_parts, error));
  if (agree_on_greatest(of_world.handle, end, end) != UCFT_OK || static_cast<Creation>(end) != Creation::made)
    parent_of_parts = MPI_COMM_NULL;  // a rank has died meanwhile
}
#else
void prepare_creation() {}
#endif

Creation create_group(const Members& members, MPI_Comm* created, int& error) {
  // Open MPI makes one communicator at a time: of those that it is asked for the one with the lowest parent and tag. So
  // a communicator that is made anew must not come after the copy that has been left alone: that has tag 0.
  const bool is_own = parent_of_parts == MPI_COMM_NULL || (members.again && members.parent == MPI_COMM_WORLD);
  const MPI_Comm parent = is_own ? members.parent : parent_of_parts;
  const int tag = is_own ? 0 : members.tag;
  MPI_Group all = MPI_GROUP_NULL, chosen = MPI_GROUP_NULL;
  PMPI_Comm_group(parent, &all);
  const std::vector<int> ranks = translate(members, all);
  PMPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &chosen);
  PMPI_Group_free(&all);
  const Creation end = on_its_own_thread(members, created, error, [parent, chosen, tag](MPI_Comm* made) {
    return PMPI_Comm_create_group(parent, chosen, tag, made);
  });
  if (end == Creation::made || end == Creation::failed) PMPI_Group_free(&chosen);
  if (end == Creation::made) inherit_error_handler(members.parent, *created);
  return end;
}

Creation duplicate(const Members& members, MPI_Comm* created, int& error) {
  return nonblocking(members, created, error, [&](MPI_Comm* made, MPI_Request* request) {
    return PMPI_Comm_idup(members.parent, made, request);
  });
}

Creation duplicate_with_info(const Members& members, MPI_Info info, MPI_Comm* created, int& error) {
#if MPI_VERSION >= 4
  return nonblocking(members, created, error, [&](MPI_Comm* made, MPI_Request* request) {
    return PMPI_Comm_idup_with_info(members.parent, info, made, request);
  });
#else
  const Creation end = duplicate(members, created, error);
  if (end != Creation::made || info == MPI_INFO_NULL) return end;
  error = PMPI_Comm_set_info(*created, info);
  return error == MPI_SUCCESS ? end : Creation::failed;
#endif
}

}  // namespace ucft::mpi
