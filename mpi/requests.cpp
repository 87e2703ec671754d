#include "mpi/requests.hpp"

#include "mpi/handle_number.hpp"
#include "mpi/members.hpp"
#include "mpi/revocation.hpp"

namespace ucft::mpi {

Requests requests;

namespace {

constexpr std::size_t fewest = 64;

}  // namespace

std::size_t Requests::place_of(std::uint64_t key) const {
  std::size_t at = home_of(key);
  while (entries_[at].number != 0 && entries_[at].key != key) at = (at + 1) & (entries_.size() - 1);
  return at;
}

void Requests::grow() {
  std::vector<Entry> before(entries_.empty() ? fewest : 2 * entries_.size());
  before.swap(entries_);
  for (const Entry& entry : before)
    if (entry.number != 0) entries_[place_of(entry.key)] = entry;
}

void Requests::add(MPI_Request request, const Watched& watched) {
  if (request == MPI_REQUEST_NULL) return;
  const Guard guard(mutex_);
  if (2 * (count_.load(std::memory_order_relaxed) + 1) > entries_.size()) grow();
  Entry& entry = entries_[place_of(number_of(request))];
  if (entry.number == 0) count_.fetch_add(1, std::memory_order_relaxed);
  entry = {number_of(request), ++last_number_, watched};
}

Requests::Entry Requests::find(MPI_Request request) const {
  if (request == MPI_REQUEST_NULL || is_empty()) return {};
  const Guard guard(mutex_);
  return entries_[place_of(number_of(request))];
}

// Those behind it in its run move up.
void Requests::remove(const Entry& entry) {
  if (entry.number == 0) return;
  const Guard guard(mutex_);
  const std::size_t last = entries_.size() - 1;
  std::size_t hole = place_of(entry.key);
  if (entries_[hole].number != entry.number) return;
  for (std::size_t at = (hole + 1) & last; entries_[at].number != 0; at = (at + 1) & last) {
    const std::size_t home = home_of(entries_[at].key);
    if (((at - home) & last) < ((at - hole) & last)) continue;
    entries_[hole] = entries_[at];
    hole = at;
  }
  entries_[hole] = {};
  count_.fetch_sub(1, std::memory_order_relaxed);
}

void Requests::move_to_world(MPI_Comm comm) {
  if (is_empty()) return;
  const bool was_revoked = is_revoked(comm);
  const Guard guard(mutex_);
  for (Entry& entry : entries_) {
    Watched& watched = entry.watched;
    if (entry.number == 0 || watched.comm != comm || watched.collective != nullptr) continue;
    if (watched.peer >= 0) {
      const int there = world.lost_by < 0 ? members_of(comm).world_rank_of(watched.peer) : -1;
      watched.peer = there >= 0 ? there : MPI_PROC_NULL;
    }
    watched.comm = MPI_COMM_WORLD;
    watched.is_moved = true;
    watched.is_revoked |= was_revoked;
  }
}

}  // namespace ucft::mpi
