// -a ALGORITHM of the collectives, as ucft_perftest's --help describes it.
#pragma once

#include <string>

#include "bench/arguments.hpp"

namespace ucft::detail::bench {

// Throws std::invalid_argument, which names the part that is not understood.
Options parse_algorithm(const std::string& text);

}  // namespace ucft::detail::bench
