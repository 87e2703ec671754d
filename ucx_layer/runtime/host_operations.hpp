// The operations of a communicator whose ranks share memory: a HostStage, its memory, and the requests that wait for
// its results.
//
// Decisions are read in the ranks' slabs. So no rank needs one that computes, and any number may die. A dead rank is
// one that is proved dead, or has left: a suspicion waits for that.
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/host/host_lease.hpp"
#include "collectives/host/host_stage.hpp"
#include "ucx_layer/runtime/heartbeat_clock.hpp"
#include "ucx_layer/runtime/request.hpp"
#include "ucx_layer/runtime/spin.hpp"
#include "ucx_layer/test_points.hpp"
#include "ucx_layer/transport/memory/slabs.hpp"
#include "ucx_layer/transport/paths/shared.hpp"

namespace ucft::detail {

class Communicator;
class Context;

// The slabs of a communicator's ranks. They stay after its end, as long as some rank reads this one's.
class HostSlabs {
 public:
  HostSlabs(Communicator& communicator, Context& context);

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
  void store(HostPlace place, HostWord word) {
    put(place, word);
    has_stored_ |= place != HostLayout::through();  // a rank that sleeps for that may sleep a millisecond longer
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
  std::byte* at(HostPlace place) const { return own_ + place * sizeof(HostWord); }
  const std::byte* read(Rank owner, HostPlace place) const {
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
  bool is_final(Rank rank) const;  // proved dead, or it has left the job
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

  Context& context_;
  const std::uint32_t communicator_;
  const std::vector<std::int32_t> ranks_;  // context ranks
  const Rank me_;
  bool has_stored_ = false;
  std::byte* own_ = nullptr;
  std::vector<const std::byte*> slabs_;  // by rank, as far as they have been found
  std::vector<bool> left_;               // by rank: as its caller's communicator says, of an agreement's
  SharedPath::Ranks to_wake_{};
};

// The layout and the tree that the tuning table gives to a communicator's ranks.
struct HostShape {
  HostLayout layout;
  std::shared_ptr<const HostTree> tree;
};

class HostOperations {
 public:
  HostOperations(Communicator& communicator, Context& context);
  ~HostOperations();
  HostOperations(const HostOperations&) = delete;
  HostOperations& operator=(const HostOperations&) = delete;

  static HostCall call_of(const Arguments& arguments);
  void plan(Request& request);
  // See Communicator.
  HostStage::Ran run(Request& request, bool waits);
  ucft_status_t post(Request& request);
  void say_left(OperationNumber gossip_posted);
  void leave(OperationNumber gossip_posted);
  void note_left(Rank rank) { slabs_->note_left(rank); }
  bool end() { return !slabs_->is_there() || slabs_->end(); }
  bool is_out(Rank rank) { return slabs_->is_dead(rank); }
  std::optional<OperationNumber> gossip_left(Rank rank) { return slabs_->gossip_left(rank); }
  bool has_pending() const { return pending_ > 0; }
  OperationNumber posted() const { return stage_.next() + alone_; }
  bool has_slab() const { return slabs_->is_there(); }
  void exclude_self(ucft_status_t why);
  bool progress();                                    // true if something is complete
  std::vector<Rank> awaited(const Request& request);  // whom it waits for
  bool wants_progress() const { return !stage_.idle() || larges_ > 0; }

 private:
  HostOperations(Communicator& communicator, Context& context, const HostShape& shape);

  class Memory;
  class ShortMemory;
  // Memory outside the slab, which others may read.
  struct Room {
    OperationNumber number;
    BufferId block;
    bool is_large;
    Request* lender;  // null: the block is ours
  };

  void describe(const HostCall& call, OperationNumber number);
  Looks looks_in_call(bool waits) const;
  bool find_places(std::uint64_t bytes);
  bool find_room(Request& request, const HostCall& call, HostData& data, Room& room);
  [[gnu::noinline]] void widen_input(const Request& request, const HostCall& call, HostData& data);
  void complete_alone(Request& request) const;
  void free_rooms(bool looks);
  void complete(OperationNumber number);
  [[gnu::noinline]] void note_outcome(Request& request, OperationNumber number, std::uint32_t contributors);
  void name_missing(Request& request, OperationNumber number);
  void finish(Request& request);
  Room& room(std::size_t place) { return rooms_[(first_room_ + place) % rooms_.size()]; }  // 0: the oldest
  Request*& slot(OperationNumber number) { return requests_[number & mask_]; }

  Communicator& communicator_;
  Context& context_;
  const HostLayout layout_;
  std::unique_ptr<HostSlabs> slabs_;
  HeartbeatClock clock_;
  HostStage stage_;
  std::vector<Request*> requests_;  // by operation number
  const OperationNumber mask_;
  std::vector<Room> rooms_;  // a ring, oldest first; there is memory for so many operations
  std::size_t first_room_ = 0, room_count_ = 0;
  BufferId places_block_ = no_buffer;
  HostPlaces places_;
  OperationNumber alone_ = 0;  // operations of the only rank
  int pending_ = 0, larges_ = 0;
  int rounding_ = 0;              // of those that are pending: that need the default rounding
  bool readers_are_far_ = false;  // stage() has said so last: chunks are combined apart, and staged
};

}  // namespace ucft::detail
