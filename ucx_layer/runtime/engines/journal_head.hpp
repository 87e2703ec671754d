// An entry of a host's journal (collectives/among/journal.hpp) as it stands in a slot of the host's log, and back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/among/journal.hpp"
#include "collectives/on_host/host_slab.hpp"

namespace ucft::detail {

struct JournalHead {
  static constexpr HostPlace slot_words = 16;  // two lines, with the stamp
  static constexpr std::size_t bytes = (slot_words - 1) * sizeof(HostWord);

  // Of an entry that is no message peer, operation and flags are about, from, and was_needed or may_gossip.
  MessageHead message;
  std::int64_t now_ns;
  HostPlace payload;  // from the slab of the rank that has appended; of data that have no room here
  std::uint64_t value_bytes;
  std::uint32_t list_bytes;
  JournalEntry::What what;
  std::byte data[bytes - sizeof(MessageHead) - 29];

  // All but the data.
  static JournalHead of(const JournalEntry& entry);
  // Of the data, if they have no room here; else 0.
  std::uint64_t payload_bytes() const {
    const std::uint64_t all = value_bytes + list_bytes;
    return all > sizeof data ? all : 0;
  }
  // value and list refer to the data, which lie in `at`, one behind the other. It has no block.
  JournalEntry entry(const std::byte* at) const;
};
static_assert(sizeof(JournalHead) == JournalHead::bytes && std::is_trivially_copyable_v<JournalHead>);

}  // namespace ucft::detail
