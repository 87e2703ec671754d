// The memory of the host stage: one slab per member of a communicator. Only that member writes its slab, and all have
// it mapped.
//
// A slab has `banks` banks; operation s uses bank s mod banks. A bank holds the member's value V and, if the tree has
// inner nodes, its partial result P: each a stamp, a note and a payload. The stamp is stored last: what it says is
// there.
//
// Data that are too long for a payload lie elsewhere in memory of their owner that all have mapped. Then the payload
// says where. Word 0 names the data, or is 0: they are kept for their owner alone (HostCall::kept). Word 1 of V names
// room for what the owner combines: its P, or its chunks of a large result, each with a stamp. Word 2 of V is the bytes
// of the data, where the note can't count them.
//
//   word 0         through: stamp of the last operation that its owner has completed, as all before it
//   line 1 ..      bank 0: V: stamp, note, payload words;  P: stamp, note, payload words;  bank 1 ..
//
// All words are zero when a communicator begins to use a slab. Words have 64 bits. How they are loaded and stored is
// the Memory's matter (host_stage.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/core/protocol.hpp"

namespace ucft::detail {

using HostWord = std::uint64_t;
// The place of a word, counted from the beginning of its owner's slab. It is modulo 2^64, so what lies before the slab
// has a place, too.
using HostPlace = std::uint64_t;

// Greater for later operations. 0 is none of them.
constexpr HostWord host_stamp(OperationNumber number) { return number + 1; }

struct HostLayout {
  std::int32_t banks = 0;          // more than the window; a power of two
  std::uint64_t inline_bytes = 0;  // of V, and of P: more data lie elsewhere
  std::uint64_t large_bytes = 0;   // at least inline_bytes: more data are combined in chunks, by all together
  std::uint64_t chunk_bytes = 0;   // a multiple of 8, and of an element: the most of a chunk
  std::int32_t cells = 2;          // of a bank: V and P; 1: no P, for a flat tree

  bool is_inline(std::uint64_t bytes) const { return bytes <= inline_bytes; }
  bool is_large(std::uint64_t bytes) const { return bytes > large_bytes; }

  static constexpr HostPlace through() { return 0; }
  // For a reader from outside: the distance of the banks in words << 32 | their number; the rank << 32 | ranks of the
  // communicator; and the time at which the last operation was posted. (CLOCK_MONOTONIC in ns. It may be up to a
  // heartbeat early, as nobody looks at a clock for each operation.)
  static constexpr HostPlace stride_and_banks() { return 1; }
  static constexpr HostPlace rank_and_ranks() { return 2; }
  static constexpr HostPlace posted_at() { return 3; }
  // The last reduce or gather that was posted: its number << 32 | its root, which no note has.
  static constexpr HostPlace root_of_reduce() { return 4; }
  // 0, until its owner has left: it posts nothing more, and reads nothing more of what others post. Then 1 + how many
  // gossip operations it has posted.
  static constexpr HostPlace left() { return 5; }
  // Of a host's log: the first entry whose data its owner may still need.
  static constexpr HostPlace needs() { return 6; }
  static constexpr HostPlace first_bank() { return line_words; }
  HostPlace stride() const { return static_cast<HostPlace>(cells) * cell_words(); }
  HostPlace value(OperationNumber number) const {
    return line_words + (number & static_cast<HostPlace>(banks - 1)) * static_cast<HostPlace>(cells) * cell_words();
  }
  HostPlace partial(OperationNumber number) const { return value(number) + cell_words(); }
  HostPlace words() const {
    return line_words + static_cast<HostPlace>(banks) * static_cast<HostPlace>(cells) * cell_words();
  }

  // The bytes of a chunk of large data of so many ranks: there are about as many chunks as ranks, or more.
  std::uint64_t bytes_of_chunks(std::uint64_t bytes, Rank ranks) const {
    return std::min(chunk_bytes, (bytes / static_cast<std::uint64_t>(ranks) + 64) / 64 * 64);
  }
  std::uint64_t chunks(std::uint64_t bytes, Rank ranks) const {
    const std::uint64_t each = bytes_of_chunks(bytes, ranks);
    return (bytes + each - 1) / each;
  }
  // Chunks that a rank combines, at most.
  std::uint64_t own_chunks(std::uint64_t bytes, Rank ranks) const {
    const auto n = static_cast<std::uint64_t>(ranks);
    return (chunks(bytes, ranks) + n - 1) / n;
  }

  static constexpr HostPlace words_of(std::uint64_t bytes) { return (bytes + sizeof(HostWord) - 1) / sizeof(HostWord); }

 private:
  static constexpr HostPlace line_words = 8;
  HostPlace cell_words() const { return 2 + std::max<HostPlace>(words_of(inline_bytes), 3); }
};

// Beside a stamp: what was posted, and what came of it.
struct HostNote {
  std::uint16_t signature = 0;
  Outcome outcome = Outcome::success;  // of V: success, or no_memory if its owner has none for its data
  // V: bytes of data; if none are given, is_root | root. P: contributors, or 1 + the culprit.
  std::uint32_t count = 0;
  std::uint16_t what = 0;  // V: 12 bits that nobody here reads, for a reader from outside

  static constexpr std::uint32_t is_root = std::uint32_t{1} << 31;
  static constexpr std::uint32_t most = is_root - 1;  // of V: so many bytes, or more. Then the payload says how many
  static constexpr std::uint32_t count_of(std::uint64_t bytes) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, most));
  }

  constexpr HostWord word() const {
    return static_cast<HostWord>(signature) << 48 | static_cast<HostWord>(outcome) << 44 |
           static_cast<HostWord>(what) << 32 | count;
  }
  static constexpr HostNote of(HostWord word) {
    return {static_cast<std::uint16_t>(word >> 48), static_cast<Outcome>(word >> 44 & 0xf),
            static_cast<std::uint32_t>(word), static_cast<std::uint16_t>(word >> 32 & 0xfff)};
  }
  bool operator==(const HostNote&) const = default;
};

}  // namespace ucft::detail
