// The wire format: what is composed is what is parsed; what does not fit is named; nothing that arrives can make
// examine() or parse_header() read beyond what is there (run it under AddressSanitizer).
#include "ucx_layer/transport/wire_format.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace ucft::detail {
namespace {

constexpr std::uint32_t cookie = 0xc0ffee01;
constexpr std::uint64_t limit = 2048;
const WireStamp context{cookie, 7, 3, 5};
const Tail no_tail{};

bool carries_decision(Phase phase) {
  return phase == Phase::broadcast || phase == Phase::correction || phase == Phase::decided;
}

// A header on its own, exactly as many bytes as there are: an overrun is caught.
struct Arrived {
  explicit Arrived(const WireHeader& header) : bytes(sizeof(WireHeader)) {
    std::memcpy(bytes.data(), &header, sizeof(header));
  }
  const WireHeader& header() const { return *reinterpret_cast<const WireHeader*>(bytes.data()); }
  std::vector<std::byte> bytes;
};

WireHeader plain_header() {
  Message message;
  message.attempt = 0;
  return compose_header(message, context);
}

Malformed judge(const WireHeader& header) { return examine(header, cookie, body_bytes(header), limit); }

TEST(WireFormat, HeaderFieldsAreWhereTheDocumentSaysTheyAre) {
  EXPECT_EQ(sizeof(WireHeader), 48u);
  EXPECT_EQ(offsetof(WireHeader, cookie), 0u);
  EXPECT_EQ(offsetof(WireHeader, version), 4u);
  EXPECT_EQ(offsetof(WireHeader, phase), 5u);
  EXPECT_EQ(offsetof(WireHeader, flags), 6u);
  EXPECT_EQ(offsetof(WireHeader, transport_flags), 7u);
  EXPECT_EQ(offsetof(WireHeader, communicator), 8u);
  EXPECT_EQ(offsetof(WireHeader, place), 12u);
  EXPECT_EQ(offsetof(WireHeader, signature), 14u);
  EXPECT_EQ(offsetof(WireHeader, operation), 16u);
  EXPECT_EQ(offsetof(WireHeader, sender), 24u);
  EXPECT_EQ(offsetof(WireHeader, value_bytes), 28u);
  EXPECT_EQ(offsetof(WireHeader, message.attempt), 32u);
  EXPECT_EQ(offsetof(WireHeader, message.prev), 36u);
  EXPECT_EQ(offsetof(WireHeader, message.contributors), 40u);
  EXPECT_EQ(offsetof(WireHeader, message.failed_count), 44u);
  EXPECT_EQ(offsetof(WireHeader, message.list_length), 46u);
  EXPECT_EQ(offsetof(WireHeader, message.outcome), 47u);
  EXPECT_EQ(offsetof(WireHeader, piece.source), 32u);
  EXPECT_EQ(offsetof(WireHeader, piece.prev), 36u);
  EXPECT_EQ(offsetof(WireHeader, piece.offset), 40u);
  EXPECT_EQ(offsetof(WireHeader, piece.of_bytes), 44u);
  EXPECT_EQ(offsetof(WireHeader, gossip.number), 32u);
  EXPECT_EQ(offsetof(WireHeader, gossip.ack), 36u);
  EXPECT_EQ(offsetof(WireHeader, gossip.era), 40u);
  EXPECT_EQ(offsetof(WireHeader, control.about), 32u);
  EXPECT_EQ(sizeof(WireDescriptor), 48u);
}

TEST(WireFormat, EveryPhaseAndFlagComesBackAsItWasSent) {
  int seen = 0;
  for (int phase = 0; phase < phase_count; ++phase)
    for (int flags = 0; flags < 256; ++flags)
      for (int outcome = 0; outcome <= static_cast<int>(Outcome::mismatch); ++outcome) {
        Message sent;
        sent.operation = 0x123456789abcdefull;
        sent.phase = static_cast<Phase>(phase);
        sent.attempt = 11;
        const bool piece = carries_piece(static_cast<Phase>(phase)), is_long = piece && outcome % 2 == 1;
        if (piece) {
          sent.attempt = optimistic_ballot;
          sent.source = 12;
          sent.offset = 0xfffffff0u;
          sent.of_bytes = is_long ? 0x1ffffff00u : 0xffffff00u;
        } else {
          sent.contributors = 0xfffffff0u;
          sent.failed_count = 300;
          sent.list_length = failure_list_limit;
          sent.outcome = static_cast<Outcome>(outcome);
        }
        sent.signature = 0xbeef;
        sent.flags = static_cast<std::uint8_t>(flags);
        if (piece) sent.flags = static_cast<std::uint8_t>(sent.flags & ~(is_decided | by_gossip));
        const bool gossips = sent.has(by_gossip), decided = sent.has(is_decided) || gossips;
        const bool decision = carries_decision(sent.phase);
        if (!decision) sent.prev = 4;
        if (decision || decided) sent.first_decided = 2;
        if (decided) (gossips ? sent.age_ns : sent.accepted) = 9;

        const WireHeader header = compose_header(sent, context);
        ASSERT_EQ(judge(header), Malformed::no);
        EXPECT_EQ(header.communicator, 7u);
        EXPECT_EQ(header.place, 3);
        EXPECT_EQ((header.transport_flags & has_tail) != 0, decided || is_long);
        const Message got = parse_header(header, decided || is_long ? tail_of(sent) : no_tail);
        ASSERT_EQ(got.operation, sent.operation);
        ASSERT_EQ(got.peer, 5);
        ASSERT_EQ(got.attempt, sent.attempt);
        ASSERT_EQ(got.prev, sent.prev) << "phase " << phase << " flags " << flags;
        ASSERT_EQ(got.first_decided, sent.first_decided) << "phase " << phase << " flags " << flags;
        ASSERT_EQ(got.accepted, sent.accepted);
        ASSERT_EQ(got.age_ns, sent.age_ns);
        ASSERT_EQ(got.contributors, sent.contributors);
        ASSERT_EQ(got.offset, sent.offset);
        if (piece) {
          ASSERT_EQ(got.of_bytes, sent.of_bytes);
        }
        ASSERT_EQ(got.failed_count, sent.failed_count);
        ASSERT_EQ(got.list_length, sent.list_length);
        ASSERT_EQ(got.signature, sent.signature);
        ASSERT_EQ(got.phase, sent.phase);
        ASSERT_EQ(got.flags, sent.flags);
        ASSERT_EQ(got.outcome, sent.outcome);
        ASSERT_FALSE(got.value);
        ASSERT_EQ(got.list, no_buffer);
        ++seen;
      }
  EXPECT_EQ(seen, 15 * 256 * 4);
}

TEST(WireFormat, AGossipRowComesBackAsItWasSent) {
  GossipMessage sent;
  sent.operation = 1ull << 40;
  sent.number = 70000;
  sent.ack = ~0u;
  sent.era = 0xfffffff0u;
  sent.tag = 3;
  sent.flags = 0xff;
  const WireHeader header = compose_header(sent, context);
  EXPECT_EQ(header.phase, 15);
  EXPECT_EQ(header.transport_flags, 0) << "no ballots follow, whatever the flags are";
  EXPECT_EQ(judge(header), Malformed::no);
  EXPECT_EQ(parse_header(header, {}).phase, gossip_phase);
  const GossipMessage got = parse_gossip(header);
  EXPECT_EQ(got.operation, sent.operation);
  EXPECT_EQ(got.peer, context.sender);
  EXPECT_EQ(got.number, sent.number);
  EXPECT_EQ(got.ack, sent.ack);
  EXPECT_EQ(got.era, sent.era);
  EXPECT_EQ(got.tag, sent.tag);
  EXPECT_EQ(got.flags, sent.flags);
}

TEST(WireFormat, FailedCountSaturatesAt65535) {
  Message message;
  message.failed_count = 70000;
  EXPECT_EQ(parse_header(compose_header(message, context), {}).failed_count, 65535u);
}

TEST(WireFormat, IsDecidedWithoutBallotsIsNoDecision) {
  WireHeader header = plain_header();
  header.flags = is_decided | has_value;
  header.transport_flags = 0;
  EXPECT_EQ(parse_header(header, {}).flags, has_value);
}

TEST(WireFormat, ABroadcastByGossipHasAnAgeWhichIsNeverNegative) {
  Message message;
  message.flags = by_gossip | has_value;
  const Message got = parse_header(compose_header(message, context), {3, static_cast<std::uint32_t>(-1)});
  EXPECT_EQ(got.age_ns, 0);
  EXPECT_EQ(got.first_decided, 3);
  WireHeader header = plain_header();
  header.flags = by_gossip | has_value;
  header.transport_flags = 0;
  EXPECT_EQ(parse_header(header, {}).flags, has_value);
}

TEST(WireFormat, ControlMessagesAreWellFormed) {
  for (Control control :
       {Control::hello, Control::leave, Control::leaves_communicator, Control::excluded, Control::failed,
        Control::lets_go, Control::leaving, Control::knows_leaving, Control::left, Control::has_left}) {
    WireHeader header = plain_header();
    header.phase = static_cast<std::uint8_t>(control);
    EXPECT_EQ(judge(header), Malformed::no);
  }
}

TEST(WireFormat, BodyIsValueThenTailThenList) {
  WireHeader header = plain_header();
  header.value_bytes = 100;
  EXPECT_EQ(body_bytes(header), 100u);
  header.transport_flags = has_tail;
  EXPECT_EQ(body_bytes(header), 108u);
  header.message.list_length = 3;
  EXPECT_EQ(body_bytes(header), 120u);
  header.value_bytes = 0xffffffffu;
  EXPECT_EQ(body_bytes(header), 0xffffffffull + 20) << "no overflow at 32 bits";
}

TEST(WireFormat, ForeignCookieIsNamed) {
  WireHeader header = plain_header();
  header.cookie ^= 1;
  EXPECT_EQ(judge(header), Malformed::cookie);
  EXPECT_STREQ(malformed_name(Malformed::cookie), "foreign cookie");
}

TEST(WireFormat, UnknownVersionIsNamed) {
  WireHeader header = plain_header();
  header.version = wire_version + 1;
  EXPECT_EQ(judge(header), Malformed::version);
  EXPECT_STREQ(malformed_name(Malformed::version), "unknown version");
}

TEST(WireFormat, UnknownPhaseAndOutcomeAreNamed) {
  for (int phase = 0; phase < 256; ++phase) {
    const bool known = phase < phase_count || phase == 15 || (phase >= 16 && phase <= 25) || phase == 32 ||
                       phase == 33;  // 15: gossip; 32, 33: letters
    WireHeader header = plain_header();
    header.phase = static_cast<std::uint8_t>(phase);
    EXPECT_EQ(judge(header), known ? Malformed::no : Malformed::phase) << phase;
  }
  WireHeader header = plain_header();
  header.message.outcome = static_cast<std::uint8_t>(Outcome::no_memory) + 1;
  EXPECT_EQ(judge(header), Malformed::phase);
  header = compose_header(Letter{.kind = Letter::Kind::credit}, context);
  EXPECT_EQ(judge(header), Malformed::no);
  header.flags = static_cast<std::uint8_t>(Letter::Kind::credit) + 1;
  EXPECT_EQ(judge(header), Malformed::phase) << "no kind of letter";
  header = compose_header(QuorumLetter{.kind = QuorumLetter::Kind::closing, .body = {}}, 0, context);
  EXPECT_EQ(judge(header), Malformed::no);
  header.flags = quorum_kind_count;
  EXPECT_EQ(judge(header), Malformed::phase) << "no kind of letter of a quorum allreduce";
  EXPECT_STREQ(malformed_name(Malformed::phase), "unknown phase");
}

TEST(WireFormat, ALetterComesAsItWasSent) {
  const Letter sent{.kind = Letter::Kind::piece,
                    .peer = 7,
                    .number = 1ull << 40,
                    .tag = -3,
                    .credit = 4000000000u,
                    .offset = 1ull << 39};
  EXPECT_EQ(parse_letter(compose_header(Letter{.kind = Letter::Kind::offer, .bytes = 1ull << 38}, context)).bytes,
            1ull << 38);
  const WireHeader header = compose_header(sent, context);
  EXPECT_TRUE(header.is_of_letter());
  EXPECT_FALSE(header.is_control() || header.is_of_message() || header.is_of_piece() || header.is_of_gossip());
  const Letter got = parse_letter(header);
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_EQ(got.peer, context.sender) << "from whom it comes";
  EXPECT_EQ(got.number, sent.number);
  EXPECT_EQ(got.tag, sent.tag);
  EXPECT_EQ(got.credit, sent.credit);
  EXPECT_EQ(got.offset, sent.offset);
}

TEST(WireFormat, ALetterOfAQuorumComesAsItWasSent) {
  const QuorumLetter sent{
      .kind = QuorumLetter::Kind::token, .peer = 7, .number = 1ull << 40, .promised = 1ull << 50, .body = {}};
  const WireHeader header = compose_header(sent, 1ull << 60, context);
  EXPECT_TRUE(header.is_of_letter() && header.is_of_quorum());
  EXPECT_FALSE(header.is_control() || header.is_of_message() || header.is_of_piece() || header.is_of_gossip());
  EXPECT_EQ(header.quorum.number, 1ull << 60);
  const QuorumLetter got = parse_quorum(header);
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_EQ(got.peer, context.sender) << "from whom it comes";
  EXPECT_EQ(got.number, sent.number);
  EXPECT_EQ(got.promised, sent.promised);
}

TEST(WireFormat, LengthsThatDoNotFitAreNamed) {
  const WireHeader good = plain_header();
  EXPECT_EQ(examine(good, cookie, 1, limit), Malformed::length) << "a byte too many";
  WireHeader header = good;
  header.value_bytes = 8;
  EXPECT_EQ(examine(header, cookie, 7, limit), Malformed::length) << "a byte too few";
  EXPECT_EQ(examine(header, cookie, 8, limit), Malformed::no);
  EXPECT_EQ(examine(header, cookie, 8, 7), Malformed::length) << "more than may be in line";
  header = good;
  header.message.list_length = failure_list_limit + 1;
  EXPECT_EQ(judge(header), Malformed::length) << "a list longer than any";
  header = good;
  header.transport_flags = has_tail;
  EXPECT_EQ(examine(header, cookie, 0, limit), Malformed::length) << "a tail that is not there";
  header = good;
  header.value_bytes = 0xffffffffu;
  EXPECT_EQ(judge(header), Malformed::length);
  EXPECT_STREQ(malformed_name(Malformed::length), "length that does not fit");
}

TEST(WireFormat, DescriptorsOfAWrongSizeAreNamed) {
  WireHeader header = plain_header();
  header.transport_flags = has_descriptor;
  for (std::uint32_t bytes = 0; bytes <= limit; ++bytes) {
    header.value_bytes = bytes;
    const bool fits = bytes >= sizeof(WireDescriptor) && bytes <= sizeof(WireDescriptor) + remote_key_limit;
    EXPECT_EQ(judge(header), fits ? Malformed::no : Malformed::length) << bytes;
  }
}

TEST(WireFormat, UnknownSenderIsNamed) {
  WireHeader header = plain_header();
  header.sender = -1;
  EXPECT_EQ(judge(header), Malformed::sender);
  EXPECT_STREQ(malformed_name(Malformed::sender), "unknown sender");
  EXPECT_STREQ(malformed_name(Malformed::no), "fine");
}

// A header that says it has a value must have its bytes; combine() would read them.
// (Zero bytes are right where the operation has no data, so only the layer above can tell.)
TEST(WireFormat, ZeroBytesOfValueAreWellFormed) {
  WireHeader header = plain_header();
  header.flags = has_value;
  EXPECT_EQ(judge(header), Malformed::no);
}

// Everything that examine() lets through can be parsed with what its lengths say is there.
void parse_what_is_accepted(const WireHeader& header, std::uint64_t following) {
  const Arrived arrived(header);
  if (examine(arrived.header(), cookie, following, limit) != Malformed::no) return;
  ASSERT_EQ(body_bytes(arrived.header()), following);
  ASSERT_LE(following, limit + 8 + failure_list_limit * 4);
  const bool tail_follows = (arrived.header().transport_flags & has_tail) != 0;
  std::vector<std::byte> body(following);
  const std::size_t at = arrived.header().value_bytes;
  Tail tail{};
  if (tail_follows) std::memcpy(&tail, body.data() + at, sizeof tail);
  const Message message = parse_header(arrived.header(), tail);
  ASSERT_TRUE(message.peer >= 0);
  ASSERT_LE(message.list_length, failure_list_limit);
  ASSERT_LE(static_cast<int>(message.outcome), static_cast<int>(Outcome::no_memory));
  ASSERT_TRUE(tail_follows || (!message.has(is_decided) && !message.has(by_gossip)));
  ASSERT_GE(message.age_ns, 0);
}

TEST(WireFormatFuzz, FlippingAnyOneOrTwoBitsNeverReadsOutOfBounds) {
  for (int phase = 0; phase < phase_count; ++phase) {
    Message message;
    message.phase = static_cast<Phase>(phase);
    message.list_length = 2;
    message.flags = is_decided | has_value;
    const WireHeader good = compose_header(message, context);
    for (std::size_t a = 0; a < sizeof(WireHeader) * 8; ++a)
      for (std::size_t b = a; b < sizeof(WireHeader) * 8; ++b) {
        WireHeader flipped = good;
        auto* bytes = reinterpret_cast<unsigned char*>(&flipped);
        bytes[a / 8] ^= static_cast<unsigned char>(1u << a % 8);
        if (b != a) bytes[b / 8] ^= static_cast<unsigned char>(1u << b % 8);
        const std::uint64_t claimed = body_bytes(flipped);
        parse_what_is_accepted(flipped, claimed > 4096 ? body_bytes(good) : claimed);
        parse_what_is_accepted(flipped, body_bytes(good));
        if (HasFatalFailure()) return;
      }
  }
}

TEST(WireFormatFuzz, TwoMillionRandomHeadersNeverReadOutOfBounds) {
  std::mt19937_64 random(20);
  std::int64_t accepted = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    WireHeader header;
    std::uint64_t words[sizeof(WireHeader) / 8];
    for (std::uint64_t& word : words) word = random();
    std::memcpy(&header, words, sizeof(header));
    if (i % 2 == 0) {  // half of them pass the first gates
      header.cookie = cookie;
      header.version = wire_version;
      header.phase %= 24;
      header.message.outcome %= 5;
      header.value_bytes %= limit + 2;
      header.message.list_length %= failure_list_limit + 2;
    }
    const std::uint64_t claimed = body_bytes(header);
    const std::uint64_t following = random() % 4 == 0 || claimed > 4096 ? random() % 4096 : claimed;
    parse_what_is_accepted(header, following);
    if (HasFatalFailure()) return;
    accepted += examine(header, cookie, following, limit) == Malformed::no;
  }
  EXPECT_GT(accepted, 1000) << "the fuzz never got past the gates";
}

}  // namespace
}  // namespace ucft::detail
