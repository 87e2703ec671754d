// The raw part of windows: a content is seen when every one of its lines is there, and never before; the next one
// overwrites it; what was written in an earlier use of the memory never counts.
#include "ucx_layer/window.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace ucft {
namespace {

using Words = std::vector<std::uint64_t>;

struct Memory {
  explicit Memory(std::size_t row_words) : row(row_words), count(window_lines_of(head_bytes + row * 8)), lines(new MailboxLine[count]()) {}
  WindowWriter writer(std::uint32_t generation = 1) { return {lines.get(), generation}; }
  WindowReader reader(std::uint32_t generation = 1) { return {lines.get(), count, generation}; }
  static constexpr std::size_t head_bytes = 24;
  std::size_t row;
  std::uint32_t count;
  std::unique_ptr<MailboxLine[]> lines;
};

std::uint32_t write(WindowWriter& writer, std::uint64_t head, const Words& row, bool whole = true, std::uint32_t seen = 0) {
  const std::uint64_t heads[3] = {head, head + 1, head + 2};
  return writer.write(std::as_bytes(std::span(heads)), std::as_bytes(std::span(row)), whole, seen);
}

void expect_content(const WindowReader& reader, std::uint64_t head, const Words& row) {
  ASSERT_TRUE(reader.has_news());
  std::uint64_t heads[3];
  reader.copy(0, heads, sizeof heads);
  EXPECT_EQ(heads[0], head);
  EXPECT_EQ(heads[2], head + 2);
  Words got(row.size());
  reader.copy(sizeof heads, got.data(), got.size() * 8);
  EXPECT_EQ(got, row);
}

TEST(Window, ThreeNumbersFitIntoTheFirstLine) {
  EXPECT_EQ(Memory(0).count, 1u);
  EXPECT_EQ(Memory(3).count, 1u);
  EXPECT_EQ(Memory(4).count, 2u);
  EXPECT_EQ(Memory(10).count, 2u);
  EXPECT_EQ(Memory(11).count, 3u);
}

TEST(Window, AContentIsThereOnceItIsWrittenAndUntilItIsConsumed) {
  for (std::size_t words : {0, 1, 3, 4, 100}) {
    Memory memory(words);
    auto writer = memory.writer();
    auto reader = memory.reader();
    EXPECT_FALSE(reader.has_news());
    for (std::uint64_t number = 1; number < 5; ++number) {
      const Words row(words, number * 1000);
      EXPECT_EQ(write(writer, number, row, true, static_cast<std::uint32_t>(7 * number)), memory.count);
      expect_content(reader, number, row);
      EXPECT_EQ(reader.header().seen, 7 * number);
      reader.consume();
      EXPECT_FALSE(reader.has_news());
      EXPECT_EQ(reader.read(), number);
    }
  }
}

TEST(Window, AContentWithAnyOfItsLinesMissingIsNone) {
  Memory memory(30);
  auto writer = memory.writer();
  auto reader = memory.reader();
  write(writer, 1, Words(30, 1));
  reader.consume();
  write(writer, 2, Words(30, 2));
  for (std::uint32_t missing = 0; missing < memory.count; ++missing) {
    const std::uint64_t stamp = memory.lines[missing].stamp;
    memory.lines[missing].stamp = window_stamp(1, 1);   // as if its write had not come yet
    EXPECT_FALSE(reader.has_news()) << missing;
    memory.lines[missing].stamp = stamp;
  }
  expect_content(reader, 2, Words(30, 2));
}

TEST(Window, OnlyTheFirstLineIsWrittenAgainIfTheRowIsTheSame) {
  Memory memory(30);
  auto writer = memory.writer();
  auto reader = memory.reader();
  const Words row(30, 5);
  EXPECT_EQ(write(writer, 1, row, false), memory.count);   // nothing is there yet: all of it
  reader.consume();
  for (std::uint64_t head : {8, 9}) {
    EXPECT_EQ(write(writer, head, row, false), 1u);
    expect_content(reader, head, row);
    reader.consume();
  }
  EXPECT_EQ(write(writer, 10, Words(30, 6), true), memory.count);
  expect_content(reader, 10, Words(30, 6));
}

TEST(Window, WhatWasWrittenInAnEarlierUseIsNeverSeen) {
  Memory memory(12);
  auto old = memory.writer(1);
  write(old, 1, Words(12, 1));
  auto reader = memory.reader(2);
  EXPECT_FALSE(reader.has_news());
  auto writer = memory.writer(2);
  write(writer, 2, Words(12, 2));
  expect_content(reader, 2, Words(12, 2));
  reader.consume();
  memory.lines[1].stamp = window_stamp(1, 1);
  EXPECT_FALSE(reader.has_news());
}

// Ping-pong of two threads, each writing only when its last content has been read. (Also under ThreadSanitizer.)
TEST(Window, TwoThreadsNeverSeeHalfAContent) {
#ifdef UCFT_SMALL
  constexpr std::uint64_t rounds = 5000;
#else
  constexpr std::uint64_t rounds = 100000;
#endif
  Memory there(20), back(20);
  const auto side = [](Memory& mine, Memory& theirs, bool begins) {
    auto reader = mine.reader();
    auto writer = theirs.writer();
    for (std::uint64_t number = 1; number <= rounds; ++number) {
      if (begins) write(writer, number, Words(20, number), number % 3 != 0, reader.read());
      while (!reader.has_news()) std::this_thread::yield();
      std::uint64_t heads[3], first, last;
      reader.copy(0, heads, sizeof heads);
      reader.copy(sizeof heads, &first, 8);
      reader.copy(sizeof heads + 19 * 8, &last, 8);
      ASSERT_EQ(heads[0], number);
      ASSERT_EQ(heads[2], number + 2);
      ASSERT_EQ(last, number % 3 != 0 ? number : number - 1);   // else it was only the first line
      ASSERT_EQ(first, number);
      reader.consume();
      if (!begins) write(writer, number, Words(20, number), number % 3 != 0, reader.read());
    }
  };
  std::thread other([&] { side(there, back, false); });
  side(back, there, true);
  other.join();
}

}  // namespace
}  // namespace ucft
