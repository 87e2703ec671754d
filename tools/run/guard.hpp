// Two processes that watch each other: if either is killed, the other one leaves nothing of the job behind.
//
//   guard (the process that the user started)      subreaper
//     supervisor (forked; starts and serves the ranks)   subreaper, renamed "ucft_supervisor"
//       ranks, each the leader of its own process group, killed by the kernel if the supervisor ends
//         whatever they start: sessions and double forks do not leave the tree, as orphans fall to a subreaper
//
//  - The supervisor ends: the guard inherits its descendants and kills them.
//  - The guard ends: the supervisor sees the end of a pipe that only the guard holds, and kills its descendants.
//  - Both are killed at the same instant: the ranks still die with the supervisor; what they had started in the
//    background may stay. The other name is there so that one `pkill -9 ucft_run` does not hit both.
#pragma once

#include <csignal>
#include <functional>

namespace ucft::detail::run {

struct SupervisorContext {
  bool input_is_typed = false;  // our stdin is a terminal
  int input = -1;               // for rank 0: our stdin, or a pipe by which the guard hands on what a terminal has
  int guard_pipe = -1;          // at its end when the guard has ended
  sigset_t handled_signals{};   // blocked; for signalfd. Those that ucft_run was told to ignore are not among them
  sigset_t original_mask{};     // for the ranks
};

// Runs `supervise` in the supervisor; returns its result, as the guard's exit code. argv is overwritten in the
// supervisor: copy the words that you need.
int run_guarded(int argument_count, char** argument_values,
                const std::function<int(const SupervisorContext&)>& supervise);

}  // namespace ucft::detail::run
