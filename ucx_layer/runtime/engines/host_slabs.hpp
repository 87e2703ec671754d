// The slabs of ranks that share memory, one a rank, for a communicator's operations (HostEngine) or a host's log
// (HostJournal). They stay after its end, as long as some rank reads this one's.
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/on_host/host_lease.hpp"
#include "ucx_layer/test_points.hpp"
#include "ucx_layer/transport/transport.hpp"

namespace ucft::detail {

class HostSlabs {
 public:
  // ranks: of the context, by rank here; me: this one's place among them.
  HostSlabs(std::uint32_t id, std::vector<std::int32_t> ranks, Rank me, Transport& transport);

  // False: there is no memory for this rank's own, so it can take no part, and must stand aside.
  bool is_there() const { return own_ != nullptr; }

  HostWord load(Rank owner, HostPlace place) {
    const std::byte* const slab = slab_of(owner);
    return slab == nullptr ? 0 : word(slab, place).load(std::memory_order_acquire);
  }
  bool has(Rank owner, HostPlace first, HostWord one, HostWord other) {
    const std::byte* const slab = slab_of(owner);
    return slab != nullptr && word(slab, first).load(std::memory_order_acquire) == one &&
           word(slab, first + 1).load(std::memory_order_acquire) == other;
  }
  // A rank that sleeps for `through` or `needs` may sleep a millisecond longer.
  void store(HostPlace place, HostWord word) {
    put(place, word);
    has_stored_ |= place != HostLayout::through() && place != HostLayout::needs();
  }
  // The same, where wake_others() follows in any case.
  void put(HostPlace place, HostWord word) {
    UCFT_TEST_POINT(send);
    describe(place, word);
  }
  // A word that no rank of the communicator reads.
  void describe(HostPlace place, HostWord word) {
    reinterpret_cast<std::atomic<HostWord>*>(at(place))->store(word, std::memory_order_release);
  }
  std::byte* write_to(HostPlace place) {
    UCFT_TEST_POINT(send);
    return at(place);
  }
  void write(HostPlace place, const std::byte* data, std::uint64_t bytes) { std::memcpy(write_to(place), data, bytes); }
  std::byte* at(HostPlace place) const { return own_ + place * sizeof(HostWord); }
  const std::byte* read(Rank owner, HostPlace place, std::uint64_t = 0) const {
    return slabs_[static_cast<std::size_t>(owner)] + place * sizeof(HostWord);
  }
  HostPlace place_of(const std::byte* memory) const {  // a multiple of 8 bytes away from the slab
    return static_cast<HostPlace>((reinterpret_cast<std::intptr_t>(memory) - reinterpret_cast<std::intptr_t>(own_)) /
                                  static_cast<std::intptr_t>(sizeof(HostWord)));
  }
  bool is_dead(Rank rank) {
    return rank != me_ &&
           (is_final(rank) || load(rank, HostLayout::left()) != 0 || left_[static_cast<std::size_t>(rank)]);
  }

  // Wakes the ranks that wait for words that were stored since.
  void wake() {
    if (std::exchange(has_stored_, false) && ranks_.size() > 1) wake_others();
  }
  void wake_others();

  // This rank posts nothing any more; and it reads nothing any more.
  void say_left(OperationNumber gossip_posted);
  void close();
  // It stores nothing any more.
  void note_death(Rank rank) { final_[static_cast<std::size_t>(rank)] = true; }
  bool is_final(Rank rank) const { return final_[static_cast<std::size_t>(rank)]; }
  void note_left(Rank rank) {
    left_[static_cast<std::size_t>(rank)] = true;
  }  // it has posted nothing that this rank has not finished
  // How many gossip operations a rank has posted that has left.
  std::optional<OperationNumber> gossip_left(Rank rank);
  HostLease lease(Rank rank) const;
  // True: no rank reads this one's slab any more, and the slab is given back. The room of its operations stays until
  // then, too.
  bool end();

 private:
  static const std::atomic<HostWord>& word(const std::byte* slab, HostPlace place) {
    return *reinterpret_cast<const std::atomic<HostWord>*>(slab + place * sizeof(HostWord));
  }
  const std::byte* slab_of(Rank owner) {  // null: there is none yet
    const std::byte* const slab = slabs_[static_cast<std::size_t>(owner)];
    return slab != nullptr ? slab : find(owner);
  }
  [[gnu::cold, gnu::noinline]] const std::byte* find(Rank owner);
  bool may_yet_open(std::uint32_t communicator, Rank rank) const;

  Transport& transport_;
  const std::uint32_t communicator_;
  const std::vector<std::int32_t> ranks_;  // context ranks
  const Rank me_;
  bool has_stored_ = false;
  std::byte* own_ = nullptr;
  std::vector<const std::byte*> slabs_;  // by rank, as far as they have been found
  std::vector<bool> final_;              // by rank
  std::vector<bool> left_;               // by rank: as its caller's communicator says, of an agreement's
  SharedPath::Ranks to_wake_{};
};

}  // namespace ucft::detail
