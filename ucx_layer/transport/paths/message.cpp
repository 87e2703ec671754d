#include "ucx_layer/transport/paths/message.hpp"

#include <exception>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

bool MessagePath::poll() {
  is_driving_ = true;
  bool active = drive();
  is_driving_ = false;
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
  for (std::size_t waiting = arrivals_.size(); waiting > 0; --waiting) {
    Arrival arrival = std::move(arrivals_.front());
    arrivals_.pop_front();
    if (arrival.header.is_control()) {
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
      UCFT_SOMETIMES("a message waits until it is accepted");
      arrivals_.push_back(std::move(arrival));
      continue;
    }
    active = true;
  }
  report();
  return active;
}

void MessagePath::take(const Arrival& arrival) {
  Message message = parse_header(arrival.header, arrival.tail);
  message.value = station_.buffers.whole(arrival.value);
  if (!arrival.list.empty())
    message.list = station_.buffers.copy_in(arrival.list.data(), arrival.list.size() * sizeof(std::uint32_t));
  station_.sink.deliver(station_.sink.arg, arrival.header, message, -1);
  station_.buffers.release(message.value);
  station_.buffers.release(message.list);
}

// An older message that waits may be of the same sender.
bool MessagePath::pass_by(Arrival&& arrival, std::span<const std::byte> value) {
  Buffers& buffers = station_.buffers;
  const BufferId room = buffers.allocate_anywhere(value.size());
  if (room == no_buffer) return false;
  const BufferId lent = arrival.value = buffers.adopt(value.data(), value.size(), untold);
  buffers.retain(lent);
  is_busy_ = true;
  const bool is_taken = is_driving_ && arrivals_.empty() && !arrival.header.is_control() &&
                        station_.sink.accepts(station_.sink.arg, arrival.header, -1);
  try {
    if (is_taken && UCFT_SOMETIMES("a long value is taken in passing"))
      take(arrival);
    else
      arrivals_.push_back(std::move(arrival));
  } catch (...) {  // not through the carrier's frames
    thrown_ = std::current_exception();
  }
  is_busy_ = false;
  if (buffers.references(lent) > 1)
    buffers.move_to(room, lent);
  else
    buffers.release(room);
  buffers.release(lent);
  return is_taken;
}

void MessagePath::drop_arrivals() {
  for (const Arrival& arrival : arrivals_) station_.buffers.release(arrival.value);
  arrivals_.clear();
}

}  // namespace ucft::detail
