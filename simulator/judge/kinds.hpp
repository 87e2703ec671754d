// The properties of the kinds of calls: for the judge, and for programs that write histories.
#pragma once

#include "simulator/judge/history.hpp"

namespace ucft::judge {

// Its data come from the root.
inline bool is_from_root(Kind kind) { return kind == Kind::broadcast || kind == Kind::scatter; }
// The root alone has a result.
inline bool is_to_root(Kind kind) { return kind == Kind::reduce || kind == Kind::gather; }
inline bool is_rooted(Kind kind) { return is_from_root(kind) || is_to_root(kind); }
inline bool is_scan(Kind kind) { return kind == Kind::scan || kind == Kind::exscan; }
inline bool combines(Kind kind) {
  return kind == Kind::allreduce || kind == Kind::quorum || kind == Kind::reduce || kind == Kind::reduce_scatter ||
         kind == Kind::agree || is_scan(kind);
}
// A rank gives a share to each rank; else one block.
inline bool gives_shares(Kind kind) {
  return kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::alltoall;
}
// A rank gets a block of each rank.
inline bool gets_blocks(Kind kind) { return kind == Kind::allgather || kind == Kind::gather || kind == Kind::alltoall; }
inline bool makes(Kind kind) { return kind == Kind::split || kind == Kind::dup; }
// All survivors have the same bits.
inline bool has_same_bits(Kind kind) {
  return kind == Kind::allreduce || kind == Kind::quorum || kind == Kind::broadcast || kind == Kind::allgather ||
         kind == Kind::agree;
}
// The collectives of a communicator that have one order. Those with a quorum have an order of their own, and so has
// gossip.
inline bool is_collective(Kind kind) {
  return kind != Kind::quorum && kind != Kind::gossip && kind != Kind::leave && kind != Kind::destroy &&
         kind != Kind::send && kind != Kind::receive;
}

// The others go on without this rank.
inline bool is_out(ucft_status_t status) { return status == UCFT_ERR_EXCLUDED || status == UCFT_ERR_PARTITION; }

}  // namespace ucft::judge
