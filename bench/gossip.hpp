// ucft_perftest -t gossip: time of gossip all-reduces, per operation and per iteration, each result against the truth.
#pragma once

#include "bench/arguments.hpp"

namespace ucft::detail::bench {

// So that ucft_run does not take the death of this rank that is about to come for a failure of the job.
void tell_launcher(std::int32_t rank);

// All rows. 0, or 1 if a result was wrong: further off than its own bound.
int run_gossip(Communicator& world, const Arguments& arguments);

}  // namespace ucft::detail::bench
