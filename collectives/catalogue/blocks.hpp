// Sets of blocks, one of each rank, of lengths of their own: what a gather and an allgather add. Two sets are added by
// putting them side by side. So a dead rank's block is in the sum or not, as a value is. A block that is there says
// whose it is.
//
// A set of blocks is a sequence of records, in any order of ranks, each rank at most once:
//
//   rank | bytes | the block | up to 7 bytes, so that the next record is at a multiple of 8
//   24 bits 40 bits
//
//   rank 3 gives 2 bytes, rank 0 gives none:   3 2 xx000000  0 0        (24 bytes)
//
// Memory: a sum is made once, as large as all blocks together, and grows in place; the messages carry what there is of
// it.
#pragma once

#include <functional>
#include <span>

#include "collectives/core/buffers.hpp"
#include "collectives/catalogue/arguments.hpp"

namespace ucft::detail {

struct Blocks {
  struct Record {
    std::uint64_t rank : 24, bytes : 40;
  };
  static constexpr std::uint64_t record_bytes(std::uint64_t block) { return sizeof(Record) + (block + 7) / 8 * 8; }

  // Lengths differ with the ranks that contribute. An error in a message is found when the message is read.
  static bool accepts(const Arguments& arguments, std::uint64_t bytes) {
    return bytes >= sizeof(Record) && bytes % 8 == 0 && bytes <= result_bytes(arguments, row_limit);
  }
  static std::uint64_t input_bytes(const Arguments& arguments);
  static std::uint64_t result_bytes(const Arguments& arguments, std::int32_t ranks);
  static bool add(const Arguments& arguments, Slice& sum, bool& fresh, const Slice& part, std::int32_t ranks,
                  Buffers& buffers);

  // This rank's input: a record of its block, in input_bytes().
  static void pack(const Arguments& arguments, Rank me, const void* block, std::byte* input);
  // Calls use for each block of a set. False: it is no set.
  static bool for_each(std::span<const std::byte> set,
                       const std::function<void(Rank, std::span<const std::byte>)>& use);

 private:
  static constexpr std::int32_t row_limit = 1 << 26;  // ranks: only a bound for lengths
};

}  // namespace ucft::detail
