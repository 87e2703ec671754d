// Which communicator uses a slab, and until when.
//
// Each rank says in its directory, for each communicator that it is in, what it has for it; nobody else writes there. A
// slab that no lease names yet reads as zeros. The lease is open from when the slab is all zeros until its owner has
// left, then closed: its owner reads nothing of this communicator any more. When no lease of a live member is open, or
// yet to come, this rank takes its own away, and the slab may go to another communicator.
//
// A lease that is not there is yet to come, or gone. Ranks open theirs in the order of communicators, and say how far
// they are: so these two can be told apart. A rank whose lease is gone has seen all others closed, so it was.
//
// Order: leases are stored with release and loaded with acquire order. Who sees an open one sees zeros behind it, or
// what was stored since; who sees a closed one zeroes its slab behind its owner's last read. How far a rank is, it says
// behind its lease; so a rank that sees that, and then no lease, sees one that is gone. Two that close at once may both
// see the other's open: they look again.
#pragma once

#include "collectives/host/host_slab.hpp"

namespace ucft::detail {

enum class HostLease : std::uint8_t {
  none,   // no more
  open,   // its owner reads the others' slabs, or will
  closed  // no more; but others may read its own
};

// Requires that this rank's is closed. Memory: HostLease lease(Rank), acquire order; bool is_final(Rank), a
// proof that the rank is dead.
template <class Memory>
bool may_end_lease(Memory& memory, Rank me, Rank ranks) {
  for (Rank x = 0; x < ranks; ++x)
    if (x != me && memory.lease(x) == HostLease::open && !memory.is_final(x)) return false;
  return true;
}

}  // namespace ucft::detail
