// All gossip algorithms under one name, for the operation that drives them. An algorithm says what a rank does in an
// iteration, with which rank, and what it thinks of the aggregate.
//
//   asynchronous  push_sum, push_flow, pflc, pfcc, pcf, pcf_flip, pcf_printed: in an iteration a rank pushes to a
//                 neighbour chosen by chance; what arrives is taken in at any time
//   by rounds     hps, hpflc, hpfcc, recursive_doubling, ardb: in round t a rank sends to one other and waits for one.
//                 No rank has more than one partner each way (Casas et al. 2018, section 6)
//
// Both are values without clock, thread or I/O. The driver says when an iteration begins.
#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "collectives/gossip/extremum.hpp"
#include "collectives/gossip/neighbourhood.hpp"
#include "collectives/gossip/permutation.hpp"
#include "collectives/gossip/preference.hpp"
#include "collectives/gossip/push_cancel_flow.hpp"
#include "collectives/gossip/push_flow.hpp"
#include "collectives/gossip/push_sum.hpp"
#include "collectives/gossip/recursive_doubling.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail {

enum class GossipAlgorithm : std::uint8_t {
  push_sum,
  push_flow,
  pflc,
  pfcc,
  pcf,
  pcf_flip,
  pcf_printed,
  hps,
  hpflc,
  ardb,
  recursive_doubling,
  hpfcc
};
inline constexpr int gossip_algorithm_count = 12;

std::span<const char* const> gossip_algorithm_names();  // in the order of the enumeration
const char* gossip_algorithm_name(GossipAlgorithm algorithm);
bool parse_gossip_algorithm(std::string_view name, GossipAlgorithm& algorithm);

constexpr bool goes_by_rounds(GossipAlgorithm algorithm) { return algorithm >= GossipAlgorithm::hps; }
constexpr bool uses_cycles(GossipAlgorithm algorithm) {
  return algorithm == GossipAlgorithm::hps || algorithm == GossipAlgorithm::hpflc ||
         algorithm == GossipAlgorithm::hpfcc;
}
constexpr bool has_checksums(GossipAlgorithm algorithm) {
  return algorithm == GossipAlgorithm::pflc || algorithm == GossipAlgorithm::pfcc ||
         algorithm == GossipAlgorithm::hpflc || algorithm == GossipAlgorithm::hpfcc;
}
// Whether lost messages are made good for.
constexpr bool uses_flows(GossipAlgorithm algorithm) {
  return algorithm == GossipAlgorithm::hpfcc ||
         (algorithm >= GossipAlgorithm::push_flow && algorithm != GossipAlgorithm::hps &&
          algorithm < GossipAlgorithm::ardb);
}

// Whether minima and maxima can go its way. The others are there to repair flows, and an extremum has none.
constexpr bool takes_extrema(GossipAlgorithm algorithm) {
  return !has_checksums(algorithm) && algorithm != GossipAlgorithm::pcf_flip &&
         algorithm != GossipAlgorithm::pcf_printed;
}

// Reals in a message of that many values.
constexpr std::size_t row_length_of(GossipAlgorithm algorithm, GossipExtremum extremum, std::size_t values) {
  if (extremum != GossipExtremum::none) return values + 1;
  const std::size_t mass = values + 1 + has_checksums(algorithm);
  const bool cancels = algorithm >= GossipAlgorithm::pcf && algorithm <= GossipAlgorithm::pcf_printed;
  return (cancels ? 2 : 1) * mass + (algorithm == GossipAlgorithm::pcf_flip);
}

// The ranks whose aggregate the survivors of a death agree on. lossy: none; the mass on its way to the dead is missing.
enum class GossipAnswer : std::uint8_t { survivors, all_ranks, lossy };
constexpr GossipAnswer answer_after_death(GossipAlgorithm algorithm) {
  if (algorithm == GossipAlgorithm::pcf || algorithm == GossipAlgorithm::pcf_flip ||
      algorithm == GossipAlgorithm::pcf_printed)
    return GossipAnswer::all_ranks;
  return uses_flows(algorithm) ? GossipAnswer::survivors : GossipAnswer::lossy;
}

// The same on all ranks.
struct GossipPlan {
  GossipAlgorithm algorithm = GossipAlgorithm::pcf;
  GossipExtremum extremum = GossipExtremum::none;  // instead of a mean: the algorithm only says who sends when to whom
  Neighbourhood neighbourhood;  // of the asynchronous ones; of the others only its number of ranks counts
  bool accelerated =
      false;  // asynchronous, not on complete: pushes go rather to ranks that think otherwise (preference.hpp)
  std::uint64_t seed = 1;        // of choices and cycles
  double tau = 0;                // of checksums: absolute, in the unit of the data
  bool repairs_initial = false;  // with checksums: what a rank gave, if it was corrupted
  int rounds = 0;                // by rounds: how many; ardb: of its doublings. 0: recursive_doubling's own number
  int cycles = 0;                // hps, hpflc, hpfcc: so many, used in turn; 0: a new one in each round
};

inline constexpr int most_cycles = 1 << 20;

// "" or what is wrong with it.
std::string problem_with(const GossipPlan& plan);

// One round of one rank. A link is what flows are kept by: the sender's and the receiver's name for it differ.
struct GossipRound {
  Rank to = no_rank, from = no_rank;
  int link_to = 0, link_from = 0;
};

// The partners of a rank in each round.
class GossipSchedule {
 public:
  explicit GossipSchedule(const GossipPlan& plan);

  int rounds() const { return rounds_; }
  int links() const { return 2 * kept_cycles_; }  // of a rank
  GossipRound round(Rank rank, int number) const;
  Rank end(Rank rank, int link) const;  // of cycles: the rank at the other end, whose name for the link is link ^ 1

 private:
  GossipRound doubling(Rank rank, int number) const;

  GossipAlgorithm algorithm_;
  Rank ranks_, extra_ = 0;  // extra_: ranks beyond a power of two
  int rounds_ = 0, doublings_ = 0, kept_cycles_ = 1;
  std::vector<Permutation> cycles_;
};

// The rounds (iterations per rank) that it takes until the worst relative error is below eps. The data vary by
// variation times their mean (0.577: uniform from 0). docs/gossip.md compares this with simulations.
int rounds_for(const GossipPlan& plan, double eps, double variation = 0.577);

template <class Real>
class GossipRank {
 public:
  // values: this rank's. weight: 1, or what it counts for. lists false: of the complete topology, for so many ranks
  // that a list of neighbours in each is too much. Then neighbours() and live_links() are empty, and all else is the
  // same.
  GossipRank(const GossipPlan& plan, Rank me, ConstMass<Real> values, Real weight, bool lists = true);
  // For drivers that have many ranks: by rounds with this schedule's links.
  GossipRank(const GossipPlan& plan, const GossipSchedule& schedule, ConstMass<Real> values, Real weight);

  std::size_t row_length() const {
    return std::visit([](const auto& rule) { return rule.row_length(); }, rule_);
  }
  std::span<const Rank> neighbours() const { return neighbours_; }
  int links() const { return links_; }
  Rank neighbour(int link) const {
    return lists_ ? neighbours_[static_cast<std::size_t>(link)] : link < me_ ? link : link + 1;
  }
  int link_of(Rank neighbour) const;  // -1: none
  std::span<const int> live_links() const { return live_; }
  bool is_live(int link) const;

  // The neighbour of an asynchronous rank's next push, by chance; -1: all are dead.
  int choose(std::uint64_t seed, Rank me, std::uint64_t iteration) const {
    Random random(mixed(mixed(seed, static_cast<std::uint64_t>(me)), iteration));
    if (lists_) return live_.empty() ? -1 : choose_of(live_, random);
    if (dead_.size() == static_cast<std::size_t>(links_)) return -1;
    for (;;)
      if (const int link = static_cast<int>(random.below(static_cast<std::uint64_t>(links_))); is_live(link))
        return link;
  }
  // One of these links, at least one. All are equally likely, or if accelerated chosen by preference.
  int choose_of(std::span<const int> links, Random& random) const;
  void push(int link, GossipOutbox<Real>& out) {
    std::visit([&](auto& rule) { rule.push(link, out); }, rule_);
  }
  // Sends what that neighbour has to know, and pushes nothing. It is called when all have stopped pushing, on each link
  // first by one side, and by the other when it has received that. Then flows and masses are conserved exactly,
  // whichever messages crossed before. Only then is the aggregate the mean of all ranks' estimates by weight.
  void settle(int link, GossipOutbox<Real>& out) {
    std::visit([&](auto& rule) { rule.settle(link, out); }, rule_);
  }
  void on_message(const GossipArrival<Real>& arrival, GossipOutbox<Real>& out) {
    assert(arrival.row.size() == row_length());
    if (preference_.is_active()) return learn_from(arrival, out);
    std::visit([&](auto& rule) { rule.on_message(arrival, out); }, rule_);
  }
  void on_failure(int link) {
    std::visit([&](auto& rule) { rule.on_failure(link); }, rule_);
    std::erase(live_, link);
    if (!lists_ && is_live(link)) dead_.push_back(link);
  }

  // The current mass: the values and a weight behind them.
  void mass(Mass<Real> mass) const;
  // The mean of the values per weight. False: nothing can be said, as there is no weight here (yet).
  bool estimate(Mass<Real> values) const;

  // More of what this rank starts with. Asynchronous: at any moment. Returns what rounding may do to its mass by that.
  MassError add_input(ConstMass<Real> values, Real weight);

  // Cooperative correction by rounds: see PushFlow. All are of hpfcc alone.
  void add_bad_links(std::vector<int>& found) const { flow_rule().add_bad_links(found); }
  bool is_good(ConstMass<Real> row) const { return flow_rule().is_good(row); }
  void answer(int link, GossipOutbox<Real>& out) { std::get<PushFlow<Real>>(rule_).answer(link, out); }
  void take_answer(int link, ConstMass<Real> row) { std::get<PushFlow<Real>>(rule_).take_answer(link, row); }

  // Of checksums, in whatever step: what has been taken in already is judged by it, too.
  void set_tau(double tau) {
    if (auto* const flows = std::get_if<PushFlow<Real>>(&rule_)) flows->set_tau(tau);
  }

  // By rounding, so far.
  MassError error() const {
    return std::visit([](const auto& rule) { return rule.error(); }, rule_);
  }

  // For fault injection, and for invariants.
  Mass<Real> local_data() {
    return std::visit([](auto& rule) { return rule.local_data(); }, rule_);
  }
  Mass<Real> flows(int link) {
    return std::visit([&](auto& rule) { return rule.flows(link); }, rule_);
  }

 private:
  const PushFlow<Real>& flow_rule() const { return std::get<PushFlow<Real>>(rule_); }
  using Rule = std::variant<PushSum<Real>, PushFlow<Real>, PushCancelFlow<Real>, PushCancelFlowPrinted<Real>,
                            RecursiveDoubling<Real>, Extremum<Real>>;
  static Rule make_rule(const GossipPlan& plan, Rank me, std::span<const Rank> neighbours, int links,
                        ConstMass<Real> values, Real weight);
  void learn_from(const GossipArrival<Real>& arrival, GossipOutbox<Real>& out);

  int links_ = 0;
  Rank me_ = no_rank;
  bool lists_ = true;
  std::vector<Rank> neighbours_;
  std::vector<int> live_, dead_;  // links; dead_: without lists
  Rule rule_;
  GossipPreference<Real> preference_;
  mutable std::vector<Real> scratch_;
};

// The kind of a message by rounds, in its `era`. A question's and an answer's `ack` is the receiver's name of the link.
enum GossipRoundMessage : std::uint32_t { is_push = 0, asks_for_flow = 1, answers_with_flow = 2 };

// A rank that goes by rounds, driven by messages: it sends in a round, waits for one message of that round, and goes
// on.
//
// hpfcc corrects flows cooperatively. A rank that finds a flow, or a row that has come, bad asks the rank at the other
// end for its own, and goes on when the answer is there. So what it pushes is half of a right mass, and no flow is
// zeroed. A question has the asker's round. It is answered by a rank that has begun that round, as then it has taken in
// all that the asker has pushed. No ranks wait for each other: of those that wait, the one in the earliest round has
// its answer from ranks that are no earlier.
template <class Real>
class GossipByRounds {
 public:
  GossipByRounds(const GossipPlan& plan, Rank me, ConstMass<Real> values, Real weight)
      : schedule_(plan),
        state_(plan, schedule_, values, weight),
        me_(me),
        asks_(plan.algorithm == GossipAlgorithm::hpfcc) {
    dead_.assign(static_cast<std::size_t>(plan.neighbourhood.ranks), false);
  }

  // Links in the outbox are the round of the send: link = round, and to() says to which rank.
  void start(GossipOutbox<Real>& out) { advance(out); }
  // row: empty if it was lost. False: it belongs to a later round; the driver keeps it and tries again after the next
  // step.
  bool on_message(int round, ConstMass<Real> row, GossipOutbox<Real>& out);
  // A question or an answer. False: as above.
  bool on_repair(const GossipArrival<Real>& arrival, Rank from, GossipOutbox<Real>& out);
  void on_failure(Rank failed, GossipOutbox<Real>& out);

  Rank to(const typename GossipOutbox<Real>::Send& send) const {
    return send.era == is_push ? schedule_.round(me_, send.link).to
                               : schedule_.end(me_, static_cast<int>(send.ack) ^ 1);
  }
  // Whether the message of that round ends it now.
  bool awaits(int round) const { return round == round_ && sent_; }
  bool finished() const { return is_over() && awaited_.empty(); }
  int round() const { return round_; }
  int rounds() const { return schedule_.rounds(); }
  int links() const { return schedule_.links(); }
  const GossipRank<Real>& state() const { return state_; }
  GossipRank<Real>& state() { return state_; }

 private:
  void advance(GossipOutbox<Real>& out);
  void push(int link, GossipOutbox<Real>& out);
  void ask(int link, GossipOutbox<Real>& out);
  bool is_over() const { return round_ == schedule_.rounds(); }

  GossipSchedule schedule_;
  GossipRank<Real> state_;
  GossipOutbox<Real> pushed_;
  std::vector<bool> dead_;
  std::vector<int> awaited_;  // links whose answer is on its way
  Rank me_;
  bool asks_;
  int round_ = 0;
  bool sent_ = false;
};

extern template class GossipRank<float>;
extern template class GossipRank<double>;
extern template class GossipByRounds<float>;
extern template class GossipByRounds<double>;

}  // namespace ucft::detail
