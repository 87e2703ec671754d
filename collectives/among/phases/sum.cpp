#include "collectives/among/phases/sum.hpp"

#include <utility>

#include "collectives/catalogue/catalogue.hpp"

namespace ucft::detail {

void Sum::add(const Message& contribution) {
  if (contribution.has(is_decided)) {
    if (decided_ == nullptr || ballots_.before(decided_->accepted, contribution.accepted)) decided_ = &contribution;
    return;
  }
  if (decided_ != nullptr || lacks_memory_ != no_rank) return;
  if (contribution.outcome == Outcome::no_memory) lacks_memory_ = contribution.culprit();
  if (!contribution.has(has_value)) return;
  contributors_ += contribution.contributors;
  if (!any_) {
    any_ = true;
    value_ = contribution.value;
    return;
  }
  const bool added = with_collective(arguments_.kind, [&](auto collective) {
    return collective.add(arguments_, value_, fresh_, contribution.value, ballots_.members().size(), buffers_);
  });
  if (!added) lacks_memory_ = ballots_.me();
}

void Sum::add(Sum& part) {
  if (part.decided_ != nullptr) return add(*part.decided_);
  Message message;
  message.value = part.value_;
  message.contributors = part.contributors_;
  message.flags = part.any_ ? has_value : 0;
  if (part.lacks_memory_ != no_rank) message.blame(part.lacks_memory_);
  add(message);
  if (part.fresh_ && value_.buffer == part.value_.buffer) fresh_ = std::exchange(part.fresh_, false);
}

}  // namespace ucft::detail
