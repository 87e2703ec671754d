// Sends and receives wire messages between the ranks of a job. Three paths, chosen per peer at wire-up:
//
//   shared    same host: lines in a ring in the peer's memory; payloads above one message stay with their sender and are
//             read from there (descriptor + pull). Nothing of UCX runs on this path.
//   remote    another host, and the device can write and read remote memory by itself (RDMA): the same ring and the same
//             descriptors, by ucp_put and ucp_get. What is put is put into rings and tables of the transport, never into
//             memory of the caller; payloads are fetched by whoever wants them.
//   message   else: UCX active messages, where each connection has a queue of its own (tcp, rc, ud).
//
// Who owns what
//   - send() keeps a reference to value and list until the bytes have left: copied into the ring, pulled by the peer,
//     or completed by UCX. The buffers don't change meanwhile.
//   - a delivered value is a buffer with one reference. Of a pulled one the owner keeps the memory until we let go.
//   - what waits for a peer that fails is dropped.
// Threads: one at a time.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/buffers.hpp"
#include "collectives/protocol.hpp"
#include "ucx_layer/transport/memory/mailbox.hpp"
#include "ucx_layer/transport/memory/shared_memory.hpp"
#include "ucx_layer/transport/ucx.hpp"
#include "ucx_layer/transport/memory/window.hpp"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

// What each rank knows of a peer before it is wired: from the out-of-band exchange.
struct PeerAddress {
  bool shares_memory = false;  // same host, and both sides may
  RangeName range{};
  std::vector<std::byte> worker;  // UCX address; empty if nobody needs it
};

// The first page of a rank's first segment, which its range begins with. Written by others where it says so.
struct ControlPage {
  std::uint64_t cookie;
  alignas(64) std::atomic<std::uint32_t> sleeping;  // futex word: 1 while the rank sleeps (written by all)
  alignas(64) std::atomic<std::uint64_t> heartbeat;
  alignas(64) std::atomic<std::uint32_t> left;      // 1: the rank has left the job; 2: it is out of it (excluded)
  alignas(64) std::atomic<std::uint32_t> excluded;  // 1 + rank of who declared this rank dead (written by others)
};

class Transport {
 public:
  // Where messages go. accepts: false leaves the message where it is, for a later poll. deliver: value and list are
  // lent for the call (retain to keep).
  struct Sink {
    void* arg;
    bool (*accepts)(void* arg, const WireHeader& header, int peer);
    void (*deliver)(void* arg, const WireHeader& header, const Message& message, int peer);
    void (*control)(void* arg, const WireHeader& header, int peer);
    void (*endpoint_failed)(void* arg, int peer, const char* why);
  };
  struct Setup {
    int me;
    int ranks;
    std::uint32_t cookie;
    bool log;
    Sink sink;
    bool sleeper_fences;        // all ranks of this host have registered for membarrier
    bool needs_messages;        // some peer is out of reach of shared memory
    bool on_one_host;           // none is on another host
    std::uint64_t range_bytes;  // of shared memory, at most: what each rank of the host can map of all others
  };
  explicit Transport(const Setup& setup);
  ~Transport();

  // Shared memory that it can't do without: rings, and a few payloads.
  std::uint64_t least_range_bytes() const { return segment_bytes() + (1 << 20); }
  // Wire-up, in this order; false with a reason.
  bool open(std::string& error);
  PeerAddress own_address(std::string& error) const;
  bool connect(const std::vector<PeerAddress>& peers, std::string& error);
  void send_hellos();
  // A rank that has not greeted yet; lost: whose connection is lost, too. -1: none.
  int missing_greeting(bool lost = false) const;
  bool wired() const;  // hellos of all peers on the message path have arrived, ours have left
  // Whether the other sides have all connections that UCX has begun; then, on all ranks: from now on nobody can connect.
  bool connected() const { return ucx_.sockets().are_connected(); }
  bool accept_no_more() { return ucx_.accept_no_more(); }
  // The key to this rank's rings, for peers on other hosts. Empty: a device can't do it, so all stay on messages.
  std::vector<std::byte> own_remote_key();
  std::uint64_t own_segment_address() const { return own_.name().address; }
  // From now on messages for that peer go by the remote path. Both sides do it, before the first collective.
  bool open_remote_mailbox(int peer, std::uint64_t segment, std::span<const std::byte> key, std::string& error);

  Buffers& buffers() { return *buffers_; }
  // A message for a collective; value and list get references of their own.
  void send(int peer, const Message& message, const WireStamp& context);
  void send_control(int peer, Control control, std::uint32_t communicator, std::int32_t sender);
  void send_alarm(int peer, std::int32_t failed, bool proved);
  // After a burst of sends: wakes receivers that sleep.
  void ring_doorbells();
  // Delivers what has arrived; true if anything was done.
  bool poll();
  // Delivers what one peer has sent so far, up to the first payload that is still being fetched from another host. (To go
  // on behind it would lose a message out of the middle of what a dead peer has sent; a crash loses the end.)
  void drain(int peer);
  // Before sleeping: gives all credit back.
  void publish_credit();

  void forget(int peer);  // failed or left: drops what waits for it, reads nothing more of it
  bool is_forgotten(int peer) const { return peers_[static_cast<std::size_t>(peer)].forgotten; }
  bool is_mapped(int peer) const { return peers_[static_cast<std::size_t>(peer)].mapped.is_open(); }
  struct Paths {
    int shared_memory = 0, remote_mailboxes = 0, messages = 0;  // peers
  };
  Paths paths() const;
  bool has_remote_mailboxes() const { return !remote_peers_.empty(); }  // what is put there wakes nobody
  bool uses_messages() const { return message_peers_ > 0; }
  int event_fd();  // readable when the message path may have something; arm() first
  bool arm();      // true: sleep on event_fd is safe

  ControlPage* control() const { return control_; }
  ControlPage* control_of(int peer) const { return peers_[static_cast<std::size_t>(peer)].control; }

  // Memory of the caller that peers can map.
  std::byte* allocate_shared(std::size_t bytes);
  bool free_shared(void* memory);
  bool is_shared(const void* memory, std::size_t bytes) const;

  // Of windows (ucx_layer/transport/memory/window.hpp), by context rank.
  bool has_one_sided_path(int peer) const { return by_mailbox(peers_[static_cast<std::size_t>(peer)]); }
  WindowMemory* take_window(int peer, std::size_t bytes);  // nullptr: no memory, or the peer is gone
  const Segment* window_segment(const std::byte* memory) const;
  std::span<const std::byte> remote_key_of(const Segment& segment);            // empty: there is none
  std::byte* window_of(int peer, std::uint64_t address, std::uint64_t bytes);  // nullptr: it has no such memory
  bool is_connected(int peer) const;                                           // through UCX, as far as this rank knows
  bool has_key(int peer, const SegmentName& segment, std::span<const std::byte> packed);  // that UCX understands
  void touch_window(int peer) { touch(peer_at(peer)); }
  void put_window(int peer, BufferId source, std::size_t offset, std::size_t bytes, std::uint64_t target,
                  const SegmentName& segment, std::span<const std::byte> key);

  static constexpr std::size_t inline_limit = 2048;  // value bytes that travel in the mailbox
  static_assert(inline_limit <= Buffers::private_limit);
  // Sends LEAVE to other hosts and to whom no memory is shared with. Waits until that and all that was sent before has
  // arrived, for at most 3 s: a lost packet of a reliable connection is sent again after about 1 s, so twice in that time.
  // Waits only for peers that may_live.
  void say_goodbye(const std::function<bool(int peer)>& may_live);

 private:
  static constexpr int tickets = 64;  // payloads of ours that one peer may be reading

  struct RemoteCall;
  struct Registration {  // of a segment of ours, with the network devices
    ucp_mem_h handle;
    std::vector<std::byte> key;  // packed
  };
  struct RemoteKey {  // of a segment of a peer
    SegmentName segment;
    std::vector<std::byte> packed;
    ucp_rkey_h key;
    int calls;  // under way that refer to it
  };
  // The remote path's part of a peer. Lives as long as the transport: calls of UCX on their way point into it.
  struct Remote {
    std::uint64_t segment = 0;                    // where the peer's segment begins, there
    ucp_rkey_h key = nullptr;                     // of that segment
    std::vector<MailboxLine> lines;               // our ring as we wrote it; a line stays until its put is done
    std::uint64_t lines_put = 0, lines_left = 0;  // numbers up to which lines have been handed to UCX, and have left
    std::deque<RemoteCall*> puts;                 // of lines, oldest first
    std::atomic<std::uint64_t> credit{0};         // what we have consumed of the peer's ring
    std::uint64_t credit_put = 0;
    std::array<std::uint32_t, tickets> pulled{};  // generations that we have read
    std::vector<RemoteKey> keys;
    RemoteCall* pull = nullptr;  // the peer's next message waits for its payload
  };

  struct Queued {
    WireHeader header;
    std::int32_t ballots[2];
    Slice value;
    BufferId list;
  };
  struct Pull {
    BufferId value = no_buffer;
    std::uint32_t generation = 0;
  };
  struct Peer {
    Transport* owner = nullptr;
    bool forgotten = false;
    bool hello_seen = false;
    bool endpoint_broken = false;
    bool touched = false;
    ucp_ep_h endpoint = nullptr;
    // mailbox path
    MappedRange mapped;
    ControlPage* control = nullptr;
    MailboxWriter writer;
    std::atomic<std::uint32_t>* pulled_here = nullptr;   // [tickets], mine: the peer has read that generation
    std::atomic<std::uint32_t>* pulled_there = nullptr;  // [tickets], the peer's: I have
    std::array<Pull, tickets> pulls;
    int pulls_open = 0;
    int views = 0;  // payloads of its own memory that we hold
    std::deque<Queued> backlog;
    std::vector<std::unique_ptr<WindowMemory>> windows;  // of ours, that it writes
    std::unique_ptr<Remote> remote;                      // on the remote path
  };
  struct AmSend;
  struct AmArrival {
    WireHeader header;
    std::int32_t ballots[2];
    std::vector<std::uint32_t> list;
    BufferId value = no_buffer;
    bool from_ucx = false;
  };

  static std::byte* allocate_chunk(void* arg, std::size_t bytes);
  static ucs_status_t on_am(void* arg, const void* header, size_t header_bytes, void* data, size_t bytes,
                            const ucp_am_recv_param_t* param);
  static void on_am_sent(void* request, ucs_status_t status, void* arg);
  static void on_endpoint_error(void* arg, ucp_ep_h endpoint, ucs_status_t status);

  Peer& peer_at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  MailboxReader& reader_of(const Peer& peer) { return readers_[static_cast<std::size_t>(index_of(peer))]; }
  int index_of(const Peer& peer) const { return static_cast<int>(&peer - peers_.data()); }
  std::byte* ring_area(std::byte* segment, int writer) const;
  std::byte* pulled_area(std::byte* segment, int reader) const;
  std::byte* credit_area(std::byte* segment, int reader) const;
  std::size_t segment_bytes() const;

  static bool by_mailbox(const Peer& peer) { return peer.mapped.is_open() || peer.remote != nullptr; }
  bool has_room(Peer& peer, std::uint32_t lines);
  Queued control_message(Control control, std::uint32_t communicator, std::int32_t sender) const;
  void push(Peer& peer, const Queued& message);
  bool try_write(Peer& peer, const Queued& message);
  bool write_descriptor(Peer& peer, const Queued& message, std::uint32_t ticket);
  void touch(Peer& peer);
  int free_ticket(Peer& peer) const;
  void send_am(Peer& peer, const Queued& message);
  void finish_am(AmSend* send, ucs_status_t status);
  void drop(const Queued& message);
  void advance_waiting();
  void collect_pulls(Peer& peer);
  bool poll_mailbox(Peer& peer);
  const Registration* registration_of(const Segment& segment);
  void unregister(const Segment& segment);
  RemoteCall* new_call(Peer& peer);
  void put(Peer& peer, const void* source, std::size_t bytes, std::uint64_t target);
  void start_put(Peer& peer, RemoteCall* call, const void* source, std::size_t bytes, std::uint64_t target,
                 ucp_rkey_h key);
  std::byte* carve_window(std::size_t bytes);
  void put_lines(Peer& peer);
  void put_credit(Peer& peer);
  static void on_call_done(void* request, ucs_status_t status, void* call);
  void finish_call(RemoteCall* call, ucs_status_t status);
  void settle_puts(Remote& remote);
  ucp_rkey_h key_of(Peer& peer, const SegmentName& segment, std::span<const std::byte> packed);
  static void count_call(Peer& peer, ucp_rkey_h key, int change);
  bool start_pull(Peer& peer, const WireHeader& header);
  bool finish_pull(Peer& peer);
  void close_endpoint(Peer& peer);
  void abandon_calls(Remote& remote);
  BufferId read_value(Peer& peer, const WireHeader& header);
  BufferId map_payload(Peer& peer);
  void copy_if_crowded(Peer& peer, Message& message);
  bool poll_am();
  void take_am(const AmArrival& arrival, int peer);
  void give_back();
  const Segment* segment_of(const void* memory, std::size_t bytes) const;
  void note_malformed(Malformed what, int peer);

  Setup setup_;
  Ucx ucx_;
  SharedRange range_;
  Segment own_;
  ControlPage* control_ = nullptr;
  std::vector<Segment> chunks_;  // of buffers_
  std::vector<Segment> lent_;    // of allocate_shared
  std::vector<Segment> window_segments_;
  std::size_t window_bytes_used_ = 0;  // of the last one
  std::unique_ptr<Buffers> buffers_;
  std::vector<Peer> peers_;
  std::vector<MailboxReader> readers_;  // by peer, close together: every poll looks at all of them
  std::vector<int> touched_, mailbox_peers_, remote_peers_;
  int message_peers_ = 0;
  std::int64_t waiting_ = 0;                             // backlog entries, open pulls, active messages on their way
  std::map<std::uint64_t, Registration> registrations_;  // by id of the segment
  std::vector<std::unique_ptr<RemoteCall>> all_calls_;
  std::vector<RemoteCall*> free_calls_;
  int calls_under_way_ = 0;
  std::deque<AmArrival> arrivals_;
  std::vector<AmSend*> free_am_;
  std::vector<std::unique_ptr<AmSend>> all_am_;
  std::vector<std::pair<int, ucs_status_t>> broken_;
  std::uint64_t malformed_ = 0;
  std::uint32_t polls_ = 0;
};

}  // namespace ucft::detail
