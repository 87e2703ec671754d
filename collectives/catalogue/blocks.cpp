#include "collectives/catalogue/blocks.hpp"

#include <algorithm>
#include <cstring>

namespace ucft::detail {

std::uint64_t Blocks::input_bytes(const Arguments& arguments) {
  return record_bytes(arguments.own_count * element_bytes(arguments.reduction.type()));
}

std::uint64_t Blocks::result_bytes(const Arguments& arguments, std::int32_t ranks) {
  return arguments.bytes() + static_cast<std::uint64_t>(std::max(ranks, arguments.blocks)) * (sizeof(Record) + 7);
}

bool Blocks::add(const Arguments& arguments, Slice& sum, bool& fresh, const Slice& part, std::int32_t ranks,
                 Buffers& buffers) {
  if (!fresh) {
    const Slice whole{buffers.allocate(std::max<std::uint64_t>(result_bytes(arguments, ranks), sum.bytes)), 0,
                      sum.bytes};
    if (!whole) return false;
    buffers.copy(whole, sum);
    sum = whole;
    fresh = true;
  }
  // No rank is in two of them, so they fit. From a rank that gives more than was agreed nothing is taken. Then the set
  // lacks a block that was counted, which its reader sees.
  const std::uint64_t room = buffers.bytes(sum.buffer) - sum.bytes;
  if (part.bytes > room) return true;
  buffers.copy(sum.part(sum.bytes, part.bytes), part);
  sum.bytes += part.bytes;
  return true;
}

void Blocks::pack(const Arguments& arguments, Rank me, const void* block, std::byte* input) {
  const std::uint64_t bytes = arguments.own_count * element_bytes(arguments.reduction.type());
  const Record record{static_cast<std::uint64_t>(me), bytes};
  std::memcpy(input, &record, sizeof record);
  if (bytes > 0) std::memcpy(input + sizeof record, block, bytes);
  std::memset(input + sizeof record + bytes, 0, input_bytes(arguments) - sizeof record - bytes);
}

bool Blocks::for_each(std::span<const std::byte> set,
                      const std::function<void(Rank, std::span<const std::byte>)>& use) {
  while (!set.empty()) {
    Record record;
    if (set.size() < sizeof record) return false;
    std::memcpy(&record, set.data(), sizeof record);
    if (record_bytes(record.bytes) > set.size()) return false;
    use(static_cast<Rank>(record.rank), set.subspan(sizeof record, record.bytes));
    set = set.subspan(record_bytes(record.bytes));
  }
  return true;
}

}  // namespace ucft::detail
