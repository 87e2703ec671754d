// The memory of the host stage: one slab per member of a communicator, which that member alone writes and all have mapped.
//
// A slab has `banks` banks; operation s uses bank s mod banks. A bank holds the member's value V and, on a tree with inner
// nodes, its partial result P: each a stamp, a note and a payload. The stamp is stored last: what it says is there. In front of
// the banks stands one word: the last use of the slab that its owner has closed.
//
//   word 0         closed
//   words 1 ..     bank 0: V: stamp, note, payload words;  P: stamp, note, payload words;  bank 1 ..
//
// Words have 64 bits. How they are loaded and stored is the Memory's matter (host_stage.hpp).
#pragma once

#include <cstdint>

#include "collectives/protocol.hpp"

namespace ucft::detail {

using HostWord = std::uint64_t;
using HostPlace = std::uint64_t;  // of a word in a slab

// The use of a slab by one communicator: never used again. 1 .. 2^24-1.
using HostUse = std::uint32_t;

// Greater for later operations of one use, and for later uses. 0 is none of them.
constexpr HostWord host_stamp(HostUse use, OperationNumber number) {
  return static_cast<HostWord>(use) << 40 | ((number + 1) & ((HostWord{1} << 40) - 1));
}

struct HostLayout {
  std::int32_t banks = 0;
  std::uint64_t payload_bytes = 0;  // of V, and of P: at most that much data per operation

  std::uint64_t payload_words() const { return (payload_bytes + sizeof(HostWord) - 1) / sizeof(HostWord); }
  HostPlace closed() const { return 0; }
  HostPlace value(OperationNumber number) const { return 1 + 2 * bank(number) * (2 + payload_words()); }
  HostPlace partial(OperationNumber number) const { return value(number) + 2 + payload_words(); }
  HostPlace words() const { return 1 + 2 * static_cast<HostPlace>(banks) * (2 + payload_words()); }

 private:
  HostPlace bank(OperationNumber number) const { return number % static_cast<HostPlace>(banks); }
};

// Beside a stamp: what was posted, and what came of it.
struct HostNote {
  std::uint16_t signature = 0;
  Outcome outcome = Outcome::success;  // of V: success, or no_memory if its owner has none for its data
  std::uint32_t count = 0;             // V: bytes of data. P: contributors, or 1 + the culprit

  constexpr HostWord word() const {
    return static_cast<HostWord>(signature) << 48 | static_cast<HostWord>(outcome) << 40 | count;
  }
  static constexpr HostNote of(HostWord word) {
    return {static_cast<std::uint16_t>(word >> 48), static_cast<Outcome>(word >> 40 & 0xff),
            static_cast<std::uint32_t>(word)};
  }
};

}  // namespace ucft::detail
