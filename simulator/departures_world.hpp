// A world of up to eight ranks on several hosts, each with its Departures (the object that runs in a real job). Ranks
// die, hang and come back, links are cut in one direction or both, and ranks leave. No clock: any possible event may be
// next. So every delay of a message and every late or early detector is among the orders.
//
// The word of a rank's detector follows by rule, from docs/failure_model.md, "Detection". It tells the end of a process
// of its host, and by the lifeline that of a process of another one. It tells the silence of all ranks that it does not
// hear, judged together. Messages travel in order between two ranks, and wait where a link is cut until it is mended.
//
// Invariants that are checked after every event: a proof stays; a rank that has departed, or is out, stays so. And at
// the end, when nothing more can happen: see DeparturesWorld::check_end().
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "timeout_detector/departures.hpp"

namespace ucft::detail::simulator {

// Each happens once, at any moment.
struct Fault {
  enum class Kind : std::uint8_t {
    die,         // `rank` ends; what it sent arrives
    die_losing,  // what it sent and has not arrived is lost, as if it had ended before
    power_off,   // all ranks of `host` end, and their kernel says nothing
    suspend,
    resume,
    cut,
    heal,    // `links`
    leave,   // `rank` says that it leaves, and goes when all that it is connected with, and that run, have heard that
    suspect  // `rank` takes `other` for dead, of its own host without a fence
  };
  Kind kind;
  int rank = -1, other = -1, host = -1;
  std::uint64_t links = 0;  // see links()
};

// Those from one set of hosts to another, as bits.
std::uint64_t links(std::initializer_list<int> from, std::initializer_list<int> to);
std::uint64_t links_between(std::initializer_list<int> some, std::initializer_list<int> others);  // both directions

struct DeparturesPlan {
  std::vector<std::uint64_t> host_of;  // by rank; 0, 1, ...
  std::vector<Fault> faults;
  bool fence = true;
  bool shares_memory = true;       // with ranks of its host
  bool connections_break = false;  // where a link is cut, a rank is dead or has left, or its other end is closed
  int reach = 8;                   // lifelines: to so many next ranks, and as many before, in a ring; 8: to all
  bool in_a_ring = false;  // of hosts: ranks of two that aren't neighbours have no connection, and news travel along it
  std::vector<bool> absent{};  // by rank: failed before all else, as all know; empty: none
  bool prompt = true;          // messages are faster than detectors: silence is found when nothing is under way
};

class DeparturesWorld {
 public:
  explicit DeparturesWorld(const DeparturesPlan& plan);

  struct Event {
    enum class Kind : std::uint8_t { fault, message, lifeline, turn, death, silence, look, timer, connection_lost, go };
    Kind kind;
    std::int8_t rank = -1;   // to whom it happens
    std::int8_t other = -1;  // of whom; the fault's number
  };
  std::vector<Event> enabled() const;
  void carry_out(const Event& event);  // one of those

  // "" or what is wrong.
  const std::string& violation() const { return violation_; }
  // Nothing is enabled. A rank goes on or is out, unless it is dead, has left, or hangs. A rank that goes on waits for
  // none that is dead, out or has left, and reports none that is absent. It counts no other that goes on as gone (but
  // after a last barrier, when no operation is left to differ in). So all that go on count the same ranks as gone.
  void check_end();
  int going_on() const;
  // Two that take part count each other as failed now, before all words have arrived.
  bool has_two_sides() const;
  std::string text() const;  // what has become of each rank
  std::uint64_t hash() const;
  static std::string text_of(const Event& event);

 private:
  using Rank = Departures::Rank;
  using Mark = Departures::Mark;
  struct Word {
    enum class Kind : std::uint8_t { alarm, excluded, leaving, leave, left, out, end };
    Kind kind;
    std::int8_t about = -1;
    bool proved = false, all_know = false;
  };
  using Channel = std::vector<Word>;  // [0] arrives first
  struct Process {
    Departures departures;
    Departures::Time now{};
    Mark mark = Mark::none;
    bool excluded_mark = false, dead = false, suspended = false, has_left = false, turn_due = false;
    bool was_harmed = false;  // it, or a way to it, was hit by a fault: others may take its leaving for silence
    bool is_leaving = false;
    bool is_ready = false;          // a rank that counted on it leaves: no operation of both is left
    std::uint8_t told_leaving = 0;  // by whom
    std::uint8_t suspected = 0, proved = 0, leaving = 0, lost = 0;  // by its detector; connections
  };

  Process& at(Rank rank) { return processes_[static_cast<std::size_t>(rank)]; }
  const Process& at(Rank rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  Rank size() const { return static_cast<Rank>(processes_.size()); }
  bool runs(Rank rank) const { return !at(rank).dead && !at(rank).has_left && !at(rank).suspended; }
  bool takes_part(Rank rank) const { return runs(rank) && !at(rank).departures.is_out(); }
  bool is_here(Rank a, Rank b) const {
    return plan_->host_of[static_cast<std::size_t>(a)] == plan_->host_of[static_cast<std::size_t>(b)];
  }
  bool is_absent(Rank rank) const { return !plan_->absent.empty() && plan_->absent[static_cast<std::size_t>(rank)]; }
  bool have_lifeline(Rank a, Rank b) const;
  bool are_near(std::uint64_t host, std::uint64_t other) const;
  bool are_connected(Rank a, Rank b) const;
  std::vector<std::vector<Rank>> near(Rank rank) const;
  bool is_cut(Rank from, Rank to) const;
  bool is_unheard(Rank by, Rank of) const;
  Channel& channel(std::vector<Channel>& all, Rank from, Rank to) {
    return all[static_cast<std::size_t>(from * size() + to)];
  }
  const Channel& channel(const std::vector<Channel>& all, Rank from, Rank to) const {
    return all[static_cast<std::size_t>(from * size() + to)];
  }
  bool is_enabled(const Fault& fault) const;
  void events_of(Rank rank, bool of_turn, std::vector<Event>& events) const;
  void slow_events_of(Rank rank, std::vector<Event>& events) const;
  void send(Rank from, Rank to, Word word);
  void say(Rank from, Rank to, Word word);
  void take(Rank rank, Rank from, Word word);
  void hear(Rank rank, Rank from, Word word);
  void harm(const Fault& fault);
  void say_that_it_leaves(Rank rank);
  bool may_go(Rank rank) const;
  bool have_all_heard(Rank rank) const;
  bool have_heard(Rank rank, bool excuses) const;
  void leave(Rank rank);
  void kill(Rank rank, bool kernel_tells, bool loses);
  void find_silent(Rank rank, Rank other);
  void take_turn(Rank rank);
  void follow(Rank rank, const Departures::Action& action);
  void check_step(const std::vector<std::uint32_t>& before);
  std::vector<std::uint32_t> standings() const;

  const DeparturesPlan* plan_;
  std::vector<Process> processes_;
  std::vector<Channel> messages_, lifelines_;  // from, to
  std::uint64_t cut_ = 0;
  std::uint32_t faults_done_ = 0;
  std::string violation_;
};

struct DeparturesExploration {
  std::int64_t states = 0;  // of walks: events
  std::int64_t ends = 0;
  std::int64_t nobody_went_on = 0;  // of the ends
  std::int64_t two_sides = 0;       // of the states: see has_two_sides()
  bool complete = true;             // false: there were more states than asked for, or enough violations
  std::int64_t violations = 0;
  std::string first_violation;  // with the plan and the shortest way to it that was found
};

// Every order, each state once; at most so many states.
DeparturesExploration explore_departures(const DeparturesPlan& plan, std::int64_t most_states);
// Orders by seed; run i has the seed `seed + i`.
DeparturesExploration walk_departures(const DeparturesPlan& plan, std::int64_t runs, std::uint64_t seed);
// A random plan: 2 to 6 ranks, up to 4 faults.
DeparturesPlan random_departures_plan(std::uint64_t seed);

}  // namespace ucft::detail::simulator
