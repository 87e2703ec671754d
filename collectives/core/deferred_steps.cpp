#include "collectives/core/deferred_steps.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace ucft::detail {

namespace {

void release(const DeferredSteps::Step& step, Buffers& buffers) {
  buffers.release(step.to);
  buffers.release(step.lower);
  buffers.release(step.higher);
}

}  // namespace

void DeferredSteps::Step::take(const Buffers& buffers) const {
  if (to.bytes == 0) return;
  if (copies)
    std::memcpy(buffers.data(to), buffers.data(higher), to.bytes);
  else
    combine(reduction, buffers.data(to), buffers.data(lower), buffers.data(higher),
            to.bytes / reduction.carrier_bytes());
}

bool DeferredSteps::lead_to(BufferId block) const {
  return block != no_buffer && std::ranges::any_of(steps_, [&](const Step& each) { return each.to.buffer == block; });
}

// A short step waits for the long ones that it follows from, and for those that read what it would write over. A user's
// operator is not called when its call is over, so all that leads to it is done now.
bool DeferredSteps::keep(const Step& step, Buffers& buffers) {
  if (!step.copies && step.reduction.op() == Operator::user) {
    take_all(buffers);
    return false;
  }
  if (step.to.bytes == 0) return true;  // nothing is to be done, now or later
  const BufferId to = step.to.buffer;
  const auto reads_it = [&](const Step& each) { return each.lower.buffer == to || each.higher.buffer == to; };
  if (step.of_bytes < from_bytes_ && !lead_to(to) && !lead_to(step.lower.buffer) && !lead_to(step.higher.buffer) &&
      std::ranges::none_of(steps_, reads_it))
    return false;
  buffers.retain(step.to);
  buffers.retain(step.lower);
  buffers.retain(step.higher);
  steps_.push_back(step);
  return true;
}

void DeferredSteps::take_all(Buffers& buffers) {
  for (const Step& step : steps_) step.take(buffers);
  clear(buffers);
}

void DeferredSteps::forget_unneeded(Buffers& buffers) {
  std::unordered_map<BufferId, std::uint32_t> ours;
  for (const Step& step : steps_)
    for (const Slice& each : {step.to, step.lower, step.higher}) ++ours[each.buffer];
  std::unordered_set<BufferId> needed;
  std::vector<bool> is_needed(steps_.size());
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const Step& step = steps_[i];
    const BufferId to = step.to.buffer;
    is_needed[i] = needed.contains(to) || buffers.references(to) > ours[to];
    if (is_needed[i]) needed.insert({step.lower.buffer, step.higher.buffer});
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (is_needed[i])
      steps_[kept++] = steps_[i];
    else
      release(steps_[i], buffers);
  }
  steps_.resize(kept);
}

void DeferredSteps::clear(Buffers& buffers) {
  for (const Step& step : steps_) release(step, buffers);
  steps_.clear();
}

}  // namespace ucft::detail
