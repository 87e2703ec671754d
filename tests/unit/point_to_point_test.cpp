// Sends and receives by hand, and in worlds of several ranks at random: what is received, in which order, and what ends
// when a rank dies.
#include "collectives/point_to_point/point_to_point.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace ucft::detail {
namespace {

using Outcome = PointToPoint::Completion::Outcome;
using Kind = Letter::Kind;

constexpr PointToPoint::Limits small{.eager_bytes = 8, .window_bytes = 256};

PointToPoint::Completion end_of(const Letter& eager) { return {eager.id, Outcome::success, eager.peer, eager.bytes}; }

PointToPoint::Completion end_of(const PointToPoint::Piece& last) {
  return {last.id, Outcome::success, last.letter.peer, last.letter.offset + last.letter.data.size()};
}

// Of one rank that is driven by hand.
struct Hand {
  explicit Hand(Rank ranks = 3) : rank(0, ranks, small) {}

  void send(std::intptr_t id, Rank to, std::int32_t tag, std::string_view data) {
    rank.send(reinterpret_cast<void*>(id), to, tag, std::as_bytes(std::span(data)));
  }
  void receive(std::intptr_t id, Rank from, std::int32_t tag, std::size_t bytes = 8) {
    rooms.push_back(std::make_unique<std::string>(bytes, '.'));
    rank.receive(reinterpret_cast<void*>(id), from, tag, std::as_writable_bytes(std::span(*rooms.back())));
  }
  void eager(Rank from, std::uint64_t number, std::int32_t tag, std::string_view data) {
    rank.on_letter({Kind::eager, from, number, tag, 0, 0, static_cast<std::uint32_t>(data.size()),
                    std::as_bytes(std::span(data))});
  }
  void offer(Rank from, std::uint64_t number, std::int32_t tag, std::uint32_t bytes) {
    rank.on_letter({Kind::offer, from, number, tag, 0, 0, bytes, {}});
  }
  void piece(Rank from, std::uint64_t number, std::uint32_t offset, std::string_view data) {
    rank.on_letter({Kind::piece, from, number, 0, 0, offset, 0, std::as_bytes(std::span(data))});
  }
  // "3: success 1 5": what has ended since the last time: id, outcome, other rank, bytes.
  std::string ended() {
    std::string all;
    for (const auto& each : std::exchange(rank.completions(), {})) {
      const char* const names[] = {"success", "gone", "truncated"};
      all += (all.empty() ? "" : ", ") + std::to_string(reinterpret_cast<std::intptr_t>(each.id)) + ": " +
             names[static_cast<int>(each.outcome)] + " " + std::to_string(each.peer) + " " + std::to_string(each.bytes);
    }
    return all;
  }
  // "offer 1 0": what was said since the last time: kind, other rank, number.
  std::string said() {
    std::string all;
    for (const Letter& each : std::exchange(rank.letters(), {})) {
      if (each.kind == Kind::eager) rank.completions().push_back(end_of(each));  // it has left
      const char* const names[] = {"eager", "offer", "accept", "refuse", "piece", "credit"};
      all += (all.empty() ? "" : ", ") + std::string(names[static_cast<int>(each.kind)]) + " " +
             std::to_string(each.peer) + " " + std::to_string(each.number);
    }
    return all;
  }

  PointToPoint rank;
  std::vector<std::unique_ptr<std::string>> rooms;
};

TEST(PointToPoint, AShortMessageIsCompleteForItsSenderOnceItHasLeft) {
  Hand hand;
  hand.send(1, 2, 5, "hello");
  EXPECT_EQ(hand.ended(), "");
  EXPECT_EQ(hand.said(), "eager 2 0");
  EXPECT_EQ(hand.ended(), "1: success 2 5");
}

TEST(PointToPoint, MessagesAndReceivesMeetInEitherOrder) {
  Hand hand;
  hand.eager(1, 0, 5, "one");
  hand.receive(1, 1, 5);
  EXPECT_EQ(hand.ended(), "1: success 1 3");
  hand.receive(2, 1, 5);
  EXPECT_EQ(hand.ended(), "");
  hand.eager(1, 1, 5, "two");
  EXPECT_EQ(hand.ended(), "2: success 1 3");
  EXPECT_EQ(*hand.rooms[0] + *hand.rooms[1], "one.....two.....");
  EXPECT_TRUE(hand.rank.is_idle());
}

TEST(PointToPoint, TheFirstSentAndTheFirstPostedMeet) {
  Hand hand;
  hand.eager(1, 1, 5, "two");  // overtakes
  hand.receive(1, 1, 5);
  EXPECT_EQ(hand.ended(), "");
  hand.eager(1, 0, 5, "one");
  EXPECT_EQ(hand.ended(), "1: success 1 3");
  EXPECT_EQ(hand.rooms[0]->substr(0, 3), "one");
  hand.receive(2, any_source, 6);
  hand.receive(3, 1, 6);
  hand.eager(1, 2, 6, "three");
  EXPECT_EQ(hand.ended(), "2: success 1 5") << "posted before";
  hand.receive(4, any_source, 5);
  EXPECT_EQ(hand.ended(), "4: success 1 3") << "the second, which was here";
}

TEST(PointToPoint, ALongMessageWaitsForItsReceive) {
  Hand hand;
  hand.send(1, 1, 5, "a long message");
  EXPECT_EQ(hand.said(), "offer 1 0");
  PointToPoint::Piece piece;
  EXPECT_FALSE(hand.rank.take_piece(6, piece));
  hand.rank.on_letter({.kind = Kind::accept, .peer = 1, .number = 0});
  std::string data;
  for (int pieces = 0; hand.rank.take_piece(6, piece); ++pieces) {
    EXPECT_EQ(piece.letter.offset, data.size());
    data.append(reinterpret_cast<const char*>(piece.letter.data.data()), piece.letter.data.size());
    EXPECT_EQ(piece.is_last, pieces == 2);
    EXPECT_EQ(piece.id, reinterpret_cast<void*>(1));
  }
  EXPECT_EQ(data, "a long message");
  EXPECT_EQ(hand.ended(), "") << "it is complete once they have left";
  hand.offer(2, 0, 9, 12);
  EXPECT_EQ(hand.said(), "");
  hand.receive(2, 2, 9, 20);
  EXPECT_EQ(hand.said(), "accept 2 0");
  hand.piece(2, 0, 6, "ssages");
  EXPECT_EQ(hand.ended(), "");
  hand.piece(2, 0, 0, "two me");
  EXPECT_EQ(hand.ended(), "2: success 2 12");
  EXPECT_EQ(*hand.rooms[0], "two messages........");
}

TEST(PointToPoint, AMessageThatIsTooLongIsRefused) {
  Hand hand;
  hand.eager(1, 0, 5, "12345");
  hand.receive(1, 1, 5, 4);
  EXPECT_EQ(hand.ended(), "1: truncated 1 5");
  EXPECT_EQ(hand.said(), "credit 1 0") << "it has been taken";
  hand.receive(2, 1, 5, 4);
  hand.offer(1, 1, 5, 100);
  EXPECT_EQ(hand.ended(), "2: truncated 1 100");
  EXPECT_EQ(hand.said(), "refuse 1 1");
  EXPECT_EQ(*hand.rooms[0] + *hand.rooms[1], "........");
  hand.send(3, 1, 5, "a long message");
  hand.rank.on_letter({.kind = Kind::refuse, .peer = 1, .number = 0});
  EXPECT_EQ(hand.ended(), "3: success 1 14");
  EXPECT_TRUE(hand.rank.is_idle());
}

TEST(PointToPoint, AReceiverThatReceivesNothingHasNoMoreThanAWindow) {
  Hand hand;
  for (std::intptr_t id = 1; id <= 5; ++id) hand.send(id, 1, 5, "");
  EXPECT_EQ(hand.said(), "eager 1 0, eager 1 1, eager 1 2, eager 1 3, offer 1 4") << "64 bytes each";
  hand.rank.on_letter({.kind = Kind::credit, .peer = 1, .credit = 64});
  hand.send(6, 1, 5, "");
  EXPECT_EQ(hand.said(), "eager 1 5");
  hand.rank.on_letter({.kind = Kind::accept, .peer = 1, .number = 4});
  EXPECT_EQ(hand.ended(),
            "1: success 1 0, 2: success 1 0, 3: success 1 0, 4: success 1 0, 6: success 1 0, 5: success 1 0");
  for (std::uint64_t number = 0; number < 2; ++number) hand.eager(2, number, 5, "12345678");
  hand.receive(7, 2, 5);
  EXPECT_EQ(hand.said(), "credit 2 0") << "a quarter of the window";
  hand.receive(8, 2, 5);
  hand.send(9, 2, 5, "");
  EXPECT_EQ(hand.said(), "credit 2 0, eager 2 0");
}

TEST(PointToPoint, TheDeadAreNamedAndWhatTheyHadSentIsReceived) {
  Hand hand;
  hand.eager(1, 0, 5, "last");
  hand.offer(1, 1, 5, 100);
  hand.eager(1, 3, 5, "behind");
  hand.receive(1, 1, 6);
  hand.send(2, 1, 5, "a long message");
  hand.offer(1, 2, 7, 100);
  hand.receive(3, 1, 7, 100);
  hand.receive(4, 2, 5);
  hand.rank.on_gone(1);
  EXPECT_EQ(hand.ended(), "2: gone 1 0, 3: gone 1 0, 1: gone 1 0");
  hand.receive(5, 1, 5);
  EXPECT_EQ(hand.ended(), "5: success 1 4");
  hand.receive(6, 1, 5, 100);
  hand.send(7, 1, 5, "");
  EXPECT_EQ(hand.ended(), "6: gone 1 0, 7: gone 1 0") << "the offer's data are gone";
  hand.receive(8, 1, 5);
  EXPECT_EQ(hand.ended(), "8: success 1 6") << "behind the offer";
  hand.eager(2, 0, 5, "alive");
  EXPECT_EQ(hand.ended(), "4: success 2 5");
}

TEST(PointToPoint, ARankThatTakesNoPieceStopsNoOther) {
  Hand hand;
  for (Rank to : {1, 2}) {
    hand.send(to, to, 5, "a long message");
    hand.rank.on_letter({.kind = Kind::accept, .peer = to, .number = 0});
  }
  const Rank full[] = {1};
  PointToPoint::Piece piece;
  for (int pieces = 0; pieces < 3; ++pieces) {
    ASSERT_TRUE(hand.rank.take_piece(6, piece, full));
    EXPECT_EQ(piece.letter.peer, 2);
  }
  EXPECT_FALSE(hand.rank.take_piece(6, piece, full));
  EXPECT_TRUE(hand.rank.take_piece(6, piece));
  EXPECT_EQ(piece.letter.peer, 1);
}

TEST(PointToPoint, AReceiveThatIsCancelledGetsNothing) {
  Hand hand;
  hand.receive(1, 1, 5);
  EXPECT_TRUE(hand.rank.cancel(reinterpret_cast<void*>(1)));
  EXPECT_FALSE(hand.rank.cancel(reinterpret_cast<void*>(1)));
  hand.eager(1, 0, 5, "one");
  EXPECT_EQ(hand.ended(), "");
  hand.receive(2, 1, 5);
  EXPECT_EQ(hand.ended(), "2: success 1 3");
}

// Of an offer that lies here, and of one that a receive has accepted.
TEST(PointToPoint, AReceiveFromAnyRankThatHadAnOfferOfTheDeadNamesItForAll) {
  Hand hand;
  hand.offer(1, 0, 5, 14);
  hand.rank.on_gone(1);
  hand.receive(1, any_source, 5, 20);
  EXPECT_EQ(hand.ended(), "1: gone 1 0");
  hand.receive(2, any_source, 5, 20);
  EXPECT_EQ(hand.ended(), "");
  Hand other;
  other.receive(1, any_source, 5, 20);
  other.receive(2, any_source, 5, 20);
  other.offer(1, 0, 5, 14);
  other.rank.on_gone(1);
  EXPECT_EQ(other.ended(), "1: gone 1 0");
}

TEST(PointToPoint, AReceiveFromAnyRankSaysOnceWhoHasDied) {
  Hand hand(4);
  hand.receive(1, any_source, 5);
  hand.receive(2, any_source, 5);
  hand.rank.on_gone(2);
  EXPECT_EQ(hand.ended(), "1: gone 2 0");
  hand.rank.on_gone(1);
  EXPECT_EQ(hand.ended(), "2: gone 1 0");
  hand.receive(3, any_source, 5);
  EXPECT_EQ(hand.ended(), "") << "both are known";
  hand.receive(4, any_source, 5);
  hand.eager(3, 0, 5, "three");
  EXPECT_EQ(hand.ended(), "3: success 3 5");
  hand.rank.on_gone(3);
  EXPECT_EQ(hand.ended(), "4: gone 3 0");
  hand.receive(5, any_source, 5);
  EXPECT_EQ(hand.ended().substr(0, 7), "5: gone") << "nobody is left";
}

// Several ranks, whose letters come in the order of each pair or in any. Each sends to each, at random, and all is
// received. Bytes say who has sent them, to whom, with which tag, and the how many-th of these it was.
class World {
 public:
  // has_any: what has the last tag is received from any rank.
  World(std::uint64_t seed, Rank ranks, bool overtakes, bool has_any)
      : random_(seed), overtakes_(overtakes), has_any_(has_any) {
    for (Rank rank = 0; rank < ranks; ++rank) nodes_.emplace_back(rank, ranks);
  }

  void run(int steps, Rank victim) {
    for (int step = 0; step < steps; ++step) {
      if (step == steps / 2 && victim != no_rank) kill(victim);
      act();
    }
    for (Node& node : nodes_)  // receives for all that was sent
      if (!node.is_dead)
        for (const auto& [key, sent] : sent_)
          while (key.to == node.me && node.posted[key] < sent) post_receive(node, key.from, key.tag);
    for (int quiet = 0; quiet < 1000; ++quiet)
      if (deliver()) quiet = 0;
  }

  std::string wrong;

  // Of a rank that lives: nothing is pending but receives whose messages were lost with a death, which have ended, too.
  void expect_all_over() {
    for (Node& node : nodes_) EXPECT_TRUE(node.is_dead || node.value.is_idle()) << "rank " << node.me;
    EXPECT_EQ(wrong, "");
  }

 private:
  struct Key {
    Rank from, to;
    std::int32_t tag;
    auto operator<=>(const Key&) const = default;
  };
  struct Call {
    bool is_send;
    Key key;  // from may be any_source
    std::string data;
    int which = 0;  // of the messages with that key
    bool is_over = false;
  };
  struct Node {
    Node(Rank rank, Rank ranks) : me(rank), value(rank, ranks, small) {}
    Rank me;
    PointToPoint value;
    bool is_dead = false;
    std::map<Key, int> posted;
    std::set<std::string> received;
    std::deque<Call> calls{};
  };
  struct Flight {
    Letter letter;
    std::string data;
    Rank to;
  };

  static constexpr std::int32_t tags = 3;

  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  Node& node(Rank rank) { return nodes_[static_cast<std::size_t>(rank)]; }

  static std::string text(const Key& key, int which) {
    std::string made = std::to_string(key.from) + ">" + std::to_string(key.to) + "#" + std::to_string(key.tag) + "/" +
                       std::to_string(which);
    if (which % 3 == 0) made += " which is a longer one";
    return made;
  }

  void act() {
    Node& its = node(static_cast<Rank>(below(nodes_.size())));
    const Rank other = static_cast<Rank>(below(nodes_.size()));
    const auto tag = static_cast<std::int32_t>(below(tags));
    const std::uint64_t what = below(6);
    if (its.is_dead || what >= 3) {
      deliver();
    } else if (what == 0) {
      const Key key{its.me, other, tag};
      its.calls.push_back({true, key, text(key, sent_[key]++)});
      Call& call = its.calls.back();
      its.value.send(&call, other, tag, std::as_bytes(std::span(call.data)));
      flush(its);
    } else if (its.posted[{other, its.me, tag}] < sent_[{other, its.me, tag}]) {
      post_receive(its, other, tag);
    }
  }

  void post_receive(Node& its, Rank from, std::int32_t tag) {
    const int which = its.posted[{from, its.me, tag}]++;
    if (has_any_ && tag == tags - 1) from = any_source;
    its.calls.push_back({false, {from, its.me, tag}, std::string(40, '.'), which});
    Call& call = its.calls.back();
    its.value.receive(&call, from, tag, std::as_writable_bytes(std::span(call.data)));
    flush(its);
  }

  void flush(Node& its) {
    const auto send = [&](const Letter& letter) {
      if (letter.kind == Kind::eager) its.value.completions().push_back(end_of(letter));
      flights_.push_back(
          {letter, {reinterpret_cast<const char*>(letter.data.data()), letter.data.size()}, letter.peer});
      flights_.back().letter.peer = its.me;
    };
    for (const Letter& letter : std::exchange(its.value.letters(), {})) send(letter);
    for (PointToPoint::Piece piece; its.value.take_piece(7, piece);) {
      send(piece.letter);
      if (piece.is_last) its.value.completions().push_back(end_of(piece));
    }
    for (const auto& each : std::exchange(its.value.completions(), {})) {
      auto& call = *static_cast<Call*>(each.id);
      if (std::exchange(call.is_over, true)) wrong = "told twice";
      if (each.outcome == Outcome::truncated) wrong = "truncated";
      if (each.outcome == Outcome::gone && !node(each.peer).is_dead) wrong = "gone, though it lives";
      if (each.outcome != Outcome::success || call.is_send) continue;
      const Key key{each.peer, its.me, call.key.tag};
      const std::string got = call.data.substr(0, each.bytes);
      if (!its.received.insert(got).second) wrong = got + " twice";
      if (call.key.from == any_source ? !got.starts_with(text(key, 1).substr(0, 6)) : got != text(key, call.which))
        wrong = got + ", not number " + std::to_string(call.which);
    }
  }

  // One that may come now: the first of its pair, or any.
  bool deliver() {
    if (flights_.empty()) return false;
    const std::size_t first = below(flights_.size());
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      const std::size_t at = (first + i) % flights_.size();
      const auto is_before = [&](const Flight& each) {
        return each.letter.peer == flights_[at].letter.peer && each.to == flights_[at].to;
      };
      if (!overtakes_ && std::any_of(flights_.begin(), flights_.begin() + static_cast<std::ptrdiff_t>(at), is_before))
        continue;
      const Flight flight = std::move(flights_[at]);
      flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(at));
      Node& its = node(flight.to);
      if (its.is_dead) return true;
      Letter letter = flight.letter;
      letter.data = std::as_bytes(std::span(flight.data));
      its.value.on_letter(letter);
      flush(its);
      return true;
    }
    return false;
  }

  // The last letters of the dead are lost. The others hear of it when the rest has come.
  void kill(Rank victim) {
    node(victim).is_dead = true;
    for (std::size_t lost = below(4); lost > 0; --lost)
      for (std::size_t i = flights_.size(); i-- > 0;)
        if (flights_[i].letter.peer == victim) {
          flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(i));
          break;
        }
    const auto is_its = [&](const Flight& each) { return each.letter.peer == victim; };
    while (std::ranges::any_of(flights_, is_its)) deliver();
    for (Node& its : nodes_) {
      if (its.is_dead) continue;
      its.value.on_gone(victim);
      flush(its);
    }
  }

  std::mt19937_64 random_;
  bool overtakes_, has_any_;
  std::deque<Node> nodes_;
  std::map<Key, int> sent_;
  std::deque<Flight> flights_;
};

TEST(PointToPoint, AllThatIsSentIsReceivedInOrder) {
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    World world(seed, 1 + static_cast<Rank>(seed % 4), seed % 2 == 0, true);
    world.run(400, no_rank);
    world.expect_all_over();
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(PointToPoint, WhoeverDiesHoldsNobodyUp) {
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const bool has_any = seed % 5 == 0;
    World world(seed, 2 + static_cast<Rank>(seed % 3), false, has_any);
    world.run(400, static_cast<Rank>(seed % 2));
    EXPECT_EQ(world.wrong, "");
    if (!has_any) world.expect_all_over();  // a receive from any rank may be for a message that is lost
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// ---- all orders -----------------------------------------------------------------------------------------------------

// Small programs, in each order of their steps, deliveries, the death of a rank, and the news of it. A run follows a
// list of choices. Where the list ends it takes the first event that is possible, and notes how many there were.
class Orders {
 public:
  struct Step {
    Rank rank;
    bool is_send;
    Rank other;
    std::size_t bytes;  // of a send: more than 8 are offered
    std::int32_t tag = 0;
  };
  struct Program {
    Rank ranks;
    std::vector<Step> steps;  // of each rank in this order
    Rank victim = no_rank;
  };

  // How many orders there are. Stops at the first that is wrong.
  static int search(const Program& program) {
    std::vector<std::size_t> choices;
    for (int orders = 1;; ++orders) {
      Orders run(program, choices);
      run.run();
      if (!run.wrong_.empty()) {
        ADD_FAILURE() << "order " << orders << ": " << run.wrong_ << "; " << run.story_;
        return orders;
      }
      choices = run.made_;
      while (!choices.empty() && choices.back() + 1 == run.possible_[choices.size() - 1]) choices.pop_back();
      if (choices.empty()) return orders;
      ++choices.back();
    }
  }

 private:
  struct Call {
    Step step;
    std::string data;
    bool is_over = false, is_again = false;
  };
  struct Node {
    std::unique_ptr<PointToPoint> value;
    std::deque<Call> calls{};
    std::size_t next = 0;
    bool is_dead = false, has_heard = false;
    std::map<std::pair<Rank, std::int32_t>, int> sent{};
    std::set<std::tuple<Rank, std::int32_t, std::string>> received{};
  };
  struct Flight {
    Letter letter;
    std::string data;
    Rank from, to;
  };
  struct Event {
    enum class Kind { step, deliver, die, lose, hear } kind;
    Rank from, to;
  };

  Orders(const Program& program, const std::vector<std::size_t>& choices) : program_(program), choices_(choices) {
    for (Rank rank = 0; rank < program.ranks; ++rank)
      nodes_.push_back({std::make_unique<PointToPoint>(rank, program.ranks, small)});
    for (const Step& step : program.steps) node(step.rank).calls.push_back({.step = step, .data = {}});
  }

  Node& node(Rank rank) { return nodes_[static_cast<std::size_t>(rank)]; }
  std::size_t choose(std::size_t possible) {
    const std::size_t choice = made_.size() < choices_.size() ? choices_[made_.size()] : 0;
    made_.push_back(choice);
    possible_.push_back(possible);
    return choice;
  }
  bool has_flight(Rank from, Rank to) const {
    return std::ranges::any_of(flights_, [&](const Flight& each) { return each.from == from && each.to == to; });
  }

  std::vector<Event> events() {
    std::vector<Event> all;
    for (Rank rank = 0; rank < program_.ranks; ++rank)
      if (!node(rank).is_dead && node(rank).next < node(rank).calls.size())
        all.push_back({Event::Kind::step, rank, rank});
    for (Rank from = 0; from < program_.ranks; ++from)
      for (Rank to = 0; to < program_.ranks; ++to)
        if (!node(to).is_dead && has_flight(from, to)) all.push_back({Event::Kind::deliver, from, to});
    if (program_.victim == no_rank) return all;
    const Rank victim = program_.victim;
    if (!node(victim).is_dead) all.push_back({Event::Kind::die, victim, victim});
    for (Rank to = 0; to < program_.ranks && node(victim).is_dead; ++to) {
      if (node(to).is_dead || node(to).has_heard) continue;
      if (has_flight(victim, to))
        all.push_back({Event::Kind::lose, victim, to});
      else
        all.push_back({Event::Kind::hear, victim, to});
    }
    return all;
  }

  void run() {
    for (std::vector<Event> all = events(); !all.empty() && wrong_.empty(); all = events())
      happen(all[all.size() == 1 ? 0 : choose(all.size())]);
    for (const Node& each : nodes_)
      for (const Call& call : each.calls)
        if (!each.is_dead && !call.is_over && !call.is_again)
          wrong_ += "a call of rank " + std::to_string(call.step.rank) + " never ends ";
  }

  void happen(const Event& event) {
    const char* const names[] = {"step", "deliver", "die", "lose", "hear"};
    story_ += std::string(names[static_cast<int>(event.kind)]) + " " + std::to_string(event.from) + ">" +
              std::to_string(event.to) + " ";
    Node& its = node(event.to);
    switch (event.kind) {
      case Event::Kind::step: return post(its, its.calls[its.next++]);
      case Event::Kind::deliver: {
        const auto first = std::ranges::find_if(
            flights_, [&](const Flight& each) { return each.from == event.from && each.to == event.to; });
        const Flight flight = std::move(*first);
        flights_.erase(first);
        Letter letter = flight.letter;
        letter.peer = flight.from;
        letter.data = std::as_bytes(std::span(flight.data));
        its.value->on_letter(letter);
        return flush(its, event.to);
      }
      case Event::Kind::die:
        its.is_dead = true;
        std::erase_if(flights_, [&](const Flight& each) { return each.to == event.to; });
        return;
      case Event::Kind::lose:  // all that has not come yet
        std::erase_if(flights_, [&](const Flight& each) { return each.from == event.from && each.to == event.to; });
        return;
      case Event::Kind::hear:
        its.has_heard = true;
        its.value->on_gone(event.from);
        return flush(its, event.to);
    }
  }

  void post(Node& its, Call& call) {
    const Step& step = call.step;
    if (step.is_send) {
      call.data = std::string(step.bytes, static_cast<char>('a' + its.sent[{step.other, step.tag}]++));
      its.value->send(&call, step.other, step.tag, std::as_bytes(std::span(call.data)));
    } else {
      call.data = std::string(step.bytes, '.');
      its.value->receive(&call, step.other, step.tag, std::as_writable_bytes(std::span(call.data)));
    }
    flush(its, step.rank);
  }

  void flush(Node& its, Rank me) {
    const auto send = [&](const Letter& letter) {
      if (letter.kind == Kind::eager) its.value->completions().push_back(end_of(letter));
      if (!node(letter.peer).is_dead)
        flights_.push_back(
            {letter, {reinterpret_cast<const char*>(letter.data.data()), letter.data.size()}, me, letter.peer});
    };
    for (const Letter& letter : std::exchange(its.value->letters(), {})) send(letter);
    for (PointToPoint::Piece piece; its.value->take_piece(9, piece);) {
      send(piece.letter);
      if (piece.is_last) its.value->completions().push_back(end_of(piece));
    }
    for (const auto& each : std::exchange(its.value->completions(), {})) end(its, *static_cast<Call*>(each.id), each);
  }

  void end(Node& its, Call& call, const PointToPoint::Completion& each) {
    if (std::exchange(call.is_over, true)) wrong_ += "told twice ";
    if (each.outcome == Outcome::truncated) wrong_ += "truncated ";
    if (each.outcome == Outcome::gone && (each.peer != program_.victim || !its.has_heard))
      wrong_ += "gone, though it lives ";
    // It has heard of the death; the next one is for a message that may come.
    if (each.outcome == Outcome::gone && call.step.other == any_source)
      its.calls.push_back({.step = call.step, .data = {}, .is_again = true});
    if (each.outcome != Outcome::success || call.step.is_send) return;
    // From one rank: the how many-th receive gets the how many-th message. From any: each once.
    int which = 0;
    for (const Call& before : its.calls) {
      if (&before == &call) break;
      which += !before.step.is_send && before.step.other == call.step.other && before.step.tag == call.step.tag;
    }
    const std::string got = call.data.substr(0, each.bytes);
    if (call.step.other != any_source && got != std::string(each.bytes, static_cast<char>('a' + which)))
      wrong_ += "received " + got + " ";
    if (!its.received.insert({each.peer, call.step.tag, got}).second) wrong_ += got + " twice ";
  }

  const Program& program_;
  const std::vector<std::size_t>& choices_;
  std::vector<std::size_t> made_, possible_;
  std::vector<Node> nodes_;
  std::deque<Flight> flights_;
  std::string wrong_, story_;
};

TEST(PointToPointOrders, AllOrdersOfSmallPrograms) {
  constexpr std::size_t eager = 5, longer = 14, room = 20;
  using Steps = std::vector<Orders::Step>;
  const Steps two_of_a_tag{{0, true, 1, longer}, {0, true, 1, eager}, {1, false, 0, room}, {1, false, 0, room}};
  const Steps crosswise{{0, true, 1, longer}, {0, false, 1, room}, {1, true, 0, longer}, {1, false, 0, room}};
  const Steps from_any{
      {0, true, 2, longer}, {1, true, 2, eager}, {2, false, any_source, room}, {2, false, any_source, room}};
  const Steps in_turns{{0, true, 1, eager}, {1, false, 0, room},    {1, true, 0, longer},
                       {0, false, 1, room}, {0, true, 1, eager, 1}, {1, false, 0, room, 1}};
  const Steps to_itself{{0, true, 0, longer}, {0, false, 0, room}, {0, true, 1, eager}, {1, false, any_source, room}};
  int orders = 0;
  for (const auto& [ranks, steps] :
       {std::pair<Rank, Steps>{2, two_of_a_tag}, {2, crosswise}, {3, from_any}, {2, in_turns}, {2, to_itself}})
    for (Rank victim = no_rank; victim < ranks; ++victim) {
      if (steps.front().other == 0 && victim == 0) continue;  // nobody is left that sends to rank 1 but the dead
      orders += Orders::search({ranks, steps, victim});
      if (HasFailure()) FAIL() << "program of " << steps.size() << " steps, victim " << victim;
    }
  EXPECT_GT(orders, 10000);
  RecordProperty("orders", orders);
}

}  // namespace
}  // namespace ucft::detail
