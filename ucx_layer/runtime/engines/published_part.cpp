#include "ucx_layer/runtime/engines/published_part.hpp"

#include <utility>

#include "collectives/catalogue/catalogue.hpp"
#include "ucx_layer/observer/job_view.hpp"

namespace ucft::detail {

namespace {

PostedByMessages* free_place(ControlPage& control) {
  for (PostedByMessages& each : control.by_messages)
    if (each.key.load(std::memory_order_relaxed) == 0) return &each;
  return nullptr;
}

}  // namespace

PublishedPart::PublishedPart(std::uint32_t communicator, Rank rank, Rank ranks, ControlPage& control)
    : place_(free_place(control)), me_(rank), clock_(control.heartbeat) {
  if (place_ == nullptr) return;
  for (auto* word : {&place_->posted, &place_->finished, &place_->note}) word->store(0);
  place_->posted_at_ns.store(0);
  place_->rank_and_ranks.store(std::uint64_t{static_cast<std::uint32_t>(rank)} << 32 |
                               static_cast<std::uint32_t>(ranks));
  place_->key.store(std::uint64_t{communicator} + 1);
}

PublishedPart::~PublishedPart() {
  if (place_ != nullptr) place_->key.store(0);
}

void PublishedPart::note_posted(const Arguments& arguments, Operator op, OperationNumber number) {
  if (place_ == nullptr) return;
  const CatalogueRow& row = arguments.row();
  const bool gives = is_one_of(row.gives, arguments.root == me_);
  const std::uint64_t bytes = arguments.given_count() * arguments.reduction.carrier_bytes();
  const HostNote note{arguments.signature(), Outcome::success,
                      gives || !row.has_data() ? HostNote::count_of(bytes)
                                               : HostNote::is_root | static_cast<std::uint32_t>(arguments.root),
                      bits_of(arguments.kind, arguments.reduction.type(), op)};
  place_->note.store(note.word(), std::memory_order_relaxed);
  place_->root.store(arguments.root, std::memory_order_relaxed);
  place_->bytes.store(bytes, std::memory_order_relaxed);
  place_->posted.store(number + 1, std::memory_order_relaxed);
  if (clock_.has_ticked()) place_->posted_at_ns.store(monotonic_ns(), std::memory_order_relaxed);
}

void PublishedPart::note_finished(OperationNumber all_before) {
  finished_.store(all_before, std::memory_order_relaxed);
  if (place_ != nullptr) place_->finished.store(all_before, std::memory_order_relaxed);
}

void PublishedPart::note_awaited(std::vector<Rank> awaited) {
  const std::lock_guard lock(awaited_mutex_);
  awaited_ = std::move(awaited);
  awaited_by_ = finished_;
}

std::vector<Rank> PublishedPart::awaited() const {
  const std::lock_guard lock(awaited_mutex_);
  return awaited_by_ == finished_ ? awaited_ : std::vector<Rank>();
}

}  // namespace ucft::detail
