// Gossip all-reduces of a communicator on UCX: the driver of collectives/gossip.
//
//   meet      an agreement: who takes part, do all ask for the same, how large are the data. From here on everybody has
//             posted the operation, so no message of it ever comes before its operation: what does is dropped
//   gossip    asynchronous: a number of iterations, each a push to a live neighbour chosen by chance;
//             by rounds: each round waits for its one message.
//             A push is a message or, one-sided, a write into a window of the neighbour's (ucx_layer/transport/memory/window.hpp). What a
//             window shows is the state of the link as its writer sees it: so nothing is lost if it is only read later
//   settle    asynchronous: on each link both ends say their last word, and how many messages they have sent. When all
//             have come nothing is on its way, and mass is conserved
//   agree     an agreement on the largest and the smallest estimate of each value. With all weights positive and mass
//             conserved the aggregate lies between them; the result is the middle, the same bits on every survivor
//
// Then it is over, or (not accurate enough, UCFT_GOSSIP_ADAPTIVE) goes on with another stage, or (a rank died that had not
// been agreed to be dead when the stage began) goes on without that rank: flows are cleared and the stage repeated;
// algorithms without flows begin again from their inputs, so that what was on its way to the dead rank is not missing.
//
// The topology is that of the members: who was agreed to live when the operation last began (again), by their places in that
// list. A death that cuts it is one more reason to begin again. Who the members are, and whether they are cut, follows from
// agreements alone, so all do the same; messages and names of windows carry how often their sender has begun again.
//
// An agreement is an ordinary allreduce (it survives failures) on a communicator that belongs to the place, number mod
// in_flight, of the operation in the window. That communicator is used by one gossip operation at a time: number s is posted
// where s - in_flight is complete, which it is only after its last agreement; and how many agreements an operation needs
// follows from results that all share. So all ranks post the same allreduces there in the same order, whatever else the
// callers post. Its number is derived from the caller's communicator: no message is needed to make it. (Callers' numbers
// stay below 2^28.)
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/gossip/gossip.hpp"
#include "collectives/protocol.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/runtime/gossip_faults.hpp"

namespace ucft::detail {

class Communicator;
struct Request;

// What a request asks for; but for `outcome` the same on all ranks.
struct GossipCall {
  GossipPlan plan;               // tau 0: chosen in the first agreement
  double eps = 0;
  bool adaptive = false, sum = false;
  ucft_gossip_path_t path = UCFT_GOSSIP_PATH_AUTO;
  bool is_float = false;
  std::uint64_t count = 0;
  int iterations = 0;            // of the first stage; by rounds: its rounds

  struct Outcome {
    double error_bound = 0;
    bool reached = false;
    std::uint64_t iterations = 0, messages = 0;   // of this rank
    std::uint32_t stages = 0, live = 0, contributors = 0;
    ucft_gossip_answer_t answer = UCFT_GOSSIP_ALL_RANKS;
    ucft_gossip_path_t path = UCFT_GOSSIP_PATH_MESSAGE;
    GossipFaultInjector::Counts injected;         // at this rank
  } outcome{};

  // All that ranks must have in common, in 48 bits: exact as a double.
  std::uint64_t signature() const;
};

// One operation in flight, for float or double.
class GossipWork {
 public:
  virtual ~GossipWork() = default;
  virtual bool on_turn() = 0;                          // true if anything was done
  virtual void on_message(const Message& message) = 0;
  virtual void on_failure(Rank rank) = 0;
  virtual double estimate(void* values) = 0;           // the error to be expected; infinite: nothing is known yet
  virtual void finish(ucft_status_t status) = 0;
  virtual bool finished() const = 0;
};

class GossipWindow {
 public:
  static constexpr int in_flight = 4;
  // Where the number of a communicator for agreements says which place of which communicator it belongs to.
  static constexpr int place_shift = 28;
  static constexpr std::uint32_t place_bits = 7u << place_shift;
  static_assert(in_flight < 8);

  explicit GossipWindow(Communicator& communicator) : communicator_(communicator) {}

  ucft_status_t post(Request& request);   // UCFT_OK, UCFT_ERR_BUSY
  void on_message(const Message& message);
  void on_failure(Rank rank);
  bool on_turn();
  void exclude_self(ucft_status_t why);
  int active() const { return active_; }
  double estimate(const Request& request, void* values);

  Communicator& agreements(int place);
  std::vector<Communicator*> agreements() const;   // that exist

 private:
  void count();

  Communicator& communicator_;
  std::array<Communicator*, in_flight> agreements_{};
  std::array<std::unique_ptr<GossipWork>, in_flight> works_;   // by number; kept when finished, until the next one
  OperationNumber next_ = 0;
  std::vector<Rank> failed_;
  int active_ = 0;
};

}  // namespace ucft::detail
