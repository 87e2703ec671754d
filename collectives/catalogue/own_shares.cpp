#include "collectives/catalogue/own_shares.hpp"

#include <cstring>

namespace ucft::detail {

std::uint64_t PackedShares::bytes(std::span<const OwnShare> shares) {
  std::uint64_t bytes = header_bytes(shares.size());
  for (const OwnShare& share : shares) bytes += share.bytes;
  return bytes;
}

std::byte* PackedShares::pack(std::span<const OwnShare> shares, const void* from, std::byte* to) {
  std::byte* const begin = to + header_bytes(shares.size());
  std::byte* end = begin;
  for (std::size_t place = 0; place < shares.size(); ++place) {
    const auto [offset, bytes] = shares[place];
    if (bytes > 0) std::memcpy(end, static_cast<const std::byte*>(from) + offset, bytes);
    end += bytes;
    const auto behind = static_cast<std::uint64_t>(end - begin);
    std::memcpy(to + place * sizeof behind, &behind, sizeof behind);
  }
  return end;
}

std::optional<std::span<const std::byte>> PackedShares::find(std::span<const std::byte> packed, std::size_t place,
                                                             std::size_t shares) {
  const std::uint64_t header = header_bytes(shares);
  if (packed.size() < header) return std::nullopt;
  const auto end_of = [&](std::size_t which) {
    std::uint64_t end;
    std::memcpy(&end, packed.data() + which * sizeof end, sizeof end);
    return end;
  };
  const std::uint64_t begin = place == 0 ? 0 : end_of(place - 1), end = end_of(place);
  if (begin > end || end > packed.size() - header) return std::nullopt;
  return packed.subspan(header + begin, end - begin);
}

std::optional<std::span<const std::byte>> OwnShares::find(Rank rank, std::span<const std::byte> block) const {
  const auto share = PackedShares::find(block, static_cast<std::size_t>(me), given.size());
  return share && share->size() == wanted[static_cast<std::size_t>(rank)].bytes ? share : std::nullopt;
}

}  // namespace ucft::detail
