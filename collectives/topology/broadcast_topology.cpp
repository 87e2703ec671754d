#include "collectives/topology/broadcast_topology.hpp"

#include <bit>

namespace ucft {

namespace {
std::int64_t highest_bit(std::int64_t value) {   // value >= 1
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

std::int32_t BroadcastTopology::parent(std::int32_t process) const {
  if (shape_.tree == Tree::binomial) {
    const std::int64_t bit = shape_.numbering == Numbering::interleaved ? highest_bit(process) : lowest_bit(process);
    return static_cast<std::int32_t>(process - bit);
  }
  if (shape_.numbering == Numbering::in_order) return static_cast<std::int32_t>(block_of(process).parent);
  const Level level = level_of(process);
  const std::int64_t above = level.width / shape_.arity;   // width of the parents' level
  return static_cast<std::int32_t>(level.first - above + (process - level.first) % above);
}

void BroadcastTopology::children(std::int32_t process, std::vector<std::int32_t>& children) const {
  children.clear();
  const auto add = [&](std::int64_t child) { children.push_back(static_cast<std::int32_t>(child)); };
  if (shape_.tree == Tree::binomial && shape_.numbering == Numbering::interleaved) {
    for (std::int64_t bit = process == 0 ? 1 : 2 * highest_bit(process); process + bit < size_; bit *= 2)
      add(process + bit);
  } else if (shape_.tree == Tree::binomial) {
    for (std::int64_t bit = process == 0 ? highest_bit(size_) : lowest_bit(process) / 2; bit > 0; bit /= 2)
      if (process + bit < size_) add(process + bit);
  } else if (shape_.numbering == Numbering::interleaved) {
    const Level level = level_of(process);
    for (std::int64_t i = 1; i <= shape_.arity && process + i * level.width < size_; ++i)
      add(process + i * level.width);
  } else {
    const Block block = block_of(process);
    for (std::int64_t child = 0; child < shape_.arity; ++child)
      if (block_begin(block, child) < block_begin(block, child + 1)) add(block_begin(block, child));
  }
}

}  // namespace ucft
