// Finds the program before any rank starts, as a shell would.
#pragma once

#include <string>

namespace ucft::detail::run {

struct ProgramSearch {
  std::string path;   // empty: see error
  std::string error;  // names the program
  int exit_code = 0;  // 126 or 127
};

ProgramSearch find_program(const std::string& name);

}  // namespace ucft::detail::run
