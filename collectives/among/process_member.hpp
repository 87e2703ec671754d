// One rank's part in its host's process. Every rank of the host reads the journal. The first that lives is the speaker:
// it also writes the journal, and exchanges packets with the speakers of other hosts.
//
//   speaker    an event -> written down -> applied -> the packets that follow are sent. Where a long result lies is
//              written down, too
//   others     read, apply, send nothing, compute no long value: they take results from there
//   takeover   the speaker is proved dead, and this rank is the next. It reads to the end, computes what it has named,
//              sends all packets again that any host may lack, and goes on. They are the packets that its predecessor
//              sent, or would have sent
//
// Packets go to the first rank of a host that is not known to be dead. When that one dies, the next one gets those
// packets that its host may not have written down. It keeps them until it speaks. So a message survives the deaths of
// two speakers, in whatever order the news of them comes: a live rank has it, or its host is dead.
//
// Leaving: when all ranks of a host have left, its speaker writes down that the host leaves, and says so to the other
// hosts. Each answers when it needs this host no more. When all have answered, the end is written down. A rank that
// leaves while others of its host stay just goes.
//
// Invariants
//   - A rank speaks when all before it on its host are *proved* dead: there are no two speakers. A suspicion is no
//     proof.
//   - Everything that leaves a host follows from what its journal holds.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "collectives/core/ballots.hpp"
#include "collectives/among/process_replica.hpp"
#include "collectives/among/journal.hpp"

namespace ucft::detail {

class ProcessMember {
 public:
  struct Place {
    Rank me;
    const std::vector<Host>* hosts;  // of each rank, ascending; the same on all
    int window = 8;
    Optimism optimism = false;
    std::uint64_t long_bytes = ProcessReplica::usually_long;
    std::vector<Rank> failing_together{};  // processes that are ranks alone: see OperationWindow::Size::hosts
    std::vector<Rank> absent{};            // processes: see OperationWindow::Size::absent
    // Each process is a rank alone.
    bool are_ranks() const { return hosts->back() + 1 == static_cast<Host>(hosts->size()); }
  };
  // Places of packets without a message. They say only which rank speaks now; that the host posts nothing from
  // message.operation on; or that it needs the other host, which leaves, no more. Places of messages are below them.
  static constexpr std::uint32_t i_speak = UINT16_MAX, we_leave = UINT16_MAX - 1, you_may_go = UINT16_MAX - 2;
  static constexpr bool is_word(std::uint32_t place) { return place >= you_may_go; }
  struct Packet {  // in an outbox; message.peer is the host that it is for
    Rank to;
    std::uint32_t place;
    Message message;  // handles of buffers; one reference to each, the driver's
  };
  // Where this rank's results go.
  class Caller {
   public:
    virtual ~Caller() = default;
    // An operation of this rank's process is through; call: ProcessReplica::internal, or which one it was. Its value is
    // there until the call returns; the operation may be dropped soon after. Not called for a decision
    // that names the process as dead (OperationWindow::is_out), nor for what completes after it.
    virtual void on_completed(OperationNumber call, OperationNumber number, std::span<const std::byte> value) = 0;
    // A rank of another host that this rank has not lost: its process goes on without it all the same. A speaker has
    // written so down, which may have been wrong.
    virtual void on_given_up(Rank rank) = 0;
  };
  ProcessMember(Place place, Journal& journal, Caller& caller, Buffers& buffers);

  // The journal may have grown, or may be appended to again.
  void look();
  // Whether on_contribution() is awaited, and for which call: this rank speaks, and its process can take it in.
  bool wants_contribution() const { return process_.ready() && may_append(); }
  OperationNumber next_call() const { return process_.calls(); }
  void on_contribution(const ProcessContribution& contribution);
  // from: a rank of another host, message.peer, that speaks there; so all before it on its host are dead. A rank that
  // does not speak (yet) takes packets, too. False: it came too late, and is forgotten.
  bool on_packet(Rank from, std::uint32_t place, const Message& message);
  // That host has said, in a packet or otherwise, that it posts nothing from operation `from` on. is_gone: it answers
  // nothing any more, either.
  void on_leave_word(Host host, OperationNumber from, bool is_gone = false);
  // A rank of this host: it is proved dead. A rank of another host: the detector's word.
  void on_failure(Rank rank) { on_failures(rank, rank + 1, Gone::failed); }
  // A rank of another host is gone, in order. was_needed: some rank may not have finished all that its host has posted.
  void on_left(Rank rank, bool was_needed) { on_failures(rank, rank + 1, was_needed ? Gone::left_needed : Gone::left); }
  bool wants_turn() const { return process_.wants_turn() && may_append(); }
  void on_turn(std::int64_t now_ns, bool may_gossip = true);
  // This host has waited for others for long. False: not now.
  bool say_waiting();
  // All ranks of this host have left, with their operations complete: to be called again until it is true, and all is
  // at its end.
  bool leave();
  // That host is not told that this one leaves, and is not waited for.
  void excuse(Host host) { lets_us_go_[static_cast<std::size_t>(host)] = true; }

  std::vector<Packet>& outbox() { return outbox_; }
  bool speaks() const { return speaks_; }
  bool lost() const {
    return lost_ || process_.lost();
  }                                                    // there was no memory: this rank must leave the others to theirs
  std::size_t held() const { return held_.size(); }    // packets that wait
  std::uint64_t entries() const { return position_; }  // read, or written
  ProcessReplica& process() { return process_; }
  const ProcessReplica& process() const { return process_; }

  // The ranks whose packets, or whose entries in the journal, its host needs next for that call. Empty: none, or this
  // rank.
  std::vector<Rank> awaited(OperationNumber call) const;
  // The ranks of all hosts that are not in the result of that operation of this rank's process, ascending. False: there
  // are more.
  bool missing(OperationNumber number, std::vector<Rank>& ranks) const;
  // The rank that the operation's result blames. Of a mismatch on another host it is the first rank there. no_rank:
  // nobody.
  Rank culprit(OperationNumber number) const;
  void release_all();
  void release_rooms() { process_.release_rooms(); }  // ProcessReplica's

 private:
  struct Held {
    std::uint32_t place;
    Message message;  // one reference to value and list each
  };
  Host host_of(Rank rank) const { return (*place_.hosts)[static_cast<std::size_t>(rank)]; }
  struct Ranks {
    Rank first, end;
  };
  // A rank whose replica lacks something writes nothing down: it may differ from the others'.
  bool may_append() const { return speaks_ && !lost() && journal_.may_append(); }
  Ranks ranks_of(Host host) const;
  Rank first_alive(Host host) const;
  enum class Gone : std::uint8_t { failed, left, left_needed, somehow };
  void on_failures(Rank first, Rank end, Gone how);
  void say(Host to, std::uint32_t place, OperationNumber operation);
  bool has_gone(Host host) const { return first_alive(host) == no_rank; }
  void say_that_we_leave();
  bool record_leavers();
  void note_given_up(const JournalEntry& entry);
  std::vector<std::byte> failed_of(Host host) const;
  void report();
  std::span<const std::byte> bytes_of(Slice value) const;
  void read();
  void take_result(const JournalEntry& entry);
  void record(const JournalEntry& entry);
  bool record_result();
  void record_message(const Held& held);
  void go_on();
  bool record_failures();
  bool take_held();
  void keep_last_held();
  void send_new();
  void send(std::uint64_t number);
  void send_again(Host host);
  void tell_awaited();

  Place place_;
  const bool are_ranks_;
  Host host_;
  Journal& journal_;
  Caller& caller_;
  Buffers& buffers_;
  ProcessReplica process_;
  std::uint64_t position_ = 0;
  struct Owed {
    OperationNumber call, number;
    Slice value;  // one reference; names what it may not have computed
  };
  std::deque<Owed> owed_;  // operations with long results that are not written down
  bool speaks_ = false, ended_ = false, lost_ = false;
  FailedRanks dead_, failed_;
  struct DeadHost {
    Host host;
    Gone how;
  };
  std::vector<DeadHost> dead_hosts_;  // all of whose ranks are; those that may not be written down yet
  std::vector<Gone> last_gone_;       // by host: how its ranks have gone, as far as that is known
  struct Leaver {
    Host host;
    OperationNumber from;
    bool is_recorded = false;
  };
  std::vector<Leaver> leavers_;   // other hosts that have said so
  std::vector<bool> let_go_;      // by host: this one needs it no more
  std::vector<bool> lets_us_go_;  // by host: it needs this one no more
  std::vector<bool> told_we_leave_;
  std::vector<Held> held_;
  std::uint64_t sent_upto_ = 0;  // packets of process_
  bool has_taken_over_ = false;
  std::vector<Host> told_;  // hosts that have heard of it
  std::vector<Packet> outbox_;
};

}  // namespace ucft::detail
