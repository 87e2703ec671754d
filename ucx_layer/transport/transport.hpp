// Sends and receives wire messages between the ranks of a job, over the paths that have been made (wiring.hpp). Has the
// memory that they share.
//
// send() keeps a reference to value and list until the bytes have left; the buffers don't change meanwhile. A delivered
// value is a buffer with one reference; its memory may be the peer's until we let go. Messages that wait for a peer are
// dropped when it fails.
//
// Threads: one at a time.
#pragma once

#include <functional>

#include "collectives/core/protocol.hpp"
#include "ucx_layer/test_points.hpp"
#include "ucx_layer/transport/wiring.hpp"

namespace ucft::detail {

class Transport : public Wiring {
 public:
  using Wiring::Wiring;
  ~Transport();

  Buffers& buffers() { return buffers_; }
  // A message for a collective; value and list get references of their own.
  void send(int peer, const Message& message, const WireStamp& stamp) {
    send(peer, {compose_header(message, stamp), tail_of(message), message.value, message.list});
  }
  // A row of gossip.
  void send(int peer, const GossipMessage& message, Slice value, const WireStamp& stamp) {
    send(peer, {compose_header(message, stamp), {}, value, no_buffer});
  }
  // Of sends and receives.
  void send(int peer, const Letter& letter, Slice value, const WireStamp& stamp) {
    send(peer, {compose_header(letter, stamp), {}, value, no_buffer});
  }
  // Of quorum allreduces.
  void send(int peer, const QuorumLetter& letter, std::uint64_t number, const WireStamp& stamp) {
    send(peer, {compose_header(letter, number, stamp), {}, letter.body, no_buffer});
  }
  void ring_doorbells() { shared_.ring_doorbells(); }  // after a burst of sends: wakes receivers that sleep
  // Delivers all that has arrived; true if anything was done. listens: UCX is asked, too, which takes a while.
  bool poll(bool listens = true);
  void poll_shared() {  // of these only what ranks of this host have sent
    if (shared_.poll()) give_back();
  }
  // Memory of others that this rank has let go of, outside of poll(): its owners may wait for that.
  void give_back();
  void drain(int peer);   // see Path
  void publish_credit();  // before sleeping: gives all credit back
  // Failed or left. is_ending: its process has ended, or closes its connections itself.
  void forget(int peer, bool is_ending = false);
  // Forgets all peers that are reached by messages. Messages on their way to them end, and memory that was lent for
  // these is not read any more.
  void cut_messages();
  bool is_forgotten(int peer) const { return paths_[static_cast<std::size_t>(peer)] == nullptr; }
  // Says to other hosts, and to peers that share no memory with us, that this rank leaves. Or that it is out: some may
  // not have heard so yet, and would take it for one that has done its part. Waits until that and all that was sent
  // before has arrived, for at most 3 s. A lost packet of a reliable connection is sent again after about 1 s, so twice
  // in that time. Waits only for peers that may_live.
  void say_goodbye(bool is_out, bool all_know, const std::function<bool(int peer)>& may_live);

  int event_fd() { return messages_->event_fd(); }  // readable when the message path may have something; arm() first
  bool arm() { return messages_->arm(); }

  ControlPage* control_of(int peer) const { return shared_.control_of(peer); }  // nullptr: memory is not shared

  // Memory of a peer's, where we share it; nullptr: there is none.
  const std::byte* memory_of(int peer, std::uint64_t address, std::uint64_t bytes) const {
    return shared_.memory_of(peer, address, bytes);
  }

  // Memory of the caller that peers can map.
  std::byte* allocate_shared(std::size_t bytes) { return segments_.lend(bytes); }
  bool free_shared(void* memory);
  bool has_lent_memory() const { return segments_.has_lent(); }
  bool is_shared(const void* memory, std::size_t bytes) const { return segments_.is_lent(memory, bytes); }
  bool has_only_messages() const { return only_messages_; }  // all peers are reached by them
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
  void send(int peer, const Outgoing& message) {
    if (!postpones(peer)) UCFT_TEST_POINT(send);
    hand_over(peer, message);
  }

  Slabs slabs_{segments_};
};

}  // namespace ucft::detail
