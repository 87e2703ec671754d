// Quorum allreduces in small worlds, in all orders or at random: ranks that are late, that die, and that leave. All
// that live agree whose values are in each result, and no rank waits for ever.
#include "collectives/quorum/quorum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ucft::detail {
namespace {

using Kind = QuorumLetter::Kind;

std::byte* from_heap(void* arg, std::size_t bytes) {
  auto& all = *static_cast<std::vector<std::unique_ptr<std::byte[]>>*>(arg);
  return all.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
}

struct Program {
  Rank ranks = 2;
  int operations = 1;  // of each rank
  std::uint32_t quorum = 1;
  std::uint64_t words = 1;         // of a value
  std::uint64_t eager_bytes = 64;  // a value of so much more than a head is pulled
  int in_flight = 1;
  OperationNumber kept = 2;
  std::vector<Rank> victims{};
  std::vector<Rank> leavers{};  // once their operations are complete
  std::vector<Rank> idle{};     // they post half of their operations, and live on
  std::size_t death_in = 1;     // one of so many times at which a victim could die it does
  std::size_t time_in = 1;      // the same of a rank that is told the time
};

// The value of a rank in an operation. Sums of different sets differ.
std::uint64_t value_of(Rank rank, OperationNumber number, std::uint64_t word) {
  return (std::uint64_t{1} << 8 * rank) * (1 + number) + (word << 40);
}

class World {
 public:
  using Choose = std::function<std::size_t(std::size_t)>;
  World(const Program& program, Choose choose) : program_(program), choose_(std::move(choose)) {
    for (Rank rank = 0; rank < program.ranks; ++rank) nodes_.emplace_back(program, rank);
  }
  ~World() {
    for (Node& each : nodes_) each.value.reset();
  }

  // The first thing that is wrong; empty: nothing.
  std::string run() {
    constexpr int most = 20000;
    int happened = 0;
    for (std::vector<Event> all = some_events(); !all.empty() && wrong_.empty(); all = some_events()) {
      happen(all[all.size() == 1 ? 0 : choose_(all.size())]);
      if (++happened == most) wrong_ = "letters without end";
    }
    if (wrong_.empty()) check();
    for (Node& each : nodes_) {
      each.value->clear();
      if (each.buffers.in_use() != 0 && wrong_.empty()) wrong_ = std::to_string(each.buffers.in_use()) + " are left";
    }
    return wrong_.empty() ? "" : wrong_ + "; " + story_;
  }
  int late() const { return late_; }
  int dropped() const { return dropped_; }

 private:
  struct Node {
    Node(const Program& program, Rank me)
        : buffers({&from_heap, memory.get(), 4096}),
          value(std::make_unique<Quorum>(
              me, program.ranks, buffers,
              Quorum::Limits{program.eager_bytes + quorum_body::value_at(2), program.kept, 10})),
          heard(static_cast<std::size_t>(program.ranks)) {}
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    std::unique_ptr<std::vector<std::unique_ptr<std::byte[]>>> memory =
        std::make_unique<std::vector<std::unique_ptr<std::byte[]>>>();
    Buffers buffers;
    std::unique_ptr<Quorum> value;
    std::int64_t now = 0;
    int times = 0;  // that it was told the time, with no other event between, and nothing came of it
    bool is_dead = false, has_left = false;
    std::vector<bool> heard;                         // of whose end
    std::map<OperationNumber, std::string> results;  // what it was told: all but the head
    std::map<OperationNumber, bool> told;            // and that it was told
  };
  struct Flight {
    QuorumLetter letter;
    std::string body;
    Rank from, to;
  };
  struct Event {
    enum class Kind { step, time, deliver, die, lose, hear, leave } kind;
    Rank from, to;
  };

  Node& node(Rank rank) { return nodes_[static_cast<std::size_t>(rank)]; }
  bool is_over(Rank rank) { return node(rank).is_dead || node(rank).has_left; }
  bool has_flight(Rank from, Rank to) const {
    return std::ranges::any_of(flights_, [&](const Flight& each) { return each.from == from && each.to == to; });
  }
  OperationNumber operations_of(Rank rank) const {
    const bool is_idle = std::ranges::find(program_.idle, rank) != program_.idle.end();
    return static_cast<OperationNumber>(is_idle ? program_.operations / 2 : program_.operations);
  }
  bool may_leave(Rank rank) {
    return node(rank).value->posted() == operations_of(rank) && node(rank).value->is_idle() &&
           std::ranges::find(program_.leavers, rank) != program_.leavers.end();
  }

  // All that are possible if chance has left none.
  std::vector<Event> some_events() {
    std::vector<Event> all = events();
    for (int attempt = 0; attempt < 200 && all.empty() && program_.time_in > 1; ++attempt) all = events();
    return all;
  }
  std::vector<Event> events() {
    std::vector<Event> all;
    for (Rank rank = 0; rank < program_.ranks; ++rank) {
      Node& its = node(rank);
      if (is_over(rank)) continue;
      const auto posted = its.value->posted();
      if (posted < operations_of(rank) && posted - its.told.size() < static_cast<OperationNumber>(program_.in_flight))
        all.push_back({Event::Kind::step, rank, rank});
      if (its.value->wants_time() && its.times < 2 && (program_.time_in == 1 || choose_(program_.time_in) == 0))
        all.push_back({Event::Kind::time, rank, rank});
      if (may_leave(rank)) all.push_back({Event::Kind::leave, rank, rank});
      for (Rank from = 0; from < program_.ranks; ++from) {
        if (has_flight(from, rank)) all.push_back({Event::Kind::deliver, from, rank});
        if (from == rank || its.heard[static_cast<std::size_t>(from)]) continue;
        if (node(from).is_dead && has_flight(from, rank))
          all.push_back({Event::Kind::lose, from, rank});
        else if (is_over(from) && !has_flight(from, rank))
          all.push_back({Event::Kind::hear, from, rank});
      }
      if (std::ranges::find(program_.victims, rank) != program_.victims.end() &&
          (program_.death_in == 1 || choose_(program_.death_in) == 0))
        all.push_back({Event::Kind::die, rank, rank});
    }
    return all;
  }

  void happen(const Event& event) {
    const char* const names[] = {"step", "time", "deliver", "die", "lose", "hear", "leave"};
    story_ += std::string(names[static_cast<int>(event.kind)]) + " " + std::to_string(event.from) + ">" +
              std::to_string(event.to);
    Node& its = node(event.to);
    const std::size_t told = its.told.size();
    const auto between = [&](const Flight& each) { return each.from == event.from && each.to == event.to; };
    switch (event.kind) {
      case Event::Kind::step: post(its, event.to); break;
      case Event::Kind::time:
        ++its.times;
        its.value->on_time(its.now += 10);
        its.value->on_turn();
        break;
      case Event::Kind::deliver: {
        const auto first = std::ranges::find_if(flights_, between);
        Flight flight = std::move(*first);
        flights_.erase(first);
        story_ +=
            " " + std::to_string(static_cast<int>(flight.letter.kind)) + "#" + std::to_string(flight.letter.number);
        flight.letter.peer = flight.from;
        flight.letter.body = its.buffers.whole(its.buffers.copy_in(flight.body.data(), flight.body.size()));
        its.value->on_letter(flight.letter);
        its.buffers.release(flight.letter.body);
        break;
      }
      case Event::Kind::die:
        its.is_dead = true;
        std::erase_if(flights_, [&](const Flight& each) { return each.to == event.to; });
        return;
      case Event::Kind::lose: std::erase_if(flights_, between); break;
      case Event::Kind::hear:
        its.heard[static_cast<std::size_t>(event.from)] = true;
        its.value->on_gone(event.from);
        break;
      case Event::Kind::leave: its.value->leave(); break;
    }
    story_ += ", ";
    flush(its, event.to);
    if (event.kind != Event::Kind::time || its.told.size() > told) its.times = 0;
    if (event.kind != Event::Kind::leave) return;
    its.has_left = true;
    std::erase_if(flights_, [&](const Flight& each) { return each.to == event.to; });
  }

  void post(Node& its, Rank me) {
    const OperationNumber number = its.value->posted();
    const std::uint64_t bytes = program_.words * 8;
    const BufferId body = its.value->allocate_post(bytes);
    const Slice value = Quorum::value_of_post(body, bytes);
    for (std::uint64_t word = 0; word < program_.words; ++word) {
      const std::uint64_t mine = value_of(me, number, word);
      std::memcpy(its.buffers.data(value) + word * 8, &mine, 8);
    }
    posted_.insert({number, me});
    its.value->post({nullptr, Reduction(DataType::uint64, Operator::sum), bytes, 7, program_.quorum, 10}, body);
  }

  void flush(Node& its, Rank me) {
    for (const QuorumLetter& letter : std::exchange(its.value->letters(), {})) {
      if (letter.peer == me || letter.peer < 0 || letter.peer >= program_.ranks) wrong_ = "a letter to nobody";
      if (!is_over(letter.peer) && !its.heard[static_cast<std::size_t>(letter.peer)])
        flights_.push_back({letter,
                            {reinterpret_cast<const char*>(its.buffers.data(letter.body)), letter.body.bytes},
                            me,
                            letter.peer});
      its.buffers.release(letter.body);
    }
    for (const Quorum::Completion& each : std::exchange(its.value->completions(), {})) {
      if (each.number != its.told.size()) wrong_ = "told out of order";
      its.told[each.number] = true;
      if (each.result) take(its, me, each);
      dropped_ += each.result ? 0 : 1;
      its.buffers.release(each.result);
    }
  }

  void take(Node& its, Rank me, const Quorum::Completion& told) {
    const QuorumHead head = quorum_body::head(its.buffers, told.result);
    std::string text;
    int in = 0;
    std::vector<std::uint64_t> sum(program_.words);
    for (Rank rank = 0; rank < program_.ranks; ++rank) {
      const bool is_in = quorum_body::is_in(its.buffers, told.result, rank),
                 was_gone = quorum_body::was_gone(its.buffers, told.result, program_.ranks, rank);
      text += is_in ? "i" : was_gone ? "g" : "l";
      if (is_in && !posted_.contains({told.number, rank})) wrong_ = "a value that was not posted";
      if (was_gone && !is_over(rank)) wrong_ = "gone, though it lives";
      in += is_in ? 1 : 0;
      late_ += !is_in && !was_gone ? 1 : 0;
      for (std::uint64_t word = 0; word < program_.words && is_in; ++word)
        sum[word] += value_of(rank, told.number, word);
    }
    const Slice value = quorum_body::value(told.result, head);
    if (value.bytes != program_.words * 8 || std::memcmp(its.buffers.data(value), sum.data(), program_.words * 8) != 0)
      wrong_ = "rank " + std::to_string(me) + " has a wrong sum of " + text;
    const auto dead = std::ranges::count_if(nodes_, [](const Node& each) { return each.is_dead || each.has_left; });
    if (static_cast<std::size_t>(in) + static_cast<std::size_t>(dead) <
        std::min<std::size_t>(program_.quorum, nodes_.size()))
      wrong_ = "too few: " + text;
    its.results[told.number] = text;
  }

  void check() {
    std::map<OperationNumber, std::string> agreed;
    for (Rank rank = 0; rank < program_.ranks; ++rank) {
      Node& its = node(rank);
      if (its.is_dead) continue;
      if (its.told.size() != operations_of(rank) && wrong_.empty())
        wrong_ = "rank " + std::to_string(rank) + " waits for ever";
      for (const auto& [number, text] : its.results)
        if (const auto [other, is_new] = agreed.emplace(number, text); !is_new && other->second != text)
          wrong_ = "rank " + std::to_string(rank) + " has " + text + ", and another one " + other->second;
    }
    // The ranks that had the result may have died, or left before they heard of the deaths.
    if (!program_.leavers.empty() && (program_.victims.size() > 1 || (program_.victims.size() == 1 && is_long())))
      return;
    for (Rank rank = 0; rank < program_.ranks; ++rank)
      for (const auto& [number, told] : node(rank).told)
        if (!node(rank).is_dead && !node(rank).results.contains(number) && agreed.contains(number) &&
            agreed[number][static_cast<std::size_t>(rank)] == 'i')
          wrong_ = "rank " + std::to_string(rank) + " is in, and was told that it is late";
  }

  bool is_long() const { return program_.words * 8 > program_.eager_bytes; }

  const Program program_;
  Choose choose_;
  std::deque<Node> nodes_;
  std::deque<Flight> flights_;
  std::set<std::pair<OperationNumber, Rank>> posted_;
  std::string wrong_, story_;
  int late_ = 0, dropped_ = 0;
};

// Runs follow a list of choices. Where it ends, they take the first event that is possible. At most so many orders.
int search(const Program& program, int most) {
  std::vector<std::size_t> choices;
  for (int orders = 1;; ++orders) {
    std::vector<std::size_t> made, possible;
    World world(program, [&](std::size_t count) {
      made.push_back(made.size() < choices.size() ? choices[made.size()] : 0);
      possible.push_back(count);
      return made.back();
    });
    if (const std::string wrong = world.run(); !wrong.empty()) {
      ADD_FAILURE() << "order " << orders << ": " << wrong;
      return orders;
    }
    choices = made;
    while (!choices.empty() && choices.back() + 1 == possible[choices.size() - 1]) choices.pop_back();
    if (choices.empty() || orders == most) return orders;
    ++choices.back();
  }
}

TEST(QuorumOrders, OfSmallPrograms) {
  int orders = 0;
  for (const std::uint32_t quorum : {1u, 2u})
    for (const std::uint64_t words : {1u, 60u})
      for (const int operations : {1, 2}) {
        Program program{.operations = operations, .quorum = quorum, .words = words};
        orders += search(program, 5000);
        for (const Rank one : {0, 1}) {
          program.victims = {one};
          program.leavers = {};
          orders += search(program, 5000);
          program.victims = {};
          program.leavers = {one};
          orders += search(program, 5000);
        }
      }
  EXPECT_GT(orders, 50000);
  for (const Rank victim : {0, 1, 2}) orders += search({.ranks = 3, .quorum = 2, .victims = {victim}}, 5000);
  RecordProperty("orders", orders);
}

// Two ranks by hand: letters go when the test says so.
struct Pair {
  struct Side {
    explicit Side(Rank me, std::uint64_t kept)
        : buffers({&from_heap, &memory, 4096}), value(me, 2, buffers, Quorum::Limits{64, kept, 10}) {}

    void post(std::uint32_t quorum = 1) {
      const BufferId body = value.allocate_post(8);
      std::memset(buffers.data(Quorum::value_of_post(body, 8)), 1, 8);
      value.post({nullptr, Reduction(DataType::uint64, Operator::sum), 8, 7, quorum, 0}, body);
    }
    std::size_t complete() {
      for (const auto& each : std::exchange(value.completions(), {})) {
        buffers.release(each.result);
        ++completed;
      }
      return completed;
    }
    std::vector<std::unique_ptr<std::byte[]>> memory{};
    Buffers buffers;
    Quorum value;
    std::size_t completed = 0;
  };

  explicit Pair(std::uint64_t kept) : sides{Side(0, kept), Side(1, kept)} {}
  void deliver(std::size_t from) {
    Side &one = sides[from], &other = sides[1 - from];
    for (QuorumLetter letter : std::exchange(one.value.letters(), {})) {
      const Slice body = letter.body;
      letter.peer = static_cast<Rank>(from);
      letter.body = other.buffers.whole(other.buffers.copy_in(one.buffers.data(body), body.bytes));
      other.value.on_letter(letter);
      other.buffers.release(letter.body);
      one.buffers.release(body);
    }
  }

  std::array<Side, 2> sides;
};

TEST(Quorum, ALeadWaitsForARankThatHasNotItsResults) {
  Pair pair(2);
  Pair::Side& lead = pair.sides[0];
  pair.sides[1].post();
  pair.deliver(1);
  EXPECT_EQ(lead.complete(), 0u);  // it has not posted: the other one is to lead
  pair.deliver(0);
  pair.deliver(1);
  EXPECT_EQ(pair.sides[1].complete(), 1u);
  for (int i = 0; i < 4; ++i) pair.sides[1].post();
  EXPECT_EQ(pair.sides[1].complete(), 5u) << "rank 0 is in none of them: nothing to wait for";
  for (int i = 0; i < 5; ++i) lead.post();
  pair.deliver(0);
  pair.deliver(1);
  EXPECT_EQ(lead.complete(), 5u) << "late";
  pair.deliver(0);
  lead.post(2);
  pair.deliver(0);
  for (int i = 0; i < 4; ++i) pair.sides[1].post();  // the first of these has both
  EXPECT_EQ(pair.sides[1].complete(), 7u) << "operation 5 is not with rank 0 yet, and two are kept";
  pair.deliver(1);
  EXPECT_EQ(lead.complete(), 6u);
  pair.deliver(0);
  EXPECT_EQ(pair.sides[1].complete(), 9u);
}

struct Counts {
  int late = 0, dropped = 0;
};

// So many worlds by seed. draw: (seed, below) -> Program.
template <class Draw>
Counts search_at_random(std::uint64_t seeds, Draw draw) {
  Counts counts;
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
    World world(draw(seed, below), below);
    EXPECT_EQ(world.run(), "") << "seed " << seed;
    counts.late += world.late();
    counts.dropped += world.dropped();
  }
  return counts;
}

TEST(Quorum, WorldsAtRandom) {
  const Counts counts = search_at_random(12000, [](std::uint64_t seed, auto below) {
    Program program;
    program.ranks = 1 + static_cast<Rank>(below(5));
    program.operations = 1 + static_cast<int>(below(8));
    program.quorum = 1 + static_cast<std::uint32_t>(below(static_cast<std::size_t>(program.ranks)));
    program.words = below(2) == 0 ? 1 : 60;
    program.in_flight = 1 + static_cast<int>(below(4));
    program.death_in = below(2) == 0 ? 1 : 12;
    program.kept = 2 + below(2);
    for (Rank rank = 0; rank < program.ranks; ++rank) {
      const std::size_t fate = below(seed % 3 == 0 ? 3 : 6);
      if (seed % 4 != 0 && fate == 0) program.victims.push_back(rank);
      if (seed % 4 >= 2 && fate == 1) program.leavers.push_back(rank);
    }
    for (Rank rank = 0; rank < program.ranks && seed % 5 < 2; ++rank)
      if (below(3) == 0) program.idle.push_back(rank);
    const auto may_be_absent = [&](Rank rank) {
      const auto is_among = [rank](const std::vector<Rank>& ranks) {
        return std::ranges::find(ranks, rank) != ranks.end();
      };
      return is_among(program.victims) || is_among(program.leavers) || is_among(program.idle);
    };
    std::uint32_t present = 0;
    for (Rank rank = 0; rank < program.ranks; ++rank) present += may_be_absent(rank) ? 0 : 1;
    // The others are enough: else they wait for ever for the idle ones. Alone an idle one waits for nobody.
    if (!program.idle.empty()) program.quorum = std::clamp(program.quorum, 1u, std::max(present, 1u));
    return program;
  });
  EXPECT_GT(counts.late, 1000);
  EXPECT_GT(counts.dropped, 100);
}

// Two die of which one leads, or would, while others idle, or wait for what the dead had promised.
TEST(Quorum, WorldsWhoseLeadsDie) {
  search_at_random(12000, [](std::uint64_t, auto below) {
    Program program;
    program.ranks = 4 + static_cast<Rank>(below(2));
    program.operations = 2 + static_cast<int>(below(6));
    program.quorum = 1 + static_cast<std::uint32_t>(below(2));
    program.in_flight = 1 + static_cast<int>(below(2));
    program.death_in = 3 + below(20);
    program.time_in = 1 + below(8);
    program.victims = {0, 1};
    if (below(3) == 0) program.victims.push_back(2);
    if (below(2) == 0)
      program.idle.push_back(static_cast<Rank>(2 + below(static_cast<std::size_t>(program.ranks - 2))));
    if (!program.idle.empty()) program.quorum = 1;
    return program;
  });
}

}  // namespace
}  // namespace ucft::detail
