// The shared path: rings in each other's memory, and payloads that are read where they are.
#pragma once

#include "ucx_layer/transport/memory/shared_memory.hpp"
#include "ucx_layer/transport/paths/rings.hpp"

namespace ucft::detail {

// Whether the transports that the user allows (UCX_TLS) include shared memory.
bool shared_memory_allowed();

struct SharedLink : RingLink {
  MappedRange mapped;
  ControlPage* control = nullptr;
  std::atomic<std::uint32_t>* pulled_there = nullptr;  // [pull_tickets], the peer's: we have read that generation
  int views = 0;                                       // payloads of its memory that we hold
  bool touched = false;
};

class SharedPath final : public RingPath<SharedPath, SharedLink> {
 public:
  // sleeper_fences: all ranks of this host have registered for membarrier.
  SharedPath(const Station& station, Segments& segments, bool sleeper_fences)
      : RingPath(station, segments),
        sleeper_fences_(sleeper_fences),
        words_of_sleepers_(
            std::min<std::size_t>((static_cast<std::size_t>(station.ranks) + 63) / 64, ControlPage::sleeper_words)) {}

  // False with a reason that names the peer.
  bool connect(int peer, const RangeName& range, std::string& error);
  bool poll() override;
  void forget(int peer) override { forget_link(link_of(peer)); }
  // Of all peers: nothing of theirs may be used any more.
  void unmap();

  ControlPage* control_of(int peer) const { return has(peer) ? link_of(peer).control : nullptr; }
  // Memory of a peer's; nullptr: it has no such.
  std::byte* memory_of(int peer, std::uint64_t address, std::uint64_t bytes) const;
  // Something was written for the peer: it may sleep.
  void touch(int peer) { wrote(peer, link_of(peer)); }
  // After a burst of writes: wakes receivers that sleep.
  void ring_doorbells();
  // The slab that the peer has for that communicator.
  SlabView slab_of(int peer, std::uint32_t communicator, std::size_t bytes) const;
  // One bit for each rank, as in ControlPage::sleepers.
  using Ranks = std::array<std::uint64_t, ControlPage::sleeper_words>;
  static void include(int rank, Ranks& ranks) {
    ranks[static_cast<std::size_t>(rank) / 64 % ranks.size()] |= std::uint64_t{1} << rank % 64;
  }
  // Something was written that some of them may wait for: wakes those that sleep.
  void wake(const Ranks& ranks) {
    if (sleeper_fences_)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::size_t word = 0; word < words_of_sleepers_; ++word)
      if (const std::uint64_t found = sleepers()[word].load(std::memory_order_relaxed) & ranks[word]; found != 0)
        wake_sleepers(word, found);
  }
  // This rank is about to sleep, or has slept; or that one is dead.
  void note_sleep(int rank, bool sleeps);
  // A payload's buffer is gone: its owner may use the memory again. tag: of the buffer.
  void give_back(std::uint64_t tag);

 private:
  friend RingPath<SharedPath, SharedLink>;
  bool has_room(SharedLink&, std::uint32_t) { return true; }
  void wrote(int peer, SharedLink& link);
  void read(int, SharedLink&) {}
  bool is_fetching(const SharedLink&) { return false; }
  bool key_of(const Segment&, std::span<const std::byte>&) { return true; }
  void send_otherwise(int, const Outgoing&) {}
  bool take_payload(int peer, SharedLink& link, const WireHeader& header);
  Slice map_payload(int peer, SharedLink& link);

  void wake_up(SharedLink& link);
  [[gnu::cold, gnu::noinline]] void wake_sleepers(std::size_t word, std::uint64_t bits);
  std::atomic<std::uint64_t>* sleepers() const { return sleepers_ != nullptr ? sleepers_ : own_sleepers(); }
  std::atomic<std::uint64_t>* own_sleepers() const { return FirstSegment::control_in(here())->sleepers; }

  const bool sleeper_fences_;
  const std::size_t words_of_sleepers_;
  std::atomic<std::uint64_t>* sleepers_ = nullptr;  // of the host's first rank; null: that is this one
  std::vector<int> touched_;
};

}  // namespace ucft::detail
