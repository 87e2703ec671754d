// MPI's predefined types and operators as ucft knows them. They are found in a table in a few nanoseconds. The rest
// (derived types, users' operators) isn't in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mpi/world.hpp"

namespace ucft::mpi {

// Which operators MPI allows on a type. (A subset of what ucft would do: what MPI refuses is MPI's to refuse.)
enum class Family : std::uint8_t { none, integer, real, complex, logical, byte, located };

struct Element {
  std::uint32_t bytes = 0;  // from one to the next
  Family family = Family::none;
  bool plain = false;      // no gaps: its memory is its value
  bool has_dtype = false;  // ucft reduces it itself
  ucft_dtype_t dtype = UCFT_UINT8;
};

struct Operation {
  ucft_op_t op = UCFT_SUM;
  std::array<bool, 7> takes{};  // by Family
};

// Bytes from one element to the next, of any type.
MPI_Aint extent_of(MPI_Datatype type);
// Once, before any find.
void make_tables();
// nullptr: a derived type, or one that few programs know.
const Element* find_element(MPI_Datatype type);
// nullptr: a user's, or one that no collective takes (MPI_REPLACE).
const Operation* find_operation(MPI_Op op);

}  // namespace ucft::mpi
