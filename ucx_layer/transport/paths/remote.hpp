// The remote path: the rings and descriptors of the shared path, by ucp_put and ucp_get, where a device can write and
// read remote memory by itself. We keep our ring as we wrote it, and put its lines into the peer's memory.
#pragma once

#include "ucx_layer/transport/connections.hpp"
#include "ucx_layer/transport/memory/registrations.hpp"
#include "ucx_layer/transport/paths/rings.hpp"

namespace ucft::detail {

class RemotePath;

// A put or a get of ours on its way.
struct RemoteCall {
  RemotePath* owner = nullptr;
  int peer = 0;
  bool done = false, abandoned = false;
  ucs_status_t status = UCS_OK;
  std::uint64_t last_line = 0;  // a put of lines; 0: of anything else
  BufferId value = no_buffer;   // a get: where it goes
  BufferId source = no_buffer;  // a put of an RMA window's content: where it comes from
  ucp_rkey_h key = nullptr;     // one of RemoteLink::keys
  std::uint32_t ticket = 0, generation = 0;
};

// Lives as long as the path: calls of UCX on their way point into it.
struct RemoteLink : RingLink {
  struct Key {  // of a segment of the peer
    SegmentName segment;
    std::vector<std::byte> packed;
    ucp_rkey_h key;
    int calls;  // under way that refer to it
  };
  std::uint64_t segment = 0;                    // where the peer's first segment begins, there
  ucp_rkey_h first_key = nullptr;               // of that segment
  std::vector<MailboxLine> lines;               // our ring as we wrote it; a line stays until its put is done
  std::uint64_t lines_put = 0, lines_left = 0;  // numbers up to which lines have been handed to UCX, and have left
  std::deque<RemoteCall*> puts;                 // of lines, oldest first
  std::atomic<std::uint64_t> credit{0};         // what we have consumed of the peer's ring
  std::uint64_t credit_put = 0;
  std::array<std::uint32_t, pull_tickets> read_there{};  // generations of the peer's payloads that we have read
  std::vector<Key> keys;
  RemoteCall* fetch = nullptr;  // the peer's next message waits for its payload
};

// UCX is driven by the message path's poll.
class RemotePath final : public RingPath<RemotePath, RemoteLink> {
 public:
  RemotePath(const Station& station, Segments& segments, Connections& connections, Registrations& registrations,
             Path& messages)
      : RingPath(station, segments), connections_(connections), registrations_(registrations), messages_(messages) {}

  // segment, key: of the peer's first segment. False with a reason.
  bool connect(int peer, std::uint64_t segment, std::span<const std::byte> key, std::string& error);
  bool poll() override;
  void forget(int peer) override;
  int calls_under_way() const { return calls_under_way_; }

  // Of RMA windows. A key that UCX understands; a content from `source`, which is kept until it has left. Puts to one
  // peer stay in order: UCX has one connection for them. A peer that can't be reached is found dead by others.
  bool has_key(int peer, const SegmentName& segment, std::span<const std::byte> packed);
  void put(int peer, Slice source, std::uint64_t target, const SegmentName& segment, std::span<const std::byte> packed);

 private:
  friend RingPath<RemotePath, RemoteLink>;
  bool has_room(RemoteLink& link, std::uint32_t lines);
  void wrote(int peer, RemoteLink& link);
  void read(int peer, RemoteLink& link);
  bool is_fetching(const RemoteLink& link) { return link.fetch != nullptr; }
  bool key_of(const Segment& segment, std::span<const std::byte>& key);
  void send_otherwise(int peer, const Outgoing& message) { messages_.send(peer, message); }
  bool take_payload(int peer, RemoteLink& link, const WireHeader& header);
  bool finish_fetch(int peer, RemoteLink& link);

  RemoteCall* new_call(int peer);
  static void on_call_done(void* request, ucs_status_t status, void* call);
  void finish(RemoteCall* call, ucs_status_t status);
  void put_own(RemoteLink& link, int peer, const void* source, std::size_t bytes, std::uint64_t target);
  void start_put(RemoteCall* call, const void* source, std::size_t bytes, std::uint64_t target, ucp_rkey_h key);
  void settle_puts(RemoteLink& link);
  ucp_rkey_h unpacked(int peer, const SegmentName& segment, std::span<const std::byte> packed);
  void count_call(int peer, ucp_rkey_h key, int change);
  void abandon(RemoteCall* call);

  Connections& connections_;
  Registrations& registrations_;
  Path& messages_;
  std::vector<std::unique_ptr<RemoteCall>> all_calls_;
  std::vector<RemoteCall*> free_calls_;
  int calls_under_way_ = 0;
};

}  // namespace ucft::detail
