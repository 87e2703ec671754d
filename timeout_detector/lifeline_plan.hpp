// The plan of lifelines: which pairs of ranks have one, as few as hosts need to hear of each other. A pure function of
// what all ranks know.
//
// Source: docs/failure_model.md, "Detection". Hosts stand on a ring, in the order of their lowest ranks. The ranks of a
// host share the powers of two below the number of hosts. Each rank watches a rank of its own place on hosts so far
// away, and is watched by those that find it so. So each rank of a host has a part of the graph of hosts, and the next
// rank has the next part. If any set of hosts is cut off from the rest, some lifelines lead out of it.
//
//   8 hosts of 4 ranks, 2 each way: the first rank of a host watches those 1 and 2 further, the second 4 and 1, then 2
//   and 4, 1 and 2
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace ucft::detail {

using LifelineEnds = std::pair<std::int32_t, std::int32_t>;  // two ranks of different hosts, the lower first

// All of a job, ascending. hosts[rank]: a number of the rank's host. reach: each rank watches so many others, on as
// many hosts (of few hosts several ranks, if they have them). It watches more where a host has fewer ranks than are
// needed for all powers of two. all_upto: where no rank has more ranks on other hosts, all of them watch each other.
// absent: by rank, those that have no lifelines; empty: none.
std::vector<LifelineEnds> lifeline_plan(const std::vector<std::uint64_t>& hosts, std::int32_t reach,
                                        std::int32_t all_upto, const std::vector<bool>& absent = {});

// The other ends of `rank`'s, ascending.
std::vector<std::int32_t> lifelines_of(const std::vector<LifelineEnds>& plan, std::int32_t rank);

}  // namespace ucft::detail
