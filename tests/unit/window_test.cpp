// The raw part of RMA windows: a content is seen when every one of its lines is there, and never before; the next one
// overwrites it; what was written in an earlier use of the memory never counts.
#include "ucx_layer/transport/memory/window.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace ucft::detail {
namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::size_t head_bytes = 24;

struct Memory {
  Memory(std::size_t row_words, bool stamped)
      : layout{head_bytes, row_words * 8, stamped}, lines(new MailboxLine[layout.lines()]()) {}
  WindowWriter writer(std::uint32_t generation = 1) { return {layout, lines.get(), generation}; }
  WindowReader reader(std::uint32_t generation = 1) { return {layout, lines.get(), generation}; }
  WindowLayout layout;
  std::unique_ptr<MailboxLine[]> lines;
};

std::uint32_t write(WindowWriter& writer, std::uint64_t head, const Words& row, std::uint32_t seen = 0) {
  const std::uint64_t heads[3] = {head, head + 1, head + 2};
  return writer.write(std::as_bytes(std::span(heads)), std::as_bytes(std::span(row)), seen);
}

void expect_content(const WindowReader& reader, std::uint64_t head, const Words& row) {
  ASSERT_TRUE(reader.has_news());
  std::uint64_t heads[3];
  std::memcpy(heads, reader.head(), sizeof heads);
  EXPECT_EQ(heads[0], head);
  EXPECT_EQ(heads[2], head + 2);
  std::vector<std::byte> scratch;
  const auto* words = reinterpret_cast<const std::uint64_t*>(reader.row(scratch));
  EXPECT_EQ(Words(words, words + row.size()), row);
}

class Window : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(With, Window, testing::Bool(),
                         [](const auto& each) { return each.param ? "Stamps" : "OneStamp"; });

TEST(WindowLayout, ThreeNumbersFitIntoTheFirstLine) {
  for (bool stamped : {false, true}) {
    EXPECT_EQ(Memory(0, stamped).layout.lines(), 1u);
    EXPECT_EQ(Memory(3, stamped).layout.lines(), 1u);
    EXPECT_EQ(Memory(4, stamped).layout.lines(), 2u);
  }
  EXPECT_EQ(Memory(8, false).layout.lines(), 2u);
  EXPECT_EQ(Memory(9, false).layout.lines(), 3u);
  EXPECT_EQ(Memory(10, true).layout.lines(), 2u);
  EXPECT_EQ(Memory(11, true).layout.lines(), 3u);
}

TEST_P(Window, AContentIsThereOnceItIsWrittenAndUntilItIsConsumed) {
  for (std::size_t words : {1, 3, 4, 100, 4000}) {
    Memory memory(words, GetParam());
    auto writer = memory.writer();
    auto reader = memory.reader();
    EXPECT_FALSE(reader.has_news());
    for (std::uint64_t number = 1; number < 5; ++number) {
      const Words row(words, number * 1000);
      EXPECT_EQ(write(writer, number, row, static_cast<std::uint32_t>(7 * number)), memory.layout.lines());
      expect_content(reader, number, row);
      EXPECT_EQ(reader.header().seen, 7 * number);
      reader.consume();
      EXPECT_FALSE(reader.has_news());
      EXPECT_EQ(reader.read(), number);
    }
  }
}

TEST_P(Window, ARowMayBeShorterThanItsPlace) {
  for (std::size_t words : {3, 30}) {
    Memory memory(words, GetParam());
    auto writer = memory.writer();
    auto reader = memory.reader();
    for (std::size_t length : {words, std::size_t{1}, words - 1}) {
      write(writer, length, Words(length, 7 * length));
      expect_content(reader, length, Words(length, 7 * length));
      reader.consume();
    }
  }
}

TEST(WindowWithStamps, AContentWithAnyOfItsLinesMissingIsNone) {
  Memory memory(30, true);
  auto writer = memory.writer();
  auto reader = memory.reader();
  write(writer, 1, Words(30, 1));
  reader.consume();
  write(writer, 2, Words(30, 2));
  for (std::uint32_t missing = 0; missing < memory.layout.lines(); ++missing) {
    const std::uint64_t stamp = memory.lines[missing].stamp;
    memory.lines[missing].stamp = window_stamp(1, 1);  // as if its write had not come yet
    EXPECT_FALSE(reader.has_news()) << missing;
    memory.lines[missing].stamp = stamp;
  }
  expect_content(reader, 2, Words(30, 2));
}

TEST_P(Window, OnlyTheFirstLineIsWrittenAgainIfTheRowIsTheSame) {
  for (std::size_t words : {2, 30}) {
    Memory memory(words, GetParam());
    auto writer = memory.writer();
    auto reader = memory.reader();
    EXPECT_EQ(write(writer, 1, {}), 1u);  // before there was a row
    expect_content(reader, 1, {});
    reader.consume();
    const Words row(words, 5);
    EXPECT_EQ(write(writer, 2, row), memory.layout.lines());
    reader.consume();
    for (std::uint64_t head : {8, 9}) {
      EXPECT_EQ(write(writer, head, {}), 1u);
      expect_content(reader, head, row);
      reader.consume();
    }
    EXPECT_EQ(write(writer, 10, Words(words, 6)), memory.layout.lines());
    expect_content(reader, 10, Words(words, 6));
  }
}

TEST_P(Window, WhatWasWrittenInAnEarlierUseIsNeverSeen) {
  Memory memory(12, GetParam());
  auto old = memory.writer(1);
  write(old, 1, Words(12, 1));
  auto reader = memory.reader(2);
  EXPECT_FALSE(reader.has_news());
  auto writer = memory.writer(2);
  write(writer, 2, Words(12, 2));
  expect_content(reader, 2, Words(12, 2));
  reader.consume();
  memory.lines[0].stamp = window_stamp(1, 2);
  EXPECT_FALSE(reader.has_news());
}

// Ping-pong of two threads, each writing only when its last content has been read. (Also under ThreadSanitizer.)
TEST_P(Window, TwoThreadsNeverSeeHalfAContent) {
#ifdef UCFT_SMALL
  constexpr std::uint64_t rounds = 5000;
#else
  constexpr std::uint64_t rounds = 100000;
#endif
  Memory there(20, GetParam()), back(20, GetParam());
  const auto side = [](Memory& mine, Memory& theirs, bool begins) {
    auto reader = mine.reader();
    auto writer = theirs.writer();
    for (std::uint64_t number = 1; number <= rounds; ++number) {
      const bool has_row = number % 3 != 0;
      const auto turn = [&] { write(writer, number, has_row ? Words(20, number) : Words(), reader.read()); };
      if (begins) turn();
      while (!reader.has_news()) std::this_thread::yield();
      EXPECT_EQ(reader.header().seen, begins ? number : number - 1);
      expect_content(reader, number, Words(20, has_row ? number : number - 1));
      reader.consume();
      if (!begins) turn();
    }
  };
  std::thread other([&] { side(there, back, false); });
  side(back, there, true);
  other.join();
}

}  // namespace
}  // namespace ucft::detail
