#include "mpi/creation.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>

#include "mpi/members.hpp"
#include "mpi/own_stack.hpp"
#include "mpi/watch.hpp"

namespace ucft::mpi {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int most_left = 63, tags_of_attempt = 1 << 18;  // tags have 24 bits
std::atomic<int> left_alone{0};

MPI_Comm parent_of_parts = MPI_COMM_NULL;  // null: each communicator is that of its own

std::vector<int> translate(const Members& members, MPI_Group into) {
  std::vector<int> ranks(members.ranks.size());
  MPI_Group all = MPI_GROUP_NULL;
  PMPI_Comm_group(members.parent, &all);
  PMPI_Group_translate_ranks(all, static_cast<int>(ranks.size()), members.ranks.data(), into, ranks.data());
  PMPI_Group_free(&all);
  return ranks;
}

Needed needed_of(const Members& members) {
  return std::make_shared<const std::vector<int>>(translate(members, world.group));
}

// A call of MPI's is left since one of them has died: that is the end of MPI here.
Creation lose_mpi_by(const Members& members) {
  lose_mpi(first_dead(needed_of(members)));
  return Creation::lost;
}

// A death among the members, and then some time for steps that do not depend on it. A rank that gives up too soon costs
// the others an attempt.
class Deaths {
 public:
  Deaths(const Members& members, std::chrono::milliseconds patience)
      : needed_(needed_of(members)), patience_(patience) {}
  bool end_the_wait() {
    look_for_deaths();
    if (limit_ == Clock::time_point::max() && first_dead(needed_) >= 0) limit_ = Clock::now() + patience_;
    return Clock::now() > limit_;
  }

 private:
  Needed needed_;
  std::chrono::milliseconds patience_;
  Clock::time_point limit_ = Clock::time_point::max();
};

// MPI writes into it. It is MPI's for ever where a call is left.
struct Call {
  MPI_Comm created = MPI_COMM_NULL;
  int error = MPI_SUCCESS;
};

// make(&created) is MPI's; data that it uses must be its own.
template <class Make>
Creation blocking(const Members& members, MPI_Comm* created, int& error, Make make) {
  auto* const call = new Call;
  const auto run = [call, make] { return call->error = make(&call->created); };
  if (can_be_left()) {
    Deaths deaths(members, 20ms);
    if (!call_on_own_stack(run, [&] { return deaths.end_the_wait(); })) return Creation::unfinished;
  } else {
    const Needed needed = needed_of(members);
    if (!call_watched(run, needed, error)) return lose_mpi(first_dead(needed)), Creation::lost;
  }
  *created = call->created;
  error = call->error;
  delete call;
  return error == MPI_SUCCESS ? Creation::made : Creation::failed;
}

// begin(&created, &request) is MPI's.
template <class Begin>
Creation nonblocking(const Members& members, MPI_Comm* created, int& error, Begin begin) {
  constexpr int turns_per_look = 256;
  Deaths deaths(members, 500ms);
  auto* const call = new Call;
  MPI_Request request = MPI_REQUEST_NULL;
  error = begin(&call->created, &request);
  for (int turn = 1, done = 0; error == MPI_SUCCESS; ++turn) {
    error = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    if (turn % turns_per_look != 0 || !deaths.end_the_wait()) continue;
#ifdef OPEN_MPI
    return Creation::unfinished;
#else
    return lose_mpi_by(members);
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

int attempts_left() { return left_alone.load(std::memory_order_relaxed); }

int tag_of(int serial, int first, int left) {
  const int each = std::max(tags_of_attempt / world.size, 1);
  return (most_left - left) * tags_of_attempt + (serial % each * world.size + first) % tags_of_attempt;
}

Creation create_group(const Members& members, MPI_Comm* created, int& error) {
  // That copy has tag 0.
  const bool is_behind_copy =
      parent_of_parts == MPI_COMM_NULL || (members.is_behind_copy && members.parent == MPI_COMM_WORLD);
  const MPI_Comm parent = is_behind_copy ? members.parent : parent_of_parts;
  const int tag = is_behind_copy ? 0 : members.tag;
  MPI_Group all = MPI_GROUP_NULL, chosen = MPI_GROUP_NULL;
  PMPI_Comm_group(parent, &all);
  const std::vector<int> ranks = translate(members, all);
  PMPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &chosen);
  PMPI_Group_free(&all);
  const Creation end = blocking(members, created, error, [parent, chosen, tag](MPI_Comm* made) {
    return PMPI_Comm_create_group(parent, chosen, tag, made);
  });
  if (end == Creation::unfinished) left_alone = std::max(left_alone.load(), members.left) + 1;
  if (end == Creation::unfinished && (is_behind_copy || left_alone > most_left))
    return lose_mpi_by(members);  // no tag is lower
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
