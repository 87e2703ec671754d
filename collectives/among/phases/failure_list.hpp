// Failure information (Küttler, Härtig, section 4.4): the ranks that are known to have failed, each with whether its
// value is in the sum all the same (contributed_bit). A list that travels has at most failure_list_limit entries.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/core/protocol.hpp"

namespace ucft::detail {

class FailureList {
 public:
  // Nothing, if the rank is in the list already: what was noted first counts.
  void note(Rank rank, bool contributed);
  // The list of a message, of ranks that are not in here yet.
  void append(const Message& message, const Buffers& buffers);
  // A contribution's list: ranks of a living host whose values it lacks.
  void note_missing(const Message& contribution, const Buffers& buffers);
  // The entries of a message's list that are not in here yet, as ranks whose values may be in the sum.
  void note_elsewhere(const Message& message, const Buffers& buffers);

  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  // The list is not complete any more. Either a list that it took in was not complete, or it is too long, or there was
  // no memory for it.
  bool truncated() const { return truncated_; }
  // The list as it travels, with one reference, and its length there.
  BufferId store(Buffers& buffers, std::uint32_t& length) {
    length = 0;
    return entries_.empty() ? no_buffer : store_some(buffers, length);
  }

 private:
  void note_entry(std::uint32_t entry);
  BufferId store_some(Buffers& buffers, std::uint32_t& length);

  std::vector<std::uint32_t> entries_;
  bool truncated_ = false;
};

}  // namespace ucft::detail
