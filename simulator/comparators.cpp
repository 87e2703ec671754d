#include "simulator/comparators.hpp"

#include <algorithm>
#include <bit>

#include "collectives/random.hpp"

namespace ucft::detail::simulator {

namespace {

// A rank sends, then waits for a number of messages, then takes its next step.
struct Step {
  struct Send {
    Rank to;
    int step;  // of the receiver, which waits for it
    std::uint64_t bytes;
  };
  std::vector<Send> sends;
  int awaited = 0;
  Phase phase = Phase::up;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  // False: the rank is done. `step` is empty when called.
  virtual bool step(Rank rank, int index, Step& step) const = 0;
};

// Step 0: wait for the children. 1: tell the parent, wait for it. 2: tell the children. An acknowledged broadcast does it
// the other way round.
class TreeSchedule : public Schedule {
 public:
  TreeSchedule(const ComparatorRun& run) : run_(run), tree_(run.shape, run.setting.ranks) {}

  bool step(Rank rank, int index, Step& step) const override {
    const bool up = run_.kind != Kind::broadcast;
    const bool down = run_.kind != Kind::reduce;
    std::vector<std::int32_t> children;
    tree_.children(rank, children);
    const std::uint64_t bytes = run_.payload_bytes;
    switch (index) {
      case 0:
        if (up) step.awaited = static_cast<int>(children.size());
        return true;
      case 1:
        if (rank != 0 && up) step.sends.push_back({tree_.parent(rank), 0, bytes});
        if (rank != 0 && down) step.awaited = 1;
        return true;
      case 2:
        step.phase = Phase::broadcast;
        if (down)
          for (std::int32_t child : children) step.sends.push_back({child, 1, bytes});
        if (run_.algorithm == Comparator::acknowledged_tree) step.awaited = static_cast<int>(children.size());
        return true;
      case 3:
        if (run_.algorithm == Comparator::acknowledged_tree && rank != 0)
          step.sends.push_back({tree_.parent(rank), 2, 0});
        return run_.algorithm == Comparator::acknowledged_tree;
      default: return false;
    }
  }

 private:
  const ComparatorRun& run_;
  BroadcastTopology tree_;
};

// 2^m of the ranks take part; of the first 2(n - 2^m), the odd ones hand their part to the even ones, and get the result.
class PowerOfTwoSchedule : public Schedule {
 public:
  explicit PowerOfTwoSchedule(const ComparatorRun& run)
      : run_(run),
        active_(static_cast<Rank>(std::bit_floor(static_cast<std::uint32_t>(run.setting.ranks)))),
        extra_(run.setting.ranks - active_),
        rounds_(std::countr_zero(static_cast<std::uint32_t>(active_))) {}

  bool step(Rank rank, int index, Step& step) const override {
    const bool paired = rank < 2 * extra_;
    const int last = exchanges() + 1;
    if (index > last) return false;
    const std::uint64_t bytes = run_.payload_bytes;
    if (paired && rank % 2 == 1) {  // hands over, sleeps, gets the result
      if (index == 0) step.sends.push_back({rank - 1, 0, bytes});
      if (index == last) step.awaited = 1;
      return true;
    }
    if (index == 0) {
      step.awaited = paired ? 1 : 0;
      return true;
    }
    if (index == last) {
      step.phase = Phase::broadcast;
      if (paired) step.sends.push_back({rank + 1, last, bytes});
      return true;
    }
    const Rank number = paired ? rank / 2 : rank - extra_;
    const Rank partner = number ^ (Rank{1} << round_bit(index - 1));
    step.phase = Phase::group;
    step.sends.push_back({partner < extra_ ? 2 * partner : partner + extra_, index, round_bytes(index - 1)});
    step.awaited = 1;
    return true;
  }

 private:
  bool scatters() const { return run_.algorithm == Comparator::rabenseifner; }
  int exchanges() const { return scatters() ? 2 * rounds_ : rounds_; }
  // Recursive doubling: 0, 1, 2 ... Rabenseifner: halving from the farthest partner to the nearest, and back.
  int round_bit(int round) const {
    if (!scatters()) return round;
    return round < rounds_ ? rounds_ - 1 - round : round - rounds_;
  }
  std::uint64_t round_bytes(int round) const {
    if (!scatters()) return run_.payload_bytes;
    const int halved = round < rounds_ ? round + 1 : 2 * rounds_ - round;
    return (run_.payload_bytes + (std::uint64_t{1} << halved) - 1) >> halved;
  }

  const ComparatorRun& run_;
  Rank active_, extra_;
  int rounds_;
};

std::byte* no_memory(void*, std::size_t) { return nullptr; }

class ScheduleActors {
 public:
  ScheduleActors(const ComparatorRun& run, const Schedule& schedule)
      : schedule_(schedule), buffers_({&no_memory, nullptr}), ranks_(static_cast<std::size_t>(run.setting.ranks)) {}

  Buffers& buffers() { return buffers_; }
  void start(Rank rank, Outbox& out) {
    at(rank).started = true;
    begin(rank, out);
  }
  void deliver(Rank rank, const Message& message, Outbox& out) {
    State& state = at(rank);
    if (!state.started || message.attempt != state.step) {
      if (message.attempt == 0) ++state.early_first;       // from children, before the start
      state.early |= std::uint64_t{1} << message.attempt;  // of a later step: one at most
      return;
    }
    if (--state.awaited > 0) return;
    ++state.step;
    begin(rank, out);
  }
  void fail(Rank, Rank, Outbox&) {}
  template <class Visit>
  void note_failure(Rank, Visit) {}
  bool wants_turn(Rank) const { return false; }
  void turn(Rank, double, Outbox&) {}
  bool finished(Rank rank) { return at(rank).done; }
  std::uint64_t payload_bytes(const Message& message) const { return message.operation; }

 private:
  struct State {
    int step = 0, awaited = 0;
    int early_first = 0;      // messages of step 0 and
    std::uint64_t early = 0;  // of other steps that have come before their time
    bool started = false, done = false;
  };
  State& at(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void begin(Rank rank, Outbox& out) {
    State& state = at(rank);
    while (true) {
      Step step;
      if (!schedule_.step(rank, state.step, step)) {
        state.done = true;
        return;
      }
      for (const Step::Send& send : step.sends) {
        Message message;
        message.attempt = send.step;
        message.operation = send.bytes;
        message.phase = step.phase;
        out.send(send.to, message);
      }
      state.awaited =
          step.awaited - (state.step == 0 ? state.early_first : static_cast<int>((state.early >> state.step) & 1));
      if (state.awaited > 0) return;
      ++state.step;
    }
  }

  const Schedule& schedule_;
  Buffers buffers_;
  std::vector<State> ranks_;
};

// See comparators.hpp. Whoever gossip has reached corrects from T on; whoever correction has reached is done.
class GossipActors {
 public:
  explicit GossipActors(const ComparatorRun& run)
      : run_(run),
        buffers_({&no_memory, nullptr}),
        random_(mixed(run.setting.seed, 0x60551b)),
        ranks_(static_cast<std::size_t>(run.setting.ranks)) {}

  Buffers& buffers() { return buffers_; }
  void start(Rank rank, Outbox&) {
    at(rank).started = true;
    if (rank == 0) at(0).gossips = at(0).coloured = true;
  }
  void deliver(Rank rank, const Message& message, Outbox&) {
    State& state = at(rank);
    state.coloured = true;
    if (message.phase == Phase::broadcast) {
      if (!state.gossips) state.gossips = true;
      return;
    }
    const Rank size = run_.setting.ranks;
    if (message.has(moves_right))
      state.seen_left = std::min(state.seen_left, (rank - message.peer + size) % size);
    else
      state.seen_right = std::min(state.seen_right, (message.peer - rank + size) % size);
  }
  void fail(Rank, Rank, Outbox&) {}
  template <class Visit>
  void note_failure(Rank, Visit) {}
  bool wants_turn(Rank rank) {
    return at(rank).started && at(rank).gossips && !at(rank).done && run_.setting.ranks > 1;
  }
  void turn(Rank rank, double now, Outbox& out) {
    if (now < run_.gossip_time) return gossip(rank, out);
    correct(rank, out);
  }
  bool finished(Rank rank) { return at(rank).started && at(rank).coloured; }
  std::uint64_t payload_bytes(const Message&) const { return run_.payload_bytes; }

 private:
  struct State {
    bool started = false, coloured = false, gossips = false, done = false;
    Rank left = 0, right = 0;
    Rank seen_left = std::numeric_limits<Rank>::max(), seen_right = std::numeric_limits<Rank>::max();
  };
  State& at(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void gossip(Rank rank, Outbox& out) {
    Message message;
    message.phase = Phase::broadcast;
    const auto other = static_cast<Rank>(random_.below(static_cast<std::uint64_t>(run_.setting.ranks) - 1));
    out.send(other + (other >= rank), message);
  }
  void correct(Rank rank, Outbox& out) {
    State& state = at(rank);
    const Rank size = run_.setting.ranks;
    bool left_done = true, right_done = true;
    if (run_.correction == Correction::checked)
      left_done = state.left >= state.seen_left, right_done = state.right >= state.seen_right;
    if (run_.correction == Correction::opportunistic)
      left_done = state.left >= run_.correction_distance, right_done = state.right >= run_.correction_distance;
    if ((left_done && right_done) || state.left + state.right >= size - 1) {
      state.done = true;
      return;
    }
    const bool right = left_done || (!right_done && state.right <= state.left);
    const Rank distance = right ? ++state.right : ++state.left;
    Message message;
    message.phase = Phase::correction;
    if (right) message.flags |= moves_right;
    out.send((rank + (right ? distance : size - distance)) % size, message);
  }

  const ComparatorRun& run_;
  Buffers buffers_;
  Random random_;
  std::vector<State> ranks_;
};

template <class Actors>
CollectiveResult result_of(const Engine<Actors>& engine, const ComparatorRun& run) {
  CollectiveResult result;
  std::vector<double> times;
  Rank gap = 0;
  for (Rank rank = 0; rank < run.setting.ranks; ++rank) {
    result.most_sends = std::max(result.most_sends, engine.sends(rank));
    result.most_receives = std::max(result.most_receives, engine.receives(rank));
    gap = rank == 0 || engine.was_in_tree(rank) ? 0 : gap + 1;
    result.largest_gap = std::max(result.largest_gap, gap);
    if (!engine.alive(rank)) continue;
    ++result.live;
    if (engine.finished_at(rank) == never)
      ++result.missed;
    else
      times.push_back(engine.finished_at(rank));
  }
  if (run.kind != Kind::broadcast) result.largest_gap = 0;
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    result.first = times.front();
    result.median = times[(times.size() - 1) / 2];
    result.last = times.back();
  }
  result.latency = run.kind == Kind::reduce ? engine.finished_at(0) : result.last;
  result.end = engine.end();
  result.messages = engine.messages();
  result.bytes = engine.bytes();
  result.events = engine.events();
  result.attempts = 1;
  return result;
}

}  // namespace

CollectiveResult simulate(const ComparatorRun& run, Tracer* tracer) {
  if (run.algorithm == Comparator::gossip) {
    GossipActors actors(run);
    Engine<GossipActors> engine(run.setting, actors, tracer);
    engine.run();
    return result_of(engine, run);
  }
  std::unique_ptr<Schedule> schedule;
  if (run.algorithm == Comparator::tree || run.algorithm == Comparator::acknowledged_tree)
    schedule = std::make_unique<TreeSchedule>(run);
  else
    schedule = std::make_unique<PowerOfTwoSchedule>(run);
  ScheduleActors actors(run, *schedule);
  Engine<ScheduleActors> engine(run.setting, actors, tracer);
  engine.run();
  return result_of(engine, run);
}

}  // namespace ucft::detail::simulator
