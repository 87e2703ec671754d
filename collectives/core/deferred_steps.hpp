// Steps that lead to long values, put off: a replica of a process keeps them, and takes them only if it has to speak
// (among/process_replica.hpp). So a value is named, and not computed.
//
// Steps are taken in the order in which they were made: they give the bits that they would have given at once.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/core/buffers.hpp"
#include "collectives/reduction/reduction.hpp"

namespace ucft::detail {

class DeferredSteps {
 public:
  struct Step {
    bool copies;                 // to = higher; else to = lower + higher
    Reduction reduction{};       // else
    std::uint64_t of_bytes = 0;  // the value of which this is a part
    Slice to{}, lower{}, higher{};

    void take(const Buffers& buffers) const;
  };

  // Shorter values are computed at once.
  explicit DeferredSteps(std::uint64_t from_bytes) : from_bytes_(from_bytes) {}

  // Keeps it, with a reference to each of its slices. False: it is to be taken at once.
  bool keep(const Step& step, Buffers& buffers);
  void take_all(Buffers& buffers);
  // Forgets those that lead to no block to which anybody else has a reference.
  void forget_unneeded(Buffers& buffers);
  void clear(Buffers& buffers);
  bool empty() const { return steps_.empty(); }
  // Whether steps lead to that block.
  bool lead_to(BufferId block) const;

 private:
  std::uint64_t from_bytes_;
  std::vector<Step> steps_;
};

}  // namespace ucft::detail
