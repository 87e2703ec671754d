// An entry of a host's journal, with the bytes that it refers to: as memory that its ranks share would hold it.
#pragma once

#include <memory>
#include <vector>

#include "collectives/among/journal.hpp"

namespace ucft::detail::simulator {

struct KeptEntry {
  JournalEntry entry;
  std::unique_ptr<ProcessContribution> contribution;
  std::vector<std::byte> value, list, given;

  KeptEntry() = default;
  explicit KeptEntry(const JournalEntry& from) : entry(from) {
    entry.block = {};
    keep(entry.value, value);
    keep(entry.list, list);
    if (entry.contribution == nullptr) return;
    contribution = std::make_unique<ProcessContribution>(*entry.contribution);
    keep(contribution->value, given);
    entry.contribution = contribution.get();
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
