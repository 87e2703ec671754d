#include "ucx_layer/transport/memory/segments.hpp"

#include <algorithm>

namespace ucft::detail {

bool Segments::open(std::uint64_t range_bytes, std::uint64_t least_bytes, std::uint64_t first_bytes,
                    std::string& error) {
  return range_.open(range_bytes, least_bytes, error) &&
         range_.take(first_bytes, SharedRange::Use::internal, first_, error);
}

bool Segments::take(std::size_t bytes, SharedRange::Use use, std::vector<Segment>& list) {
  Segment fresh;
  std::string error;
  if (!range_.take(bytes, use, fresh, error)) return false;
  list.push_back(fresh);
  return true;
}

std::byte* Segments::chunk(std::size_t bytes) {
  return take(bytes, SharedRange::Use::internal, chunks_) ? chunks_.back().data() : nullptr;
}

std::byte* Segments::lend(std::size_t bytes) {
  return take(bytes, SharedRange::Use::lent, lent_) ? lent_.back().data() : nullptr;
}

const Segment* Segments::lent_at(const void* memory) const {
  const auto found =
      std::find_if(lent_.begin(), lent_.end(), [&](const Segment& each) { return each.data() == memory; });
  return found == lent_.end() ? nullptr : &*found;
}

bool Segments::is_lent(const void* memory, std::size_t bytes) const {
  return std::any_of(lent_.begin(), lent_.end(), [&](const Segment& each) { return each.contains(memory, bytes); });
}

void Segments::take_back(const Segment& lent) {
  range_.give_back(lent);
  lent_.erase(lent_.begin() + (&lent - lent_.data()));
}

// Peers map whole segments, and devices register them: so few, each as large as all before it.
std::byte* Segments::carve(std::size_t bytes) {
  constexpr std::size_t smallest = 1 << 18, line = 64;
  bytes = (bytes + line - 1) / line * line;
  if (carved_.empty() || carved_.back().name().bytes - carved_bytes_ < bytes) {
    std::size_t all = smallest;
    for (const Segment& each : carved_) all += each.name().bytes;
    if (!take(std::max(bytes, all), SharedRange::Use::internal, carved_) &&
        !take(bytes, SharedRange::Use::internal, carved_))
      return nullptr;
    carved_bytes_ = 0;
  }
  std::byte* data = carved_.back().data() + carved_bytes_;
  carved_bytes_ += bytes;
  return data;
}

const Segment* Segments::payload_segment(const void* memory, std::size_t bytes) const {
  for (const std::vector<Segment>* segments : {&chunks_, &lent_})
    for (std::size_t i = segments->size(); i-- > 0;)
      if ((*segments)[i].contains(memory, bytes)) return &(*segments)[i];
  return nullptr;
}

const Segment* Segments::carved_segment(const std::byte* memory) const {
  for (const Segment& each : carved_)
    if (each.contains(memory, 1)) return &each;
  return nullptr;
}

}  // namespace ucft::detail
