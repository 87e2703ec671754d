#include "ucx_layer/runtime/engines/journal_head.hpp"

namespace ucft::detail {

namespace {

constexpr std::uint8_t was_needed = 1, may_gossip = 2;  // flags, of what is no message

}  // namespace

JournalHead JournalHead::of(const JournalEntry& entry) {
  JournalHead head{};
  head.message = entry.message;
  if (entry.what != JournalEntry::What::message) {
    head.message.peer = entry.about;
    head.message.operation = entry.from;
    head.message.flags =
        static_cast<std::uint8_t>((entry.was_needed ? was_needed : 0) | (entry.may_gossip ? may_gossip : 0));
  }
  head.now_ns = entry.now_ns;
  head.value_bytes = entry.value.size();
  head.list_bytes = static_cast<std::uint32_t>(entry.list.size());
  head.what = entry.what;
  return head;
}

JournalEntry JournalHead::entry(const std::byte* at) const {
  JournalEntry entry;
  entry.what = what;
  static_cast<MessageHead&>(entry.message) = message;
  entry.about = message.peer;
  entry.from = message.operation;
  entry.was_needed = (message.flags & was_needed) != 0;
  entry.may_gossip = (message.flags & may_gossip) != 0;
  entry.now_ns = now_ns;
  entry.value = {at, value_bytes};
  entry.list = {at + value_bytes, list_bytes};
  return entry;
}

}  // namespace ucft::detail
