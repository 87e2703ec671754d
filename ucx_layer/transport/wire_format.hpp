// The bytes that travel. docs/wire_format.md describes them one by one; examine() is the only way in.
//
//   mailbox         header (48 bytes) | value or descriptor | tail (if has_tail) | list of failures
//   active message  header | tail | failure list as UCX's header, the value as its data
//
// All numbers are little-endian. A message with a foreign cookie, an unknown version or lengths that don't fit is
// malformed: it is counted, logged once, dropped, and never reaches an algorithm.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "collectives/gossip/gossip_message.hpp"
#include "collectives/point_to_point/point_to_point.hpp"
#include "collectives/quorum/quorum_letter.hpp"
#include "collectives/core/protocol.hpp"
#include "ucx_layer/transport/memory/shared_memory.hpp"

namespace ucft::detail {

inline constexpr std::uint8_t wire_version = 13;

// Beyond the phases of the algorithms: messages of the layer itself.
enum class Control : std::uint8_t {
  none = 0,
  hello = 16,  // wire-up
  leave =
      17,  // the sender has left the job: it is not failed; flags: 1 if all that live knew before that it was about to
  leaves_communicator =
      18,  // the sender posts nothing there from `operation` on, and no gossip operation from `about` on, and has sent
           // so many letters to this rank; flags: 1 if it answers nothing there any more, either
  excluded = 19,       // you were declared dead
  failed = 20,         // context rank `about` has failed; flags: 1 if that is proved, 0 if it was only silent
  lets_go = 21,        // the sender needs nothing more of this rank in the communicator
  leaving = 22,        // the sender is about to leave the job
  knows_leaving = 23,  // the answer
  left = 24,           // context rank `about` has left; flags: as of leave
  has_left = 25,       // a question: has this rank left the communicator? Answered if it has
};

// The fields of a control message, if it has any.
struct ControlWord {
  std::uint64_t operation = 0;
  std::int32_t about = 0;
  bool flag = false;  // MessageFlags' first
  std::uint32_t letters = 0;
};

// A message of a gossip operation (GossipMessage), of sends and receives (Letter), or of quorum allreduces
// (QuorumLetter).
inline constexpr Phase gossip_phase{phase_count};
inline constexpr Phase letter_phase{32}, quorum_phase{33};

enum TransportFlags : std::uint8_t {
  has_descriptor = 1,  // the value stays at the sender: pull it
  has_tail = 2,        // two further numbers follow the value: Tail
};

// Of a message: first_decided, and accepted or (of a broadcast by gossip) its age. Of a piece: the upper halves of
// offset and of_bytes; it has them where one is 4 GiB or more.
struct Tail {
  std::uint32_t first, second;
};

// The last third has six forms. The phase says which.
struct WireHeader {
  // Of a message of a collective.
  struct OfMessage {
    std::int32_t attempt;
    std::int32_t prev;  // decisions: first_decided
    std::uint32_t contributors;
    std::uint16_t failed_count;  // saturates
    std::uint8_t list_length;
    std::uint8_t outcome;
  };
  // Of a part of a value, in the optimistic ballot. It counts nothing and lists nothing.
  struct OfPiece {
    std::int32_t source;
    std::int32_t prev;
    std::uint32_t offset;
    std::uint32_t of_bytes;
  };
  struct OfGossip {  // see GossipMessage
    std::uint32_t number;
    std::uint32_t ack;
    std::uint32_t era;
    std::uint32_t unused;
  };
  struct OfLetter {  // see Letter
    std::int32_t tag;
    std::uint32_t credit;
    std::uint64_t offset_or_bytes;  // of a piece, its offset
  };
  struct OfQuorum {  // see QuorumLetter
    std::uint64_t promised;
    std::uint64_t number;  // of this letter, from its sender to its receiver in the communicator
  };
  struct OfControl {
    std::int32_t about;  // see Control
    std::uint32_t letters;
    std::uint32_t unused[2];
  };

  std::uint32_t cookie;
  std::uint8_t version;
  std::uint8_t phase;  // Phase, or Control
  std::uint8_t flags;  // MessageFlags
  std::uint8_t transport_flags;
  std::uint32_t communicator;
  // Of a packet between processes (collectives/among/process_replica.hpp): which one it is, or which word.
  std::uint16_t place;
  std::uint16_t signature;  // gossip: tag
  std::uint64_t operation;
  std::int32_t sender;        // rank in the communicator; in the context for Control
  std::uint32_t value_bytes;  // of the inline value or of the descriptor; saturates where UCX says how long it is
  union {
    OfMessage message;
    OfPiece piece;
    OfGossip gossip;
    OfControl control;
    OfLetter letter;
    OfQuorum quorum;
  };

  bool is_of_quorum() const { return phase == static_cast<std::uint8_t>(quorum_phase); }
  // Of either kind.
  bool is_of_letter() const { return phase == static_cast<std::uint8_t>(letter_phase) || is_of_quorum(); }
  bool is_control() const { return phase >= static_cast<std::uint8_t>(Control::hello) && !is_of_letter(); }
  bool is_of_gossip() const { return phase == static_cast<std::uint8_t>(gossip_phase); }
  bool is_of_piece() const { return carries_piece(Phase{phase}); }
  bool is_of_message() const { return !is_control() && !is_of_gossip() && !is_of_piece() && !is_of_letter(); }
  std::uint32_t list_length() const { return is_of_message() ? message.list_length : 0; }
};
static_assert(sizeof(WireHeader) == 48);

struct WireDescriptor {
  std::uint64_t address;  // of the value, in the owner
  std::uint64_t bytes;
  std::uint32_t ticket;  // index into the owner's table of pulls; the reader writes generation there
  std::uint32_t generation;
  SegmentName segment;  // that it lies in
};
static_assert(sizeof(WireDescriptor) == 48);

// Of a value: a set of blocks has their records, too.
inline constexpr std::uint64_t value_limit = 2 * bytes_limit;

// Between hosts UCX's packed remote key of the segment follows the descriptor: so many bytes at most.
inline constexpr std::size_t remote_key_limit = 256;

// The bytes that follow the header.
inline std::uint64_t body_bytes(const WireHeader& header) {
  return std::uint64_t{header.value_bytes} + (header.transport_flags & has_tail ? sizeof(Tail) : 0) +
         std::uint64_t{header.list_length()} * 4;
}

enum class Malformed : std::uint8_t { no, cookie, version, phase, length, sender };
const char* malformed_name(Malformed what);

// Whether a header with `following` bytes behind it can be trusted. limit: bytes that a value may have in line.
Malformed examine(const WireHeader& header, std::uint32_t cookie, std::uint64_t following, std::uint64_t limit);

struct WireStamp {
  std::uint32_t cookie;
  std::uint32_t communicator;
  std::uint16_t place;
  std::int32_t sender;
};

// The header of a message; value_bytes and transport_flags' has_descriptor are the transport's to set.
WireHeader compose_header(const Message& message, const WireStamp& stamp);
// The numbers that follow the value, if has_tail.
inline Tail tail_of(const Message& message) {
  if (carries_piece(message.phase))
    return {static_cast<std::uint32_t>(message.offset >> 32), static_cast<std::uint32_t>(message.of_bytes >> 32)};
  return {static_cast<std::uint32_t>(message.first_decided),
          static_cast<std::uint32_t>(message.has(by_gossip) ? message.age_ns : message.accepted)};
}
// The fields of a message, without value and list.
Message parse_header(const WireHeader& header, const Tail& tail);

// The same of a row of gossip.
WireHeader compose_header(const GossipMessage& message, const WireStamp& stamp);
GossipMessage parse_gossip(const WireHeader& header);

// The same of a letter.
WireHeader compose_header(const Letter& letter, const WireStamp& stamp);
Letter parse_letter(const WireHeader& header);
WireHeader compose_header(const QuorumLetter& letter, std::uint64_t number, const WireStamp& stamp);
QuorumLetter parse_quorum(const WireHeader& header);  // without its body

}  // namespace ucft::detail
