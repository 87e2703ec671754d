// A message path for tests: between transports of one process, through a network that the test holds in its hands.
#pragma once

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>
#include <vector>

#include "ucx_layer/transport/paths/message.hpp"

namespace ucft::detail {

class FakeMessages;

// Messages are under way until the test lets them arrive, in any order, or loses them. Outlives the transports.
class FakeNetwork {
 public:
  struct Flight {
    int from, to;
    WireHeader header;
    Tail tail;
    std::vector<std::uint32_t> list;
    std::vector<std::byte> value;
  };
  std::vector<Flight> flights;
  std::vector<std::pair<int, int>> forgotten;  // by whom, and whom
  bool passes_by = false;                      // values that arrive are there until they are delivered, and not longer

  void arrive(std::size_t index);
  void arrive_all() {
    while (!flights.empty()) arrive(0);
  }
  void lose(std::size_t index) { flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(index)); }
  // From now on nothing travels between them, in either direction; `rank` learns it as UCX would tell it.
  void cut(int rank, int peer);

 private:
  friend class FakeMessages;
  std::map<int, FakeMessages*> ranks_;
};

class FakeMessages final : public MessagePath {
 public:
  // Every value that arrives is lent, as UCX lends it, until it is given back.
  FakeMessages(const Station& station, FakeNetwork& network) : MessagePath(station), network_(network) {
    network_.ranks_[station_.me] = this;
  }
  ~FakeMessages() override { network_.ranks_.erase(station_.me); }

  bool open(std::string&) override { return true; }
  std::vector<std::byte> address(std::string&) override { return std::vector<std::byte>(1, std::byte{1}); }
  bool connect(int peer, std::span<const std::byte> address, std::string& error) override {
    connected_[peer] = true;
    if (address.empty()) error = "no address";
    return !address.empty();
  }
  bool is_lost(int peer) const override { return lost_.count(peer) > 0; }
  void send(int peer, const Outgoing& message) override {
    assert(!is_busy());
    if (!connected_[peer] || is_lost(peer)) return;
    FakeNetwork::Flight flight{station_.me, peer, message.header, message.tail, {}, {}};
    flight.header.value_bytes = static_cast<std::uint32_t>(message.value.bytes);
    const auto* list = reinterpret_cast<const std::uint32_t*>(station_.buffers.data(message.list));
    if (message.header.list_length() > 0) flight.list.assign(list, list + message.header.list_length());
    const std::byte* value = station_.buffers.data(message.value);
    if (message.value.bytes > 0) flight.value.assign(value, value + message.value.bytes);
    network_.flights.push_back(std::move(flight));
  }
  void forget(int peer) override {
    assert(!is_busy());
    connected_[peer] = false;
    network_.forgotten.emplace_back(station_.me, peer);
  }
  std::int64_t waiting() const override { return 0; }
  void give_back(std::uint64_t tag) override { lent_.erase(tag); }

 private:
  friend class FakeNetwork;
  bool drive() override {
    for (FakeNetwork::Flight& flight : std::exchange(passing_, {})) {
      Arrival arrival{flight.header, flight.tail, std::move(flight.list), no_buffer};
      if (flight.value.empty()) {
        arrived(std::move(arrival));
        continue;
      }
      pass_by(std::move(arrival), flight.value);
      std::ranges::fill(flight.value, std::byte{0xee});
    }
    return false;
  }
  void report() override {
    for (int peer : std::exchange(cut_, {})) station_.sink.endpoint_failed(station_.sink.arg, peer, "cut by the test");
  }
  void take_in(FakeNetwork::Flight&& flight) {
    if (examine(flight.header, station_.cookie, body_bytes(flight.header), UINT32_MAX) != Malformed::no)
      return station_.rejects.note(Malformed::length, flight.from);
    if (network_.passes_by) return passing_.push_back(std::move(flight));
    Arrival arrival{flight.header, flight.tail, std::move(flight.list), no_buffer};
    if (!flight.value.empty()) {
      const std::uint64_t tag = lent_by_message_path | ++tags_;
      std::vector<std::byte>& memory = lent_[tag] = std::move(flight.value);
      arrival.value = station_.buffers.adopt(memory.data(), memory.size(), tag);
    }
    arrived(std::move(arrival));
  }

  FakeNetwork& network_;
  std::map<int, bool> connected_, lost_;
  std::vector<int> cut_;
  std::map<std::uint64_t, std::vector<std::byte>> lent_;  // by tag
  std::uint64_t tags_ = 0;
  std::vector<FakeNetwork::Flight> passing_;  // to arrive in drive()
};

inline void FakeNetwork::arrive(std::size_t index) {
  Flight flight = std::move(flights[index]);
  lose(index);
  const auto to = ranks_.find(flight.to);
  if (to != ranks_.end() && !to->second->is_lost(flight.from)) to->second->take_in(std::move(flight));
}

inline void FakeNetwork::cut(int rank, int peer) {
  for (const auto& [one, other] : {std::pair{rank, peer}, std::pair{peer, rank}})
    if (const auto found = ranks_.find(one); found != ranks_.end()) found->second->lost_[other] = true;
  if (const auto found = ranks_.find(rank); found != ranks_.end()) found->second->cut_.push_back(peer);
}

}  // namespace ucft::detail
