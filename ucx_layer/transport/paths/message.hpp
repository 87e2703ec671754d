// The message path, to peers whose memory can't be reached. Messages that came wait here until they are taken. Long
// data are taken at once, if they may be. The carriers are below: active_messages.hpp (UCX), fake.hpp (tests).
#pragma once

#include <deque>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ucx_layer/transport/paths/path.hpp"

namespace ucft::detail {

class MessagePath : public Path {
 public:
  explicit MessagePath(const Station& station)
      : station_(station), greeted_(static_cast<std::size_t>(station.ranks), false) {}

  // Wire-up, in this order; false, or an empty address, with a reason.
  virtual bool open(std::string& error) = 0;
  virtual std::vector<std::byte> address(std::string& error) = 0;
  virtual bool connect(int peer, std::span<const std::byte> address, std::string& error) = 0;
  bool has_greeted(int peer) const { return greeted_[static_cast<std::size_t>(peer)]; }
  std::vector<int> take_greetings() { return std::exchange(greetings_, {}); }  // first ones, since the last call
  virtual bool is_lost(int peer) const = 0;                                    // its connection

  bool poll() final;
  void drain(int) final {}  // what a peer has sent so far, nobody knows
  // Readable when something may have come; arm() first. -1: there is no such thing.
  virtual int event_fd() { return -1; }
  virtual bool arm() { return true; }  // true: a sleep on event_fd is safe
  // Drops the messages that have not been taken.
  void drop_arrivals();
  // A value that was lent (Arrival::value's buffer had this tag) is not used any more.
  virtual void give_back(std::uint64_t tag) = 0;
  // A message is delivered in the middle of drive(): nothing may be asked of the carrier.
  bool is_busy() const { return is_busy_; }

 protected:
  struct Arrival {
    WireHeader header;
    Tail tail{};
    std::vector<std::uint32_t> list;
    BufferId value = no_buffer;
  };
  // Lets messages arrive: calls arrived() for each. True if anything moved.
  virtual bool drive() = 0;
  // Failures of connections go to the sink.
  virtual void report() = 0;
  void arrived(Arrival&& arrival) { arrivals_.push_back(std::move(arrival)); }
  // The same of long data that are there for the call alone. They are delivered at once if they may be, and copied if
  // that is not all. True: they were delivered. Without memory for a copy the message is lost.
  bool pass_by(Arrival&& arrival, std::span<const std::byte> value);

  const Station station_;

 private:
  void take(const Arrival& arrival);

  bool is_driving_ = false, is_busy_ = false;
  std::exception_ptr thrown_;  // by a delivery in passing
  std::deque<Arrival> arrivals_;
  std::vector<bool> greeted_;  // by rank
  std::vector<int> greetings_;
};

}  // namespace ucft::detail
