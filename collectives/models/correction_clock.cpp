#include "collectives/models/correction_clock.hpp"

#include <algorithm>
#include <queue>
#include <utility>

#include "collectives/core/random.hpp"
#include "collectives/topology/ring_correction.hpp"

namespace ucft::detail {

namespace {

// At one time arrivals come before what is received, and that before turns, as in the simulator.
enum class What : std::uint8_t { arrival, received, turn };

struct Event {
  double time;
  What what;
  std::uint64_t number;  // of its creation
  std::int32_t process;
  std::int32_t from = -1;  // of a message
  bool corrects = false;   // it is one of the correction
  bool moves_right = false;
  bool operator>(const Event& other) const {
    if (time != other.time) return time > other.time;
    return what != other.what ? what > other.what : number > other.number;
  }
};

// How the value spreads, tree or gossip, is a Spread's:
//   colour(process, time)   the process has the value from now on; it may send at once
//   turn(process, time)     true: it has used this turn
template <class Spread>
class Clock {
 public:
  Clock(const CorrectedCase& given, Spread& spread)
      : given_(given),
        stretch_(given.costs.stretch(given.bytes)),
        spread_(spread),
        processes_(static_cast<std::size_t>(given.size)) {
    for (Process& each : processes_) each.correction.reset({Correction::checked, 2, 1, given.size});
  }

  double run() {
    colour(0, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      switch (event.what) {
        case What::arrival: arrive(event); break;
        case What::received: receive(event); break;
        case What::turn: turn(event.process, event.time); break;
      }
    }
    return end_;
  }

  std::int32_t size() const { return given_.size; }
  void send(std::int32_t from, std::int32_t to, double now, bool corrects = false, bool moves_right = false) {
    Process& sender = at(from);
    const double begin = std::max(now, sender.sends_from);
    const double sent = begin + given_.costs.send_overhead;
    sender.sends_from = std::max(begin + given_.costs.per_message() + stretch_, begin + shortest_interval);
    end_ = std::max(end_, sent);
    if (!is_dead(to)) push({sent + stretch_ + given_.costs.latency, What::arrival, 0, to, from, corrects, moves_right});
  }
  void start_correction(std::int32_t process) { at(process).correction.start(); }

 private:
  struct Process {
    RingCorrection correction;
    double sends_from = 0, receives_from = 0;  // when its ports are free
    bool has_value = false;                    // by the tree, or gossip
  };

  Process& at(std::int32_t process) { return processes_[static_cast<std::size_t>(process)]; }
  bool is_dead(std::int32_t process) const {
    return !given_.dead.empty() && given_.dead[static_cast<std::size_t>(process)];
  }
  void push(Event event) {
    event.number = created_++;
    events_.push(event);
  }

  void arrive(Event event) {
    Process& receiver = at(event.process);
    const double begin = std::max(event.time, receiver.receives_from);
    receiver.receives_from = begin + given_.costs.per_receive();
    event.time = begin + given_.costs.receive_overhead;
    event.what = What::received;
    push(event);
  }
  void receive(const Event& event) {
    end_ = std::max(end_, event.time);
    if (!event.corrects) return colour(event.process, event.time);
    const std::int32_t away = event.moves_right ? event.process - event.from : event.from - event.process;
    at(event.process).correction.hear(event.moves_right, (away + given_.size) % given_.size);
  }
  void colour(std::int32_t process, double now) {
    if (std::exchange(at(process).has_value, true)) return;
    spread_.colour(*this, process, now);
    push({std::max(now, at(process).sends_from), What::turn, 0, process});
  }
  // One message, and the next turn when the port is free.
  void turn(std::int32_t process, double now) {
    Process& mine = at(process);
    if (!spread_.turn(*this, process, now)) {
      if (!mine.correction.wants_turn()) return;
      const auto sent = mine.correction.turn();
      if (!sent) return;
      const std::int32_t way = sent->right ? sent->distance : given_.size - sent->distance;
      send(process, (process + way) % given_.size, now, true, sent->right);
    }
    push({mine.sends_from, What::turn, 0, process});
  }

  static constexpr double shortest_interval = 1e-3;  // of messages that cost nothing

  const CorrectedCase& given_;
  const double stretch_;
  Spread& spread_;
  std::vector<Process> processes_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t created_ = 0;
  double end_ = 0;
};

class TreeSpread {
 public:
  TreeSpread(const BroadcastShape& shape, std::int32_t size) : tree_(shape, size) {}

  void colour(Clock<TreeSpread>& clock, std::int32_t process, double now) {
    tree_.children(process, children_);
    for (std::int32_t child : children_) clock.send(process, child, now);
    clock.start_correction(process);
  }
  bool turn(Clock<TreeSpread>&, std::int32_t, double) { return false; }

 private:
  BroadcastTopology tree_;
  std::vector<std::int32_t> children_;
};

class GossipsUntil {
 public:
  GossipsUntil(double time, std::uint64_t seed, std::int32_t size)
      : time_(time), random_(seed), corrects_(static_cast<std::size_t>(size)) {}

  void colour(Clock<GossipsUntil>&, std::int32_t, double) {}
  bool turn(Clock<GossipsUntil>& clock, std::int32_t process, double now) {
    if (now < time_ && clock.size() > 1) {
      const auto other = static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(clock.size()) - 1));
      clock.send(process, other + (other >= process ? 1 : 0), now);
      return true;
    }
    std::vector<bool>::reference corrects = corrects_[static_cast<std::size_t>(process)];
    if (!corrects) clock.start_correction(process);
    corrects = true;
    return false;
  }

 private:
  double time_;
  Random random_;
  std::vector<bool> corrects_;
};

}  // namespace

double corrected_tree_end(const CorrectedCase& given, const BroadcastShape& shape) {
  TreeSpread spread(shape, given.size);
  return Clock<TreeSpread>(given, spread).run();
}

double corrected_gossip_end(const CorrectedCase& given, double time, std::uint64_t seed) {
  GossipsUntil spread(time, seed, given.size);
  return Clock<GossipsUntil>(given, spread).run();
}

}  // namespace ucft::detail
