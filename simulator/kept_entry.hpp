// An entry of a host's journal, with the bytes that it refers to: as memory that its ranks share would hold it.
#pragma once

#include <vector>

#include "collectives/among/journal.hpp"

namespace ucft::detail::simulator {

struct KeptEntry {
  JournalEntry entry;
  std::vector<std::byte> value, list, contribution;

  KeptEntry() = default;
  explicit KeptEntry(const JournalEntry& from) : entry(from) {
    keep(entry.value, value);
    keep(entry.list, list);
    keep(entry.contribution.value, contribution);
  }
  KeptEntry(KeptEntry&&) = default;
  KeptEntry& operator=(KeptEntry&&) = default;

 private:
  static void keep(std::span<const std::byte>& span, std::vector<std::byte>& bytes) {
    bytes.assign(span.begin(), span.end());
    span = bytes;
  }
};

}  // namespace ucft::detail::simulator
