#include "ucx_layer/transport/wire_format.hpp"

#include <algorithm>

namespace ucft::detail {

namespace {
// Carries a part of a value, whose place takes the one of the contributors: they are told by another message. (Of
// all_broadcast it takes that of the number of failures.)
bool is_piece(Phase phase) { return phase == Phase::reduce_scatter || phase == Phase::allgather; }

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
  const bool is_phase = header.phase <= static_cast<std::uint8_t>(gossip_phase);
  const bool is_control = header.phase >= static_cast<std::uint8_t>(Control::hello) &&
                          header.phase <= static_cast<std::uint8_t>(Control::has_left);
  if (!is_phase && !is_control) return Malformed::phase;
  if (header.outcome > static_cast<std::uint8_t>(Outcome::no_memory)) return Malformed::phase;
  if (header.list_length > failure_list_limit || header.value_bytes > limit) return Malformed::length;
  if (body_bytes(header) != following) return Malformed::length;
  if ((header.transport_flags & has_descriptor) != 0 &&
      (header.value_bytes < sizeof(WireDescriptor) || header.value_bytes > sizeof(WireDescriptor) + remote_key_limit))
    return Malformed::length;
  if (header.sender < 0) return Malformed::sender;
  return Malformed::no;
}

WireHeader compose_header(const Message& message, const WireStamp& stamp) {
  WireHeader header{};
  header.cookie = stamp.cookie;
  header.version = wire_version;
  header.phase = static_cast<std::uint8_t>(message.phase);
  header.flags = message.flags;
  header.communicator = stamp.communicator;
  header.place = stamp.place;
  header.signature = message.signature;
  header.operation = message.operation;
  header.sender = stamp.sender;
  header.attempt = message.attempt;
  header.prev = is_decision(message.phase) ? message.first_decided : message.prev;
  header.contributors = is_piece(message.phase) ? message.offset : message.contributors;
  const std::uint32_t count = message.phase == Phase::all_broadcast ? message.offset : message.failed_count;
  header.failed_count = static_cast<std::uint16_t>(std::min<std::uint32_t>(count, 0xffff));
  header.list_length = static_cast<std::uint8_t>(message.list_length);
  header.outcome = static_cast<std::uint8_t>(message.outcome);
  if ((message.flags & (is_decided | by_gossip)) != 0) header.transport_flags = has_ballots;
  return header;
}

Message parse_header(const WireHeader& header, std::span<const std::int32_t> ballots) {
  Message message;
  message.operation = header.operation;
  message.peer = header.sender;
  message.attempt = header.attempt;
  message.signature = header.signature;
  message.phase = static_cast<Phase>(header.phase);
  message.flags = header.flags;
  message.outcome = static_cast<Outcome>(header.outcome);
  (is_piece(message.phase) ? message.offset : message.contributors) = header.contributors;
  (message.phase == Phase::all_broadcast ? message.offset : message.failed_count) = header.failed_count;
  message.list_length = header.list_length;
  if (is_decision(message.phase))
    message.first_decided = header.prev;
  else
    message.prev = header.prev;
  if ((header.transport_flags & has_ballots) != 0) {
    message.first_decided = ballots[0];
    if (message.has(by_gossip))
      message.age_ns = std::max(ballots[1], 0);
    else
      message.accepted = ballots[1];
  } else {
    message.flags = static_cast<std::uint8_t>(message.flags & ~(is_decided | by_gossip));
  }
  return message;
}

Message envelope_of(const GossipMessage& message, Slice value) {
  Message envelope;
  envelope.phase = gossip_phase;
  envelope.operation = message.operation;
  envelope.peer = message.peer;
  envelope.flags = message.flags;
  envelope.signature = message.tag;
  envelope.attempt = static_cast<Rank>(message.number);
  envelope.prev = static_cast<Rank>(message.ack);
  envelope.contributors = message.era;
  envelope.value = value;
  return envelope;
}

GossipMessage parse_gossip(const WireHeader& header) {
  GossipMessage message;
  message.operation = header.operation;
  message.peer = header.sender;
  message.flags = header.flags;
  message.tag = header.signature;
  message.number = static_cast<std::uint32_t>(header.attempt);
  message.ack = static_cast<std::uint32_t>(header.prev);
  message.era = header.contributors;
  return message;
}

}  // namespace ucft::detail
