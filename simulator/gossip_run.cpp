#include "simulator/gossip_run.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <limits>
#include <numbers>
#include <unordered_map>

#include "simulator/event_queue.hpp"
#include "simulator/gossip_by_rounds.hpp"

namespace ucft::detail::simulator {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int most_rounds = 10000000;

double normal_value(std::uint64_t seed, std::uint64_t rank) {  // Box and Muller
  const double u = 1 - uniform_value(seed, rank), v = uniform_value(~seed, rank);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

int rounds_limit(const GossipRun& run) {
  if (run.stop == GossipStop::model) return rounds_for(run.plan, run.eps);
  if (run.rounds > 0 || run.plan.neighbourhood.ranks == 1) return run.rounds;
  return std::min(most_rounds, 10 * rounds_for(run.plan, run.eps) + 100);
}

// Asynchronous algorithms.
template <class Real>
class World {
 public:
  World(const GossipRun& run, const GossipProgress& progress)
      : run_(run),
        progress_(progress),
        n_(run.plan.neighbourhood.ranks),
        k_(static_cast<std::size_t>(run.values)),
        slowness_(n_, run.slow, {}, run.seed),
        random_(mixed(run.seed, 0x6661756c74u)) {
    limit_ = rounds_limit(run);
    dead_.assign(static_cast<std::size_t>(n_), false);
    estimate_.resize(k_);
    set_truth();
  }

  GossipResult run() {
    if (run_.lock_step)
      in_lock_step();
    else
      asynchronously();
    finish();
    return result_;
  }

 private:
  enum class Kind : std::uint8_t { arrival, push, death, told, link, flip, tick };  // in this order at one time
  struct Event {
    double time;
    std::uint64_t order;
    std::uint32_t index;
    Kind kind() const { return static_cast<Kind>(order >> 56); }
    bool before(const Event& other) const { return time != other.time ? time < other.time : order < other.order; }
  };
  struct Flight {
    Rank to = no_rank, from = no_rank;
    int link = 0;  // the receiver's
    std::uint32_t era = 0, ack = 0;
    std::vector<Real> row;
  };

  GossipRank<Real>& at(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  bool is_dead(Rank rank) const { return dead_[static_cast<std::size_t>(rank)]; }

  // ---- what is right ------------------------------------------------------------------------------------------------

  void set_truth() {
    truth_all_.assign(k_, 0);
    truth_survivors_.assign(k_, 0);
    for (std::size_t i = 0; i < k_; ++i) {
      long double all = 0, survivors = 0, weight_all = 0, weight_survivors = 0;
      for (Rank rank = 0; rank < n_; ++rank) {
        const auto value = static_cast<long double>(static_cast<Real>(value_of(run_, rank, static_cast<int>(i))));
        const long double weight = weight_of(run_, rank);
        all += value;
        weight_all += weight;
        if (is_dead(rank)) continue;
        survivors += value;
        weight_survivors += weight;
      }
      truth_all_[i] = static_cast<double>(all / weight_all);
      truth_survivors_[i] = static_cast<double>(survivors / weight_survivors);
    }
  }
  const std::vector<double>& target() const {
    return answer_after_death(run_.plan.algorithm) == GossipAnswer::survivors ? truth_survivors_ : truth_all_;
  }
  double error_against(const std::vector<double>& truth) const {
    double worst = 0;
    for (std::size_t i = 0; i < k_; ++i) {
      const double off = std::abs(static_cast<double>(estimate_[i]) - truth[i]);
      worst = std::max(worst, truth[i] == 0 ? off : off / std::abs(truth[i]));
    }
    return worst;
  }
  bool take_estimate(Rank rank) {
    if (at(rank).estimate(estimate_)) return true;
    for (Real each : estimate_)
      if (std::isnan(each) && run_.aggregate != GossipAggregate::sum_one_hot) ++result_.not_a_number;
    return false;
  }

  // Worst error of the live; notes the round. True: stop.
  bool look(int round) {
    double worst = 0;
    std::vector<double> all;
    for (Rank rank = 0; rank < (run_.root_only ? 1 : n_); ++rank) {
      if (is_dead(rank)) continue;
      const bool known = take_estimate(rank);
      const double error = known ? error_against(target()) : infinity;
      worst = std::max(worst, error);
      if (run_.keeps_history) all.push_back(error);
    }
    result_.rounds = round;
    result_.error = worst;
    result_.best = round == 0 ? worst : std::min(result_.best, worst);
    if (run_.keeps_history) {
      result_.history.push_back(worst);
      std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
      result_.median.push_back(all.empty() ? 0 : all[all.size() / 2]);
    }
    if (progress_ && round % 16 == 0) progress_(limit_ > 0 ? std::min(1.0, static_cast<double>(round) / limit_) : 1);
    if (round >= limit_) return true;
    if (run_.all_rounds) return false;
    if (run_.stop == GossipStop::truth) return worst <= run_.eps;
    return false;
  }

  // Whether the ranks agree to within eps, looked at now and then. They stop pushing, let messages on their way arrive,
  // and settle their links. Then they reduce their smallest and largest estimate and the size of their weights to all.
  // That takes as long as two trips through a binomial tree. The truth is the mean of the estimates by weight. It lies
  // between these two if no weight is negative. Else it is off their middle by at most half of their distance times
  // sum |w| / sum w.
  bool is_time_to_agree(int round) const {
    return run_.stop == GossipStop::adaptive && !run_.all_rounds && round > 0 && round % run_.check_every == 0;
  }
  bool agrees() {
    check_settled();
    result_.messages += 2 * (std::int64_t{n_} - 1);
    double weights = 0, sizes = 0;
    std::vector<EstimateRange> ranges(k_, {infinity, -infinity});
    std::vector<Real> mass(k_ + 1);
    for (Rank rank = 0; rank < n_; ++rank) {
      if (is_dead(rank)) continue;
      if (!take_estimate(rank)) return false;
      for (std::size_t i = 0; i < k_; ++i) {
        ranges[i].low = std::min(ranges[i].low, static_cast<double>(estimate_[i]));
        ranges[i].high = std::max(ranges[i].high, static_cast<double>(estimate_[i]));
      }
      at(rank).mass(mass);
      weights += static_cast<double>(mass.back());
      sizes += std::abs(static_cast<double>(mass.back()));
    }
    ErrorBound bound(1, sizes / weights);
    for (const EstimateRange& range : ranges) bound.add(range);
    result_.bound = bound.of_each();
    return result_.bound <= run_.eps;
  }
  // The lower rank of each link first, then the other. Both messages arrive before the next link's. Without flows there
  // is nothing to settle.
  void settle_all() {
    if (!uses_flows(run_.plan.algorithm)) return;
    for (Rank rank = 0; rank < n_; ++rank) {
      if (is_dead(rank)) continue;
      for (int link = 0; link < at(rank).links(); ++link) {
        const Rank other = at(rank).neighbour(link);
        if (!at(rank).is_live(link)) continue;
        if (other < rank || is_dead(other)) continue;
        settle(rank, link);
        settle(other, at(other).link_of(rank));
      }
    }
  }
  void settle(Rank from, int link) {
    out_.clear();
    at(from).settle(link, out_);
    Flight flight = flight_of(from, out_.sends().front());
    if (gets_through(flight)) deliver(flight);
  }
  double agreement_time() const { return 2 * std::ceil(std::log2(std::max<double>(2, n_))); }  // in trips

  void finish() {
    result_.error = result_.error_all = result_.error_survivors = 0;
    if (run_.keeps_estimates)
      result_.estimates.assign(static_cast<std::size_t>(n_) * k_, std::numeric_limits<double>::quiet_NaN());
    for (Rank rank = 0; rank < n_; ++rank) {
      if (is_dead(rank)) continue;
      if (!take_estimate(rank)) {
        ++result_.unknown;
        result_.error = result_.error_all = result_.error_survivors = infinity;
        continue;
      }
      if (run_.keeps_estimates)
        for (std::size_t i = 0; i < k_; ++i)
          result_.estimates[static_cast<std::size_t>(rank) * k_ + i] = static_cast<double>(estimate_[i]);
      if (run_.root_only && rank > 0) continue;
      result_.error = std::max(result_.error, error_against(target()));
      result_.error_all = std::max(result_.error_all, error_against(truth_all_));
      result_.error_survivors = std::max(result_.error_survivors, error_against(truth_survivors_));
    }
    result_.reached = result_.error <= run_.eps;
  }

  // ---- faults -------------------------------------------------------------------------------------------------------

  void flip(Mass<Real> row, int bit) {
    flip_bit(row, k_ + 1, bit, random_);
    ++result_.flips;
  }
  Rank live_rank() {
    Rank rank = 0;
    do rank = static_cast<Rank>(random_.below(static_cast<std::uint64_t>(n_)));
    while (is_dead(rank));
    return rank;
  }
  // links: those that have been used.
  void flip_state(Rank rank, int links, int bit) {
    if (run_.faults.target == FlipTarget::data)
      flip(at(rank).local_data(), bit);
    else if (links > 0)
      flip(at(rank).flows(static_cast<int>(random_.below(static_cast<std::uint64_t>(links)))), bit);
  }
  bool flips_now() { return run_.faults.flip_rate > 0 && random_.fraction() < run_.faults.flip_rate; }

  int hops_of(Rank from, Rank to) const { return run_.physical ? hops(*run_.physical, from, to) : 1; }
  // False: lost.
  bool survives_the_way(Rank from, Rank to, Mass<Real> row) {
    ++result_.messages;
    const int way = hops_of(from, to);
    result_.hops += way;
    result_.longest_way = std::max(result_.longest_way, way);
    if (run_.faults.loss > 0 && random_.fraction() < run_.faults.loss) {
      ++result_.lost;
      return false;
    }
    if (message_bit_ != no_flip) {
      flip(row, message_bit_);
      message_bit_ = no_flip;
    } else if (run_.faults.target == FlipTarget::message && flips_now()) {
      flip(row, -1);
    }
    return true;
  }
  void kill(Rank rank) {
    if (is_dead(rank)) return;
    dead_[static_cast<std::size_t>(rank)] = true;
    set_truth();
  }
  void tell_neighbours(Rank failed) {
    for (Rank rank = 0; rank < n_; ++rank) {
      if (is_dead(rank)) continue;
      const int link = at(rank).link_of(failed);
      if (link >= 0) at(rank).on_failure(link);
    }
  }
  void do_flip(const BitFlip& planned) {
    if (run_.faults.target == FlipTarget::message) {
      message_bit_ = planned.bit;  // the next message
      return;
    }
    const Rank rank = planned.rank == no_rank ? live_rank() : planned.rank;
    if (!is_dead(rank)) flip_state(rank, at(rank).links(), planned.bit);
  }
  void break_link(const LinkFailure& failure) {
    for (const auto& [one, other] : {std::pair{failure.a, failure.b}, std::pair{failure.b, failure.a}}) {
      const int link = at(one).link_of(other);
      if (link >= 0 && !is_dead(one)) at(one).on_failure(link);
    }
  }

  void make_ranks() {
    ranks_.reserve(static_cast<std::size_t>(n_));
    const bool lists = run_.plan.neighbourhood.topology != GossipTopology::complete || uses_flows(run_.plan.algorithm);
    std::vector<Real> values(k_);
    for (Rank rank = 0; rank < n_; ++rank) {
      for (std::size_t i = 0; i < k_; ++i) values[i] = static_cast<Real>(value_of(run_, rank, static_cast<int>(i)));
      const auto weight = static_cast<Real>(weight_of(run_, rank));
      ranks_.emplace_back(run_.plan, rank, values, weight, lists);
    }
  }

  // ---- any time, and lock step --------------------------------------------------------------------------------------

  void take_pushes(Rank rank, std::deque<Flight>& flights) {
    for (const auto& send : out_.sends()) {
      Flight flight = flight_of(rank, send);
      if (gets_through(flight)) flights.push_back(std::move(flight));
    }
  }
  Flight flight_of(Rank rank, const typename GossipOutbox<Real>::Send& send) {
    Flight flight;
    flight.from = rank;
    flight.to = at(rank).neighbour(send.link);
    flight.link = at(flight.to).link_of(rank);
    flight.era = send.era;
    flight.ack = send.ack;
    const Mass<Real> row = out_.row(send);
    flight.row.assign(row.begin(), row.end());
    return flight;
  }
  bool gets_through(Flight& flight) {
    const bool survives = survives_the_way(flight.from, flight.to, {flight.row.data(), flight.row.size()});
    note_flight(flight, survives);
    return survives;
  }
  // An iteration of a rank; its sends are in out_.
  void push(Rank rank, std::uint64_t iteration) {
    out_.clear();
    if (run_.faults.target != FlipTarget::message && flips_now()) flip_state(rank, at(rank).links(), -1);
    const int link = at(rank).choose(run_.plan.seed, rank, iteration);
    if (link < 0) return;
    note_mass(rank, -1);
    at(rank).push(link, out_);
    note_mass(rank, 1);
    for (const auto& send : out_.sends()) note_row(ConstMass<Real>(out_.row(send)), 1);
    check_mass();
  }
  void deliver(const Flight& flight) {
    out_.clear();
    if (is_dead(flight.to)) return;
    if (!at(flight.to).is_live(flight.link)) return;  // of a link that has failed
    note_mass(flight.to, -1);
    note_row(flight.row, -1);
    at(flight.to).on_message({flight.link, flight.era, flight.ack, {flight.row.data(), flight.row.size()}}, out_);
    note_mass(flight.to, 1);
    check_mass();
    check_flow(flight);
  }

  void in_lock_step() {
    make_ranks();
    if (look(0)) return;
    std::deque<Flight> flights;
    std::vector<std::pair<int, Rank>> untold;
    for (int round = 0; !stopped_; ++round) {
      for (const RankDeath& death : run_.faults.deaths)
        if (std::ceil(death.time) == round && !is_dead(death.rank)) {
          kill(death.rank);
          untold.emplace_back(round + static_cast<int>(std::ceil(run_.faults.detection_delay)), death.rank);
        }
      for (const auto& [when, failed] : untold)
        if (when == round) tell_neighbours(failed);
      for (const LinkFailure& failure : run_.faults.links)
        if (std::ceil(failure.time) == round) break_link(failure);
      for (const BitFlip& planned : run_.faults.flips)
        if (std::ceil(planned.time) == round) do_flip(planned);
      for (Rank rank = 0; rank < n_; ++rank) {
        if (is_dead(rank)) continue;
        push(rank, static_cast<std::uint64_t>(round));
        take_pushes(rank, flights);
      }
      while (!flights.empty()) {
        const Flight flight = std::move(flights.front());
        flights.pop_front();
        deliver(flight);
        take_pushes(flight.to, flights);
      }
      if (is_time_to_agree(round + 1)) settle_all();
      stopped_ = look(round + 1) || (is_time_to_agree(round + 1) && agrees());
    }
  }

  void post(double time, Kind kind, std::uint32_t index) {
    queue_.push({time, static_cast<std::uint64_t>(kind) << 56 | created_++, index});
  }

  void asynchronously() {
    make_ranks();
    if (look(0)) return;
    iterations_.assign(static_cast<std::size_t>(n_), 0);
    for (Rank rank = 0; rank < n_; ++rank)
      post(slowness_.factor(rank) * uniform_value(mixed(run_.seed, 0x7068617365u), static_cast<std::uint64_t>(rank)),
           Kind::push, static_cast<std::uint32_t>(rank));
    const auto all = [&](const auto& planned, Kind kind) {
      for (std::size_t i = 0; i < planned.size(); ++i) post(planned[i].time, kind, static_cast<std::uint32_t>(i));
    };
    all(run_.faults.deaths, Kind::death);
    all(run_.faults.links, Kind::link);
    all(run_.faults.flips, Kind::flip);
    post(1, Kind::tick, 1);
    while (!stopped_) {
      const Event event = queue_.pop();
      const auto rank = static_cast<Rank>(event.index);
      switch (event.kind()) {
        case Kind::push:
          if (is_dead(rank)) break;
          if (!pauses_) {
            push(rank, iterations_[event.index]++);
            launch(rank, event.time);
          }
          post(event.time + interval(rank), Kind::push, event.index);
          break;
        case Kind::arrival: {
          const Flight flight = std::move(flights_[event.index]);
          free_.push_back(event.index);
          --on_their_way_;
          deliver(flight);
          launch(flight.to, event.time);
          if (pauses_ && on_their_way_ == 0) agree_now(event.time);
          break;
        }
        case Kind::death: {
          const RankDeath& death = run_.faults.deaths[event.index];
          kill(death.rank);
          post(event.time + run_.faults.detection_delay, Kind::told, static_cast<std::uint32_t>(death.rank));
          break;
        }
        case Kind::told: tell_neighbours(rank); break;
        case Kind::link: break_link(run_.faults.links[event.index]); break;
        case Kind::flip: do_flip(run_.faults.flips[event.index]); break;
        case Kind::tick:
          stopped_ = look(static_cast<int>(event.index));
          if (is_time_to_agree(static_cast<int>(event.index)) && !stopped_) {
            pauses_ = true;
            if (on_their_way_ == 0) agree_now(event.time);
          }
          post(event.time + 1, Kind::tick, event.index + 1);
          break;
      }
    }
  }
  void agree_now(double now) {
    pauses_ = false;
    settle_all();
    if (!agrees()) return;
    stopped_ = true;
    result_.rounds = static_cast<int>(std::ceil(now + (2 + agreement_time()) * run_.delay));
  }
  double interval(Rank rank) {
    const double chance =
        uniform_value(mixed(run_.seed, static_cast<std::uint64_t>(rank)), iterations_[static_cast<std::size_t>(rank)]);
    return slowness_.factor(rank) * (1 + run_.jitter * (chance - 0.5));
  }
  void launch(Rank rank, double now) {
    for (const auto& send : out_.sends()) {
      Flight flight = flight_of(rank, send);
      if (!gets_through(flight)) continue;
      // The same for every message of a link: they stay in order.
      const std::uint64_t link =
          mixed(static_cast<std::uint64_t>(flight.from) << 32 | static_cast<std::uint32_t>(flight.to), run_.seed);
      const double delay = run_.delay * hops_of(flight.from, flight.to) *
                           (1 + run_.jitter * (static_cast<double>(link >> 11) * 0x1p-53));
      std::uint32_t index = 0;
      if (free_.empty()) {
        index = static_cast<std::uint32_t>(flights_.size());
        flights_.push_back(std::move(flight));
      } else {
        index = free_.back();
        free_.pop_back();
        flights_[index] = std::move(flight);
      }
      ++on_their_way_;
      post(now + delay, Kind::arrival, index);
    }
  }

  // ---- invariants ---------------------------------------------------------------------------------------------------

  // Push-sum: the masses here and on their way never change their sum. By differences, so it costs little per event.
  bool checks_mass() const {
    return are_events_checked && run_.plan.algorithm == GossipAlgorithm::push_sum && !run_.faults.any();
  }
  void note_mass(Rank rank, int sign) {
    if (!checks_mass()) return;
    std::vector<Real> mass(k_ + 1);
    at(rank).mass(mass);
    note_row(mass, sign);
  }
  void note_row(ConstMass<Real> row, int sign) {
    if (!checks_mass()) return;
    for (std::size_t i = 0; i <= k_; ++i) balance_[i] += sign * static_cast<long double>(row[i]);
  }
  void check_mass() {
    if (!checks_mass()) return;
    ++balanced_events_;
    for (long double each : balance_) {
      assert(std::abs(each) <= static_cast<long double>(balanced_events_) * 4 * std::numeric_limits<Real>::epsilon() &&
             "mass is conserved");
      (void)each;
    }
  }

  // Push-flow: the flow of a link at one end is the negative of that at the other, bit by bit. Exceptions: a message is
  // on its way between them, was lost, or crossed another. An answer that is still in out_ is on its way, too.
  struct LinkWatch {
    int on_their_way = 0;
    Rank last = no_rank;   // whose message was sent last
    bool is_clean = true;  // none has been lost, or has crossed another, since the link was last at rest
  };
  bool checks_flows() const {
    const GossipAlgorithm algorithm = run_.plan.algorithm;
    return are_events_checked && uses_flows(algorithm) && algorithm <= GossipAlgorithm::pfcc &&
           run_.faults.flips.empty() && run_.faults.flip_rate == 0 && run_.faults.deaths.empty() &&
           run_.faults.links.empty();
  }
  LinkWatch& watch_of(const Flight& flight) {
    const auto [low, high] = std::minmax(flight.from, flight.to);
    return watches_[static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint32_t>(high)];
  }
  void note_flight(const Flight& flight, bool survives) {
    if (!checks_flows()) return;
    LinkWatch& watch = watch_of(flight);
    if (watch.on_their_way == 0) watch.is_clean = true;
    if (!survives || (watch.on_their_way > 0 && watch.last != flight.from)) watch.is_clean = false;
    watch.last = flight.from;
    watch.on_their_way += survives;
  }
  void check_flow(const Flight& flight) {
    if (!checks_flows()) return;
    LinkWatch& watch = watch_of(flight);
    if (--watch.on_their_way > 0 || !watch.is_clean || !out_.empty()) return;
    ++result_.checked_flows;
    const Mass<Real> here = at(flight.to).flows(flight.link),
                     there = at(flight.from).flows(at(flight.from).link_of(flight.to));
    for (std::size_t i = 0; i < here.size(); ++i) {
      assert(here[i] == -there[i] && "a flow is conserved");
      (void)here, (void)there;
    }
  }

  // When all links have settled, all weights are there, even if messages crossed before.
  void check_settled() {
    if (!are_events_checked || run_.faults.any() || run_.plan.algorithm == GossipAlgorithm::pcf_printed) return;
    long double weights = 0, initial = 0;
    std::vector<Real> mass(k_ + 1);
    for (Rank rank = 0; rank < n_; ++rank) {
      at(rank).mass(mass);
      weights += static_cast<long double>(mass.back());
      initial += weight_of(run_, rank);
    }
    assert(std::abs(weights - initial) <= 1000 * static_cast<long double>(n_) * std::numeric_limits<Real>::epsilon() &&
           "flows are conserved");
    (void)initial;
  }

  static constexpr int no_flip = -2;

  const GossipRun& run_;
  const GossipProgress& progress_;
  Rank n_;
  std::size_t k_;
  Slowness slowness_;
  Random random_;
  std::vector<GossipRank<Real>> ranks_;
  GossipOutbox<Real> out_;
  GossipResult result_;
  std::vector<bool> dead_;
  std::vector<double> truth_all_, truth_survivors_;
  std::vector<Real> estimate_;
  std::vector<long double> balance_ = std::vector<long double>(k_ + 1, 0);
  std::int64_t balanced_events_ = 0;
  std::unordered_map<std::uint64_t, LinkWatch> watches_;  // of links that have been used
  int limit_ = 0, message_bit_ = no_flip;
  std::int64_t on_their_way_ = 0;
  bool stopped_ = false, pauses_ = false;

  EventQueue<Event> queue_{1.0 / 64};
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint64_t> iterations_;
  std::uint64_t created_ = 0;
};

// Of all ranks' objects, about.
double memory_of(const GossipRun& run) {
  const double n = run.plan.neighbourhood.ranks, number = run.single_precision ? 4 : 8;
  double links = 0;
  if (uses_cycles(run.plan.algorithm))
    links = uses_flows(run.plan.algorithm) ? 2.0 * (run.plan.cycles > 0 ? run.plan.cycles
                                                    : run.rounds > 0    ? run.rounds
                                                                        : 3 * rounds_for(run.plan, run.eps) + 10)
                                           : 0;
  else if (uses_flows(run.plan.algorithm))
    links = run.plan.neighbourhood.topology == GossipTopology::complete
                ? n - 1
                : static_cast<double>(neighbours_of(run.plan.neighbourhood, 0).size());
  const double flows = run.plan.algorithm == GossipAlgorithm::pcf || run.plan.algorithm == GossipAlgorithm::pcf_printed
                           ? 2
                       : run.plan.algorithm == GossipAlgorithm::pcf_flip ? 6
                                                                         : 1;
  return n * (sizeof(GossipRank<double>) + 200 + links * (8 + flows * (run.values + 2) * number));
}

template <class Real>
GossipResult simulate_as(const GossipRun& run, const GossipProgress& progress) {
  if (!goes_by_rounds(run.plan.algorithm)) return World<Real>(run, progress).run();
  GossipResult result;
  ScheduledGossip<Real>(run, progress, rounds_limit(run), result).run();
  return result;
}

}  // namespace

double value_of(const GossipRun& run, Rank rank, int index) {
  if (run.data_function) return run.data_function(rank, index);
  return gossip_value(run.data, run.seed, run.plan.neighbourhood.ranks, rank, index);
}

double weight_of(const GossipRun& run, Rank rank) {
  return run.aggregate == GossipAggregate::sum_one_hot && rank != 0 ? 0 : 1;
}

double gossip_value(GossipData data, std::uint64_t seed, Rank ranks, Rank rank, int index) {
  if (index > 0) seed = mixed(seed, static_cast<std::uint64_t>(index));
  switch (data) {
    case GossipData::uniform: return uniform_value(seed, static_cast<std::uint64_t>(rank));
    case GossipData::normal: return normal_value(seed, static_cast<std::uint64_t>(rank));
    case GossipData::bus: return rank == 0 ? ranks + 1.0 : 1.0;
    case GossipData::ranks: return rank;
  }
  return 0;
}

bool checks_events() { return are_events_checked; }

std::string problem_with(const GossipRun& run) {
  if (const std::string problem = problem_with(run.plan); !problem.empty()) return problem;
  const Rank n = run.plan.neighbourhood.ranks;
  if (!(run.eps > 0) || !std::isfinite(run.eps)) return fmt::format("eps = {}: it must be a positive number", run.eps);
  const double epsilon =
      run.single_precision ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  if (has_checksums(run.plan.algorithm) && run.plan.tau < epsilon)
    return fmt::format("tau = {}: smaller than the rounding errors of the checksums, {:.2g} and more", run.plan.tau,
                       epsilon);
  if (run.physical)
    if (const std::string problem = problem_with(*run.physical); !problem.empty())
      return "the physical topology: " + problem;
  if (static_cast<Rank>(run.faults.deaths.size()) >= n)
    return fmt::format("{} deaths of {} ranks: one must live", run.faults.deaths.size(), n);
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (!can_run_large(run) && memory_of(run) > memory)
    return fmt::format("{} ranks with {} on {} need {:.0f} GiB; this machine has {:.0f}", n,
                       gossip_algorithm_name(run.plan.algorithm), gossip_topology_name(run.plan.neighbourhood.topology),
                       memory_of(run) / 0x1p30, memory / 0x1p30);
  for (const RankDeath& death : run.faults.deaths)
    if (run.root_only && death.rank == 0) return "rank 0 dies, and the error is to be its own";
  for (const RankDeath& death : run.faults.deaths)
    if (death.rank < 0 || death.rank >= n) return fmt::format("a death: rank {} of {}", death.rank, n);
  return problem_with(run.faults, run.plan, run.single_precision ? 32 : 64);
}

GossipResult simulate(const GossipRun& run, const GossipProgress& progress) {
  return run.single_precision ? simulate_as<float>(run, progress) : simulate_as<double>(run, progress);
}

}  // namespace ucft::detail::simulator
