// A message of MPI as bytes: in place where its memory is its value, else packed into memory of its own. So another
// rank may describe the same message by another type.
#pragma once

#include <cstddef>
#include <vector>

#include "mpi/datatypes.hpp"

namespace ucft::mpi {

// Bytes of count elements without their gaps: the same on all ranks that mean the same message.
std::uint64_t packed_bytes(int count, MPI_Datatype type);
void pack(const void* from, int count, MPI_Datatype type, std::byte* to);
void unpack(const std::byte* from, void* to, int count, MPI_Datatype type);
// Can be used as bytes where it is.
inline bool is_plain(MPI_Datatype type) {
  const Element* element = find_element(type);
  return element != nullptr && element->plain;
}

// Memory for count elements of any type, as MPI lays them out.
class Typed {
 public:
  Typed(int count, MPI_Datatype type);
  void* get() { return memory_.data() - begin_; }

 private:
  std::vector<std::byte> memory_;
  std::ptrdiff_t begin_ = 0;
};

}  // namespace ucft::mpi
