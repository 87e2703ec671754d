#include "mpi/memory.hpp"

#include <algorithm>

namespace ucft::mpi {

namespace {

int bytes_of(MPI_Datatype type) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  return bytes;
}

// move(first, elements) of so many elements at a time as MPI counts in an int.
template <class Move>
void in_parts(int count, MPI_Datatype type, Move move) {
  constexpr int most_bytes = 1 << 30;
  const int bytes = bytes_of(type);
  if (bytes == 0) return;  // Open MPI wants memory for nothing, too
  const int most = std::max(most_bytes / bytes, 1);
  for (int first = 0; first < count; first += std::min(count - first, most)) move(first, std::min(count - first, most));
}

}  // namespace

std::uint64_t packed_bytes(int count, MPI_Datatype type) {
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(bytes_of(type));
}

void pack(const void* from, int count, MPI_Datatype type, std::byte* to) {
  in_parts(count, type, [&](int first, int elements) {
    const auto* begin = static_cast<const std::byte*>(from) + first * extent_of(type);
    int at = 0;
    PMPI_Pack(begin, elements, type, to + packed_bytes(first, type), elements * bytes_of(type), &at, MPI_COMM_SELF);
  });
}

void unpack(const std::byte* from, void* to, int count, MPI_Datatype type) {
  in_parts(count, type, [&](int first, int elements) {
    auto* begin = static_cast<std::byte*>(to) + first * extent_of(type);
    int at = 0;
    PMPI_Unpack(from + packed_bytes(first, type), elements * bytes_of(type), &at, begin, elements, type, MPI_COMM_SELF);
  });
}

Typed::Typed(int count, MPI_Datatype type) {
  MPI_Aint bytes = 0;
  PMPI_Type_get_true_extent(type, &begin_, &bytes);
  const MPI_Aint between = std::max(count - 1, 0) * extent_of(type);
  begin_ += std::min<MPI_Aint>(between, 0);
  memory_.resize(static_cast<std::size_t>(bytes + (between < 0 ? -between : between)));
}

}  // namespace ucft::mpi
