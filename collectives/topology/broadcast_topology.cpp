#include "collectives/topology/broadcast_topology.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace ucft::detail {

namespace {
std::int64_t top_bit(std::int64_t value) {  // value >= 1
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(value)));
}
std::int64_t lowest_bit(std::int64_t value) { return value & -value; }
}  // namespace

// k-ary interleaved, k = 2: levels 0 | 1 2 | 3 4 5 6 | ...
BroadcastTopology::Level BroadcastTopology::level_of(std::int32_t process) const {
  Level level{0, 1};
  while (process >= level.first + level.width) {
    level.first += level.width;
    level.width *= shape_.arity;
  }
  return level;
}

// The descendants first+1 .. end-1 of a block, cut into `arity` runs whose lengths differ by at most one.
std::int64_t BroadcastTopology::block_begin(const Block& block, std::int64_t child) const {
  const std::int64_t below = block.end - block.first - 1;
  return block.first + 1 + below * child / shape_.arity;
}

BroadcastTopology::Block BroadcastTopology::block_of(std::int32_t process) const {
  Block block{0, size_, 0};
  while (block.first != process) {
    std::int64_t child = 0;
    while (block_begin(block, child + 1) <= process) ++child;
    block = {block_begin(block, child), block_begin(block, child + 1), block.first};
  }
  return block;
}

// ---- Lamé and optimal: by time --------------------------------------------------------------------------------------

// informed_at(t) = informed_at(t - 1) + informed_at(t - delay): a process that has informed another one unit ago does
// it again, and those that were informed a delay ago begin. The new processes are numbered in this order.
void BroadcastTopology::make_schedule() {
  unit_ = shape_.tree == Tree::lame ? 1 : 4;
  delay_ = static_cast<std::size_t>(shape_.tree == Tree::lame ? shape_.arity : shape_.delay_quarters);
  assert(delay_ >= unit_ && "somebody would be informed before its parent");
  informed_before_ = {0, 1};
  while (informed_before_.back() < size_) {
    const std::size_t now = informed_before_.size() - 1;
    const std::int64_t again = older_parents(now), first = now < delay_ ? 0 : informed_at(now - delay_);
    informed_before_.push_back(informed_before_.back() + again + first);
  }
}

BroadcastTopology::Place BroadcastTopology::place_of(std::int32_t process) const {
  const auto after = std::upper_bound(informed_before_.begin(), informed_before_.end(), process);
  return {static_cast<std::size_t>(after - informed_before_.begin()) - 1, process - *(after - 1)};
}

// Back to the time at which the parent informed its first child, then by the delay to the time at which it was
// informed.
std::int32_t BroadcastTopology::scheduled_parent(std::int32_t process) const {
  Place place = place_of(process);
  while (place.index < older_parents(place.time)) place.time -= unit_;
  place.index -= older_parents(place.time);
  return static_cast<std::int32_t>(informed_before_[place.time - delay_] + place.index);
}

template <class Add>
void BroadcastTopology::scheduled_children(std::int32_t process, Add add) const {
  const Place place = place_of(process);
  std::size_t time = place.time + delay_;
  if (time >= informed_before_.size()) return;
  const std::int64_t index = older_parents(time) + place.index;
  for (; time < informed_before_.size() && informed_before_[time] + index < size_; time += unit_)
    add(informed_before_[time] + index);
}

// ---- k-nomial: digits in base k -------------------------------------------------------------------------------------

std::int32_t BroadcastTopology::knomial_parent(std::int32_t process) const {
  std::int64_t power = 1;  // of the lowest or the highest digit that isn't 0
  if (shape_.numbering == Numbering::in_order)
    while (process / power % shape_.arity == 0) power *= shape_.arity;
  else
    while (process / power >= shape_.arity) power *= shape_.arity;
  return static_cast<std::int32_t>(process - process / power % shape_.arity * power);
}

template <class Add>
void BroadcastTopology::knomial_children(std::int32_t process, Add add) const {
  const std::int64_t k = shape_.arity;
  std::int64_t power = 1;
  if (shape_.numbering == Numbering::interleaved) {
    while (power <= process) power *= k;
    for (; process + power < size_; power *= k)
      for (std::int64_t digit = 1; digit < k && process + digit * power < size_; ++digit) add(process + digit * power);
    return;
  }
  while (power < size_ && process % (power * k) == 0)
    power *= k;  // of the lowest digit that isn't 0; the root: beyond all
  for (power /= k; power > 0; power /= k)
    for (std::int64_t digit = 1; digit < k && process + digit * power < size_; ++digit) add(process + digit * power);
}

// ---- binomial, k-ary ------------------------------------------------------------------------------------------------

template <class Add>
void BroadcastTopology::binomial_children(std::int32_t process, Add add) const {
  if (shape_.numbering == Numbering::interleaved) {
    for (std::int64_t bit = process == 0 ? 1 : 2 * top_bit(process); process + bit < size_; bit *= 2)
      add(process + bit);
  } else {
    for (std::int64_t bit = process == 0 ? top_bit(size_) : lowest_bit(process) / 2; bit > 0; bit /= 2)
      if (process + bit < size_) add(process + bit);
  }
}

template <class Add>
void BroadcastTopology::kary_children(std::int32_t process, Add add) const {
  if (shape_.numbering == Numbering::interleaved) {
    const Level level = level_of(process);
    for (std::int64_t i = 1; i <= shape_.arity && process + i * level.width < size_; ++i)
      add(process + i * level.width);
  } else {
    const Block block = block_of(process);
    for (std::int64_t child = 0; child < shape_.arity; ++child)
      if (block_begin(block, child) < block_begin(block, child + 1)) add(block_begin(block, child));
  }
}

// ---- all ------------------------------------------------------------------------------------------------------------

BroadcastTopology::BroadcastTopology(BroadcastShape shape, std::int32_t size) : shape_(shape), size_(size) {
  if (shape.tree == Tree::lame || shape.tree == Tree::optimal) make_schedule();
}

std::int32_t BroadcastTopology::parent(std::int32_t process) const {
  switch (shape_.tree) {
    case Tree::binomial:
      return static_cast<std::int32_t>(
          process - (shape_.numbering == Numbering::interleaved ? top_bit(process) : lowest_bit(process)));
    case Tree::knomial: return knomial_parent(process);
    case Tree::lame:
    case Tree::optimal: return scheduled_parent(process);
    case Tree::chain: return process - 1;
    case Tree::flat: return 0;
    case Tree::kary: break;
  }
  if (shape_.numbering == Numbering::in_order) return static_cast<std::int32_t>(block_of(process).parent);
  const Level level = level_of(process);
  const std::int64_t above = level.width / shape_.arity;  // width of the parents' level
  return static_cast<std::int32_t>(level.first - above + (process - level.first) % above);
}

void BroadcastTopology::children(std::int32_t process, std::vector<std::int32_t>& children) const {
  children.clear();
  const auto add = [&](std::int64_t child) { children.push_back(static_cast<std::int32_t>(child)); };
  switch (shape_.tree) {
    case Tree::binomial: return binomial_children(process, add);
    case Tree::kary: return kary_children(process, add);
    case Tree::knomial: return knomial_children(process, add);
    case Tree::lame:
    case Tree::optimal: return scheduled_children(process, add);
    case Tree::chain:
      if (process + 1 < size_) add(process + 1);
      return;
    case Tree::flat:
      for (std::int32_t child = 1; process == 0 && child < size_; ++child) add(child);
      return;
  }
}

}  // namespace ucft::detail
