// The job as this rank sees it (observer/job_view.hpp). Nothing here may belong to the thread inside the context alone:
// the thread that looks may be another one, and the one inside may hang.
#include <algorithm>
#include <atomic>

#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

namespace {

// Word by word: their writers go on.
void copy_words(const std::byte* from, std::span<std::uint64_t> to) {
  const auto* words = reinterpret_cast<const std::atomic<std::uint64_t>*>(from);
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = words[i].load(std::memory_order_acquire);
}

}  // namespace

JobView Context::view() const {
  JobView job;
  job.now_ns = monotonic_ns();
  for (std::int32_t rank = 0; rank < size(); ++rank) {
    RankView& view = job.ranks[rank];
    const ControlPage* const control = rank == job_.rank ? transport_->control() : transport_->control_of(rank);
    const auto memory = [&](std::uint64_t offset, std::span<std::uint64_t> words) {
      const std::uint64_t address = control->address + offset;
      const std::byte* const there = rank == job_.rank ? reinterpret_cast<const std::byte*>(address)
                                                       : transport_->memory_of(rank, address, words.size_bytes());
      if (there != nullptr) copy_words(there, words);
      return there != nullptr;
    };
    view.is_afar = control == nullptr || !view.read(memory);
    view.rank = rank;
    view.ranks = size();
    view.pid = job_.peer(rank).pid;
    view.has_failed = departures_.was_told_failed(rank);
    view.has_left = view.has_left || departures_.was_told_left(rank);
    if (rank == job_.rank) view.heard_at_ns = job.now_ns;
  }
  return job;
}

void Context::look_at_process(RankView& view) const {
  const auto sight = departures_.sight_of(view.rank);
  if (!sight) return;
  view.process = sight->state;
  if (!view.is_afar) return;  // its heartbeat says more
  // Of a rank of this host that shares no memory, a state in /proc that isn't "stopped" is all that is ever heard.
  const bool is_seen_alive = view.process == ProcessState::runnable || view.process == ProcessState::sleeping ||
                             view.process == ProcessState::blocked;
  view.heard_at_ns = monotonic_ns() - (is_seen_alive ? 0 : sight->silent_for.count());
  view.silent_after_ns = static_cast<std::int64_t>(job_.settings.suspect_after_us) * 500;
}

}  // namespace ucft::detail
