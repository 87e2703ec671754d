#include "ucx_layer/transport/wire_format.hpp"

#include <algorithm>

namespace ucft::detail {

namespace {
bool is_decision(Phase phase) {
  return phase == Phase::broadcast || phase == Phase::correction || phase == Phase::decided;
}
}  // namespace

const char* malformed_name(Malformed what) {
  static constexpr const char* names[] = {"fine",          "foreign cookie",           "unknown version",
                                          "unknown phase", "length that does not fit", "unknown sender"};
  return names[static_cast<int>(what)];
}

Malformed examine(const WireHeader& header, std::uint32_t cookie, std::uint64_t following, std::uint64_t limit) {
  if (header.cookie != cookie) return Malformed::cookie;
  if (header.version != wire_version) return Malformed::version;
  const bool is_known = header.is_control()
                            ? header.phase <= static_cast<std::uint8_t>(Control::has_left)
                            : header.phase <= static_cast<std::uint8_t>(gossip_phase) || header.is_of_letter();
  if (!is_known) return Malformed::phase;
  if (header.is_of_letter() &&
      header.flags >= (header.is_of_quorum() ? quorum_kind_count : static_cast<int>(Letter::Kind::credit) + 1))
    return Malformed::phase;
  if (header.is_of_message() && header.message.outcome > static_cast<std::uint8_t>(Outcome::no_memory))
    return Malformed::phase;
  if (header.list_length() > failure_list_limit || header.value_bytes > limit) return Malformed::length;
  if (body_bytes(header) != following) return Malformed::length;
  if ((header.transport_flags & has_descriptor) != 0 &&
      (header.value_bytes < sizeof(WireDescriptor) || header.value_bytes > sizeof(WireDescriptor) + remote_key_limit))
    return Malformed::length;
  if (header.sender < 0) return Malformed::sender;
  return Malformed::no;
}

namespace {

WireHeader stamped(const WireStamp& stamp) {
  WireHeader header{};
  header.cookie = stamp.cookie;
  header.version = wire_version;
  header.communicator = stamp.communicator;
  header.place = stamp.place;
  header.sender = stamp.sender;
  return header;
}

}  // namespace

WireHeader compose_header(const Message& message, const WireStamp& stamp) {
  WireHeader header = stamped(stamp);
  header.phase = static_cast<std::uint8_t>(message.phase);
  header.flags = message.flags;
  header.signature = message.signature;
  header.operation = message.operation;
  if (header.is_of_piece()) {
    header.piece = {message.source, message.prev, static_cast<std::uint32_t>(message.offset),
                    static_cast<std::uint32_t>(message.of_bytes)};
    if (std::max(message.offset, message.of_bytes) > UINT32_MAX) header.transport_flags = has_tail;
    return header;
  }
  header.message = {message.attempt,
                    is_decision(message.phase) ? message.first_decided : message.prev,
                    message.contributors,
                    static_cast<std::uint16_t>(std::min<std::uint32_t>(message.failed_count, 0xffff)),
                    static_cast<std::uint8_t>(message.list_length),
                    static_cast<std::uint8_t>(message.outcome)};
  if ((message.flags & (is_decided | by_gossip)) != 0) header.transport_flags = has_tail;
  return header;
}

Message parse_header(const WireHeader& header, const Tail& tail) {
  Message message;
  message.operation = header.operation;
  message.peer = header.sender;
  message.signature = header.signature;
  message.phase = static_cast<Phase>(header.phase);
  message.flags = header.flags;
  if (header.is_of_piece()) {
    message.attempt = optimistic_ballot;
    message.source = header.piece.source;
    message.prev = header.piece.prev;
    message.offset = header.piece.offset;
    message.of_bytes = header.piece.of_bytes;
    if ((header.transport_flags & has_tail) != 0) {
      message.offset |= std::uint64_t{tail.first} << 32;
      message.of_bytes |= std::uint64_t{tail.second} << 32;
    }
    message.flags = static_cast<std::uint8_t>(message.flags & ~(is_decided | by_gossip));
    return message;
  }
  if (header.is_of_message()) {
    message.attempt = header.message.attempt;
    (is_decision(message.phase) ? message.first_decided : message.prev) = header.message.prev;
    message.contributors = header.message.contributors;
    message.failed_count = header.message.failed_count;
    message.list_length = header.message.list_length;
    message.outcome = static_cast<Outcome>(header.message.outcome);
  }
  if ((header.transport_flags & has_tail) != 0) {
    message.first_decided = static_cast<Rank>(tail.first);
    if (message.has(by_gossip))
      message.age_ns = std::max(static_cast<std::int32_t>(tail.second), 0);
    else
      message.accepted = static_cast<Rank>(tail.second);
  } else {
    message.flags = static_cast<std::uint8_t>(message.flags & ~(is_decided | by_gossip));
  }
  return message;
}

WireHeader compose_header(const GossipMessage& message, const WireStamp& stamp) {
  WireHeader header = stamped(stamp);
  header.phase = static_cast<std::uint8_t>(gossip_phase);
  header.flags = message.flags;
  header.signature = message.tag;
  header.operation = message.operation;
  header.gossip = {message.number, message.ack, message.era, 0};
  return header;
}

GossipMessage parse_gossip(const WireHeader& header) {
  GossipMessage message;
  message.operation = header.operation;
  message.peer = header.sender;
  message.flags = header.flags;
  message.tag = header.signature;
  message.number = header.gossip.number;
  message.ack = header.gossip.ack;
  message.era = header.gossip.era;
  return message;
}

WireHeader compose_header(const Letter& letter, const WireStamp& stamp) {
  WireHeader header = stamped(stamp);
  header.phase = static_cast<std::uint8_t>(letter_phase);
  header.flags = static_cast<std::uint8_t>(letter.kind);
  header.operation = letter.number;
  header.letter = {letter.tag, letter.credit, letter.kind == Letter::Kind::piece ? letter.offset : letter.bytes};
  return header;
}

Letter parse_letter(const WireHeader& header) {
  Letter letter;
  letter.kind = static_cast<Letter::Kind>(header.flags);
  letter.peer = header.sender;
  letter.number = header.operation;
  letter.tag = header.letter.tag;
  letter.credit = header.letter.credit;
  (letter.kind == Letter::Kind::piece ? letter.offset : letter.bytes) = header.letter.offset_or_bytes;
  return letter;
}

WireHeader compose_header(const QuorumLetter& letter, std::uint64_t number, const WireStamp& stamp) {
  WireHeader header = stamped(stamp);
  header.phase = static_cast<std::uint8_t>(quorum_phase);
  header.flags = static_cast<std::uint8_t>(letter.kind);
  header.operation = letter.number;
  header.quorum = {letter.promised, number};
  return header;
}

QuorumLetter parse_quorum(const WireHeader& header) {
  return {static_cast<QuorumLetter::Kind>(header.flags), header.sender, header.operation, header.quorum.promised, {}};
}

}  // namespace ucft::detail
