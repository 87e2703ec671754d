// An exchange of streams by hand: which messages fit, how it closes, whose streams a rank has.
#include "collectives/among/phases/personal_exchange.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "collectives/catalogue/catalogue.hpp"

namespace ucft::detail {
namespace {

// One rank of several. A stream is so many words, each the number of its sender.
struct Member {
  Member(Rank me, Rank ranks, std::uint64_t words, std::uint64_t room_words, Rank lacking = no_rank, bool grows = false,
         Rank giver = no_rank)
      : buffers({[](void* all, std::size_t bytes) {
                   auto& blocks = *static_cast<std::vector<std::unique_ptr<std::byte[]>>*>(all);
                   return blocks.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
                 },
                 &blocks}) {
    Surroundings surroundings;
    surroundings.me = me;
    surroundings.failed = surroundings.reported = &failed;
    surroundings.optimism = true;
    surroundings.optimism.piece_bytes = 16;
    ballots.begin(0, Membership(ranks), 0, surroundings);
    ballots.promise_optimistic();
    const std::vector<std::uint64_t> data(words * static_cast<std::uint64_t>(ranks), static_cast<std::uint64_t>(me));
    std::vector<PersonalExchange::Share> shares;
    for (Rank to = 0; to < ranks; ++to) shares.push_back({to, static_cast<std::uint64_t>(to) * words * 8, words * 8});
    const Slice input = buffers.whole(buffers.copy_in(data.data(), data.size() * 8));
    Message blank;
    blank.signature = 7;
    const auto mine =
        lacking == no_rank ? PersonalExchange::Stream{} : PersonalExchange::without(Outcome::no_memory, lacking);
    exchange.start(blank, input, shares, {buffers.allocate(room_words * 8), grows}, giver, mine, ballots, out);
  }
  static Message empty_stream(Rank from) {
    Message made = word(from, Phase::all_broadcast);
    made.source = from;
    return made;
  }
  // A piece as it comes from that rank, with these words.
  Message piece(Rank from, std::uint32_t at, std::vector<std::uint64_t> words, std::uint32_t of_words) {
    Message made;
    made.peer = made.source = from;
    made.phase = Phase::all_broadcast;
    made.flags = has_value;
    made.offset = at * 8;
    made.of_bytes = of_words * 8;
    made.value = buffers.whole(buffers.copy_in(words.data(), words.size() * 8));
    return made;
  }
  static Message word(Rank from, Phase phase) {
    Message made;
    made.peer = from;
    made.phase = phase;
    return made;
  }
  void take(const Message& message) {
    ASSERT_TRUE(exchange.accepts(message));
    exchange.on_message(message, buffers);
  }
  std::vector<std::uint64_t> stream(Rank of) const {
    const PersonalExchange::Stream& its = exchange.stream(of);
    const auto* const first = reinterpret_cast<const std::uint64_t*>(buffers.data(exchange.data()) + its.begin);
    return {first, first + its.bytes / 8};
  }

  std::vector<std::unique_ptr<std::byte[]>> blocks;
  Buffers buffers;
  Outbox out{buffers};
  FailedRanks failed;
  Ballots ballots;
  PersonalExchange exchange;
};
using Words = std::vector<std::uint64_t>;

TEST(PersonalExchange, SendsEachItsStreamInPieces) {
  Member mine(1, 3, 3, 9);
  ASSERT_EQ(mine.out.sends().size(), 4u) << "two words, and one, to each";
  for (const Message& send : mine.out.sends()) {
    EXPECT_NE(send.peer, 1);
    EXPECT_EQ(send.of_bytes, 24u);
    EXPECT_EQ(send.source, 1);
  }
  EXPECT_EQ(mine.stream(1), (Words{1, 1, 1})) << "its own";
}

TEST(PersonalExchange, PiecesComeInAnyOrder) {
  Member mine(0, 3, 3, 9);
  mine.take(mine.piece(2, 2, {7}, 3));
  mine.take(mine.piece(1, 0, {4, 5}, 3));
  EXPECT_FALSE(mine.exchange.has_all_that_live(mine.ballots));
  mine.take(mine.piece(2, 0, {5, 6}, 3));
  mine.take(mine.piece(1, 2, {6}, 3));
  EXPECT_TRUE(mine.exchange.has_all_that_live(mine.ballots));
  EXPECT_EQ(mine.stream(2), (Words{5, 6, 7}));
  EXPECT_EQ(mine.stream(1), (Words{4, 5, 6}));
  EXPECT_EQ(mine.exchange.set(1), (Words{0b111}));
}

// The same signature, by chance: what comes does not fit.
TEST(PersonalExchange, OtherLengthsAreAMismatch) {
  Member mine(0, 3, 3, 9);
  mine.take(mine.piece(1, 0, {4, 5}, 3));
  EXPECT_FALSE(mine.exchange.accepts(mine.piece(1, 2, {6}, 4))) << "another length than before";
  EXPECT_FALSE(mine.exchange.accepts(mine.piece(1, 1, {6, 7}, 3))) << "more than its length";
  EXPECT_FALSE(mine.exchange.accepts(mine.piece(2, 0, {6, 7}, 4))) << "more than there is room for";
  EXPECT_FALSE(mine.exchange.accepts(mine.piece(2, 2, {6, 7}, 3))) << "behind its end";
  Message foreign = mine.piece(2, 0, {6, 7}, 3);
  foreign.source = 1;
  EXPECT_FALSE(mine.exchange.accepts(foreign)) << "passed on";
  foreign = mine.piece(2, 0, {6, 7}, 3);
  foreign.phase = Phase::reduce_scatter;
  EXPECT_FALSE(mine.exchange.accepts(foreign)) << "of a sum";
  EXPECT_FALSE(mine.exchange.accepts(Member::word(2, Phase::exchange))) << "the sum of nothing";
  mine.take(mine.piece(1, 2, {6}, 3));
  EXPECT_FALSE(mine.exchange.accepts(mine.piece(1, 0, {4, 5}, 3))) << "again";
}

TEST(PersonalExchange, ThreeMembersWaitForTheClosingOfAll) {
  Member mine(0, 3, 1, 3);
  mine.out.clear();
  mine.take(Member::word(2, Phase::closing));  // early: of the first round
  mine.take(mine.piece(1, 0, {4}, 1));
  EXPECT_FALSE(mine.exchange.close(mine.ballots, mine.out));
  EXPECT_TRUE(mine.out.empty()) << "it has not all";
  mine.take(mine.piece(2, 0, {5}, 1));
  EXPECT_FALSE(mine.exchange.close(mine.ballots, mine.out));
  EXPECT_EQ(mine.out.sends().size(), 2u);
  EXPECT_FALSE(mine.exchange.all_have_data());
  mine.take(Member::word(1, Phase::closing));
  EXPECT_TRUE(mine.exchange.close(mine.ballots, mine.out));
  EXPECT_TRUE(mine.exchange.all_have_data());
}

// A word goes only if the data are long. It is then known when they may be forgotten.
TEST(PersonalExchange, TwoMembersWaitForNoClosing) {
  for (const std::uint32_t words : {1u, 3u}) {
    Member mine(0, 2, words, 2 * words);
    mine.out.clear();
    Words data(words);
    std::iota(data.begin(), data.end(), std::uint64_t{4});
    mine.take(mine.piece(1, 0, data, words));
    EXPECT_TRUE(mine.exchange.close(mine.ballots, mine.out));
    EXPECT_EQ(mine.out.sends().size(), words > 2 ? 1u : 0u);
    EXPECT_FALSE(mine.exchange.all_have_data());
    mine.take(Member::word(1, Phase::closing));
    EXPECT_TRUE(mine.exchange.close(mine.ballots, mine.out));
    EXPECT_EQ(mine.exchange.all_have_data(), words > 2);
  }
}

// The length of what comes is not known before, nor is it that of what goes.
TEST(PersonalExchange, ARoomThatIsTooShortGrows) {
  Member mine(0, 3, 1, 1, no_rank, true);
  mine.take(mine.piece(2, 2, {7}, 3));
  mine.take(mine.piece(1, 0, {4, 5}, 4));
  mine.take(mine.piece(2, 0, {5, 6}, 3));
  mine.take(mine.piece(1, 2, {6, 7}, 4));
  EXPECT_EQ(mine.stream(0), (Words{0}));
  EXPECT_EQ(mine.stream(1), (Words{4, 5, 6, 7}));
  EXPECT_EQ(mine.stream(2), (Words{5, 6, 7}));
  Message vast = mine.piece(1, 0, {4}, 1);
  vast.of_bytes = bytes_limit;
  EXPECT_FALSE(Member(0, 3, 1, 1, no_rank, true).exchange.accepts(vast)) << "more than a room can be";
}

TEST(PersonalExchange, AnEmptyStreamIsOneMessage) {
  Member mine(0, 3, 0, 1);
  ASSERT_EQ(mine.out.sends().size(), 2u);
  for (const Message& send : mine.out.sends()) EXPECT_TRUE(!send.value && send.of_bytes == 0 && send.source == 0);
  EXPECT_FALSE(mine.exchange.has_all_that_live(mine.ballots));
  mine.take(Member::empty_stream(1));
  EXPECT_FALSE(mine.exchange.accepts(Member::empty_stream(1))) << "again";
  Message odd = Member::empty_stream(2);
  odd.of_bytes = 8;
  EXPECT_FALSE(mine.exchange.accepts(odd)) << "a piece of nothing";
  mine.take(Member::empty_stream(2));
  EXPECT_EQ(mine.exchange.set(1), (Words{0b111}));
  EXPECT_EQ(mine.exchange.stream(2).bytes, 0u);
}

// Both of a pair know whether one of their streams is long.
TEST(PersonalExchange, ALongStreamIsAnsweredByAWordOfTheOther) {
  Member gives(0, 2, 3, 8), takes(1, 2, 1, 8);
  for (Member* each : {&gives, &takes}) each->out.clear();
  gives.take(gives.piece(1, 0, {9}, 1));
  takes.take(takes.piece(0, 0, {7, 8}, 3));
  takes.take(takes.piece(0, 2, {9}, 3));
  for (Member* each : {&gives, &takes}) {
    EXPECT_TRUE(each->exchange.close(each->ballots, each->out));
    EXPECT_EQ(each->out.sends().size(), 1u);
  }
}

TEST(PersonalExchange, AMemberWithoutMemoryIsInNoSet) {
  Member mine(0, 3, 1, 3);
  Message lacks = Member::word(2, Phase::exchange);
  lacks.blame(5);
  mine.take(lacks);
  mine.take(mine.piece(1, 0, {4}, 1));
  EXPECT_TRUE(mine.exchange.has_all_that_live(mine.ballots));
  EXPECT_EQ(mine.exchange.set(1), (Words{0b011}));
  EXPECT_EQ(mine.exchange.first_lacking(), 5);
  Member itself(2, 3, 1, 3, 5);
  ASSERT_EQ(itself.out.sends().size(), 2u);
  for (const Message& send : itself.out.sends()) EXPECT_EQ(send.culprit(), 5);
  itself.take(itself.piece(1, 0, {4}, 1));
  EXPECT_EQ(itself.exchange.set(1), (Words{0b010})) << "it has room for nothing, and hears of all";
}

TEST(PersonalExchange, CarriesWhatIsLongEnough) {
  const auto carries = [](Kind kind, std::uint64_t bytes, std::int32_t processes) {
    return Exchange::carries(row_of(kind), bytes, processes, {});
  };
  constexpr std::uint64_t enough = 96 * 1024;
  for (Kind kind : {Kind::alltoall, Kind::scatter}) {
    EXPECT_TRUE(carries(kind, enough, 3));
    EXPECT_FALSE(carries(kind, enough - 1, 3));
    EXPECT_FALSE(carries(kind, enough, 1));
  }
  EXPECT_TRUE(carries(Kind::alltoall, 1, 2));
  EXPECT_FALSE(carries(Kind::scatter, enough - 1, 2));
  EXPECT_TRUE(carries(Kind::scatter, 4096 * 100, 100));
  EXPECT_FALSE(carries(Kind::scatter, 4096 * 100 - 1, 100)) << "a tree sends less of the root's messages";
  for (Kind kind : {Kind::broadcast, Kind::gather, Kind::reduce_scatter, Kind::allgather})
    EXPECT_FALSE(carries(kind, 10 * enough, 3)) << kind_name(kind);
  Optimism others;
  others.straight_bytes = 1 << 20;
  EXPECT_FALSE(Exchange::carries(row_of(Kind::scatter), enough, 3, others));
}

// All but the giver have nothing to send, and the giver waits for nothing but the closing.
TEST(PersonalExchange, OneMemberMayBeTheOnlyGiver) {
  Member gives(1, 3, 3, 3, no_rank, false, 1), takes(0, 3, 3, 3, no_rank, false, 1);
  EXPECT_EQ(gives.out.sends().size(), 4u);
  EXPECT_TRUE(takes.out.empty());
  EXPECT_TRUE(gives.exchange.has_all_that_live(gives.ballots));
  EXPECT_FALSE(takes.exchange.has_all_that_live(takes.ballots));
  EXPECT_EQ(takes.exchange.set(1), (Words{0b101}));
  EXPECT_FALSE(takes.exchange.accepts(takes.piece(2, 0, {4, 5}, 3))) << "of one that gives nothing";
  takes.take(takes.piece(1, 0, {4, 5}, 3));
  takes.take(takes.piece(1, 2, {6}, 3));
  EXPECT_EQ(takes.stream(1), (Words{4, 5, 6}));
  EXPECT_EQ(takes.exchange.set(1), (Words{0b111}));
  EXPECT_FALSE(takes.exchange.close(takes.ballots, takes.out));
  EXPECT_EQ(takes.out.sends().size(), 1u);
}

// The rank that was to give has died, and its host lives.
TEST(PersonalExchange, AGiverMayHaveLostItsRoot) {
  Member takes(0, 3, 0, 3, no_rank, false, 1);
  Message word = Member::word(1, Phase::exchange);
  word.blame(no_rank);
  word.outcome = Outcome::root_failed;
  takes.take(word);
  EXPECT_TRUE(takes.exchange.has_all_that_live(takes.ballots));
  EXPECT_FALSE(takes.exchange.has(1));
  EXPECT_EQ(takes.exchange.first_lacking(), no_rank);
  EXPECT_EQ(takes.exchange.set(1), (Words{0b101}));
}

}  // namespace
}  // namespace ucft::detail
