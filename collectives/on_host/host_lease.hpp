// The leases of slabs: which communicator uses a slab, and until when.
//
// A rank has a directory, in which it says for each of its communicators which memory it has for it. Only that rank
// writes there. A slab that no lease names yet reads as zeros. The lease is open from when the slab is all zeros until
// its owner has left. Then it is closed: its owner reads nothing of this communicator any more. When no lease of a live
// member is open, or yet to come, this rank takes its own away. Then the slab may go to another communicator.
//
// A lease that is not there is yet to come, or gone. Ranks open theirs in the order of communicators, and say how far
// they are: so these two can be told apart. A rank whose lease is gone has seen all others closed, so it was.
//
// Order: leases are stored with release and loaded with acquire order. A rank that sees an open lease sees zeros behind
// it, or what was stored since. A rank that sees a closed one zeroes its slab behind its owner's last read. Behind its
// lease a rank stores how far it is. So a rank that sees that, and then no lease, sees a lease that is gone. Two that
// close at once may both see the other's open: they look again.
#pragma once

#include "collectives/on_host/host_slab.hpp"

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
