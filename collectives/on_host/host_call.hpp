// The call that a rank of a host posts, and its result.
#pragma once

#include "collectives/catalogue/row.hpp"
#include "collectives/on_host/host_slab.hpp"
#include "collectives/reduction/reduction.hpp"

namespace ucft::detail {

struct HostCall {
  Pattern
      pattern;  // of its row. To the root alone: other ranks are through when they have given theirs. From the root:
                // an error for all if it has died before
  Reduction reduction{};
  std::uint64_t count = 0;  // carriers (reduction.hpp); if blocks are put side by side: of this rank's block
  Rank root = 0;
  std::uint16_t signature = 0;  // differs where ranks post different things
  std::uint16_t what = 0;       // HostNote::what
  bool lacks_memory = false;    // this rank has no data: then there is no result for ranks that would have read them
  HostPlace kept = 0;           // of large data. != 0: they are there, for this rank alone, and no other is told where
  Share share{};                // of a sum for all, or of the data of the root: this rank's, in carriers

  std::uint64_t bytes() const { return count * reduction.carrier_bytes(); }
  bool takes_all() const { return share.count == Share::all; }
  bool is_made_by_all() const { return pattern.sums_for_all() && takes_all(); }  // large: each combines some chunks
  std::uint64_t taken_from() const { return share.first * reduction.carrier_bytes(); }
  std::uint64_t taken_count() const { return takes_all() ? count : share.count; }
  std::uint64_t taken_bytes() const { return taken_count() * reduction.carrier_bytes(); }
};

// Memory of this rank beside its slab, in pieces that operations which run (HostStage::run) use one after the other.
struct HostPlaces {
  HostPlace first = 0;
  HostPlace words = 0;        // of each
  OperationNumber count = 0;  // a power of two; 0: there is none

  HostPlace of(OperationNumber number) const { return first + (number & (count - 1)) * words; }
};

// A call that needs no more than one look at each of some ranks, worked out once for many operations
// (HostStage::shortcut).
struct HostShortcut {
  HostWord note = 0;   // of this rank's V
  HostWord usual = 0;  // what V of those that are read says if nothing is amiss
  std::uint64_t bytes = 0;
  std::uint64_t from = 0, taken = 0, taken_count = 0;  // of a sum: this rank's share, in bytes, and its carriers
  Combiner::Kernel kernel = nullptr;
  enum class Reads : std::uint8_t { nobody, root, up_to_own, all } reads = Reads::nobody;  // whose data are needed here
  bool gives = false;
  bool is_inline = true;      // else V says where the data are
  HostPlaces places;          // for this rank's, if they are not inline
  OperationNumber apart = 0;  // operations between two that store to the same memory

  void take(const HostCall& call) {
    from = call.taken_from();
    taken = call.taken_bytes();
    taken_count = call.taken_count();
  }
  bool can_run() const { return is_inline || !gives || places.count > 0; }
};

// Data of a rank, and where they are to be, if not in the slab.
struct HostData {
  const std::byte* data = nullptr;  // needed during the call only; null: none, or they are in their place already
  HostPlace place = 0;              // 0: of those that this rank keeps (HostCall::kept)
  HostPlace combined = 0;           // room for what HostStage::combined_bytes() says
};

struct HostResult {
  Outcome outcome = Outcome::success;
  Rank culprit = no_rank;  // mismatch, no_memory
  std::uint32_t contributors =
      0;  // of those whose data this rank needs, if these are not the root's; else without meaning
};

// The same on all ranks, but for me and patience.
struct HostSeat {
  Rank me = 0, ranks = 1;
  std::int32_t window = 2;  // operations that may be in flight
  int patience = 0;         // looks at an inner node's P before its work is done for it, though it lives
};

}  // namespace ucft::detail
