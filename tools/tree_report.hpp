// ucft_info --tree: where the ranks of one host would run, and the tree in which they would combine.
#pragma once

#include <string>

#include "ucx_layer/bootstrap/machine.hpp"

namespace ucft::detail {

struct TreeQuestion {
  int ranks = 0;
  std::string bind = "none";  // a name of a Bind
  int degree = 8;
};

// Lines, or one line of JSON. Empty: `error` says why.
std::string tree_report(const Machine& machine, const TreeQuestion& question, bool json, std::string& error);

}  // namespace ucft::detail
