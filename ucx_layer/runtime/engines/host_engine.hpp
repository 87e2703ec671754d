// The operations of ranks that share memory, all of a communicator's or those on this host: a HostStage, its memory,
// and the requests that wait for its results.
//
// Decisions are read in the ranks' slabs. So no rank needs one that computes, and any number may die. A dead rank is
// one that is proved dead, or has left: a suspicion waits for that.
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/on_host/host_stage.hpp"
#include "ucx_layer/runtime/heartbeat_clock.hpp"
#include "ucx_layer/runtime/engines/engine.hpp"
#include "ucx_layer/runtime/engines/host_slabs.hpp"
#include "ucx_layer/runtime/engines/share_rounds.hpp"
#include "ucx_layer/runtime/spin.hpp"

namespace ucft::detail {

class Context;

// The layout and the tree that the tuning table gives to a communicator's ranks.
struct HostShape {
  HostLayout layout;
  std::shared_ptr<const HostTree> tree;
};

class HostEngine : public Engine {
 public:
  // ranks: of the context; me: this one's place among them.
  HostEngine(std::uint32_t id, const std::vector<std::int32_t>& ranks, Rank me, Context& context);
  ~HostEngine() override;
  HostEngine(const HostEngine&) = delete;
  HostEngine& operator=(const HostEngine&) = delete;

  static HostCall call_of(const Request& request);
  // It is driven by another engine, and not by the context.
  void make_part() { is_part_ = true; }
  bool listens() const override { return false; }
  void plan(Request& request) override;
  void plan(Request& request, const HostCall& call);
  // See Communicator.
  HostStage::Ran run(Request& request, bool waits);
  ucft_status_t post(Request& request) override;
  void say_left(OperationNumber gossip_posted);
  void leave(OperationNumber gossip_posted) override;
  void on_death(Rank rank) override { slabs_->note_death(rank); }
  void note_left(Rank rank) override { slabs_->note_left(rank); }
  bool end() override { return !slabs_->is_there() || slabs_->end(); }
  // All other ranks are proved dead, or have left.
  bool is_last();
  std::optional<OperationNumber> gossip_left(Rank rank) { return slabs_->gossip_left(rank); }
  bool has_pending() const override { return pending_ > 0; }
  OperationNumber posted() const override { return stage_.next() + alone_; }
  bool has_slab() const override { return slabs_->is_there(); }
  void exclude_self(ucft_status_t why) override;
  bool progress();                                    // true if something is complete
  std::vector<Rank> awaited(const Request& request);  // whom it waits for
  bool wants_progress() const { return !stage_.idle() || larges_ > 0; }

 private:
  HostEngine(std::uint32_t id, const std::vector<std::int32_t>& ranks, Rank me, Context& context,
             const HostShape& shape);

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
  bool reads_alone(const Request& request, const HostCall& call) const;
  bool find_room(Request& request, const HostCall& call, HostData& data, Room& room);
  bool lay_out(Request& request, HostData& data);
  bool begin_rounds(Request& request, HostData& data);
  HostData lay_out_round();
  void keep_room(const Room& given);
  void give(Request& request, const HostData& data);
  [[gnu::noinline]] void widen_input(const Request& request, const HostCall& call, HostData& data);
  void stage_shares_of_others(const Request& request, const HostCall& call, HostData& data);
  void free_rooms(bool looks);
  void complete(OperationNumber number);
  [[gnu::noinline]] void note_outcome(Request& request, OperationNumber number, std::uint32_t contributors);
  void name_missing(Request& request, OperationNumber number);
  bool has_given(Rank rank, OperationNumber number) const {
    return slabs_->load(rank, layout_.value(number)) >= host_stamp(number);
  }
  bool have_called_rooted(OperationNumber number) const;
  void finish(Request& request);
  Room& room(std::size_t place) { return rooms_[(first_room_ + place) % rooms_.size()]; }  // 0: the oldest
  Request*& slot(OperationNumber number) { return requests_[number & mask_]; }

  Context& context_;
  const Rank me_, size_;
  const HostLayout layout_;
  std::unique_ptr<HostSlabs> slabs_;
  HeartbeatClock clock_;
  HostStage stage_;
  std::vector<Request*> requests_;  // by operation number
  const OperationNumber mask_;
  std::vector<Room> rooms_;  // a ring, oldest first; there is memory for so many operations
  std::size_t first_room_ = 0, room_count_ = 0;
  ShareRounds rounds_;
  BufferId places_block_ = no_buffer;
  HostPlaces places_;
  OperationNumber alone_ = 0;  // operations of the only rank
  int pending_ = 0, larges_ = 0;
  int rounding_ = 0;  // of those that are pending: that need the default rounding
  bool is_part_ = false;
  bool readers_are_far_ = false;  // stage() has said so last: chunks are combined apart, and staged
};

}  // namespace ucft::detail
