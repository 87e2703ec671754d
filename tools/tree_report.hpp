// ucft_info --tree: the places where the ranks of one host would run, and the tree in which they would combine.
#pragma once

#include <string>

#include "collectives/on_host/host_tuning.hpp"
#include "ucx_layer/bootstrap/machine.hpp"

namespace ucft::detail {

struct TreeQuestion {
  int ranks = 0;
  std::string bind = "none";  // a name of a Bind
  int degree = -1;            // 0: flat; -1: by the tuning table
};

// Lines, or one line of JSON. Empty: `error` says why.
std::string tree_report(const Machine& machine, TreeQuestion question, const HostTuning& tuning, bool json,
                        std::string& error);

}  // namespace ucft::detail
