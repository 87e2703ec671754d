// The root's choice (Küttler, Härtig, "Fault-tolerant Reduce and Allreduce operations based on correction", Algorithm
// 2). A child whose subtree is clean has, with what groups have exchanged, the sum of everything but the root's own
// group. Of f+1 subtrees f failures leave one clean.
#pragma once

#include "collectives/among/phases/up_correction.hpp"

namespace ucft::detail {

class CleanSubtree {
 public:
  enum class State : std::uint8_t { awaited, found, none };

  // Adds the first clean subtree, and the root's own group, to sum; failed: the ranks whose values that subtree lacks.
  static State choose(const UpCorrection& up, const BallotPlan& plan, Sum& sum, FailureList& failed, Buffers& buffers);
  // Notes the failures that other subtrees, and the root's group, have seen. The chosen one may have the values of
  // those.
  static void note_elsewhere(const UpCorrection& up, const BallotPlan& plan, FailureList& failed,
                             const Buffers& buffers);
};

}  // namespace ucft::detail
