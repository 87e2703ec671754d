// The processors that a process may run on. Those of a host's ranks are compared, to find the ranks that have to share.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace ucft::detail {

struct Processors {
  static constexpr std::size_t bits =
      256;  // processors with the same remainder count as one; travels as it is in memory
  std::array<std::uint64_t, bits / 64> set{};
  std::int32_t count = 0;  // all of them; 0: unknown
  std::int32_t reserved = 0;

  static Processors of(const std::vector<int>& cpus) {
    Processors all;
    all.count = static_cast<std::int32_t>(cpus.size());
    for (const int cpu : cpus) {
      const std::size_t bit = static_cast<std::size_t>(cpu) % bits;
      all.set[bit / 64] |= std::uint64_t{1} << bit % 64;
    }
    return all;
  }
  bool is_shared_with(const Processors& other) const {
    if (count == 0 || other.count == 0) return true;
    for (std::size_t i = 0; i < set.size(); ++i)
      if ((set[i] & other.set[i]) != 0) return true;
    return false;
  }
};

// Of this process, by its affinity.
Processors own_processors();

}  // namespace ucft::detail
