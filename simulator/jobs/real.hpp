// The system's functions under the names that this program defines itself.
#pragma once

#include <dlfcn.h>

#include <cstdlib>

namespace ucft::jobs {

// The function of that name in the libraries behind this program.
template <class Function>
Function* function_behind(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

// The library asks for something that this program does not have: ends it, and says so.
[[noreturn]] void not_simulated(const char* function, long what);

}  // namespace ucft::jobs

// real_open and the like, in the function where it stands.
#define UCFT_REAL(name) static auto* const real_##name = ::ucft::jobs::function_behind<decltype(::name)>(#name)
