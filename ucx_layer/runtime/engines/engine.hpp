// An engine runs a communicator's operations. There are two: HostEngine, for ranks that read each other's
// memory, and ProcessEngine, for processes that send each other messages. A process is a host, or a rank alone.
//
// Ranks are the communicator's. Threads: one at a time, the one that is inside the context.
#pragma once

#include <vector>

#include "ucx_layer/runtime/engines/patience.hpp"
#include "ucx_layer/runtime/engines/published_part.hpp"
#include "ucx_layer/runtime/request.hpp"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

class Engine {
 public:
  virtual ~Engine() = default;

  // ---- by the caller
  // Once, before the request is posted for the first time.
  virtual void plan(Request&) {}
  // See Communicator.
  virtual ucft_status_t post(Request& request) = 0;
  virtual bool has_pending() const = 0;
  virtual OperationNumber posted() const = 0;
  // All that is pending ends with this status.
  virtual void exclude_self(ucft_status_t why) = 0;

  // ---- what comes
  // False: too early, the message has to wait where it is.
  virtual bool accepts(const WireHeader&) const { return true; }
  virtual void on_message(const WireHeader&, const Message&) {}
  // A rank of this host stores nothing any more: it is proved dead, or has said that it leaves, or is out.
  virtual void on_death(Rank) {}
  // It has failed, as all ranks will find.
  virtual void on_failure(Rank) {}
  // It has left the job. was_needed: some rank may not have finished all that the leaver has posted.
  virtual void on_left(Rank, bool /*was_needed*/) {}
  // It has left the communicator, and posts nothing from there on. is_gone: it answers nothing any more, either.
  virtual void on_leaves(Rank, OperationNumber /*from*/, bool /*is_gone*/) {}
  // It needs nothing more of this rank, which leaves.
  virtual void on_let_go(Rank) {}
  // Of an agreement: the rank has left its caller's communicator, and posts nothing more here.
  virtual void note_left(Rank rank) = 0;
  virtual bool on_turn() { return false; }  // true if anything was done
  virtual bool wants_turn() const { return false; }
  virtual bool listens() const { return true; }  // to ranks with which it shares no memory

  // ---- for observers
  virtual void note_awaited() {}
  // Asks the ranks that its oldest operation has awaited for long whether they have left.
  virtual void ask_awaited(Patience::Time) {}
  virtual const PublishedPart* published() const { return nullptr; }
  // How many operations that rank has posted at least, as far as it has been heard; any thread. -1: that is not known.
  virtual std::int64_t heard_of(Rank) const { return -1; }

  // ---- the end
  // From which operation on this rank posts nothing, as other ranks number them.
  virtual OperationNumber leaves_from() const { return 0; }
  virtual bool has_said_leave() const { return true; }
  virtual void leave(OperationNumber gossip_posted) = 0;
  virtual bool is_through() { return true; }  // no rank needs this one here any more, as far as messages go
  virtual void retire() {}                    // it is through: only its memory stays, until end()
  virtual bool end() { return true; }         // no rank of this host reads its memory any more

  // False: there is no memory for what other ranks read here, so this rank must stand aside.
  virtual bool has_slab() const { return true; }
  virtual bool shares_memory() const { return true; }
  // Of each rank, where hosts are the processes; empty: each rank is one.
  virtual std::vector<Rank> hosts_by_rank() const { return {}; }
};

}  // namespace ucft::detail
