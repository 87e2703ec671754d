// Shared by the two programs without a library, bare_perftest and bare_messages_perftest.
#pragma once

#include <string>

#include "bench/arguments.hpp"
#include "collectives/reduction/reduction.hpp"

namespace ucft::detail::bench {

// "" or what they can't do: they add elements as these are.
inline std::string lacks_of_bare(const Arguments& arguments) {
  if (arguments.op != UCFT_SUM) return "sums only: -o sum";
  const bool widens = Reduction(static_cast<DataType>(arguments.dtype)).widens();
  return widens ? "not float16 and bfloat16, which are summed as float" : "";
}

}  // namespace ucft::detail::bench
