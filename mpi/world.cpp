#include "mpi/world.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "mpi/communicators.hpp"
#include "mpi/creation.hpp"
#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/revocation.hpp"
#include "mpi/running.hpp"
#include "mpi/watch.hpp"

namespace ucft::mpi {

World world;
thread_local bool Inside::speaks __attribute__((tls_model("initial-exec"))) = false;

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// ---- ucft's start-up by MPI's allgather -----------------------------------------------------------------------------
// Nonblocking: a rank that dies meanwhile makes ucft's own limit pass (UCFT_STARTUP_TIMEOUT), not MPI wait for ever.

ucft_status_t begin_allgather(void* src, void* recv, size_t size, void*, void** request) {
  auto pending = std::make_unique<MPI_Request>();
  const int bytes = static_cast<int>(size);
  if (PMPI_Iallgather(src, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD, pending.get()) != MPI_SUCCESS)
    return UCFT_ERR_STARTUP;
  *request = pending.release();
  return UCFT_OK;
}

ucft_status_t test_allgather(void* request) {
  int done = 0;
  if (PMPI_Test(static_cast<MPI_Request*>(request), &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return UCFT_ERR_STARTUP;
  return done != 0 ? UCFT_OK : UCFT_INPROGRESS;
}

ucft_status_t free_allgather(void* request) {
  delete static_cast<MPI_Request*>(request);
  return UCFT_OK;
}

void on_death(const ucft_failure_t* failure, void*) {
  world.dead[static_cast<std::size_t>(failure->rank)].store(true, std::memory_order_relaxed);
  note_failure(failure->rank);
  if (world.on_failure == OnFailure::end) end_by_failure(failure->rank);
}

// Empty: it is understood.
std::string read_on_failure() {
  const char* value = std::getenv("UCFT_MPI_ON_FAILURE");
  const std::string what = value == nullptr ? "continue" : value;
  world.on_failure = what == "end"                     ? OnFailure::end
                     : what == "end-unless-collective" ? OnFailure::end_unless_collective
                     : what == "raise"                 ? OnFailure::raise
                     : what == "revoke"                ? OnFailure::revoke
                                                       : OnFailure::go_on;
  if (world.on_failure != OnFailure::go_on || what == "continue") return {};
  return "UCFT_MPI_ON_FAILURE=" + what + ": expected continue, end, end-unless-collective, raise or revoke";
}

// Empty: the context is there.
std::string create_context() {
  const char* value = std::getenv("UCFT_MPI");
  if (value != nullptr && std::strcmp(value, "y") != 0) return std::string("UCFT_MPI=") + value + ": expected y or n";
  if (const std::string problem = read_on_failure(); !problem.empty()) return problem;
  ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
  params.oob = {begin_allgather,
                test_allgather,
                free_allgather,
                nullptr,
                static_cast<std::uint32_t>(world.size),
                static_cast<std::uint32_t>(world.rank)};
  params.failure_callback = on_death;
  if (ucft_context_create(&params, &world.context) != UCFT_OK) return ucft_last_error();
  std::int32_t rank = -1, size = -1;
  ucft_context_rank(world.context, &rank);
  ucft_context_size(world.context, &size);
  if (rank == world.rank && size == world.size) return attach_world() == UCFT_OK ? "" : ucft_last_error();
  return "rank " + std::to_string(rank) + " of " + std::to_string(size) + " in ucft is rank " +
         std::to_string(world.rank) + " of " + std::to_string(world.size) + " in MPI_COMM_WORLD";
}

// The least of all ranks' values. Somebody has died in start-up if it doesn't come: nothing that MPI does would end
// then.
int agree_on_least(int mine, const std::string& why) {
  int least = mine, done = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Iallreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request);
  const auto limit = Clock::now() + 10s;
  while (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0)
    if (!why.empty() && Clock::now() > limit) {
      std::fprintf(stderr, "ucft: start-up under MPI failed on rank %d, and MPI does not answer any more: %s\n",
                   world.rank, why.c_str());
      PMPI_Abort(MPI_COMM_WORLD, 1);
    }
  return least;
}

}  // namespace

void lose_mpi(int by) {
  if (world.lost_by >= 0) return;
  world.lost_by = by;
  const Turn turn;
  say_lost(by);
}

void note_failure(int rank) {
  {
    const std::lock_guard lock(world.order_mutex);
    if (std::find(world.order.begin(), world.order.end(), rank) == world.order.end()) world.order.push_back(rank);
  }
  world.deaths.fetch_add(1, std::memory_order_release);
}

bool is_switched_off() {
  const char* value = std::getenv("UCFT_MPI");
  return value != nullptr && std::strcmp(value, "n") == 0;
}

void start_world() {
  PMPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &world.size);
  int provided = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&provided);
  world.threaded = provided == MPI_THREAD_MULTIPLE;
  if (agree_on_least(is_switched_off() ? 0 : 1, {}) == 0) return;
  world.dead = std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(world.size));
  world.lost = std::make_unique<std::atomic<int>[]>(static_cast<std::size_t>(world.size));
  for (int rank = 0; rank < world.size; ++rank) world.lost[static_cast<std::size_t>(rank)] = -1;
  const std::string why = create_context();
  const int first_without = agree_on_least(why.empty() ? world.size : world.rank, why);
  if (first_without == world.size) {
    PMPI_Comm_group(MPI_COMM_WORLD, &world.group);
    prepare_creation();
    world.on = Inside::speaks = true;
    prepare_errors();
    const Turn turn;
    register_for_words(of_world, members_of(MPI_COMM_WORLD).all);
    if (world.on_failure == OnFailure::end) watch_always();
    return;
  }
  if (first_without == world.rank)
    std::fprintf(stderr, "ucft: MPI programs of this job go on without fault tolerance: rank %d: %s\n", world.rank,
                 why.c_str());
  if (world.context != UCFT_CONTEXT_NULL) ucft_context_destroy(world.context);
}

void close_world() {
  if (world.on_failure != OnFailure::go_on) stop_watching();
  world.on_failure = OnFailure::go_on;
  world.on = false;
  detach_all();
}

void leave_world() {
  const Turn turn;
  end_words();
  ucft_context_destroy(world.context);
}

void refuse_from_now_on() {
  world.has_ended = world.on = true;
  world.deaths.fetch_add(1, std::memory_order_release);
  world.lost_by = 0;
  for (int rank = 0; rank < world.size; ++rank)
    if (failure_of(rank) >= 0) world.lost_by = rank;
  // The program has ended its part: nothing is fatal any more. It outlives the exit handlers, so it is never deleted.
  [[maybe_unused]] static const auto* const silence = new Silence;
}

void look_for_deaths() {
  if (world.has_ended) return;
  const bool locks = world.threaded || world.is_shared.load(std::memory_order_relaxed);
  if (locks && !world.mutex.try_lock()) return;  // the thread that has it lets the news in
  ucft_progress(world.context);
  if (queued.load(std::memory_order_relaxed) > 0) post_queued();
  exchange_words();
  if (locks) world.mutex.unlock();
}

}  // namespace ucft::mpi
