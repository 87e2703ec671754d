// The journal of a host among hosts (collectives/among/journal.hpp), as a log in memory that its ranks share
// (collectives/on_host/host_log.hpp). After any deaths an entry is there for all of them or for none.
//
//   head      what has happened, and short data                    in the entry
//   payload   longer data: the entry says where it lies            in memory of the rank that has appended
//
// A payload that lies in a block that all ranks have mapped stays where it is, as one does that has come by RDMA. UCX's
// messages bring it in memory of UCX, so it is copied, once. All ranks have it from there. The rank that has appended
// holds the block until no other needs it: each says so when nothing here refers to it any more.
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "collectives/on_host/host_log.hpp"
#include "collectives/among/journal.hpp"
#include "ucx_layer/runtime/engines/host_slabs.hpp"
#include "ucx_layer/runtime/engines/journal_head.hpp"
#include "ucx_layer/runtime/engines/journal_payloads.hpp"

namespace ucft::detail {

class Context;

class HostJournal : public Journal {
 public:
  // ranks: of the context, those of this host; me: this one's place among them. contribution: of this rank's part in a
  // call. It is null while that is not through here; until then the entry is not to be read.
  HostJournal(std::uint32_t id, const std::vector<std::int32_t>& ranks, Rank me, Context& context,
              std::function<const ProcessContribution*(OperationNumber call)> contribution);

  // False: there is no memory for this rank's slab, so it can take no part, and must stand aside.
  bool has_slab() const { return slabs_.is_there(); }

  bool may_append() const override;
  void append(std::uint64_t position, const JournalEntry& entry) override;
  const JournalEntry* at(std::uint64_t position) override;
  void wake() override { slabs_.wake(); }

  // Goes on with what waited for others. Returns a rank of this host that spoke, and was found dead: the next one
  // speaks. no_rank: there is none.
  Rank advance();
  // For an entry, here: this rank must leave the others to theirs.
  bool lacks_memory() const { return lacks_memory_; }

  void on_death(Rank rank) { slabs_.note_death(rank); }  // of this host
  // This rank appends and reads nothing any more. Its entries stay until end() is true.
  void leave();
  bool end() { return !slabs_.is_there() || slabs_.end(); }

 private:
  Slice lay_out(const JournalEntry& entry, JournalHead& head);
  void take_back_lent();
  void give_back();
  void read();
  void open(const JournalHead& head, Slice payload);

  const Context& context_;
  HostSlabs slabs_;
  HostLog log_;
  Buffers& buffers_;
  JournalPayloads payloads_;
  std::function<const ProcessContribution*(OperationNumber)> contribution_;
  bool is_there_ = false, ended_ = false, lacks_memory_ = false;
  Rank dead_ = no_rank;  // a speaker, which advance() is to say
  alignas(8) std::array<std::byte, JournalHead::bytes> head_{};
  std::uint64_t needs_ = 0;  // as the others know
  std::uint32_t turns_ = 0;
  JournalEntry entry_;
};

}  // namespace ucft::detail
