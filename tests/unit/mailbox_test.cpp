// Mailboxes: a message is seen when every one of its lines is there, and never before; rings wrap, credit returns.
#include "ucx_layer/transport/memory/mailbox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace ucft::detail {
namespace {

using Bytes = std::vector<std::byte>;

struct Mailbox : testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Of, Mailbox, testing::Values(mailbox_lines, mailbox_few_lines));

struct Ring {
  explicit Ring(std::uint32_t count) : count(count), lines(new MailboxLine[count]()) {}
  MailboxWriter writer(std::uint16_t tag = 9) { return {lines.get(), &consumed, tag, count}; }
  MailboxReader reader(std::uint16_t tag = 9) { return {lines.get(), &consumed, tag, count}; }
  const std::uint32_t count;
  std::unique_ptr<MailboxLine[]> lines;
  std::atomic<std::uint64_t> consumed{0};
};

Bytes pattern(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes data(bytes);
  for (std::byte& each : data) each = static_cast<std::byte>(random());
  return data;
}

void write(MailboxWriter& writer, const Bytes& data) {
  const std::span<const std::byte> parts[] = {data};
  writer.write(parts);
}

void expect_and_consume(MailboxReader& reader, const Bytes& data) {
  const std::uint32_t lines = mailbox_lines_of(data.size());
  ASSERT_TRUE(reader.has_lines(lines));
  Bytes got(data.size());
  reader.copy(0, got.data(), got.size());
  ASSERT_EQ(got, data);
  reader.consume(lines);
}

TEST_P(Mailbox, LinesOfAMessageAreCountedByPayload) {
  EXPECT_EQ(mailbox_lines_of(1), 1u);
  EXPECT_EQ(mailbox_lines_of(56), 1u);
  EXPECT_EQ(mailbox_lines_of(57), 2u);
  EXPECT_EQ(mailbox_lines_of(64 * 56), 64u);
}

TEST_P(Mailbox, AnEmptyRingHasNoMessage) {
  for (std::uint16_t tag : {0, 1, 0xffff}) {
    Ring ring(GetParam());
    MailboxReader reader = ring.reader(tag);
    EXPECT_FALSE(reader.has_line());
    EXPECT_FALSE(reader.has_lines(1));
  }
}

TEST_P(Mailbox, MessagesOfAllLengthsArriveWhole) {
  Ring ring(GetParam());
  MailboxWriter writer = ring.writer();
  MailboxReader reader = ring.reader();
  for (std::uint32_t lines = 1; lines <= mailbox_longest; ++lines)
    for (std::size_t bytes : {(lines - 1) * 56 + 1, lines * 56 - 1, lines * 56}) {
      const Bytes data = pattern(bytes, bytes);
      ASSERT_EQ(mailbox_lines_of(bytes), lines);
      ASSERT_TRUE(writer.has_room(lines));
      write(writer, data);
      expect_and_consume(reader, data);
      if (HasFatalFailure()) return;
      ASSERT_FALSE(reader.has_line());
    }
}

TEST_P(Mailbox, RingsWrapAroundManyTimes) {
  Ring ring(GetParam());
  MailboxWriter writer = ring.writer();
  MailboxReader reader = ring.reader();
  std::mt19937_64 random(4);
  std::uint64_t lines = 0;
  for (int i = 0; lines < 100 * GetParam(); ++i) {
    const Bytes data = pattern(1 + random() % (mailbox_longest * 56), static_cast<std::uint64_t>(i));
    ASSERT_TRUE(writer.has_room(mailbox_lines_of(data.size())));
    write(writer, data);
    expect_and_consume(reader, data);
    if (HasFatalFailure()) return;
    lines += mailbox_lines_of(data.size());
  }
}

TEST_P(Mailbox, AFullRingHasNoRoomUntilCreditComesBack) {
  Ring ring(GetParam());
  MailboxWriter writer = ring.writer();
  MailboxReader reader = ring.reader();
  const Bytes line = pattern(56, 1);
  for (std::uint32_t i = 0; i < GetParam(); ++i) {
    ASSERT_TRUE(writer.has_room(1)) << i;
    write(writer, line);
  }
  EXPECT_FALSE(writer.has_room(1));
  for (std::uint32_t i = 0; i < GetParam() / 4 - 1; ++i) expect_and_consume(reader, line);
  EXPECT_EQ(ring.consumed, 0u) << "credit is published every quarter ring";
  EXPECT_FALSE(writer.has_room(1));
  expect_and_consume(reader, line);
  EXPECT_EQ(ring.consumed, GetParam() / 4);
  EXPECT_TRUE(writer.has_room(GetParam() / 4));
  EXPECT_FALSE(writer.has_room(GetParam() / 4 + 1));
}

TEST_P(Mailbox, BeforeSleepingAllCreditIsGivenBack) {
  Ring ring(GetParam());
  MailboxWriter writer = ring.writer();
  MailboxReader reader = ring.reader();
  write(writer, pattern(10, 1));
  reader.consume(1);
  EXPECT_EQ(ring.consumed, 0u);
  reader.publish();
  EXPECT_EQ(ring.consumed, 1u);
  reader.publish();
  EXPECT_EQ(ring.consumed, 1u);
}

TEST_P(Mailbox, TheLongestMessageAlwaysFindsRoomOnceTheReaderHasCaughtUp) {
  Ring ring(GetParam());
  MailboxWriter writer = ring.writer();
  MailboxReader reader = ring.reader();
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {  // never publish(): only the quarter-ring rule returns credit
    const Bytes data = pattern(1 + random() % (mailbox_longest * 56), static_cast<std::uint64_t>(i));
    ASSERT_TRUE(writer.has_room(mailbox_longest)) << i;
    write(writer, data);
    expect_and_consume(reader, data);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Mailbox, PartsAreJoinedAndEmptyPartsTakeNoPlace) {
  Ring ring(GetParam());
  MailboxWriter writer = ring.writer();
  MailboxReader reader = ring.reader();
  const Bytes header = pattern(48, 1), value = pattern(100, 2), list = pattern(12, 3), none;
  const std::span<const std::byte> parts[] = {none, header, none, none, value, list, none};
  writer.write(parts);
  Bytes all = header;
  all.insert(all.end(), value.begin(), value.end());
  all.insert(all.end(), list.begin(), list.end());
  expect_and_consume(reader, all);
  EXPECT_FALSE(reader.has_line()) << "160 bytes are 3 lines, not more";
}

TEST_P(Mailbox, EmptyPartsAfterAFullLineTakeNoLine) {
  Ring ring(GetParam());
  MailboxWriter writer = ring.writer();
  MailboxReader reader = ring.reader();
  const Bytes full = pattern(112, 1), none;
  const std::span<const std::byte> parts[] = {full, none, none};
  writer.write(parts);
  EXPECT_TRUE(reader.has_lines(2));
  EXPECT_FALSE(reader.has_lines(3));
  expect_and_consume(reader, full);
}

TEST_P(Mailbox, AnyRangeOfAMessageCanBeCopied) {
  Ring ring(GetParam());
  MailboxWriter writer = ring.writer();
  MailboxReader reader = ring.reader();
  for (int i = 0; i < 250; ++i) {  // so that the message goes around the end of the ring
    write(writer, pattern(1, 1));
    reader.consume(1);
  }
  const Bytes data = pattern(600, 7);
  write(writer, data);
  for (std::size_t offset = 0; offset < data.size(); offset += 13)
    for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{55}, std::size_t{57}, data.size() - offset}) {
      if (offset + bytes > data.size()) continue;
      Bytes got(bytes);
      reader.copy(offset, got.data(), bytes);
      ASSERT_TRUE(std::equal(got.begin(), got.end(), data.begin() + static_cast<std::ptrdiff_t>(offset)));
    }
}

// Lines may become visible in any order; here the writer dies before the last of them, whichever that is.
TEST_P(Mailbox, AHalfWrittenMessageIsNeverSeenWhicheverLineIsMissing) {
  constexpr std::uint32_t lines = 5;
  for (std::uint32_t start : {0u, 253u, 1000u})
    for (std::uint32_t missing = 0; missing < lines; ++missing) {
      std::vector<std::uint32_t> order = {0, 1, 2, 3, 4};
      do {
        Ring ring(GetParam());
        MailboxWriter writer = ring.writer();
        MailboxReader reader = ring.reader();
        for (std::uint32_t i = 0; i < start; ++i) {
          write(writer, pattern(1, 1));
          reader.consume(1);
        }
        for (std::uint32_t line : order) {
          if (line == missing) continue;
          MailboxLine& target = ring.lines[(start + 1 + line) % GetParam()];
          target.stamp.store(mailbox_stamp(9, start + 1 + line), std::memory_order_release);
          ASSERT_FALSE(reader.has_lines(lines));
        }
        for (std::uint32_t line = 0; line < lines; ++line) ASSERT_EQ(reader.has_line(line), line != missing);
        ring.lines[(start + 1 + missing) % GetParam()].stamp = mailbox_stamp(9, start + 1 + missing);
        ASSERT_TRUE(reader.has_lines(lines));
      } while (std::next_permutation(order.begin(), order.end()));
    }
}

TEST_P(Mailbox, LinesOfEarlierRoundsNeverCount) {
  Ring ring(GetParam());
  MailboxWriter writer = ring.writer();
  MailboxReader reader = ring.reader();
  for (std::uint32_t i = 0; i < 3 * GetParam(); ++i) {
    write(writer, pattern(56, i));
    reader.consume(1);
    ASSERT_FALSE(reader.has_line());
    for (std::uint32_t ahead = 0; ahead < GetParam(); ++ahead) ASSERT_FALSE(reader.has_line(ahead));
  }
}

TEST_P(Mailbox, LinesOfAnotherJobNeverCount) {
  Ring ring(GetParam());
  MailboxWriter foreign = ring.writer(10);
  MailboxReader reader = ring.reader(9);
  write(foreign, pattern(56, 1));
  EXPECT_FALSE(reader.has_line());
}

TEST_P(Mailbox, StampsOfDifferentTagsAndNumbersDiffer) {
  EXPECT_NE(mailbox_stamp(1, 1), mailbox_stamp(2, 1));
  EXPECT_NE(mailbox_stamp(1, 1), mailbox_stamp(1, 257));
  EXPECT_EQ(mailbox_stamp(0xffff, 1) >> 48, 0xffffu);
}

// Two threads, 100,000 messages of random sizes. Under ThreadSanitizer this is the proof that the stamps order the
// payload.
TEST_P(Mailbox, TwoThreadsExchangeAHundredThousandMessages) {
#ifdef UCFT_SMALL
  constexpr int messages = 20'000;
#else
  constexpr int messages = 100'000;
#endif
  struct Head {
    std::uint32_t number, bytes;
    std::uint64_t checksum;
  };
  const auto checksum = [](const std::byte* data, std::size_t bytes) {
    std::uint64_t hash = 14695981039346656037ull;
    for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ std::to_integer<std::uint64_t>(data[i])) * 1099511628211ull;
    return hash;
  };
  Ring ring(GetParam());
  std::thread sender([&] {
    MailboxWriter writer = ring.writer();
    std::mt19937_64 random(6);
    Bytes data(mailbox_longest * 56);
    for (int i = 0; i < messages; ++i) {
      const std::size_t bytes = random() % 16 == 0 ? random() % (mailbox_longest * 56 - sizeof(Head)) : random() % 200;
      for (std::size_t b = 0; b < bytes; b += 1 + b / 8) data[b] = static_cast<std::byte>(random());
      const Head head{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(bytes), checksum(data.data(), bytes)};
      while (!writer.has_room(mailbox_lines_of(sizeof(Head) + bytes))) std::this_thread::yield();
      const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&head, 1)), std::span(data.data(), bytes)};
      writer.write(parts);
    }
  });
  MailboxReader reader = ring.reader();
  Bytes data(mailbox_longest * 56);
  int wrong = 0;
  for (int i = 0; i < messages; ++i) {
    while (!reader.has_line()) std::this_thread::yield();
    Head head;
    reader.copy(0, reinterpret_cast<std::byte*>(&head), sizeof(head));
    const std::uint32_t lines = mailbox_lines_of(sizeof(Head) + head.bytes);
    while (!reader.has_lines(lines)) std::this_thread::yield();
    reader.copy(sizeof(Head), data.data(), head.bytes);
    wrong += head.number != static_cast<std::uint32_t>(i) || head.checksum != checksum(data.data(), head.bytes);
    reader.consume(lines);
  }
  sender.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(reader.has_line());
}

}  // namespace
}  // namespace ucft::detail
