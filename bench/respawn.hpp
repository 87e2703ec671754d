// ucft_perftest -t allreduce --kill R@T --respawn N: what a death costs where a new process takes the dead rank's seat.
//
// One of N cycles, on all ranks: T iterations; the ranks that --kill names kill themselves; the others go on, and renew
// their communicator after each iteration, until all seats are taken again; then iterations up to -n. A newcomer gets
// the state of the loop by share_state, and goes on with the rest of the cycle.
#pragma once

#include "bench/arguments.hpp"

namespace ucft::detail::bench {

bool takes_newcomers(const Context& context);  // the job was started so

// 0, or 1 if a result was wrong. The lowest rank prints.
int run_respawns(Communicator& world, const Arguments& arguments, int f);

}  // namespace ucft::detail::bench
