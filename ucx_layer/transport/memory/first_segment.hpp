// The first segment of a rank's range, which all peers find at its beginning:
//
//   control page | slabs: the first page of their directory | mailboxes, one a peer: credit (a line), pull table, ring
//
// The ranks that it shares memory with have a mailbox, and those that it is connected with in start-up. No others have
// one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ucx_layer/transport/memory/mailbox.hpp"
#include "ucx_layer/transport/memory/slabs.hpp"

namespace ucft::detail {

// The rank's posts in a communicator whose ranks send messages. (Posts in other communicators stand in their slabs.)
struct alignas(64) PostedByMessages {
  std::atomic<std::uint64_t> key;             // 1 + communicator; 0: free
  std::atomic<std::uint64_t> rank_and_ranks;  // as in a slab
  std::atomic<std::uint64_t> posted;          // operations
  std::atomic<std::uint64_t> finished;        // all before that number are
  std::atomic<std::uint64_t> note;            // of the last one: HostNote
  std::atomic<std::int64_t> posted_at_ns;     // as in a slab
  std::atomic<std::int64_t> root;             // of the last one, of any kind
  std::atomic<std::uint64_t> bytes;           // of the last one
};

// A name of up to 31 characters, 0 behind it. The first word is 0 between two names. A reader that reads the same twice
// has read a name.
struct ActivityWords {
  static constexpr std::size_t count = 4;
  std::atomic<std::uint64_t> words[count];

  void store(const char* name) {  // null: none
    words[0].store(0, std::memory_order_relaxed);
    if (name == nullptr) return;
    std::uint64_t given[count] = {};
    std::memcpy(given, name, std::min(std::strlen(name), sizeof given - 1));
    for (std::size_t i = count; i-- > 0;) words[i].store(given[i], std::memory_order_release);
  }
};

// Of a job that newcomers may join, for observers from outside. The port is written last.
struct SeatWords {
  static constexpr std::size_t most = 1024;
  std::atomic<std::uint64_t> address[2];        // where newcomers may come: IPv6, or IPv4 mapped into it
  std::atomic<std::uint32_t> port;              // 0: nowhere, or this epoch is not the process's current one
  std::atomic<std::uint32_t> is_newcomer;       // 1: this process came when the job was under way
  std::atomic<std::uint64_t> empty[most / 64];  // a bit for each of the first so many seats: nobody has it
};

// Written by others where it says so.
struct ControlPage {
  std::uint64_t cookie;
  // For observers from outside (ucx_layer/observer), as the slabs' descriptions.
  std::int32_t rank, ranks;
  std::uint64_t address;                            // of this page in its owner
  std::uint64_t heartbeat_period_us;                // written when its detector starts
  std::atomic<std::int64_t> waits_since_ns;         // CLOCK_MONOTONIC; 0: it is not in a wait that has come to sleep
  std::atomic<std::int64_t> waited_until_ns;        // the last wait whose time limit has passed; 0: none
  alignas(64) std::atomic<std::uint32_t> sleeping;  // futex word: 1 while the rank sleeps (written by all)
  alignas(64) std::atomic<std::uint64_t> heartbeat;
  std::atomic<std::int64_t> beat_at_ns;         // CLOCK_MONOTONIC of the last one
  ActivityWords activity;                       // of the program, outside ucft
  alignas(64) std::atomic<std::uint32_t> left;  // Departures::Mark
  // Communicators below these numbers this rank has opened, or never will: those of all ranks, and others. See
  // HostLease.
  std::atomic<std::uint32_t> opened_for_all, opened;
  // Kept by this rank for others: UCX's endpoints that are open, lifelines, mailboxes (which over tcp are never used),
  // the bytes of the mailboxes.
  std::atomic<std::int32_t> connections, lifelines, mailboxes;
  std::atomic<std::uint64_t> mailbox_bytes;
  alignas(64) std::atomic<std::uint32_t> excluded;  // 1 + the rank that declared this one dead (written by others)
  std::atomic<std::uint32_t> killed_told_by, traced_told_by;  // 1 + the rank that says so on stderr
  // Of the host's first rank: one bit for each rank of the host that sleeps. So a rank that has news for many finds the
  // sleepers with a look at a word or two (written by all). Ranks share bits if there are more.
  static constexpr int sleeper_words = 16;
  alignas(64) std::atomic<std::uint64_t> sleepers[sleeper_words];
  // Of the first so many communicators that are there at a time. The posts in others can't be seen.
  static constexpr int most_by_messages = 32;
  PostedByMessages by_messages[most_by_messages];
  ActivityWords waits_in;  // a send or a receive: "recv from 3, tag 7", a rank of the job
  // 1: some rank waits for answers of this one, which may compute: its helper takes turns (written by others).
  std::atomic<std::uint32_t> answers_wanted;
  std::int32_t pid;  // of its owner, as the owner's namespace numbers processes
  SeatWords seats;
};

inline constexpr std::size_t pull_tickets = 64;  // payloads of ours that one peer may be reading

// Offsets in bytes. Mailboxes stand one after the other, so that a peer finds its own without knowing how many there
// are.
class FirstSegment {
 public:
  FirstSegment(int mailboxes, std::uint32_t ring_lines)
      : mailboxes_(static_cast<std::size_t>(mailboxes)), ring_lines_(ring_lines) {}

  // How far the peer of that mailbox says that it has read this rank's messages: a word.
  std::size_t credit(int mailbox) const { return 2 * page + static_cast<std::size_t>(mailbox) * mailbox_bytes(); }
  // Which of this rank's payloads it has read: pull_tickets generations.
  std::size_t pulled(int mailbox) const { return credit(mailbox) + 64; }
  // The ring in which the peer writes its messages to this rank.
  std::size_t ring(int mailbox) const { return pulled(mailbox) + pull_tickets * sizeof(std::uint32_t); }
  std::size_t mailbox_bytes() const {
    return 64 + pull_tickets * sizeof(std::uint32_t) + ring_lines_ * sizeof(MailboxLine);
  }
  std::size_t bytes() const { return credit(static_cast<int>(mailboxes_)); }

  static constexpr std::size_t slabs_offset() { return page; }
  static ControlPage* control_in(std::byte* segment) { return reinterpret_cast<ControlPage*>(segment); }
  static SlabPage* slabs_in(std::byte* segment) { return reinterpret_cast<SlabPage*>(segment + page); }
  std::atomic<std::uint64_t>* credit_in(std::byte* segment, int mailbox) const {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(segment + credit(mailbox));
  }
  std::atomic<std::uint32_t>* pulled_in(std::byte* segment, int mailbox) const {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(segment + pulled(mailbox));
  }
  MailboxLine* ring_in(std::byte* segment, int mailbox) const {
    return reinterpret_cast<MailboxLine*>(segment + ring(mailbox));
  }

 private:
  static constexpr std::size_t page = 4096;
  static_assert(sizeof(ControlPage) <= page);

  std::size_t mailboxes_;
  std::uint32_t ring_lines_;
};

// Which mailbox a rank has with each other one, and which that one has with it; -1: none.
struct MailboxPlaces {
  int count = 0;                 // of this rank
  std::vector<int> here, there;  // by rank

  static MailboxPlaces of_all(int ranks, int me) {
    MailboxPlaces places{ranks - 1, {}, {}};
    for (int peer = 0; peer < ranks; ++peer) {
      places.here.push_back(peer - (peer > me));
      places.there.push_back(me - (me > peer));
    }
    return places;
  }
};

// The tag that marks the lines of a job's rings.
inline std::uint16_t ring_tag(std::uint32_t cookie) { return static_cast<std::uint16_t>(cookie ^ (cookie >> 16)); }

}  // namespace ucft::detail
