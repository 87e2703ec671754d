// Broadcast trees (Küttler et al.: Corrected trees for reliable group communication, PPoPP '19). Pure functions of
// (process, size); process 0 is the root.
//
//   binomial interleaved   parent(r) = r minus its highest bit; children r+2^j with 2^j > r
//   k-ary interleaved      children r + i*k^l, i = 1..k, where l is r's level
//   in-order               a subtree is one contiguous block: the bad case (a death loses one long run), for comparison
//
//   8 processes, binomial interleaved: 0 -> 1 2 4;  1 -> 3 5;  2 -> 6;  3 -> 7
//   8 processes, binomial in-order:    0 -> 4 2 1;  4 -> 6 5;  2 -> 3;  6 -> 7
#pragma once

#include <cstdint>
#include <vector>

namespace ucft {

enum class Tree : std::uint8_t { binomial, kary, knomial, lame, optimal, chain, flat };
inline constexpr int tree_count = 7;
enum class Numbering : std::uint8_t { interleaved, in_order };

struct BroadcastShape {
  Tree tree = Tree::binomial;
  Numbering numbering = Numbering::interleaved;
  std::int32_t arity = 4;             // k of kary and lame: >= 1; of knomial: >= 2
  std::int32_t delay_quarters = 16;   // of optimal: (L + 2o) / max(g, o) in quarters, 4 .. 4096
  bool operator==(const BroadcastShape&) const = default;
};

class BroadcastTopology {
 public:
  BroadcastTopology(BroadcastShape shape, std::int32_t size) : shape_(shape), size_(size) {}

  std::int32_t parent(std::int32_t process) const;   // process >= 1
  // In sending order: the child with the largest complete subtree first.
  void children(std::int32_t process, std::vector<std::int32_t>& children) const;

 private:
  struct Level {
    std::int64_t first, width;
  };
  struct Block {   // kary in-order: process `first` and everything below it is first .. end-1
    std::int64_t first, end, parent;
  };
  Level level_of(std::int32_t process) const;
  Block block_of(std::int32_t process) const;
  std::int64_t block_begin(const Block& block, std::int64_t child) const;

  BroadcastShape shape_;
  std::int32_t size_;
};

}  // namespace ucft
