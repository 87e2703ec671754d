// A rank's part in a communicator, published for observers from outside: a place in its control page
// (PostedByMessages), and whom it waits for. It is for communicators whose operations are not read in its memory alone.
#pragma once

#include <mutex>
#include <vector>

#include "collectives/catalogue/arguments.hpp"
#include "ucx_layer/runtime/heartbeat_clock.hpp"
#include "ucx_layer/transport/memory/first_segment.hpp"

namespace ucft::detail {

class PublishedPart {
 public:
  PublishedPart(std::uint32_t communicator, Rank rank, Rank ranks, ControlPage& control);
  ~PublishedPart();
  PublishedPart(const PublishedPart&) = delete;
  PublishedPart& operator=(const PublishedPart&) = delete;

  void note_posted(const Arguments& arguments, Operator op, OperationNumber number);
  void note_finished(OperationNumber all_before);
  // Whose messages the oldest operation that is not finished needs next. Communicator ranks.
  void note_awaited(std::vector<Rank> awaited);
  // As it was when that was noted last, if it is still the same operation, else nothing. Any thread.
  std::vector<Rank> awaited() const;

 private:
  PostedByMessages* place_;  // null: there is no room for it
  const Rank me_;
  HeartbeatClock clock_;
  std::atomic<OperationNumber> finished_ = 0;
  mutable std::mutex awaited_mutex_;
  std::vector<Rank> awaited_;  // guarded, as the next one
  OperationNumber awaited_by_ = 0;
};

}  // namespace ucft::detail
