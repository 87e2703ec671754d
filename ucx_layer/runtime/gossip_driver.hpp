// Gossip all-reduces of a communicator on UCX: the driver of GossipOperation (collectives/gossip/gossip_operation.hpp).
// The protocol is there; here are requests, agreements, RMA windows and their names, buffers, the clock, and sending.
//
// An agreement is an ordinary allreduce (it survives failures). Its communicator belongs to the place, number mod
// in_flight, of the operation among those in flight. One gossip operation at a time uses that communicator: number s is
// posted where s - in_flight is complete, and that is only after its last agreement. The number of agreements that an
// operation needs follows from results that all share. So all ranks post the same allreduces there in the same order,
// even if the callers post other operations between. The communicator's number is derived from the caller's
// communicator: no message is needed to make it. (Callers' numbers stay below 2^28.)
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "collectives/gossip/gossip_message.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/transport/communicator_id.hpp"

namespace ucft::detail {

class Communicator;
struct Request;

// One operation in flight, for float or double.
class GossipWork {
 public:
  virtual ~GossipWork() = default;
  virtual bool on_turn() = 0;  // true if anything was done
  virtual void on_message(const GossipMessage& message, std::span<const std::byte> value) = 0;
  virtual void on_failure(Rank rank) = 0;
  virtual double estimate(void* values) = 0;  // the error to be expected; infinite: nothing is known yet
  virtual std::uint32_t contributors() const = 0;
  virtual void finish(ucft_status_t status) = 0;
  virtual bool finished() const = 0;
};

class GossipDriver {
 public:
  static constexpr int in_flight = 4;
  static_assert(in_flight < communicator_id::on_host);

  explicit GossipDriver(Communicator& communicator) : communicator_(communicator) {}

  ucft_status_t post(Request& request);  // UCFT_OK, UCFT_ERR_BUSY
  // value: what it carries, if anything; valid during the call.
  void on_message(const GossipMessage& message, std::span<const std::byte> value);
  void on_failure(Rank rank);
  bool on_turn();
  void exclude_self(ucft_status_t why);
  int active() const { return active_; }
  OperationNumber posted() const { return next_; }
  bool has_finished_before(OperationNumber number) const;
  double estimate(const Request& request, void* values);
  std::uint32_t contributors(const Request& request) const;

  Communicator& agreements(int place);
  std::vector<Communicator*> agreements() const;  // that exist
  std::vector<Communicator*> take_agreements();   // the same, before they end: nothing is posted any more

 private:
  // A message for an operation that this rank has yet to post. Bounded: a neighbour that waits for it says little
  // more than that it has come; by rounds a row for each round in which this rank is next.
  struct Early {
    GossipMessage message;
    std::vector<std::byte> value;
  };
  void count();

  Communicator& communicator_;
  std::array<Communicator*, in_flight> agreements_{};
  std::array<std::unique_ptr<GossipWork>, in_flight> works_;  // by number; kept when finished, until the next one
  std::vector<Early> early_;
  OperationNumber next_ = 0;
  std::vector<Rank> failed_;
  int active_ = 0;
};

}  // namespace ucft::detail
