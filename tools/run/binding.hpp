// The cpus on which each rank runs, decided before any rank starts.
#pragma once

#include <string>
#include <vector>

#include "ucx_layer/bootstrap/machine.hpp"

namespace ucft::detail::run {

struct Binding {
  std::vector<std::vector<int>> cpus;  // of each rank; none: it is not bound
  std::string error;                   // empty: none
  int exit_code = 0;                   // 2 or 125
};

Binding find_binding(Bind bind, int rank_count);

}  // namespace ucft::detail::run
