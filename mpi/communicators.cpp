#include "mpi/communicators.hpp"

#include <algorithm>
#include <vector>

#include "mpi/creation.hpp"
#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/nonblocking.hpp"
#include "mpi/report.hpp"
#include "mpi/requests.hpp"
#include "mpi/watch.hpp"

namespace ucft::mpi {

Communicator of_world;

namespace {

int keyval = MPI_KEYVAL_INVALID;

// The communicator that the thread has found last. MPI uses handles again, also of communicators that had nothing
// hanging on them. So each attach and each free makes all of these void.
std::atomic<unsigned> changes{0};
struct Last {
  MPI_Comm comm;
  const Communicator* found;
  unsigned changes;
};
thread_local Last last __attribute__((tls_model("initial-exec"))) = {MPI_COMM_NULL, nullptr, 0};

// MPI frees the communicator: all its ranks that live are here.
int on_free(MPI_Comm, int, void* attribute, void*) {
  changes.fetch_add(1, std::memory_order_release);
  auto* communicator = static_cast<Communicator*>(attribute);
  if (world.on) {
    end_all_of(*communicator);
    const Turn turn;
    ucft_comm_destroy(communicator->handle);
  }
  delete communicator;
  return MPI_SUCCESS;
}

void attach(MPI_Comm comm, ucft_comm_h handle) {
  auto* communicator = new Communicator;
  communicator->handle = handle;
  PMPI_Comm_rank(comm, &communicator->rank);
  PMPI_Comm_size(comm, &communicator->size);
  PMPI_Comm_set_attr(comm, keyval, communicator);
  changes.fetch_add(1, std::memory_order_release);
}

}  // namespace

ucft_status_t attach_world() {
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &keyval, nullptr);
  of_world.rank = world.rank;
  of_world.size = world.size;
  return ucft_comm_create(world.context, &of_world.handle);
}

void detach_all() {
  changes.fetch_add(1, std::memory_order_release);
  of_world.handle = UCFT_COMM_NULL;
}

const Communicator* find_derived(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL || comm == MPI_COMM_SELF) return nullptr;
  const unsigned now = changes.load(std::memory_order_acquire);
  if (last.comm == comm && last.changes == now) return last.found;
  void* attribute = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(comm, keyval, &attribute, &found);
  last = {comm, found != 0 ? static_cast<Communicator*>(attribute) : nullptr, now};
  return last.found;
}

// ---- new communicators ----------------------------------------------------------------------------------------------
// First ucft's, whose ranks are agreed on among those that live. Then MPI's of just these ranks: no others take part.
// Then an agreement that all of them have it. A rank that dies before the first is not in it. A rank that dies before
// the last may keep MPI from making it. Then it is made again, of the others, where MPI can still be used
// (creation.hpp). Otherwise it is an error for all.

namespace {

// The ranks that part's members have in parent, in part's order. If all know that one of them is dead, part becomes a
// communicator without it. UCFT_OK with part == UCFT_COMM_NULL: not a member.
ucft_status_t agree_on_members(const Communicator& parent, ucft_comm_h& part, std::vector<int>& members) {
  const Turn turn;
  for (;;) {
    std::int32_t size = 0;
    ucft_comm_size(part, &size);
    members.assign(static_cast<std::size_t>(size), -1);
    ucft_result_t result = UCFT_RESULT_INIT;
    const ucft_status_t status = ucft_allgather(part, &parent.rank, members.data(), 1, UCFT_INT32, nullptr, &result);
    if (status != UCFT_OK || result.contributors == static_cast<std::uint32_t>(size)) return status;
    ucft_comm_h smaller = UCFT_COMM_NULL;
    if (const ucft_status_t copied = ucft_comm_dup(part, &smaller); copied != UCFT_OK) return copied;
    ucft_comm_destroy(part);
    part = smaller;
  }
}

// Some rank of the world that is dead: for an error that is about no rank in particular.
int some_death() {
  for (int rank = 0; rank < world.size; ++rank)
    if (world.dead[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed)) return rank;
  return world.rank;
}

// Another one for each communicator of which this rank is the first. In 24 bits.
std::int32_t next_tag() {
  static std::atomic<unsigned> made{0};
  const unsigned size = static_cast<unsigned>(world.size), each = std::max((1u << 24) / size, 1u);
  return static_cast<std::int32_t>((made++ % each * size + static_cast<unsigned>(world.rank)) & ((1u << 24) - 1));
}

// The greatest end of all ranks, and the tag of part's first rank: in one operation, as one number.
ucft_status_t agree_on_end_and_tag(ucft_comm_h part, std::int32_t& end, int& tag) {
  std::int32_t rank = 0;
  {
    const Turn turn;
    ucft_comm_rank(part, &rank);
  }
  std::int32_t both = end << 24 | (rank == 0 ? next_tag() : 0);
  const ucft_status_t status = agree_on_greatest(part, both, both);
  end = both >> 24;
  tag = both & ((1 << 24) - 1);
  return status;
}

// part is ucft's. make(members, created, error) is MPI's part on this rank. A communicator that MPI has made on some
// ranks only is left to it: to free it would take all of them.
template <class Make>
int make_communicator(MPI_Comm comm, const Communicator& parent, ucft_status_t status, ucft_comm_h part,
                      MPI_Comm* created, Make make) {
  *created = MPI_COMM_NULL;
  if (status == UCFT_OK && part == UCFT_COMM_NULL) return MPI_SUCCESS;
  Members members{comm, {}};
  for (;;) {
    std::int32_t end = static_cast<std::int32_t>(world.lost_by >= 0 ? Creation::lost : Creation::made);
    if (status == UCFT_OK) status = agree_on_end_and_tag(part, end, members.tag);
    if (status == UCFT_OK) status = agree_on_members(parent, part, members.ranks);
    if (status != UCFT_OK) return raise_status(comm, status, -1);
    if (end == static_cast<std::int32_t>(Creation::lost)) return raise_death(comm, some_death());
    MPI_Comm made = MPI_COMM_NULL;
    int error = MPI_SUCCESS;
    const Creation mine = make(members, &made, error);
    status = agree_on_greatest(part, static_cast<std::int32_t>(mine), end);
    if (status != UCFT_OK) return raise_status(comm, status, -1);
    switch (static_cast<Creation>(end)) {
      case Creation::made:
        *created = made;
        if (made != MPI_COMM_NULL) attach(made, part);
        return MPI_SUCCESS;
      case Creation::unfinished: members.again = true; continue;
      case Creation::lost: return raise_death(comm, some_death());
      case Creation::failed: return mine == Creation::failed ? error : raise_failure_elsewhere(comm);
    }
  }
}

// The colour of a part, for all its ranks: its first one, as comm numbers it. Parts of different ranks are the same or
// disjoint.
int colour_of(MPI_Comm comm, MPI_Group part) {
  MPI_Group all = MPI_GROUP_NULL;
  int first = 0, colour = MPI_UNDEFINED;
  PMPI_Comm_group(comm, &all);
  PMPI_Group_translate_ranks(part, 1, &first, all, &colour);
  PMPI_Group_free(&all);
  return colour;
}

// ucft's part of a split, of ranks that have all come.
ucft_status_t split_here(const Communicator& parent, int colour, int key, ucft_comm_h& part) {
  const Turn turn;
  return ucft_comm_split(parent.handle, colour == MPI_UNDEFINED ? -1 : colour, key, &part);
}

int split(MPI_Comm comm, const Communicator& parent, int colour, int key, MPI_Comm* created) {
  count(Function::comm_split, Outcome::taken_over);
  ucft_comm_h part = UCFT_COMM_NULL;
  ucft_status_t status = meet(parent, nullptr);
  if (status == UCFT_OK) status = split_here(parent, colour, key, part);
  return make_communicator(comm, parent, status, part, created, create_group);
}

// all is MPI's own copy, with the attributes that the program has hung on comm. It needs all ranks; without one of them
// the copy is of the survivors, and has no attributes. pmpi: where MPI has the call.
template <class All, class Pmpi>
int dup(MPI_Comm comm, MPI_Comm* created, All all, Pmpi pmpi) {
  const Communicator* parent = find_communicator(comm);
  if (parent == nullptr || created == nullptr) {
    count(Function::comm_dup, Outcome::communicator);
    return run_watched("MPI_Comm_dup", comm, pmpi);
  }
  count(Function::comm_dup, Outcome::taken_over);
  ucft_comm_h part = UCFT_COMM_NULL;
  ucft_status_t status = meet(*parent, nullptr);
  if (status == UCFT_OK) {
    const Turn turn;
    status = ucft_comm_dup(parent->handle, &part);
  }
  return make_communicator(
      comm, *parent, status, part, created, [&](const Members& members, MPI_Comm* made, int& error) {
        return static_cast<int>(members.ranks.size()) == parent->size ? all(members, made, error)
                                                                      : create_group(members, made, error);
      });
}

template <class Pmpi>
int pass_on_split(MPI_Comm comm, Outcome why, Pmpi pmpi) {
  count(Function::comm_split, why);
  return run_watched("MPI_Comm_split", comm, pmpi);
}

}  // namespace

int meet_all(MPI_Comm comm) {
  const Communicator& on = *find_communicator(comm);
  std::int32_t first_missing = -1;
  ucft_result_t result = UCFT_RESULT_INIT;
  result.missing = &first_missing;
  result.missing_capacity = 1;
  if (const ucft_status_t status = meet(on, &result); status != UCFT_OK) return raise_status(comm, status, -1);
  return first_missing < 0 ? MPI_SUCCESS : raise_death(comm, members_of(comm).world_rank_of(first_missing));
}

int attach_part(MPI_Comm comm, Creation mine, int error, MPI_Comm* part) {
  const Communicator& parent = *find_communicator(comm);
  auto end = static_cast<std::int32_t>(mine);
  if (const ucft_status_t status = agree_on_greatest(parent.handle, end, end); status != UCFT_OK)
    return raise_status(comm, status, -1);
  if (static_cast<Creation>(end) != Creation::made) {
    *part = MPI_COMM_NULL;  // it is left to MPI
    if (static_cast<Creation>(end) == Creation::lost) return raise_death(comm, some_death());
    return mine == Creation::failed ? error : raise_failure_elsewhere(comm);
  }
  const bool is_member = *part != MPI_COMM_NULL;
  int colour = MPI_UNDEFINED, rank = 0, size = 0;
  if (is_member) {
    MPI_Group group = MPI_GROUP_NULL;
    PMPI_Comm_group(*part, &group);
    PMPI_Group_rank(group, &rank);
    PMPI_Group_size(group, &size);
    colour = colour_of(comm, group);
    PMPI_Group_free(&group);
  }
  ucft_comm_h handle = UCFT_COMM_NULL;
  std::vector<int> members;
  ucft_status_t status = split_here(parent, colour, rank, handle);
  if (status == UCFT_OK && is_member) status = agree_on_members(parent, handle, members);
  if (status != UCFT_OK || !is_member) return raise_status(comm, status, -1);
  if (static_cast<int>(members.size()) == size) {
    attach(*part, handle);
  } else {  // one has died since: its collectives are MPI's, and errors
    const Turn turn;
    ucft_comm_destroy(handle);
  }
  return MPI_SUCCESS;
}

}  // namespace ucft::mpi

using namespace ucft::mpi;

extern "C" {

// Requests may outlive it.
int MPI_Comm_free(MPI_Comm* comm) {
  if (world.on && comm != nullptr && *comm != MPI_COMM_NULL) requests.move_to_world(*comm);
  return PMPI_Comm_free(comm);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* created) {
  return dup(comm, created, duplicate, [=] { return PMPI_Comm_dup(comm, created); });
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* created) {
  return dup(
      comm, created,
      [=](const Members& members, MPI_Comm* made, int& error) {
        return duplicate_with_info(members, info, made, error);
      },
      [=] { return PMPI_Comm_dup_with_info(comm, info, created); });
}

int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm* created) {
  const Communicator* parent = find_communicator(comm);
  if (parent != nullptr && created != nullptr && (colour >= 0 || colour == MPI_UNDEFINED))
    return split(comm, *parent, colour, key, created);
  return pass_on_split(comm, parent == nullptr ? Outcome::communicator : Outcome::arguments,
                       [=] { return PMPI_Comm_split(comm, colour, key, created); });
}

// A split by the groups.
int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* created) {
  const Communicator* parent = find_communicator(comm);
  if (parent == nullptr || created == nullptr || group == MPI_GROUP_NULL)
    return pass_on_split(comm, parent == nullptr ? Outcome::communicator : Outcome::arguments,
                         [=] { return PMPI_Comm_create(comm, group, created); });
  int rank = MPI_UNDEFINED;
  PMPI_Group_rank(group, &rank);
  return split(comm, *parent, rank == MPI_UNDEFINED ? MPI_UNDEFINED : colour_of(comm, group), rank, created);
}

}  // extern "C"
