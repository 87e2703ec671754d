#include "mpi/memory.hpp"

#include <algorithm>

namespace ucft::mpi {

namespace {

int bytes_of(MPI_Datatype type) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  return bytes;
}

}  // namespace

std::uint64_t packed_bytes(int count, MPI_Datatype type) {
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(bytes_of(type));
}

void pack(const void* from, int count, MPI_Datatype type, std::byte* to) {
  int at = 0;
  if (packed_bytes(count, type) == 0) return;  // Open MPI wants memory for nothing, too
  PMPI_Pack(from, count, type, to, static_cast<int>(packed_bytes(count, type)), &at, MPI_COMM_SELF);
}

void unpack(const std::byte* from, void* to, int count, MPI_Datatype type) {
  int at = 0;
  if (packed_bytes(count, type) == 0) return;
  PMPI_Unpack(from, static_cast<int>(packed_bytes(count, type)), &at, to, count, type, MPI_COMM_SELF);
}

Typed::Typed(int count, MPI_Datatype type) {
  MPI_Aint bytes = 0;
  PMPI_Type_get_true_extent(type, &begin_, &bytes);
  const MPI_Aint between = std::max(count - 1, 0) * extent_of(type);
  begin_ += std::min<MPI_Aint>(between, 0);
  memory_.resize(static_cast<std::size_t>(bytes + (between < 0 ? -between : between)));
}

}  // namespace ucft::mpi
