#include "collectives/among/phases/optimistic.hpp"

#include <bit>
#include <utility>

#include "collectives/catalogue/catalogue.hpp"
#include "collectives/among/phases/failure_list.hpp"

namespace ucft::detail {

void Optimistic::start(const Message& mine, const Arguments& arguments, const Ballots& ballots, Buffers& buffers) {
  clear(buffers);
  plan(arguments, ballots);
  partial_ = mine;
  partial_.phase = Phase::exchange;
  partial_.attempt = optimistic_ballot;
  buffers.retain(partial_.value);
  buffers.retain(partial_.list);
  reserve(arguments, ballots, buffers);
  arrivals_.await(awaited_, buffers);
}

bool Optimistic::advance(const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  for (; at_ < steps_.size(); ++at_) {
    const Step& step = steps_[at_];
    if (step.what == What::give) {
      out.send(step.peer, partial_);
      continue;
    }
    const Message* const message = arrivals_.delivered_by(step.peer);
    if (message == nullptr) return false;
    take(step, *message, arguments, ballots, out.buffers());
  }
  return true;
}

void Optimistic::clear(Buffers& buffers) {
  arrivals_.clear(buffers);
  buffers.release(partial_.value);
  partial_.value = {};
  buffers.release(std::exchange(partial_.list, no_buffer));
  for (BufferId room : rooms_) buffers.release(room);
  rooms_.clear();
  at_ = 0;
}

// ---- who gives to whom ----------------------------------------------------------------------------------------------

void Optimistic::plan(const Arguments& arguments, const Ballots& ballots) {
  const Rank root = arguments.row().disseminates ? no_rank : arguments.root;
  if (is_planned_ && root_ == root && members_ == ballots.members()) return;
  is_planned_ = true;
  root_ = root;
  members_ = ballots.members();
  steps_.clear();
  awaited_.clear();
  if (root == no_rank)
    plan_doubling(ballots);
  else
    plan_tree(ballots, root);
  for (const Step& step : steps_)
    if (step.what != What::give) awaited_.push_back(step.peer);
}

void Optimistic::plan_doubling(const Ballots& ballots) {
  const Membership& members = ballots.members();
  const std::int32_t size = members.size(), mine = members.position_of(ballots.me());
  const auto doubled = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(size)));
  const std::int32_t folded = size - doubled;  // pairs of which one member doubles for both
  if (mine < 2 * folded && mine % 2 == 0) {
    const Rank neighbour = members.rank_at(mine + 1);
    steps_ = {{What::give, neighbour}, {What::take_result, neighbour}};
    return;
  }
  const std::int32_t place = mine < 2 * folded ? mine / 2 : mine - folded;  // among those that double
  const auto member_at = [&](std::int32_t of) { return members.rank_at(of < folded ? 2 * of + 1 : of + folded); };
  if (mine < 2 * folded) steps_.push_back({What::take_lower, members.rank_at(mine - 1)});
  for (std::int32_t distance = 1; distance < doubled; distance *= 2) {
    const Rank partner = member_at(place ^ distance);
    steps_.push_back({What::give, partner});
    steps_.push_back({(place & distance) != 0 ? What::take_lower : What::take_higher, partner});
  }
  if (mine < 2 * folded) steps_.push_back({What::give, members.rank_at(mine - 1)});
}

// Process numbers: the root is 0. Process p has its subtree's values when it has heard from p + 1, p + 2, p + 4 ..
void Optimistic::plan_tree(const Ballots& ballots, Rank root) {
  const std::int32_t size = ballots.members().size(), process = ballots.process_of(ballots.me(), root);
  for (std::int32_t distance = 1; distance < size; distance *= 2) {
    if ((process & distance) != 0) {
      steps_.push_back({What::give, ballots.rank_of(process - distance, root)});
      return;
    }
    if (process + distance < size) steps_.push_back({What::take_higher, ballots.rank_of(process + distance, root)});
  }
}

// ---- sums -----------------------------------------------------------------------------------------------------------

void Optimistic::reserve(const Arguments& arguments, const Ballots& ballots, Buffers& buffers) {
  const std::uint64_t bytes = with_collective(
      arguments.kind, [&](auto collective) { return collective.result_bytes(arguments, ballots.members().size()); });
  if (bytes == 0 || !partial_.value) return;  // in blocks, or without memory
  for (const Step& step : steps_) {
    if (step.what != What::take_lower && step.what != What::take_higher) continue;
    if (is_tree() && !rooms_.empty()) break;  // nothing is sent before all is added: in place
    const BufferId room = buffers.allocate(bytes);
    if (room != no_buffer) {
      rooms_.push_back(room);
      continue;
    }
    buffers.release(partial_.value);
    return partial_.blame(ballots.me());
  }
}

void Optimistic::take(const Step& step, const Message& message, const Arguments& arguments, const Ballots& ballots,
                      Buffers& buffers) {
  if (step.what == What::take_lower) return add(message, partial_, arguments, ballots, buffers);
  if (step.what == What::take_higher) return add(partial_, message, arguments, ballots, buffers);
  buffers.retain(message.value);
  buffers.retain(message.list);
  buffers.release(partial_.value);
  buffers.release(partial_.list);
  partial_.value = message.value;
  partial_.list = message.list;
  partial_.list_length = message.list_length;
  partial_.contributors = message.contributors;
  partial_.outcome = message.outcome;
  partial_.flags = message.flags;
}

// One of the two is partial_, which becomes their sum. Of two that are to blame it is the lower one.
void Optimistic::add(const Message& lower, const Message& higher, const Arguments& arguments, const Ballots& ballots,
                     Buffers& buffers) {
  if (has_culprit(lower.outcome) || has_culprit(higher.outcome)) {
    const Rank culprit = has_culprit(lower.outcome) ? lower.culprit() : higher.culprit();
    buffers.release(partial_.value);
    return partial_.blame(culprit);
  }
  Slice sum = partial_.value;
  if (lower.value && higher.value) {
    if (!rooms_.empty()) {
      sum = {rooms_.back(), 0, lower.value.bytes};
      rooms_.pop_back();
      buffers.copy(sum, lower.value);
    }
    bool fresh = true;
    with_collective(arguments.kind, [&](auto collective) {
      return collective.add(arguments, sum, fresh, higher.value, ballots.members().size(), buffers);
    });
  }
  if (lower.list_length + higher.list_length > 0) join_lists(lower, higher, buffers);
  const std::uint32_t contributors = lower.contributors + higher.contributors;
  if (sum.buffer != partial_.value.buffer) buffers.release(partial_.value);  // a set may have grown in its place
  partial_.value = sum;
  partial_.contributors = contributors;
}

// Ranks of living hosts that are in neither.
void Optimistic::join_lists(const Message& lower, const Message& higher, Buffers& buffers) {
  FailureList missing;
  missing.note_missing(lower, buffers);
  missing.note_missing(higher, buffers);
  buffers.release(partial_.list);
  partial_.list = missing.store(buffers, partial_.list_length);
  if (missing.truncated()) partial_.flags |= list_truncated;
}

}  // namespace ucft::detail
