// Broadcast trees (Küttler et al.: Corrected trees for reliable group communication, PPoPP '19). Pure functions of
// (process, size); process 0 is the root.
//
//   binomial interleaved   parent(r) = r minus its highest bit; children r+2^j with 2^j > r
//   k-ary interleaved      children r + i*k^l, i = 1..k, where l is r's level
//   k-nomial interleaved   parent(r) = r minus its highest digit in base k; children r + d*k^j with k^j > r, d = 1..k-1
//   Lamé(k), optimal       greedy by time: a process that is informed at time s informs one more process at each of
//                          s+delay, s+delay+1, ..., and processes are numbered by the time at which they are informed.
//                          Lamé(k): delay = k. Optimal: delay = (L + 2o) / max(g, o), the unit being max(g, o)
//   chain, flat            i -> i+1;  0 -> all
//   in-order               a subtree is one contiguous block: the bad case (a death loses one long run), for
//                          comparison. Not of Lamé and optimal trees. A chain and a flat tree are the same in both
//                          numberings
//
//   8 processes, binomial interleaved: 0 -> 1 2 4;  1 -> 3 5;  2 -> 6;  3 -> 7
//   8 processes, binomial in-order:    0 -> 4 2 1;  4 -> 6 5;  2 -> 3;  6 -> 7
//   9 processes, 3-nomial interleaved: 0 -> 1 2 3 6;  1 -> 4 7;  2 -> 5 8
//   9 processes, Lamé(2): 0 -> 1 2 3 5 8 (at times 2 3 4 5 6);  1 -> 4 6 (4 5);  2 -> 7 (5)
#pragma once

#include <cstdint>
#include <vector>

namespace ucft::detail {

enum class Tree : std::uint8_t { binomial, kary, knomial, lame, optimal, chain, flat };
inline constexpr int tree_count = 7;
enum class Numbering : std::uint8_t { interleaved, in_order };

struct BroadcastShape {
  Tree tree = Tree::binomial;
  Numbering numbering = Numbering::interleaved;
  std::int32_t arity = 4;            // k of kary and lame: >= 1; of knomial: >= 2
  std::int32_t delay_quarters = 16;  // of optimal: (L + 2o) / max(g, o) in quarters
  bool operator==(const BroadcastShape&) const = default;
};

constexpr bool has_in_order_numbering(Tree tree) { return tree != Tree::lame && tree != Tree::optimal; }
constexpr bool has_arity(Tree tree) { return tree == Tree::kary || tree == Tree::knomial || tree == Tree::lame; }
constexpr std::int32_t lowest_arity(Tree tree) { return tree == Tree::knomial ? 2 : 1; }
inline constexpr std::int32_t highest_lame_arity = 1024;  // a table of about k log(size) / log(k) times is made
inline constexpr std::int32_t lowest_delay_quarters = 4,
                              highest_delay_quarters = 4096;  // below 1, a child before its parent

class BroadcastTopology {
 public:
  // The shape must be valid: see above.
  BroadcastTopology(BroadcastShape shape, std::int32_t size);

  std::int32_t parent(std::int32_t process) const;  // process >= 1
  // In sending order: the child with the largest complete subtree first.
  void children(std::int32_t process, std::vector<std::int32_t>& children) const;

 private:
  struct Level {
    std::int64_t first, width;
  };
  struct Block {  // kary in-order: process `first` and everything below it is first .. end-1
    std::int64_t first, end, parent;
  };
  struct Place {  // Lamé, optimal: a process in the class of those informed at the same time
    std::size_t time;
    std::int64_t index;
  };
  void make_schedule();
  std::int64_t informed_at(std::size_t time) const { return informed_before_[time + 1] - informed_before_[time]; }
  // Parents that inform somebody at this time and did so one unit before: as many as were informed then.
  std::int64_t older_parents(std::size_t time) const { return time <= unit_ ? 0 : informed_at(time - unit_); }
  Place place_of(std::int32_t process) const;
  std::int32_t scheduled_parent(std::int32_t process) const;
  std::int32_t knomial_parent(std::int32_t process) const;
  template <class Add>
  void scheduled_children(std::int32_t process, Add add) const;
  template <class Add>
  void knomial_children(std::int32_t process, Add add) const;
  template <class Add>
  void binomial_children(std::int32_t process, Add add) const;
  template <class Add>
  void kary_children(std::int32_t process, Add add) const;
  Level level_of(std::int32_t process) const;
  Block block_of(std::int32_t process) const;
  std::int64_t block_begin(const Block& block, std::int64_t child) const;

  BroadcastShape shape_;
  std::int32_t size_;
  // Lamé, optimal: time in steps of 1 / unit_; processes informed before each, until all are.
  std::size_t unit_ = 1, delay_ = 1;
  std::vector<std::int64_t> informed_before_;
};

}  // namespace ucft::detail
