#include "collectives/topology/reduce_topology.hpp"

#include <algorithm>
#include <bit>

namespace ucft::detail {

namespace {
std::int32_t highest_bit(std::int32_t value) {  // value >= 1
  return static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(value)));
}
}  // namespace

ReduceTopology::ReduceTopology(std::int32_t size, std::int32_t f) : size_(size), f_(std::min(f, size - 1)) {}

bool ReduceTopology::in_short_group(std::int32_t process) const {
  if (short_group_size() == 1) return false;
  return process == 0 || (process - 1) / (f_ + 1) == complete_groups();
}

void ReduceTopology::group_members(std::int32_t process, std::vector<std::int32_t>& members) const {
  members.clear();
  const bool with_root = in_short_group(process);
  if (process == 0 && !with_root) {
    members.push_back(0);
    return;
  }
  if (with_root) members.push_back(0);
  const std::int32_t group = process == 0 ? complete_groups() : (process - 1) / (f_ + 1);
  const std::int32_t first = group * (f_ + 1) + 1;
  for (std::int32_t p = first; p <= first + f_ && p < size_; ++p) members.push_back(p);
}

std::int32_t ReduceTopology::parent(std::int32_t process) const {
  const std::int32_t group = (process - 1) / (f_ + 1);
  const std::int32_t subtree = (process - 1) % (f_ + 1);
  if (group == 0) return 0;
  return (group - highest_bit(group)) * (f_ + 1) + subtree + 1;
}

void ReduceTopology::children(std::int32_t process, std::vector<std::int32_t>& children) const {
  children.clear();
  if (process == 0) {
    for (std::int32_t p = 1; p <= f_ + 1 && p < size_; ++p) children.push_back(p);
    return;
  }
  const std::int64_t group = (process - 1) / (f_ + 1);
  const std::int64_t subtree = (process - 1) % (f_ + 1);
  for (std::int64_t bit = group == 0 ? 1 : 2 * std::int64_t{highest_bit(static_cast<std::int32_t>(group))};; bit *= 2) {
    const std::int64_t child = (group + bit) * (f_ + 1) + subtree + 1;
    if (child >= size_) break;
    children.push_back(static_cast<std::int32_t>(child));
  }
}

std::int64_t ReduceTopology::messages_without_failure() const {
  const std::int64_t f = f_, a = short_group_size();
  return f * (f + 1) * complete_groups() + a * (a - 1) + (size_ - 1);
}

}  // namespace ucft::detail
