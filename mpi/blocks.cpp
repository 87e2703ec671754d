#include "mpi/blocks.hpp"

#include "mpi/datatypes.hpp"

namespace ucft::mpi {

namespace {

// A type that lives for as long as this one is not freed. Predefined ones live anyway.
MPI_Datatype kept(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL || find_element(type) != nullptr) return type;
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  PMPI_Type_dup(type, &copy);
  return copy;
}

void release(MPI_Datatype& type) {
  if (type != MPI_DATATYPE_NULL && find_element(type) == nullptr) PMPI_Type_free(&type);
}

}  // namespace

std::uint64_t Blocks::bytes() const {
  std::uint64_t all = 0;
  for (int rank = 0; rank < ranks; ++rank) all += bytes_of(rank);
  return all;
}

std::ptrdiff_t Blocks::place_of(int rank) const {
  if (types != nullptr) return places[rank];
  const std::ptrdiff_t extent = extent_of(type);
  if (places != nullptr) return places[rank] * extent;
  return std::ptrdiff_t{rank} * count * extent;
}

bool Blocks::are_valid() const {
  if (has_lengths && (counts == nullptr || places == nullptr)) return false;
  for (int rank = 0; rank < ranks; ++rank)
    if (count_of(rank) < 0 || (count_of(rank) > 0 && type_of(rank) == MPI_DATATYPE_NULL)) return false;
  return true;
}

bool Blocks::are_plain() const {
  for (int rank = 0; rank < ranks; ++rank)
    if (count_of(rank) > 0 && (!is_plain(type_of(rank)) || place_of(rank) < 0)) return false;
  return true;
}

std::vector<std::byte> Blocks::packed() const {
  std::vector<std::byte> all(bytes());
  std::byte* to = all.data();
  for (int rank = 0; rank < ranks; ++rank) {
    if (count_of(rank) > 0) pack(at(rank), count_of(rank), type_of(rank), to);
    to += bytes_of(rank);
  }
  return all;
}

KeptBlocks::KeptBlocks(const Blocks& blocks) : blocks_(blocks) {
  blocks_.type = kept(blocks.type);
  if (blocks.types == nullptr) return;
  for (int rank = 0; rank < blocks.ranks; ++rank) types_.push_back(kept(blocks.types[rank]));
  blocks_.types = types_.data();
}

KeptBlocks::~KeptBlocks() {
  release(blocks_.type);
  for (MPI_Datatype& type : types_) release(type);
}

}  // namespace ucft::mpi
