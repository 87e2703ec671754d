#include "ucx_layer/runtime/engines/host_slabs.hpp"

#include <atomic>
#include <utility>

#include "ucx_layer/transport/communicator_id.hpp"

namespace ucft::detail {

HostSlabs::HostSlabs(std::uint32_t id, std::vector<std::int32_t> ranks, Rank me, Transport& transport)
    : transport_(transport),
      communicator_(id),
      ranks_(std::move(ranks)),
      me_(me),
      own_(transport.slabs().open(id)),
      slabs_(ranks_.size(), nullptr),
      final_(ranks_.size()),
      left_(ranks_.size()) {
  slabs_[static_cast<std::size_t>(me_)] = own_;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (rank != static_cast<std::size_t>(me_)) SharedPath::include(ranks_[rank], to_wake_);
}

const std::byte* HostSlabs::find(Rank owner) {
  const auto place = static_cast<std::size_t>(owner);
  return slabs_[place] = transport_.slab_of(ranks_[place], communicator_).data;
}

void HostSlabs::wake_others() { transport_.wake(to_wake_); }

// Two that leave at once must not both see the other there (HostEngine::is_last()).
void HostSlabs::say_left(OperationNumber gossip_posted) {
  describe(HostLayout::left(), 1 + gossip_posted);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (ranks_.size() > 1) wake_others();
}

void HostSlabs::close() { transport_.slabs().close(communicator_); }

std::optional<OperationNumber> HostSlabs::gossip_left(Rank rank) {
  const HostWord left = rank == me_ ? 0 : load(rank, HostLayout::left());
  return left == 0 ? std::nullopt : std::optional<OperationNumber>(left - 1);
}

// Before its directory is looked into.
bool HostSlabs::may_yet_open(std::uint32_t communicator, Rank rank) const {
  const ControlPage* const control = transport_.control_of(ranks_[static_cast<std::size_t>(rank)]);
  if (control == nullptr) return false;  // it is absent from the job
  return communicator_id::is_for_all(communicator)
             ? communicator_id::number_of(communicator) >= control->opened_for_all.load(std::memory_order_acquire)
             : communicator_id::number_of(communicator) >= control->opened.load(std::memory_order_acquire);
}

HostLease HostSlabs::lease(Rank rank) const {
  const auto look = [&](std::uint32_t communicator) {
    if (may_yet_open(communicator, rank)) return HostLease::open;
    const SlabView found = transport_.slab_of(ranks_[static_cast<std::size_t>(rank)], communicator);
    return !found.is_there ? HostLease::none : found.is_closed ? HostLease::closed : HostLease::open;
  };
  const HostLease here = look(communicator_);
  // The communicator of an agreement is made when it is first needed, if at all: not after its caller's has been left.
  const std::uint32_t callers = communicator_id::callers(communicator_),
                      place = communicator_id::place_in(communicator_);
  if (here != HostLease::none || place == 0 || place >= communicator_id::on_host) return here;
  return look(callers) == HostLease::open ? HostLease::open : HostLease::none;
}

bool HostSlabs::end() {
  if (!may_end_lease(*this, me_, static_cast<Rank>(ranks_.size()))) return false;
  transport_.slabs().end(communicator_, own_);
  return true;
}

}  // namespace ucft::detail
