// The log of a host (collectives/on_host/host_log.hpp), one access to memory at a time: between any two of them any
// other rank may make its own, die, or hear of a death. All ranks read the same entries, whole, in the same order. From
// each state that was found the ranks that live come to the end of the log.
//
// An entry points to a word beside the log. A rank reads it after it has passed the entry, and lets go of it. Its owner
// has three such words, and uses them in turn.
//
// A rank in the middle of a call is its state before the call and what its accesses have returned since. A step repeats
// the call with these and makes one access more. So the product's own functions are explored.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

#include "collectives/on_host/host_log.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail::simulator {
namespace {

struct LogPlan {
  Rank ranks = 3;
  std::uint64_t slots = 2, entries = 4;
  int max_deaths = 2;
  int max_leavers = 0;             // ranks that leave between two of their calls
  bool trusts_suspicions = false;  // a rank may hear of the death of a live one: to see what goes wrong
};

struct Pause {};

class LogWorld {
 public:
  explicit LogWorld(const LogPlan& plan)
      : plan_(&plan), words_(static_cast<std::size_t>(plan.ranks) * words()), agreed_(plan.entries) {
    for (Rank rank = 0; rank < plan.ranks; ++rank)
      nodes_.push_back({HostLog(rank, plan.ranks, log_words(), slot_words)});
  }

  struct Event {
    enum class What : std::uint8_t { step, leave, death, news } what;
    Rank rank, other = no_rank;
  };
  std::vector<Event> events() const {
    std::vector<Event> all;
    for (Rank rank = 0; rank < plan_->ranks; ++rank) {
      const Node& node = nodes_[static_cast<std::size_t>(rank)];
      if (!node.is_alive) continue;
      all.push_back({Event::What::step, rank});
      if (leavers_ < plan_->max_leavers && node.seen.empty()) all.push_back({Event::What::leave, rank});
      if (deaths_ < plan_->max_deaths) all.push_back({Event::What::death, rank});
      for (Rank other = 0; other < plan_->ranks; ++other)
        if (other != rank && (node.knows_dead & bit(other)) == 0 && (plan_->trusts_suspicions || is_dead(other)))
          all.push_back({Event::What::news, rank, other});
    }
    return all;
  }
  void happen(const Event& event) {
    Node& node = nodes_[static_cast<std::size_t>(event.rank)];
    switch (event.what) {
      case Event::What::step: step(event.rank); break;
      case Event::What::leave:
        word(event.rank, HostLayout::left()) = 1;
        node.is_alive = false;
        ++leavers_;
        break;
      case Event::What::death:
        node = {node.log, {}, false};
        ++deaths_;
        break;
      case Event::What::news: node.knows_dead |= bit(event.other); break;
    }
  }

  bool is_alive(Rank rank) const { return nodes_[static_cast<std::size_t>(rank)].is_alive; }
  bool is_dead(Rank rank) const { return !is_alive(rank) && words_[index(rank, HostLayout::left())] == 0; }
  const std::string& violation() const { return violation_; }
  // Every rank that lives has read all entries.
  bool is_over() const {
    for (const Node& node : nodes_)
      if (node.is_alive && node.log.position() < plan_->entries) return false;
    return true;
  }
  // No rank dies any more, all hear of the dead, and all go on in turn. False: they don't come to the end.
  bool comes_to_its_end() const {
    LogWorld world = *this;
    for (int turns = 0; turns < 1000 && !world.is_over(); ++turns)
      for (Rank rank = 0; rank < plan_->ranks; ++rank) {
        if (!world.is_alive(rank)) continue;
        for (Rank other = 0; other < plan_->ranks; ++other)
          if (world.is_dead(other)) world.happen({Event::What::news, rank, other});
        world.happen({Event::What::step, rank});
      }
    return world.is_over() && world.violation_.empty();
  }

  std::uint64_t fingerprint() const {
    std::uint64_t hash = 0;
    const auto word = [&](std::uint64_t each) { hash = mixed(hash, each); };
    for (HostWord each : words_) word(each);
    for (HostWord each : agreed_) word(each);
    for (const Node& node : nodes_) {
      node.log.describe(word);
      word(node.knows_dead << 1 | node.is_alive);
      word(static_cast<HostWord>(node.held.owner + 1) << 32 | node.held.position);
      word(node.seen.size());
      for (HostWord each : node.seen) word(each);
    }
    return hash;
  }

 private:
  static constexpr HostPlace slot_words = 3;  // a stamp, and two words that must be of one entry
  static constexpr std::uint64_t data_words = 3;
  struct Data {  // of an entry
    Rank owner = no_rank;
    std::uint64_t position = 0;
  };
  struct Node {
    HostLog log;
    Data held{};  // that it has not let go of
    bool is_alive = true;
    std::uint32_t knows_dead = 0;  // bits
    std::vector<HostWord> seen{};  // of its call: what its accesses have returned
    std::uint64_t read = 0;        // entries
  };

  class Memory {
   public:
    Memory(LogWorld& world, Rank me) : world_(world), me_(me), seen_(world.nodes_[static_cast<std::size_t>(me)].seen) {}

    HostWord load(Rank owner, HostPlace place) {
      return access([&] { return world_.word(owner, place); });
    }
    void store(HostPlace place, HostWord word) {
      access([&] { return world_.word(me_, place) = word; });
    }
    void write(HostPlace first, const std::byte* data, std::uint64_t bytes) {
      for (std::uint64_t i = 0; i < bytes / sizeof(HostWord); ++i) {
        HostWord word = 0;
        std::memcpy(&word, data + i * sizeof word, sizeof word);
        store(first + i, word);
      }
    }
    const std::byte* read(Rank owner, HostPlace first, std::uint64_t bytes) {
      for (std::uint64_t i = 0; i < bytes / sizeof(HostWord); ++i) view_[i] = load(owner, first + i);
      return reinterpret_cast<const std::byte*>(view_);
    }
    bool is_dead(Rank rank) {
      const Node& node = world_.nodes_[static_cast<std::size_t>(me_)];
      if (access([&] { return HostWord{node.knows_dead & bit(rank)}; }) != 0) return true;
      return world_.plan_->max_leavers > 0 && load(rank, HostLayout::left()) != 0;
    }

   private:
    template <class Act>
    HostWord access(Act act) {
      if (next_ == seen_.size()) {
        if (has_made_one_) throw Pause{};
        has_made_one_ = true;
        seen_.push_back(act());
      }
      return seen_[next_++];
    }

    LogWorld& world_;
    Rank me_;
    std::vector<HostWord>& seen_;
    std::size_t next_ = 0;
    bool has_made_one_ = false;
    HostWord view_[2] = {};
  };

  static std::uint32_t bit(Rank rank) { return std::uint32_t{1} << rank; }
  HostPlace log_words() const { return HostLog::first_slot + plan_->slots * slot_words; }
  HostPlace words() const { return log_words() + data_words; }
  HostPlace data_place(std::uint64_t position) const { return log_words() + position % data_words; }
  std::size_t index(Rank owner, HostPlace place) const { return static_cast<std::size_t>(owner) * words() + place; }
  HostWord& word(Rank owner, HostPlace place) { return words_[index(owner, place)]; }

  void step(Rank rank) {
    HostLog log = nodes_[static_cast<std::size_t>(rank)].log;
    Data held = nodes_[static_cast<std::size_t>(rank)].held;
    Memory memory(*this, rank);
    try {
      turn(rank, log, held, memory);
    } catch (const Pause&) {
      return;
    }
    Node& node = nodes_[static_cast<std::size_t>(rank)];
    node.log = log;
    node.held = held;
    node.seen.clear();
  }
  // Of a rank that has nothing to do but to read, and to append while it speaks.
  void turn(Rank rank, HostLog& log, Data& held, Memory& memory) {
    if (log.position() == plan_->entries) return;
    HostWord words[2] = {log.position() << 8 | static_cast<HostWord>(rank) << 1 | 1, 0};
    words[1] = words[0];
    switch (log.look(memory)) {
      case HostLog::Look::there: {
        std::memcpy(words, log.payload(memory, sizeof words), sizeof words);
        const Data next{log.speaks() ? no_rank : log.speaker(), log.position()};
        log.pass(memory);
        HostWord data = 0;
        if (held.owner != no_rank) data = memory.load(held.owner, data_place(held.position));
        if (held.owner != no_rank) log.let_go(memory, held.position + 1);
        if (held.owner != no_rank && data != agreed_[held.position])
          violation_ = fmt::format("rank {} finds {:x} where the data of entry {} were", rank, data, held.position);
        held = next;
        check(rank, next.position, words);
        break;
      }
      case HostLog::Look::next_speaks: break;
      case HostLog::Look::nothing:
        if (!log.speaks()) break;
        if (!may_append(log)) log.look_for_readers(memory);
        if (!may_append(log)) break;
        memory.store(data_place(log.position()), words[0]);
        log.append(memory, reinterpret_cast<const std::byte*>(words), sizeof words);
    }
  }
  static bool may_append(const HostLog& log) {
    return log.has_room() && log.position() - std::min(log.let_go_by_all(), log.position()) < data_words;
  }
  void check(Rank rank, std::uint64_t position, const HostWord (&words)[2]) {
    HostWord& agreed = agreed_[position];
    if (agreed == 0) agreed = words[0];
    if (nodes_[static_cast<std::size_t>(rank)].read++ != position) violation_ = "an entry is skipped";
    if (!violation_.empty() || (words[0] == agreed && words[1] == agreed && words[0] >> 8 == position)) return;
    violation_ =
        fmt::format("rank {} reads {:x} {:x} as entry {}, another {:x}", rank, words[0], words[1], position, agreed);
  }

  const LogPlan* plan_;
  std::vector<Node> nodes_;
  std::vector<HostWord> words_;   // of each rank's slab
  std::vector<HostWord> agreed_;  // by entry: what the first that read it has read
  int deaths_ = 0, leavers_ = 0;
  std::string violation_;
};

struct Found {
  std::size_t states = 0;
  std::string violation;
};

// Every state that can be reached, up to the first violation.
Found explore(const LogPlan& plan) {
  Found found;
  std::unordered_set<std::uint64_t> seen;
  std::vector<LogWorld> open{LogWorld(plan)};
  while (!open.empty() && found.violation.empty()) {
    const LogWorld world = std::move(open.back());
    open.pop_back();
    found.violation = world.violation();
    if (found.violation.empty() && !world.comes_to_its_end()) found.violation = "does not come to its end";
    for (const LogWorld::Event& event : world.events()) {
      LogWorld next = world;
      next.happen(event);
      if (seen.insert(next.fingerprint()).second) open.push_back(std::move(next));
    }
  }
  found.states = seen.size();
  return found;
}

void expect_right(const LogPlan& plan, std::size_t at_least) {
  const Found found = explore(plan);
  const std::string words = fmt::format("{} ranks, {} slots, {} entries, {} deaths, {} leavers: {} states", plan.ranks,
                                        plan.slots, plan.entries, plan.max_deaths, plan.max_leavers, found.states);
  EXPECT_EQ(found.violation, "") << words;
  EXPECT_GE(found.states, at_least) << words;
  fmt::print("{}\n", words);
}

TEST(HostLogExplorer, TwoRanksReadTheSameWhateverAccessWasTheLast) {
  for (std::uint64_t slots : {1, 2, 3}) expect_right({2, slots, 5, 1, 1}, 1000);
}

TEST(HostLogExplorer, ThreeRanksReadTheSameWhateverAccessesWereTheLast) {
#ifdef UCFT_SMALL
  expect_right({3, 2, 3, 2, 0}, 30000);
#else
  expect_right({3, 1, 3, 2, 1}, 30000);
  expect_right({3, 2, 4, 2, 0}, 100000);
  expect_right({4, 2, 2, 2, 0}, 300000);
#endif
}

// The harness sees what a false proof breaks.
TEST(HostLogExplorer, ASuspicionIsNoProof) {
  LogPlan plan{3, 2, 3, 0};
  plan.trusts_suspicions = true;
  EXPECT_NE(explore(plan).violation, "");
}

}  // namespace
}  // namespace ucft::detail::simulator
