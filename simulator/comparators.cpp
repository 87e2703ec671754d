#include "simulator/comparators.hpp"

#include <algorithm>
#include <bit>

#include "simulator/broadcast_comparators.hpp"

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

// Step 0: wait for the children. 1: tell the parent, wait for it. 2: tell the children. An acknowledged broadcast does
// it the other way round.
class TreeSchedule : public Schedule {
 public:
  TreeSchedule(const ComparatorRun& run) : run_(run), tree_(run.shape, run.setting.ranks) {}

  bool step(Rank rank, int index, Step& step) const override {
    const bool up = row_of(run_.kind).collects;
    const bool down = row_of(run_.kind).disseminates;
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

// 2^m of the ranks take part; of the first 2(n - 2^m), the odd ones hand their part to the even ones, and get the
// result.
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

}  // namespace

CollectiveResult simulate(const ComparatorRun& run, Tracer* tracer) {
  if (run.algorithm == Comparator::buntinas) return simulate_buntinas(run, tracer);
  if (run.algorithm >= Comparator::big) return simulate_big(run, tracer);
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
