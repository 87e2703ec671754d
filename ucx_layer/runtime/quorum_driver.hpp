// Quorum allreduces of a communicator on UCX: the driver of Quorum (collectives/quorum/). That value says which ranks
// are in a result, and who sends what to whom. Here are calls, copies, the clock, and sending.
//
// A rank whose program computes answers by its helper thread, at the detector's ticks. The others don't wait for that,
// unless it leads: then the operation waits until it has handed the lead over.
//
// Memory. The value of each operation in flight, and the results that are kept: `kept` of them, in shared memory. A
// rank that finds none for its value stands aside. Where a lead finds none for the sum the operation ends with
// UCFT_ERR_NO_MEMORY on all.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "collectives/quorum/quorum.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

class Communicator;
struct Request;

class QuorumDriver {
 public:
  static constexpr OperationNumber in_flight = 4;

  explicit QuorumDriver(Communicator& communicator);
  ~QuorumDriver();

  // request: until it is complete, which it may be at once.
  ucft_status_t post(Request& request);
  void on_message(const WireHeader& header, const Message& message);
  void on_gone(Rank rank);
  bool on_turn();  // true if anything was done
  bool wants_turn() const {
    return has_pending() || value_.wants_time() || value_.is_recovering() || value_.holds_posts();
  }
  bool has_pending() const { return !requests_.empty(); }
  Rank lead() const { return value_.lead(); }
  void leave();
  void exclude_self(ucft_status_t why);
  // Those that have left without a connection to this rank have not said so. They are asked after a while.
  void ask_awaited(std::chrono::steady_clock::time_point now);

 private:
  // Letters of one rank to another are numbered, as one may overtake another on its way.
  struct Line {
    std::uint64_t sent = 0, taken = 0;
    std::map<std::uint64_t, QuorumLetter> early{};  // one reference to each body
  };

  void release_early(Line& line);
  void tell_time();
  void flush();
  bool complete(const Quorum::Completion& completion);
  void take(Request& request, Slice result);
  void end(Request& request);

  Communicator& communicator_;
  Quorum value_;
  std::vector<Line> lines_;         // by rank
  std::deque<Request*> requests_;   // that are pending, in order
  bool makes_connections_ = false;  // though this rank leaves
  std::chrono::steady_clock::time_point awaited_since_{};
};

}  // namespace ucft::detail
