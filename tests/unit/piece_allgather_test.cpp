// An allgather of long blocks in pieces with hand-fed messages (collectives/among/phases/piece_broadcast.hpp,
// piece_stream.hpp; docs/algorithms.md). Rank r gives r % 4 words here, so contributions differ in length.
#include <bit>
#include <map>

#include "collectives/among/phases/piece_stream.hpp"
#include "collectives/catalogue/blocks.hpp"
#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;

// All allgathers go in pieces, of so many words.
Optimism in_pieces(std::uint64_t words) {
  Optimism optimism = true;
  optimism.whole_bytes = optimism.set_bytes = 0;
  optimism.piece_bytes = 8 * words;
  return optimism;
}

std::uint64_t words_of(Rank rank) { return static_cast<std::uint64_t>(rank) % 4; }

Arguments gather_of(Rank rank, Rank ranks) {
  Arguments arguments = sum_of_words(1, 0, Kind::allgather);
  arguments.count = 0;
  for (Rank each = 0; each < ranks; ++each) arguments.count += words_of(each);
  arguments.own_count = words_of(rank);
  return arguments;
}

Bytes block_of(Rank rank) {
  return bytes_of(std::vector<std::uint64_t>(words_of(rank), 100 + static_cast<std::uint64_t>(rank)));
}

Bytes input_of(Rank rank, Rank ranks) {
  const Arguments arguments = gather_of(rank, ranks);
  Bytes input(Blocks::input_bytes(arguments));
  Blocks::pack(arguments, rank, block_of(rank).data(), input.data());
  return input;
}

void post_all(HandFedWorld& world) {
  for (Rank rank = 0; rank < world.size(); ++rank)
    if (world.alive(rank)) world.post(rank, gather_of(rank, world.size()), input_of(rank, world.size()));
}

std::map<Rank, Bytes> blocks_in(const Bytes& set) {
  std::map<Rank, Bytes> blocks;
  EXPECT_TRUE(Blocks::for_each(set, [&](Rank rank, std::span<const std::byte> block) {
    EXPECT_TRUE(blocks.emplace(rank, Bytes(block.begin(), block.end())).second) << "rank " << rank << " twice";
  }));
  return blocks;
}

void expect_blocks_of_all(HandFedWorld& world, OperationNumber number) {
  std::map<Rank, Bytes> all;
  for (Rank rank = 0; rank < world.size(); ++rank) all[rank] = block_of(rank);
  for (Rank rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(world[rank].ended(number).outcome, Outcome::success) << rank;
    EXPECT_EQ(blocks_in(world[rank].ended(number).value), all) << rank;
    EXPECT_EQ(world[rank].ended(number).contributors, static_cast<std::uint32_t>(world.size())) << rank;
    EXPECT_EQ(world[rank].ended(number).times, 1) << rank;
  }
}

// Of one member, among processes that take the pieces that are given to them, whenever these come.
TEST(PieceStream, GivesEachPieceOnceToEachProcess) {
  std::mt19937_64 random(5);
  for (std::int32_t size = 2; size <= 17; ++size)
    for (std::int64_t pieces : {1, 2, 7}) {
      std::vector<PieceStream> streams;
      for (std::int32_t process = 0; process < size; ++process) {
        streams.emplace_back(process, size);
        streams.back().begin({1, 0, static_cast<std::uint32_t>(8 * pieces - 3)}, 8);
      }
      std::vector<std::pair<std::int32_t, CirculantSchedule::Transfer>> flying;  // from; to
      const auto give = [&](std::int32_t from) {
        for (CirculantSchedule::Transfer next;
             (next = streams[static_cast<std::size_t>(from)].give()).block != CirculantSchedule::no_block;)
          flying.emplace_back(from, next);
      };
      for (std::int32_t process = 0; process < size; ++process) give(process);
      std::int64_t taken = 0;
      for (; !flying.empty(); ++taken) {
        std::swap(flying[random() % flying.size()], flying.back());
        const auto [from, transfer] = flying.back();
        flying.pop_back();
        PieceStream& stream = streams[static_cast<std::size_t>(transfer.peer)];
        EXPECT_TRUE(stream.gets(transfer.block, pieces, from));
        EXPECT_FALSE(stream.gets(transfer.block, pieces, from + 1));
        EXPECT_TRUE(stream.take(transfer.block));
        EXPECT_EQ(stream.part(transfer.block).bytes, transfer.block == pieces - 1 ? 5U : 8U);
        give(transfer.peer);
      }
      EXPECT_EQ(taken, pieces * (size - 1));
      for (const PieceStream& stream : streams) EXPECT_TRUE(stream.is_whole());
    }
}

// ---- without a death ------------------------------------------------------------------------------------------------

TEST(PieceAllgather, EachMemberGetsEachPieceOnceWhateverTheOrderOfArrival) {
  for (Rank n = 2; n <= 12; ++n)
    for (std::uint64_t words : {1, 2, 5}) {
      std::mt19937_64 random(static_cast<std::uint64_t>(n) * 100 + words);
      HandFedWorld world(n, 4, in_pieces(words));
      for (OperationNumber number : {0, 1}) {
        post_all(world);
        world.run_shuffled(random);
        expect_blocks_of_all(world, number);
      }
      std::int64_t pieces = 0;
      for (Rank rank = 0; rank < n; ++rank) pieces += static_cast<std::int64_t>((words_of(rank) + words) / words);
      EXPECT_EQ(world.counted[Phase::all_broadcast], 2 * pieces * (n - 1));
      EXPECT_EQ(world.counted[Phase::closing], 2 * n * std::bit_width(static_cast<unsigned>(n - 1)));
    }
}

TEST(PieceAllgather, ShortBlocksGoInSetsUnlessTheseAreTooLong) {
  const Optimism usual = true;
  const std::uint64_t piece = usual.piece_bytes;
  EXPECT_FALSE(usual.goes_in_pieces(4 * piece, 4));
  EXPECT_TRUE(usual.goes_in_pieces(4 * piece + 1, 4));
  EXPECT_FALSE(usual.goes_in_pieces(2 * piece + 1, 2)) << "less than what goes whole";
  EXPECT_TRUE(usual.goes_in_pieces(256 * 1024, 2));
  EXPECT_FALSE(usual.goes_in_pieces(8 * 1024 * 1024, 256)) << "32 KiB each, in 8 steps";
  EXPECT_TRUE(usual.goes_in_pieces(8 * 1024 * 1024 + 1, 256));
  EXPECT_FALSE(usual.goes_in_pieces(std::uint64_t{1} << 32, Optimism::most_streams + 1));
}

// Of a member of which nothing has come that member is awaited, else the rank that gives the next piece.
TEST(PieceAllgather, AMemberAwaitsThoseThatHaveNotGiven) {
  HandFedWorld world(3, 2, in_pieces(1));
  world.post(0, gather_of(0, 3), input_of(0, 3));
  world.post(1, gather_of(1, 3), input_of(1, 3));
  world.run();
  const std::vector<Rank> awaited = world[0].window.operation(0).awaited();
  EXPECT_NE(std::ranges::find(awaited, 2), awaited.end());
  EXPECT_EQ(world[1].window.operation(0).awaited(), std::vector<Rank>{2});
  world.post(2, gather_of(2, 3), input_of(2, 3));
  world.run();
  expect_blocks_of_all(world, 0);
  EXPECT_TRUE(world[0].window.operation(0).awaited().empty());
}

TEST(PieceAllgather, ARankWithoutMemoryIsNamedByAll) {
  for (Rank n : {2, 3, 5})
    for (Rank lacking = 0; lacking < n; ++lacking) {
      HandFedWorld world(n, 2, in_pieces(1));
      for (Rank rank = 0; rank < n; ++rank) {
        if (rank == lacking)
          world.post_without_memory(rank, gather_of(rank, n));
        else
          world.post(rank, gather_of(rank, n), input_of(rank, n));
      }
      world.run();
      for (Rank rank = 0; rank < n; ++rank) {
        EXPECT_EQ(world[rank].ended(0).outcome, Outcome::no_memory) << rank;
        EXPECT_EQ(world[rank].ended(0).culprit, lacking) << rank;
      }
    }
}

// ---- mistakes -------------------------------------------------------------------------------------------------------

// Of 3 members, rank 1 gets pieces of rank 0's contribution, of 24 bytes, from 0 and 2.
TEST(PieceAllgather, APieceIsAtItsPlaceOrAMismatch) {
  struct Case {
    Rank of, from;
    std::uint32_t bytes, piece;
    std::size_t words;
    bool fits;
  };
  const CirculantSchedule schedule(1, 3);
  std::map<std::int64_t, Rank> source;  // of 2 pieces, by process from rank 0 on
  for (std::int64_t round = 0; round < schedule.rounds(2); ++round)
    if (const auto [peer, block] = schedule.gotten(round, 2); block >= 0) source[block] = peer;
  for (const Case& each : {Case{0, source[0], 24, 0, 2, true},
                           {0, source[1], 24, 1, 1, true},
                           {0, 2 - source[0], 24, 0, 2, false},
                           {0, source[0], 24, 0, 1, false},
                           {0, source[1], 24, 1, 2, false},
                           {0, source[1], 24, 2, 1, false},
                           {0, source[0], 20, 0, 2, false},
                           {0, source[0], 1 << 20, 0, 2, false},
                           {3, source[0], 24, 0, 2, false},
                           {optimistic_ballot, source[0], 24, 0, 2, false}}) {
    HandFedRank rank(1, 3, 2, in_pieces(2));
    const Arguments arguments = gather_of(1, 3);
    rank.post(arguments, input_of(1, 3));
    Letter letter = piece_letter(arguments, Phase::all_broadcast, each.from, 1, each.piece,
                                 bytes_of(std::vector<std::uint64_t>(each.words, 3)));
    letter.message.source = each.of;
    letter.message.of_bytes = each.bytes;
    rank.feed(letter);
    EXPECT_EQ(rank.has_ended(0), !each.fits) << each.of << " " << each.from << " " << each.bytes << " " << each.piece;
  }
}

TEST(PieceAllgather, PiecesThatSayDifferentLengthsAreAMismatch) {
  for (const std::uint32_t second : {16, 24}) {
    HandFedRank rank(1, 2, 2, in_pieces(1));
    const Arguments arguments = gather_of(1, 2);
    rank.post(arguments, input_of(1, 2));
    for (std::uint32_t piece : {0, 1}) {
      Letter letter = piece_letter(arguments, Phase::all_broadcast, 0, 1, piece, word(3));
      letter.message.source = 0;
      letter.message.of_bytes = piece == 0 ? 16 : second;
      rank.feed(letter);
    }
    EXPECT_EQ(rank.has_ended(0), second != 16) << second;
  }
}

// ---- deaths ---------------------------------------------------------------------------------------------------------

TEST(PieceAllgather, ADeathMidwayLeavesABlockOnAllOrOnNone) {
  int with = 0, without = 0;
  for (Rank n = 3; n <= 7; ++n)
    for (Rank dead : {0, n / 2, n - 1})
      for (int delivered = 0; delivered < 120; delivered += 3) {
        HandFedWorld world(n, 2, in_pieces(1));
        post_all(world);
        for (int i = 0; i < delivered; ++i) world.deliver([](const Letter&) { return true; });
        world.kill(dead);
        world.lose([&](const Letter& letter) { return letter.from == dead; });
        world.tell_all(dead);
        world.run();
        const Rank first = dead == 0 ? 1 : 0;
        const std::map<Rank, Bytes> blocks = blocks_in(world[first].ended(0).value);
        (blocks.contains(dead) ? with : without) += 1;
        for (Rank rank = 0; rank < n; ++rank) {
          if (rank == dead) continue;
          EXPECT_EQ(world[rank].ended(0).outcome, Outcome::success);
          EXPECT_EQ(blocks_in(world[rank].ended(0).value), blocks) << rank;
          EXPECT_TRUE(blocks.contains(rank) && blocks.at(rank) == block_of(rank)) << rank;
        }
      }
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
}

// A decision of another ballot has the blocks in another order. It must not be written over pieces that others read.
TEST(PieceAllgather, PiecesOnTheirWayStayAsTheyAreWhenAnotherBallotDecides) {
  const Rank n = 4;
  HandFedRank rank(1, n, 2, in_pieces(1));
  Buffers& buffers = rank.buffers;
  ASSERT_TRUE(rank.ready());
  const Bytes input = input_of(1, n);
  Operation::Memory memory{.input = buffers.whole(buffers.copy_in(input.data(), input.size()))};
  memory.result = buffers.allocate(Blocks::result_bytes(gather_of(1, n), n));
  rank.window.post(gather_of(1, n), memory, rank.outbox);
  std::vector<Message> pieces;
  for (const Message& message : rank.outbox.sends()) {
    if (message.phase == Phase::all_broadcast) pieces.push_back(message);
  }
  ASSERT_FALSE(pieces.empty());
  std::vector<Bytes> sent;
  const auto bytes_at = [&](Slice slice) { return Bytes(buffers.data(slice), buffers.data(slice) + slice.bytes); };
  for (const Message& piece : pieces) sent.push_back(bytes_at(piece.value));
  Bytes set;
  for (Rank each : {3, 2, 1, 0}) {
    const Bytes record = input_of(each, n);
    set.insert(set.end(), record.begin(), record.end());
  }
  Message decision;
  decision.phase = Phase::broadcast;
  decision.peer = decision.attempt = decision.first_decided = 0;
  decision.signature = gather_of(1, n).signature();
  decision.flags = has_value;
  decision.contributors = static_cast<std::uint32_t>(n);
  decision.value = buffers.whole(buffers.adopt(set.data(), set.size(), 1));
  rank.window.on_message(decision, rank.outbox);
  EXPECT_EQ(bytes_at(rank.window.operation(0).decision().value), set);
  for (std::size_t i = 0; i < pieces.size(); ++i) EXPECT_EQ(bytes_at(pieces[i].value), sent[i]) << i;
  buffers.release(decision.value);
}

TEST(PieceAllgather, ARankThatKnowsThatAllHaveItHasNothingToDoAfterADeath) {
  HandFedWorld world(3, 4, in_pieces(1));
  post_all(world);
  world.run();
  EXPECT_EQ(messages_after_death_of(2, world), 0);
}

}  // namespace
}  // namespace ucft::detail
