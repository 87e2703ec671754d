// The part of the blocks of all that a rank takes, where that is not each block as it is (Lands in row.hpp): its share
// of each (alltoall), or the combination of those of the ranks up to it, or of those before it (scan, exscan).
//
// No I/O: the blocks are handed over one by one, in the order of ranks, by whichever engine has them. All ranks combine
// in that order, so the prefix of a rank begins with that of the rank before it, bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/catalogue/row.hpp"
#include "collectives/core/protocol.hpp"
#include "collectives/reduction/reduction.hpp"

namespace ucft::detail {

class Landing {
 public:
  // Of rank `me`. Each block has count elements: of an alltoall as many for each rank.
  Landing(Lands lands, Rank me, std::uint64_t count, std::uint64_t for_each_rank, const Reduction& reduction);
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;

  // Of one operation, in the order of ranks: those of others that have contributed, and this rank's own. A prefix is
  // made when this rank's own comes, so the blocks before it must be there until then. The result has a share of each
  // rank, or one value. It is the block's memory, or does not overlap it; a prefix of several is none of the blocks.
  // Needs the default rounding, if rounds().
  void take(Rank rank, const std::byte* block, std::byte* result);
  // Whether all that is taken of that rank's block is a share which this rank itself has given.
  bool is_own_share(Rank rank) const { return lands_ == Lands::share_of_each && rank == me_; }
  // Of so many ranks those below this one may have a part in the result.
  Rank end(Rank ranks) const {
    return lands_ == Lands::share_of_each ? ranks : me_ + (lands_ == Lands::prefix ? 1 : 0);
  }
  // Of the last operation, which has ended: whether a prefix was written. Else nobody before this rank has contributed.
  bool has_result() const { return !blocks_.empty(); }
  bool rounds() const { return lands_ != Lands::share_of_each && reduction_.rounds(); }
  const Reduction& reduction() const { return reduction_; }

 private:
  void combine_into(std::byte* result) const;

  const Lands lands_;
  const Rank me_;
  const std::uint64_t count_, for_each_rank_;
  const Reduction reduction_;
  const Combiner combiner_{reduction_};
  Rank last_ = no_rank;                   // taken from
  std::vector<const std::byte*> blocks_;  // of a prefix
};

}  // namespace ucft::detail
