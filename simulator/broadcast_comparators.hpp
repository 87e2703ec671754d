// Fault-tolerant broadcasts that corrected gossip is compared with, under the same clock, with values. Root: rank 0.
//
//   buntinas   Buntinas, "Scalable distributed consensus to support MPI fault tolerance" (IPDPS '12): no tree is agreed
//              on. A message hands its receiver an interval of ranks; the receiver sends to the middle of it, with the
//              ranks above, then to the middle of those below, and so on. It leaves out ranks that it knows to be dead.
//              A rank with none left below it answers upward, so the root learns that all have it: 2 log2 n deep. If
//              the detector names a child before its answer, its interval is handed out anew; ranks that have the value
//              already take part again. A dead root: no rank goes on for it
//   big        binomial graph (Angskun, Bosilca, Dongarra, ISPA '07): rank r sends to r + 2^j and hears r - 2^j, as
//              Hoefler et al. have it: log2 n neighbours. big_both_ways: to r - 2^j, too. A rank that gets the value
//              for the first time sends it to all its neighbours but the one it is from, the farthest first. No
//              detector: a live rank gets the value if live ranks connect it to the root
#pragma once

#include "simulator/comparators.hpp"

namespace ucft::detail::simulator {

CollectiveResult simulate_buntinas(const ComparatorRun& run, Tracer* tracer);
CollectiveResult simulate_big(const ComparatorRun& run, Tracer* tracer);

}  // namespace ucft::detail::simulator
