// The first segment of a rank's range, which all peers find at its beginning:
//
//   control page | slabs: the first page of their directory | credit, one line a reader | pull tables, one a reader |
//   rings, one a writer
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ucx_layer/transport/memory/mailbox.hpp"
#include "ucx_layer/transport/memory/slabs.hpp"

namespace ucft::detail {

// What the rank has posted in a communicator whose ranks send messages. (Of the others that stands in their slabs.)
struct alignas(64) PostedByMessages {
  std::atomic<std::uint64_t> key;             // 1 + communicator; 0: free
  std::atomic<std::uint64_t> rank_and_ranks;  // as in a slab
  std::atomic<std::uint64_t> posted;          // operations
  std::atomic<std::uint64_t> finished;        // all before that number are
  std::atomic<std::uint64_t> note;            // of the last one: HostNote
  std::atomic<std::int64_t> posted_at_ns;     // as in a slab
  std::atomic<std::int64_t> root;             // of the last one, whatever it is
};

// Written by others where it says so.
struct ControlPage {
  std::uint64_t cookie;
  // For who looks from outside (ucx_layer/observer), as the slabs' descriptions.
  std::int32_t rank, ranks;
  std::uint64_t address;                      // of this page in its owner
  std::uint64_t heartbeat_period_us;          // written when its detector starts
  std::atomic<std::int64_t> waits_since_ns;   // CLOCK_MONOTONIC; 0: it is not in a wait that has come to sleep
  std::atomic<std::int64_t> waited_until_ns;  // the last wait whose time limit has passed; 0: none
  // What it keeps for others: UCX's endpoints that are open, lifelines, rings of its own for their messages with what belongs to
  // them, and the bytes of those.
  std::atomic<std::int32_t> connections, lifelines, mailboxes;
  std::atomic<std::uint64_t> mailbox_bytes;
  alignas(64) std::atomic<std::uint32_t> sleeping;  // futex word: 1 while the rank sleeps (written by all)
  alignas(64) std::atomic<std::uint64_t> heartbeat;
  std::atomic<std::int64_t> beat_at_ns;             // CLOCK_MONOTONIC of the last one
  alignas(64) std::atomic<std::uint32_t> left;      // 1: the rank has left the job; 2: it is out of it (excluded)
  alignas(64) std::atomic<std::uint32_t> excluded;  // 1 + rank of who declared this rank dead (written by others)
  // Of the host's first rank: one bit for each rank of the host that sleeps, so that who has news for many finds out with a look
  // at a word or two (written by all). Ranks share bits if there are more.
  static constexpr int sleeper_words = 16;
  alignas(64) std::atomic<std::uint64_t> sleepers[sleeper_words];
  // Of the first so many communicators that are there at a time: what those beyond have posted can't be seen.
  static constexpr int most_by_messages = 32;
  PostedByMessages by_messages[most_by_messages];
};

inline constexpr std::size_t pull_tickets = 64;  // payloads of ours that one peer may be reading

// Offsets in bytes.
class FirstSegment {
 public:
  FirstSegment(int ranks, std::uint32_t ring_lines)
      : ranks_(static_cast<std::size_t>(ranks)), ring_lines_(ring_lines) {}

  // How far `reader` says that it has read this rank's messages: a word.
  std::size_t credit(int reader) const { return 2 * page + static_cast<std::size_t>(reader) * 64; }
  // Which of this rank's payloads `reader` has read: pull_tickets generations.
  std::size_t pulled(int reader) const {
    return 2 * page + ranks_ * 64 + static_cast<std::size_t>(reader) * pull_tickets * sizeof(std::uint32_t);
  }
  // What `writer` has to say to this rank.
  std::size_t ring(int writer) const {
    return pulled(static_cast<int>(ranks_)) + static_cast<std::size_t>(writer) * ring_lines_ * sizeof(MailboxLine);
  }
  std::size_t bytes() const { return ring(static_cast<int>(ranks_)); }
  // One peer's: its ring, where it tells how far it has read ours, and which payloads.
  std::size_t mailbox_bytes() const {
    return 64 + pull_tickets * sizeof(std::uint32_t) + ring_lines_ * sizeof(MailboxLine);
  }

  static constexpr std::size_t slabs_offset() { return page; }
  static ControlPage* control_in(std::byte* segment) { return reinterpret_cast<ControlPage*>(segment); }
  static SlabPage* slabs_in(std::byte* segment) { return reinterpret_cast<SlabPage*>(segment + page); }
  std::atomic<std::uint64_t>* credit_in(std::byte* segment, int reader) const {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(segment + credit(reader));
  }
  std::atomic<std::uint32_t>* pulled_in(std::byte* segment, int reader) const {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(segment + pulled(reader));
  }
  MailboxLine* ring_in(std::byte* segment, int writer) const {
    return reinterpret_cast<MailboxLine*>(segment + ring(writer));
  }

 private:
  static constexpr std::size_t page = 4096;
  static_assert(sizeof(ControlPage) <= page);

  std::size_t ranks_;
  std::uint32_t ring_lines_;
};

// What marks the lines of a job's rings.
inline std::uint16_t ring_tag(std::uint32_t cookie) { return static_cast<std::uint16_t>(cookie ^ (cookie >> 16)); }

}  // namespace ucft::detail
