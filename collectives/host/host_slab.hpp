// The memory of the host stage: one slab per member of a communicator, which that member alone writes and all have mapped.
//
// A slab has `banks` banks; operation s uses bank s mod banks. A bank holds the member's value V and, on a tree with inner
// nodes, its partial result P: each a stamp, a note and a payload. The stamp is stored last: what it says is there.
//
// Data that are too large for a payload lie in an area, which the note of V names. There are fewer of these than banks: each rank
// uses its own in turn, and says how far it is through with those of others. Beside its owner's input an area has room for the
// chunks of the result that its owner has combined, each with a stamp.
//
//   word 0         closed: the last use of the slab that its owner is through with
//   word 1         through: stamp of the last operation that its owner has completed, as all before it; only if there are areas
//   words 2 ..     bank 0: V: stamp, note, payload words;  P: stamp, note, payload words;  bank 1 ..
//   then           area 0: input words; result words; a stamp for each chunk of it;  area 1 ..
//
// All words are zero before the first use, and all uses of a slab have the same layout: what was data for one must not be a stamp
// for the next. Words have 64 bits. How they are loaded and stored is the Memory's matter (host_stage.hpp).
#pragma once

#include <cstdint>

#include "collectives/protocol.hpp"

namespace ucft::detail {

using HostWord = std::uint64_t;
using HostPlace = std::uint64_t;  // of a word in a slab

// The use of slabs by one communicator: greater than all earlier uses of any of its members' slabs.
using HostUse = std::uint32_t;
inline constexpr HostUse host_uses = HostUse{1} << 24;  // 1 .. host_uses - 1. After that: new memory
inline constexpr OperationNumber host_numbers = OperationNumber{1}
                                                << 40;  // operations of a use. After that: another use

// Greater for later operations of one use, and for later uses. 0 is none of them.
constexpr HostWord host_stamp(HostUse use, OperationNumber number) {
  return static_cast<HostWord>(use) << 40 | (number + 1);
}

struct HostLayout {
  std::int32_t banks = 0;                         // more than the window
  std::uint64_t payload_bytes = 0;                // of V, and of P: more data go to an area
  std::int32_t areas = 0;                         // up to 256; 0: there may be no more data
  std::uint64_t area_bytes = 0, chunk_bytes = 0;  // multiples of 8: the most data of an operation, and of a chunk of it

  bool is_large(std::uint64_t bytes) const { return bytes > payload_bytes; }
  std::uint64_t most_bytes() const { return areas > 0 ? area_bytes : payload_bytes; }

  static constexpr HostPlace closed() { return 0; }
  static constexpr HostPlace through() { return 1; }
  HostPlace value(OperationNumber number) const {
    return 2 + 2 * (number % static_cast<HostPlace>(banks)) * (2 + words_of(payload_bytes));
  }
  HostPlace partial(OperationNumber number) const { return value(number) + 2 + words_of(payload_bytes); }
  HostPlace input(std::uint64_t area) const {
    return 2 + 2 * static_cast<HostPlace>(banks) * (2 + words_of(payload_bytes)) + area * area_words();
  }
  HostPlace combined(std::uint64_t area) const { return input(area) + words_of(area_bytes); }
  HostPlace chunk_stamp(std::uint64_t area, std::uint64_t chunk) const {
    return combined(area) + words_of(area_bytes) + chunk;
  }
  HostPlace words() const { return input(static_cast<std::uint64_t>(areas)); }

  static constexpr HostPlace words_of(std::uint64_t bytes) { return (bytes + sizeof(HostWord) - 1) / sizeof(HostWord); }

 private:
  HostPlace area_words() const {
    return areas == 0 ? 0 : 2 * words_of(area_bytes) + (area_bytes + chunk_bytes - 1) / chunk_bytes;
  }
};

// Beside a stamp: what was posted, and what came of it.
struct HostNote {
  std::uint16_t signature = 0;
  Outcome outcome = Outcome::success;  // of V: success, or no_memory if its owner has none for its data
  std::uint8_t area = 0;               // of V: where large data are
  std::uint32_t count = 0;             // V: bytes of data. P: contributors, or 1 + the culprit

  constexpr HostWord word() const {
    return static_cast<HostWord>(signature) << 48 | static_cast<HostWord>(outcome) << 40 |
           static_cast<HostWord>(area) << 32 | count;
  }
  static constexpr HostNote of(HostWord word) {
    return {static_cast<std::uint16_t>(word >> 48), static_cast<Outcome>(word >> 40 & 0xff),
            static_cast<std::uint8_t>(word >> 32), static_cast<std::uint32_t>(word)};
  }
};

}  // namespace ucft::detail
