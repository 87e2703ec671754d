// Memory as MPI's collectives describe it: a block of it for each rank. The blocks of one rank are of any type, or each
// of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/memory.hpp"
#include "mpi/world.hpp"

namespace ucft::mpi {

struct Blocks {
  void* memory = nullptr;
  int ranks = 0;
  MPI_Datatype type = MPI_BYTE;
  int count = 0;                        // of each
  const int* counts = nullptr;          // else these
  const int* places = nullptr;          // in elements, with types in bytes; nullptr: one after the other
  const MPI_Datatype* types = nullptr;  // else `type`
  bool has_lengths = false;             // counts and places are the caller's, and may be missing by mistake

  int count_of(int rank) const { return counts == nullptr ? count : counts[rank]; }
  MPI_Datatype type_of(int rank) const { return types == nullptr ? type : types[rank]; }
  std::uint64_t bytes_of(int rank) const {
    return count_of(rank) == 0 ? 0 : packed_bytes(count_of(rank), type_of(rank));
  }
  std::uint64_t bytes() const;
  // From memory on, in bytes.
  std::ptrdiff_t place_of(int rank) const;
  void* at(int rank) const { return static_cast<std::byte*>(memory) + place_of(rank); }
  // No count is negative, and no type that is needed missing. MPI says which it is.
  bool are_valid() const;
  // All are bytes as they are, and none lies before memory.
  bool are_plain() const;
  // One behind the other.
  std::vector<std::byte> packed() const;
  // The block of a rank of which these are the bytes.
  void unpack_from(const std::byte* bytes, int rank) const {
    if (count_of(rank) > 0) unpack(bytes, at(rank), count_of(rank), type_of(rank));
  }
};

// The same, for the end of a nonblocking call: the program may have freed the types by then.
class KeptBlocks {
 public:
  explicit KeptBlocks(const Blocks& blocks);
  ~KeptBlocks();
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;
  const Blocks& get() const { return blocks_; }

 private:
  Blocks blocks_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace ucft::mpi
