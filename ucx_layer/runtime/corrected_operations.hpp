// The operations of a communicator whose ranks send each other messages. It has an OperationWindow, the requests that
// wait for its results, and the way out of its outbox.
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "collectives/among/operation_window.hpp"
#include "ucx_layer/runtime/patience.hpp"
#include "ucx_layer/runtime/published_part.hpp"
#include "ucx_layer/runtime/request.hpp"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

class Communicator;
class Context;

class CorrectedOperations {
 public:
  CorrectedOperations(Communicator& communicator, Context& context);
  ~CorrectedOperations();

  // See Communicator.
  ucft_status_t post(Request& request);
  void leave() { is_leaving_ = true; }
  bool is_through();
  bool has_said_leave() const { return window_.has_left(); }
  void on_leaves(Rank rank, OperationNumber from, bool is_gone);
  void on_let_go(Rank by) { lets_us_go_[static_cast<std::size_t>(by)] = true; }
  void on_left(Rank rank, bool was_needed);
  bool has_pending() const { return pending_ > 0; }
  OperationNumber posted() const { return window_.next(); }
  OperationNumber finished() const { return finished_; }  // all before it are
  // A number that no live rank can have reached is taken, and dropped in on_message().
  bool accepts(const WireHeader& header) const {
    return window_.acceptable(header.operation) || header.operation > window_.next() + 2 * requests_.size();
  }
  void on_message(const WireHeader& header, const Message& message);
  // How many operations that rank has posted at least, as far as it has been heard. Any thread.
  OperationNumber heard_of(Rank rank) const {
    return heard_of_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed);
  }
  const PublishedPart& published() const { return published_; }
  void note_awaited();
  void ask_awaited(Patience::Time now);
  void on_failure(Rank rank);
  void on_turn();
  bool wants_turn() const { return !copying_.empty() || window_.wants_turn(); }
  void exclude_self(ucft_status_t why);

 private:
  Slice stage(Request& request);
  Operation::Memory provide(Request& request);
  void flush();
  void collect();
  void take_completed();
  void complete(Request& request, const Operation& operation);
  bool is_needed(const Request& request) const;
  void copy_out(Request& request);
  Request*& slot(OperationNumber number) { return requests_[number & (requests_.size() - 1)]; }

  Communicator& communicator_;
  Context& context_;
  const Rank me_;
  OperationWindow window_;
  Outbox outbox_;
  std::vector<Request*> requests_;  // by operation number
  std::vector<Request*> copying_;
  std::vector<std::atomic<OperationNumber>> heard_of_;  // by rank
  PublishedPart published_;
  OperationNumber finished_ = 0;  // all before it are
  int pending_ = 0;
  bool is_leaving_ = false;
  std::vector<bool> lets_us_go_;  // by rank
  Patience patience_;
};

}  // namespace ucft::detail
