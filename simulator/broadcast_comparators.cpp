#include "simulator/broadcast_comparators.hpp"

#include <algorithm>
#include <cstring>

namespace ucft::detail::simulator {

namespace {

constexpr std::uint64_t root_value = 0x5eed'0000'0000'0001;

// The common part of both: the root's value on its way, and in a place of each rank's own.
class ValueActors {
 public:
  explicit ValueActors(const ComparatorRun& run)
      : run_(run),
        buffers_({&ValueActors::allocate, this, 4096}),
        value_(buffers_.whole(buffers_.copy_in(&root_value, sizeof root_value))),
        values_(static_cast<std::size_t>(run.setting.ranks)) {}
  ValueActors(const ValueActors&) = delete;
  ValueActors& operator=(const ValueActors&) = delete;

  Buffers& buffers() { return buffers_; }
  bool has(Rank rank) const { return value_of(rank) != 0; }
  bool finished(Rank rank) const { return has(rank); }
  bool wants_turn(Rank) const { return false; }
  void turn(Rank, double, Outbox&) {}
  std::uint64_t value_of(Rank rank) const { return values_[static_cast<std::size_t>(rank)]; }

 protected:
  void begin_with_value() { values_[0] = root_value; }
  // False: it had one.
  bool take(Rank rank, const Message& message) {
    std::uint64_t& mine = values_[static_cast<std::size_t>(rank)];
    if (mine != 0) return false;
    std::memcpy(&mine, buffers_.data(message.value), sizeof mine);
    return true;
  }
  Message with_value() const {
    Message message;
    message.phase = Phase::broadcast;
    message.value = value_;
    return message;
  }
  const ComparatorRun& run_;

 private:
  static std::byte* allocate(void* arg, std::size_t bytes) {
    auto& memory = static_cast<ValueActors*>(arg)->memory_;
    memory.push_back(std::make_unique<std::byte[]>(bytes));
    return memory.back().get();
  }

  std::vector<std::unique_ptr<std::byte[]>> memory_;
  Buffers buffers_;
  Slice value_;
  std::vector<std::uint64_t> values_;
};

// ---- Buntinas' tree -------------------------------------------------------------------------------------------------

class BuntinasActors : public ValueActors {
 public:
  explicit BuntinasActors(const ComparatorRun& run)
      : ValueActors(run), dead_(static_cast<std::size_t>(run.setting.ranks)), parts_(dead_.size()) {}

  void start(Rank rank, Outbox& out) {
    if (rank != 0) return;
    begin_with_value();
    take_part(0, {no_rank, 0, {}}, {1, run_.setting.ranks}, out);
  }
  void deliver(Rank rank, const Message& message, Outbox& out) {
    if (message.phase == Phase::broadcast) {
      take(rank, message);
      return take_part(rank, {message.peer, number_in(message), {}}, interval_in(message), out);
    }
    for (Part& part : parts_of(rank))
      if (std::erase_if(part.awaited, [&](const Child& child) {
            return child.rank == message.peer && child.number == number_in(message);
          }) > 0)
        answer_if_done(part, out);
  }
  template <class Visit>
  void note_failure(Rank failed, Visit visit) {
    dead_[static_cast<std::size_t>(failed)] = 1;
    for (Rank rank = 0; rank < run_.setting.ranks; ++rank)
      if (std::ranges::any_of(parts_of(rank), [&](const Part& part) { return part.awaits(failed); })) visit(rank);
  }
  void fail(Rank rank, Rank failed, Outbox& out) {
    for (std::size_t i = 0; i < parts_of(rank).size(); ++i) {
      Part& part = parts_of(rank)[i];
      if (!part.awaits(failed)) continue;
      const auto lost = std::ranges::find(part.awaited, failed, &Child::rank);
      const Interval below = lost->below;
      part.awaited.erase(lost);
      hand_out(part, below, out);
      answer_if_done(part, out);
    }
  }
  std::uint64_t payload_bytes(const Message& message) const {  // two ends of an interval, or the answer's number
    return message.phase == Phase::broadcast ? run_.payload_bytes + 2 * sizeof(Rank) : sizeof(Rank);
  }

 private:
  struct Interval {
    Rank begin, end;
  };
  struct Child {
    Rank rank;
    Rank number;  // of the handing-out, at its parent
    Interval below;
  };
  struct Part {  // in one handing-out: a rank has several after a failure
    Rank parent, number;
    std::vector<Child> awaited;
    bool awaits(Rank rank) const { return std::ranges::find(awaited, rank, &Child::rank) != awaited.end(); }
  };

  std::vector<Part>& parts_of(Rank rank) { return parts_[static_cast<std::size_t>(rank)]; }
  static Rank number_in(const Message& message) { return message.attempt; }
  static Interval interval_in(const Message& message) { return {message.prev, message.accepted}; }

  void take_part(Rank rank, Part part, Interval below, Outbox& out) {
    hand_out(part, below, out);
    parts_of(rank).push_back(std::move(part));
    answer_if_done(parts_of(rank).back(), out);
  }
  void hand_out(Part& part, Interval below, Outbox& out) {
    while (below.begin < below.end) {
      const Rank middle = below.begin + (below.end - below.begin) / 2;
      Rank child = middle;
      while (child < below.end && dead_[static_cast<std::size_t>(child)] != 0) ++child;
      if (child < below.end) {
        Message message = with_value();
        message.attempt = ++numbers_;
        message.prev = child + 1;
        message.accepted = below.end;
        out.send(child, message);
        part.awaited.push_back({child, message.attempt, {child + 1, below.end}});
      }
      below.end = middle;
    }
  }
  static void answer_if_done(const Part& part, Outbox& out) {
    if (!part.awaited.empty() || part.parent == no_rank) return;
    Message answer;
    answer.phase = Phase::up;
    answer.attempt = part.number;
    out.send(part.parent, answer);
  }

  std::vector<std::uint8_t> dead_;
  std::vector<std::vector<Part>> parts_;
  Rank numbers_ = 0;
};

// ---- the binomial graph ---------------------------------------------------------------------------------------------

class BigActors : public ValueActors {
 public:
  using ValueActors::ValueActors;

  void start(Rank rank, Outbox& out) {
    if (rank != 0) return;
    begin_with_value();
    pass_on(0, no_rank, out);
  }
  void deliver(Rank rank, const Message& message, Outbox& out) {
    if (take(rank, message)) pass_on(rank, message.peer, out);
  }
  template <class Visit>
  void note_failure(Rank, Visit) {}
  void fail(Rank, Rank, Outbox&) {}
  std::uint64_t payload_bytes(const Message&) const { return run_.payload_bytes; }

 private:
  void pass_on(Rank rank, Rank source, Outbox& out) const {
    const Rank size = run_.setting.ranks;
    std::vector<Rank> neighbours;
    Rank step = 1;
    while (step < size) step *= 2;
    const bool both_ways = run_.algorithm == Comparator::big_both_ways;
    for (step /= 2; step > 0; step /= 2)
      for (Rank neighbour : {(rank + step) % size, (rank + (both_ways ? size - step : step)) % size})
        if (neighbour != rank && neighbour != source && std::ranges::find(neighbours, neighbour) == neighbours.end())
          neighbours.push_back(neighbour);
    for (Rank neighbour : neighbours) out.send(neighbour, with_value());
  }
};

// ---- both -----------------------------------------------------------------------------------------------------------

template <class Actors>
CollectiveResult run_actors(const ComparatorRun& run, Tracer* tracer) {
  Actors actors(run);
  Engine<Actors> engine(run.setting, actors, tracer);
  engine.run();
  CollectiveResult result = result_of(engine, run);
  for (Rank rank = 0; rank < run.setting.ranks; ++rank)
    result.wrong += actors.has(rank) && actors.value_of(rank) != root_value;
  return result;
}

}  // namespace

CollectiveResult simulate_buntinas(const ComparatorRun& run, Tracer* tracer) {
  return run_actors<BuntinasActors>(run, tracer);
}
CollectiveResult simulate_big(const ComparatorRun& run, Tracer* tracer) { return run_actors<BigActors>(run, tracer); }

}  // namespace ucft::detail::simulator
