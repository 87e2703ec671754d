// The journal of a host that is one process among hosts: all that has happened to it, in the order in which it took it
// in.
//
// An algorithm is a value: (state, event) -> (state, sends). So a rank that has the events has the state, and knows
// what was sent. The one rank that speaks for the host writes each event down before anything follows from it (write
// ahead). It writes in memory that all ranks of the host have mapped, and that stays when its writer dies. Any other
// rank reads on from there.
//
// An entry is there as a whole or not at all: payload, then stamp. An entry that a dead speaker has not stamped was
// never said to anybody. The speaker's successor writes over it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/among/phases/personal_exchange.hpp"
#include "collectives/catalogue/arguments.hpp"
#include "collectives/core/protocol.hpp"

namespace ucft::detail {

using Host = Rank;  // as a process among hosts: 0 .. number of hosts - 1

// The joint contribution of the ranks of a host, for the next call of their communicator. A pure function of the host's
// memory, once each of its ranks has given or is proved dead.
struct ProcessContribution {
  OperationNumber call = 0;
  Arguments arguments;  // root: a host
  std::span<const std::byte> value;
  Slice block{};  // value, where it is in a block of the reader's own: kept, not copied
  struct Piece {
    std::uint64_t offset;
    Slice data;
  };
  std::vector<Piece> pieces{};     // those of the value that are not in the block yet
  BufferId room = no_buffer;       // of this rank, where other ranks have pieces: kept until no rank may need them
  BufferId landing = no_buffer;    // Operation::Memory::landing, of a rank alone
  std::uint32_t contributors = 0;  // ranks whose values are in it
  std::vector<Rank> missing;       // the others, as ranks of all hosts, ascending
  bool has_value = false;          // false: there is nothing to give
  // Of an exchange: how the value goes to which process, and the bytes of room for what comes from all. The room grows
  // where a dead rank has not said how much it gets, or where only the givers know the lengths.
  std::vector<PersonalExchange::Share> shares{};
  std::uint64_t room_bytes = 0;
  bool room_grows = false;
  bool root_died = false;  // a broadcast's root, before it gave
  Rank lacking = no_rank;  // of all hosts: it has no memory for its part
};

struct JournalEntry {
  enum class What : std::uint8_t {
    contribution,  // what this host gives to its next call
    message,       // of another host
    failure,  // another host has failed: its ranks are gone, the last one by failing. list: a bit for each of them,
              // whether it has failed
    turn,     // time has passed: see OperationWindow::on_turn
    leave,    // a host posts nothing from operation `from` on; this one: nothing any more
    left,     // another host is gone: all of its ranks have left, or failed before the last of them did
    waiting,  // this host has waited for long: see OperationWindow::say_waiting
    result,   // the long result of an operation, which all ranks of this host take from there
    end       // nothing follows: this host has left, and no host needs it any more
  };
  What what = What::turn;
  // Of this host, by its call. Each reader has it from the memory of the host: not written down.
  const ProcessContribution* contribution = nullptr;
  Message message{};  // peer: the host that sent it. Its handles mean nothing here
  std::span<const std::byte> value{}, list{};
  Slice block{};         // value, in a block of the rank that appends, or reads: as a contribution's. Not written down
  Host about = no_rank;  // that has failed, leaves or left
  OperationNumber from = 0;  // of one that leaves; result: whose it is; contribution: its call
  bool was_needed = false;   // of one that left: see OperationWindow::on_left
  bool may_gossip = true;    // turn
  std::int64_t now_ns = 0;   // turn
};

class Journal {
 public:
  virtual ~Journal() = default;
  // Whether append() may be called: all that was appended is there.
  virtual bool may_append() const { return true; }
  // For the one rank that speaks. Entries are numbered from 0, and copied where other ranks read them. It may be some
  // time before an entry is there. A block need not be copied: it is held, and not changed, until no rank needs it.
  virtual void append(std::uint64_t position, const JournalEntry& entry) = 0;
  // nullptr: not there yet, or not to be read yet. Valid until the next call; a contribution until its operation is
  // reported, a block as long as it is referred to.
  virtual const JournalEntry* at(std::uint64_t position) = 0;
  // Wakes the other ranks, which may sleep: they have something to do for the entries that were appended.
  virtual void wake() {}
};

// Of a rank alone: an entry is read before append()'s caller goes on, and by no other rank. So nothing is copied.
class OwnJournal final : public Journal {
 public:
  void append(std::uint64_t position, const JournalEntry& entry) override {
    end_ = position + 1;
    entry_ = &entry;
  }
  const JournalEntry* at(std::uint64_t position) override { return position + 1 == end_ ? entry_ : nullptr; }

 private:
  std::uint64_t end_ = 0;
  const JournalEntry* entry_ = nullptr;
};

}  // namespace ucft::detail
