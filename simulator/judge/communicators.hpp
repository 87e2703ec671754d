// Which ranks were in which communicator, and the calls that belong together, as their histories show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simulator/judge/history.hpp"

namespace ucft::judge {

// One collective of a communicator: the n-th call of each of its ranks.
struct Instance {
  std::size_t number = 0;
  std::vector<const Call*> calls;  // of each rank of the communicator; nullptr: it did not post it, or is not known

  const Call* any() const {
    for (const Call* each : calls)
      if (each != nullptr) return each;
    return nullptr;
  }
};

struct Communicator {
  std::string name;
  std::vector<std::int32_t> members;  // the rank in the job; -1: it died before it wrote that it was in
  bool reads_memory = false;          // all members read each other's memory
  std::vector<Instance> collectives;
  std::vector<Instance> quorums, gossips;  // ordered among themselves
  std::int32_t size() const { return static_cast<std::int32_t>(members.size()); }
};

// By name; "all" is among them. survived: of each rank, that it came to its end, was never out, and nothing befell it.
std::map<std::string, Communicator> communicators_of(const std::vector<RankHistory>& job,
                                                     const std::vector<bool>& survived);

}  // namespace ucft::judge
