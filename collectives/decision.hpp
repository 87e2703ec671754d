// What an operation came to, on one rank.
#pragma once

#include "collectives/protocol.hpp"

namespace ucft::detail {

struct Decision {
  Outcome outcome = Outcome::success;
  bool truncated = false;        // the list has only failure_list_limit entries
  Rank first_decided = no_rank;  // the ballot that found it
  Rank accepted = no_rank;       // the last ballot at which this rank accepted it
  Rank culprit = no_rank;        // of a mismatch, or who has no memory
  std::uint32_t contributors = 0;
  std::uint32_t failed_count = 0;
  std::uint32_t list_length = 0;
  Slice value;                // value and list: one reference each
  BufferId list = no_buffer;  // failed ranks, see contributed_bit

  // The decision that a message carries becomes this rank's. reserved: a block for its value, or no_buffer.
  void take_over(const Message& message, Rank me, BufferId& reserved, Buffers& buffers);
  // In a block of our own: what was lent must not wait for the window. Without memory this rank, and those that have it
  // from this one, get the decision without its value: its failures count all the same.
  void keep_value(Slice value, Rank me, BufferId& reserved, Buffers& buffers);
  void lack_memory(Rank culprit);
  // Into a message; the rest of it stays.
  void write(Message& message) const;
  void release(Buffers& buffers);
};

}  // namespace ucft::detail
