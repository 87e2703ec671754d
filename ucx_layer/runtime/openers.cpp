#include "ucx_layer/runtime/openers.hpp"

#include <algorithm>
#include <map>

namespace ucft::detail {

std::vector<std::int32_t> parts_of_hosts(const std::vector<std::uint64_t>& host_of,
                                         const std::vector<Unopened>& unopened) {
  const auto open_each_other = [&](std::int32_t a, std::int32_t b) {
    return !unopened[static_cast<std::size_t>(a)].includes(b) && !unopened[static_cast<std::size_t>(b)].includes(a);
  };
  using Part = std::vector<std::int32_t>;
  std::map<std::uint64_t, std::vector<Part>> parts;  // by host
  std::vector<std::int32_t> lowest;
  for (const std::uint64_t host : host_of) {
    const auto rank = static_cast<std::int32_t>(lowest.size());
    std::vector<Part>& here = parts[host];
    auto part = std::ranges::find_if(here, [&](const Part& each) {
      return std::ranges::all_of(each, [&](std::int32_t other) { return open_each_other(rank, other); });
    });
    if (part == here.end()) part = here.insert(part, Part{});
    part->push_back(rank);
    lowest.push_back(part->front());
  }
  return lowest;
}

}  // namespace ucft::detail
