// Sends and receives of a communicator on UCX: the driver of PointToPoint (collectives/point_to_point/). That value
// says which message a receive gets, and what a death means. Here are calls, copies, and sending.
//
// A letter's data are copied into a block of the transport's. An eager message is complete once the transport has no
// use for its block any more. So nothing is lost on a host if its sender leaves, or dies, behind it. Of long ones a few
// pieces are on their way at a time, so a slow receiver makes no memory grow.
//
// Memory. Messages and pieces of up to Buffers::private_limit bytes can always be sent. Longer ones need shared memory;
// where there is none they are sent as pieces that are so short.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "collectives/point_to_point/point_to_point.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

class Communicator;
struct PointToPointCall;

class PointToPointDriver {
 public:
  explicit PointToPointDriver(Communicator& communicator);
  ~PointToPointDriver();

  // call: until it is complete, which it may be at once.
  void post(PointToPointCall& call);
  bool cancel(PointToPointCall& call);  // see PointToPoint
  void on_message(const WireHeader& header, const Message& message);
  void on_gone(Rank rank, bool has_left);
  bool on_turn();  // true if anything was done
  void exclude_self(ucft_status_t why);
  bool is_gone(Rank rank) const { return value_.is_gone(rank); }
  bool has_pending() const { return !pending_.empty(); }
  // In words: "recv from 3, tag 7", a rank of the job.
  static std::string describe(const PointToPointCall& call);
  // A rank that has left without a connection to this one has not said so. Those that are awaited for long are asked.
  void ask_awaited(std::chrono::steady_clock::time_point now);

 private:
  static constexpr std::ptrdiff_t pieces_in_flight = 4;    // to each rank
  static constexpr std::uint64_t piece_bytes = 60 * 1024;  // as Optimism has them

  // On its way, or waiting for room there: an eager message, or a piece.
  struct Leaving {
    BufferId block;
    Rank to;
    PointToPointCall* call;
    bool is_last;  // of the call's
  };

  void note_pending(PointToPointCall& call);
  void flush();
  void send(const Letter& letter);
  void hand_over(const Letter& letter, Slice value);
  bool note_left();
  void send_pieces();
  void complete();
  void end(PointToPointCall& call, ucft_status_t status, Rank other, std::uint64_t received);

  Communicator& communicator_;
  PointToPoint value_;
  std::vector<PointToPointCall*> pending_;
  BufferId next_block_ = no_buffer;  // of the eager message that is sent now, if it is a longer one
  std::vector<Leaving> leaving_;
  std::chrono::steady_clock::time_point awaited_since_{};
};

}  // namespace ucft::detail
