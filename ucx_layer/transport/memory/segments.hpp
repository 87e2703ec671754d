// Memory of this rank that its peers map or reach: one range, in segments. Nothing of UCX here.
#pragma once

#include <string>
#include <vector>

#include "ucx_layer/transport/memory/shared_memory.hpp"

namespace ucft::detail {

class Segments {
 public:
  // At most range_bytes in all; the first segment of first_bytes; without least_bytes it would be of no use. False with
  // a reason.
  bool open(std::uint64_t range_bytes, std::uint64_t least_bytes, std::uint64_t first_bytes, std::string& error);
  void close() { range_.close(); }
  const RangeName& range() const { return range_.name(); }
  const Segment& first() const { return first_; }

  // For blocks of buffers, for as long as the job lasts; nullptr: there is none left.
  std::byte* chunk(std::size_t bytes);
  // For the caller, until it is taken back.
  std::byte* lend(std::size_t bytes);
  const Segment* lent_at(const void* memory) const;  // that begins there
  bool is_lent(const void* memory, std::size_t bytes) const;
  void take_back(const Segment& lent);
  bool has_lent() const { return !lent_.empty(); }
  // For RMA windows and slabs, for as long as the job lasts. Whole cache lines.
  std::byte* carve(std::size_t bytes);

  // nullptr: it is in no chunk and in nothing lent.
  const Segment* payload_segment(const void* memory, std::size_t bytes) const;
  const Segment* carved_segment(const std::byte* memory) const;

 private:
  bool take(std::size_t bytes, SharedRange::Use use, std::vector<Segment>& list);

  SharedRange range_;
  Segment first_;
  std::vector<Segment> chunks_, lent_, carved_;
  std::size_t carved_bytes_ = 0;  // of the last one
};

}  // namespace ucft::detail
