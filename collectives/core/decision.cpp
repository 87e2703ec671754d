#include "collectives/core/decision.hpp"

#include <utility>

namespace ucft::detail {

void Decision::take_over(const Message& message, Rank me, BufferId& reserved, Buffers& buffers) {
  *this = Decision{};
  outcome = message.outcome;
  truncated = message.has(list_truncated);
  first_decided = message.first_decided;
  if (has_culprit(message.outcome))
    culprit = message.culprit();
  else
    contributors = message.contributors;
  failed_count = message.failed_count;
  list_length = message.list_length;
  list = message.list;
  buffers.retain(list);
  keep_value(message.value, me, reserved, buffers);
}

void Decision::keep(Slice given, Rank me, BufferId& reserved, Buffers& buffers) {
  if (reserved != no_buffer && buffers.is_adopted(given.buffer) && given.bytes <= buffers.bytes(reserved)) {
    value = {std::exchange(reserved, no_buffer), 0, given.bytes};
    buffers.copy(value, given);
  } else {
    value = buffers.localize(given);
  }
  if (!value) lack_memory(me);
}

void Decision::lack_memory(Rank who) {
  outcome = Outcome::no_memory;
  culprit = who;
  contributors = 0;
}

void Decision::release(Buffers& buffers) {
  buffers.release(value);
  buffers.release(list);
  *this = Decision{};
}

}  // namespace ucft::detail
