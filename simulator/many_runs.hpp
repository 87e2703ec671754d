// Many runs of one command: on several threads, with a bar on the terminal when they take long.
#pragma once

#include <functional>
#include <vector>

namespace ucft::detail::simulator {

// Tells the part of a run that is done, 0 .. 1.
using RunProgress = std::function<void(double part)>;

// How many runs at a time: 0 means one per core.
int threads_for(int asked);

// Calls run(0) .. run(runs - 1), each once, on up to so many threads. An exception of a run is thrown here. Runs have a
// seed and a place for their result of their own: the number of threads changes nothing.
void for_each_run(int runs, int threads, bool quiet,
                  const std::function<void(int number, const RunProgress& progress)>& run);

double median_of(std::vector<double> values);  // of one or more

}  // namespace ucft::detail::simulator
