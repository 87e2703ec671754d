// A communicator on UCX: an OperationWindow, the requests that wait for its results, and the way out of its outbox.
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/operation_window.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/runtime/gossip_driver.hpp"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

class Communicator;
class Context;

// Where the blocks of an allgather(v) go in the caller's memory, in bytes.
struct BlockLayout {
  std::uint64_t block_bytes = 0;              // all are of that length, one after the other,
  std::vector<std::uint64_t> bytes, offsets;  // or: by rank

  std::uint64_t bytes_of(Rank rank) const {
    return bytes.empty() ? block_bytes : bytes[static_cast<std::size_t>(rank)];
  }
  std::uint64_t offset_of(Rank rank) const {
    return offsets.empty() ? block_bytes * static_cast<std::uint64_t>(rank) : offsets[static_cast<std::size_t>(rank)];
  }
};

// What a caller holds from init to free. Each post makes an operation of it.
struct Request {
  enum class State : std::uint8_t { idle, active, copying, complete, taken };

  Communicator* communicator = nullptr;
  Arguments arguments;
  const void* send = nullptr;
  void* receive = nullptr;
  BlockLayout layout;  // allgather

  State state = State::idle;
  OperationNumber number = 0;
  BufferId lent_input = no_buffer;  // the caller's own memory that peers may be reading
  Slice value;                      // State::copying: the result, until lent_input is free
  ucft_status_t status = UCFT_OK;
  std::uint32_t contributors = 0, attempts = 0;
  std::int32_t missing_count = -1;
  bool missing_known = false;
  std::vector<std::int32_t> missing;
  std::int32_t culprit = -1;              // of a mismatch
  std::unique_ptr<GossipRequest> gossip;  // a gossip all-reduce: `arguments` don't count

  bool pending() const { return state == State::active || state == State::copying; }
};

class Communicator {
 public:
  Communicator(Context& context, std::uint32_t id, std::vector<std::int32_t> ranks);
  ~Communicator();

  std::uint32_t id() const { return id_; }
  std::int32_t rank() const { return me_; }
  std::int32_t size() const { return static_cast<std::int32_t>(ranks_.size()); }
  std::int32_t context_rank(std::int32_t rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  std::int32_t rank_of(std::int32_t context_rank) const;  // -1: not in here
  const std::vector<std::int32_t>& ranks() const { return ranks_; }
  Context& context() { return context_; }
  const BroadcastShape& fastest_shape(std::uint64_t bytes);  // by the cost model

  // UCFT_OK, UCFT_ERR_BUSY; UCFT_ERR_EXCLUDED or UCFT_ERR_PARTITION. Where memory lacks the operation goes on, and ends with
  // UCFT_ERR_NO_MEMORY on all.
  ucft_status_t post(Request& request);
  // The last barrier, with which a communicator ends. False: not possible yet, progress and try again.
  bool post_farewell();
  bool farewell_done() const { return farewell_posted_ && window_.idle(); }
  bool has_pending() const { return pending_ > 0 || (gossip_ != nullptr && gossip_->active() > 0); }
  GossipDriver& gossip();  // made when first needed
  bool has_gossip() const { return gossip_ != nullptr; }
  // A message of a gossip operation.
  void send_aside(const GossipMessage& message, BufferId value);

  // From the context.
  // False: too early, wait. A number that no live rank can have reached is taken, and dropped in on_message().
  bool accepts(const WireHeader& header) const {
    return window_.acceptable(header.operation) || header.operation > window_.next() + 2 * requests_.size() ||
           header.phase == static_cast<std::uint8_t>(gossip_phase);
  }
  void on_message(const WireHeader& header, const Message& message);
  void on_failure(std::int32_t context_rank);
  void on_gone(std::int32_t context_rank);  // it has destroyed its part: the last barrier has been decided
  bool on_turn();                           // true if anything was done that a waiting caller should not sleep over
  bool wants_turn() const { return has_more_ || window_.wants_turn(); }
  void exclude_self(ucft_status_t why);  // completes everything with that

 private:
  std::uint64_t shape_bytes_ = UINT64_MAX;  // that shape_ is the fastest for
  BroadcastShape shape_;

  Slice stage(Request& request);
  Operation::Memory provide(Request& request);
  void flush();
  void collect();
  void complete(Request& request, const Operation& operation);
  void copy_out(Request& request);
  void place_blocks(Request& request, std::span<const std::byte> blocks);
  Request*& slot(OperationNumber number) { return requests_[number & (requests_.size() - 1)]; }

  Context& context_;
  std::uint32_t id_;
  std::vector<std::int32_t> ranks_;    // communicator rank -> context rank
  std::vector<std::int32_t> inverse_;  // empty: identity
  std::int32_t me_ = 0;
  OperationWindow window_;
  Outbox outbox_;
  std::vector<Request*> requests_;  // by operation number
  std::vector<Request*> copying_;
  std::unique_ptr<GossipDriver> gossip_;
  bool has_more_ = false;  // one of these two may have something to do
  int pending_ = 0;
  bool farewell_posted_ = false;
};

}  // namespace ucft::detail
