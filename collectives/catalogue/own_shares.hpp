// Shares of lengths of their own: what each rank gives to each other one in an alltoallv. Only the two of a share know
// its length before. So what a rank gives says how long its shares are.
//
// The shares for some ranks, packed in the order of these ranks:
//
//   where each share ends | the shares, one after the other
//    u64 each
//
//   2 bytes for one rank, 3 for the other:   2 5 xxxxx      (21 bytes)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/core/protocol.hpp"

namespace ucft::detail {

// In the caller's memory, in bytes.
struct OwnShare {
  std::uint64_t offset, bytes;
};

struct PackedShares {
  // Of so many shares: what comes before them.
  static constexpr std::uint64_t header_bytes(std::size_t shares) { return shares * sizeof(std::uint64_t); }
  static std::uint64_t bytes(std::span<const OwnShare> shares);
  // Returns where they end.
  static std::byte* pack(std::span<const OwnShare> shares, const void* from, std::byte* to);
  // Of so many shares the one at that place; none: these are not so many shares.
  static std::optional<std::span<const std::byte>> find(std::span<const std::byte> packed, std::size_t place,
                                                        std::size_t shares);
};

// Of one rank: for each, and from each, in the order of ranks. Its share for itself has one length in both.
struct OwnShares {
  Rank me = 0;
  std::vector<OwnShare> given, wanted;
  std::vector<OwnShare> for_others;  // given, without the one for itself

  // The share for this rank in another's block, which is for_others there, packed; none: it is not as long as wanted.
  std::optional<std::span<const std::byte>> find(Rank rank, std::span<const std::byte> block) const;
};

}  // namespace ucft::detail
