// The paths of a rank to its peers (paths/path.hpp): which one leads to each peer, and how they are made. That is in
// start-up, and later for peers that have no connection until a message wants to go there. Transport sends over them.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/core/buffers.hpp"
#include "ucx_layer/transport/memory/first_segment.hpp"
#include "ucx_layer/transport/memory/segments.hpp"
#include "ucx_layer/transport/paths/message.hpp"
#include "ucx_layer/transport/paths/rma_window.hpp"
#include "ucx_layer/transport/paths/shared.hpp"

namespace ucft::detail {

// The facts that each rank knows of a peer before it is wired, from the out-of-band exchange.
struct PeerAddress {
  bool is_absent = false;      // from the start: there is no path to it
  bool shares_memory = false;  // same host, and both sides may
  bool at_once = true;  // connected in start-up; else when the first message wants to go there (the same on both sides)
  RangeName range{};
  std::vector<std::byte> messages;  // of its message path; empty if no rank needs it
};

class Wiring {
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
  explicit Wiring(const Setup& setup);

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
  // Nothing can be sent then. In start-up: UCX has called abort() as a peer died that it was connecting to. After
  // end_of_start_up() such an abort() ends the process, and this is of a rank that is out (Transport::cut_messages).
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
  // Nor is a message on its way that makes one.
  bool is_unconnected(int peer) const {
    return paths_[static_cast<std::size_t>(peer)] == &unconnected_ &&
           std::ranges::find(postponed_, peer, &Postponed::peer) == postponed_.end();
  }
  // From now on messages for that peer go by the remote path. Both sides do it, before the first collective.
  bool open_remote_mailbox(int peer, std::uint64_t segment, std::span<const std::byte> key, std::string& error);

  // A word of this rank.
  void send_control(int peer, Control control, std::uint32_t communicator = 0, const ControlWord& word = {});
  // Messages that have not left: they wait for room at a slow receiver, for a connection, or to be fetched.
  std::int64_t waiting() const;

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
  ControlPage* control() const { return FirstSegment::control_in(segments_.first().data()); }  // nullptr before open()

 protected:
  ~Wiring();

  // Of peers that nothing has been sent to.
  class Unconnected final : public Path {
   public:
    explicit Unconnected(Wiring& owner) : owner_(owner) {}
    void send(int peer, const Outgoing& message) override {
      owner_.connect_to(peer);
      owner_.hand_over(peer, message);
    }
    bool poll() override { return false; }
    void drain(int) override {}
    void forget(int) override {}
    std::int64_t waiting() const override { return 0; }

   private:
    Wiring& owner_;
  };

  void hand_over(int peer, const Outgoing& message) {
    Path* path = paths_[static_cast<std::size_t>(peer)];
    if (path == &shared_) return shared_.send(peer, message);
    if (path == nullptr) return;
    if (has_to_wait()) return postpone(peer, path, &message);
    path->send(peer, message);
  }
  // Whether a message to that peer leaves later in this poll.
  bool postpones(int peer) const {
    const Path* const path = paths_[static_cast<std::size_t>(peer)];
    return path != nullptr && path != &shared_ && has_to_wait();
  }
  // For the message path, which is busy. Or what was sent before still waits.
  bool has_to_wait() const { return messages_->is_busy() || !postponed_.empty(); }
  void postpone(int peer, Path* path, const Outgoing* message);
  void catch_up();

  Setup setup_;
  const MailboxPlaces mailboxes_;
  const FirstSegment first_;
  Segments segments_;
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
  int absent_ = 0;                    // peers
  std::vector<Path*> paths_;          // by rank; nullptr: this rank, and those that are forgotten or absent
  struct Postponed {
    int peer;
    Path* path;
    bool is_sent;  // the message, with one reference to value and list; else the peer is forgotten
    Outgoing message;
  };
  std::vector<Postponed> postponed_;
};

}  // namespace ucft::detail
