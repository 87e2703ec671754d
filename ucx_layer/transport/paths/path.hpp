// A path carries messages to some of the ranks of a job. Which one a peer is on is decided at wire-up:
//
//   shared    same host: lines in a ring in the peer's memory; payloads above one message stay with their sender and
//             are read from there (descriptor + pull). Nothing of UCX runs on this path.
//   remote    another host, and the device can write and read remote memory by itself (RDMA): the same ring and the
//             same descriptors, by ucp_put and ucp_get. A put goes into rings and tables of the transport, never into
//             memory of the caller; a rank that wants a payload fetches it.
//   message   else: UCX active messages, where each connection has a queue of its own (tcp, rc, ud).
//
// A new path is one file here, and a line where Wiring::connect chooses.
#pragma once

#include <cstdint>

#include "collectives/core/buffers.hpp"
#include "collectives/core/protocol.hpp"
#include "ucx_layer/transport/memory/first_segment.hpp"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

// The receiver of messages that have come. accepts: false leaves the message where it is, for a later poll. deliver:
// value and list are lent for the call (retain to keep). peer: the peer by whose path it came; -1: the path can't say,
// and the header's sender counts.
struct Sink {
  void* arg;
  bool (*accepts)(void* arg, const WireHeader& header, int peer);
  void (*deliver)(void* arg, const WireHeader& header, const Message& message, int peer);
  void (*control)(void* arg, const WireHeader& header, int peer);
  void (*endpoint_failed)(void* arg, int peer, const char* why);
};

// Messages that came and make no sense: counted, the first is logged.
class Rejects {
 public:
  Rejects(int me, bool log) : me_(me), log_(log) {}
  void note(Malformed what, int peer);  // peer: -1 if it is not known

 private:
  const int me_;
  const bool log_;
  std::uint64_t count_ = 0;
};

// This rank, as its paths see it.
struct Station {
  int me;
  int ranks;
  std::uint32_t cookie;      // of the job
  std::uint32_t ring_lines;  // of each ring
  const MailboxPlaces& mailboxes;
  Sink sink;
  Buffers& buffers;
  Rejects& rejects;
};

struct Outgoing {
  WireHeader header;
  Tail tail;  // if the header says that it follows
  Slice value;
  BufferId list;
};

// Tags of buffers that are somebody else's memory (Buffers::adopt). untold: its owner looks for itself whether it is
// free. Any other one: the shared path's.
inline constexpr std::uint64_t lent_by_message_path = std::uint64_t{1} << 63, untold = ~std::uint64_t{0};

class Path {
 public:
  virtual ~Path() = default;

  // Takes references of its own to value and list, if they can't leave at once. It keeps these until the bytes have
  // left, the peer has read them, or the peer is forgotten. The buffers don't change meanwhile.
  virtual void send(int peer, const Outgoing& message) = 0;
  // Delivers what has arrived, sends what waited; true if anything was delivered or moved.
  virtual bool poll() = 0;
  // Delivers what one peer has sent so far, up to the first payload that has still to come. (To go on behind it would
  // lose a message out of the middle of what a dead peer has sent; a crash loses the end.)
  virtual void drain(int peer) = 0;
  // The peer has failed or left: drops the messages that wait for it, reads nothing more of it.
  virtual void forget(int peer) = 0;
  // Messages and calls of ours that are still on their way.
  virtual std::int64_t waiting() const = 0;
};

}  // namespace ucft::detail
