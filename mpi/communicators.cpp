#include "mpi/communicators.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "mpi/creation.hpp"
#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/nonblocking.hpp"
#include "mpi/report.hpp"
#include "mpi/requests.hpp"
#include "mpi/revocation.hpp"
#include "mpi/running.hpp"
#include "mpi/watch.hpp"

namespace ucft::mpi {

Communicator of_world;
std::atomic<const Communicator*> found_world = &of_world;

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

// ucft's part of a communicator.
struct Part {
  ucft_comm_h handle = UCFT_COMM_NULL, control = UCFT_COMM_NULL;
  std::int64_t id = 0;

  void destroy() {
    const Turn turn;
    if (handle != UCFT_COMM_NULL) ucft_comm_destroy(handle);
    if (control != UCFT_COMM_NULL) ucft_comm_destroy(control);
    handle = control = UCFT_COMM_NULL;
  }
};

// MPI frees the communicator: all its ranks that live are here.
int on_free(MPI_Comm, int, void* attribute, void*) {
  changes.fetch_add(1, std::memory_order_release);
  auto* communicator = static_cast<Communicator*>(attribute);
  const bool is_alive = world.on && !world.has_ended;
  if (is_alive) end_all_of(*communicator);
  const Turn turn;
  unregister(*communicator);
  if (is_alive) Part{communicator->handle, communicator->control}.destroy();
  delete communicator;
  return MPI_SUCCESS;
}

void attach(MPI_Comm comm, const Part& part) {
  auto* communicator = new Communicator;
  communicator->handle = part.handle;
  communicator->control = part.control;
  communicator->id = part.id;
  PMPI_Comm_rank(comm, &communicator->rank);
  PMPI_Comm_size(comm, &communicator->size);
  PMPI_Comm_set_attr(comm, keyval, communicator);
  changes.fetch_add(1, std::memory_order_release);
  const Turn turn;
  register_for_words(*communicator, members_of(comm).all);
}

}  // namespace

ucft_status_t attach_world() {
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &keyval, nullptr);
  of_world.rank = world.rank;
  of_world.size = world.size;
  if (const ucft_status_t status = ucft_comm_create(world.context, &of_world.handle); status != UCFT_OK) return status;
  return ucft_comm_create(world.context, &of_world.control);
}

void forget_found() {
  if (of_world.is_revoked) found_world = nullptr;
  changes.fetch_add(1, std::memory_order_release);
}

void detach_all() {
  found_world = nullptr;
  changes.fetch_add(1, std::memory_order_release);
  of_world.handle = UCFT_COMM_NULL;
}

const Communicator* find_any(MPI_Comm comm) {
  if (!world.on || world.has_ended || comm == MPI_COMM_NULL || comm == MPI_COMM_SELF) return nullptr;
  if (comm == MPI_COMM_WORLD) return &of_world;
  void* attribute = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(comm, keyval, &attribute, &found);
  return found != 0 ? static_cast<Communicator*>(attribute) : nullptr;
}

const Communicator* find_derived(MPI_Comm comm) {
  const unsigned now = changes.load(std::memory_order_acquire);
  if (last.comm == comm && last.changes == now) return last.found;
  const Communicator* const known = find_any(comm);
  last = {comm, known != nullptr && !known->is_revoked ? known : nullptr, now};
  return last.found;
}

// ---- new communicators ----------------------------------------------------------------------------------------------
// First ucft's, whose ranks are agreed on among those that live. Then MPI's of just these ranks: no others take part.
// Then an agreement that all of them have it. A rank that dies before the first is not in it. A rank that dies before
// the last may keep MPI from making it. Then it is made again, of the others, where MPI can still be used
// (creation.hpp). Otherwise it is an error for all.

namespace {

// Another one for each communicator that this process has a part in.
std::int32_t next_serial() {
  static std::atomic<std::int32_t> made{0};
  return ++made;
}

// All survivors of part have come. part becomes a communicator without those that all know to be dead by now, and gets
// what it lacks. end: this rank's; the greatest of all, then.
ucft_status_t agree_on_members(const Communicator& parent, Part& part, Members& members, Creation& end) {
  struct Introduction {
    std::int32_t rank, end, left, serial;
  };
  const Turn turn;
  for (;;) {
    std::int32_t size = 0, copied = 0;
    ucft_comm_size(part.handle, &size);
    thread_local std::vector<Introduction> room;  // always the same place: ucft looks only once whether it is memory
    if (room.size() < static_cast<std::size_t>(size)) room.resize(static_cast<std::size_t>(size));
    const std::span all(room.data(), static_cast<std::size_t>(size));
    std::int32_t place = 0;
    ucft_comm_rank(part.handle, &place);
    all[static_cast<std::size_t>(place)] = {parent.rank, static_cast<std::int32_t>(end), attempts_left(),
                                            next_serial()};
    ucft_result_t result = UCFT_RESULT_INIT;
    ucft_status_t status =
        ucft_allgather(part.handle, UCFT_IN_PLACE, all.data(), sizeof(Introduction), UCFT_UINT8, nullptr, &result);
    if (status == UCFT_OK) status = ucft_comm_dup(part.handle, &part.control);
    if (status != UCFT_OK) return status;
    ucft_comm_size(part.control, &copied);
    if (copied == size && result.contributors == static_cast<std::uint32_t>(size)) {
      members.ranks.clear();
      members.left = 0;
      for (const Introduction& each : all) {
        members.ranks.push_back(each.rank);
        members.left = std::max(members.left, each.left);
        end = std::max(end, static_cast<Creation>(each.end));
      }
      const int first = members_of(members.parent).world_rank_of(all.front().rank);
      part.id = std::int64_t{all.front().serial} << 32 | first;
      members.tag = tag_of(all.front().serial, first, members.left);
      return UCFT_OK;
    }
    std::swap(part.handle, part.control);  // the copy is of the survivors
    ucft_comm_destroy(part.control);
    part.control = UCFT_COMM_NULL;
  }
}

// Some rank of the world that is dead: for an error that is about no rank in particular.
int some_death() {
  for (int rank = 0; rank < world.size; ++rank)
    if (failure_of(rank) >= 0) return rank;
  return world.rank;
}

// part is ucft's. make(members, created, error) is MPI's part on this rank. A communicator that MPI has made on some
// ranks only is left to it: to free it would take all of them.
template <class Make>
int make_communicator(MPI_Comm comm, const Communicator& parent, ucft_status_t status, Part part, MPI_Comm* created,
                      Make make) {
  *created = MPI_COMM_NULL;
  if (status == UCFT_OK && part.handle == UCFT_COMM_NULL) return MPI_SUCCESS;
  Members members{comm, {}};
  for (;;) {
    Creation before = world.lost_by >= 0 ? Creation::lost : Creation::made;
    if (status == UCFT_OK) status = agree_on_members(parent, part, members, before);
    if (status != UCFT_OK) return raise_status(comm, status, -1);
    if (before == Creation::lost) {
      part.destroy();
      return raise_death(comm, some_death());
    }
    MPI_Comm made = MPI_COMM_NULL;
    int error = MPI_SUCCESS;
    const Creation mine = make(members, &made, error);
    std::int32_t end = 0;
    status = agree_on_greatest(part.handle, static_cast<std::int32_t>(mine), end);
    if (status != UCFT_OK) return raise_status(comm, status, -1);
    if (static_cast<Creation>(end) == Creation::made) {
      *created = made;
      if (made != MPI_COMM_NULL) attach(made, part);
      return MPI_SUCCESS;
    }
    if (static_cast<Creation>(end) == Creation::unfinished) {
      const Turn turn;
      ucft_comm_destroy(part.control);
      part.control = UCFT_COMM_NULL;
      continue;
    }
    part.destroy();
    if (static_cast<Creation>(end) == Creation::lost) return raise_death(comm, some_death());
    return mine == Creation::failed ? error : raise_failure_elsewhere(comm);
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
ucft_status_t split_here(ucft_comm_h parent, int colour, int key, Part& part) {
  const Turn turn;
  return ucft_comm_split(parent, colour == MPI_UNDEFINED ? -1 : colour, key, &part.handle);
}

int split(MPI_Comm comm, const Communicator& parent, int colour, int key, MPI_Comm* created) {
  count(Function::comm_split, Outcome::taken_over);
  return raise_behind(comm, [&] {
    const Busy busy(parent);
    if (const int error = meet_all(comm, false); error != MPI_SUCCESS) return error;
    Part part;
    const ucft_status_t status = split_here(parent.handle, colour, key, part);
    return make_communicator(comm, parent, status, part, created, create_group);
  });
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
  return raise_behind(comm, [&] {
    const Busy busy(*parent);
    if (const int error = meet_all(comm, false); error != MPI_SUCCESS) return error;
    Part part;
    const ucft_status_t status = split_here(parent->handle, 0, parent->rank, part);
    return make_communicator(comm, *parent, status, part, created, [&](Members& members, MPI_Comm* made, int& error) {
      if (static_cast<int>(members.ranks.size()) < parent->size) return create_group(members, made, error);
      members.is_behind_copy = true;
      return all(members, made, error);
    });
  });
}

template <class Pmpi>
int pass_on_split(MPI_Comm comm, Outcome why, Pmpi pmpi) {
  count(Function::comm_split, why);
  return run_watched("MPI_Comm_split", comm, pmpi);
}

}  // namespace

// A live rank that is missing has left, as the communicator is revoked; this rank knows of that then.
int meet_all(MPI_Comm comm, bool needs_all) {
  const Communicator& on = *find_communicator(comm);
  std::vector<std::int32_t> missing(static_cast<std::size_t>(on.size));
  ucft_result_t result = UCFT_RESULT_INIT;
  result.missing = missing.data();
  result.missing_capacity = on.size;
  if (const ucft_status_t status = meet(on, &result); status != UCFT_OK)
    return on.is_revoked ? raise_death(comm, by_revocation) : raise_status(comm, status, -1);
  const Roster& members = members_of(comm);
  int dead = -1;
  for (std::int32_t i = 0; i < result.missing_count; ++i) {
    const int rank = members.world_rank_of(missing[static_cast<std::size_t>(i)]);
    if (on.is_revoked && failure_of(rank) < 0) return raise_death(comm, by_revocation);
    if (dead < 0) dead = rank;
  }
  return dead >= 0 && (needs_all || collectives_raise()) ? raise_death(comm, dead) : MPI_SUCCESS;
}

int attach_part(MPI_Comm comm, Creation mine, int error, MPI_Comm* part) {
  const Communicator& parent = *find_any(comm);
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
  Part ours;
  Members members{comm, {}};
  ucft_status_t status = split_here(parent.handle, colour, rank, ours);
  if (status == UCFT_OK && is_member) status = agree_on_members(parent, ours, members, mine);
  if (status != UCFT_OK || !is_member) return raise_status(comm, status, -1);
  if (static_cast<int>(members.ranks.size()) == size)
    attach(*part, ours);
  else
    ours.destroy();  // one has died since: its collectives are MPI's, and errors
  return MPI_SUCCESS;
}

int shrink(MPI_Comm comm, const Communicator& parent, MPI_Comm* created) {
  *created = MPI_COMM_NULL;
  const bool is_lost = world.lost_by >= 0;
  end_queued_on_control(parent);
  std::int32_t unused = 0;
  Part part;
  ucft_status_t status = agree_on_greatest(parent.control, 0, unused);  // MPI goes on until all have come
  if (status == UCFT_OK) status = split_here(parent.control, is_lost ? MPI_UNDEFINED : 0, parent.rank, part);
  if (status == UCFT_OK && is_lost) return raise_death(comm, world.lost_by);
  return make_communicator(comm, parent, status, part, created, create_group);
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
