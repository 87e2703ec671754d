#include "collectives/among/phases/failure_list.hpp"

#include <algorithm>
#include <span>

namespace ucft::detail {

namespace {

std::span<const std::uint32_t> entries_of(const Message& message, const Buffers& buffers) {
  if (message.list_length == 0) return {};
  return {reinterpret_cast<const std::uint32_t*>(buffers.data(message.list)), message.list_length};
}

}  // namespace

void FailureList::note(Rank rank, bool contributed) {
  note_entry(static_cast<std::uint32_t>(rank) | (contributed ? contributed_bit : 0));
}

void FailureList::note_entry(std::uint32_t entry) {
  const auto same = [&](std::uint32_t noted) { return ((noted ^ entry) & ~contributed_bit) == 0; };
  if (std::none_of(entries_.begin(), entries_.end(), same)) entries_.push_back(entry);
}

void FailureList::note_missing(const Message& contribution, const Buffers& buffers) {
  if (contribution.has(is_decided)) return;
  for (std::uint32_t entry : entries_of(contribution, buffers)) note_entry(entry);
  truncated_ |= contribution.has(list_truncated);
}

void FailureList::append(const Message& message, const Buffers& buffers) {
  const std::span<const std::uint32_t> entries = entries_of(message, buffers);
  entries_.insert(entries_.end(), entries.begin(), entries.end());
  truncated_ |= message.has(list_truncated);
}

void FailureList::note_elsewhere(const Message& message, const Buffers& buffers) {
  for (std::uint32_t entry : entries_of(message, buffers))
    note_entry((entry & of_living_host) != 0 ? entry : entry | contributed_bit);
}

BufferId FailureList::store_some(Buffers& buffers, std::uint32_t& length) {
  length = std::min(size(), failure_list_limit);
  truncated_ |= size() > failure_list_limit;
  const BufferId stored = buffers.copy_in(entries_.data(), length * sizeof(std::uint32_t));
  if (stored == no_buffer) length = 0, truncated_ = true;  // no memory, not even of the heap
  return stored;
}

}  // namespace ucft::detail
