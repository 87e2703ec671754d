// How the ranks of a renewed communicator give their state to the newcomers among them: for ucft.hpp and the Python
// package, which have the same bytes on the wire.
//
// The donor is the lowest rank that is no newcomer. It broadcasts a header of three UCFT_UINT64, then the state in
// pieces of UCFT_UINT8, each followed by its checksum (UCFT_UINT64). If it dies, all ranks learn that from the same
// broadcast, and the next one is the donor. It broadcasts a header of its own. If that is of the same state as before,
// by its checksums, it goes on from the piece that is missing; else it begins anew.
#ifndef UCFT_STATE_HPP
#define UCFT_STATE_HPP

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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
  std::uint64_t told = 0;      // the chain of the checksums of the donor's pieces before the one that is missing
  std::uint64_t checksum = 0;  // of the last piece; broadcast by itself
};
inline constexpr std::uint64_t state_header_words = 3;

// Each word of 64 bits goes into one of eight lanes, by steps that lose nothing: one wrong word in a lane always shows.
// The shift brings down the highest bits, which a product carries nowhere. At the end the lanes go into one word in the
// same way. As fast as memory is read: a CRC is not.
inline std::uint64_t mixed_in(std::uint64_t lane, std::uint64_t word) {
  const std::uint64_t product = (lane ^ word) * 0xff51afd7ed558ccdull;
  return product ^ product >> 32;
}
inline std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  constexpr std::size_t lane_count = 8;
  std::array<std::uint64_t, lane_count> lanes{};
  std::uint64_t all = bytes.size();
  const auto word_at = [&](std::size_t i) {
    std::uint64_t word = 0;
    std::copy_n(bytes.data() + i, std::min(sizeof word, bytes.size() - i), reinterpret_cast<std::byte*>(&word));
    return word;
  };
  constexpr std::size_t row = lane_count * sizeof(std::uint64_t);
  std::size_t done = 0;
  for (; bytes.size() - done >= row; done += row) {
    std::array<std::uint64_t, lane_count> words;
    std::copy_n(bytes.data() + done, row, reinterpret_cast<std::byte*>(words.data()));
    for (std::size_t lane = 0; lane < lane_count; ++lane) lanes[lane] = mixed_in(lanes[lane], words[lane]);
  }
  for (std::size_t lane = 0; done < bytes.size(); ++lane, done += sizeof(std::uint64_t))
    lanes[lane] = mixed_in(lanes[lane], word_at(done));
  for (const std::uint64_t lane : lanes) all = mixed_in(all, lane);
  return all;
}
inline std::uint64_t chained(std::uint64_t told, std::uint64_t checksum) {
  return (told ^ checksum) * 0xc4ceb9fe1a85ec53ull + 1;
}

// New memory, before it is written: the first write to each page costs more than what is written to it, so large pages.
inline void expect_writes(std::byte* memory, std::uint64_t bytes) {
  constexpr std::uint64_t page = 2 << 20;
  const std::uint64_t before = (page - reinterpret_cast<std::uintptr_t>(memory) % page) % page;
  if (bytes >= before + page) madvise(memory + before, (bytes - before) / page * page, MADV_HUGEPAGE);
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
  std::uint64_t version = 0;                   // of the states that this rank's program takes
  StateHeader& header;                         // where headers are sent from and received; at the end: the donor's
  std::uint64_t piece_bytes = state_piece_bytes;
  std::int32_t damaged_by = -1;  // the donor of a piece that came here with another checksum

  bool is_newcomer(std::int32_t which) const { return std::ranges::binary_search(newcomers, which); }

  // The donor; -1: no rank that has the state lives.
  // broadcast(data, count, dtype, root): true, or false if the root has failed.
  // room(bytes): memory for so many: of a newcomer the whole state, of others a piece.
  // checksum(bytes): as checksum_of().
  template <class Broadcast, class Room, class Checksum>
  std::int32_t run(Broadcast broadcast, Room room, Checksum checksum) {
    const bool is_new = is_newcomer(rank);
    std::byte* place = nullptr;
    std::uint64_t bytes = 0, of_version = 0, done = 0, told = 0;
    for (std::int32_t donor = 0; donor < rank_count; ++donor) {
      if (is_newcomer(donor)) continue;
      header = {};
      if (donor == rank) header = {own.size(), version, chain_of_own(done, checksum)};
      if (!broadcast(&header, state_header_words, UCFT_UINT64, donor)) continue;
      if (header.bytes != bytes || header.version != of_version || header.told != told) {
        done = told = 0;
        place = nullptr;
        damaged_by = -1;
      }
      bytes = header.bytes;
      of_version = header.version;
      if (place == nullptr && donor != rank) place = room(is_new ? bytes : std::min(bytes, piece_bytes));
      while (done < bytes) {
        const std::uint64_t piece = std::min(bytes - done, piece_bytes);
        std::byte* const data = donor == rank ? own.data() + done : is_new ? place + done : place;
        if (!broadcast(data, piece, UCFT_UINT8, donor)) break;
        // All at the same time, while the piece is in their caches.
        const std::uint64_t mine = donor == rank || is_new ? checksum({data, piece}) : 0;
        header.checksum = mine;
        if (!broadcast(&header.checksum, 1, UCFT_UINT64, donor)) break;
        if (is_new && header.checksum != mine) damaged_by = donor;
        told = chained(told, header.checksum);
        done += piece;
      }
      if (done == bytes) return donor;
    }
    return -1;
  }

  // All broadcasts are over: no other rank waits for one that has an error.
  StateVerdict judge(std::int32_t donor) const {
    if (donor < 0) return {UCFT_ERR_ROOT_FAILED, "share_state: no rank that has the state lives"};
    const std::string whose =
        "share_state: the state that rank " + std::to_string(damaged_by < 0 ? donor : damaged_by) + " has given ";
    if (damaged_by >= 0) return {UCFT_ERR_TRANSPORT, whose + "has another checksum than that rank has said"};
    if (header.version != version)
      return {UCFT_ERR_MISMATCH, whose + "has version " + std::to_string(header.version) +
                                     ", and this rank's program " + "takes version " + std::to_string(version)};
    return {};
  }

 private:
  template <class Checksum>
  std::uint64_t chain_of_own(std::uint64_t end, Checksum checksum) const {
    std::uint64_t told = 0;
    for (std::uint64_t done = 0; done < end && done < own.size(); done += piece_bytes)
      told = chained(told, checksum(std::span<const std::byte>(
                               own.subspan(done, std::min<std::uint64_t>(piece_bytes, own.size() - done)))));
    return told;
  }
};

}  // namespace internal
}  // namespace v0
}  // namespace ucft

#endif
