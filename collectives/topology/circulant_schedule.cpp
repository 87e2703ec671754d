#include "collectives/topology/circulant_schedule.hpp"

#include <algorithm>

namespace ucft::detail {

namespace {

// skip(0) = 1 .. skip(q) = size.
std::vector<std::int32_t> skips_of(std::int32_t size) {
  std::vector<std::int32_t> skips{size};
  while (skips.back() > 1) skips.push_back((skips.back() + 1) / 2);
  std::ranges::reverse(skips);
  return skips;
}

// The paper's search for the blocks that a process gets: the way from the root to it that each block takes is a sum of
// skips, and different blocks take different ways.
class Search {
 public:
  explicit Search(const std::vector<std::int32_t>& skips) : skips_(skips), rounds_(skips.size() - 1) {}

  // The block that a process gets in each round of a phase, relative to the first that is new in it.
  std::vector<std::int32_t> blocks_of(std::int32_t process) {
    blocks_.clear();
    is_taken_.assign(skips_.size(), false);
    const auto q = static_cast<std::int32_t>(rounds_);
    const std::int32_t base = base_block_of(process);
    is_taken_[static_cast<std::size_t>(base)] = true;
    goal_ = skips_.back() + process;
    extend(0, 2 * skips_.back(), base == q ? q - 1 : q);
    for (std::int32_t& block : blocks_) block = block == q ? base : block - q;
    return blocks_;
  }

 private:
  // The block that comes to it first: the longest way from the root, its last skip.
  std::int32_t base_block_of(std::int32_t process) const {
    for (std::size_t k = rounds_; k-- > 0;) {
      if (skips_[k] == process) return static_cast<std::int32_t>(k);
      if (skips_[k] < process) process -= skips_[k];
    }
    return static_cast<std::int32_t>(rounds_);
  }
  std::int32_t skip(std::size_t k) const { return skips_[k]; }

  // at: where a way has come to; below: where the last one that was found has; from: the largest skip to go on with.
  void extend(std::int32_t at, std::int32_t below, std::int32_t from) {
    for (std::int32_t next = from; next >= 0; --next) {
      if (is_taken_[static_cast<std::size_t>(next)]) continue;
      if (blocks_.size() == rounds_) return;
      const std::int32_t to = at + skip(static_cast<std::size_t>(next));
      if (to > goal_ - skip(blocks_.size()) || to >= below) continue;
      if (to <= goal_ - skip(blocks_.size() + 1)) extend(to, below, next);
      if (blocks_.size() == rounds_ || at > goal_ - skip(blocks_.size() + 1)) return;
      below = to;
      blocks_.push_back(next);
      is_taken_[static_cast<std::size_t>(next)] = true;
    }
  }

  const std::vector<std::int32_t>& skips_;
  const std::size_t rounds_;
  std::int32_t goal_ = 0;
  std::vector<bool> is_taken_;
  std::vector<std::int32_t> blocks_;
};

}  // namespace

CirculantSchedule::CirculantSchedule(std::int32_t process, std::int32_t size) : process_(process) {
  const std::vector<std::int32_t> skips = skips_of(size);
  Search search(skips);
  gets_ = search.blocks_of(process);
  for (std::size_t k = 0; k + 1 < skips.size(); ++k) {
    const std::int32_t target = (process + skips[k]) % size;
    targets_.push_back(target);
    sources_.push_back((process - skips[k] + size) % size);
    gives_.push_back(search.blocks_of(target)[k]);
  }
}

// The first phase begins in its middle if the last one would not be full otherwise. A block before the first one is
// none. A block beyond the last one stands for the last one.
CirculantSchedule::Transfer CirculantSchedule::transfer(std::int64_t round, std::int64_t blocks,
                                                        const std::vector<std::int32_t>& of_phase,
                                                        const std::vector<std::int32_t>& peers) const {
  const std::int64_t q = phase(), idle = (q - (blocks - 1) % q) % q, at = round + idle;
  const auto k = static_cast<std::size_t>(at % q);
  const std::int64_t block = of_phase[k] - idle + at / q * q;
  return {peers[k], block < 0 ? no_block : std::min(block, blocks - 1)};
}

CirculantSchedule::Transfer CirculantSchedule::given(std::int64_t round, std::int64_t blocks) const {
  const Transfer found = transfer(round, blocks, gives_, targets_);
  return found.peer == 0 ? Transfer{0, no_block} : found;
}

CirculantSchedule::Transfer CirculantSchedule::gotten(std::int64_t round, std::int64_t blocks) const {
  const Transfer found = transfer(round, blocks, gets_, sources_);
  return process_ == 0 ? Transfer{found.peer, no_block} : found;
}

}  // namespace ucft::detail
