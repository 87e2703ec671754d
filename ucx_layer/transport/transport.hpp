// Sends and receives wire messages between the ranks of a job: chooses a path for each peer (paths/path.hpp), at
// wire-up.
//
// send() keeps a reference to value and list until the bytes have left; the buffers don't change meanwhile. A delivered
// value is a buffer with one reference; its memory may be the peer's until we let go. Messages that wait for a peer are
// dropped when it fails.
//
// Threads: one at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/core/buffers.hpp"
#include "collectives/core/protocol.hpp"
#include "ucx_layer/transport/memory/first_segment.hpp"
#include "ucx_layer/transport/memory/segments.hpp"
#include "ucx_layer/transport/paths/message.hpp"
#include "ucx_layer/transport/paths/rma_window.hpp"
#include "ucx_layer/transport/paths/shared.hpp"

namespace ucft::detail {

// The facts that each rank knows of a peer before it is wired, from the out-of-band exchange.
struct PeerAddress {
  bool shares_memory = false;  // same host, and both sides may
  bool at_once = true;  // connected in start-up; else when the first message wants to go there (the same on both sides)
  RangeName range{};
  std::vector<std::byte> messages;  // of its message path; empty if no rank needs it
};

class Transport {
 public:
  struct Setup {
    int me;
    int ranks;
    std::uint32_t cookie;
    std::uint32_t ring_lines;  // the same on all ranks
    bool log;
    Sink sink;
    bool sleeper_fences;        // all ranks of this host have registered for membarrier
    bool needs_messages;        // some peer is out of reach of shared memory
    bool on_one_host;           // none is on another host
    std::uint64_t range_bytes;  // of shared memory, at most: what each rank of the host can map of all others
    std::function<std::unique_ptr<MessagePath>(const Station&)> message_path{};  // instead of UCX: for tests
    std::size_t connections = 0;  // that are expected: UCX chooses transports by it
    MailboxPlaces mailboxes{};    // empty: with all
    std::string tcp_devices{};    // that UCX may choose from, with commas between; empty: all
  };
  explicit Transport(const Setup& setup);
  ~Transport();

  // Shared memory that it can't do without: rings, and a few payloads.
  std::uint64_t least_range_bytes() const { return first_.bytes() + (1 << 20); }
  // Wire-up, in this order; false with a reason.
  bool open(std::string& error);
  PeerAddress own_address(std::string& error);
  bool connect(const std::vector<PeerAddress>& peers, std::string& error);
  void send_hellos();
  // A rank that has not greeted; lost: and its connection is lost; -1: none.
  int missing_greeting(bool lost = false) const;
  bool wired() const;  // hellos of all peers on the message path have arrived, ours have left
  void note_wired() { all_have_greeted_ = true; }  // all ranks are
  // Whether UCX has called abort() as a peer died that it was connecting to. Nothing can be sent then, and start-up has
  // failed. After end_of_start_up() such an abort() ends the process.
  bool has_given_up() const;
  void end_of_start_up();
  // Whether the other sides have all connections that UCX has begun. Then, on all ranks: from now on no process can
  // connect.
  bool connected() const;
  bool accept_no_more();
  // The key to this rank's rings, for peers on other hosts. Empty: a device can't do it, so all stay on messages.
  std::vector<std::byte> own_remote_key();
  std::uint64_t own_segment_address() const { return segments_.first().name().address; }
  // For peers without a connection: makes one, which the peer answers with its own. It costs a fraction of a
  // millisecond and does not wait for the peer. Messages that are sent before the peer has answered wait in UCX.
  // Messages that find no connection make one by themselves.
  void connect_to(int peer);
  bool is_connected(int peer) const {  // by UCX
    const Path* const path = paths_[static_cast<std::size_t>(peer)];
    return path != nullptr && path != &shared_ && path != &unconnected_;
  }
  bool connects_late() const { return !addresses_.empty(); }  // some peers have no connection until they need one
  bool is_unconnected(int peer) const { return paths_[static_cast<std::size_t>(peer)] == &unconnected_; }
  // From now on messages for that peer go by the remote path. Both sides do it, before the first collective.
  bool open_remote_mailbox(int peer, std::uint64_t segment, std::span<const std::byte> key, std::string& error);

  Buffers& buffers() { return buffers_; }
  // A message for a collective; value and list get references of their own.
  void send(int peer, const Message& message, const WireStamp& stamp) {
    hand_over(peer, {compose_header(message, stamp),
                     {message.first_decided, second_ballot_of(message)},
                     message.value,
                     message.list});
  }
  // From this rank.
  void send_control(int peer, Control control, std::uint32_t communicator = 0, const ControlWord& word = {});
  // Messages that have not left: they wait for room at a slow receiver, for a connection, or to be fetched.
  std::int64_t waiting() const;
  void ring_doorbells() { shared_.ring_doorbells(); }  // after a burst of sends: wakes receivers that sleep
  // Delivers all that has arrived; true if anything was done. listens: UCX is asked, too, which takes a while.
  bool poll(bool listens = true);
  void drain(int peer);   // see Path
  void publish_credit();  // before sleeping: gives all credit back
  // Failed or left. is_ending: its process has ended, or closes its connections itself.
  void forget(int peer, bool is_ending = false);
  // Forgets all peers that are reached by messages. Messages on their way to them end, and memory that was lent for
  // these is not read any more.
  void cut_messages();
  bool is_forgotten(int peer) const { return paths_[static_cast<std::size_t>(peer)] == nullptr; }
  // Sends `leave` to other hosts and to peers that share no memory with us. Waits until that and all that was sent
  // before has arrived, for at most 3 s. A lost packet of a reliable connection is sent again after about 1 s, so twice
  // in that time. Waits only for peers that may_live.
  void say_goodbye(bool all_know, const std::function<bool(int peer)>& may_live);

  struct Counts {
    int shared_memory = 0, remote_mailboxes = 0, messages = 0;  // peers; the last may have no connection yet
    int connections = 0, most_connections = 0;                  // UCX's endpoints: open now, and at most so far
    int mailboxes = 0;                                          // that are set aside for others to fill
    std::uint64_t mailbox_bytes = 0;
  };
  Counts counts() const;
  // For observers from outside (ControlPage): to be called after each change of them.
  void publish_counts();
  bool has_remote_mailboxes() const;  // a put there wakes no rank
  bool uses_messages() const { return messages_ != nullptr; }
  int event_fd() { return messages_->event_fd(); }  // readable when the message path may have something; arm() first
  bool arm() { return messages_->arm(); }

  ControlPage* control() const { return FirstSegment::control_in(segments_.first().data()); }  // nullptr before open()
  ControlPage* control_of(int peer) const { return shared_.control_of(peer); }  // nullptr: memory is not shared

  // Memory of a peer's, where we share it; nullptr: there is none.
  const std::byte* memory_of(int peer, std::uint64_t address, std::uint64_t bytes) const {
    return shared_.memory_of(peer, address, bytes);
  }

  // Memory of the caller that peers can map.
  std::byte* allocate_shared(std::size_t bytes) { return segments_.lend(bytes); }
  bool free_shared(void* memory);
  bool is_shared(const void* memory, std::size_t bytes) const { return segments_.is_lent(memory, bytes); }
  // Whether values can be sent from there: peers that read them can map it, or there are none.
  bool can_send_from(const void* memory, std::size_t bytes) const { return only_messages_ || is_shared(memory, bytes); }
  Windows& windows() { return windows_; }
  Slabs& slabs() { return slabs_; }
  // The slab that a peer that shares memory with us has for that communicator.
  SlabView slab_of(int peer, std::uint32_t communicator) const {
    return shared_.slab_of(peer, communicator, slabs_.bytes());
  }
  // Something that some of them may wait for is in shared memory: wakes those that sleep.
  void wake(const SharedPath::Ranks& ranks) { shared_.wake(ranks); }
  void note_sleep(int rank, bool sleeps) { shared_.note_sleep(rank, sleeps); }  // see SharedPath

 private:
  // Of peers that nothing has been sent to.
  class Unconnected final : public Path {
   public:
    explicit Unconnected(Transport& owner) : owner_(owner) {}
    void send(int peer, const Outgoing& message) override {
      owner_.connect_to(peer);
      owner_.hand_over(peer, message);
    }
    bool poll() override { return false; }
    void drain(int) override {}
    void forget(int) override {}
    std::int64_t waiting() const override { return 0; }

   private:
    Transport& owner_;
  };

  void hand_over(int peer, const Outgoing& message) {
    Path* path = paths_[static_cast<std::size_t>(peer)];
    if (path == &shared_) return shared_.send(peer, message);
    if (path == nullptr) return;
    if (messages_->is_busy() || !postponed_.empty()) return postpone(peer, message);
    path->send(peer, message);
  }
  void postpone(int peer, const Outgoing& message);
  void catch_up();
  void give_back();

  Setup setup_;
  const MailboxPlaces mailboxes_;
  const FirstSegment first_;
  Segments segments_;
  Slabs slabs_;
  Buffers buffers_;
  Rejects rejects_;
  const Station station_;
  SharedPath shared_;
  std::unique_ptr<Connections> connections_;  // through UCX; this and the next two: if there is a device for it
  std::unique_ptr<Registrations> registrations_;
  std::unique_ptr<RemotePath> remote_;
  std::unique_ptr<MessagePath> messages_;  // nullptr: no rank needs it
  Windows windows_;
  Unconnected unconnected_{*this};
  std::vector<std::vector<std::byte>> addresses_;  // by rank, of those
  bool all_have_greeted_ = false;
  std::vector<bool> connected_late_;  // by rank: it may leave before UCX has answered it
  bool only_messages_ = false;        // all peers are reached by them
  struct Postponed {
    int peer;
    Path* path;        // that forgets the peer; nullptr: to be sent
    Outgoing message;  // one reference to value and list
  };
  std::vector<Postponed> postponed_;  // while the message path is busy
  std::vector<Path*> paths_;          // by rank; nullptr: this rank, and who is forgotten
};

}  // namespace ucft::detail
