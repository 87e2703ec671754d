// A long broadcast in pieces with hand-fed messages (collectives/among/phases/piece_broadcast.hpp; docs/algorithms.md).
#include <bit>
#include <numeric>

#include "collectives/among/process_replica.hpp"
#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;

// All broadcasts of more than a word go in pieces, of so many words.
Optimism in_pieces(std::uint64_t words) {
  Optimism optimism = true;
  optimism.whole_bytes = 8;
  optimism.piece_bytes = 8 * words;
  return optimism;
}

Arguments broadcast_of(std::uint64_t count, Rank root = 0) {
  Arguments arguments = sum_of_words(1, root, Kind::broadcast);
  arguments.count = count;
  return arguments;
}

Bytes data_of(std::uint64_t count) {
  std::vector<std::uint64_t> words(count);
  std::iota(words.begin(), words.end(), 17);
  return bytes_of(words);
}

void post_all(HandFedWorld& world, const Arguments& arguments) {
  world.post_all(arguments, [&](Rank rank) { return rank == arguments.root ? data_of(arguments.count) : Bytes{}; });
}

void expect_data(HandFedWorld& world, OperationNumber number, std::uint64_t count) {
  for (Rank rank = 0; rank < world.size(); ++rank) {
    if (!world.alive(rank)) continue;
    EXPECT_EQ(world[rank].ended(number).outcome, Outcome::success) << rank;
    EXPECT_EQ(world[rank].ended(number).value, data_of(count)) << rank;
    EXPECT_EQ(world[rank].ended(number).times, 1) << rank;
    EXPECT_EQ(world[rank].ended(number).contributors, 1U) << rank;
  }
}

// ---- without a death ------------------------------------------------------------------------------------------------

TEST(PieceBroadcast, EachMemberGetsEachPieceOnceWhateverTheOrderOfArrival) {
  for (Rank n = 2; n <= 20; ++n)
    for (Rank root : {0, n / 2, n - 1})
      for (std::uint64_t count : {4, 5, 30}) {
        std::mt19937_64 random(static_cast<std::uint64_t>(n) * 100 + count);
        HandFedWorld world(n, 4, in_pieces(3));
        post_all(world, broadcast_of(count, root));
        world.run_shuffled(random);
        expect_data(world, 0, count);
        EXPECT_EQ(world.counted[Phase::allgather], static_cast<std::int64_t>((count + 2) / 3) * (n - 1));
        EXPECT_EQ(world.counted[Phase::closing], n * std::bit_width(static_cast<unsigned>(n - 1)));
        EXPECT_EQ(world.counted[Phase::broadcast], 0);
      }
}

TEST(PieceBroadcast, TheRootWaitsForNobodyAndAMemberForItsPieces) {
  HandFedWorld world(4, 4, in_pieces(1));
  post_all(world, broadcast_of(6));
  EXPECT_TRUE(world[0].has_ended(0));
  world.deliver_all([](const Letter& letter) { return letter.message.phase == Phase::allgather; });
  expect_data(world, 0, 6);
  EXPECT_EQ(world.letters.size(), 4U) << "the first words that close it";
}

TEST(PieceBroadcast, ShortDataGoWhole) {
  HandFedWorld usual(4, 2, true);
  const std::uint64_t most = 256 * 1024 / 2 / 8;  // two steps
  for (std::uint64_t count : {most, most + 1}) {
    post_all(usual, broadcast_of(count));
    usual.run();
    EXPECT_EQ(usual.counted[Phase::allgather] > 0, count > most);
  }
  HandFedWorld pieces(4, 2, in_pieces(5));
  post_all(pieces, broadcast_of(5));
  pieces.run();
  expect_data(pieces, 0, 5);
  EXPECT_EQ(pieces.counted[Phase::allgather], 0) << "one piece would gain nothing";
}

TEST(PieceBroadcast, PiecesThatComeBeforeTheOperationIsPostedWait) {
  HandFedWorld world(3, 2, in_pieces(1));
  world.post(0, broadcast_of(5), data_of(5));
  world.post(1, broadcast_of(5));
  world.run();
  EXPECT_FALSE(world[2].has_ended(0));
  world.post(2, broadcast_of(5));
  world.run();
  expect_data(world, 0, 5);
}

// Of 3 members and 4 pieces, member 1 gets piece 1 first, from 0, then piece 0 from 2.
TEST(PieceBroadcast, AMemberAwaitsTheRankThatGivesTheNextPiece) {
  HandFedWorld world(3, 2, in_pieces(1));
  post_all(world, broadcast_of(4));
  EXPECT_EQ(world[1].window.operation(0).awaited(), std::vector<Rank>{0});
  ASSERT_TRUE(world.deliver([](const Letter& letter) { return letter.to == 1; }));
  EXPECT_EQ(world[1].window.operation(0).awaited(), std::vector<Rank>{2});
  EXPECT_TRUE(world[0].window.operation(0).awaited().empty());
}

// When all have it, and not before: then no rank asks for it any more.
TEST(PieceBroadcast, MemoryOfTheDataComesBackWhenAllHaveThem) {
  HandFedWorld world(4, 8, in_pieces(1024));
  const std::uint64_t count = 8192;
  post_all(world, broadcast_of(count));
  world.deliver_all(HandFedWorld::is(Phase::allgather));
  expect_data(world, 0, count);
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_GT(world[rank].buffers.in_use(), 0U) << rank;
  world.run();
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(world[rank].buffers.in_use(), 0U) << rank;
}

// A new speaker repeats packets, and one that says data must have them until all hosts do.
TEST(PieceBroadcast, AHostKeepsWhatItHasSentUntilAllHostsHaveIt) {
  std::vector<std::unique_ptr<std::byte[]>> chunks;
  const auto allocate = [](void* to, std::size_t bytes) {
    auto& all = *static_cast<decltype(chunks)*>(to);
    return all.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  };
  Buffers buffers({allocate, &chunks});
  ProcessReplica host({0, 2, 8, in_pieces(2)}, buffers);
  host.compute();
  const Bytes data = data_of(5);
  ProcessContribution mine;
  mine.arguments = broadcast_of(5);
  mine.contributors = 1;
  mine.has_value = true;
  mine.value = data;
  JournalEntry call;
  call.what = JournalEntry::What::contribution;
  call.contribution = &mine;
  host.apply(call);
  EXPECT_EQ(host.completed().size(), 1U);
  host.clear_completed();
  host.make_ready();
  ASSERT_EQ(host.packets_end(), 4U) << "three pieces, and a word that closes";
  for (std::uint64_t packet = 0; packet < 3; ++packet) EXPECT_TRUE(host.packet(packet).message.value);
  JournalEntry word;
  word.what = JournalEntry::What::message;
  word.message.phase = Phase::closing;
  word.message.peer = 1;
  word.message.attempt = optimistic_ballot;
  word.message.signature = broadcast_of(5).signature();
  word.message.contributors = 3;
  host.apply(word);
  for (std::uint64_t packet = 0; packet < 3; ++packet) EXPECT_FALSE(host.packet(packet).message.value);
  EXPECT_EQ(buffers.in_use(), 0U);
  host.release_all();
}

// ---- mistakes -------------------------------------------------------------------------------------------------------

// The same signature, by chance.
Arguments with_the_signature_of(const Arguments& other, std::uint64_t from, std::uint64_t step) {
  Arguments arguments = other;
  for (arguments.count = from; arguments.count == other.count || arguments.signature() != other.signature();)
    arguments.count += step;
  return arguments;
}

// Also of a whole number of pieces less: each of them is in its place.
TEST(PieceBroadcast, AnotherCountIsAMismatchOnAll) {
  for (const auto& [n, step] : {std::pair<Rank, std::uint64_t>{2, 1}, {2, 2}, {3, 1}, {3, 2}})
    for (Rank different = 0; different < n; ++different)
      for (bool is_longer : {false, true}) {
        // Between two, a rank is through before the first piece that is too many.
        if (n == 2 && (different == 0) == is_longer) continue;
        const Arguments shorter = broadcast_of(12), longer = with_the_signature_of(shorter, 14, step);
        HandFedWorld world(n, 2, in_pieces(2));
        for (Rank rank = 0; rank < n; ++rank) {
          const Arguments& mine = (rank == different) == is_longer ? longer : shorter;
          world.post(rank, mine, rank == 0 ? data_of(mine.count) : Bytes{});
        }
        world.run();
        for (Rank rank = 1; rank < n; ++rank)
          EXPECT_EQ(world[rank].ended(0).outcome, Outcome::mismatch) << rank << " of " << different << ", " << step;
      }
}

TEST(PieceBroadcast, LongAndShortAreAMismatch) {
  Optimism optimism = true;
  optimism.whole_bytes = optimism.segment_bytes = 8 * 1000;
  optimism.piece_bytes = 64;
  const Arguments longer = with_the_signature_of(broadcast_of(3), 2000, 1);
  for (bool root_is_short : {false, true}) {
    HandFedWorld world(2, 2, optimism);
    world.post(0, root_is_short ? broadcast_of(3) : longer, data_of(root_is_short ? 3 : longer.count));
    world.post(1, root_is_short ? longer : broadcast_of(3));
    world.run();
    EXPECT_EQ(world[1].ended(0).outcome, Outcome::mismatch);
  }
}

// Of 3 members and 4 pieces, the last of which is a word, member 1 gets pieces 1 and 3 from 0, and 0 and 2 from 2.
TEST(PieceBroadcast, APieceIsAtItsPlaceOrAMismatch) {
  struct Case {
    Rank from;
    std::uint32_t offset;
    std::size_t words;
    bool fits;
  };
  for (const Case& each : {Case{2, 0, 2, true},
                           {2, 8, 2, false},
                           {2, 0, 1, false},
                           {0, 16, 2, true},
                           {0, 48, 1, true},
                           {0, 48, 2, false},
                           {0, 64, 2, false},
                           {0, 0, 2, false}}) {
    HandFedRank rank(1, 3, 2, in_pieces(2));
    rank.post(broadcast_of(7));
    rank.feed(piece_letter(broadcast_of(7), Phase::allgather, each.from, 1, each.offset,
                           bytes_of(std::vector<std::uint64_t>(each.words, 3))));
    EXPECT_EQ(rank.has_ended(0), !each.fits) << each.from << " " << each.offset << " " << each.words;
  }
}

// 7 words are 4 pieces. The signature is the same: lengths may have the same one by chance.
TEST(PieceBroadcast, AClosingThatCountsOtherPiecesIsAMismatch) {
  for (const std::uint32_t pieces : {3, 4, 5}) {
    HandFedRank rank(1, 3, 2, in_pieces(2));
    rank.post(broadcast_of(7));
    Letter letter = optimistic_letter(broadcast_of(7), Phase::closing, 0, 1);
    letter.message.contributors = pieces;
    rank.feed(letter);
    EXPECT_EQ(rank.has_ended(0), pieces != 4) << pieces;
  }
}

// Its sender has another result of an earlier operation, so maybe other members, and is dead.
TEST(PieceBroadcast, APieceOfAnOrphanIsIgnored) {
  HandFedRank rank(1, 3, 2, in_pieces(2));
  rank.post(broadcast_of(7));
  for (const std::uint32_t offset : {0, 8}) {
    Letter letter =
        piece_letter(broadcast_of(7), Phase::allgather, 2, 1, offset, bytes_of(std::vector<std::uint64_t>(2, 3)));
    letter.message.prev = 0;
    rank.feed(letter);
    EXPECT_FALSE(rank.has_ended(0)) << offset;
  }
}

// ---- deaths ---------------------------------------------------------------------------------------------------------

TEST(PieceBroadcast, ADeathMidwayLeavesTheDataOrRootFailedOnAll) {
  int with_data = 0, without = 0;
  for (Rank n = 3; n <= 9; ++n)
    for (Rank dead : {0, n / 2, n - 1})
      for (int delivered = 0; delivered < 60; delivered += 3) {
        HandFedWorld world(n, 2, in_pieces(1));
        post_all(world, broadcast_of(6));
        for (int i = 0; i < delivered; ++i) world.deliver([](const Letter&) { return true; });
        world.kill(dead);
        world.lose([&](const Letter& letter) { return letter.from == dead; });
        world.tell_all(dead);
        world.run();
        const Rank first = dead == 0 ? 1 : 0;
        if (world[first].ended(0).outcome == Outcome::success) {
          ++with_data;
          expect_data(world, 0, 6);
          continue;
        }
        ++without;
        EXPECT_EQ(dead, 0) << "the root lives";
        for (Rank rank = 1; rank < n; ++rank) EXPECT_EQ(world[rank].ended(0).outcome, Outcome::root_failed);
      }
  EXPECT_GT(with_data, 0);
  EXPECT_GT(without, 0);
}

// One that has all pieces may be the only one, and the root is dead.
TEST(PieceBroadcast, TheOnlySurvivorWithTheDataHandsThemOver) {
  HandFedWorld world(3, 2, in_pieces(1));
  post_all(world, broadcast_of(4));
  world.deliver_all([](const Letter& letter) { return letter.to == 2 || letter.from == 2; });
  while (!world[2].has_ended(0))
    ASSERT_TRUE(world.deliver([](const Letter& letter) {
      return letter.to == 2 || (letter.to == 1 && !letter.value.empty() && letter.message.offset < 24);
    }));
  ASSERT_FALSE(world[1].has_ended(0));
  world.kill(0);
  world.lose([](const Letter&) { return true; });
  world.tell_all(0);
  world.run();
  expect_data(world, 0, 4);
}

// All have it, so no rank needs those that know it.
TEST(PieceBroadcast, ARankThatKnowsThatAllHaveItHasNothingToDoAfterADeath) {
  HandFedWorld world(3, 4, in_pieces(1));
  post_all(world, broadcast_of(4));
  world.run();
  EXPECT_EQ(messages_after_death_of(2, world), 0);
}

}  // namespace
}  // namespace ucft::detail
