// MPI's handles as numbers, for tables: they are pointers (Open MPI) or integers (MPICH).
#pragma once

#include <cstdint>
#include <type_traits>

namespace ucft::mpi {

template <class Handle>
std::uint64_t number_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<std::uintptr_t>(handle);
  else
    return static_cast<std::uint64_t>(handle);
}

}  // namespace ucft::mpi
