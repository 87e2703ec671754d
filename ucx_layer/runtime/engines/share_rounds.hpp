// A long alltoall of ranks that share memory: it goes in rounds, each an operation of the host stage. In each round a
// rank gives a part of each share. So it needs room for the parts of two rounds, however long its shares are.
//
// A rank gives a round once it has all of the round before. So when it has all of this one, the others are through with
// the one before, and its room is free. A rank that dies between two rounds is missing from the next one on, on all
// ranks alike: in the last one all agree whose shares are there. Of a missing rank's share some parts may have come.
//
//   a block of a round:   how long a share is (u64), up to 64 bytes | a part for each rank, in their order
//
// No I/O. Used by one engine, for one request at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "collectives/core/buffers.hpp"
#include "ucx_layer/runtime/request.hpp"

namespace ucft::detail {

class ShareRounds {
 public:
  ShareRounds(Buffers& buffers, Rank me, Rank ranks) : buffers_(buffers), me_(me), ranks_(ranks) {}
  ~ShareRounds() { end(); }
  ShareRounds(const ShareRounds&) = delete;
  ShareRounds& operator=(const ShareRounds&) = delete;

  // Whether it is an alltoall of equal shares that goes so.
  bool wants(const Request& request) const;
  // With the first round, which is given at once. Until end() no other may begin.
  void begin(Request& request);
  void end();
  bool is_active() const { return request_ != nullptr; }
  Request* request() const { return request_; }
  bool has_memory() const { return rooms_[0] != no_buffer; }

  // ---- the present round
  std::uint64_t block_bytes() const { return block_bytes_of(part_bytes()); }
  BufferId room() const { return rooms_[round_ % rooms_.size()]; }
  // Its block, in that room. copy(to, from, bytes).
  template <class Copy>
  void pack(Copy copy) const {
    std::byte* to = buffers_.data(room());
    *reinterpret_cast<std::uint64_t*>(to) = share_bytes_;
    to += header_bytes;
    for (Rank rank = 0; rank < ranks_; ++rank, to += part_bytes())
      if (rank != me_) copy(to, given(rank), part_bytes());
  }
  // Whether another rank's block is one of the same alltoall. read() returns it.
  template <class Read>
  bool is_right(std::uint64_t bytes, Read read) const {
    return bytes == block_bytes() && *reinterpret_cast<const std::uint64_t*>(read()) == share_bytes_;
  }
  // The part for this rank, of that rank's block, to its place.
  void put(Rank rank, const std::byte* block) const;
  // It is complete. False: it was the last one. Else the next one is due until it is given.
  bool go_on();
  bool is_due() const { return is_due_; }
  void note_given() { is_due_ = false; }

 private:
  static constexpr std::uint64_t header_bytes = 64;

  std::uint64_t part_bytes() const { return std::min(most_, share_bytes_ - done_); }
  std::uint64_t block_bytes_of(std::uint64_t part) const {
    return header_bytes + part * static_cast<std::uint64_t>(ranks_);
  }
  const std::byte* given(Rank rank) const;
  void release_rooms();

  Buffers& buffers_;
  const Rank me_, ranks_;
  Request* request_ = nullptr;
  std::uint64_t share_bytes_ = 0, most_ = 0;  // of a share: in all, and in a round
  std::uint64_t round_ = 0, done_ = 0;        // rounds that are complete, and bytes of each share
  bool is_due_ = false;
  std::array<BufferId, 2> rooms_{no_buffer, no_buffer};
};

}  // namespace ucft::detail
