#include "ucx_layer/transport/paths/message.hpp"

#include <utility>

namespace ucft::detail {

bool MessagePath::poll() {
  bool active = drive();
  for (std::size_t waiting = arrivals_.size(); waiting > 0; --waiting) {
    Arrival arrival = std::move(arrivals_.front());
    arrivals_.pop_front();
    if (arrival.header.phase >= static_cast<std::uint8_t>(Control::hello)) {
      const std::int32_t sender = arrival.header.sender;
      if (sender < station_.ranks) {
        if (arrival.header.phase == static_cast<std::uint8_t>(Control::hello) && !has_greeted(sender)) {
          greeted_[static_cast<std::size_t>(sender)] = true;
          greetings_.push_back(sender);
        }
        station_.sink.control(station_.sink.arg, arrival.header, sender);
      }
    } else if (station_.sink.accepts(station_.sink.arg, arrival.header, -1)) {
      take(arrival);
    } else {
      arrivals_.push_back(std::move(arrival));
      continue;
    }
    active = true;
  }
  report();
  return active;
}

void MessagePath::take(const Arrival& arrival) {
  Message message = parse_header(arrival.header, arrival.ballots);
  message.value = station_.buffers.whole(arrival.value);
  if (!arrival.list.empty())
    message.list = station_.buffers.copy_in(arrival.list.data(), arrival.list.size() * sizeof(std::uint32_t));
  station_.sink.deliver(station_.sink.arg, arrival.header, message, -1);
  station_.buffers.release(message.value);
  station_.buffers.release(message.list);
}

void MessagePath::drop_arrivals() {
  for (const Arrival& arrival : arrivals_) station_.buffers.release(arrival.value);
  arrivals_.clear();
}

}  // namespace ucft::detail
