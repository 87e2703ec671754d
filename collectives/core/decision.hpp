// The decision of one operation on one rank: its outcome, its value and its failures.
#pragma once

#include "collectives/core/protocol.hpp"

namespace ucft::detail {

struct Decision {
  Outcome outcome = Outcome::success;
  bool truncated = false;        // the list has only failure_list_limit entries
  Rank first_decided = no_rank;  // the ballot that found it
  Rank accepted = no_rank;       // the last ballot at which this rank accepted it
  Rank culprit = no_rank;        // of a mismatch, or the rank without memory
  std::uint32_t contributors = 0;
  std::uint32_t failed_count = 0;
  std::uint32_t list_length = 0;
  Slice value;                // value and list: one reference each
  BufferId list = no_buffer;  // failed ranks, see contributed_bit

  // The decision that a message carries becomes this rank's. reserved: a block for its value, or no_buffer.
  void take_over(const Message& message, Rank me, BufferId& reserved, Buffers& buffers);
  // In a block of our own: what was lent must not wait for the operation window. Without memory this rank, and those
  // that have it from this one, get the decision without its value: its failures count all the same.
  void keep_value(Slice given, Rank me, BufferId& reserved, Buffers& buffers) {
    if (given) keep(given, me, reserved, buffers);
  }
  void lack_memory(Rank culprit);
  // Into a message; the rest of it stays.
  void write(Message& message) const {
    message.first_decided = first_decided;
    message.outcome = outcome;
    message.contributors = has_culprit(outcome) ? static_cast<std::uint32_t>(culprit + 1) : contributors;
    message.failed_count = failed_count;
    message.list_length = list_length;
    message.value = value;
    message.list = list;
    message.flags =
        static_cast<std::uint8_t>((outcome == Outcome::success ? has_value : 0) | (truncated ? list_truncated : 0));
  }
  void release(Buffers& buffers);

 private:
  void keep(Slice given, Rank me, BufferId& reserved, Buffers& buffers);
};

}  // namespace ucft::detail
