#include "ucx_layer/runtime/engines/journal_payloads.hpp"

#include <algorithm>

#include "collectives/on_host/host_slab.hpp"
#include "ucx_layer/transport/paths/path.hpp"

namespace ucft::detail {

JournalPayloads::~JournalPayloads() {
  for (const Payloads* each : {&borrowed_, &lent_})
    for (const Payload& payload : *each) buffers_.release(payload.block);
}

// Blocks of more than Buffers::private_limit are in memory that all have mapped, unless they are adopted.
bool JournalPayloads::lies_where_all_read(const Slice& of, std::span<const std::byte> data) const {
  return of.buffer != no_buffer && !buffers_.is_adopted(of.buffer) &&
         buffers_.bytes(of.buffer) > Buffers::private_limit &&
         reinterpret_cast<std::uintptr_t>(data.data()) % sizeof(HostWord) == 0;
}

Slice JournalPayloads::allocate(std::uint64_t bytes) {
  return {buffers_.allocate(std::max(bytes, Buffers::private_limit + 1)), 0, bytes};
}

void JournalPayloads::take_back(std::uint64_t before) {
  for (; !lent_.empty() && lent_.front().position < before; lent_.pop_front()) buffers_.release(lent_.front().block);
}

Slice JournalPayloads::borrow(std::uint64_t position, const std::byte* data, std::uint64_t bytes) {
  const Slice payload = buffers_.whole(buffers_.adopt(data, bytes, untold));
  borrowed_.push_back({position, payload.buffer});
  return payload;
}

std::uint64_t JournalPayloads::give_back(std::uint64_t before) {
  while (!borrowed_.empty() && borrowed_.front().position < before &&
         buffers_.references(borrowed_.front().block) == 1) {
    buffers_.release(borrowed_.front().block);
    borrowed_.pop_front();
  }
  return borrowed_.empty() ? before : borrowed_.front().position;
}

}  // namespace ucft::detail
