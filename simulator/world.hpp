// A small world of ranks in one process: the same OperationWindow objects that run on UCX, driven by a deterministic
// pool of pending events. A crash plan stops a rank between any two of its sends; every survivor hears of a death at
// some later event. Which pending event comes next is the delivery order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "collectives/among/operation_window.hpp"
#include "simulator/promises.hpp"

namespace ucft::detail::simulator {

// How the next event is taken from the pool. Channels are not first in, first out, but for oldest_first.
enum class Order : std::uint8_t { oldest_first, newest_first, failures_first, failures_last, shuffled };
inline constexpr int order_count = 5;
const char* order_name(Order order);

struct Crash {
  Rank rank;
  std::int64_t after_sends;  // dies right before its send number after_sends (0: before the first)
};

// A rank that leaves after so many operations of the program.
struct Leave {
  Rank rank;
  std::size_t after;
  bool waits = true;  // until no rank needs it; else it goes as soon as it has said so
};

struct Plan {
  Rank ranks = 1;
  int window = 2;     // W
  int in_flight = 1;  // operations a rank posts before it waits for the oldest
  Optimism optimistic = false;
  bool lends = false;       // receivers use values where they lie at their sender, as those of the library do; and most
                            // callers lend their memory for results
  Rank ranks_per_host = 0;  // f counts hosts; 0: ranks
  std::vector<Arguments> program;
  bool ends = false;     // all leave after the program
  bool uniform = false;  // a barrier follows each operation: a rank that gets through it, and dies, has had the result
                         // that the survivors have
  std::vector<Leave> leaves{};
  std::vector<Crash> crashes;
  Rank short_of_memory = no_rank;  // this rank gets no memory any more
  std::int64_t after_blocks = 0;   // after so many blocks of more than 1 KiB, or chunks of smaller ones
  Order order = Order::oldest_first;
  std::uint64_t seed = 1;  // of Order::shuffled
};

class World {
 public:
  explicit World(const Plan& plan);
  ~World();

  // Runs until nothing is pending. False if max_events did not suffice.
  bool run(std::int64_t max_events = 1000000);

  // Those that have left live, too.
  bool alive(Rank rank) const { return nodes_[static_cast<std::size_t>(rank)]->alive; }
  const Result& result(Rank rank, std::size_t operation) const {
    return nodes_[static_cast<std::size_t>(rank)]->results[operation];
  }
  std::int64_t sends(Rank rank) const { return nodes_[static_cast<std::size_t>(rank)]->sends; }
  std::int64_t sends(Phase phase) const { return sends_by_phase_[static_cast<std::size_t>(phase)]; }
  std::int64_t events() const { return events_; }
  std::vector<Rank> survivors() const;

  // The promises of docs/failure_model.md. Empty if all hold, else the first one that does not, in words.
  std::string check() const;

 private:
  struct Node {
    Node(const Plan& plan, Rank rank);
    Buffers buffers;  // first: the operation window keeps a reference to it
    OperationWindow window;
    Outbox outbox;
    std::vector<Result> results;
    std::vector<OperationNumber> numbers;  // of the program's operations
    std::size_t waited = 0;                // operations of the program that are complete, in order
    std::int64_t sends = 0;
    std::int64_t dies_after = -1;
    bool alive = true;
    bool has_left = false, is_gone = false;
    std::vector<bool> through{};                       // by rank: it has said that it needs this one no more
    std::vector<std::vector<std::uint64_t>> landings;  // of each operation of the program: its caller's memory, if lent
  };
  struct Event {
    enum class What : std::uint8_t { message, failure, leave, through, left, turn };
    What what;
    Rank to;
    Rank about = no_rank;  // the rank that has failed, leaves, is through, or has left
    Message message{};     // buffers are not used, the bytes are here; but for a value that is lent
    std::vector<std::byte> value{}, list{};
    OperationNumber from = 0;  // leave: it posts nothing from there on
  };

  struct Memory {
    std::vector<std::unique_ptr<std::byte[]>> blocks;
    std::int64_t left = INT64_MAX;
  };
  static std::byte* allocate(void* memory, std::size_t bytes);
  Node& node(Rank rank) { return *nodes_[static_cast<std::size_t>(rank)]; }
  // An event takes a microsecond. Ranks have no clock in common.
  std::int64_t clock_of(Rank rank) const { return 1000 * (events_ + idle_) + 1'000'003 * std::int64_t{rank}; }
  void pump(Rank rank);
  void post_what_can_be(Rank rank);
  Operation::Memory provide(Rank rank, const Arguments& arguments, std::size_t index);
  void flush(Rank rank);
  bool may_send(Rank rank);
  // How much of the program a rank posts.
  std::size_t share_of(Rank rank) const;
  const Leave* leave_of(Rank rank) const;
  void leave_if_due(Rank rank);
  void answer_leavers(Rank rank);
  void go_if_not_needed(Rank rank);
  void say_through(Rank rank, Rank to);
  void kill(Rank rank);
  void collect(Rank rank);
  Result read_result(Rank rank, const Operation& operation);
  bool take(Event& event);
  void deliver(const Event& event);
  std::size_t failed_units() const;
  void take_landing(Rank rank, std::size_t index);
  std::string check_operation(std::size_t index, const std::vector<Rank>& live) const;
  std::string check_uniform(std::size_t index, Rank survivor) const;
  std::string check_end(Rank rank, Rank first) const;

  Plan plan_;
  std::vector<Memory> memory_;                // by rank
  std::vector<std::vector<std::byte>> lent_;  // values on their way, for as long as the world lasts
  std::vector<std::unique_ptr<Node>> nodes_;
  std::deque<Event> pool_;
  std::mt19937_64 random_;
  std::int64_t events_ = 0, idle_ = 0;
  std::int64_t sends_by_phase_[phase_count] = {};
  std::string found_;  // a broken promise, while it ran
};

std::string describe(const Plan& plan);
// The part that plans of other worlds have, too.
std::string describe(const std::vector<Arguments>& program, bool ends, const std::vector<Leave>& leaves,
                     const std::vector<Crash>& crashes);

// Takes the next event out of the pool. False: it is empty.
template <class Event, class IsMessage>
bool take_next(std::deque<Event>& pool, Order order, std::mt19937_64& random, IsMessage is_message, Event& event) {
  if (pool.empty()) return false;
  const auto first = [&](bool message) {
    const auto found =
        std::find_if(pool.begin(), pool.end(), [&](const Event& each) { return is_message(each) == message; });
    return found == pool.end() ? 0 : static_cast<std::size_t>(found - pool.begin());
  };
  std::size_t index = 0;
  switch (order) {
    case Order::oldest_first: break;
    case Order::newest_first: index = pool.size() - 1; break;
    case Order::failures_first: index = first(false); break;
    case Order::failures_last: index = first(true); break;
    case Order::shuffled: index = random() % pool.size(); break;
  }
  event = std::move(pool[index]);
  pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(index));
  return true;
}

}  // namespace ucft::detail::simulator
