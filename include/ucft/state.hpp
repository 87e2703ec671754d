// How the ranks of a renewed communicator give their state to the newcomers among them: for ucft.hpp and the Python
// package, which have the same bytes on the wire.
//
// The donor is the lowest rank that is no newcomer. It broadcasts a header of three UCFT_UINT64, then the state in
// pieces of UCFT_UINT8. If it dies, all ranks learn that from the same broadcast, and the next one is the donor. It
// broadcasts a header of its own. If that is the same as before, it goes on from the piece that is missing; else it
// begins anew.
#ifndef UCFT_STATE_HPP
#define UCFT_STATE_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ucft/ucft.h"

namespace ucft {
inline namespace v0 {
namespace internal {

inline constexpr std::uint64_t state_piece_bytes = 64 << 20;  // a donor's death costs so many at most

struct StateHeader {
  std::uint64_t bytes = 0;
  std::uint64_t version = 0;
  std::uint64_t checksum = 0;
  bool operator==(const StateHeader&) const = default;
};
inline constexpr std::uint64_t state_header_words = 3;
static_assert(sizeof(StateHeader) == state_header_words * sizeof(std::uint64_t));

// tables[k][b]: the remainder of byte b with k zero bytes behind it.
inline constexpr auto crc32_tables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0xedb88320u : 0);
    tables[0][byte] = rest;
  }
  for (std::size_t k = 1; k < tables.size(); ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}();

// The CRC-32 of zlib and of IEEE 802.3: of "123456789" it is cbf43926. Eight bytes at a time.
inline std::uint32_t crc32_of(std::span<const std::byte> bytes) {
  const auto& tables = crc32_tables;
  std::uint32_t rest = 0xffffffff;
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    rest ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
    rest = tables[7][rest & 0xff] ^ tables[6][rest >> 8 & 0xff] ^ tables[5][rest >> 16 & 0xff] ^ tables[4][rest >> 24] ^
           tables[3][at(4)] ^ tables[2][at(5)] ^ tables[1][at(6)] ^ tables[0][at(7)];
  }
  for (const std::byte each : bytes) rest = rest >> 8 ^ tables[0][(rest ^ std::to_integer<std::uint32_t>(each)) & 0xff];
  return ~rest;
}

// The end of it, for the caller. The explanation names the donor.
struct StateVerdict {
  ucft_status_t status = UCFT_OK;
  std::string explanation{};
};

// One rank's part in it.
struct StateSharing {
  std::int32_t rank = 0, rank_count = 0;
  const std::vector<std::int32_t>& newcomers;  // ascending
  std::span<std::byte> own;                    // this rank's state, which is not written; a newcomer's: not looked at
  StateHeader own_header;
  StateHeader& header;  // where headers are sent from and received; at the end: the donor's
  std::uint64_t piece_bytes = state_piece_bytes;

  bool is_newcomer(std::int32_t which) const { return std::ranges::binary_search(newcomers, which); }

  // The donor; -1: no rank that has the state lives.
  // broadcast(data, count, dtype, root): true, or false if the root has failed.
  // room(bytes): memory for so many: of a newcomer the whole state, of others a piece.
  template <class Broadcast, class Room>
  std::int32_t run(Broadcast broadcast, Room room) const {
    const bool is_new = is_newcomer(rank);
    std::optional<StateHeader> before;
    std::byte* place = nullptr;
    std::uint64_t done = 0;
    for (std::int32_t donor = 0; donor < rank_count; ++donor) {
      if (is_newcomer(donor)) continue;
      header = donor == rank ? own_header : StateHeader{};
      if (!broadcast(&header, state_header_words, UCFT_UINT64, donor)) continue;
      if (header != before) {
        before = header;
        done = 0;
        place = nullptr;
      }
      if (place == nullptr && donor != rank) place = room(is_new ? header.bytes : std::min(header.bytes, piece_bytes));
      while (done < header.bytes) {
        const std::uint64_t piece = std::min(header.bytes - done, piece_bytes);
        std::byte* const data = donor == rank ? own.data() + done : is_new ? place + done : place;
        if (!broadcast(data, piece, UCFT_UINT8, donor)) break;
        done += piece;
      }
      if (done == header.bytes) return donor;
    }
    return -1;
  }

  // got: a newcomer's new state. All broadcasts are over by then: no other rank waits for one that has an error.
  StateVerdict judge(std::int32_t donor, std::uint64_t version, std::span<const std::byte> got) const {
    if (donor < 0) return {UCFT_ERR_ROOT_FAILED, "share_state: no rank that has the state lives"};
    const std::string whose = "share_state: the state that rank " + std::to_string(donor) + " has given ";
    if (header.version != version)
      return {UCFT_ERR_MISMATCH, whose + "has version " + std::to_string(header.version) +
                                     ", and this rank's program " + "takes version " + std::to_string(version)};
    if (is_newcomer(rank) && crc32_of(got) != header.checksum)
      return {UCFT_ERR_TRANSPORT, whose + "has another checksum than that rank has said"};
    return {};
  }
};

}  // namespace internal
}  // namespace v0
}  // namespace ucft

#endif
