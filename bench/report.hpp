// One row of output: for people, in the manner of osu_* and ucx_perftest, or as a line of JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/arguments.hpp"
#include "bench/tally.hpp"

namespace ucft::detail::bench {

struct Row {
  const char* library = "ucft";
  int rank_count = 0;
  int f = 0;
  std::size_t bytes = 0;
  std::vector<std::int32_t> failed;  // since the start of the job, ascending
};

// '#' lines above the first row; "" with --json.
std::string header_of(const Arguments& arguments, const Row& row);
// Ends in a newline. `tally` is merged over the ranks.
std::string line_of(const Arguments& arguments, const Row& row, const Tally& tally);

}  // namespace ucft::detail::bench
