#include "collectives/models/gossip_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "collectives/models/correction_clock.hpp"
#include "collectives/catalogue/arguments.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail {

namespace {

// Expected numbers over time, in quarters of the time between two messages of one sender. arriving(t) = new(t - D) +
// arriving(t - 1): a process that was reached a flight ago begins, and one that has sent one unit ago sends again. Of
// those not reached yet each is missed by one message with probability 1 - 1/(n-1).
class Trajectory {
 public:
  Trajectory(std::int32_t size, double dead, std::size_t delay)
      : size_(size), living_(1 + (size_ - 1) * (1 - dead)), delay_(delay), fresh_{1}, reached_{1}, arriving_{0} {}

  // The expected number of processes reached by messages sent before quarter `end`, all of which have come.
  double reached_by(std::size_t end) {
    if (size_ < 2) return 1;
    const std::size_t last = end + delay_ - 1;
    while (reached_.size() <= last) step();
    return reached_[last];
  }
  double size() const { return size_; }
  // Messages that come to one process, on average, in the unit before quarter `end`.
  double arrivals_before(std::size_t end) const {
    double sum = 0;
    for (std::size_t quarter = end - std::min(end, unit); quarter < std::min(end, arriving_.size()); ++quarter)
      sum += arriving_[quarter];
    return sum / std::max(size_ - 1, 1.0);
  }

 private:
  void step() {
    const std::size_t now = reached_.size();
    const double first = now >= delay_ ? fresh_[now - delay_] : 0;
    arriving_.push_back(first + (now >= unit ? arriving_[now - unit] : 0));
    const double missed = std::pow(1 - 1 / (size_ - 1), arriving_.back());
    fresh_.push_back((living_ - reached_.back()) * (1 - missed));
    reached_.push_back(reached_.back() + fresh_.back());
  }

  static constexpr std::size_t unit = 4;
  double size_, living_;
  std::size_t delay_;
  std::vector<double> fresh_, reached_, arriving_;
};

// Messages that wait at a process's port, if so many come on average while one is taken: a Poisson number each time.
class Queue {
 public:
  void take_one(double arriving) {
    std::array<double, most + 1> after{};
    double probability = std::exp(-arriving);
    for (std::size_t arrived = 0; arrived <= most; probability *= arriving / static_cast<double>(++arrived)) {
      if (probability < 1e-15 && static_cast<double>(arrived) > arriving) break;
      for (std::size_t waiting = 0; waiting <= most; ++waiting) {
        const std::size_t then = waiting + arrived;
        after[then == 0 ? 0 : std::min(then - 1, most)] += waiting_[waiting] * probability;
      }
    }
    waiting_ = after;
  }
  // The expected longest, of so many queues that are independent.
  double longest_of(double processes) const {
    double longest = 0, at_least = 0;
    for (std::size_t length = most; length > 0; --length) {
      at_least += waiting_[length];
      longest -= std::expm1(processes * std::log1p(-std::min(at_least, 1 - 1e-16)));
    }
    return longest;
  }

 private:
  static constexpr std::size_t most = 48;
  std::array<double, most + 1> waiting_{1};  // probability of each length
};

class Model {
 public:
  explicit Model(const GossipCase& given)
      : given_(given),
        interval_(std::max(given.costs.per_message() + given.costs.stretch(given.bytes), shortest_interval)),
        delay_quarters_(static_cast<std::size_t>(delay_quarters_of(given.costs, given.bytes))),
        trajectory_(given.size, given.dead, delay_quarters_) {}

  GossipForecast at(std::size_t quarters) {
    GossipForecast forecast;
    forecast.time = interval_ * static_cast<double>(quarters) / 4;
    forecast.reached = trajectory_.reached_by(quarters) / trajectory_.size();
    note_gaps(forecast);
    forecast.longest_queue = queue_at(quarters + delay_quarters_ - 1);
    forecast.end = forecast.time + interval_ * after(forecast);
    return forecast;
  }
  std::size_t quarters_of(double time) const {
    return static_cast<std::size_t>(std::clamp(std::ceil(4 * time / interval_ - 1e-9), 1.0, most_quarters));
  }
  // Whether a longer T can't be better: nobody is left, or next to nobody.
  bool is_enough(const GossipForecast& forecast) const {
    return (1 - given_.dead - forecast.reached) * given_.size < gossip_risk / 100;
  }
  bool is_allowed(const GossipForecast& forecast) const {
    if (given_.correction == Correction::none) return forecast.distance == 0;
    return !is_opportunistic(given_.correction) || given_.distance == 0 || forecast.distance <= given_.distance;
  }

  static constexpr double most_quarters = 1 << 14;  // of T: by then all are reached that ever will be

 private:
  static constexpr double shortest_interval = 1e-3;  // of messages that cost nothing

  void note_gaps(GossipForecast& forecast) const {
    const double n = given_.size, q = 1 - forecast.reached, longest = n - 1;
    if (q <= 0) return;
    forecast.distance = static_cast<std::int32_t>(
        std::clamp(std::ceil(std::log(n * (1 - q) / gossip_risk) / -std::log(q)) - 1, 0.0, longest));
    forecast.longest_gap = expected_longest_gap(given_.size, forecast.reached);
  }
  double queue_at(std::size_t quarters) {
    const double per_receive = given_.costs.per_receive() + given_.costs.stretch(given_.bytes);
    if (per_receive <= 0 || given_.size < 2) return 0;
    const double step = 4 * per_receive / interval_;  // in quarters
    for (; queue_time_ + step <= static_cast<double>(quarters); queue_time_ += step)
      queue_.take_one(trajectory_.arrivals_before(static_cast<std::size_t>(queue_time_) + 1) * step / 4);
    return queue_.longest_of(trajectory_.size()) * step / 4;
  }
  // From T to the last arrival, in intervals; D is the flight. See docs/algorithms.md.
  double after(const GossipForecast& forecast) const {
    const double flight = static_cast<double>(delay_quarters_) / 4;
    if (given_.correction == Correction::none) return flight;
    if (is_opportunistic(given_.correction)) {
      const std::int32_t distance = given_.distance > 0 ? given_.distance : std::max(forecast.distance, 2);
      return std::min(distance, given_.size - 1) - 1 + flight;
    }
    const double beyond = given_.correction == Correction::failure_proof ? given_.f : 0;
    return checked_correction_time(flight, forecast.longest_gap) + 2 * beyond + forecast.longest_queue;
  }

  const GossipCase& given_;
  double interval_;
  std::size_t delay_quarters_;
  Trajectory trajectory_;
  Queue queue_;
  double queue_time_ = 0;
};

}  // namespace

// The number of runs of k or more is Poisson with mean n (1-q) q^k.
double expected_longest_gap(std::int32_t size, double reached) {
  const double q = 1 - reached, starts = size * reached, longest = size - 1;
  if (q <= 0) return 0;
  if (q > 0.5) {  // the sum below, by its integral
    constexpr double euler_mascheroni = 0.5772156649;
    return std::clamp((std::log(starts) + euler_mascheroni) / -std::log(q) - 0.5, std::min(1.0, longest), longest);
  }
  double sum = 0, runs = starts * q;
  for (std::int32_t k = 1; k < size && runs > 1e-12; ++k, runs *= q) sum -= std::expm1(-runs);
  return sum;
}

// In step all hear their neighbours at two flights. Both ends of a run have sent half a flight's messages to its side
// when they have heard the other side, and all to its side afterwards.
double checked_correction_time(double flight, double longest_gap) {
  return 2 * flight + std::min(2 * longest_gap, flight / 2 + longest_gap);
}

GossipForecast forecast_gossip(const GossipCase& given, double time) {
  Model model(given);
  return model.at(model.quarters_of(time));
}

GossipForecast best_gossip(const GossipCase& given) {
  Model model(given);
  GossipForecast best;
  bool found = false;
  for (std::size_t quarters = 1; quarters <= static_cast<std::size_t>(Model::most_quarters); ++quarters) {
    const GossipForecast forecast = model.at(quarters);
    const bool enough = model.is_enough(forecast);
    if ((model.is_allowed(forecast) || enough) && (!found || forecast.end < best.end)) {
      best = forecast;
      found = true;
    }
    if (enough) break;
  }
  return best;
}

namespace {

// The fraction of the processes that the tree reaches if each but the root is dead with that probability.
double reached_by_tree(const BroadcastShape& shape, std::int32_t size, double dead) {
  const BroadcastTopology tree(shape, size);
  std::vector<double> reached(static_cast<std::size_t>(size), 1);
  double sum = 1;
  for (std::int32_t process = 1; process < size; ++process) {
    const double here = reached[static_cast<std::size_t>(tree.parent(process))] * (1 - dead);
    reached[static_cast<std::size_t>(process)] = here;
    sum += here;
  }
  return sum / size;
}

SpreadForecast spread_by_formula(const GossipCase& given, const BroadcastShape& shape) {
  Arguments broadcast;
  broadcast.kind = Kind::broadcast;
  broadcast.shape = shape;
  const double interval = given.costs.per_message() + given.costs.stretch(given.bytes);
  const double gap = expected_longest_gap(given.size, reached_by_tree(shape, given.size, given.dead));
  SpreadForecast forecast;
  forecast.tree_end = predict_latency(broadcast, given.size, given.costs, given.bytes) +
                      interval * checked_correction_time(shape.delay_quarters / 4.0, gap);
  GossipCase checked = given;
  checked.correction = Correction::checked;
  forecast.gossip = best_gossip(checked);
  forecast.gossip_end = forecast.gossip.end;
  return forecast;
}

// The mean of end_of(case, seed), over draws of those that are dead.
template <class End>
double mean_end(const GossipCase& given, int draws, End end_of) {
  double sum = 0;
  for (int draw = 0; draw < draws; ++draw) {
    Random random(static_cast<std::uint64_t>(draw));
    CorrectedCase one{given.size, given.costs, given.bytes, std::vector<bool>(static_cast<std::size_t>(given.size))};
    for (std::size_t process = 1; process < one.dead.size(); ++process)
      one.dead[process] = random.fraction() < given.dead;
    sum += end_of(one, random.next());
  }
  return sum / draws;
}

}  // namespace

SpreadForecast forecast_spread(const GossipCase& given, const BroadcastShape& shape) {
  if (given.size < 2) return {};
  SpreadForecast forecast = spread_by_formula(given, shape);
  GossipCase clocked = given;
  clocked.size = std::min(given.size, most_clocked);
  const SpreadForecast formula = clocked.size == given.size ? forecast : spread_by_formula(clocked, shape);
  const int draws = std::clamp(4 * most_clocked / clocked.size, 4, 64);
  const double time = formula.gossip.time;
  forecast.tree_end +=
      mean_end(clocked, given.dead > 0 ? draws : 1,
               [&](const CorrectedCase& one, std::uint64_t) { return corrected_tree_end(one, shape); }) -
      formula.tree_end;
  forecast.gossip_end +=
      mean_end(clocked, draws,
               [&](const CorrectedCase& one, std::uint64_t seed) { return corrected_gossip_end(one, time, seed); }) -
      formula.gossip_end;
  return forecast;
}

void set_gossip(const LogGP& costs, std::uint64_t bytes, std::int32_t size, std::int64_t time_ns,
                Arguments& arguments) {
  const GossipCase given{size, costs, bytes, arguments.correction, arguments.correction_distance, arguments.f};
  const double stretch = costs.stretch(bytes);
  const auto ns = [](double time) { return std::llround(1000 * time); };
  const GossipForecast forecast =
      time_ns > 0 ? forecast_gossip(given, static_cast<double>(time_ns) / 1000) : best_gossip(given);
  GossipSetting& gossip = arguments.gossip;
  gossip.time_ns = time_ns > 0 ? time_ns : std::clamp<std::int64_t>(ns(forecast.time), 1, gossip_time_limit_ns);
  gossip.interval_ns = std::max<std::int64_t>(ns(costs.per_message() + stretch), 1);
  gossip.flight_ns = ns(costs.delivery() + stretch);
  // Twice what all should take: of 64 processes 4 runs in 100 last longer than once that, and a panic is dear.
  if (arguments.correction == Correction::failure_proof)
    gossip.panic_after_ns = std::max<std::int64_t>(ns(2 * forecast.end), 1);
  if (arguments.correction_distance == 0) arguments.correction_distance = std::max(forecast.distance, 2);
}

}  // namespace ucft::detail
