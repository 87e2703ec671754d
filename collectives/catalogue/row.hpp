// The row of a collective: values that both engines, the models and the simulator read. A ballot, a stage of a host and
// the promises of a result follow from them. So a new collective is its row, and code only where its row is new.
#pragma once

#include <cstdint>

namespace ucft::detail {

enum class Kind : std::uint8_t {
  allreduce,
  barrier,
  broadcast,
  reduce,
  allgather,
  gather,
  reduce_scatter,
  scatter,
  alltoall,
  scan,
  exscan,
  exchange,  // of processes: no caller posts this one, nor the next
  exchange_from_root
};
inline constexpr int kind_count = 13, posted_kind_count = static_cast<int>(Kind::exchange);

// The ranks that have data to give, or that get some.
enum class Who : std::uint8_t { nobody, all, root, all_but_root };
constexpr bool is_one_of(Who who, bool root) {
  return who == Who::all || who == (root ? Who::root : Who::all_but_root);
}

// The sum of two contributions: none, as there is one at most; element by element; both blocks, side by side.
enum class Combines : std::uint8_t { nothing, elements, blocks };
// The part of a result that a rank takes, if it gets one. Of blocks: its share of each; or the combination of those of
// the ranks up to it, or of those before it (landing.hpp).
enum class Lands : std::uint8_t { nothing, whole, own_share, share_of_each, prefix, prefix_before };
// Of contributions: all the same, or each rank's own.
enum class Lengths : std::uint8_t { same, own };

// The way of the data: the part of a row that the stage of a host needs.
struct Pattern {
  Who gives = Who::all, gets = Who::all;
  Combines combines = Combines::elements;
  bool is_prefix = false;  // a rank needs what the ranks up to it give, and waits for these alone

  constexpr bool from_root() const { return gives == Who::root; }
  constexpr bool to_root() const { return gets == Who::root; }
  constexpr bool rooted() const { return from_root() || to_root(); }
  constexpr bool puts_side_by_side() const { return combines == Combines::blocks; }
  // Every rank gets the sum; of a barrier that is nothing.
  constexpr bool sums_for_all() const { return !rooted() && !puts_side_by_side(); }
};

// The part of a result that one rank takes, in elements.
struct Share {
  static constexpr std::uint64_t all = UINT64_MAX;
  std::uint64_t first = 0, count = all;
};

struct CatalogueRow {
  Kind kind;
  const char* name;
  Who gives, gets;
  Combines combines;
  Lands lands;
  Lengths lengths;
  bool goes_straight = false;  // data go straight from each process to each other; decided is whose count

  // These follow from the others:
  bool collects = gives != Who::root;     // every rank contributes, by up-correction (Algorithms 1-3); else the root's
                                          // data are the decision
  bool disseminates = gets != Who::root;  // the decision goes to all (corrected trees)
  bool reduces = combines == Combines::elements;  // on its way

  constexpr Pattern pattern() const { return {gives, gets, combines, combines_landed()}; }
  constexpr bool from_root() const { return pattern().from_root(); }
  constexpr bool to_root() const { return pattern().to_root(); }
  // The root is the caller's choice, and its death matters. It ends a reduce (only the root has the result), and a
  // broadcast unless some rank has its data already. Else the next rank is root (Algorithm 5).
  constexpr bool rooted() const { return pattern().rooted(); }
  constexpr bool has_data() const { return lands != Lands::nothing; }
  constexpr bool has_shares() const { return lands == Lands::own_share; }
  // Data are for one reader alone. So among processes they may go as an exchange (exchange.hpp).
  constexpr bool may_go_straight() const { return lands == Lands::share_of_each || (has_shares() && from_root()); }
  constexpr bool combines_landed() const { return lands == Lands::prefix || lands == Lands::prefix_before; }
  constexpr bool takes_operator() const { return reduces || combines_landed(); }
  constexpr bool has_own_lengths() const { return lengths == Lengths::own; }
  // The root gives what lies where the others get theirs.
  constexpr bool has_one_buffer() const { return gets == Who::all_but_root; }
};

}  // namespace ucft::detail
